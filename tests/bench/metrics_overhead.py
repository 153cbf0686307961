"""`python -m tests.bench.metrics_overhead`: what counting calls adds to a search, in processor time of the service."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from memsvc.bootstrap.app import running
from memsvc.domain.clock import Deadline, utc_now
from memsvc.domain.scope import Scope
from memsvc.domain.search import SearchQuery
from memsvc.domain.write_requests import Draft, WriteOptions
from memsvc.engine.runtime.latency_stats import LatencyStats
from memsvc.server.call_context import Call, CallNext
from memsvc.server.monitoring.metrics import CallMetrics
from memsvc.settings import load_settings

CALLS, SEARCHES, MEMORIES = 50_000, 2_000, 4_000
MICRO = 1_000_000


def main() -> int:
    """Print microseconds for each call, and their share of a search."""
    counting = asyncio.run(_counting())
    recording = _recording()
    searching, recorded = _searching()
    share = counting / searching
    measured = recorded * recording / searching
    sys.stdout.write(
        f"a search (engine alone, {MEMORIES} memories): {searching:.0f} us\n"
        f"metrics of a call: {counting:.2f} us, {share:.2%} of it\n"
        f"durations by layer, always on: {recorded:.0f} records of {recording:.2f} us, {measured:.2%} of it\n"
    )
    return 0


async def _counting() -> float:
    async def call_next(call: Call) -> Any:
        return call

    layer = CallMetrics(CollectorRegistry())
    call = Call("Search", None, None, service="memsvc.v1.SearchService")  # type: ignore[arg-type]  # not looked at

    async def with_layer(call: Call) -> Any:
        return await layer.intercept(call, call_next)

    async def timed(way: CallNext) -> float:
        started = time.process_time()
        for _ in range(CALLS):
            await way(call)
        return (time.process_time() - started) / CALLS * MICRO

    bare, counted = await timed(call_next), await timed(with_layer)
    return counted - bare


def _recording() -> float:
    performance = LatencyStats(utc_now)
    return _timed(lambda: performance.record("Search", "vectors", 0.001), CALLS)


def _searching() -> tuple[float, float]:
    """Return the processor time of a search whose query is new to no cache, and how many durations it records."""
    with tempfile.TemporaryDirectory() as directory:
        settings = load_settings(data_dir=Path(directory), embedder={"backend": "wordllama"})
        with running(settings) as application:
            scope = Scope("u")
            drafts = [Draft(f"Walrus number{number} swims with gannet {number % 97}.") for number in range(MEMORIES)]
            for start in range(0, MEMORIES, 1_000):
                written = application.memory_creator.create_batch(scope, drafts[start : start + 1_000], WriteOptions())
                application.indexer.when_reached(written.position).result()
            query = SearchQuery(scope=scope, text="number77")
            for _ in range(100):
                application.search.search(query, Deadline())
            before = _records(application.performance)
            spent = _timed(lambda: application.search.search(query, Deadline()), SEARCHES)
            return spent, (_records(application.performance) - before) / SEARCHES


def _records(performance: LatencyStats) -> int:
    return sum(one.durations.count for one in performance.report())


def _timed(work: Callable[[], object], times: int) -> float:
    started = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - started) / times * MICRO


if __name__ == "__main__":
    sys.exit(main())
