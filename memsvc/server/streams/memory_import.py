"""Imports: batches in, progress out, neither waiting for the other.

A client may send all its batches before it reads a single response. So batches are prepared by a task of their own and
stored by another, which is at the batch before. A response is made of whatever the state is when there is room to send
one; nothing but failures not yet told is queued, and storing pauses when there are too many of those.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Protocol, TypeVar

from memsvc.domain import limits
from memsvc.domain.errors import InvalidRequestError, Violation
from memsvc.domain.write_requests import ImportProgress, OnDuplicate, Rejected, WaitFor
from memsvc.engine.memories.bulk_import import ImportRun, PreparedBatch
from memsvc.engine.runtime.search_priority import SEARCH_PRIORITY
from memsvc.server import call_context
from memsvc.server.convert.enums import CONFLICT_POLICY, ON_DUPLICATE, WAIT_FOR
from memsvc.server.convert.scope import scope_from
from memsvc.server.convert.writes import import_to_proto
from memsvc.server.executors import NamedExecutor
from memsvc.server.server_context import ServerContext
from memsvc.server.validate.writes import check_import_batch, check_import_header, draft_or_rejected
from memsvc.v1 import memory_service_pb2 as pb
from memsvc.v1 import types_pb2 as types

PROGRESS_SECONDS = 1.0
UNTOLD_FAILURES = 8_192
"""So many failures may wait to be told before storing pauses."""


class ImportStream:
    """One stream of an import."""

    def __init__(self, edge: ServerContext, requests: AsyncIterator[pb.ImportMemoriesRequest]) -> None:
        self._edge = edge
        self._requests = requests
        self._before = self._progress = ImportProgress()
        self._untold: deque[tuple[int, Rejected]] = deque()
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._started = 0.0

    async def responses(self) -> AsyncGenerator[pb.ImportMemoriesResponse, None]:
        """Store what comes, and tell how far it is: at once, after each batch, each second, and at the end.

        Raises:
            InvalidRequestError: The messages are out of order, or a batch is too large or leaves a gap.
        """
        header = await self._header()
        run = await self._begin(header)
        self._started = time.monotonic()
        yield import_to_proto(self._progress, (), seconds=0.0)
        task = asyncio.create_task(self._store_all(run, header))
        try:
            while not task.done():
                with suppress(TimeoutError):
                    async with asyncio.timeout(PROGRESS_SECONDS):
                        await self._changed.wait()
                self._changed.clear()
                if not task.done():
                    yield self._response()
            task.result()
            while len(self._untold) > limits.BATCH:
                yield self._response()
            yield self._response(done=True)
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def _header(self) -> pb.ImportHeader:
        async for request in self._requests:
            if request.WhichOneof("part") == "header":
                check_import_header(request.header)
                return request.header
            break
        raise InvalidRequestError([Violation("header", "must be the first message")])

    async def _begin(self, header: pb.ImportHeader) -> ImportRun:
        run = await self._edge.executors.write.run(
            self._edge.application.importing.begin,
            scope_from(header.scope, call_context.principal.get()),
            request_id=header.request_id,
            on_duplicate=ON_DUPLICATE.given(header.on_duplicate, OnDuplicate.RETURN_EXISTING),
            on_conflict=CONFLICT_POLICY.optional(header.conflict_policy),
        )
        self._before = run.progress
        self._progress = _since(self._before, run.progress)
        return run

    async def _store_all(self, run: ImportRun, header: pb.ImportHeader) -> None:
        ready: asyncio.Queue[PreparedBatch | None] = asyncio.Queue(maxsize=1)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._prepare_each(run, header.scope, ready))
                group.create_task(commit_batches(run, ready, self._edge.executors.write, self._note))
            if WAIT_FOR.given(header.wait_for, WaitFor.STORED) is WaitFor.INDEXED:
                await self._edge.waits.stored(self._progress.position)
        except ExceptionGroup as failures:
            # Either task ends the other.
            raise failures.exceptions[0] from failures.exceptions[0].__cause__
        finally:
            self._changed.set()

    async def _prepare_each(
        self, run: ImportRun, scope: types.Scope, ready: asyncio.Queue[PreparedBatch | None]
    ) -> None:
        """Check and prepare batches; the next one while the one before is being stored."""
        end = run.progress.next_index
        try:
            async for request in self._requests:
                batch = _batch_of(request, next_index=max(end, run.progress.next_index))
                await ready.put(await self._edge.executors.write.proceed(self._prepare, run, batch, scope))
                end = max(end, batch.first_index + len(batch.memories))
        except InvalidRequestError:
            # What came before the bad message is stored, and told.
            await ready.join()
            raise
        await ready.put(None)

    async def _note(self, reached: ImportProgress) -> None:
        self._untold.extend(reached.failures)
        self._progress = _since(self._before, reached)
        self._changed.set()
        while len(self._untold) > UNTOLD_FAILURES:
            self._room.clear()
            await self._room.wait()

    def _prepare(self, run: ImportRun, batch: pb.ImportBatch, scope: types.Scope) -> PreparedBatch:
        dimension = self._edge.application.dimension
        first = batch.first_index
        # Memories that are durable already are not looked at again: the engine passes them over by their index.
        skipped = min(max(0, run.progress.next_index - first), len(batch.memories))
        drafts = []
        for entry in batch.memories[skipped:]:
            SEARCH_PRIORITY.yield_to_searches()
            drafts.append(draft_or_rejected(entry, scope, dimension=dimension))
        return run.prepare(first + skipped, drafts)

    def _response(self, *, done: bool = False) -> pb.ImportMemoriesResponse:
        failures = [self._untold.popleft() for _ in range(min(len(self._untold), limits.BATCH))]
        self._room.set()
        seconds = time.monotonic() - self._started
        return import_to_proto(self._progress, failures, seconds=seconds, done=done)


def _batch_of(request: pb.ImportMemoriesRequest, *, next_index: int) -> pb.ImportBatch:
    """Return the batch of a message after the header, checked as a whole."""
    if request.WhichOneof("part") != "batch":
        raise InvalidRequestError([Violation("batch", "must be set in every message after the header")])
    check_import_batch(request.batch, next_index=next_index)
    return request.batch


def _since(before: ImportProgress, reached: ImportProgress) -> ImportProgress:
    """Return the progress with the counts of this stream alone, not those of earlier ones of the same import."""
    return replace(
        reached,
        received=reached.received - before.received,
        created=reached.created - before.created,
        updated=reached.updated - before.updated,
        duplicates=reached.duplicates - before.duplicates,
        failed=reached.failed - before.failed,
        conflicts=reached.conflicts - before.conflicts,
        redacted=reached.redacted - before.redacted,
        failures=(),
    )


# What both imports do with their batches: the next one is handed over before the one before is durable.


Batch = TypeVar("Batch")
Progress = TypeVar("Progress")
Batch_contra = TypeVar("Batch_contra", contravariant=True)
Progress_co = TypeVar("Progress_co", covariant=True)


class Storing(Protocol[Batch_contra, Progress_co]):
    """An import at work."""

    def store(self, batch: Batch_contra, /) -> Progress_co:
        """Begin to store a batch; return the progress once the one before is durable."""
        ...

    def settle(self) -> Progress_co:
        """Return the progress once all that was begun is durable."""
        ...


async def commit_batches(
    run: Storing[Batch, Progress],
    ready: asyncio.Queue[Batch | None],
    executor: NamedExecutor,
    note: Callable[[Progress], Awaitable[None]],
) -> None:
    """Store batch after batch until None comes, and have *note* told of each progress.

    When nothing is ready to go on with, what was begun is noted at once. A batch counts as done (`Queue.task_done`)
    then, or when the next one was begun: so who joins the queue finds everything noted.
    """
    while (batch := await ready.get()) is not None:
        await note(await executor.proceed(run.store, batch))
        if ready.empty():
            await note(await executor.proceed(run.settle))
        ready.task_done()
    await note(await executor.proceed(run.settle))
