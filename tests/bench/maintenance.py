"""A maintenance run over many memories with thousands of due changes, and searches meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.bench import requests as asking
from tests.bench.load_generators import dripping
from tests.bench.results import Row, Sample, at_most
from tests.bench.seed import run_import, searchable, settled
from tests.bench.server import Server, running_server
from tests.bench.settings import Plan
from tests.bench.synthetic_corpus import Corpus, Line

PART = "Maintenance"
DUE = 5_000
_QUICK_DUE = 500
_SHARE = 5
"""One of so many due memories was read often, another one is kept beyond the storage limit; the rest have expired."""
_WORK = 50
"""One of so many expired memories is work in progress."""
_HOARDED_BYTES = 700
"""The size of each memory that is kept beyond the limit: still of one chunk."""
_MOST_SECONDS = 60.0
_TIMES_USUAL = 2.0
_PER_SECOND = 25.0
_IDLE_SECONDS = 6.0
_PAGE = 1_000


async def measure_maintenance(directory: Path, corpus: Corpus, plan: Plan) -> list[Row]:
    """Start a server on what lies in *directory*, make some thousand memories due, and run maintenance for everybody."""
    count = _QUICK_DUE if plan.is_quick else DUE
    settings: Mapping[str, str] = {
        **plan.server,
        "maintenance.promote_accesses": "1",
        "maintenance.storage_limit_bytes": str(count // _SHARE * _HOARDED_BYTES),
        "maintenance.interval_minutes": "0",
    }
    questions = [asking.hybrid(one) for one in corpus.questions(1_000, purpose="maintenance")]
    async with running_server(directory, settings) as server:
        await _make_due(server, count, corpus.dimension)
        await settled(server)
        async with dripping(server.searches.Search, questions, per_second=_PER_SECOND) as quiet:
            await asyncio.sleep(_IDLE_SECONDS)
        async with dripping(server.searches.Search, questions, per_second=_PER_SECOND) as busy:
            seconds, last = await _run(server)
            await searchable(server)
    return _rows(corpus.size, (seconds, last), Sample.of(quiet.seconds), Sample.of(busy.seconds))


def _rows(size: int, run: tuple[float, lifecycle_pb.RunMaintenanceResponse], usual: Sample, busy: Sample) -> list[Row]:
    seconds, last = run
    at = f"{size:,}".replace(",", " ")
    changed = sum(tally.changed_count for tally in last.tallies)
    limit = at_most(seconds, _MOST_SECONDS, f"{_MOST_SECONDS:g} s")
    rows = [Row(PART, f"{at}: a run that changes {changed} memories", seconds, "s", targets=(limit,))]
    for tally in last.tallies:
        name = lifecycle_pb.MaintenanceStep.Name(tally.step).removeprefix("MAINTENANCE_STEP_").lower()
        took = tally.duration.ToTimedelta().total_seconds()
        rows.append(Row(PART, f"{at}: of it the step {name}, {tally.changed_count} changes", took, "s"))
    target = at_most(busy.p95, _TIMES_USUAL * usual.p95, f"{_TIMES_USUAL:g} × usual")
    rows.append(Row(PART, f"{at}: Search p95 until all is indexed", busy.p95, "ms", busy, usual.p95, (target,)))
    return rows


async def _run(server: Server) -> tuple[float, lifecycle_pb.RunMaintenanceResponse]:
    started = time.perf_counter()
    last = lifecycle_pb.RunMaintenanceResponse()
    async for response in server.lifecycle.RunMaintenance(lifecycle_pb.RunMaintenanceRequest(all=True)):
        last = response
    return time.perf_counter() - started, last


async def _make_due(server: Server, count: int, dimension: int) -> None:
    """Store what has expired, what was read often, and twice as much as a user may keep."""
    share = count // _SHARE
    lines = Corpus(users=1, lines=count + share, dimension=dimension, prefix="due").lines("due-000")
    often, hoarded, over = lines[:share], lines[share : 3 * share], lines[3 * share :]
    await run_import(server, _messages("due-often", often, [_short(line) for line in often]))
    await run_import(server, _messages("due-hoard", hoarded, [_padded(line) for line in hoarded]))
    past = asking.timestamp(datetime.now(UTC) - timedelta(hours=1))
    expired = [_short(line, expire_time=past, work=not number % _WORK) for number, line in enumerate(over)]
    await run_import(server, _messages("due-over", over, expired))
    await searchable(server)
    listed = memory_pb.ListMemoriesRequest(scope=asking.scope("due-often"), page_size=_PAGE)
    ids = [memory.id for memory in (await server.memories.ListMemories(listed)).memories]
    await server.memories.BatchGetMemories(memory_pb.BatchGetMemoriesRequest(scope=asking.scope("due-often"), ids=ids))


def _short(line: Line, *, expire_time: Timestamp | None = None, work: bool = False) -> types_pb.Memory:
    return types_pb.Memory(
        content=line.text, layer=types_pb.MEMORY_LAYER_SHORT_TERM, expire_time=expire_time, work_in_progress=work
    )


def _padded(line: Line) -> types_pb.Memory:
    return types_pb.Memory(content=f"{line.text} ".ljust(_HOARDED_BYTES, "x")[:_HOARDED_BYTES])


def _messages(user: str, lines: Sequence[Line], memories: Sequence[types_pb.Memory]) -> list[bytes]:
    header = memory_pb.ImportHeader(scope=asking.scope(user), wait_for=types_pb.WAIT_FOR_STORED)
    messages = [memory_pb.ImportMemoriesRequest(header=header)]
    for start in range(0, len(lines), asking.IMPORT_BATCH):
        part = slice(start, start + asking.IMPORT_BATCH)
        batch = memory_pb.ImportBatch(
            first_index=start,
            memories=[
                memory_pb.BatchMemory(memory=memory, vector=line.vector.tolist())
                for line, memory in zip(lines[part], memories[part], strict=True)
            ],
        )
        messages.append(memory_pb.ImportMemoriesRequest(batch=batch))
    return [message.SerializeToString() for message in messages]
