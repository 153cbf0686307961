"""An import: drafts in batches up the stream, progress down, taken up again when the connection breaks."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Iterable
from itertools import islice
from typing import TypeAlias

import grpc

from memsvc.client.channel import Connection
from memsvc.client.errors import INTERRUPTED, MemsvcCallError
from memsvc.client.request_types import Draft
from memsvc.client.to_proto import batch_memory_to_proto
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb

BATCH_MEMORIES = 500
BATCH_BYTES = 4 * 1024 * 1024
WINDOW_BATCHES = 4
"""Batches that may be under way before the service has said that the first of them is durable."""
ATTEMPTS = 5
FIRST_PAUSE_SECONDS = 0.1
CORE_ERROR = "Internal error from Core"

Call: TypeAlias = "grpc.aio.StreamStreamCall[memory_pb.ImportMemoriesRequest, memory_pb.ImportMemoriesResponse]"
Drafts = Iterable[Draft | types_pb.Memory] | AsyncIterable[Draft | types_pb.Memory]


class ImportStream:
    """One import, over as many streams as it takes. What is not yet known to be durable is kept to be sent again."""

    def __init__(self, remote: Connection, header: memory_pb.ImportHeader, drafts: Drafts) -> None:
        """Prepare to send *drafts* under *header*."""
        self._remote = remote
        self._header = header
        self._batches = _batched(drafts)
        self._unsettled: deque[memory_pb.ImportBatch] = deque()
        self._sent = 0
        self._read_to = 0
        self._before = memory_pb.ImportMemoriesResponse()
        self._latest = memory_pb.ImportMemoriesResponse()

    async def run(self) -> AsyncGenerator[memory_pb.ImportMemoriesResponse, None]:
        """Send everything and yield the progress, the last one `done`.

        Raises:
            MemsvcCallError: The service refused, or could not be reached again.
        """
        failures = 0
        while True:
            settled = self._latest.next_index
            try:
                async for progress in self._stream():
                    yield progress
            except MemsvcCallError as error:
                failures = 1 if self._latest.next_index > settled else failures + 1
                if error.code not in INTERRUPTED or failures == ATTEMPTS:
                    raise
                await asyncio.sleep(error.retry_seconds or FIRST_PAUSE_SECONDS * 2**failures)
            else:
                return

    async def _stream(self) -> AsyncGenerator[memory_pb.ImportMemoriesResponse, None]:
        """Send what is not settled over one stream, until it is done or breaks."""
        self._before, self._sent = self._latest, 0
        with self._remote.errors_decoded():
            call = self._remote.memories.ImportMemories()
            try:
                await call.write(memory_pb.ImportMemoriesRequest(header=self._header))
                yield await self._answer(call)
                while (batch := await self._next()) is not None:
                    await call.write(memory_pb.ImportMemoriesRequest(batch=batch))
                    while self._sent >= WINDOW_BATCHES:
                        yield await self._answer(call)
                await call.done_writing()
                while not self._latest.done:
                    yield await self._answer(call)
                await call.read()
            except grpc.aio.AioRpcError as error:
                raise _broken(error) from error
            except asyncio.InvalidStateError as error:
                raise await _ended(call) from error
            finally:
                call.cancel()

    async def _next(self) -> memory_pb.ImportBatch | None:
        """Return the next batch to send: one that a broken stream left over, else one from the source."""
        while self._sent == len(self._unsettled):
            drafts = await anext(self._batches, None)
            if drafts is None:
                return None
            batch = memory_pb.ImportBatch(first_index=self._read_to, memories=drafts)
            self._read_to += len(drafts)
            if self._read_to > self._latest.next_index:
                self._unsettled.append(batch)
        self._sent += 1
        return self._unsettled[self._sent - 1]

    async def _answer(self, call: Call) -> memory_pb.ImportMemoriesResponse:
        """Read one response; forget the batches that it settles; count what earlier streams did."""
        response = await call.read()
        if not isinstance(response, memory_pb.ImportMemoriesResponse):
            raise await _ended(call)
        while self._unsettled and _end(self._unsettled[0]) <= response.next_index:
            self._unsettled.popleft()
            self._sent = max(self._sent - 1, 0)
        for count in ("received_count", "created_count", "updated_count", "duplicate_count", "failed_count"):
            setattr(response, count, getattr(response, count) + getattr(self._before, count))
        self._latest = response
        return response


def _end(batch: memory_pb.ImportBatch) -> int:
    return batch.first_index + len(batch.memories)


def _broken(error: grpc.aio.AioRpcError) -> MemsvcCallError:
    """Return what went wrong. When a write meets a call that has ended, gRPC hides why; the next try will tell."""
    if error.code() is grpc.StatusCode.INTERNAL and error.details() == CORE_ERROR:
        return MemsvcCallError(grpc.StatusCode.UNAVAILABLE, "The import's stream broke.")
    return MemsvcCallError.from_rpc(error)


async def _ended(call: Call) -> MemsvcCallError:
    """Return why a stream ended before it was done."""
    trailers = await call.trailing_metadata()
    packed = next((value for key, value in trailers if key == "grpc-status-details-bin"), b"")
    code = await call.code()
    if code is grpc.StatusCode.OK:
        return MemsvcCallError(grpc.StatusCode.UNAVAILABLE, "The import's stream ended before it was done.")
    return MemsvcCallError.from_status(code, await call.details() or code.name, packed)


async def _batched(drafts: Drafts) -> AsyncGenerator[list[memory_pb.BatchMemory], None]:
    """Yield batches that are neither too many memories nor too large a message."""
    batch: list[memory_pb.BatchMemory] = []
    size = 0
    async for memory in _memories(drafts):
        if batch and (len(batch) == BATCH_MEMORIES or size + memory.ByteSize() > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(memory)
        size += memory.ByteSize()
    if batch:
        yield batch


async def _memories(drafts: Drafts) -> AsyncGenerator[memory_pb.BatchMemory, None]:
    if isinstance(drafts, AsyncIterable):
        async for draft in drafts:
            yield batch_memory_to_proto(draft)
        return
    source = iter(drafts)
    while some := await asyncio.to_thread(lambda: [batch_memory_to_proto(draft) for draft in islice(source, 100)]):
        for memory in some:
            yield memory
