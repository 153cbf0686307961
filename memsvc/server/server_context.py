"""Context of every servicer: the engine, the thread pools, and waiting for the indexes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from google.protobuf.message import Message

from memsvc.domain.errors import DeadlineExceededError
from memsvc.domain.memory import Status
from memsvc.domain.scope import Scope
from memsvc.domain.write_requests import (
    BatchWriteResult,
    Draft,
    Outcome,
    RejectedItem,
    WaitFor,
    WriteOptions,
    WriteResult,
)
from memsvc.engine.indexing.indexer import Indexer
from memsvc.engine.memories.lookup import MemoryName
from memsvc.engine.services import Services
from memsvc.server import call_context
from memsvc.server.executors import Answer, Executors, Pending
from memsvc.server.options import ServerOptions
from memsvc.server.slots import ServerSlots
from memsvc.server.watches import Watches

W = TypeVar("W")
M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class ServerContext:
    """The engine, and the means to call it from the event loop.

    Attributes:
        waits: Waits for the indexes without holding a thread.
        now: The clock, in UTC.
        watches: The open watches.
        slots: The slots of searches and streams.
    """

    application: Services
    executors: Executors
    waits: IndexWait
    options: ServerOptions
    now: Callable[[], datetime]
    watches: Watches
    slots: ServerSlots

    def write_named(
        self,
        method: str,
        work: Callable[..., W],
        write: NamedWrite,
        *arguments: object,
        prefer: Status | None = None,
        **options: object,
    ) -> W:
        """Resolve the name of a memory, and call *work* with its scope, its id and the other arguments. It blocks."""
        memory_id = self.application.key_resolver.id_of(
            write.scope, write.memory, method=method, request_id=write.options.request_id, prefer=prefer
        )
        with write.memory.name_violations():
            return work(write.scope, memory_id, *arguments, **options)


NOT_INDEXED = "Stored, but the indexes have not followed yet: searches will find it later."
"""Notice of a write that is durable and that searches do not find yet."""
KEY_NOT_STORED = (
    "Equal content is stored already, so the key of the request was not stored: use the id or key of the memory in the "
    "response, or on_duplicate KEEP_BOTH to store a second memory."
)
"""Notice of a write with a key whose content another memory holds that cannot take the key."""
REPLY_SECONDS, REPLY_SHARE = 0.5, 0.2
"""Time kept for the reply of a write before its deadline: the lesser of both."""
UNAVAILABLE_SECONDS = 3.0
"""Wait of a write for an index that is known to be unavailable; longer than the longest pause of the indexer."""
LONGEST_SECONDS = 30.0
"""Longest wait of a write without a deadline."""
AFTER_A_WRITE = "the indexes (what was written is durable; searches will find it soon)"
BEFORE_A_READ = "the indexes to reach the consistency_token"


class NamedWrite(Protocol):
    """A write of one memory that a request names by id or key."""

    @property
    def scope(self) -> Scope: ...  # noqa: D102

    @property
    def memory(self) -> MemoryName: ...  # noqa: D102

    @property
    def options(self) -> WriteOptions: ...  # noqa: D102


class IndexWait:
    """Waits for the indexer on behalf of calls, each until its deadline."""

    def __init__(self, indexer: Indexer) -> None:
        self._indexer = indexer

    async def written(self, written: WriteResult, wait_for: WaitFor) -> str:
        """Return when searches find one written memory, or at once for a write that does not wait.

        The write is durable in any case. If the indexes do not follow in time, the result is a notice for the caller,
        otherwise it is empty.
        """
        if wait_for is WaitFor.INDEXED:
            return await self._follow(self._indexer.when_applied(written.position, written.changes))
        return ""

    def after(self, response: M, written: WriteResult, wait_for: WaitFor) -> Answer[M]:
        """Return the response of a write, or the rest of a call that waits until searches find the memory."""
        return _answer(response, wait_for, lambda: self.written(written, wait_for))

    def after_batch(self, response: M, written: BatchWriteResult, wait_for: WaitFor) -> Answer[M]:
        """Return the response of a batch as `after` does."""
        return _answer(response, wait_for, lambda: self.batch_written(written, wait_for))

    def after_stored(self, response: M, position: int, wait_for: WaitFor) -> Answer[M]:
        """Return the response of a write up to *position* as `after` does."""
        return _answer(response, wait_for, lambda: self.stored(position))

    async def batch_written(self, written: BatchWriteResult, wait_for: WaitFor) -> str:
        """Return when searches find all of a batch, or at once; the result is that of `written`."""
        if wait_for is WaitFor.INDEXED:
            changed = [item for item in written.results if isinstance(item, WriteResult)]
            is_new = any(item.outcome is not Outcome.DUPLICATE for item in changed)
            count = max(item.changes for item in changed) if is_new else 0
            return await self._follow(self._indexer.when_applied(written.position, count))
        return ""

    async def stored(self, position: int) -> str:
        """Return when searches find every change up to *position*; the result is that of `written`."""
        return await self._follow(self._indexer.when_reached(position))

    async def indexed(self, position: int) -> None:
        """Return when searches find every change up to *position*.

        Raises:
            DeadlineExceededError: The caller's deadline passed; the changes are durable.
        """
        await _until(self._indexer.when_reached(position), AFTER_A_WRITE)

    async def reached(self, position: int, owner: str) -> None:
        """Return when a read of *owner*'s memories sees every change up to *position*; 0 needs no wait.

        Raises:
            DeadlineExceededError: The caller's deadline passed.
        """
        if position:
            await _until(self._indexer.when_reached(position, owner), BEFORE_A_READ)

    async def _follow(self, future: Future[None]) -> str:
        """Wait until shortly before the deadline, and not for indexes that are known to be unavailable."""
        if future.done():
            future.result()
            return ""
        remaining = call_context.deadline.get().remaining_seconds()
        patience = LONGEST_SECONDS if remaining is None else remaining - min(REPLY_SECONDS, remaining * REPLY_SHARE)
        until = time.monotonic() + patience
        waiting = asyncio.wrap_future(future)
        try:
            while (left := until - time.monotonic()) > 0:
                done, _ = await asyncio.wait({waiting}, timeout=min(left, UNAVAILABLE_SECONDS))
                if done:
                    waiting.result()
                    return ""
                if self._indexer.is_postponed:
                    break
        finally:
            waiting.cancel()
        call_context.note(NOT_INDEXED)
        return NOT_INDEXED


def _answer(response: M, wait_for: WaitFor, wait: Callable[[], Awaitable[str]]) -> Answer[M]:
    if wait_for is not WaitFor.INDEXED:
        return response
    return Pending(wait, lambda notice: _with_notice(response, notice))


def _with_notice(response: M, notice: str) -> M:
    """Add the notice to a response that has a field for it; it is in the trailing metadata in any case."""
    if notice and "notice" in response.DESCRIPTOR.fields_by_name:
        known = response.notice  # type: ignore[attr-defined]  # just checked
        response.notice = f"{known} {notice}".strip()  # type: ignore[attr-defined]  # as above
    return response


def note_unstored_keys(
    drafts: Sequence[Draft | RejectedItem], results: Sequence[WriteResult | RejectedItem]
) -> list[str]:
    """Return the notice of each item: empty, unless it is a duplicate that does not have the key of its draft.

    A notice is also in the trailing metadata.
    """
    notices = [
        KEY_NOT_STORED
        if isinstance(draft, Draft) and isinstance(result, WriteResult) and draft.key not in {"", result.memory.key}
        else ""
        for draft, result in zip(drafts, results, strict=True)
    ]
    if any(notices):
        call_context.note(KEY_NOT_STORED)
    return notices


async def _until(future: Future[None], waiting_for: str) -> None:
    if future.done():
        return future.result()
    try:
        async with asyncio.timeout(call_context.deadline.get().remaining_seconds()):
            return await asyncio.wrap_future(future)
    except TimeoutError:
        raise DeadlineExceededError(waiting_for) from None
