"""Ranking: the lists of the retrievers become one, by the default recipe or the requested fusion."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from memsvc.domain.clock import from_micros
from memsvc.domain.index_entries import View
from memsvc.domain.memory import Layer, Status
from memsvc.domain.scope import Reach, SessionVisibility
from memsvc.domain.search import (
    Explanation,
    Fusion,
    FusionMethod,
    Mode,
    Normalization,
    Retriever,
    RetrieverScore,
    SearchQuery,
)
from memsvc.engine.search.fusion import FusedScores, RankedList, best_per_row, reciprocal_rank, weighted_sum
from memsvc.engine.search.retrieval import CandidateReader, RetrievalResult, Timing
from memsvc.engine.search.scoring import (
    SCALE,
    BoostConstants,
    BoostedScores,
    ScoreColumn,
    WeightedScores,
    apply_boosts,
    apply_weighting,
    named_speakers,
    spread_low_scores,
)
from memsvc.ports.candidates import ABSENT, Candidates, Integers
from memsvc.text.date_mentions import date_match, mentioned_dates

DENSE = {View.CHUNK: Retriever.DENSE.value, View.SENTENCES: "DENSE_SENTENCES", View.WINDOW: "DENSE_WINDOW"}
"""Names of the dense lists; each view of granularity E is a list of its own."""
RankedLists: TypeAlias = Mapping[str, RankedList]
"""The ranked lists by name, best first, without empty lists."""
BM25 = Retriever.BM25.value
TABLE = Retriever.KEYWORD_TABLE.value
RECIPE_S = {DENSE[View.CHUNK]: 1.0, BM25: 1.0, TABLE: 0.0}
RECIPE_E = {**dict.fromkeys(DENSE.values(), 1.0), BM25: 2.0, TABLE: 0.0}
GIVEN_KEYWORDS = 0.5
"""Weight of the keyword table in the recipe when the caller gives keywords."""
_DELETED, _PRIVATE = Status.DELETED.value, Layer.SESSION.value
KEYWORD_MODE = 0.1
"""Its weight in a keyword search without given keywords: memories that match by keywords only come last."""
NO_DATES: ScoreColumn = np.empty(0)
NO_BOOSTS = BoostConstants(neighbour=0.0, session=0.0, date=0.0, speaker=0.0)
"""A fusion requested by name applies no other term of the recipe."""


class Ranker:
    """Fusion, boosts, weighting and sorting."""

    def __init__(self, reads: CandidateReader, constants: BoostConstants) -> None:
        self._reads = reads
        self._constants = constants

    def with_reader(self, reads: CandidateReader) -> Ranker:
        """Return the same ranker on another reader."""
        return Ranker(reads, self._constants)

    @property
    def depth(self) -> int:
        """Return the number of hits to request from each retriever."""
        return self._constants.depth

    def rank(self, query: SearchQuery, found: RetrievalResult, *, reach: Reach, now: datetime) -> RankedCandidates:
        """Rank the retrieved hits, without memories that an index still has but that may no longer be shown."""
        started = time.perf_counter()
        rankings = _rankings(found)
        fused = _fuse(query, rankings, found)
        between = time.perf_counter()
        candidates = self._reads.candidates(fused.rows, reach=reach)
        candidates = candidates.where(_visible(candidates, query))
        totals = fused.totals_of(candidates.rows)
        scored = self._apply_boosts(query, totals, candidates, rankings)
        weights = apply_weighting(spread_low_scores(totals, scored), candidates, query.weighting, now)
        order = _best_first(weights.scores, query.min_score)
        timings = (("fuse", started, between - started), ("boost", between, time.perf_counter() - between))
        is_cut = len(order) < len(candidates)
        return RankedCandidates(order, is_cut, ScoreBreakdown(rankings, fused, candidates, scored, weights), timings)

    def _apply_boosts(
        self, query: SearchQuery, totals: ScoreColumn, candidates: Candidates, rankings: RankedLists
    ) -> BoostedScores:
        if _fusion_method(query) is not FusionMethod.DEFAULT:
            return apply_boosts(
                totals, candidates, lexical=None, named=frozenset(), dates=NO_DATES, constants=NO_BOOSTS
            )
        speakers = map(candidates.names.text, set(candidates.speakers.tolist()))
        return apply_boosts(
            totals,
            candidates,
            lexical=rankings.get(BM25),
            named=named_speakers(query.text, speakers),
            dates=_dates(query.text, candidates),
            constants=self._constants,
        )


@dataclass(frozen=True, slots=True, eq=False)
class RankedCandidates:
    """All candidates at or above the min_score of a query. `RankedMemory` values are created for requested pages only.

    Attributes:
        order: The positions of the candidates, best first, ties in any order.
        is_cut: Whether there were candidates below the min_score.
    """

    order: Integers
    is_cut: bool
    breakdown: ScoreBreakdown
    timings: tuple[Timing, ...]

    def __len__(self) -> int:
        """Return the number of ranked candidates."""
        return len(self.order)

    def page(self, start: int, stop: int) -> list[RankedMemory]:
        """Return the memories from *start* to before *stop*, best first, ties by memory id."""
        stop = min(stop, len(self))
        if start >= stop:
            return []
        breakdown = self.breakdown
        first, last = self._with_equals(start, stop)
        places = self.order[first:last]
        ids, scores = breakdown.candidates.ids[places].tolist(), breakdown.weighted.scores[places].tolist()
        ordered = sorted(zip([-score for score in scores], ids, places.tolist(), strict=True))
        page_places = ordered[start - first : stop - first]
        rows = breakdown.candidates.rows[[place for *_, place in page_places]]
        listed = zip(page_places, rows.tolist(), _best_entries(breakdown.rankings, rows), strict=True)
        return [RankedMemory(-score, memory_id, row, entry, place) for (score, memory_id, place), row, entry in listed]

    def _with_equals(self, start: int, stop: int) -> tuple[int, int]:
        """Extend a page by neighbours with equal scores: only their ids decide which are on the page."""
        falling = -self.breakdown.weighted.scores[self.order]
        first = int(np.searchsorted(falling, falling[start], side="left"))
        return first, int(np.searchsorted(falling, falling[stop - 1], side="right"))

    def contains(self, ranking: RankedMemory) -> bool:
        """Return whether the memory is among the candidates."""
        return bool((self.breakdown.candidates.rows == ranking.row).any())

    def explain(self, ranking: RankedMemory) -> Explanation:
        """Explain the score of one of the candidates."""
        return self.breakdown.of(ranking.place)


class RankedMemory(NamedTuple):
    """A memory in the ranking.

    Attributes:
        score: The final score.
        entry_id: The best entry of the memory.
        place: Its position among the candidates.
    """

    score: float
    memory_id: str
    row: int
    entry_id: int
    place: int

    def scale_by(self, factor: float) -> RankedMemory:
        """Return the memory with its score multiplied by *factor*."""
        return self._replace(score=self.score * factor)


@dataclass(frozen=True, slots=True, eq=False)
class ScoreBreakdown:
    """The intermediate results of a ranking, from which scores are explained."""

    rankings: RankedLists
    fused: FusedScores
    candidates: Candidates
    scored: BoostedScores
    weighted: WeightedScores

    def of(self, place: int) -> Explanation:
        """Explain the score of one of the candidates."""
        row = int(self.candidates.rows[place])
        boosts = [boost for boost in self.scored.boosts_of(place) if boost != (SCALE, 1.0)]
        boosts += self.weighted.factors_of(place)
        return Explanation(tuple(self._retrievers(row)), self.fused.total_of(row), tuple(boosts))

    def _retrievers(self, row: int) -> list[RetrieverScore]:
        return [
            RetrieverScore(
                Retriever.DENSE if name in DENSE.values() else Retriever(name),
                place + 1,
                ranking.score_of(row),
                self.fused.normalized_score(name, row),
                self.fused.share(name, row),
            )
            for name, ranking in self.rankings.items()
            if (place := ranking.place_of(row)) >= 0
        ]


def _fusion_method(query: SearchQuery) -> FusionMethod:
    """Return the fusion method: a semantic search needs no fusion, and its scores stay cosines."""
    return FusionMethod.DEFAULT if query.mode is Mode.SEMANTIC else query.fusion.method


def _visible(candidates: Candidates, query: SearchQuery) -> npt.NDArray[np.bool_]:
    """Return a mask of the candidates that exist in the store, which is ahead of the indexes, and are not private."""
    find = candidates.names.find
    is_there: npt.NDArray[np.bool_] = candidates.statuses != find(_DELETED)
    if query.selection.sessions is SessionVisibility.ALL:
        return is_there
    is_hidden = candidates.layers == find(_PRIVATE)
    if session_id := query.scope.session_id:
        is_hidden &= candidates.sessions != find(session_id)
    is_there &= ~is_hidden
    return is_there


def _best_first(scores: ScoreColumn, least: float) -> Integers:
    order = np.argsort(-scores)
    return order if least <= 0.0 else order[scores[order] >= least]


def _rankings(found: RetrievalResult) -> RankedLists:
    lists = {DENSE[view]: best_per_row(hits) for view, hits in found.dense.items()}
    lists[BM25] = best_per_row(found.bm25)
    lists[TABLE] = best_per_row(found.keyword_table)
    return {name: ranking for name, ranking in lists.items() if ranking}


def _fuse(query: SearchQuery, rankings: RankedLists, found: RetrievalResult) -> FusedScores:
    if query.mode is Mode.SEMANTIC:
        return weighted_sum(rankings, weights=RECIPE_E, normalization=Normalization.NONE)
    fusion = query.fusion
    if fusion.method is FusionMethod.DEFAULT:
        return weighted_sum(rankings, weights=_recipe(query, rankings))
    answered = found.asked - {lost.retriever for lost in found.degraded}
    weights = {one.value: _weight(fusion, one) for one in found.asked}
    weights |= dict.fromkeys(rankings.keys() - weights.keys(), 0.0)
    whole = sum(weights[one.value] for one in answered)
    factor = fusion.single_retriever_factor if len(answered) > 1 else 1.0
    if fusion.method is FusionMethod.RECIPROCAL_RANK:
        ranks = reciprocal_rank(
            rankings, weights=weights, constant=fusion.rank_constant, single_retriever_factor=factor
        )
        return ranks.scale_by((fusion.rank_constant + 1) / whole if whole else 1.0)
    mean = weighted_sum(
        _clip_scores(rankings) if fusion.normalization is Normalization.NONE else rankings,
        weights=weights,
        normalization=fusion.normalization,
        single_retriever_factor=factor,
    )
    # The mean is over lists with hits; a retriever that answered without hits gives every memory 0.
    used = sum(weights[name] for name in rankings)
    return mean.scale_by(used / whole) if 0.0 < used < whole else mean


def _clip_scores(rankings: RankedLists) -> RankedLists:
    return {name: ranking.with_scores(np.clip(ranking.scores, 0.0, 1.0)) for name, ranking in rankings.items()}


def _weight(fusion: Fusion, retriever: Retriever) -> float:
    return 1.0 if fusion.weights is None else fusion.weights.get(retriever, 0.0)


def _recipe(query: SearchQuery, rankings: RankedLists) -> dict[str, float]:
    recipe = RECIPE_E if DENSE[View.WINDOW] in rankings else RECIPE_S
    if query.keywords:
        return {**recipe, TABLE: GIVEN_KEYWORDS}
    return {**recipe, TABLE: KEYWORD_MODE} if query.mode is Mode.KEYWORD else recipe


def _best_entries(rankings: RankedLists, rows: Integers) -> list[int]:
    """Return the entry to show of each memory: the lexical chunk, otherwise the dense one."""
    chosen = np.zeros(len(rows), dtype=np.int64)
    for name in reversed((BM25, *DENSE.values(), TABLE)):
        if name in rankings:
            is_it = rows[:, np.newaxis] == rankings[name].rows
            chosen = np.where(is_it.any(axis=1), rankings[name].entries[is_it.argmax(axis=1)], chosen)
    entries: list[int] = chosen.tolist()
    return entries


def _dates(text: str, candidates: Candidates) -> ScoreColumn:
    mentions = mentioned_dates(text)
    if not mentions:
        return NO_DATES
    times = candidates.event_times.tolist()
    return np.array([0.0 if time == ABSENT else date_match(mentions, from_micros(time)) for time in times])
