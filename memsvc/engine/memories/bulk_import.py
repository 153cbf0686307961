"""Bulk import: batches of memories, each durable together with the progress of the import."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from memsvc.domain.conflicts import ConflictPolicy
from memsvc.domain.errors import InvalidRequestError, Violation
from memsvc.domain.memory import Origin
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.write_requests import Draft, ImportProgress, OnDuplicate, Outcome, RejectedItem, UpsertResult
from memsvc.engine.commit.group_committer import CommitPipeline, CommitResult, GroupCommitter
from memsvc.engine.commit.idempotency import IdempotentRequest, recall_answer, remember_answer, request_digest
from memsvc.engine.memories.lookup import AccessCounts
from memsvc.engine.memories.upsert import Upserter, UpsertItem, as_rejection
from memsvc.engine.records.memory_builder import MemoryBuilder, PreparedMemory
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.ports.metadata import Transaction

_METHOD = "ImportMemories"
_COUNTS = ("received", "created", "updated", "duplicates", "failed", "redacted", "conflicts", "next_index", "position")
_COUNT_OF = {Outcome.CREATED: "created", Outcome.UPDATED: "updated", Outcome.DUPLICATE: "duplicates"}


class BulkImporter:
    """Starts and resumes imports."""

    def __init__(
        self,
        committer: GroupCommitter,
        memory_builder: MemoryBuilder,
        upserter: Upserter,
        accesses: AccessCounts,
        search_priority: SearchPriority,
    ) -> None:
        """Import by these parts."""
        self._parts = _ImportDependencies(committer, memory_builder, upserter, accesses, search_priority)

    def begin(
        self, scope: Scope, *, request_id: str, on_duplicate: OnDuplicate, on_conflict: ConflictPolicy | None = None
    ) -> ImportRun:
        """Return the import of this request_id at its progress; without one a new import, which cannot be resumed.

        Without a conflict policy imported memories are not compared with others; later writes are compared with them.

        Raises:
            RequestIdReusedError: The request_id belongs to an import of another scope or with other options.
        """
        digest = request_digest(scope, on_duplicate, on_conflict) if request_id else ""
        request = IdempotentRequest(_METHOD, request_id, digest, Reach.from_scope(scope))
        progress = ImportProgress()
        if request_id:
            progress = self._parts.committer.submit(
                lambda transaction: _load_progress(transaction, request), owner=scope.owner
            ).value
        return ImportRun(self._parts, request, scope, _Choices(on_duplicate, on_conflict), progress)


class ImportRun:
    """A running import; one thread may prepare the next batch while another stores the previous one."""

    def __init__(
        self,
        parts: _ImportDependencies,
        request: IdempotentRequest,
        scope: Scope,
        choices: _Choices,
        progress: ImportProgress,
    ) -> None:
        """Continue from *progress*; obtained from `BulkImporter.begin`."""
        self._parts = parts
        self._request = request
        self._scope = scope
        self._choices = choices
        self._progress = progress
        self._pipeline: CommitPipeline[_StoredBatch] = CommitPipeline(parts.committer, scope.owner)

    @property
    def progress(self) -> ImportProgress:
        """Return the progress over all runs of the import. Failures and unstored keys are those of the latest `add`."""
        return self._progress

    def add(self, first_index: int, drafts: Sequence[Draft | RejectedItem]) -> ImportProgress:
        """Store the memories from *first_index* on in one transaction; return once they are durable.

        Memories below `next_index` are skipped. Counts cover all runs, failures and unstored keys only
        this call.

        Raises:
            InvalidRequestError: *first_index* is negative or leaves a gap.
        """
        self.store(self.prepare(first_index, drafts))
        return self.settle()

    def prepare(self, first_index: int, drafts: Sequence[Draft | RejectedItem]) -> PreparedBatch:
        """Return the memories from *first_index* on, ready for `store`; `store` reports invalid ones."""
        start = max(first_index, self._progress.next_index)
        items = self._parts.memory_builder.prepare_all(
            self._scope, drafts[max(0, start - first_index) :], Origin.IMPORT
        )
        return PreparedBatch(first_index, start, items)

    def store(self, prepared: PreparedBatch) -> ImportProgress:
        """Start storing a prepared batch, in order; return the progress once the previous batch is durable.

        Raises:
            InvalidRequestError: The previous batch failed, as in `add`; nothing of this one is stored either.
        """
        self._parts.search_priority.yield_to_searches()
        return self._progress_after(
            self._pipeline.put(
                lambda transaction, before: self._store(transaction, prepared, before),
                size=sum(item.size for item in prepared.items if isinstance(item, PreparedMemory)),
            )
        )

    def settle(self) -> ImportProgress:
        """Return the progress once all started batches are durable; raises what `add` raises."""
        return self._progress_after(self._pipeline.settle())

    def _progress_after(self, committed: CommitResult[_StoredBatch] | None) -> ImportProgress:
        if committed is None:
            return replace(self._progress, failures=(), unstored_keys=())
        batch = committed.value
        position = batch.progress.position
        if any(isinstance(result, UpsertResult) for result in batch.results):
            position = max(position, committed.position)
        self._parts.accesses.note(
            result.memory.id
            for result in batch.results
            if isinstance(result, UpsertResult) and result.outcome is Outcome.DUPLICATE
        )
        self._progress = replace(batch.progress, position=max(position, self._progress.position))
        return self._progress

    def _store(self, transaction: Transaction, prepared: PreparedBatch, before: _StoredBatch | None) -> _StoredBatch:
        # The stored progress counts, not that of this object: another stream of the same import may be ahead.
        answer = recall_answer(transaction, self._request)
        progress = ImportProgress(**answer) if answer is not None else before.progress if before else self._progress
        first, known = prepared.first_index, progress.next_index
        if not 0 <= first <= known:
            description = f"Must be in 0 to {known}, the index after the last memory, not {first}."
            raise InvalidRequestError([Violation("batch.first_index", description)])
        waiting = prepared.items[max(0, known - prepared.start) :]
        if not waiting:
            return _StoredBatch(replace(progress, failures=(), unstored_keys=()), ())
        upserted = self._parts.upserter.upsert(
            transaction, waiting, self._choices.on_duplicate, self._choices.on_conflict
        )
        results = [as_rejection(result) for result in upserted]
        redacted = sum(isinstance(item, PreparedMemory) and bool(item.redactions) for item in waiting)
        keys = [item.draft.key if isinstance(item, PreparedMemory) else "" for item in waiting]
        reached = _advance_progress(progress, results, keys, transaction.position, redacted=redacted)
        remember_answer(transaction, self._request, _as_json(reached))
        return _StoredBatch(reached, results)


@dataclass(frozen=True, slots=True)
class _ImportDependencies:
    """Dependencies of an import."""

    committer: GroupCommitter
    memory_builder: MemoryBuilder
    upserter: Upserter
    accesses: AccessCounts
    search_priority: SearchPriority


@dataclass(frozen=True, slots=True)
class _Choices:
    """The handling of duplicates and conflicts."""

    on_duplicate: OnDuplicate
    on_conflict: ConflictPolicy | None


@dataclass(frozen=True, slots=True)
class _StoredBatch:
    """The result of one batch."""

    progress: ImportProgress
    results: Sequence[UpsertResult | RejectedItem]


@dataclass(frozen=True, slots=True)
class PreparedBatch:
    """Memories that are ready to be stored.

    Attributes:
        first_index: The index of the first memory that the client sent.
        start: The index of the first prepared memory; earlier ones are durable already.
    """

    first_index: int
    start: int
    items: Sequence[UpsertItem]


def _load_progress(transaction: Transaction, request: IdempotentRequest) -> ImportProgress:
    answer = recall_answer(transaction, request)
    if answer is not None:
        return ImportProgress(**answer)
    remember_answer(transaction, request, _as_json(ImportProgress()))
    return ImportProgress()


def _advance_progress(
    progress: ImportProgress,
    results: Sequence[UpsertResult | RejectedItem],
    keys: Sequence[str],
    position: int,
    *,
    redacted: int,
) -> ImportProgress:
    counts = {name: getattr(progress, name) for name in _COUNTS}
    failures: list[tuple[int, RejectedItem]] = []
    unstored: list[tuple[int, str]] = []
    for index, (result, key) in enumerate(zip(results, keys, strict=True), start=progress.next_index):
        if isinstance(result, RejectedItem):
            failures.append((index, result))
            counts["failed"] += 1
        else:
            counts[_COUNT_OF[result.outcome]] += 1
            counts["conflicts"] += len(result.conflicts)
            if key not in {"", result.memory.key}:
                unstored.append((index, result.memory.id))
    counts["received"] += len(results)
    counts["redacted"] += redacted
    counts["next_index"] += len(results)
    counts["position"] = max(progress.position, position)
    return ImportProgress(**counts, failures=tuple(failures), unstored_keys=tuple(unstored))


def _as_json(progress: ImportProgress) -> dict[str, Any]:
    return {name: getattr(progress, name) for name in _COUNTS}
