"""Asking the retrievers, side by side, each with the same filter pushed down."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from memsvc.domain.errors import BackendUnavailableError, DeadlineExceededError, MemsvcError, NotReadyError
from memsvc.domain.filters import STORE_ONLY, And, AnyOf, Field, Filter, Not, Or
from memsvc.domain.index_entries import Hit, View
from memsvc.domain.search import Degraded, FusionMethod, Mode, Retriever, SearchQuery
from memsvc.engine.indexing.vector_entries import EmbeddingSpaces
from memsvc.engine.search.dense_retriever import Dense, DenseFound, Timing
from memsvc.engine.search.retrieval_request import RetrievalRequest
from memsvc.ports.lexical import LexicalIndex
from memsvc.ports.metadata import MemoryReads
from memsvc.ports.vectors import VectorIndex
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
class Retrieved:
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


class Retrieval:
    """Runs the retrievers that a search's mode and weights call for."""

    def __init__(
        self, reads: MemoryReads, vectors: VectorIndex, lexical: LexicalIndex, spaces: EmbeddingSpaces, threads: int
    ) -> None:
        self._reads = reads
        self._lexical = lexical
        self._dense = Dense(vectors, spaces, threads)

    def close(self) -> None:
        """Give the threads back."""
        self._dense.close()

    def run(self, asked: RetrievalRequest, early: Callable[[Retrieved], None] | None = None) -> Retrieved:
        """Return what was found; a retriever that fails is named in *degraded*.

        *early* is given what words alone found, when they found something and meaning is asked too, as soon as that is
        known.

        Raises:
            MemsvcError: Every retriever that was asked failed; the first one's error.
        """
        query = asked.query
        found = Retrieved(asked_retrievers(query), terms=query_terms(" ".join((query.text, *query.keywords))))
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

    def _bm25(self, asked: RetrievalRequest, where: Filter | None, found: Retrieved) -> None:
        if found.terms:
            found.bm25 = self._lexical.search(
                found.terms, reach=asked.reach, where=where, limit=asked.depth, deadline=asked.deadline
            )

    def _table(self, asked: RetrievalRequest, found: Retrieved) -> None:
        if terms := table_terms(asked.query):
            found.keyword_table = self._reads.keyword_hits(
                terms, reach=asked.reach, where=asked.where, limit=asked.depth
            )

    @staticmethod
    def _guarded(name: Retriever, ask: Callable[[], None], found: Retrieved, failures: list[MemsvcError]) -> None:
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


def asked_retrievers(query: SearchQuery) -> frozenset[Retriever]:
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


def _collect(dense: Callable[[], DenseFound], found: Retrieved) -> None:
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
