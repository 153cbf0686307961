"""The floor: what the engines and the wire take by themselves, on the very data that the service searched."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import qdrant_edge as edge
import sqlalchemy as sa
from tantivy import Occur, Query

from backends.qdrant.filters import OWNER as VECTOR_OWNER
from backends.qdrant.manifest import generation_name, read_manifest
from backends.qdrant.settings import QdrantEdgeSettings
from backends.sql.tables import memories
from backends.tantivy.manifest import read_manifest as read_lexical_manifest
from backends.tantivy.schema import BODY, ENTRY, TERMS, build_schema, open_index, place_term
from memsvc.domain.scope import Scope
from memsvc.text.analysis import query_terms
from tests.bench.corpus import Question
from tests.bench.loads import WARM_UP, undisturbed
from tests.bench.samples import Sample

DEPTH = 100
ROWS = 20

Asked = TypeVar("Asked")


@dataclass(frozen=True, slots=True)
class Engines:
    """How long each engine takes for its part of a search."""

    dense: Sample
    bm25: Sample
    rows: Sample
    has_graph: bool


def measure_engines(directory: Path, questions: Sequence[Question], ids: Sequence[Sequence[str]]) -> Engines:
    """Ask the engines directly, on a data directory that no server has open and none will open again.

    Args:
        directory: The data directory of a server with the embedded backends. It is not copied: writing a copy keeps
            the disk busy while the engines are measured.
        questions: What to search.
        ids: Lists of `ROWS` memory ids to read.
    """
    with _dense(directory / "vectors") as (dense, has_graph), _rows(directory / "metadata") as read:
        bm25 = _bm25(directory / "lexical")
        asked = [(_owner(one), one.vector.tolist()) for one in questions]
        words = [(_owner(one), query_terms(one.text)) for one in questions]
        return Engines(_timed(dense, asked), _timed(bm25, words), _timed(read, ids), has_graph)


def _timed(ask: Callable[[Asked], object], asked: Sequence[Asked]) -> Sample:
    seconds = []
    with undisturbed():
        for one in asked:
            started = time.perf_counter()
            ask(one)
            seconds.append(time.perf_counter() - started)
    return Sample.of(seconds[min(WARM_UP, len(seconds) - 1) :])


def _owner(question: Question) -> str:
    return Scope(question.user).owner


@contextmanager
def _dense(directory: Path) -> Iterator[tuple[Callable[[tuple[str, list[float]]], object], bool]]:
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
        yield ask, manifest.hnsw
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
        words = [(Occur.Should, Query.term_query(schema, BODY, term, "freq")) for term in terms]
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
