"""Asking the retrievers, side by side, each with the same filter pushed down."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from memsvc.domain.clock import Deadline
from memsvc.domain.entries import Hit, View
from memsvc.domain.errors import BackendUnavailableError, MemsvcError
from memsvc.domain.filters import STORE_ONLY, And, AnyOf, Field, Filter, Not, Or
from memsvc.domain.query import Degraded, Mode, Retriever, SearchQuery
from memsvc.domain.scope import Reach
from memsvc.engine.index.centring import centred, means_of
from memsvc.engine.index.embedding import Embedding
from memsvc.ports.embedder import Vector
from memsvc.ports.lexical import LexicalIndex
from memsvc.ports.metadata import MemoryReads
from memsvc.ports.vectors import VectorIndex
from memsvc.text.analysis import query_terms
from memsvc.text.keywords import extract_keywords

Dense: TypeAlias = tuple[dict[View, list[Hit]], list[tuple[str, float]]]
"""The hits of every view, and how long the stages took."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Retrieved:
    """What the retrievers found: the dense hits by view, the lexical hits, the keyword table's, and what failed."""

    dense: dict[View, list[Hit]] = field(default_factory=dict)
    bm25: list[Hit] = field(default_factory=list)
    keyword_table: list[Hit] = field(default_factory=list)
    terms: list[str] = field(default_factory=list)
    degraded: list[Degraded] = field(default_factory=list)
    timings: list[tuple[str, float]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Asked:
    """A search as the retrievers need it."""

    query: SearchQuery
    reach: Reach
    where: Filter | None
    depth: int
    deadline: Deadline


class Retrieval:
    """Runs the retrievers that a search's mode and weights call for."""

    def __init__(
        self, reads: MemoryReads, vectors: VectorIndex, lexical: LexicalIndex, embedding: Embedding, threads: int
    ) -> None:
        self._reads = reads
        self._vectors = vectors
        self._lexical = lexical
        self._embedding = embedding
        self._beside = ThreadPoolExecutor(threads, thread_name_prefix="dense")

    def close(self) -> None:
        """Give the threads back."""
        self._beside.shutdown()

    def run(self, asked: Asked, *, uses_keyword_table: bool) -> Retrieved:
        """Return what was found; a retriever that fails is named in *degraded*.

        Raises:
            MemsvcError: Every retriever that was asked failed; the first one's error.
        """
        found = Retrieved()
        inner = _localised(asked.where, lambda leaf: self._reads.rows_where(leaf, reach=asked.reach))
        failures: list[MemsvcError] = []
        dense = self._start_dense(asked, inner)
        answered = 0
        if asked.query.mode is not Mode.SEMANTIC:
            found.terms = query_terms(asked.query.text)
            lists = [(Retriever.BM25, lambda: self._bm25(asked, inner, found))]
            if uses_keyword_table:
                lists.append((Retriever.KEYWORD_TABLE, lambda: self._table(asked, found)))
            answered += sum(self._guarded(name, ask, found, failures) for name, ask in lists)
        if dense is not None:
            answered += self._guarded(Retriever.DENSE, lambda: _collect(dense, found), found, failures)
        if failures and not answered:
            raise failures[0]
        return found

    def _start_dense(self, asked: Asked, where: Filter | None) -> Future[Dense] | None:
        query = asked.query
        if query.mode is Mode.KEYWORD or (query.vector is None and not query.text):
            return None
        return self._beside.submit(self._dense, asked, where)

    def _dense(self, asked: Asked, where: Filter | None) -> Dense:
        started = time.perf_counter()
        query = asked.query
        vector = self._embedding.query(query.text) if query.vector is None else np.asarray(query.vector, np.float32)
        embedded = time.perf_counter()
        hits = self._nearest(vector, asked, where)
        done = time.perf_counter()
        return hits, [("embed", embedded - started), ("dense", done - embedded)]

    def _nearest(self, vector: Vector, asked: Asked, where: Filter | None) -> dict[View, list[Hit]]:
        """Search every view by the means of one generation: again when it was switched meanwhile."""
        while True:
            manifest = self._vectors.manifest
            if manifest is None or manifest.model != self._embedding.model:
                raise BackendUnavailableError("vectors (the index is being built)")
            means = means_of(manifest)
            hits = {
                view: self._vectors.search(
                    centred(vector, means.get(view)),
                    view=view,
                    reach=asked.reach,
                    where=where,
                    limit=asked.depth,
                    deadline=asked.deadline,
                )
                for view in manifest.views
            }
            live = self._vectors.manifest
            if live is not None and live.generation == manifest.generation:
                return hits

    def _bm25(self, asked: Asked, where: Filter | None, found: Retrieved) -> None:
        if found.terms:
            found.bm25 = self._lexical.search(
                found.terms, reach=asked.reach, where=where, limit=asked.depth, deadline=asked.deadline
            )

    def _table(self, asked: Asked, found: Retrieved) -> None:
        terms = [*asked.query.keywords] or [term for term, _ in extract_keywords(asked.query.text)]
        if terms:
            found.keyword_table = self._reads.keyword_hits(
                terms, reach=asked.reach, where=asked.where, limit=asked.depth
            )

    @staticmethod
    def _guarded(name: Retriever, ask: Callable[[], None], found: Retrieved, failures: list[MemsvcError]) -> int:
        started = time.perf_counter()
        try:
            ask()
        except MemsvcError as error:
            log.warning("retriever %s failed: %s", name, error.reason, exc_info=True)
            failures.append(error)
            found.degraded.append(Degraded(name, error.reason, error.message))
            return 0
        if name is not Retriever.DENSE:
            found.timings.append((name.value.lower(), time.perf_counter() - started))
        return 1


def _collect(dense: Future[Dense], found: Retrieved) -> None:
    found.dense, timings = dense.result()
    found.timings.extend(timings)


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
