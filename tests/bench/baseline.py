"""The floor: what the engines and the wire take by themselves, on the very data that the service searched."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import qdrant_edge as edge
import sqlalchemy as sa
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tantivy import Occur, Query

from memsvc.domain.scope import Scope
from memsvc.text.analysis import query_terms
from memsvc_backends.qdrant_common.points import OWNER as VECTOR_OWNER
from memsvc_backends.qdrant_edge.manifest import generation_name, read_manifest
from memsvc_backends.qdrant_edge.settings import QdrantEdgeSettings
from memsvc_backends.sql.tables import memories
from memsvc_backends.tantivy.index import read_manifest as read_lexical_manifest
from memsvc_backends.tantivy.schema import (
    BODY,
    ENTRY,
    TERMS,
    build_schema,
    open_index,
    owner_mark,
    place_term,
    term_key,
)
from tests.bench.echo_server import bare_server
from tests.bench.load_generators import WARM_UP, undisturbed
from tests.bench.results import Sample
from tests.bench.synthetic_corpus import Question

DEPTH = 100
ROWS = 20


Work = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class Engines:
    """How long each engine takes for its part of a search.

    Attributes:
        dense, bm25, rows: Asked in turn, as a search asks them: each question after an empty call to a bare server.
        in_a_loop: The sum of the medians where each is asked all its questions in a row, so that the processor's
            caches hold nothing but what it needs. No service is called like that.
    """

    dense: Sample
    bm25: Sample
    rows: Sample
    in_a_loop: float


async def measure_engines(directory: Path, questions: Sequence[Question], ids: Sequence[Sequence[str]]) -> Engines:
    """Ask the engines directly, on a data directory that no server has open and none will open again.

    Args:
        directory: The data directory of a server with the embedded backends. It is not copied: writing a copy keeps
            the disk busy while the engines are measured.
        questions: What to search.
        ids: Lists of `ROWS` memory ids to read.
    """
    with _dense(directory / "vectors") as dense, _rows(directory / "metadata") as read:
        bm25 = _bm25(directory / "lexical")
        asked = [(_owner(one), one.vector.tolist()) for one in questions]
        words = [(_owner(one), query_terms(one.text)) for one in questions]
        works: list[Work] = [lambda at: dense(asked[at]), lambda at: bm25(words[at]), lambda at: read(ids[at])]
        count = min(len(questions), len(ids))
        in_turn = await _in_turn(works, count)
        return Engines(in_turn[0], in_turn[1], in_turn[2], sum(_in_a_loop(work, count).p50 for work in works))


async def _in_turn(works: Sequence[Work], count: int) -> list[Sample]:
    seconds: list[list[float]] = [[] for _ in works]
    with TemporaryDirectory(prefix="memsvc-bench-") as folder:
        async with bare_server(Path(folder)) as channel:
            empty = health_pb2_grpc.HealthStub(channel)
            with undisturbed():
                for at in range(count):
                    await empty.Check(health_pb2.HealthCheckRequest())
                    for work, durations in zip(works, seconds, strict=True):
                        durations.append(_timed(work, at))
    return [_sample(durations) for durations in seconds]


def _in_a_loop(work: Work, count: int) -> Sample:
    with undisturbed():
        return _sample([_timed(work, at) for at in range(count)])


def _timed(work: Work, at: int) -> float:
    started = time.perf_counter()
    work(at)
    return time.perf_counter() - started


def _sample(seconds: Sequence[float]) -> Sample:
    return Sample.of(seconds[min(WARM_UP, len(seconds) - 1) :])


def _owner(question: Question) -> str:
    return Scope(question.user).owner


@contextmanager
def _dense(directory: Path) -> Iterator[Callable[[tuple[str, list[float]]], object]]:
    manifest = read_manifest(directory)
    if manifest is None:
        message = "There is no vector index to measure."
        raise FileNotFoundError(message)
    width = QdrantEdgeSettings().graph_search_width
    params = edge.SearchParams(hnsw_ef=width) if manifest.hnsw else edge.SearchParams(exact=True)
    shard = edge.EdgeShard.load(str(directory / generation_name(manifest.generation)), None)

    def ask(asked: tuple[str, list[float]]) -> object:
        owner, vector = asked
        condition = edge.FieldCondition(key=VECTOR_OWNER, match=edge.MatchValue(owner))
        request = edge.QueryRequest(
            limit=DEPTH,
            query=edge.Query.Nearest(vector),
            filter=edge.Filter(must=[condition]),
            params=params,
            with_payload=False,
        )
        return [(point.id, point.score) for point in shard.query(request)]

    try:
        yield ask
    finally:
        shard.close()


def _bm25(directory: Path) -> Callable[[tuple[str, list[str]]], object]:
    manifest = read_lexical_manifest(directory)
    if manifest is None:
        message = "There is no lexical index to measure."
        raise FileNotFoundError(message)
    schema = build_schema()
    searcher = open_index(directory / f"gen-{manifest.generation:06d}", schema).searcher()

    def ask(asked: tuple[str, list[str]]) -> object:
        owner, terms = asked
        keys = [term_key(owner_mark(owner), term) for term in terms]
        words = [(Occur.Should, Query.term_query(schema, BODY, key, "freq")) for key in keys]
        held = Query.const_score_query(Query.term_query(schema, TERMS, place_term(owner, ""), "basic"), 0.0)
        query = Query.boolean_query([(Occur.Must, Query.boolean_query(words)), (Occur.Must, held)])
        hits = searcher.search(query, DEPTH, count=False).hits
        return searcher.fast_field_values(ENTRY, [address for _, address in hits])

    return ask


@contextmanager
def _rows(directory: Path) -> Iterator[Callable[[Sequence[str]], object]]:
    path = next(directory.glob("*.db"))
    names = [f"id_{number}" for number in range(ROWS)]
    # A parameter for each id: a list that SQLAlchemy expands on every call takes as long as the query.
    wanted = memories.c.id.in_([sa.bindparam(name) for name in names])
    statement = sa.select(memories).where(wanted)
    with ExitStack() as stack:
        engine = sa.create_engine(f"sqlite:///{path}", poolclass=sa.pool.StaticPool)
        stack.callback(engine.dispose)
        connection: Any = stack.enter_context(engine.connect().execution_options(isolation_level="AUTOCOMMIT"))

        def read(ids: Sequence[str]) -> object:
            return connection.execute(statement, dict(zip(names, ids, strict=True))).all()

        yield read
