"""Filling a server by import, and waiting until it has come to rest."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

import grpc
from grpc import aio

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from tests.bench.server import Server, usage

REST_SECONDS = 14.0
"""Longer than the service takes for three looks at its indexes: it builds none anew before it saw a lull."""
_LOOK_SECONDS = 2.0
_REST_CPU = 0.3
"""A tree of processes that takes less than this share of a processor builds nothing."""
_IMPORT = "/memsvc.v1.MemoryService/ImportMemories"


class FillingError(Exception):
    """An import did not do what it should have, or the service does not come to rest."""


@dataclass(frozen=True, slots=True)
class Filled:
    """How long an import took."""

    memories: int
    stored_seconds: float
    searchable_seconds: float


async def run_import(server: Server, messages: Sequence[bytes]) -> memory_pb.ImportMemoriesResponse:
    """Send the messages of one import and return its last response.

    Raises:
        FillingError: A memory was refused, or the end was not told.
    """
    start: aio.StreamStreamMultiCallable[bytes, memory_pb.ImportMemoriesResponse] = server.channel.stream_stream(
        _IMPORT, request_serializer=None, response_deserializer=memory_pb.ImportMemoriesResponse.FromString
    )

    async def sent() -> AsyncIterator[bytes]:
        for message in messages:
            yield message

    last = memory_pb.ImportMemoriesResponse()
    async for response in start(sent()):
        last = response
        if last.failed_count:
            raise FillingError(str(last.failures[:1]))
    if not last.done:
        message = "The import ended without telling that it is done."
        raise FillingError(message)
    return last


async def fill(server: Server, imports: Sequence[Sequence[bytes]], *, told: Callable[[], None] | None = None) -> Filled:
    """Run one import after another, then wait until searches see everything; *told* is called after each import."""
    started = time.perf_counter()
    memories = 0
    for messages in imports:
        last = await run_import(server, messages)
        memories += last.created_count + last.duplicate_count
        if told is not None:
            told()
    stored = time.perf_counter() - started
    await searchable(server)
    return Filled(memories, stored, time.perf_counter() - started)


async def searchable(server: Server, *, patience_seconds: float = 600.0) -> None:
    """Wait until no change is pending."""
    until = time.perf_counter() + patience_seconds
    while (await diagnosed(server)).outbox.pending_count:
        if time.perf_counter() > until:
            message = f"Changes are pending after {patience_seconds} s."
            raise FillingError(message)
        await asyncio.sleep(0.1)


async def settled(server: Server, *, rest_seconds: float = REST_SECONDS, patience_seconds: float = 600.0) -> float:
    """Wait until the service rests, and return how long that took without the *rest_seconds* themselves.

    At rest nothing is pending, no index changes its generation, and the processes take next to no time: so none is
    being built either.
    """
    began = since = time.perf_counter()
    state = await _generations(server)
    before = usage(server.process.pid)
    while time.perf_counter() - since < rest_seconds:
        if time.perf_counter() - began > patience_seconds:
            message = f"The service does not come to rest within {patience_seconds} s."
            raise FillingError(message)
        await asyncio.sleep(_LOOK_SECONDS)
        now, present = await _generations(server), usage(server.process.pid)
        busy = (present.cpu_seconds - before.cpu_seconds) / _LOOK_SECONDS
        if now != state or now[0] or busy > _REST_CPU or present.processes != before.processes:
            since = time.perf_counter()
        state, before = now, present
    return since - began


async def rebuild_vectors(server: Server) -> None:
    """Rebuild the vectors, after a rebuild that the service began by itself."""
    request = admin_pb.ReindexRequest(indexes=[admin_pb.INDEX_KIND_VECTORS], mode=admin_pb.REINDEX_MODE_REBUILD)
    while True:
        try:
            async for _ in server.admin.Reindex(request):
                pass
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
                raise
            await asyncio.sleep(0.5)
        else:
            return


async def diagnosed(server: Server) -> admin_pb.DiagnoseResponse:
    """Return the service's own report."""
    return await server.admin.Diagnose(admin_pb.DiagnoseRequest())


async def vector_dimension(server: Server) -> int:
    """Return the length that a given vector must have."""
    report = await diagnosed(server)
    return next(index.dimension for index in report.indexes if index.dimension)


async def _generations(server: Server) -> tuple[int, ...]:
    report = await diagnosed(server)
    return (report.outbox.pending_count, *(index.generation for index in report.indexes))
