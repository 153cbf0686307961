"""Ranking: the lists of the retrievers become one, by the measured recipe or by the fusion that was asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from memsvc.domain.clock import from_micros
from memsvc.domain.entries import View
from memsvc.domain.fusion import Fused, Ranked, best_per_row, reciprocal_rank, weighted_sum
from memsvc.domain.query import (
    Candidate,
    Explanation,
    FusionMethod,
    Mode,
    Normalization,
    Retriever,
    RetrieverScore,
    SearchQuery,
)
from memsvc.domain.scope import Reach
from memsvc.domain.scoring import Constants, Scored, boosted, named_speakers, time_factor
from memsvc.engine.read.presenting import Ranking
from memsvc.engine.read.retrieval import Retrieved
from memsvc.ports.metadata import MemoryReads
from memsvc.text.dates import date_match, mentioned_dates

BM25 = Retriever.BM25.value
TABLE = Retriever.KEYWORD_TABLE.value
DENSE = {View.CHUNK: Retriever.DENSE.value, View.SENTENCES: "DENSE_SENTENCES", View.WINDOW: "DENSE_WINDOW"}
"""The names of the dense lists; each view of tier E is a list of its own."""
RECIPE_S = {DENSE[View.CHUNK]: 1.0, BM25: 1.0, TABLE: 0.0}
RECIPE_E = {**dict.fromkeys(DENSE.values(), 1.0), BM25: 2.0, TABLE: 0.0}
GIVEN_KEYWORDS = 0.5
"""The weight of the keyword table in the recipe when the caller gave keywords."""
TIME_WEIGHTING = "time_weighting"

Rankings = Mapping[str, Sequence[Ranked]]


class Ranker:
    """Fuses, boosts, weighs and sorts."""

    def __init__(self, reads: MemoryReads, constants: Constants) -> None:
        self._reads = reads
        self._constants = constants

    def depth(self, query: SearchQuery) -> int:
        """Return how many hits to ask of each retriever so that the page asked for is filled."""
        return max(self._constants.depth, query.offset + query.limit + 1)

    def rank(self, query: SearchQuery, found: Retrieved, *, reach: Reach, now: datetime) -> list[Ranking]:
        """Return every candidate at or above the query's min_score, best first, equal scores by memory id."""
        rankings = _rankings(found)
        fused = _fused(query, rankings)
        candidates = {one.row: one for one in self._reads.candidates(list(fused.totals), reach=reach)}
        scored = boosted(
            fused.totals,
            candidates,
            lexical=rankings.get(BM25, ()),
            named=named_speakers(query.text, {candidate.speaker for candidate in candidates.values()}),
            dates=_dates(query.text, candidates),
            constants=self._constants,
        )
        factors = _factors(query, candidates, now)
        scores = {row: min(1.0, score * factors.get(row, 1.0)) for row, score in scored.scores.items()}
        kept = [row for row, score in scores.items() if score >= query.min_score]
        kept.sort(key=lambda row: (-scores[row], candidates[row].memory_id))
        entries = _best_entries(rankings)
        evidence = _Evidence(rankings, fused, scored, factors) if query.explain else None
        shown = range(query.offset, query.offset + query.limit)
        return [
            Ranking(
                row,
                candidates[row].memory_id,
                scores[row],
                entries[row],
                evidence.of(row) if evidence and place in shown else None,
            )
            for place, row in enumerate(kept)
        ]


def _rankings(found: Retrieved) -> dict[str, list[Ranked]]:
    lists = {DENSE[view]: best_per_row(hits) for view, hits in found.dense.items()}
    lists[BM25] = best_per_row(found.bm25)
    lists[TABLE] = best_per_row(found.keyword_table)
    return {name: ranking for name, ranking in lists.items() if ranking}


def _fused(query: SearchQuery, rankings: Rankings) -> Fused:
    fusion = query.fusion
    given = None if fusion.weights is None else {name.value: weight for name, weight in fusion.weights.items()}
    chosen = None if given is None else {name: given.get(name, 0.0) for name in rankings}
    if fusion.method is FusionMethod.RECIPROCAL_RANK:
        return _scaled(
            reciprocal_rank(
                rankings,
                weights=chosen or {},
                constant=fusion.rank_constant,
                single_retriever_factor=fusion.single_retriever_factor,
            ),
            sum(chosen.values()) if chosen else len(rankings),
            fusion.rank_constant,
        )
    if fusion.method is FusionMethod.WEIGHTED:
        return weighted_sum(
            rankings,
            weights=chosen or {},
            normalization=fusion.normalization,
            single_retriever_factor=fusion.single_retriever_factor,
        )
    if query.mode is Mode.SEMANTIC:
        return weighted_sum(rankings, weights=RECIPE_E, normalization=Normalization.NONE)
    return weighted_sum(rankings, weights=_recipe(query, rankings))


def _recipe(query: SearchQuery, rankings: Rankings) -> dict[str, float]:
    recipe = RECIPE_E if DENSE[View.WINDOW] in rankings else RECIPE_S
    if query.keywords:
        recipe = {**recipe, TABLE: GIVEN_KEYWORDS}
    return recipe if any(recipe[name] for name in rankings) else {TABLE: 1.0}


def _scaled(fused: Fused, weight: float, constant: int) -> Fused:
    """Scale reciprocal ranks so that the first in every list has 1: boosts and min_score mean what they always do."""
    factor = (constant + 1) / weight if weight else 1.0
    return Fused(
        {row: total * factor for row, total in fused.totals.items()},
        fused.normalized,
        {name: {row: share * factor for row, share in column.items()} for name, column in fused.shares.items()},
    )


def _best_entries(rankings: Rankings) -> dict[int, int]:
    """Return the entry to show of each memory: the chunk that words found, else the one that meaning found."""
    chosen: dict[int, int] = {}
    for name in (BM25, *DENSE.values(), TABLE):
        for ranked in rankings.get(name, ()):
            chosen.setdefault(ranked.row, ranked.entry_id)
    return chosen


def _dates(text: str, candidates: Mapping[int, Candidate]) -> dict[int, float]:
    mentions = mentioned_dates(text)
    if not mentions:
        return {}
    return {
        row: date_match(mentions, from_micros(candidate.event_time))
        for row, candidate in candidates.items()
        if candidate.event_time is not None
    }


def _factors(query: SearchQuery, candidates: Mapping[int, Candidate], now: datetime) -> dict[int, float]:
    if query.weighting is None:
        return {}
    return {row: time_factor(candidate, now, query.weighting) for row, candidate in candidates.items()}


@dataclass(frozen=True, slots=True)
class _Evidence:
    """All that ranking knew, to explain a score by."""

    rankings: Rankings
    fused: Fused
    scored: Scored
    factors: Mapping[int, float]

    def of(self, row: int) -> Explanation:
        """Explain one memory's score."""
        boosts = self.scored.boosts_of(row)
        if row in self.factors:
            boosts = (*boosts, (TIME_WEIGHTING, self.factors[row]))
        return Explanation(tuple(self._retrievers(row)), self.fused.totals[row], boosts)

    def _retrievers(self, row: int) -> list[RetrieverScore]:
        found = []
        for name, ranking in self.rankings.items():
            for rank, ranked in enumerate(ranking, start=1):
                if ranked.row == row:
                    found.append(
                        RetrieverScore(
                            Retriever.DENSE if name in DENSE.values() else Retriever(name),
                            rank,
                            ranked.score,
                            self.fused.normalized.get(name, {}).get(row, 0.0),
                            self.fused.shares.get(name, {}).get(row, 0.0),
                        )
                    )
        return found
