"""What it costs a write to find what it contradicts."""

from __future__ import annotations

from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.bench import requests as asking
from tests.bench.latency import PART
from tests.bench.load_generators import WARM_UP, one_by_one
from tests.bench.results import Row, Sample, at_most
from tests.bench.server import Server

USER = "contradicting"
STORED = 2_000
"""How many memories the user has that state something."""
_MOST_MS = 5.0
_BATCH = 500


async def measure_conflicts(server: Server, dimension: int, count: int) -> list[Row]:
    """Return the rows of writes that state nothing, something new, and the contrary of what is stored, turn by turn."""
    await _fill(server, dimension)
    written = [one for number in range(count + WARM_UP) for one in _turn(number, dimension)]
    sorts = ("silent", "new", "contrary")
    seconds = await one_by_one(server.memories.CreateMemory, written, warm_up=WARM_UP * len(sorts))
    samples = {sort: Sample.of(seconds[place :: len(sorts)]) for place, sort in enumerate(sorts)}
    floor = samples["silent"]
    rows = [Row(PART, "CreateMemory, stored, compared with nothing (note)", floor.p50, "ms", floor)]
    for sort, name in (("new", "that contradicts nothing"), ("contrary", "that contradicts one, which is marked")):
        sample = samples[sort]
        target = at_most(sample.p50 - floor.p50, _MOST_MS, f"{_MOST_MS:g} ms more than compared with nothing")
        rows.append(Row(PART, f"CreateMemory, stored, {name}", sample.p50, "ms", sample, floor.p50, (target,)))
    return rows


async def _fill(server: Server, dimension: int) -> None:
    for start in range(0, STORED, _BATCH):
        entries = [
            memory_pb.BatchMemory(memory=types_pb.Memory(content=_port(number, 80)), vector=_vector(dimension))
            for number in range(start, start + _BATCH)
        ]
        request = memory_pb.BatchCreateMemoriesRequest(
            scope=asking.scope(USER),
            memories=entries,
            wait_for=types_pb.WAIT_FOR_STORED,
            conflict_policy=types_pb.CONFLICT_POLICY_KEEP_BOTH,
        )
        await server.memories.BatchCreateMemories(request)


def _turn(number: int, dimension: int) -> list[memory_pb.CreateMemoryRequest]:
    return [
        _create(_port(number, 90), types_pb.MEMORY_KIND_NOTE, dimension),
        _create(_port(STORED + number, 80), types_pb.MEMORY_KIND_FACT, dimension),
        _create(_port(number % STORED, 90 + number // STORED), types_pb.MEMORY_KIND_FACT, dimension),
    ]


def _port(number: int, port: int) -> str:
    return f"The port of server{number} is {port}."


def _create(content: str, kind: types_pb.MemoryKind.ValueType, dimension: int) -> memory_pb.CreateMemoryRequest:
    return memory_pb.CreateMemoryRequest(
        scope=asking.scope(USER),
        memory=types_pb.Memory(content=content, kind=kind),
        vector=_vector(dimension),
        wait_for=types_pb.WAIT_FOR_STORED,
    )


def _vector(dimension: int) -> list[float]:
    return [1.0] + [0.0] * (dimension - 1)
