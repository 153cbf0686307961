"""Two servers over one PostgreSQL against one, in writes; and how much of the machine each takes."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg

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
SLOW_MS = 100
"""Duration of a slow commit: PostgreSQL's own limit for it."""
_TIMES_ONE = 1.6
_LOOK_SECONDS = 0.05
_WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
_IDLE = (3, 4)
"""Where in the first line of /proc/stat the time is that no core was busy."""


async def measure_replicas(plan: Plan, stage: Callable[[str, int], Callable[[], None]]) -> list[Row]:
    """Write with given vectors to one server and to two, in turn, and take the median of the rounds.

    Once with the disk as it is, and once with a commit that takes as long as one to a replica far away: there a lock
    that is held during a commit limits the rate, and not the cores of this machine.
    """
    rows: list[Row] = []
    async with _both(plan) as (servers, url):
        dimension = await vector_dimension(servers[0])
        for name, milliseconds in (("", 0), (f", commits of {SLOW_MS} ms", SLOW_MS)):
            _slow_down(url, milliseconds)
            told = stage(f"writes to one server and to two{name}", 2 * ROUNDS)
            rows += await _compare(plan, (servers, url), (name, dimension), told)
    return rows


async def _compare(
    plan: Plan, running: tuple[Sequence[Server], str], shown: tuple[str, int], told: Callable[[], None]
) -> list[Row]:
    (servers, url), (name, dimension) = running, shown
    found: dict[int, list[tuple[float, float, float]]] = {1: [], 2: []}
    for number in range(ROUNDS):
        for count in (1, 2):
            prefix = f"round-{len(name)}-{number}-{count}"
            corpus = Corpus(users=count, lines=plan.searches + WARM_UP, dimension=dimension, prefix=prefix)
            with _lock_waits(url) as waits:
                rate, cores = await _written(servers[:count], corpus)
            found[count].append((rate, cores, sum(waits) / max(1, len(waits))))
            told()
    one, two = (tuple(sorted(values)[ROUNDS // 2] for values in zip(*found[count], strict=True)) for count in (1, 2))
    # With the disk as it is, two servers need more cores than one keeps busy.
    targets = (at_least(two[0], _TIMES_ONE * one[0], "1.6 × one server"),) if name else ()
    unit = f"of {os.cpu_count()}"
    return [
        Row(PART, f"one server, {WRITERS} writers STORED{name}", one[0], "writes/s"),
        Row(PART, f"two servers, {WRITERS} writers each{name}", two[0], "writes/s", floor=one[0], targets=targets),
        Row(PART, f"two servers: transactions that wait for a lock{name}", two[2], "on average"),
        Row(PART, f"one server: cores of the machine that are busy{name}", one[1], unit),
        Row(PART, f"two servers: cores of the machine that are busy{name}", two[1], unit),
    ]


def _slow_down(url: str, milliseconds: int) -> None:
    """Let every flush of PostgreSQL's log wait, as if the disk, or a synchronous replica, were so slow."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET commit_siblings = 0")
        connection.execute(f"ALTER SYSTEM SET commit_delay = {milliseconds * 1000}")
        connection.execute("SELECT pg_reload_conf()")


@contextmanager
def _lock_waits(url: str) -> Iterator[list[int]]:
    """Count the transactions that wait for an advisory lock, at intervals."""
    counts: list[int] = []
    stopping = threading.Event()

    def look() -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            while not stopping.wait(_LOOK_SECONDS):
                [count] = connection.execute(_WAITING).fetchone() or (0,)
                counts.append(int(count))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield counts
    finally:
        stopping.set()
        looking.join()


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
async def _both(plan: Plan) -> AsyncIterator[tuple[Sequence[Server], str]]:
    with TemporaryDirectory(prefix="memsvc-bench-") as folder, database(Path(folder) / "postgres") as url:
        chosen: Mapping[str, str] = {**plan.server, "profile": "postgres", "metadata.options.url": url}
        async with AsyncExitStack() as stack:
            servers = [
                await stack.enter_async_context(running_server(Path(folder) / name, chosen))
                for name in ("one", "other")
            ]
            yield servers, url
