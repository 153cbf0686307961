"""The dense retriever: embed the query, and ask every view of the vector index while others work."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from memsvc.domain.errors import BackendUnavailableError, DeadlineExceededError, DimensionMismatchError, MemsvcError
from memsvc.domain.filters import Filter
from memsvc.domain.index_entries import Hit, VectorManifest, View
from memsvc.domain.search import SearchQuery
from memsvc.engine.indexing.vector_entries import EmbeddingSpace, EmbeddingSpaces, Means, centred, means_of
from memsvc.engine.search.retrieval_request import RetrievalRequest
from memsvc.ports.models import Vector
from memsvc.ports.vectors import PendingSearch, VectorIndex

BEING_BUILT = "vectors (the index is being built)"
EMBEDDING = "the vector of the query"
EMBEDDING_SHARE = 0.75
"""So much of the time left the query's embedding may take; the rest is for answering by words without it."""
Timing: TypeAlias = tuple[str, float, float]
"""A stage, when it began and how long it took."""


@dataclass(slots=True)
class DenseFound:
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


class Dense:
    """Begins searches by meaning. A thread is used only where a text must be embedded first."""

    def __init__(self, vectors: VectorIndex, spaces: EmbeddingSpaces, threads: int) -> None:
        self._vectors = vectors
        self._spaces = spaces
        self._beside = ThreadPoolExecutor(threads, thread_name_prefix="embed")
        self._means: tuple[VectorManifest | None, Means] = (None, {})

    def close(self) -> None:
        """Give the threads back."""
        self._beside.shutdown()

    def begin(self, asked: RetrievalRequest, where: Filter | None) -> Callable[[], DenseFound]:
        """Start, and return what gives the result or raises what went wrong: a MemsvcError."""
        started = time.perf_counter()
        try:
            space = self._space(asked.query)
            point = _known(asked.query, space)
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
    ) -> DenseFound:
        remaining = asked.deadline.remaining()
        try:
            point, embedded = embedding.result(None if remaining is None else remaining * EMBEDDING_SHARE)
        except TimeoutError as error:
            embedding.cancel()
            raise DeadlineExceededError(EMBEDDING) from error
        return self._found(self._begin(point, asked, where), asked, where, (started, embedded))

    def _found(
        self, begun: _Begun, asked: RetrievalRequest, where: Filter | None, moments: tuple[float, float]
    ) -> DenseFound:
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
                return DenseFound(hits, timings)
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
            point = _known(asked.query, space) or _embedded(asked.query.text, space)[0]
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


def _known(query: SearchQuery, space: EmbeddingSpace) -> _Point | None:
    """Return a query's vector in *space* when it is given or known, so that nothing has to be embedded."""
    if query.vector is not None and space.is_current:
        return _Point(np.asarray(query.vector, np.float32), space)
    known = space.embedding.known_query(query.text) if query.text else None
    return None if known is None else _Point(known, space)


def _embedded(text: str, space: EmbeddingSpace) -> tuple[_Point, float]:
    return _Point(space.embedding.query(text), space), time.perf_counter()


def _failing(error: MemsvcError) -> Callable[[], DenseFound]:
    def result() -> DenseFound:
        raise error

    return result
