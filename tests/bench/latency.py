"""Latency and throughput over gRPC, beside the floor of the same run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grpc_health.v1 import health_pb2

from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.bench import requests as asking
from tests.bench.baseline import ROWS, Engines, measure_engines
from tests.bench.load_generators import WARM_UP, one_by_one, side_by_side
from tests.bench.results import Row, Sample, Target, at_least, at_most, timed
from tests.bench.server import Server
from tests.bench.synthetic_corpus import Corpus, Question

PART = "Latency and throughput"
WRITERS = 16
SEARCHERS = 8
_PAGE = 1_000
_TEXT_MARGIN_MS = 5.0
_TIMES_FLOOR = 3.0
_TIMES_ONE_WRITER = 8.0

_SEARCHES: Mapping[str, Callable[[Question], Any]] = {
    "hybrid": asking.hybrid,
    "semantic": asking.semantic,
    "keyword": asking.keyword,
    "in_range": asking.in_range,
    "text": asking.by_text,
}


@dataclass(slots=True)
class Latencies:
    """The samples of one server, by what was called; rates in calls a second."""

    samples: dict[str, Sample] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)
    ids: list[list[str]] = field(default_factory=list)


async def measure_reads(server: Server, corpus: Corpus, count: int, told: Callable[[], None]) -> Latencies:
    """Search, get and list, one call after another, then search with several callers at once."""
    found = Latencies(ids=await _ids(server, corpus, count))
    pings = [health_pb2.HealthCheckRequest()] * (count + WARM_UP)
    found.samples["rpc"] = Sample.of(await one_by_one(server.health.Check, pings))
    for name, request in _SEARCHES.items():
        asked = [request(one) for one in corpus.questions(count + WARM_UP, purpose=name)]
        found.samples[name] = Sample.of(await one_by_one(server.searches.Search, asked))
        told()
    gets = [
        memory_pb.GetMemoryRequest(scope=asking.scope(user), id=one)
        for user, one in await _named(server, corpus, count)
    ]
    found.samples["get"] = Sample.of(await one_by_one(server.memories.GetMemory, gets))
    lists = [
        memory_pb.ListMemoriesRequest(scope=asking.scope(one.user)) for one in corpus.questions(count, purpose="l")
    ]
    found.samples["list"] = Sample.of(await one_by_one(server.memories.ListMemories, lists))
    asked = [asking.hybrid(one) for one in corpus.questions(count * 2, purpose="side by side")]
    seconds, whole = await side_by_side(server.searches.Search, asked, callers=SEARCHERS)
    found.samples["searchers"] = Sample.of(seconds)
    found.rates["searchers"] = len(seconds) / whole
    told()
    return found


async def measure_writes(server: Server, found: Latencies, dimension: int, count: int) -> None:
    """Create memories: durable ones, found ones, and found ones with several writers at once."""
    writers = Corpus(users=3, lines=count + WARM_UP, dimension=dimension, prefix="writer")
    create = server.memories.CreateMemory
    stored, alone, together = (writers.lines(user) for user in writers.users)
    durable = [asking.create("writer-000", line, types_pb.WAIT_FOR_STORED) for line in stored]
    found.samples["stored"] = Sample.of(await one_by_one(create, durable))
    few = min(len(alone), WARM_UP // 3 + count // 4)
    visible = [asking.create("writer-001", line, types_pb.WAIT_FOR_INDEXED) for line in alone[:few]]
    seconds = await one_by_one(create, visible, warm_up=WARM_UP // 3)
    found.samples["indexed"] = Sample.of(seconds)
    found.rates["indexed"] = len(seconds) / sum(seconds)
    at_once = [asking.create("writer-002", line, types_pb.WAIT_FOR_INDEXED) for line in together]
    seconds, whole = await side_by_side(create, at_once, callers=WRITERS)
    found.samples["writers"] = Sample.of(seconds)
    found.rates["writers"] = len(seconds) / whole


async def measure_floor(directory: Path, corpus: Corpus, found: Latencies, count: int) -> Engines:
    """Ask the engines for what the hybrid searches needed of them; the server must have stopped."""
    return await measure_engines(directory, corpus.questions(count + WARM_UP, purpose="hybrid"), found.ids)


def latency_rows(size: int, found: Latencies, floor: Engines, embedding: Sample) -> list[Row]:
    """Return the table of one size; the targets hold for 100 000 memories and are shown for every size."""
    s, at = found.samples, f"{size:,}".replace(",", " ")
    parts = {"dense": floor.dense, "BM25": floor.bm25, f"{ROWS} rows by id": floor.rows, "empty RPC": s["rpc"]}
    total = sum(sample.p50 for sample in parts.values())
    rows = [timed(PART, f"{at}: floor, {name}", sample) for name, sample in parts.items()]
    rows.append(timed(PART, f"{at}: floor, embedding a query", embedding))
    rows.append(Row(PART, f"{at}: the engines, each in a loop of its own (note)", floor.in_a_loop, "ms"))
    words = floor.bm25.p50 + floor.rows.p50 + s["rpc"].p50
    meaning = floor.dense.p50 + floor.rows.p50 + s["rpc"].p50
    rows += [
        timed(PART, f"{at}: Search hybrid, vector given", s["hybrid"], floor=total, targets=_hybrid_targets(s, total)),
        timed(PART, f"{at}: Search semantic, vector given", s["semantic"], floor=meaning),
        timed(PART, f"{at}: Search keyword", s["keyword"], floor=words),
        timed(PART, f"{at}: Search hybrid in a time range", s["in_range"], floor=total),
        timed(PART, f"{at}: Search hybrid, text alone", s["text"], floor=embedding.p50, targets=_text(s, embedding)),
        timed(PART, f"{at}: GetMemory", s["get"], floor=s["rpc"].p50, targets=[at_most(s["get"].p50, 1.5, "1.5 ms")]),
        timed(PART, f"{at}: ListMemories, 50", s["list"], floor=s["rpc"].p50),
        Row(PART, f"{at}: {SEARCHERS} searchers at once", found.rates["searchers"], "searches/s", s["searchers"]),
    ]
    return rows + _write_rows(at, found)


def _write_rows(at: str, found: Latencies) -> list[Row]:
    s, rates = found.samples, found.rates
    ratio = rates["writers"] / rates["indexed"]
    return [
        timed(PART, f"{at}: CreateMemory STORED", s["stored"], targets=[at_most(s["stored"].p50, 5.0, "5 ms")]),
        timed(PART, f"{at}: CreateMemory INDEXED", s["indexed"], targets=[at_most(s["indexed"].p50, 45.0, "45 ms")]),
        Row(
            PART,
            f"{at}: {WRITERS} writers INDEXED against one",
            rates["writers"],
            "writes/s",
            s["writers"],
            rates["indexed"],
            (at_least(ratio, _TIMES_ONE_WRITER, "8 times one writer's rate"),),
        ),
    ]


def _hybrid_targets(samples: Mapping[str, Sample], total: float) -> list[Target]:
    value = samples["hybrid"].p50
    return [at_most(value, _TIMES_FLOOR * total, "3 × floor"), at_most(value, 5.0, "5 ms")]


def _text(samples: Mapping[str, Sample], embedding: Sample) -> list[Target]:
    return [at_most(samples["text"].p50, embedding.p50 + _TEXT_MARGIN_MS, "floor + 5 ms")]


async def _named(server: Server, corpus: Corpus, count: int) -> list[tuple[str, str]]:
    """Return users and ids of theirs, mixed."""
    listed = [(user, await _listed(server, user)) for user in corpus.users[:10]]
    share = -(-(count + WARM_UP) // len(listed))
    return [(user, ids[number % len(ids)]) for number in range(share) for user, ids in listed][: count + WARM_UP]


async def _ids(server: Server, corpus: Corpus, count: int) -> list[list[str]]:
    """Return lists of `ROWS` ids, each of one user."""
    listed = [await _listed(server, user) for user in corpus.users[:10]]
    lists = [ids[start : start + ROWS] for ids in listed for start in range(0, len(ids) - ROWS + 1, ROWS)]
    times = -(-(count + WARM_UP) // len(lists))
    return (lists * times)[: count + WARM_UP]


async def _listed(server: Server, user: str) -> list[str]:
    request = memory_pb.ListMemoriesRequest(scope=asking.scope(user), page_size=_PAGE)
    reply: memory_pb.ListMemoriesResponse = await server.memories.ListMemories(request)
    return [one.id for one in reply.memories]
