"""Two servers over one PostgreSQL against one, in writes; and how much of the machine each takes."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from memsvc.v1 import types_pb2 as types_pb
from tests.bench import requests as asking
from tests.bench.load_generators import WARM_UP, side_by_side
from tests.bench.postgres import database
from tests.bench.results import Row, at_least
from tests.bench.seed import vector_dimension
from tests.bench.server import Server, running_server
from tests.bench.settings import Plan
from tests.bench.synthetic_corpus import Corpus

PART = "Replicas"
WRITERS = 16
"""Writers at each server, and at the one."""
ROUNDS = 3
_TIMES_ONE = 1.6
_IDLE = (3, 4)
"""Where in the first line of /proc/stat the time is that no core was busy."""


async def measure_replicas(plan: Plan, stage: Callable[[str, int], Callable[[], None]]) -> list[Row]:
    """Write with given vectors to one server and to two, in turn, and take the median of the rounds."""
    rates: dict[int, list[float]] = {1: [], 2: []}
    busy: dict[int, list[float]] = {1: [], 2: []}
    told = stage("writes to one server and to two", 2 * ROUNDS)
    async with _both(plan) as servers:
        dimension = await vector_dimension(servers[0])
        for number in range(ROUNDS):
            for count in (1, 2):
                corpus = Corpus(
                    users=count, lines=plan.searches + WARM_UP, dimension=dimension, prefix=f"round-{number}-{count}"
                )
                rate, cores = await _written(servers[:count], corpus)
                rates[count].append(rate)
                busy[count].append(cores)
                told()
    one, two = (sorted(rates[count])[ROUNDS // 2] for count in (1, 2))
    target = at_least(two, _TIMES_ONE * one, "1.6 × one server")
    return [
        Row(PART, f"one server, {WRITERS} writers STORED", one, "writes/s"),
        Row(PART, f"two servers, {WRITERS} writers each", two, "writes/s", floor=one, targets=(target,)),
        Row(
            PART, "one server: cores of the machine that are busy", sorted(busy[1])[ROUNDS // 2], f"of {os.cpu_count()}"
        ),
        Row(
            PART,
            "two servers: cores of the machine that are busy",
            sorted(busy[2])[ROUNDS // 2],
            f"of {os.cpu_count()}",
        ),
    ]


async def _written(servers: Sequence[Server], corpus: Corpus) -> tuple[float, float]:
    """Return the writes a second of all servers together, and how many cores were busy meanwhile."""
    requests = [
        [asking.create(user, line, types_pb.WAIT_FOR_STORED) for line in corpus.lines(user)] for user in corpus.users
    ]
    started, before = time.perf_counter(), _busy_seconds()
    await asyncio.gather(
        *(
            side_by_side(server.memories.CreateMemory, each, callers=WRITERS)
            for server, each in zip(servers, requests, strict=True)
        )
    )
    seconds = time.perf_counter() - started
    return sum(map(len, requests)) / seconds, (_busy_seconds() - before) / seconds


def _busy_seconds() -> float:
    first = Path("/proc/stat").read_text(encoding="utf-8").splitlines()[0].split()[1:]
    busy = sum(int(ticks) for place, ticks in enumerate(first[:8]) if place not in _IDLE)
    return busy / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def _both(plan: Plan) -> AsyncIterator[Sequence[Server]]:
    with TemporaryDirectory(prefix="memsvc-bench-") as folder, database(Path(folder) / "postgres") as url:
        chosen: Mapping[str, str] = {**plan.server, "profile": "postgres", "metadata.options.url": url}
        async with AsyncExitStack() as stack:
            yield [
                await stack.enter_async_context(running_server(Path(folder) / name, chosen))
                for name in ("one", "other")
            ]
