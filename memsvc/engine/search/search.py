"""Search: from a query to ranked and explained hits."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import MemsvcError
from memsvc.domain.files import FileCategory
from memsvc.domain.filter_evaluation import memory_test
from memsvc.domain.filters import AnyOf, Field, Filter, FilterMemo, Not, conjunction
from memsvc.domain.index_entries import Chunk, ordinal_of
from memsvc.domain.limits import SEARCH_DEPTH
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach
from memsvc.domain.search import (
    CATEGORIES,
    Explanation,
    FailedRetriever,
    FoundFile,
    FoundPassage,
    GlobalQuery,
    GlobalReply,
    Refinement,
    ResultGroup,
    SearchHit,
    SearchQuery,
    SearchReply,
    SkippedStage,
)
from memsvc.domain.visibility import SHARED, session_privacy
from memsvc.engine.conflicts.extraction_marks import rejected_ids
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
from memsvc.ports.features import FileReads, StatementReads
from memsvc.text.analysis import query_terms
from memsvc.text.snippets import snippet

DEPTH = "depth"
"""Name of the factor that ranks hits of a deeper retrieval below all earlier hits."""
_ARCHIVED_DEPTH = 4
"""So many times the archived hits are searched: some may be of no use."""
NO_LATE_INTERACTION = SkippedStage("late_interaction", "NO_TOKENS")
EarlyReplyListener: TypeAlias = Callable[[SearchReply], None]
SINGLE_CHUNK_CHARS = 300
"""Content up to this length is always a single chunk, with every tokenizer."""


@dataclass(frozen=True, slots=True)
class ArchivedHits:
    """The hits of archived memories that a search returns that finds nothing relevant.

    Attributes:
        limit: The maximum number; 0 for none.
        statements: Says which memories were rejected in a conflict.
    """

    limit: int
    statements: StatementReads

    def current(self, hits: Sequence[SearchHit]) -> list[SearchHit]:
        """Return the first *hits* that were archived for want of use.

        Left out are those that were archived because another memory says the same, which may be deleted by now, and
        those that a conflict was decided against.
        """
        own = [hit for hit in hits if not hit.memory.superseded_by_id]
        if not own:
            return []
        rejected = rejected_ids(self.statements, own[0].memory.scope.owner, [hit.memory.id for hit in own])
        return [hit for hit in own if hit.memory.id not in rejected][: self.limit]


class SearchService:
    """Search of memories by meaning, words, time and importance."""

    def __init__(
        self,
        readers: SearchReaders,
        now: Callable[[], datetime],
        as_of: Callable[[SearchQuery, SearchReaders], SearchReaders] | None = None,
        archive: ArchivedHits | None = None,
    ) -> None:
        """Search by *readers*; *as_of* converts them into readers as of the known_time of a query.

        A search that finds nothing relevant looks for hits of the *archive*.
        """
        self._readers = readers
        self._as_of = as_of
        self._archive = archive
        self._hydrator = HitHydrator(readers.reads)
        self._now = now
        self._shared: FilterMemo[Filter | None] = FilterMemo()

    def search(self, query: SearchQuery, deadline: Deadline, early: EarlyReplyListener | None = None) -> SearchReply:
        """Return the hits of *query*, best first, ties by memory id, and count them as accesses if it says so.

        If the search also runs the dense retriever, *early* receives a reply from lexical hits as soon as they are
        known, at most once, and only for the first page. It must return at once and must not raise.

        Raises:
            DeadlineExceededError: The deadline passed before the retrievers answered.
            BackendUnavailableError: Every selected retriever failed, or the store did.
            CapabilityMissingError: The query requests reranking, and no reranker is configured.
        """
        moment = query.known_time
        if moment is not None and self._as_of is not None:
            then = SearchService(self._as_of(query, self._readers), lambda: moment)
            return then.search(replace(query, known_time=None), deadline)
        started = time.perf_counter()
        try:
            self._readers.refining.check(query)
            reply = self._answer(query, deadline, started, None if query.offset else early)
            if self._archive is not None and self._should_search_archive(query, reply, self._archive):
                reply = self._with_archived(query, reply, self._archive, deadline)
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
        where = self._with_privacy(query.selection.where, session_privacy(query.scope, query.selection.sessions))
        place = _SearchArea(reach, where, deadline)

        def reply_early(shallow: RetrievalResult) -> None:
            if early is not None:
                # Without reranking, which would delay the early reply and take time from the final one.
                quick = replace(query, refinement=replace(query.refinement, rerank_depth=0))
                first = self._readers.ranker.rank(quick, shallow, reach=reach, now=self._now())
                found = self._refine(quick, first, shallow, place)
                early(replace(self._reply(quick, found, place, started), has_more=False, skipped=()))

        found = self._find(query, place, reply_early if early else None)
        reply = self._reply(query, found, place, started)
        if query.counts_access:
            self._readers.accesses.note(hit.memory.id for hit in reply.hits)
        return reply

    @staticmethod
    def _should_search_archive(query: SearchQuery, reply: SearchReply, archive: ArchivedHits) -> bool:
        """Return whether nothing fits; not if a retriever failed, for which the archive would have to wait again."""
        found_nothing = not reply.degraded and (reply.nothing_relevant or not reply.total_candidates)
        return found_nothing and not query.offset and query.selection.archived is not None and archive.limit > 0

    def _with_archived(
        self, query: SearchQuery, reply: SearchReply, archive: ArchivedHits, deadline: Deadline
    ) -> SearchReply:
        """Add the archived memories that are relevant, unless searching them fails."""
        started = time.perf_counter()
        asked = replace(
            query,
            selection=replace(query.selection, where=query.selection.archived, archived=None),
            min_relevance=query.min_relevance or self._readers.ranker.min_relevance,
            limit=archive.limit * _ARCHIVED_DEPTH,
            explain=False,
            refinement=Refinement(),
            counts_access=False,
        )
        try:
            found = self._answer(asked, deadline, started, None)
            hits = archive.current(found.hits)
        except MemsvcError:
            return reply
        *stages, (total, seconds) = reply.timings
        spent = time.perf_counter() - started
        return replace(
            reply,
            archived=tuple(hits),
            degraded=found.degraded,
            timings=(*stages, ("archive", spent), (total, seconds + spent)),
        )

    def _with_privacy(self, where: Filter | None, privacy: Filter | None) -> Filter | None:
        if where is None or privacy is not SHARED:
            return conjunction(where, privacy)
        return self._shared.get(where, lambda asked: conjunction(asked, SHARED))

    def _reply(self, query: SearchQuery, found: _SearchResult, place: _SearchArea, started: float) -> SearchReply:
        hydrating = time.perf_counter()
        hits = self._hydrator.hits(found.page, place, terms=found.terms, snippet_chars=query.snippet_chars)
        done = time.perf_counter()
        stages = sorted((*found.timings, ("hydrate", hydrating, done - hydrating)), key=lambda stage: stage[1])
        if found.refined is not None and found.refined.collapsed:
            groups = found.refined.collapsed
            hits = tuple(replace(hit, collapsed_ids=groups.get(hit.memory.id, ())) for hit in hits)
        return SearchReply(
            hits=_with_explanations(hits, found) if query.explain else hits,
            degraded=tuple(found.degraded),
            timings=(*((name, seconds) for name, _, seconds in stages), ("total", done - started)),
            total_candidates=found.total,
            has_more=found.total > query.offset + query.limit,
            nothing_relevant=found.nothing_relevant,
            embedded_chars=found.embedded_chars,
            skipped=(
                *(() if found.refined is None else found.refined.skipped),
                *((NO_LATE_INTERACTION,) if query.explain and found.lacks_tokens else ()),
            ),
        )

    def _find(
        self, query: SearchQuery, place: _SearchArea, early: Callable[[RetrievalResult], None] | None
    ) -> _SearchResult:
        """Retrieve at the depth that the recipe was measured with, and deeper only if the page needs more hits.

        Hits that only a deeper retrieval finds are ranked behind all others: so pages neither repeat nor skip a
        memory, although normalised scores depend on the depth of the lists.
        """
        retrieval, ranker = self._readers.retrieval, self._readers.ranker
        asked = RetrievalRequest(
            query=query, reach=place.reach, where=place.where, depth=ranker.depth, deadline=place.deadline
        )
        shallow = retrieval.run(asked, early)
        first = ranker.rank(query, shallow, reach=place.reach, now=self._now())
        stop = query.offset + query.limit
        if first.is_cut or len(first) > stop or not shallow.is_full(ranker.depth):
            return self._refine(query, first, shallow, place)
        ranking = _DeepRanking(first, query.min_score, [*shallow.timings, *first.timings])
        self._deepen(ranking, replace(asked, depth=max(SEARCH_DEPTH, ranker.depth)), stop)
        places, refined = self._reorder(query, ranking.places[:POOL], ranking.places[POOL:], place)
        found = _SearchResult(
            places[query.offset : stop],
            len(places),
            ranking.explain,
            shallow.terms,
            shallow.degraded or ranking.degraded,
            tuple(ranking.timings),
            embedded_chars=shallow.embedded_chars,
        )
        complete = self._complete(replace(found, refined=refined), query, first)
        return replace(complete, nothing_relevant=ranking.nothing_relevant)

    def _deepen(self, ranking: _DeepRanking, asked: RetrievalRequest, stop: int) -> None:
        """Add what *asked*, a deeper retrieval, finds, and more until there are more than *stop* memories or no more.

        The entries of a few long memories may fill the lists: then the retrieval is repeated without these memories.
        """
        # All scores: they are made comparable by the ranking.
        query, where = replace(asked.query, min_score=0.0), asked.where
        excluded: frozenset[int] = frozenset()
        while True:
            found = self._readers.retrieval.run(asked)
            ranked = self._readers.ranker.rank(query, found, reach=asked.reach, now=self._now())
            ranking.add(ranked, found)
            is_enough = ranking.is_cut or len(ranking.places) > stop or len(ranking.places) >= SEARCH_DEPTH
            if is_enough or not found.is_full(asked.depth) or excluded == ranking.rows or asked.deadline.has_passed():
                return
            excluded = frozenset(ranking.rows)
            asked = replace(asked, where=conjunction(where, Not(AnyOf(Field.ROW, tuple(sorted(excluded))))))

    def _complete(self, found: _SearchResult, query: SearchQuery, ranked: RankedCandidates) -> _SearchResult:
        """Add what the ranking says about all candidates."""
        is_expected = len(ranked) > 0 and self._readers.ranker.compares_tokens(query)
        return replace(
            found,
            lacks_tokens=is_expected and not ranked.compared_tokens,
            nothing_relevant=ranked.nothing_relevant,
        )

    def _refine(
        self, query: SearchQuery, first: RankedCandidates, shallow: RetrievalResult, place: _SearchArea
    ) -> _SearchResult:
        """Return the page of a result that needs no deeper retrieval."""
        start, stop = query.offset, query.offset + query.limit
        timings = (*shallow.timings, *first.timings)
        if not query.refinement.is_any:
            page = first.page(start, stop)
            found = _SearchResult(page, len(first), first.explain, shallow.terms, shallow.degraded, timings)
            return self._complete(replace(found, embedded_chars=shallow.embedded_chars), query, first)
        began = time.perf_counter()
        others = first.page(POOL, max(stop + POOL, len(first)))
        places, refined = self._reorder(query, first.page(0, POOL), others, place)
        timings = (*timings, ("refine", began, time.perf_counter() - began))
        page = places[start:stop]
        found = _SearchResult(page, len(places), first.explain, shallow.terms, shallow.degraded, timings, refined)
        return self._complete(replace(found, embedded_chars=shallow.embedded_chars), query, first)

    def _reorder(
        self, query: SearchQuery, head: list[RankedMemory], others: list[RankedMemory], place: _SearchArea
    ) -> tuple[list[RankedMemory], RefinedHits | None]:
        if not query.refinement.is_any:
            return [*head, *others], None
        refined = self._readers.refining.refine(query, head, reach=place.reach, deadline=place.deadline)
        below = [one for one in refined.below(others) if one.score >= query.min_score]
        return [*refined.places, *below], refined


@dataclass(frozen=True, slots=True)
class SearchReaders:
    """Dependencies of a search."""

    reads: CandidateReader
    retrieval: RetrievalSource
    ranker: Ranker
    refining: ResultRefiner
    accesses: AccessRecorder
    performance: LatencyStats


@dataclass(frozen=True, slots=True)
class _SearchResult:
    """The requested page of one total order, and the number of hits in that order.

    Attributes:
        lacks_tokens: Whether the ranking should have compared tokens and could not.
        nothing_relevant: Whether no candidate reaches the minimum relevance.
        embedded_chars: As in `SearchReply`.
    """

    page: list[RankedMemory]
    total: int
    explained: Callable[[RankedMemory], Explanation]
    terms: Sequence[str]
    degraded: Sequence[FailedRetriever]
    timings: tuple[Timing, ...]
    refined: RefinedHits | None = None
    lacks_tokens: bool = False
    nothing_relevant: bool = False
    embedded_chars: int = 0


@dataclass(frozen=True, slots=True)
class _SearchArea:
    """Scope, filter and deadline of a search."""

    reach: Reach
    where: Filter | None
    deadline: Deadline


class _DeepRanking:
    """The memories of a retrieval and then those that only deeper ones found, with scores that do not rise.

    Attributes:
        places: The memories at or above the min_score, best first.
        rows: The rows of all retrieved memories, also of those that are not shown.
        degraded: The retrievers that failed in the first deeper retrieval with failures.
        nothing_relevant: Whether no retrieved memory reaches the minimum relevance.
        is_cut: Whether the last retrieval found memories below the min_score.
    """

    def __init__(self, first: RankedCandidates, min_score: float, timings: list[Timing]) -> None:
        """Begin with *first*, whose retrieval and ranking took *timings*."""
        self.places = first.page(0, len(first))
        self.rows = set(first.retrieved_rows)
        self.timings = timings
        self.degraded: list[FailedRetriever] = []
        self.nothing_relevant = first.nothing_relevant
        self.is_cut = first.is_cut
        self._layers = [(first, 1.0)]
        self._min_score = min_score

    def add(self, ranked: RankedCandidates, found: RetrievalResult) -> None:
        """Add the memories of a deeper retrieval that are not known yet."""
        seen = {place.row for place in self.places}
        others = [place for place in ranked.page(0, len(ranked)) if place.row not in seen]
        if not self.places or not others or self.places[-1].score >= others[0].score:
            factor = 1.0
        else:
            factor = self.places[-1].score / others[0].score
        # A product may be rounded up.
        highest = self.places[-1].score if self.places else 1.0
        lowered = [place._replace(score=min(highest, place.score * factor)) for place in others]
        shown = [place for place in lowered if place.score >= self._min_score]
        self.rows.update(ranked.retrieved_rows)
        self.places += shown
        self.timings += (*found.timings, *ranked.timings)
        self.degraded = self.degraded or found.degraded
        self.nothing_relevant = self.nothing_relevant and ranked.nothing_relevant
        self.is_cut = len(shown) < len(others)
        self._layers.append((ranked, factor))

    def explain(self, place: RankedMemory) -> Explanation:
        """Explain the score of one of the memories."""
        ranked, factor = next(layer for layer in self._layers if layer[0].contains(place))
        explanation = ranked.explain(place)
        return replace(explanation, boosts=(*explanation.boosts, (DEPTH, factor))) if factor < 1.0 else explanation


def _with_explanations(hits: Sequence[SearchHit], found: _SearchResult) -> tuple[SearchHit, ...]:
    places = {place.memory_id: place for place in found.page}
    factors = {} if found.refined is None else found.refined.factors

    def explanation(memory_id: str) -> Explanation:
        known = found.explained(places[memory_id])
        factor = factors.get(memory_id, 1.0)
        return known if factor == 1.0 else replace(known, boosts=(*known.boosts, (RERANK, factor)))

    return tuple(replace(hit, explanation=explanation(hit.memory.id)) for hit in hits)


class HitHydrator:
    """Hydration of ranked memories into hits: one query for the memories, and a snippet of each best chunk."""

    def __init__(self, reads: CandidateReader) -> None:
        self._reads = reads

    def hits(
        self, ranked: Sequence[RankedMemory], area: _SearchArea, *, terms: Sequence[str], snippet_chars: int
    ) -> tuple[SearchHit, ...]:
        """Return one hit for each ranked memory, in order.

        Memories that were deleted, or changed so that they do not pass the filter, and whose change the indexes have
        not applied yet, are left out.
        """
        found = self._reads.by_rows([place.row for place in ranked], reach=area.reach)
        passes = memory_test(area.where)
        memories = {row: memory for row, memory in found.items() if passes(memory)}
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
            if place.row in memories and len(memories[place.row].content) > SINGLE_CHUNK_CHARS
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
        relevance=place.relevance,
        snippet=found.text,
        spans=found.spans,
        start_line=first + found.start_line - 1,
        end_line=first + found.end_line - 1,
        chunk_ordinal=0 if chunk is None else chunk.ordinal,
        heading_path=() if chunk is None else chunk.heading_path,
    )


PASSAGES_OF_FILE = 3
"""Passages of one file that a search shows."""


class FileSearcher:
    """Search of files, by their metadata and by their text."""

    def __init__(self, files: FileReads, now: Callable[[], datetime]) -> None:
        """Search in *files*; *now* is the clock."""
        self._files = files
        self._now = now

    def present_ids(self, ids: Sequence[str], *, reach: Reach) -> frozenset[str]:
        """Return those of *ids* that are ids of files that exist and are not expired."""
        return frozenset(self._files.get(ids, reach=reach, now=self._now())) if ids else frozenset()

    def find_passages(
        self,
        text: str,
        *,
        reach: Reach,
        categories: AbstractSet[FileCategory] = frozenset(FileCategory),
        limit: int,
        snippet_chars: int,
    ) -> list[FoundPassage]:
        """Return at most *limit* passages with words of *text*, best first, with their snippets."""
        terms = query_terms(text)
        found = self._files.search_passages(
            terms,
            reach=reach,
            categories=categories,
            now=self._now(),
            limit=limit,
            limit_per_file=PASSAGES_OF_FILE,
        )
        words = frozenset(terms)
        return [_with_snippet(one, words, snippet_chars) for one in found]

    def find_files(
        self, text: str, *, reach: Reach, categories: AbstractSet[FileCategory], limit: int, snippet_chars: int
    ) -> tuple[FoundFile, ...]:
        """Return at most *limit* files that have words of *text* in their metadata or their text, best first."""
        terms, now = query_terms(text), self._now()
        named = self._files.search(terms, reach=reach, categories=categories, now=now, limit=limit)
        found = {one.file.id: one for one in named}
        passages = self.find_passages(
            text, reach=reach, categories=categories, limit=limit * PASSAGES_OF_FILE, snippet_chars=snippet_chars
        )
        for passage in passages:
            known = found.get(passage.file.id, FoundFile(passage.file, 0.0))
            score = max(known.score, passage.score)
            found[passage.file.id] = replace(known, score=score, passages=(*known.passages, passage))
        ordered = sorted(found.values(), key=lambda one: (-one.score, -one.file.row))
        return tuple(ordered[:limit])


def _with_snippet(found: FoundPassage, terms: frozenset[str], width: int) -> FoundPassage:
    shown = snippet(found.passage.text, terms, width=width)
    first, last = found.passage.start_line, found.passage.end_line
    # Lines of a passage are those of the file unless empty ones were left out, or a long one was divided.
    is_exact = last - first == found.passage.text.count("\n")
    start, end = (first + shown.start_line - 1, first + shown.end_line - 1) if is_exact else (first, last)
    return replace(found, snippet=shown.text, spans=shown.spans, start_line=start, end_line=end)


class GlobalSearch:
    """Search of memories, and of files by their metadata and their text."""

    def __init__(self, search_service: SearchService, file_searcher: FileSearcher) -> None:
        """Search memories by *search_service* and files by *file_searcher*."""
        self._search_service = search_service
        self._file_searcher = file_searcher

    def search(self, query: GlobalQuery, deadline: Deadline) -> GlobalReply:
        """Return the matches of *query*, one list for each requested group, best first.

        Raises:
            DeadlineExceededError, BackendUnavailableError: As for `SearchService.search`.
        """
        groups = [group for group in CATEGORIES if group in query.groups]
        reach = Reach.from_scope(query.scope, query.visibility)
        found: dict[ResultGroup, tuple[FoundFile, ...]] = {
            group: self._file_searcher.find_files(
                query.text,
                reach=reach,
                categories=CATEGORIES[group],
                limit=query.limit,
                snippet_chars=query.snippet_chars,
            )
            for group in groups
        }
        memories = None if query.memories is None else self._search_service.search(query.memories, deadline)
        return GlobalReply(memories, found)
