"""Archive on call: a memory is put out of use, and can come back."""

from __future__ import annotations

from memsvc.domain.errors import InvalidRequestError, Violation
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import Status, put_away
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.write_requests import Outcome, WriteOptions, Written
from memsvc.engine.commit.idempotency import IdempotentExecutor, Request, digest_of, gone
from memsvc.engine.conflicts.finding import require_memory
from memsvc.engine.conflicts.state_updates import ConflictStateUpdater
from memsvc.engine.memories.recording import RecordBuilder
from memsvc.engine.memories.upsert import UpsertResult
from memsvc.engine.records.memory_builder import MemoryBuilder
from memsvc.ports.metadata import Transaction

_ARCHIVABLE = frozenset({Status.ACTIVE, Status.CONFLICTED})


class ArchiveMemory:
    """Archives single memories, each one transaction and one revision."""

    def __init__(self, drafting: MemoryBuilder, recording: RecordBuilder, requests: IdempotentExecutor) -> None:
        """Write by these parts."""
        self._recording = recording
        self._requests = requests
        self._now = drafting.now
        self._settling = ConflictStateUpdater(recording, drafting.now)

    def archive(self, scope: Scope, memory_id: str, *, expected_revision: int, options: WriteOptions) -> Written:
        """Make a memory ARCHIVED; one that is so already stays as it is (outcome DUPLICATE).

        Raises:
            MemoryNotFoundError: It is not there, deleted, or another session's private one.
            RevisionConflictError: It is at another revision than expected (0: any).
            InvalidRequestError: It is neither in use nor archived.
            RequestIdReusedError: The request_id was used for another request.
        """
        digest = digest_of(scope, memory_id, expected_revision) if options.request_id else ""
        request = Request("ArchiveMemory", options.request_id, digest, Reach.from_scope(scope))

        def work(transaction: Transaction) -> list[UpsertResult]:
            return [self._archive(transaction, scope, memory_id, expected_revision)]

        (written,), _ = self._requests.once(request, work)
        if not isinstance(written, Written):
            raise gone(written)
        return written

    def _archive(self, transaction: Transaction, scope: Scope, memory_id: str, expected_revision: int) -> UpsertResult:
        before = require_memory(transaction, scope, memory_id, expected_revision=expected_revision)
        if before.status is Status.ARCHIVED:
            return UpsertResult(before, Outcome.DUPLICATE)
        if before.status not in _ARCHIVABLE:
            description = f"Names a memory that is {before.status.value}; only one in use can be archived."
            raise InvalidRequestError([Violation("id", description)])
        after = put_away(before, Status.ARCHIVED, self._now())
        transaction.update(before, self._recording.relabelled(after), ChangeAction.UPDATED)
        self._settling.after(transaction, [after])
        return UpsertResult(after, Outcome.UPDATED)
