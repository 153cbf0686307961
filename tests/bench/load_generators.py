"""Ways of calling a server: one call after another, several callers at once, a steady drip, and clients in processes.

`python -m tests.bench.load_generators ADDRESS METHOD CLIENTS` is one of these processes: see `concurrent_load`.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, field
from itertools import cycle
from pathlib import Path
from typing import TypeVar

import grpc
from grpc import aio

Request = TypeVar("Request")
Call = Callable[[Request], Awaitable[object]]
WARM_UP = 30
_ROOT = Path(__file__).resolve().parents[2]
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


@dataclass(frozen=True, slots=True)
class Load:
    """The calls of concurrent clients.

    Attributes:
        seconds: The duration of each answered call.
        refused: The number of calls that were refused because too many others waited.
        began: The time of the first call by `time.perf_counter`, which all processes of a machine share on Linux.
        ended: The time of the last response.
    """

    seconds: list[float]
    refused: int
    began: float
    ended: float

    @property
    def per_second(self) -> float:
        """Return the rate of answered calls."""
        return len(self.seconds) / (self.ended - self.began)


async def concurrent_load(address: str, method: str, requests: Sequence[bytes], *, clients: int) -> Load:
    """Let clients in processes of their own share the encoded requests, each making one call after another.

    Each client has a connection of its own. There are as many processes as processors, or as clients if these are
    fewer; they begin when all of them are connected.
    """
    count = min(clients, os.cpu_count() or 1)
    shares = [clients // count + (number < clients % count) for number in range(count)]
    processes = [await _start_generator(address, method, share) for share in shares]
    try:
        await asyncio.gather(*(_prepare(one, requests[at::count]) for at, one in enumerate(processes)))
        replies = await asyncio.gather(*(one.communicate(b"go\n") for one in processes))
    finally:
        for one in processes:
            if one.returncode is None:
                one.kill()
                await one.wait()
    loads = [Load(**json.loads(output)) for output, _ in replies]
    return Load(
        [seconds for one in loads for seconds in one.seconds],
        sum(one.refused for one in loads),
        min(one.began for one in loads),
        max(one.ended for one in loads),
    )


async def _start_generator(address: str, method: str, clients: int) -> Process:
    command = (sys.executable, "-m", "tests.bench.load_generators", address, method, str(clients))
    return await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, cwd=_ROOT)


async def _prepare(process: Process, requests: Sequence[bytes]) -> None:
    """Send the requests to a process and wait until it is connected."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps([len(one) for one in requests]).encode() + b"\n")
    process.stdin.writelines(requests)
    await process.stdin.drain()
    if await process.stdout.readline() != b"connected\n":
        message = "A load generator ended before it was connected."
        raise ConnectionError(message)


async def _generate(address: str, method: str, clients: int) -> Load:
    """Take requests from standard input, connect, wait for a line there, and call."""
    requests = iter([sys.stdin.buffer.read(size) for size in json.loads(sys.stdin.buffer.readline())])
    durations: list[float] = []
    refused = 0

    async def client(channel: aio.Channel) -> None:
        nonlocal refused
        call: aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)
        for request in requests:
            started = time.perf_counter()
            try:
                await call(request)
            except aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                    raise
                refused += 1
            else:
                durations.append(time.perf_counter() - started)

    async with AsyncExitStack() as stack:
        # Channels of one process with equal arguments would share a connection.
        options = (("grpc.use_local_subchannel_pool", 1),)
        channels = [
            await stack.enter_async_context(aio.insecure_channel(address, options=options)) for _ in range(clients)
        ]
        await asyncio.gather(*(channel.channel_ready() for channel in channels))
        sys.stdout.write("connected\n")
        sys.stdout.flush()
        sys.stdin.buffer.readline()
        with undisturbed():
            began = time.perf_counter()
            await asyncio.gather(*(client(channel) for channel in channels))
            return Load(durations, refused, began, time.perf_counter())


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asdict(asyncio.run(_generate(sys.argv[1], sys.argv[2], int(sys.argv[3]))))))
