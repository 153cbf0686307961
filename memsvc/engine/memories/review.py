"""Review of quarantined memories."""

from __future__ import annotations

from dataclasses import replace

from memsvc.domain.conflicts import ConflictPolicy
from memsvc.domain.errors import (
    MemoryExistsError,
    MemoryNotFoundError,
    NotQuarantinedError,
    RevisionConflictError,
)
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import Memory, Review, Status
from memsvc.domain.provenance import ReviewVerdict
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.visibility import visible
from memsvc.domain.write_requests import Outcome, UpsertResult, WriteOptions, WriteResult
from memsvc.engine.commit.idempotency import IdempotentExecutor, IdempotentRequest, not_found_error, request_digest
from memsvc.engine.conflicts.detection import ConflictDetector
from memsvc.engine.memories.summaries import SummaryUpdater
from memsvc.engine.memories.update import renew_expiry, require_free_key
from memsvc.engine.records.memory_builder import MemoryBuilder, RecordBuilder
from memsvc.ports.metadata import Transaction


class ReviewService:
    """Approves or rejects quarantined memories, each in one transaction as one revision."""

    def __init__(
        self,
        memory_builder: MemoryBuilder,
        record_builder: RecordBuilder,
        requests: IdempotentExecutor,
        summary_updater: SummaryUpdater,
    ) -> None:
        """Write by these parts."""
        self._summary_updater = summary_updater
        self._record_builder = record_builder
        self._requests = requests
        self._now = memory_builder.now
        self._conflict_detector = ConflictDetector(memory_builder, record_builder)

    def decide(
        self, scope: Scope, memory_id: str, verdict: ReviewVerdict, *, expected_revision: int, options: WriteOptions
    ) -> WriteResult:
        """Approve a quarantined memory, which becomes ACTIVE, or reject it, which soft-deletes it.

        Conflicts of an approved memory are detected now: searches see it for the first time.

        Raises:
            MemoryNotFoundError: The memory does not exist, is deleted other than by a review, or is private to another
                session.
            RevisionConflictError: The memory has another revision than expected (0: any).
            NotQuarantinedError: The memory is not quarantined, for instance because another review rejected it.
            MemoryExistsError: Another memory has its key or content, so it cannot be approved.
            RequestIdReusedError: The request_id was used for another request.
        """
        asked = request_digest(scope, memory_id, verdict, expected_revision) if options.request_id else ""
        request = IdempotentRequest("ReviewMemory", options.request_id, asked, Reach.from_scope(scope))

        def work(transaction: Transaction) -> list[UpsertResult]:
            before = _require_quarantined(transaction, scope, memory_id, expected_revision)
            return [
                self._approve(transaction, before, options.on_conflict)
                if verdict is ReviewVerdict.APPROVE
                else self._reject(transaction, before)
            ]

        (written,), _ = self._requests.run_once(request, work)
        if not isinstance(written, WriteResult):
            raise not_found_error(written)
        return written

    def _approve(self, transaction: Transaction, before: Memory, on_conflict: ConflictPolicy) -> UpsertResult:
        after = self._next(before, Status.ACTIVE, Review.APPROVED)
        # A memory may wait for its review beyond its time.
        after = replace(after, expire_time=renew_expiry(before, after.update_time))
        require_free_key(transaction, after)
        record, holder = self._record_builder.claim(transaction, self._record_builder.record(before, after))
        if holder is not None and visible(holder, before.scope):
            raise MemoryExistsError(holder.id)
        transaction.update(before, record, ChangeAction.UPDATED)
        self._summary_updater.add(transaction, before, record.memory)
        findings = self._conflict_detector.detect(transaction, [record.memory], policy=on_conflict)
        return UpsertResult(findings.current(record.memory), Outcome.UPDATED, findings.contradictions(record.memory))

    def _reject(self, transaction: Transaction, before: Memory) -> UpsertResult:
        after = self._next(before, Status.DELETED, Review.REJECTED)
        transaction.update(before, self._record_builder.record(before, after), ChangeAction.DELETED)
        return UpsertResult(after, Outcome.UPDATED)

    def _next(self, before: Memory, status: Status, review: Review) -> Memory:
        return replace(before, status=status, review=review, update_time=self._now(), revision=before.revision + 1)


def _require_quarantined(transaction: Transaction, scope: Scope, memory_id: str, expected_revision: int) -> Memory:
    memory = transaction.get(memory_id, reach=Reach.from_scope(scope))
    is_rejected = memory is not None and memory.review is Review.REJECTED
    if memory is None or (memory.status is Status.DELETED and not is_rejected) or not visible(memory, scope):
        raise MemoryNotFoundError(memory_id)
    if memory.status is Status.DELETED:
        # Another review rejected it; no read would return the revision to expect.
        raise NotQuarantinedError(memory.id, memory.status.value)
    if expected_revision not in {0, memory.revision}:
        raise RevisionConflictError(memory.id, expected_revision, memory.revision)
    if memory.status is not Status.QUARANTINED:
        raise NotQuarantinedError(memory.id, memory.status.value)
    return memory
