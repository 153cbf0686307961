"""Search: from a query to ranked, explained hits."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import MemsvcError
from memsvc.domain.filters import Filter, conjunction
from memsvc.domain.index_entries import Chunk, ordinal_of
from memsvc.domain.limits import SEARCH_DEPTH
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach
from memsvc.domain.search import (
    CATEGORIES,
    Degraded,
    Explanation,
    FoundFile,
    GlobalQuery,
    GlobalReply,
    Group,
    SearchHit,
    SearchQuery,
    SearchReply,
)
from memsvc.domain.visibility import session_privacy
from memsvc.engine.runtime.latency_stats import LatencyStats
from memsvc.engine.search.ranking import RankedCandidates, RankedMemory, Ranker
from memsvc.engine.search.rerank import POOL, RERANK, RefinedHits, ResultRefiner
from memsvc.engine.search.retrieval import (
    AccessRecorder,
    CandidateReader,
    RetrievalRequest,
    RetrievalResult,
    RetrievalSource,
    Timing,
)
from memsvc.ports.features import FileReads
from memsvc.text.analysis import query_terms
from memsvc.text.snippets import snippet

DEPTH = "depth"
"""The factor that keeps what was found only by looking deeper below all that was found before."""


EarlyReplyListener: TypeAlias = Callable[[SearchReply], None]


@dataclass(frozen=True, slots=True)
class SearchReaders:
    """What a search works with."""

    reads: CandidateReader
    retrieval: RetrievalSource
    ranker: Ranker
    refining: ResultRefiner
    accesses: AccessRecorder
    performance: LatencyStats


@dataclass(frozen=True, slots=True)
class _Found:
    """The page of a search, out of one order whatever page of it is asked for, and of how many places it is."""

    page: list[RankedMemory]
    total: int
    explained: Callable[[RankedMemory], Explanation]
    terms: Sequence[str]
    degraded: Sequence[Degraded]
    timings: tuple[Timing, ...]
    refined: RefinedHits | None = None


@dataclass(frozen=True, slots=True)
class _Place:
    """Where and until when a search looks."""

    reach: Reach
    where: Filter | None
    deadline: Deadline


class SearchService:
    """Finds memories by meaning, words, time and importance."""

    def __init__(
        self,
        readers: SearchReaders,
        now: Callable[[], datetime],
        back: Callable[[SearchQuery, SearchReaders], SearchReaders] | None = None,
    ) -> None:
        """Search by *readers*; *back* turns them into those of what was known at a query's known_time."""
        self._readers = readers
        self._back = back
        self._presenting = HitHydrator(readers.reads)
        self._now = now

    def search(self, query: SearchQuery, deadline: Deadline, early: EarlyReplyListener | None = None) -> SearchReply:
        """Return the hits of *query*, best first, equal scores by memory id, and note that they were read.

        *early* is told what words alone find, as soon as that is known, when meaning is asked too: at most once, and
        not for a later page. It must return at once and not raise.

        Raises:
            DeadlineExceededError: The time was over before the retrievers answered.
            BackendUnavailableError: Every retriever that was asked failed, or the store did.
            CapabilityMissingError: A reranking is asked for, and no reranker is configured.
        """
        moment = query.known_time
        if moment is not None and self._back is not None:
            then = SearchService(self._back(query, self._readers), lambda: moment)
            return then.search(replace(query, known_time=None), deadline)
        started = time.perf_counter()
        try:
            self._readers.refining.check(query)
            reply = self._answer(query, deadline, started, None if query.offset else early)
        except MemsvcError:
            self._readers.performance.record("Search", "engine", time.perf_counter() - started, failed=True)
            raise
        *stages, (_, total) = reply.timings
        self._readers.performance.record("Search", "engine", total, stages=stages)
        return reply

    def _answer(
        self, query: SearchQuery, deadline: Deadline, started: float, early: EarlyReplyListener | None
    ) -> SearchReply:
        reach = Reach.from_scope(query.scope, query.selection.visibility)
        where = conjunction(query.selection.where, session_privacy(query.scope, query.selection.sessions))
        place = _Place(reach, where, deadline)

        def tell(near: RetrievalResult) -> None:
            if early is not None:
                # A reranker would hold up the early answer, and take the time that the whole one needs it for.
                quick = replace(query, refinement=replace(query.refinement, rerank_depth=0))
                first = self._readers.ranker.rank(quick, near, reach=reach, now=self._now())
                found = self._refined(quick, first, near, place)
                early(replace(self._reply(quick, found, reach, started), has_more=False))

        found = self._found(query, place, tell if early else None)
        reply = self._reply(query, found, reach, started)
        self._readers.accesses.note(hit.memory.id for hit in reply.hits)
        return reply

    def _reply(self, query: SearchQuery, found: _Found, reach: Reach, started: float) -> SearchReply:
        hydrating = time.perf_counter()
        hits = self._presenting.hits(found.page, reach=reach, terms=found.terms, snippet_chars=query.snippet_chars)
        done = time.perf_counter()
        stages = sorted((*found.timings, ("hydrate", hydrating, done - hydrating)), key=lambda stage: stage[1])
        if found.refined is not None and found.refined.collapsed:
            groups = found.refined.collapsed
            hits = tuple(replace(hit, collapsed_ids=groups.get(hit.memory.id, ())) for hit in hits)
        return SearchReply(
            hits=_explained(hits, found) if query.explain else hits,
            degraded=tuple(found.degraded),
            timings=(*((name, seconds) for name, _, seconds in stages), ("total", done - started)),
            total_candidates=found.total,
            has_more=found.total > query.offset + query.limit,
            skipped=() if found.refined is None else tuple(found.refined.skipped),
        )

    def _found(self, query: SearchQuery, place: _Place, early: Callable[[RetrievalResult], None] | None) -> _Found:
        """Look as deep as the recipe was measured with, and deeper only when the page asked for needs more.

        What the deeper look adds is put behind the rest: so pages neither repeat nor leave out a memory, though
        normalised scores depend on how deep the lists are.
        """
        retrieval, ranker = self._readers.retrieval, self._readers.ranker
        asked = RetrievalRequest(
            query=query, reach=place.reach, where=place.where, depth=ranker.depth, deadline=place.deadline
        )
        near = retrieval.run(asked, early)
        first = ranker.rank(query, near, reach=place.reach, now=self._now())
        stop = query.offset + query.limit
        if first.is_cut or len(first) > stop or not near.reaches(ranker.depth):
            return self._refined(query, first, near, place)
        far = retrieval.run(replace(asked, depth=max(SEARCH_DEPTH, ranker.depth)))
        # Whatever its score: it is made comparable below.
        second = ranker.rank(replace(query, min_score=0.0), far, reach=place.reach, now=self._now())
        places, factor = _continued(first, second, query.min_score)
        places, refined = self._in_new_order(query, places[:POOL], places[POOL:], place)
        found = _Found(
            places[query.offset : stop],
            len(places),
            lambda ranking: _explanation(ranking, first, second, factor),
            near.terms,
            near.degraded or far.degraded,
            (*near.timings, *first.timings, *far.timings, *second.timings),
        )
        return replace(found, refined=refined)

    def _refined(self, query: SearchQuery, first: RankedCandidates, near: RetrievalResult, place: _Place) -> _Found:
        """Return the page of a list that was not looked at more deeply."""
        start, stop = query.offset, query.offset + query.limit
        timings = (*near.timings, *first.timings)
        if not query.refinement.is_any:
            page = first.page(start, stop)
            return _Found(page, len(first), first.explain, near.terms, near.degraded, timings)
        began = time.perf_counter()
        others = first.page(POOL, max(stop + POOL, len(first)))
        places, refined = self._in_new_order(query, first.page(0, POOL), others, place)
        timings = (*timings, ("refine", began, time.perf_counter() - began))
        page = places[start:stop]
        return _Found(page, len(places), first.explain, near.terms, near.degraded, timings, refined)

    def _in_new_order(
        self, query: SearchQuery, head: list[RankedMemory], others: list[RankedMemory], place: _Place
    ) -> tuple[list[RankedMemory], RefinedHits | None]:
        if not query.refinement.is_any:
            return [*head, *others], None
        refined = self._readers.refining.refine(query, head, reach=place.reach, deadline=place.deadline)
        below = [one for one in refined.below(others) if one.score >= query.min_score]
        return [*refined.places, *below], refined


def _continued(first: RankedCandidates, second: RankedCandidates, min_score: float) -> tuple[list[RankedMemory], float]:
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


def _explanation(place: RankedMemory, first: RankedCandidates, second: RankedCandidates, factor: float) -> Explanation:
    if first.contains(place):
        return first.explain(place)
    explanation = second.explain(place)
    return replace(explanation, boosts=(*explanation.boosts, (DEPTH, factor))) if factor < 1.0 else explanation


def _explained(hits: Sequence[SearchHit], found: _Found) -> tuple[SearchHit, ...]:
    places = {place.memory_id: place for place in found.page}
    factors = {} if found.refined is None else found.refined.factors

    def explanation(memory_id: str) -> Explanation:
        known = found.explained(places[memory_id])
        factor = factors.get(memory_id, 1.0)
        return known if factor == 1.0 else replace(known, boosts=(*known.boosts, (RERANK, factor)))

    return tuple(replace(hit, explanation=explanation(hit.memory.id)) for hit in hits)


# From ranked rows to hits: one query for the memories, and the best chunk's snippet for each.


SHORT = 300
"""Content of so few characters is always one chunk, whatever tokens are counted by."""


class HitHydrator:
    """Turns rankings into hits."""

    def __init__(self, reads: CandidateReader) -> None:
        self._reads = reads

    def hits(
        self, ranked: Sequence[RankedMemory], *, reach: Reach, terms: Sequence[str], snippet_chars: int
    ) -> tuple[SearchHit, ...]:
        """Return one hit for each ranking, in order; a memory that is gone meanwhile is left out."""
        memories = self._reads.by_rows([place.row for place in ranked], reach=reach)
        chunks = self._chunks(ranked, memories)
        words = frozenset(terms)
        return tuple(
            _hit(place, memories[place.row], chunks.get(place.row), words, snippet_chars)
            for place in ranked
            if place.row in memories
        )

    def _chunks(self, ranked: Sequence[RankedMemory], memories: Mapping[int, Memory]) -> dict[int, Chunk]:
        wanted = [
            (place.row, ordinal_of(place.entry_id))
            for place in ranked
            if place.row in memories and len(memories[place.row].content) > SHORT
        ]
        return {row: chunk for (row, _), chunk in self._reads.chunks(wanted).items()} if wanted else {}


def _hit(
    place: RankedMemory, memory: Memory, chunk: Chunk | None, terms: frozenset[str], snippet_chars: int
) -> SearchHit:
    text = memory.content if chunk is None else chunk.text
    found = snippet(text, terms, width=snippet_chars)
    first = 1 if chunk is None else chunk.start_line
    return SearchHit(
        memory=memory,
        score=place.score,
        snippet=found.text,
        spans=found.spans,
        start_line=first + found.start_line - 1,
        end_line=first + found.end_line - 1,
        chunk_ordinal=0 if chunk is None else chunk.ordinal,
        heading_path=() if chunk is None else chunk.heading_path,
    )


# Search over memories and files at once (requirement R9).


class GlobalSearch:
    """Finds memories as any search does, and files by the words that are known of them."""

    def __init__(self, recall: SearchService, files: FileReads, now: Callable[[], datetime]) -> None:
        """Find memories by *recall*, files in *files*; *now* is the clock."""
        self._recall = recall
        self._files = files
        self._now = now

    def search(self, query: GlobalQuery, deadline: Deadline) -> GlobalReply:
        """Return what fits *query*, a list for each group that was asked for, best first.

        Raises:
            DeadlineExceededError, BackendUnavailableError: As for `SearchService.search`.
        """
        groups = [group for group in CATEGORIES if group in query.groups]
        reach, terms = Reach.from_scope(query.scope, query.visibility), query_terms(query.text)
        found: dict[Group, tuple[FoundFile, ...]] = {
            group: tuple(
                self._files.search(terms, reach=reach, categories=CATEGORIES[group], now=self._now(), limit=query.limit)
            )
            for group in groups
        }
        memories = None if query.memories is None else self._recall.search(query.memories, deadline)
        return GlobalReply(memories, found)
