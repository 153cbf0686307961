"""Asking the retrievers, side by side, each with the same filter pushed down."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

import numpy as np

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import (
    BackendUnavailableError,
    DeadlineExceededError,
    DimensionMismatchError,
    MemsvcError,
    NotReadyError,
)
from memsvc.domain.filters import STORE_ONLY, And, AnyOf, Field, Filter, Not, Or
from memsvc.domain.index_entries import Chunk, Hit, VectorManifest, View
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach
from memsvc.domain.search import Degraded, FusionMethod, Mode, Retriever, SearchQuery
from memsvc.engine.indexing.vector_entries import EmbeddingSpace, EmbeddingSpaces, Means, centred, means_of
from memsvc.ports.candidates import Candidates, Rows
from memsvc.ports.indexes import LexicalIndex, PendingSearch, VectorIndex
from memsvc.ports.metadata import MemoryReads
from memsvc.ports.models import Vector
from memsvc.text.analysis import query_terms
from memsvc.text.keywords import extract_keywords

MODE_RETRIEVERS = {
    Mode.HYBRID: frozenset(Retriever),
    Mode.SEMANTIC: frozenset({Retriever.DENSE}),
    Mode.KEYWORD: frozenset({Retriever.BM25, Retriever.KEYWORD_TABLE}),
}
DEGRADED_REASONS: tuple[tuple[type[MemsvcError], str], ...] = (
    (BackendUnavailableError, "UNAVAILABLE"),
    (DeadlineExceededError, "DEADLINE_EXCEEDED"),
    (NotReadyError, "NOT_READY"),
    (MemsvcError, "FAILED"),
)
"""What a caller is told of a retriever that failed, by the first class that fits."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class RetrievalResult:
    """What the retrievers found: the dense hits by view, the lexical hits, the keyword table's, and what failed."""

    asked: frozenset[Retriever] = frozenset()
    dense: dict[View, Sequence[Hit]] = field(default_factory=dict)
    bm25: Sequence[Hit] = field(default_factory=list)
    keyword_table: Sequence[Hit] = field(default_factory=list)
    terms: list[str] = field(default_factory=list)
    degraded: list[Degraded] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)

    def reaches(self, depth: int) -> bool:
        """Return whether a retriever found as many as it was asked for, so that there may be more."""
        return any(len(hits) >= depth for hits in (*self.dense.values(), self.bm25, self.keyword_table))


class HybridRetriever:
    """Runs the retrievers that a search's mode and weights call for."""

    def __init__(
        self, reads: MemoryReads, vectors: VectorIndex, lexical: LexicalIndex, spaces: EmbeddingSpaces, threads: int
    ) -> None:
        self._reads = reads
        self._lexical = lexical
        self._dense = DenseRetriever(vectors, spaces, threads)

    def close(self) -> None:
        """Give the threads back."""
        self._dense.close()

    def run(self, asked: RetrievalRequest, early: Callable[[RetrievalResult], None] | None = None) -> RetrievalResult:
        """Return what was found; a retriever that fails is named in *degraded*.

        *early* is given what words alone found, when they found something and meaning is asked too, as soon as that is
        known.

        Raises:
            MemsvcError: Every retriever that was asked failed; the first one's error.
        """
        query = asked.query
        found = RetrievalResult(select_retrievers(query), terms=query_terms(" ".join((query.text, *query.keywords))))
        inner = _localised(asked.where, lambda leaf: self._reads.rows_where(leaf, reach=asked.reach))
        failures: list[MemsvcError] = []
        dense = self._dense.begin(asked, inner) if Retriever.DENSE in found.asked else None
        if Retriever.BM25 in found.asked:
            self._guarded(Retriever.BM25, lambda: self._bm25(asked, inner, found), found, failures)
        if Retriever.KEYWORD_TABLE in found.asked:
            self._guarded(Retriever.KEYWORD_TABLE, lambda: self._table(asked, found), found, failures)
        if dense is not None and early is not None and (found.bm25 or found.keyword_table):
            early(replace(found, asked=found.asked - {Retriever.DENSE}, timings=[*found.timings]))
        if dense is not None:
            self._guarded(Retriever.DENSE, lambda: _collect(dense, found), found, failures)
        if failures and len(failures) == len(found.asked):
            raise failures[0]
        return found

    def _bm25(self, asked: RetrievalRequest, where: Filter | None, found: RetrievalResult) -> None:
        if found.terms:
            found.bm25 = self._lexical.search(
                found.terms, reach=asked.reach, where=where, limit=asked.depth, deadline=asked.deadline
            )

    def _table(self, asked: RetrievalRequest, found: RetrievalResult) -> None:
        if terms := table_terms(asked.query):
            found.keyword_table = self._reads.keyword_hits(
                terms, reach=asked.reach, where=asked.where, limit=asked.depth
            )

    @staticmethod
    def _guarded(name: Retriever, ask: Callable[[], None], found: RetrievalResult, failures: list[MemsvcError]) -> None:
        started = time.perf_counter()
        try:
            ask()
        except MemsvcError as error:
            # Each search meets what is away: its trace would say nothing new, and drown the rest.
            log.warning("retriever %s failed: %s", name, error.message)
            log.debug("retriever %s failed", name, exc_info=True)
            failures.append(error)
            reason = next(reason for kind, reason in DEGRADED_REASONS if isinstance(error, kind))
            found.degraded.append(Degraded(name, reason, error.message))
            return
        if name is not Retriever.DENSE:
            found.timings.append((name.value.lower(), started, time.perf_counter() - started))


def select_retrievers(query: SearchQuery) -> frozenset[Retriever]:
    """Return the retrievers that a search asks: those of its mode that have something to look for and a say.

    The measured recipe does without the keyword table, unless keywords are given or words alone are to count.
    """
    asked = set(MODE_RETRIEVERS[query.mode])
    if query.vector is None and not query.text:
        asked.discard(Retriever.DENSE)
    if not (query.text or query.keywords):
        asked -= {Retriever.BM25, Retriever.KEYWORD_TABLE}
    if query.fusion.method is FusionMethod.DEFAULT:
        if query.mode is Mode.HYBRID and not query.keywords:
            asked.discard(Retriever.KEYWORD_TABLE)
    elif query.fusion.weights is not None and len(asked) > 1:
        asked = {one for one in asked if query.fusion.weights.get(one, 0.0) > 0.0}
    return frozenset(asked)


def table_terms(query: SearchQuery) -> list[str]:
    """Return what a search looks for in the keyword table."""
    return [*query.keywords] or [term for term, _ in extract_keywords(query.text)]


def _collect(dense: Callable[[], DenseResult], found: RetrievalResult) -> None:
    result = dense()
    found.dense = result.hits
    found.timings.extend(result.timings)


def _localised(where: Filter | None, rows_where: Callable[[Filter], Sequence[int]]) -> Filter | None:
    """Replace tests that only the store can make by the rows that pass them, so that indexes can apply them."""
    return None if where is None else _known(where, rows_where)


def _known(where: Filter, rows_where: Callable[[Filter], Sequence[int]]) -> Filter:
    if isinstance(where, And):
        return And(tuple(_known(child, rows_where) for child in where.children))
    if isinstance(where, Or):
        return Or(tuple(_known(child, rows_where) for child in where.children))
    if isinstance(where, Not):
        return Not(_known(where.child, rows_where))
    if where.field in STORE_ONLY:
        return AnyOf(Field.ROW, tuple(rows_where(where)))
    return where


# The dense retriever: embed the query, and ask every view of the vector index while others work.


BEING_BUILT = "vectors (the index is being built)"
EMBEDDING = "the vector of the query"
EMBEDDING_SHARE = 0.75
"""So much of the time left the query's embedding may take; the rest is for answering by words without it."""
Timing: TypeAlias = tuple[str, float, float]
"""A stage, when it began and how long it took."""


@dataclass(slots=True)
class DenseResult:
    """The hits of every view, and how long the stages took."""

    hits: dict[View, Sequence[Hit]] = field(default_factory=dict)
    timings: list[Timing] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Point:
    """A query as a vector, and the space that it is in."""

    vector: Vector
    space: EmbeddingSpace


@dataclass(frozen=True, slots=True)
class _Begun:
    """A search of every view, begun by the means of one generation."""

    manifest: VectorManifest
    point: _Point
    pending: dict[View, PendingSearch]


class DenseRetriever:
    """Begins searches by meaning. A thread is used only where a text must be embedded first."""

    def __init__(self, vectors: VectorIndex, spaces: EmbeddingSpaces, threads: int) -> None:
        self._vectors = vectors
        self._spaces = spaces
        self._beside = ThreadPoolExecutor(threads, thread_name_prefix="embed")
        self._means: tuple[VectorManifest | None, Means] = (None, {})

    def close(self) -> None:
        """Give the threads back."""
        self._beside.shutdown()

    def begin(self, asked: RetrievalRequest, where: Filter | None) -> Callable[[], DenseResult]:
        """Start, and return what gives the result or raises what went wrong: a MemsvcError."""
        started = time.perf_counter()
        try:
            space = self._space(asked.query)
            point = _known_vectors(asked.query, space)
            if point is None:
                embedding = self._beside.submit(_embedded, asked.query.text, space)
                return lambda: self._awaited(embedding, asked, where, started)
            embedded = time.perf_counter()
            begun = self._begin(point, asked, where)
        except MemsvcError as error:
            return _failing(error)
        return lambda: self._found(begun, asked, where, (started, embedded))

    def _space(self, query: SearchQuery) -> EmbeddingSpace:
        """Return the space of the live generation; a query that is but a vector fits none but that of today's model.

        Raises:
            BackendUnavailableError: There is no generation, or its model is not at hand.
        """
        space = self._spaces.of(self._vectors.manifest)
        if space is None or not (space.is_current or query.text):
            raise BackendUnavailableError(BEING_BUILT)
        return space

    def _awaited(
        self, embedding: Future[tuple[_Point, float]], asked: RetrievalRequest, where: Filter | None, started: float
    ) -> DenseResult:
        remaining = asked.deadline.remaining()
        try:
            point, embedded = embedding.result(None if remaining is None else remaining * EMBEDDING_SHARE)
        except TimeoutError as error:
            embedding.cancel()
            raise DeadlineExceededError(EMBEDDING) from error
        return self._found(self._begin(point, asked, where), asked, where, (started, embedded))

    def _found(
        self, begun: _Begun, asked: RetrievalRequest, where: Filter | None, moments: tuple[float, float]
    ) -> DenseResult:
        """Take the results: of a new search when the generation was switched meanwhile."""
        started, embedded = moments
        while True:
            try:
                hits = {view: pending.result() for view, pending in begun.pending.items()}
            except DimensionMismatchError:
                # An index that does not begin searches has searched a generation of another model.
                if self._is_live(begun):
                    raise
                hits = {}
            if self._is_live(begun):
                timings = [
                    ("embed", started, embedded - started),
                    ("dense", embedded, time.perf_counter() - embedded),
                ]
                return DenseResult(hits, timings)
            begun = self._begin(begun.point, asked, where)

    def _is_live(self, begun: _Begun) -> bool:
        live = self._vectors.manifest
        return live is not None and live.generation == begun.manifest.generation

    def _begin(self, point: _Point, asked: RetrievalRequest, where: Filter | None) -> _Begun:
        manifest = self._vectors.manifest
        space = self._spaces.of(manifest)
        if manifest is None or space is None:
            raise BackendUnavailableError(BEING_BUILT)
        if space is not point.space:
            # The generation of another model went live since the query was embedded: once in an index's life.
            space = self._space(asked.query)
            point = _known_vectors(asked.query, space) or _embedded(asked.query.text, space)[0]
        means = self._means_of(manifest)
        pending = {
            view: self._vectors.begin_search(
                centred(point.vector, means.get(view)),
                view=view,
                reach=asked.reach,
                where=where,
                limit=asked.depth,
                deadline=asked.deadline,
            )
            for view in manifest.views
        }
        return _Begun(manifest, point, pending)

    def _means_of(self, manifest: VectorManifest) -> Means:
        known, means = self._means
        if known is not manifest:
            means = means_of(manifest)
            self._means = (manifest, means)
        return means


def _known_vectors(query: SearchQuery, space: EmbeddingSpace) -> _Point | None:
    """Return a query's vector in *space* when it is given or known, so that nothing has to be embedded."""
    if query.vector is not None and space.is_current:
        return _Point(np.asarray(query.vector, np.float32), space)
    known = space.embedding.cached_query(query.text) if query.text else None
    return None if known is None else _Point(known, space)


def _embedded(text: str, space: EmbeddingSpace) -> tuple[_Point, float]:
    return _Point(space.embedding.query(text), space), time.perf_counter()


def _failing(error: MemsvcError) -> Callable[[], DenseResult]:
    def result() -> DenseResult:
        raise error

    return result


# What a search works with, as narrow as it needs it: so that it works on what was known at another time, too.


class CandidateReader(Protocol):
    """Reads what ranking and showing need; `memsvc.ports.metadata.MemoryReads` is one."""

    def candidates(self, rows: Rows, *, reach: Reach) -> Candidates:
        """Return what ranking needs of these memories, in any order, those not there left out."""
        ...

    def by_rows(self, rows: Sequence[int], *, reach: Reach) -> dict[int, Memory]:
        """Return the memories with these rows, by row."""
        ...

    def chunks(self, wanted: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Chunk]:
        """Return chunks by (row, ordinal); those of memories of one chunk are left out."""
        ...


class RetrievalSource(Protocol):
    """Asks the retrievers; `memsvc.engine.search.retrieval.HybridRetriever` does."""

    def run(self, asked: RetrievalRequest, early: Callable[[RetrievalResult], None] | None = None) -> RetrievalResult:
        """Return what was found; a retriever that fails is named in *degraded*.

        *early* may be given what words alone found, as soon as that is known.
        """
        ...


class AccessRecorder(Protocol):
    """Is told which memories were read; `memsvc.engine.memories.lookup.AccessCounts` counts them."""

    def note(self, ids: Iterable[str]) -> None:
        """Take note that these memories were read."""
        ...


# A search as the retrievers need it.


@dataclass(frozen=True, slots=True)
class RetrievalRequest:
    """What to look for, where, how deep and until when."""

    query: SearchQuery
    reach: Reach
    where: Filter | None
    depth: int
    deadline: Deadline
