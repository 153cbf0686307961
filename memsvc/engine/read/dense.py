"""The dense retriever: embed the query, and ask every view of the vector index while others work."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from memsvc.domain.entries import Hit, View
from memsvc.domain.errors import BackendUnavailableError, MemsvcError
from memsvc.domain.filters import Filter
from memsvc.domain.indexing import VectorManifest
from memsvc.engine.index.centring import Means, centred, means_of
from memsvc.engine.index.embedding import Embedding
from memsvc.engine.read.asked import Asked
from memsvc.ports.embedder import Vector
from memsvc.ports.vectors import PendingSearch, VectorIndex

Timing: TypeAlias = tuple[str, float, float]
"""A stage, when it began and how long it took."""


@dataclass(slots=True)
class DenseFound:
    """The hits of every view, and how long the stages took."""

    hits: dict[View, list[Hit]] = field(default_factory=dict)
    timings: list[Timing] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Begun:
    """A search of every view, begun by the means of one generation."""

    manifest: VectorManifest
    pending: dict[View, PendingSearch]


class Dense:
    """Begins searches by meaning. A thread is used only where a text must be embedded first."""

    def __init__(self, vectors: VectorIndex, embedding: Embedding, threads: int) -> None:
        self._vectors = vectors
        self._embedding = embedding
        self._beside = ThreadPoolExecutor(threads, thread_name_prefix="embed")
        self._means: tuple[VectorManifest | None, Means] = (None, {})

    def close(self) -> None:
        """Give the threads back."""
        self._beside.shutdown()

    def begin(self, asked: Asked, where: Filter | None) -> Callable[[], DenseFound]:
        """Start, and return what gives the result or raises what went wrong: a MemsvcError."""
        started = time.perf_counter()
        query = asked.query
        given = self._embedding.known_query(query.text) if query.vector is None else query.vector
        if given is None:
            embedding = self._beside.submit(self._embed, query.text)
            return lambda: self._embedded(embedding, asked, where, started)
        vector = np.asarray(given, np.float32)
        embedded = time.perf_counter()
        try:
            begun = self._begin(vector, asked, where)
        except MemsvcError as error:
            return _failing(error)
        return lambda: self._found(begun, vector, asked, where, (started, embedded))

    def _embed(self, text: str) -> tuple[Vector, float]:
        return self._embedding.query(text), time.perf_counter()

    def _embedded(
        self, embedding: Future[tuple[Vector, float]], asked: Asked, where: Filter | None, started: float
    ) -> DenseFound:
        vector, embedded = embedding.result()
        return self._found(self._begin(vector, asked, where), vector, asked, where, (started, embedded))

    def _found(
        self, begun: _Begun, vector: Vector, asked: Asked, where: Filter | None, moments: tuple[float, float]
    ) -> DenseFound:
        """Take the results: of a new search when the generation was switched meanwhile."""
        started, embedded = moments
        while True:
            hits = {view: pending.result() for view, pending in begun.pending.items()}
            live = self._vectors.manifest
            if live is not None and live.generation == begun.manifest.generation:
                timings = [
                    ("embed", started, embedded - started),
                    ("dense", embedded, time.perf_counter() - embedded),
                ]
                return DenseFound(hits, timings)
            begun = self._begin(vector, asked, where)

    def _begin(self, vector: Vector, asked: Asked, where: Filter | None) -> _Begun:
        manifest = self._vectors.manifest
        if manifest is None or manifest.model != self._embedding.model:
            raise BackendUnavailableError("vectors (the index is being built)")
        means = self._means_of(manifest)
        pending = {
            view: self._vectors.begin_search(
                centred(vector, means.get(view)),
                view=view,
                reach=asked.reach,
                where=where,
                limit=asked.depth,
                deadline=asked.deadline,
            )
            for view in manifest.views
        }
        return _Begun(manifest, pending)

    def _means_of(self, manifest: VectorManifest) -> Means:
        known, means = self._means
        if known is not manifest:
            means = means_of(manifest)
            self._means = (manifest, means)
        return means


def _failing(error: MemsvcError) -> Callable[[], DenseFound]:
    def result() -> DenseFound:
        raise error

    return result
