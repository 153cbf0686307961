"""Undoing of a consolidation: the originals are restored, and the merged memory is deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memsvc.domain.consolidation import SOURCE, restore_original
from memsvc.domain.errors import (
    InvalidRequestError,
    MemoryExistsError,
    MemoryNotFoundError,
    MemorySupersededError,
    RevisionConflictError,
    Violation,
)
from memsvc.domain.history import changed_fields
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import UNNAMED, Memory, Status
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.visibility import visible
from memsvc.domain.write_requests import Outcome, UpsertResult, WriteOptions, WriteResult
from memsvc.engine.commit.idempotency import IdempotentExecutor, IdempotentRequest, not_found_error, request_digest
from memsvc.engine.conflicts.state_updates import ConflictStateUpdater
from memsvc.engine.consolidation.candidates import REVISIONS, project_reach
from memsvc.engine.memories.summaries import were_deleted_together
from memsvc.engine.records.memory_builder import MemoryBuilder, RecordBuilder
from memsvc.ports.metadata import MemoryReads, Transaction

_LINK_FIELDS = frozenset({"status", "superseded_by_id", "supersedes_id"})
"""Fields of a merged memory that are not content of its own."""


class ConsolidationUndo:
    """Undoes consolidations, each in one transaction."""

    def __init__(
        self,
        memory_builder: MemoryBuilder,
        record_builder: RecordBuilder,
        requests: IdempotentExecutor,
        reads: MemoryReads,
    ) -> None:
        """Write by these parts; *reads* loads earlier revisions."""
        self._memory_builder = memory_builder
        self._record_builder = record_builder
        self._requests = requests
        self._reads = reads
        self._conflict_states = ConflictStateUpdater(record_builder, memory_builder.now)

    def undo(
        self, scope: Scope, memory_id: str, *, expected_revision: int, options: WriteOptions
    ) -> tuple[WriteResult, tuple[WriteResult, ...]]:
        """Undo the consolidation that created a memory, or archived it; return the merged memory and the originals.

        The originals return to their earlier state, with changes made since. The merged memory is DELETED, with all its
        revisions.

        Raises:
            MemoryNotFoundError: The memory is not visible to the scope.
            InvalidRequestError: No consolidation created it, it was undone already, or it has an open conflict.
            RevisionConflictError: The merged memory was changed, and no revision was expected (0), or it has another
                revision than expected.
            MemorySupersededError: The merged memory was superseded; undo that first.
            MemoryExistsError: Another memory has the key of an original.
            RequestIdReusedError: The request_id was used for another request.
        """
        digest = request_digest(scope, memory_id, expected_revision) if options.request_id else ""
        request = IdempotentRequest("UndoConsolidation", options.request_id, digest, Reach.from_scope(scope))

        def work(transaction: Transaction) -> list[UpsertResult]:
            merged = self._load_merged(transaction, scope, memory_id)
            return self._undo(transaction, merged, expected_revision)

        results, _ = self._requests.run_once(request, work)
        written: list[WriteResult] = []
        for result in results:
            if not isinstance(result, WriteResult):
                raise not_found_error(result)
            written.append(result)
        return written[0], tuple(written[1:])

    def _load_merged(self, transaction: Transaction, scope: Scope, memory_id: str) -> Memory:
        """Return the merged memory: the named one, or the successor of a named original."""
        reach = Reach.from_scope(scope)
        memory = transaction.get(memory_id, reach=reach)
        if memory is None or not visible(memory, scope):
            raise MemoryNotFoundError(memory_id)
        if self._original_ids(memory):
            return memory
        merged = transaction.get(memory.superseded_by_id, reach=reach) if memory.superseded_by_id else None
        if merged is not None and memory.id in self._original_ids(merged):
            return merged
        if self._was_original(transaction, memory):
            raise _undone_error()
        raise InvalidRequestError([Violation("id", "Names a memory that no consolidation made or archived.")])

    def _was_original(self, transaction: Transaction, memory: Memory) -> bool:
        """Return whether an earlier revision was archived for a merged memory that is still stored."""
        reach, before = project_reach(memory), None
        seen: set[str] = set()
        while past := self._reads.revisions(memory.id, reach=reach, before=before, limit=REVISIONS):
            for successor_id in {one.memory.superseded_by_id for one in past} - seen - {""}:
                merged = transaction.get(successor_id, reach=reach)
                if merged is not None and memory.id in self._original_ids(merged):
                    return True
                seen.add(successor_id)
            before = past[-1].memory.revision
        return False

    def _original_ids(self, memory: Memory) -> tuple[str, ...]:
        """Return the ids of the originals of a consolidated memory, or none."""
        first = self._first_revision(memory)
        return first.derived_from_ids if first is not None and first.source == SOURCE else ()

    def _first_revision(self, memory: Memory) -> Memory | None:
        return memory if memory.revision == 1 else self._reads.revision(memory.id, 1, reach=project_reach(memory))

    def _require_expected(self, merged: Memory, expected_revision: int) -> None:
        first = self._first_revision(merged)
        is_changed = first is not None and not _LINK_FIELDS.issuperset(changed_fields(first, merged))
        if expected_revision not in {0, merged.revision} or (expected_revision == 0 and is_changed):
            raise RevisionConflictError(merged.id, expected_revision or 1, merged.revision)

    def _undo(self, transaction: Transaction, merged: Memory, expected_revision: int) -> list[UpsertResult]:
        if merged.superseded_by_id:
            raise MemorySupersededError(merged.id, merged.superseded_by_id)
        if transaction.open_conflicts(merged.scope.owner, [merged.id]):
            description = "Names a memory with an open conflict: resolve it first; ListConflicts returns it."
            raise InvalidRequestError([Violation("id", description)])
        reach = project_reach(merged)
        found = [transaction.get(memory_id, reach=reach) for memory_id in self._original_ids(merged)]
        originals = [one for one in found if one is not None and one.superseded_by_id == merged.id]
        if not originals:
            raise _undone_error()
        self._require_expected(merged, expected_revision)
        deleted = self._delete(transaction, merged)
        return [UpsertResult(deleted, Outcome.UPDATED), *self._restore(transaction, originals, merged)]

    def _delete(self, transaction: Transaction, merged: Memory) -> Memory:
        now = self._memory_builder.now()
        after = replace(merged, status=Status.DELETED, supersedes_id="", update_time=now, revision=merged.revision + 1)
        action = ChangeAction.UPDATED if merged.status is Status.DELETED else ChangeAction.DELETED
        transaction.update(merged, self._record_builder.record(merged, after), action)
        self._conflict_states.update(transaction, [after])
        return after

    def _restore(self, transaction: Transaction, originals: Sequence[Memory], merged: Memory) -> list[UpsertResult]:
        now = self._memory_builder.now()
        placed: list[UpsertResult] = []
        for before in originals:
            after = restore_original(_as_archived(before, merged), self._state_before(before), now)
            if after.key and after.status not in UNNAMED:
                _require_free_key(transaction, after)
            # Another memory may have the same content, as it did before.
            record, _ = self._record_builder.claim(transaction, self._record_builder.record(before, after))
            transaction.update(before, record, ChangeAction.UPDATED)
            placed.append(UpsertResult(after, Outcome.UPDATED))
        return placed

    def _state_before(self, original: Memory) -> Memory:
        """Return an original as it was before it was archived for its successor."""
        reach, before = project_reach(original), None
        while past := self._reads.revisions(original.id, reach=reach, before=before, limit=REVISIONS):
            for one in past:
                if one.memory.superseded_by_id != original.superseded_by_id:
                    return one.memory
            before = past[-1].memory.revision
        # Its first revision is archived already: it was imported so.
        return replace(original, status=Status.ACTIVE, superseded_by_id="")


def _undone_error() -> InvalidRequestError:
    return InvalidRequestError([Violation("id", "Names a consolidation that was undone already.")])


def _as_archived(original: Memory, merged: Memory) -> Memory:
    """Return an original that was deleted with the merged memory as it was before."""
    is_deleted = merged.status is Status.DELETED and were_deleted_together(original, merged)
    return replace(original, status=Status.ARCHIVED) if is_deleted else original


def _require_free_key(transaction: Transaction, memory: Memory) -> None:
    name = (memory.scope.project_id, memory.key)
    bearer = transaction.find_keys(memory.scope.owner, [name]).get(name)
    if bearer is not None and bearer.id != memory.id:
        raise MemoryExistsError(bearer.id, key=memory.key)
