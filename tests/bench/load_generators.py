"""Ways of calling a server: one call after another, several callers at once, and a steady drip."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from typing import TypeVar

import grpc
from grpc import aio

Request = TypeVar("Request")
Call = Callable[[Request], Awaitable[object]]
WARM_UP = 30
FREEZE_SECONDS = 1.0
"""A process that only looks at the clock is never kept waiting so long by a busy server on the same machine."""


@contextmanager
def undisturbed() -> Iterator[None]:
    """Keep the garbage collector of this process out of what is measured."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def one_by_one(call: Call[Request], requests: Sequence[Request], *, warm_up: int = WARM_UP) -> list[float]:
    """Call with one request after another; return how long each took, the first *warm_up* left out."""
    seconds = []
    with undisturbed():
        for request in requests:
            started = time.perf_counter()
            await call(request)
            seconds.append(time.perf_counter() - started)
    return seconds[min(warm_up, len(seconds) - 1) :]


async def side_by_side(call: Call[Request], requests: Sequence[Request], *, callers: int) -> tuple[list[float], float]:
    """Let *callers* share the requests, each making one call after another; return every duration, and the whole."""
    waiting = iter(requests)
    seconds: list[float] = []

    async def caller() -> None:
        for request in waiting:
            started = time.perf_counter()
            await call(request)
            seconds.append(time.perf_counter() - started)

    with undisturbed():
        started = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(callers):
                group.create_task(caller())
        return seconds, time.perf_counter() - started


@dataclass(slots=True)
class Drip:
    """What a steady drip of calls met.

    Attributes:
        calls: When each call began, and how long it took.
        stall_seconds: The longest time in which this process itself did not get to run: no server's fault.
        freezes: From when to when the whole machine stood still, or seemed to: calls meanwhile say nothing.
        refused: When calls were refused because too many others waited already.
    """

    calls: list[tuple[float, float]] = field(default_factory=list)
    stall_seconds: float = 0.0
    freezes: list[tuple[float, float]] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)

    @property
    def seconds(self) -> list[float]:
        """Return how long each call took, but for those during a freeze."""
        return [
            seconds
            for began, seconds in self.calls
            if not any(began < end and start < began + seconds for start, end in self.freezes)
        ]

    def note_stall(self, began: float, seconds: float) -> None:
        """Take note of a time in which this process did not get to run."""
        self.stall_seconds = max(self.stall_seconds, seconds)
        if seconds >= FREEZE_SECONDS:
            self.freezes.append((began, began + seconds))


@asynccontextmanager
async def dripping(call: Call[Request], requests: Sequence[Request], *, per_second: float) -> AsyncIterator[Drip]:
    """Send a request at every tick while the context is open, whether the ones before are answered or not."""
    drip = Drip()
    leaving = asyncio.Event()

    async def send(request: Request) -> None:
        started = time.perf_counter()
        try:
            await call(request)
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                raise
            drip.refused.append(started)
        else:
            drip.calls.append((started, time.perf_counter() - started))

    async def tick(group: asyncio.TaskGroup) -> None:
        due = time.perf_counter()
        for request in cycle(requests):
            late = time.perf_counter() - due
            if late >= FREEZE_SECONDS:
                # The machine stood still, and whoever asks stood still with it: nothing is made up for in one burst.
                due += late
            await asyncio.sleep(max(0.0, -late))
            due += 1.0 / per_second
            if leaving.is_set():
                return
            group.create_task(send(request))

    async def watch() -> None:
        while not leaving.is_set():
            before = time.perf_counter()
            await asyncio.sleep(0.002)
            drip.note_stall(before, time.perf_counter() - before - 0.002)

    async with asyncio.TaskGroup() as group:
        group.create_task(tick(group))
        group.create_task(watch())
        with undisturbed():
            try:
                yield drip
            finally:
                leaving.set()
