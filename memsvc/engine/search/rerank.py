"""Refinement of the best hits: reranking, collapsing of near-duplicates, and diversification (MMR)."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import (
    BackendUnavailableError,
    CapabilityMissingError,
    DeadlineExceededError,
    MemsvcError,
)
from memsvc.domain.index_entries import ordinal_of
from memsvc.domain.memory import Memory
from memsvc.domain.near_duplicates import Shingles, TermVector, diversify, group_duplicates
from memsvc.domain.scope import Reach
from memsvc.domain.search import SearchQuery, SkippedStage
from memsvc.engine.search.ranking import RankedMemory
from memsvc.engine.search.retrieval import CandidateReader
from memsvc.ports.models import Reranker
from memsvc.text.analysis import terms

POOL = 50
"""Number of best hits that are refined, whatever page is requested, so that all pages belong to one list."""
WHOLE_CHARS = 2_000
"""Longer content is represented by its best chunk."""
RERANKING, COLLAPSING, DIVERSITY, RERANK = "reranking", "collapsing", "diversity", "rerank"
COMPARE_SECONDS = 0.02
"""Time reserved for comparing words; with less time left the comparison is skipped."""
RERANK_SECONDS = 0.05
"""Minimum time left for reranking, however fast the reranker was before."""
_SMOOTHING = 0.2
log = logging.getLogger(__name__)


class ResultRefiner:
    """Refinement of ranked hits as a query requests it."""

    def __init__(self, reads: CandidateReader, reranker: Reranker | None) -> None:
        """Read texts from *reads*; without a *reranker* reranking is refused."""
        self._reads = reads
        self._reranker = reranker
        self._rerank_seconds = 0.0

    def with_reader(self, reads: CandidateReader) -> ResultRefiner:
        """Return a refiner that reads from another reader, such as an as-of reader."""
        return ResultRefiner(reads, self._reranker)

    def check(self, query: SearchQuery) -> None:
        """Check that the refinement of *query* is available.

        Raises:
            CapabilityMissingError: The query requests reranking, and no reranker is configured.
        """
        if query.refinement.rerank_depth and self._reranker is None:
            capability = "reranking (the setting reranker.backend names none)"
            raise CapabilityMissingError(capability)

    def refine(
        self, query: SearchQuery, head: Sequence[RankedMemory], *, reach: Reach, deadline: Deadline
    ) -> RefinedHits:
        """Return the best hits refined. A stage that fails, or has too little time, is skipped."""
        refined, wanted = RefinedHits([*head]), query.refinement
        memories = self._reads.by_rows([place.row for place in head], reach=reach)
        texts = self._texts(head, memories)
        if wanted.rerank_depth:
            self._rerank(query, refined, texts, deadline)
        if wanted.collapse_threshold is None and wanted.mmr_lambda is None:
            return refined
        if _is_short_of(deadline, COMPARE_SECONDS):
            stages = ((COLLAPSING, wanted.collapse_threshold), (DIVERSITY, wanted.mmr_lambda))
            refined.skipped += [
                SkippedStage(stage, "DEADLINE_EXCEEDED") for stage, value in stages if value is not None
            ]
            return refined
        if wanted.collapse_threshold is not None:
            shingles = {row: Shingles.of(text, beyond=_rest_marker(memories[row])) for row, text in texts.items()}
            _collapse(refined, shingles, wanted.collapse_threshold)
        if wanted.mmr_lambda is not None:
            vectors = {row: TermVector.of(terms(text)) for row, text in texts.items()}
            scores = [place.score for place in refined.places]
            order = diversify(scores, [_vector_of(vectors, place) for place in refined.places], wanted.mmr_lambda)
            refined.places = [refined.places[number] for number in order]
        return refined

    def _rerank(self, query: SearchQuery, refined: RefinedHits, texts: Mapping[int, str], deadline: Deadline) -> None:
        reason = self._apply_reranker(query, refined, texts, deadline)
        if reason:
            refined.skipped.append(SkippedStage(RERANKING, reason))

    def _apply_reranker(
        self, query: SearchQuery, refined: RefinedHits, texts: Mapping[int, str], deadline: Deadline
    ) -> str:
        """Reorder the best hits by the reranker; return the reason if it was skipped, otherwise an empty text."""
        if self._reranker is None or _is_short_of(deadline, max(RERANK_SECONDS, 2.0 * self._rerank_seconds)):
            return "DEADLINE_EXCEEDED"
        depth = query.refinement.rerank_depth
        best, others = refined.places[:depth], refined.places[depth:]
        started = time.perf_counter()
        try:
            question = " ".join(filter(None, (query.text, *query.keywords)))
            scores = self._reranker.rerank(question, [texts.get(one.row, "") for one in best], deadline=deadline)
        except DeadlineExceededError:
            return "DEADLINE_EXCEEDED"
        except BackendUnavailableError:
            log.warning("reranking was skipped: the reranker cannot be reached", exc_info=True)
            return "UNAVAILABLE"
        except MemsvcError:
            log.exception("reranking failed")
            return "FAILED"
        elapsed = time.perf_counter() - started
        self._rerank_seconds += _SMOOTHING * (elapsed - self._rerank_seconds)
        reranked = [place._replace(score=min(max(score, 0.0), 1.0)) for place, score in zip(best, scores, strict=True)]
        refined.factors = {
            new.memory_id: new.score / old.score for old, new in zip(best, reranked, strict=True) if old.score > 0.0
        }
        reranked.sort(key=lambda place: (-place.score, place.memory_id))
        refined.least = reranked[-1].score if reranked else 1.0
        refined.places = [place for place in (*reranked, *refined.below(others)) if place.score >= query.min_score]
        return ""

    def _texts(self, places: Sequence[RankedMemory], memories: Mapping[int, Memory]) -> dict[int, str]:
        long = [
            (place.row, ordinal_of(place.entry_id))
            for place in places
            if place.row in memories and len(memories[place.row].content) > WHOLE_CHARS
        ]
        chunks = {row: chunk.text for (row, _), chunk in self._reads.chunks(long).items()} if long else {}
        return {row: _text(memory, chunks.get(row)) for row, memory in memories.items()}


@dataclass(slots=True)
class RefinedHits:
    """The best hits in their new order, the collapsed ids of each, and the skipped stages."""

    places: list[RankedMemory]
    collapsed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    factors: dict[str, float] = field(default_factory=dict)
    skipped: list[SkippedStage] = field(default_factory=list)
    least: float = 1.0

    def below(self, others: Sequence[RankedMemory]) -> list[RankedMemory]:
        """Return hits that were not refined, scaled below the scores of the reranker."""
        if not self.factors or not others or others[0].score <= self.least:
            return [*others]
        factor = self.least / others[0].score
        self.factors |= {place.memory_id: factor for place in others}
        return [place.scale_by(factor) for place in others]


def _text(memory: Memory, chunk: str | None) -> str:
    said = f"{memory.speaker}: " if memory.speaker else ""
    title = f"{memory.title}\n" if memory.title else ""
    return f"{title}{said}{(memory.content if chunk is None else chunk)[:WHOLE_CHARS]}"


def _rest_marker(memory: Memory) -> str:
    """Return a marker for the rest of a long memory, of which only one chunk is compared."""
    return memory.content_hash if len(memory.content) > WHOLE_CHARS else ""


def _collapse(refined: RefinedHits, shingles: Mapping[int, Shingles], threshold: float) -> None:
    places = refined.places
    groups = group_duplicates([shingles.get(place.row) or Shingles.of("") for place in places], threshold)
    refined.places = [places[group[0]] for group in groups]
    refined.collapsed = {
        places[first].memory_id: tuple(places[number].memory_id for number in others)
        for first, *others in groups
        if others
    }


def _vector_of(vectors: Mapping[int, TermVector], place: RankedMemory) -> TermVector:
    return vectors.get(place.row) or TermVector.of(())


def _is_short_of(deadline: Deadline, seconds: float) -> bool:
    remaining = deadline.remaining_seconds()
    return remaining is not None and remaining < seconds
