"""Conversations over gRPC: how long appending takes, and how soon those who watch are told."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.bench.load_generators import WARM_UP, one_by_one
from tests.bench.results import Row, Sample, at_most, timed
from tests.bench.server import Server

PART = "Sessions and watching"
USER = "talking"
_APPEND_MS, _TOLD_MS = 5.0, 50.0
_EVERY_SECONDS = 0.01
"""Between two messages that are watched."""
_LINE = "We talked about the harbour, 港口, and about what the ferry costs on day {number}."


async def measure_sessions(server: Server, count: int, told: Callable[[], None]) -> list[Row]:
    """Append message after message to a session; then again while somebody watches, message by message."""
    scope = types_pb.Scope(user_id=USER, session_id="talk")
    await server.sessions.CreateSession(session_pb.CreateSessionRequest(scope=scope))
    appended = Sample.of(await one_by_one(server.sessions.AppendMessages, _appends(scope, count + WARM_UP)))
    told()
    delays = Sample.of(await _delays(server, scope, count))
    told()
    return [
        timed(
            PART,
            "AppendMessages, one message, stored",
            appended,
            targets=[at_most(appended.p50, _APPEND_MS, f"{_APPEND_MS:g} ms")],
        ),
        timed(
            PART,
            "WatchMemories, from the beginning of the write to the watcher",
            delays,
            targets=[at_most(delays.p95, _TOLD_MS, f"{_TOLD_MS:g} ms at p95")],
        ),
    ]


def _appends(scope: types_pb.Scope, count: int) -> list[session_pb.AppendMessagesRequest]:
    lines = (_LINE.format(number=number) for number in range(count))
    return [
        session_pb.AppendMessagesRequest(
            scope=scope, messages=[types_pb.ChatMessage(role=types_pb.MESSAGE_ROLE_USER, content=line)]
        )
        for line in lines
    ]


async def _delays(server: Server, scope: types_pb.Scope, count: int) -> list[float]:
    """Return the seconds from before each append until its change is told; the commit is in them."""
    begun: list[float] = []
    arrived: list[float] = []
    ready = asyncio.Event()

    async def watch() -> None:
        async for response in server.memories.WatchMemories(memory_pb.WatchMemoriesRequest(scope=scope)):
            if response.HasField("change"):
                arrived.append(time.perf_counter())
            ready.set()
            if len(arrived) == count:
                return

    watching = asyncio.create_task(watch())
    await ready.wait()
    for request in _appends(scope, count):
        begun.append(time.perf_counter())
        await server.sessions.AppendMessages(request)
        await asyncio.sleep(_EVERY_SECONDS)
    await watching
    return [end - start for start, end in zip(begun, arrived, strict=True)]
