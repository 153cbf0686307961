"""Search: from a query to ranked, explained hits."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import MemsvcError
from memsvc.domain.filters import Filter, conjunction
from memsvc.domain.limits import SEARCH_DEPTH
from memsvc.domain.query import Degraded, Explanation, SearchHit, SearchQuery, SearchReply
from memsvc.domain.scope import Reach
from memsvc.domain.visibility import session_privacy
from memsvc.engine.performance import Performance
from memsvc.engine.read.access_counts import AccessCounts
from memsvc.engine.read.presenting import Presenting
from memsvc.engine.read.ranking import Ranked, Ranker, Ranking
from memsvc.engine.read.retrieval import Asked, Retrieval, Timing
from memsvc.ports.metadata import MemoryReads

DEPTH = "depth"
"""The factor that keeps what was found only by looking deeper below all that was found before."""


@dataclass(frozen=True, slots=True)
class Readers:
    """What a search works with."""

    reads: MemoryReads
    retrieval: Retrieval
    ranker: Ranker
    accesses: AccessCounts
    performance: Performance


@dataclass(frozen=True, slots=True)
class _Found:
    """All places of a search, in one order whatever page of it is asked for."""

    places: list[Ranking]
    explained: Callable[[Ranking], Explanation]
    terms: Sequence[str]
    degraded: Sequence[Degraded]
    timings: tuple[Timing, ...]


class Recall:
    """Finds memories by meaning, words, time and importance."""

    def __init__(self, readers: Readers, now: Callable[[], datetime]) -> None:
        self._readers = readers
        self._presenting = Presenting(readers.reads)
        self._now = now

    def search(self, query: SearchQuery, deadline: Deadline) -> SearchReply:
        """Return the hits of *query*, best first, equal scores by memory id, and note that they were read.

        Raises:
            DeadlineExceededError: The time was over before the retrievers answered.
            BackendUnavailableError: Every retriever that was asked failed, or the store did.
        """
        started = time.perf_counter()
        try:
            reply = self._answer(query, deadline, started)
        except MemsvcError:
            self._readers.performance.record("Search", "engine", time.perf_counter() - started, failed=True)
            raise
        *stages, (_, total) = reply.timings
        self._readers.performance.record("Search", "engine", total, stages=stages)
        return reply

    def _answer(self, query: SearchQuery, deadline: Deadline, started: float) -> SearchReply:
        reach = Reach.from_scope(query.scope, query.selection.visibility)
        where = conjunction(query.selection.where, session_privacy(query.scope))
        found = self._found(query, reach, where, deadline)
        page = found.places[query.offset : query.offset + query.limit]
        hydrating = time.perf_counter()
        hits = self._presenting.hits(page, reach=reach, terms=found.terms, snippet_chars=query.snippet_chars)
        self._readers.accesses.note(hit.memory.id for hit in hits)
        done = time.perf_counter()
        stages = sorted((*found.timings, ("hydrate", hydrating, done - hydrating)), key=lambda stage: stage[1])
        return SearchReply(
            hits=_explained(hits, page, found) if query.explain else hits,
            degraded=tuple(found.degraded),
            timings=(*((name, seconds) for name, _, seconds in stages), ("total", done - started)),
            total_candidates=len(found.places),
            has_more=len(found.places) > query.offset + query.limit,
        )

    def _found(self, query: SearchQuery, reach: Reach, where: Filter | None, deadline: Deadline) -> _Found:
        """Look as deep as the recipe was measured with, and deeper only when the page asked for needs more.

        What the deeper look adds is put behind the rest: so pages neither repeat nor leave out a memory, though
        normalised scores depend on how deep the lists are.
        """
        retrieval, ranker = self._readers.retrieval, self._readers.ranker
        asked = Asked(query=query, reach=reach, where=where, depth=ranker.depth, deadline=deadline)
        near = retrieval.run(asked)
        first = ranker.rank(query, near, reach=reach, now=self._now())
        timings = (*near.timings, *first.timings)
        is_enough = first.is_cut or len(first.places) > query.offset + query.limit
        if is_enough or not near.reaches(ranker.depth):
            return _Found(first.places, first.explained, near.terms, near.degraded, timings)
        far = retrieval.run(replace(asked, depth=max(SEARCH_DEPTH, ranker.depth)))
        # Whatever its score: it is made comparable below.
        second = ranker.rank(replace(query, min_score=0.0), far, reach=reach, now=self._now())
        places, factor = _continued(first, second, query.min_score)
        return _Found(
            places,
            lambda place: _explanation(place, first, second, factor),
            near.terms,
            near.degraded or far.degraded,
            (*timings, *far.timings, *second.timings),
        )


def _continued(first: Ranked, second: Ranked, min_score: float) -> tuple[list[Ranking], float]:
    """Return the places of *first*, then the others of *second*, and the factor that keeps these below those."""
    seen = {place.row for place in first.places}
    others = [place for place in second.places if place.row not in seen]
    if not first.places or not others or first.places[-1].score >= others[0].score:
        factor = 1.0
    else:
        factor = first.places[-1].score / others[0].score
    lowered = [place.scaled(factor) for place in others]
    return [*first.places, *(place for place in lowered if place.score >= min_score)], factor


def _explanation(place: Ranking, first: Ranked, second: Ranked, factor: float) -> Explanation:
    if place in first.places:
        return first.explained(place)
    explanation = second.explained(place)
    return replace(explanation, boosts=(*explanation.boosts, (DEPTH, factor))) if factor < 1.0 else explanation


def _explained(hits: Sequence[SearchHit], page: Sequence[Ranking], found: _Found) -> tuple[SearchHit, ...]:
    places = {place.memory_id: place for place in page}
    return tuple(replace(hit, explanation=found.explained(places[hit.memory.id])) for hit in hits)
