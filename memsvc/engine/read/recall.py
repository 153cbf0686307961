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
from memsvc.engine.read.asked import Asked
from memsvc.engine.read.dense import Timing
from memsvc.engine.read.presenting import Presenting
from memsvc.engine.read.ranking import Ranked, Ranker, Ranking
from memsvc.engine.read.sources import HitReads, NotesAccesses, Retrieves

DEPTH = "depth"
"""The factor that keeps what was found only by looking deeper below all that was found before."""


@dataclass(frozen=True, slots=True)
class Readers:
    """What a search works with."""

    reads: HitReads
    retrieval: Retrieves
    ranker: Ranker
    accesses: NotesAccesses
    performance: Performance


@dataclass(frozen=True, slots=True)
class _Found:
    """The page of a search, out of one order whatever page of it is asked for, and of how many places it is."""

    page: list[Ranking]
    total: int
    explained: Callable[[Ranking], Explanation]
    terms: Sequence[str]
    degraded: Sequence[Degraded]
    timings: tuple[Timing, ...]


class Recall:
    """Finds memories by meaning, words, time and importance."""

    def __init__(
        self,
        readers: Readers,
        now: Callable[[], datetime],
        back: Callable[[SearchQuery, Readers], Readers] | None = None,
    ) -> None:
        """Search by *readers*; *back* turns them into those of what was known at a query's known_time."""
        self._readers = readers
        self._back = back
        self._presenting = Presenting(readers.reads)
        self._now = now

    def search(self, query: SearchQuery, deadline: Deadline) -> SearchReply:
        """Return the hits of *query*, best first, equal scores by memory id, and note that they were read.

        Raises:
            DeadlineExceededError: The time was over before the retrievers answered.
            BackendUnavailableError: Every retriever that was asked failed, or the store did.
        """
        moment = query.known_time
        if moment is not None and self._back is not None:
            then = Recall(self._back(query, self._readers), lambda: moment)
            return then.search(replace(query, known_time=None), deadline)
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
        where = conjunction(query.selection.where, session_privacy(query.scope, query.selection.sessions))
        found = self._found(query, reach, where, deadline)
        hydrating = time.perf_counter()
        hits = self._presenting.hits(found.page, reach=reach, terms=found.terms, snippet_chars=query.snippet_chars)
        self._readers.accesses.note(hit.memory.id for hit in hits)
        done = time.perf_counter()
        stages = sorted((*found.timings, ("hydrate", hydrating, done - hydrating)), key=lambda stage: stage[1])
        return SearchReply(
            hits=_explained(hits, found) if query.explain else hits,
            degraded=tuple(found.degraded),
            timings=(*((name, seconds) for name, _, seconds in stages), ("total", done - started)),
            total_candidates=found.total,
            has_more=found.total > query.offset + query.limit,
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
        start, stop = query.offset, query.offset + query.limit
        if first.is_cut or len(first) > stop or not near.reaches(ranker.depth):
            page = first.page(start, stop)
            return _Found(page, len(first), first.explained, near.terms, near.degraded, timings)
        far = retrieval.run(replace(asked, depth=max(SEARCH_DEPTH, ranker.depth)))
        # Whatever its score: it is made comparable below.
        second = ranker.rank(replace(query, min_score=0.0), far, reach=reach, now=self._now())
        places, factor = _continued(first, second, query.min_score)
        return _Found(
            places[start:stop],
            len(places),
            lambda place: _explanation(place, first, second, factor),
            near.terms,
            near.degraded or far.degraded,
            (*timings, *far.timings, *second.timings),
        )


def _continued(first: Ranked, second: Ranked, min_score: float) -> tuple[list[Ranking], float]:
    """Return the places of *first*, then the others of *second*, and the factor that keeps these below those."""
    places = first.page(0, len(first))
    seen = {place.row for place in places}
    others = [place for place in second.page(0, len(second)) if place.row not in seen]
    if not places or not others or places[-1].score >= others[0].score:
        factor = 1.0
    else:
        factor = places[-1].score / others[0].score
    lowered = [place.scaled(factor) for place in others]
    return [*places, *(place for place in lowered if place.score >= min_score)], factor


def _explanation(place: Ranking, first: Ranked, second: Ranked, factor: float) -> Explanation:
    if first.holds(place):
        return first.explained(place)
    explanation = second.explained(place)
    return replace(explanation, boosts=(*explanation.boosts, (DEPTH, factor))) if factor < 1.0 else explanation


def _explained(hits: Sequence[SearchHit], found: _Found) -> tuple[SearchHit, ...]:
    places = {place.memory_id: place for place in found.page}
    return tuple(replace(hit, explanation=found.explained(places[hit.memory.id])) for hit in hits)
