"""One machine at its sizes: many small users and one large one, what each memory costs, and how long a start takes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench import requests as asking
from tests.bench.latency import Latencies, measure_floor, measure_reads
from tests.bench.load_generators import concurrent_load
from tests.bench.results import Row, Sample, Target, at_most
from tests.bench.seed import rebuild_vectors, run_import, searchable, settled, vector_dimension
from tests.bench.server import SEARCH_SERVICE, Server, running_server, started_server, usage
from tests.bench.settings import Plan
from tests.bench.synthetic_corpus import Corpus

PART = "Scale"
LARGEST_USER = 100_000
LINES = 10
"""Memories of a small user."""
PARTS = 10
"""Parts of the import whose cost is reported."""
STREAMS = 8
CLIENTS = (1, 8, 64)
REST_PATIENCE_SECONDS = 3_600.0
_MIB, _GIB = 1024 * 1024, 1024**3
_SEARCH = f"/{SEARCH_SERVICE}/Search"
RATIOS = ((100_000, 2.2), (1_000_000, 3.0))
"""The most that a hybrid search may take at a size, as a multiple of the floor at that size."""


@dataclass(slots=True)
class _Filling:
    """What the import took, part by part: memories so far, seconds of the part, bytes of the data directory."""

    parts: list[tuple[int, float, int]] = field(default_factory=list)
    rest_seconds: float = 0.0


async def measure_scale(plan: Plan, told: Callable[[str, int], Callable[[], None]]) -> list[Row]:
    """Measure each size of the plan on a server of its own."""
    rows = []
    for size in plan.sizes:
        with TemporaryDirectory(prefix="memsvc-bench-") as folder:
            rows += await _measure_size(Path(folder) / "data", size, plan, told)
    return rows


async def _measure_size(
    directory: Path, size: int, plan: Plan, told: Callable[[str, int], Callable[[], None]]
) -> list[Row]:
    at = f"{size:,}".replace(",", " ")
    async with running_server(directory, plan.server) as server:
        dimension = await vector_dimension(server)
        large = Corpus(users=1, lines=min(LARGEST_USER, size // 2), dimension=dimension, prefix="large")
        small = Corpus(users=(size - large.lines_per_user) // LINES, lines=LINES, dimension=dimension, prefix="small")
        filling = await _fill(server, directory, large, small, told(f"{at}: import", PARTS))
        rows = _filling_rows(at, size, filling, directory)
        used = usage(server.process.pid)
        bounds = [at_most(used.resident_bytes / _GIB, 4.0, "4 GiB")] if size >= RATIOS[-1][0] else []
        rows.append(Row(PART, f"{at}: resident memory", used.resident_bytes / _GIB, "GiB", targets=tuple(bounds)))
        step = told(f"{at}: searches", 2 * len(CLIENTS) + 1)
        found = await measure_reads(server, large, plan.searches, lambda: None)
        step()
        for name, corpus in ((f"user with {large.lines_per_user:,}", large), (f"users with {LINES}", small)):
            rows += await _loads(server, f"{at}: hybrid search, {name.replace(',', ' ')}", corpus, plan, step)
        rows.append(Row(PART, f"{at}: rebuild of the vectors", await _rebuilt(server), "s"))
    rows += await _start(directory, at, size, plan)
    rows += await _floor(directory, at, size, large, found, plan)
    return rows


async def _fill(server: Server, directory: Path, large: Corpus, small: Corpus, step: Callable[[], None]) -> _Filling:
    """Import the large user first, then small ones, several at a time; then wait until the service rests."""
    filling = _Filling()
    began = time.perf_counter()
    await run_import(server, asking.import_messages(large.users[0], large.lines(large.users[0])))
    await searchable(server, patience_seconds=REST_PATIENCE_SECONDS)
    filling.parts.append((large.lines_per_user, time.perf_counter() - began, _bytes(directory)))
    step()
    streams = asyncio.Semaphore(STREAMS)

    async def one(user: str) -> None:
        async with streams:
            await run_import(server, asking.import_messages(user, small.lines(user)))

    done = large.lines_per_user
    for users in _shares(small.users, PARTS - 1):
        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for user in users:
                group.create_task(one(user))
        await searchable(server, patience_seconds=REST_PATIENCE_SECONDS)
        done += len(users) * LINES
        filling.parts.append((done, time.perf_counter() - began, _bytes(directory)))
        step()
    filling.rest_seconds = await settled(server, patience_seconds=REST_PATIENCE_SECONDS)
    return filling


def _shares(users: Sequence[str], parts: int) -> Iterator[Sequence[str]]:
    size = -(-len(users) // parts)
    for start in range(0, len(users), size):
        yield users[start : start + size]


def _bytes(directory: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in directory.rglob("*") if path.is_file())


def _filling_rows(at: str, size: int, filling: _Filling, directory: Path) -> list[Row]:
    seconds = sum(one for _, one, _ in filling.parts)
    rows = [
        Row(PART, f"{at}: import with given vectors, searchable", size / seconds, "memories/s"),
        Row(PART, f"{at}: rest after the import, in which graphs are built", filling.rest_seconds, "s"),
        Row(PART, f"{at}: disk for each memory", _bytes(directory) / size, "bytes"),
    ]
    before = 0
    for number, (done, one, _) in enumerate(filling.parts):
        # The first part is a single large user; the others show how the cost grows.
        if number:
            there = f"{done:,}".replace(",", " ")
            rows.append(Row(PART, f"{at}: time for each memory, {there} there", one / (done - before) * 1e3, "ms"))
        before = done
    return rows


async def _loads(server: Server, name: str, corpus: Corpus, plan: Plan, step: Callable[[], None]) -> list[Row]:
    rows = []
    for clients in CLIENTS:
        asked = corpus.questions(2 * plan.searches, purpose=f"{name} {clients}")
        load = await concurrent_load(
            server.address, _SEARCH, [asking.hybrid(one).SerializeToString() for one in asked], clients=clients
        )
        sample = Sample.of(load.seconds)
        rows.append(Row(PART, f"{name}, clients: {clients}", sample.p50, "ms", sample))
        rows.append(Row(PART, f"{name}, clients: {clients}, rate", load.per_second, "calls/s"))
        step()
    return rows


async def _rebuilt(server: Server) -> float:
    began = time.perf_counter()
    await rebuild_vectors(server)
    return time.perf_counter() - began


async def _start(directory: Path, at: str, size: int, plan: Plan) -> list[Row]:
    async with started_server(directory, plan.server) as server:
        seconds = await server.serving()
    bounds = [at_most(seconds, 10.0, "10 s")] if size >= RATIOS[-1][0] else []
    return [Row(PART, f"{at}: start to SERVING", seconds, "s", targets=tuple(bounds))]


async def _floor(directory: Path, at: str, size: int, corpus: Corpus, found: Latencies, plan: Plan) -> list[Row]:
    """Compare a hybrid search of the large user with what the engines alone take, in a directory without a server."""
    engines = await measure_floor(directory, corpus, found, plan.searches)
    total = sum(one.p50 for one in (engines.dense, engines.bm25, engines.rows, found.samples["rpc"]))
    hybrid = found.samples["hybrid"]
    ratio = next((most for least, most in reversed(RATIOS) if size >= least), RATIOS[0][1])
    target: tuple[Target, ...] = (at_most(hybrid.p50, ratio * total, f"{ratio:g} × the floor"),)
    name = f"{at}: hybrid search, vector given, one at a time"
    return [Row(PART, name, hybrid.p50, "ms", hybrid, floor=total, targets=target)]
