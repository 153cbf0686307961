"""Search: from a query to ranked, explained hits."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime

from memsvc.domain.clock import Deadline
from memsvc.domain.filters import conjunction
from memsvc.domain.query import FusionMethod, Mode, Retriever, SearchQuery, SearchReply
from memsvc.domain.scope import Reach
from memsvc.domain.visibility import session_privacy
from memsvc.engine.read.access_counts import AccessCounts
from memsvc.engine.read.presenting import Presenting
from memsvc.engine.read.ranking import Ranker
from memsvc.engine.read.retrieval import Asked, Retrieval
from memsvc.ports.metadata import MemoryReads


class Recall:
    """Finds memories by meaning, words, time and importance."""

    def __init__(
        self,
        reads: MemoryReads,
        retrieval: Retrieval,
        ranker: Ranker,
        accesses: AccessCounts,
        now: Callable[[], datetime],
    ) -> None:
        self._retrieval = retrieval
        self._ranker = ranker
        self._presenting = Presenting(reads)
        self._accesses = accesses
        self._now = now

    def search(self, query: SearchQuery, deadline: Deadline) -> SearchReply:
        """Return the hits of *query*, best first, equal scores by memory id, and note that they were read.

        Raises:
            DeadlineExceededError: The time was over before the retrievers answered.
            BackendUnavailableError: Every retriever that was asked failed, or the store did.
        """
        started = time.perf_counter()
        reach = Reach.from_scope(query.scope, query.selection.visibility)
        asked = Asked(
            query=query,
            reach=reach,
            where=conjunction(query.selection.where, session_privacy(query.scope)),
            depth=self._ranker.depth(query),
            deadline=deadline,
        )
        found = self._retrieval.run(asked, uses_keyword_table=uses_keyword_table(query))
        retrieved = time.perf_counter()
        places = self._ranker.rank(query, found, reach=reach, now=self._now())
        ranked = time.perf_counter()
        page = places[query.offset : query.offset + query.limit]
        hits = self._presenting.hits(page, reach=reach, terms=found.terms, snippet_chars=query.snippet_chars)
        self._accesses.note(hit.memory.id for hit in hits)
        done = time.perf_counter()
        timings = [
            *found.timings,
            ("retrieve", retrieved - started),
            ("rank", ranked - retrieved),
            ("hydrate", done - ranked),
            ("total", done - started),
        ]
        return SearchReply(
            hits=hits,
            degraded=tuple(found.degraded),
            timings=tuple(timings),
            total_candidates=len(places),
            has_more=len(places) > query.offset + query.limit,
        )


def uses_keyword_table(query: SearchQuery) -> bool:
    """Return whether the keyword table has a say: keywords were given, or a fusion weighs it."""
    if query.mode is Mode.SEMANTIC:
        return False
    if query.keywords or (query.fusion.method is FusionMethod.RECIPROCAL_RANK and query.fusion.weights is None):
        return True
    return bool(query.fusion.weights and query.fusion.weights.get(Retriever.KEYWORD_TABLE, 0.0) > 0.0)
