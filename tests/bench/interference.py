"""Searches while something else keeps the service busy: an import, and the building of an index with a graph."""

from __future__ import annotations

import asyncio

from memsvc_backends.qdrant_edge.settings import QdrantEdgeSettings
from tests.bench import requests as asking
from tests.bench.load_generators import Drip, dripping
from tests.bench.results import Row, Sample, Target, at_most
from tests.bench.seed import rebuild_vectors, run_import, searchable
from tests.bench.server import Server
from tests.bench.synthetic_corpus import Corpus

PART = "Waiting"
_PER_SECOND = 25.0
_IDLE_SECONDS = 6.0
_BOUND_MS = 50.0
_FEW = 2_000


async def measure_waits(server: Server, corpus: Corpus, *, is_quick: bool) -> list[Row]:
    """Search at a steady pace while nothing else happens, while an import runs, and while an index is rebuilt."""
    questions = [asking.hybrid(one) for one in corpus.questions(1_000, purpose="waits")]
    async with dripping(server.searches.Search, questions, per_second=_PER_SECOND) as quiet:
        await asyncio.sleep(_IDLE_SECONDS)
    idle = Sample.of(quiet.seconds)
    rows = _rows("nothing else happens", quiet, idle, is_bound=False)
    # So many of one user that a graph pays for it.
    count = _FEW if is_quick else QdrantEdgeSettings().graph_threshold + _FEW
    extra = Corpus(users=1, lines=count, dimension=corpus.dimension, prefix="extra")
    messages = asking.import_messages(extra.users[0], extra.lines(extra.users[0]))
    async with dripping(server.searches.Search, questions, per_second=_PER_SECOND) as importing:
        await run_import(server, messages)
        await searchable(server)
    rows += _rows(f"an import of {extra.size} runs", importing, idle)
    async with dripping(server.searches.Search, questions, per_second=_PER_SECOND) as building:
        await rebuild_vectors(server)
    return rows + _rows("the vectors are rebuilt" + ("" if is_quick else ", with a graph"), building, idle)


def _rows(while_: str, drip: Drip, idle: Sample, *, is_bound: bool = True) -> list[Row]:
    sample = Sample.of(drip.seconds)
    wait = sample.longest - idle.p50
    targets: tuple[Target, ...] = (at_most(wait, _BOUND_MS, "50 ms"),) if is_bound else ()
    name = f"longest extra wait while {while_} (this client's own stall: {drip.stall_seconds * 1_000:.0f} ms)"
    return [
        Row(PART, f"Search p95 while {while_}", sample.p95, "ms", sample, idle.p95),
        Row(PART, name, wait, "ms", targets=targets),
        *([Row(PART, f"searches refused while {while_}", float(len(drip.refused)), "")] if drip.refused else []),
    ]
