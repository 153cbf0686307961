"""Watches: for each an event that the committer sets, and nothing else while nothing happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass
from typing import TypeAlias

from memsvc.domain.errors import LimitExceededError, ServerStoppingError
from memsvc.domain.watch import Start, Watch, WatchBatch, WatchEvent
from memsvc.engine.watch.watch import Watcher, WatchService
from memsvc.server.convert.enums import CHANGE_ACTION, WATCH_EFFECT
from memsvc.server.convert.memory import fill_memory
from memsvc.server.convert.tokens import watch_cursor
from memsvc.server.executors import NamedExecutor
from memsvc.v1 import watch_pb2 as pb

_MICROS = 1_000_000
_NANOS_OF_MICRO = 1_000


@dataclass(frozen=True, slots=True)
class WatchCall:
    """What a client asked for: which changes, from where, and how long the silence may be.

    Attributes:
        digest: What the cursors of the watch are bound to.
    """

    watch: Watch
    start: Start
    position: int | None
    digest: bytes
    heartbeat_seconds: float


class _Signal:
    """Wakes one watch from any thread; ringing it again before it woke costs next to nothing."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._is_rung = False

    def ring(self) -> None:
        if not self._is_rung:
            self._is_rung = True
            # A loop that is closed has no watch left to wake.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._event.set)

    def rest(self) -> None:
        """Forget what was rung. In this order, so that a ring in between is one too many rather than lost."""
        self._is_rung = False
        self._event.clear()

    async def wait(self, until: float) -> bool:
        """Return whether it was rung before that time of the loop's clock."""
        try:
            async with asyncio.timeout_at(until):
                await self._event.wait()
        except TimeoutError:
            return False
        return True


_Part: TypeAlias = "tuple[WatchBatch, list[pb.WatchMemoriesResponse]]"


class _Reads:
    """Reads for watches: those that are at the same place and have not been begun are one.

    So a hundred who watch the same memories cost two reads a commit, not a hundred. Who joins a read that has not begun
    is told everything that was committed before, and so all that it was woken for.
    """

    def __init__(self, executor: NamedExecutor) -> None:
        self._executor = executor
        self._waiting: dict[object, asyncio.Task[_Part]] = {}

    async def next(self, watcher: Watcher, digest: bytes) -> _Part:
        """Return the next part of a watch, and move the watcher on."""
        key = (digest, watcher.place)
        task = self._waiting.get(key)
        if task is None:
            # In a context of its own: the deadline of the call that came first is not the others'.
            work = self._executor.proceed(self._read, key, watcher, digest)
            task = self._waiting[key] = asyncio.create_task(work, context=Context())
            task.add_done_callback(_asked)
        part = await asyncio.shield(task)
        watcher.position = part[0].position
        return part

    def _read(self, key: object, watcher: Watcher, digest: bytes) -> _Part:
        self._waiting.pop(key, None)
        tidings = watcher.read()
        return tidings, [_told_to_proto(told, digest) for told in tidings.told]


def _asked(task: asyncio.Task[_Part]) -> None:
    """Ask for a failure, so that asyncio does not complain when everybody who waited has left."""
    if not task.cancelled():
        task.exception()


class Watches:
    """All watches that are open."""

    def __init__(self, watching: WatchService, executor: NamedExecutor, *, max_streams: int) -> None:
        self.watching = watching
        self._executor = executor
        self._reads = _Reads(executor)
        self._max_streams = max_streams
        self._signals: set[_Signal] = set()
        self._is_stopping = False

    def stop(self) -> None:
        """End every watch, and refuse new ones."""
        self._is_stopping = True
        for signal in self._signals:
            signal.ring()

    async def responses(self, call: WatchCall) -> AsyncGenerator[pb.WatchMemoriesResponse, None]:
        """Yield a heartbeat, then every change; a heartbeat again when there was silence for too long.

        Raises:
            LimitExceededError: Too many watches are open.
            ServerStoppingError: The server is stopping.
            InvalidRequestError: The position is one that the store has not reached.
            CursorExpiredError: Changes that come next are gone.
            WatchTooSlowError: The client has fallen too far behind.
        """
        if len(self._signals) >= self._max_streams:
            limit = f"{self._max_streams} watches"
            raise LimitExceededError(limit, retry_seconds=1.0)
        signal = _Signal()
        self._signals.add(signal)
        try:
            with self.watching.bell.heard(call.watch.scope.owner, signal.ring):
                async for response in self._run(call, signal):
                    yield response
        finally:
            self._signals.discard(signal)

    async def _run(self, call: WatchCall, signal: _Signal) -> AsyncGenerator[pb.WatchMemoriesResponse, None]:
        clock = asyncio.get_running_loop().time
        watcher = await self._executor.proceed(
            self.watching.begin, call.watch, start=call.start, position=call.position
        )
        yield _heartbeat(watcher.position, call.digest)
        due, is_silent = clock() + call.heartbeat_seconds, False
        while True:
            self._refuse_when_stopping()
            signal.rest()
            tidings, responses = await self._reads.next(watcher, call.digest)
            for response in responses:
                yield response
                self._refuse_when_stopping()
            if is_silent and not responses:
                yield _heartbeat(tidings.position, call.digest)
            if is_silent or responses:
                due, is_silent = clock() + call.heartbeat_seconds, False
            if tidings.is_all:
                is_silent = not await signal.wait(due)

    def _refuse_when_stopping(self) -> None:
        if self._is_stopping:
            raise ServerStoppingError


def _heartbeat(position: int, digest: bytes) -> pb.WatchMemoriesResponse:
    return pb.WatchMemoriesResponse(heartbeat=pb.WatchHeartbeat(), cursor=watch_cursor(position, digest))


def _told_to_proto(told: WatchEvent, digest: bytes) -> pb.WatchMemoriesResponse:
    change = told.change
    response = pb.WatchMemoriesResponse(cursor=watch_cursor(change.position, digest))
    message = response.change
    message.action = CHANGE_ACTION.to_proto[change.action]
    message.effect = WATCH_EFFECT.to_proto[told.effect]
    message.memory_id = change.memory_id
    message.revision = change.revision
    message.time.seconds, micros = divmod(change.time, _MICROS)
    message.time.nanos = micros * _NANOS_OF_MICRO
    if told.memory is not None:
        fill_memory(message.memory, told.memory)
    return response
