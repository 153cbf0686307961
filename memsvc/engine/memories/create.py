"""Creation of memories, one or many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from memsvc.domain.errors import MemoryNotFoundError, MemsvcError
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.write_requests import (
    BatchWriteResult,
    Draft,
    Outcome,
    RejectedItem,
    UpsertResult,
    WriteOptions,
    WriteResult,
)
from memsvc.engine.commit.idempotency import (
    IdempotentExecutor,
    IdempotentRequest,
    RequestResult,
    not_found_error,
    request_digest,
)
from memsvc.engine.memories.lookup import AccessCounts
from memsvc.engine.memories.upsert import ItemResult, Upserter, as_rejection
from memsvc.engine.records.memory_builder import MemoryBuilder, PreparedMemory
from memsvc.ports.metadata import Transaction

R = TypeVar("R", WriteResult, WriteResult | RejectedItem)


class MemoryCreator:
    """Stores new memories, one or many in one transaction."""

    def __init__(
        self, memory_builder: MemoryBuilder, upserter: Upserter, requests: IdempotentExecutor, accesses: AccessCounts
    ) -> None:
        """Write by these parts; duplicates count as accesses."""
        self._memory_builder = memory_builder
        self._upserter = upserter
        self._requests = requests
        self._accesses = accesses

    def create(self, scope: Scope, draft: Draft, options: WriteOptions, *, method: str = "CreateMemory") -> WriteResult:
        """Store one memory; return once it is durable. Requests with different *method* are never the same request.

        Under an existing key the draft updates that memory; the options say how to treat existing content.

        Raises:
            InvalidRequestError: The vector does not fit, or a SESSION memory has no session.
            MemoryExistsError: The content exists and duplicates are rejected, or the key belongs to a memory private to
                another session.
            RequestIdReusedError: The request_id was used for another request.
            MemorySupersededError: The key belongs to a superseded memory.
            MemoryNotFoundError: The request is a repetition, and its memory was purged since.
        """
        prepared = self._memory_builder.prepare(scope, self._memory_builder.store_images(scope, draft))
        request = _request(
            method,
            scope,
            (prepared,),
            (scope, draft, options.on_duplicate, options.on_conflict),
            options.request_id,
        )

        def work(transaction: Transaction) -> list[UpsertResult | RejectedItem]:
            upserted = self._upserter.upsert(transaction, (prepared,), options.on_duplicate, options.on_conflict)
            return [_raise_error(result) for result in upserted]

        (written,), _ = self._requests.run_once(request, work, size=prepared.size)
        if not isinstance(written, WriteResult):
            raise not_found_error(written)
        self._note_duplicates((written,))
        return _with_redactions(written, prepared)

    def create_batch(
        self, scope: Scope, drafts: Sequence[Draft | RejectedItem], options: WriteOptions
    ) -> BatchWriteResult:
        """Store memories in order in one transaction; an invalid one fails alone. Rejected items pass through.

        Raises:
            RequestIdReusedError: The request_id was used for another request.
        """
        items = self._memory_builder.prepare_all(scope, drafts)
        prepared = [item for item in items if isinstance(item, PreparedMemory)]
        asked = (scope, drafts, options.on_duplicate, options.on_conflict)
        request = _request("BatchCreateMemories", scope, prepared, asked, options.request_id)

        def work(transaction: Transaction) -> list[UpsertResult | RejectedItem]:
            upserted = self._upserter.upsert(transaction, items, options.on_duplicate, options.on_conflict)
            return [as_rejection(result) for result in upserted]

        answered, position = self._requests.run_once(request, work, size=sum(item.size for item in prepared))
        results = [_with_redactions(_item(result), item) for result, item in zip(answered, items, strict=True)]
        self._note_duplicates(results)
        return BatchWriteResult(tuple(results), position)

    def _note_duplicates(self, results: Sequence[WriteResult | RejectedItem]) -> None:
        self._accesses.note(
            result.memory.id
            for result in results
            if isinstance(result, WriteResult) and result.outcome is Outcome.DUPLICATE
        )


def _with_redactions(result: R, item: PreparedMemory | RejectedItem) -> R:
    """Return *result* with the redactions of its draft, which are the same for every repetition."""
    if isinstance(result, WriteResult) and isinstance(item, PreparedMemory) and item.redactions:
        return replace(result, redactions=item.redactions)
    return result


def _item(answered: RequestResult) -> WriteResult | RejectedItem:
    if isinstance(answered, MemoryNotFoundError):
        return RejectedItem(answered.reason, answered.message)
    return answered


def _raise_error(result: ItemResult) -> UpsertResult | RejectedItem:
    if isinstance(result, MemsvcError):
        raise result
    return result


def _request(
    method: str, scope: Scope, prepared: Sequence[PreparedMemory], asked: object, request_id: str
) -> IdempotentRequest:
    if not request_id:
        return IdempotentRequest(method, "", "", Reach.from_scope(scope))
    projects = dict.fromkeys(item.record.memory.scope.project_id for item in prepared)
    return IdempotentRequest(method, request_id, request_digest(asked), Reach(scope.owner, tuple(projects)))
