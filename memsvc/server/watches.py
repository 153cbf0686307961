"""Open watches: each waits for an event that the committer sets, and costs nothing while nothing changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from contextvars import Context
from typing import TypeAlias

from memsvc.domain.errors import ServerStoppingError
from memsvc.domain.watch import WatchBatch
from memsvc.engine.watch.watch import ChangeWatcher, WatchService
from memsvc.server.executors import NamedExecutor
from memsvc.server.requests.memory import WatchMemories
from memsvc.server.responses.memory import watch_change, watch_heartbeat
from memsvc.server.slots import Slots
from memsvc.v1 import memory_service_pb2 as memory_pb


class _Signal:
    """Event of one watch, set from any thread; setting it again before the watch woke costs next to nothing."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._is_set = False

    def set(self) -> None:
        if not self._is_set:
            self._is_set = True
            # A loop that is closed has no watch left to wake.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._event.set)

    def clear(self) -> None:
        """Clear the event. In this order: a change in between wakes the watch once too often, and is never missed."""
        self._is_set = False
        self._event.clear()

    async def wait(self, until: float) -> bool:
        """Return whether the event was set before that time of the loop's clock."""
        try:
            async with asyncio.timeout_at(until):
                await self._event.wait()
        except TimeoutError:
            return False
        return True


_Part: TypeAlias = "tuple[WatchBatch, list[memory_pb.WatchMemoriesResponse]]"


class _SharedReads:
    """Single flight of the reads of watches: those at the same position share a read that has not begun.

    A hundred watches of the same memories cost two reads a commit, not a hundred. A read that has not begun returns
    everything committed before, and so every change that a watch that joins it was woken for.
    """

    def __init__(self, executor: NamedExecutor) -> None:
        self._executor = executor
        self._waiting: dict[object, asyncio.Task[_Part]] = {}

    async def next(self, watcher: ChangeWatcher, digest: bytes) -> _Part:
        """Return the next part of a watch, and move the watcher on."""
        key = (digest, watcher.place)
        task = self._waiting.get(key)
        if task is None:
            # In a context of its own: the deadline of the first call is not that of the others.
            work = self._executor.proceed(self._read, key, watcher, digest)
            task = self._waiting[key] = asyncio.create_task(work, context=Context())
            task.add_done_callback(_retrieve_exception)
        part = await asyncio.shield(task)
        watcher.position = part[0].position
        return part

    def _read(self, key: object, watcher: ChangeWatcher, digest: bytes) -> _Part:
        self._waiting.pop(key, None)
        batch = watcher.read()
        return batch, [watch_change(event, digest) for event in batch.events]


def _retrieve_exception(task: asyncio.Task[_Part]) -> None:
    """Retrieve an exception, or asyncio would log that it never was when every watch has left."""
    if not task.cancelled():
        task.exception()


class Watches:
    """Every open watch."""

    def __init__(self, watching: WatchService, executor: NamedExecutor, slots: Slots) -> None:
        self.watching = watching
        self._executor = executor
        self._reads = _SharedReads(executor)
        self._slots = slots
        self._signals: set[_Signal] = set()
        self._store_id = ""
        self._is_stopping = False

    async def store_id(self) -> str:
        """Return the identity of the store, which is read once.

        Raises:
            BackendUnavailableError: The store cannot be reached.
        """
        if not self._store_id:
            self._store_id = await self._executor.proceed(lambda: self.watching.identity)
        return self._store_id

    def stop(self) -> None:
        """End every watch, and refuse new ones."""
        self._is_stopping = True
        for signal in self._signals:
            signal.set()

    async def responses(self, call: WatchMemories) -> AsyncGenerator[memory_pb.WatchMemoriesResponse, None]:
        """Yield a heartbeat, then every change, and another heartbeat after each silence.

        Raises:
            LimitExceededError: Too many watches are open.
            ServerStoppingError: The server is stopping.
            InvalidRequestError: The position is one that the store has not reached.
            CursorExpiredError: Changes that come next are gone.
            WatchTooSlowError: The client has fallen too far behind.
        """
        with self._slots.acquired(call.watch.scope.owner):
            signal = _Signal()
            self._signals.add(signal)
            try:
                with self.watching.bell.listen(call.watch.scope.owner, signal.set):
                    async for response in self._run(call, signal):
                        yield response
            finally:
                self._signals.discard(signal)

    async def _run(self, call: WatchMemories, signal: _Signal) -> AsyncGenerator[memory_pb.WatchMemoriesResponse, None]:
        clock = asyncio.get_running_loop().time
        watcher = await self._executor.proceed(
            self.watching.begin, call.watch, start=call.start, position=call.position
        )
        yield watch_heartbeat(watcher.position, call.digest)
        due, is_silent = clock() + call.heartbeat_seconds, False
        while True:
            self._refuse_when_stopping()
            signal.clear()
            batch, responses = await self._reads.next(watcher, call.digest)
            for response in responses:
                yield response
                self._refuse_when_stopping()
            if is_silent and not responses:
                yield watch_heartbeat(batch.position, call.digest)
            if is_silent or responses:
                due, is_silent = clock() + call.heartbeat_seconds, False
            if batch.is_all:
                is_silent = not await signal.wait(due)

    def _refuse_when_stopping(self) -> None:
        if self._is_stopping:
            raise ServerStoppingError
