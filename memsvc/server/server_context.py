"""Context of every servicer: the engine, the thread pools, and waiting for the indexes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from memsvc.domain.errors import DeadlineExceededError
from memsvc.domain.memory import Status
from memsvc.domain.scope import Scope
from memsvc.domain.write_requests import BatchWriteResult, Outcome, WaitFor, WriteOptions, WriteResult
from memsvc.engine.indexing.indexer import Indexer
from memsvc.engine.memories.lookup import MemoryName
from memsvc.engine.services import Services
from memsvc.server import call_context
from memsvc.server.executors import Executors
from memsvc.server.options import ServerOptions
from memsvc.server.watches import Watches

W = TypeVar("W")


@dataclass(frozen=True, slots=True)
class ServerContext:
    """The engine, and the means to call it from the event loop.

    Attributes:
        waits: Waits for the indexes without holding a thread.
        now: The clock, in UTC.
        watches: The open watches.
    """

    application: Services
    executors: Executors
    waits: IndexWait
    options: ServerOptions
    now: Callable[[], datetime]
    watches: Watches

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
        return work(write.scope, memory_id, *arguments, **options)


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

    async def written(self, written: WriteResult, wait_for: WaitFor) -> None:
        """Return when searches find one written memory, or at once for a write that does not wait.

        Raises:
            DeadlineExceededError: The caller's deadline passed; the write is durable all the same.
        """
        if wait_for is WaitFor.INDEXED:
            await _until(self._indexer.when_applied(written.position, written.changes), AFTER_A_WRITE)

    async def batch_written(self, written: BatchWriteResult, wait_for: WaitFor) -> None:
        """Return when searches find all of a batch, or at once; raises as `written` does."""
        if wait_for is WaitFor.INDEXED:
            changed = [item for item in written.results if isinstance(item, WriteResult)]
            is_new = any(item.outcome is not Outcome.DUPLICATE for item in changed)
            count = max(item.changes for item in changed) if is_new else 0
            await _until(self._indexer.when_applied(written.position, count), AFTER_A_WRITE)

    async def stored(self, position: int) -> None:
        """Return when searches find every change up to *position*; raises as `written` does."""
        await _until(self._indexer.when_reached(position), AFTER_A_WRITE)

    async def reached(self, position: int) -> None:
        """Return when a read sees every change up to *position*; 0 needs no wait.

        Raises:
            DeadlineExceededError: The caller's deadline passed.
        """
        if position:
            await _until(self._indexer.when_reached(position), BEFORE_A_READ)


async def _until(future: Future[None], waiting_for: str) -> None:
    if future.done():
        return future.result()
    try:
        async with asyncio.timeout(call_context.deadline.get().remaining_seconds()):
            return await asyncio.wrap_future(future)
    except TimeoutError:
        raise DeadlineExceededError(waiting_for) from None
