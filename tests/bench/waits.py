"""Searches while something else keeps the service busy: an import, the building of a graph, a flush."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import grpc
from grpc import aio

from backends.qdrant.settings import QdrantEdgeSettings
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import search_service_pb2 as search_pb
from tests.bench import requests as asking
from tests.bench.corpus import Corpus
from tests.bench.filling import run_import, searchable, settled
from tests.bench.loads import Drip, dripping
from tests.bench.results import Row, Target, at_most
from tests.bench.samples import Sample
from tests.bench.server import Server

PART = "Waiting"
_PER_SECOND = 25.0
_IDLE_SECONDS = 6.0
_BOUND_MS = 50.0
_USERS = 5
_FLUSH_TRIES = 2
_FLUSH_LINES = 3_000
_FEW = 2_000


async def measure_waits(server: Server, corpus: Corpus, *, is_quick: bool) -> list[Row]:
    """Search at a steady pace while nothing else happens, while an import runs, and while an index is rebuilt."""
    questions = [asking.hybrid(one) for one in corpus.questions(1_000, purpose="waits")]
    async with dripping(server.searches.Search, questions, per_second=_PER_SECOND) as quiet:
        await asyncio.sleep(_IDLE_SECONDS)
    idle = Sample.of(quiet.seconds)
    rows = _rows("nothing else happens", quiet, idle, is_bound=False)
    # So many that the vector index has to flush in the middle of it.
    count = _FEW if is_quick else QdrantEdgeSettings().flush_points + _FEW
    extra = Corpus(users=_USERS, lines=count // _USERS, dimension=corpus.dimension, prefix="extra")
    imports = [asking.import_messages(user, extra.lines(user)) for user in extra.users]
    async with dripping(server.searches.Search, questions, per_second=_PER_SECOND) as importing:
        for messages in imports:
            await run_import(server, messages)
        await searchable(server)
    rows += _rows(f"an import of {extra.size} runs", importing, idle)
    async with dripping(server.searches.Search, questions, per_second=_PER_SECOND) as building:
        await _rebuild(server)
    rows += _rows("the vectors are rebuilt", building, idle)
    await settled(server)
    if not is_quick:
        rows += _rows("an idle flush begins", await _flushes(server, questions, corpus.dimension), idle)
    return rows


def _rows(while_: str, drip: Drip, idle: Sample, *, is_bound: bool = True) -> list[Row]:
    sample = Sample.of(drip.seconds)
    wait = sample.longest - idle.p50
    targets: tuple[Target, ...] = (at_most(wait, _BOUND_MS, "50 ms"),) if is_bound else ()
    name = f"longest extra wait while {while_} (this client's own stall: {drip.stall_seconds * 1_000:.0f} ms)"
    return [
        Row(PART, f"Search p95 while {while_}", sample.p95, "ms", sample, idle.p95),
        Row(PART, name, wait, "ms", targets=targets),
    ]


async def _rebuild(server: Server) -> None:
    """Rebuild the vectors; a rebuild that the service began by itself is waited for first."""
    request = lifecycle_pb.ReindexRequest(
        indexes=[lifecycle_pb.INDEX_KIND_VECTORS], mode=lifecycle_pb.REINDEX_MODE_REBUILD
    )
    while True:
        try:
            async for _ in server.lifecycle.Reindex(request):
                pass
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
                raise
            await asyncio.sleep(0.5)
        else:
            return


async def _flushes(server: Server, questions: Sequence[search_pb.SearchRequest], dimension: int) -> Drip:
    """Write something, be quiet until the index flushes, and search just then."""
    drip = Drip()
    corpus = Corpus(users=_FLUSH_TRIES, lines=_FLUSH_LINES, dimension=dimension, prefix="flush")
    for number, user in enumerate(corpus.users):
        await run_import(server, asking.import_messages(user, corpus.lines(user)))
        await searchable(server)
        await server.searches.Search(questions[number])
        await asyncio.sleep(QdrantEdgeSettings().flush_idle_seconds + 0.02 * number)
        async with dripping(server.searches.Search, questions, per_second=100.0) as just_then:
            await asyncio.sleep(0.4)
        drip.seconds.extend(just_then.seconds)
        drip.stall_seconds = max(drip.stall_seconds, just_then.stall_seconds)
    return drip
