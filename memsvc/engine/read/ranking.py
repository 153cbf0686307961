"""Ranking: the lists of the retrievers become one, by the measured recipe or by the fusion that was asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from memsvc.domain.clock import from_micros, to_micros
from memsvc.domain.entries import View
from memsvc.domain.fusion import FusedScore, Ranked, best_per_row, normalized, reciprocal_rank, weighted_sum
from memsvc.domain.query import (
    Candidate,
    Explanation,
    Fusion,
    FusionMethod,
    Mode,
    Normalization,
    Retriever,
    RetrieverScore,
    SearchQuery,
)
from memsvc.domain.scope import Reach
from memsvc.domain.scoring import Boosts, Constants, boosts, layer_factor, time_weight
from memsvc.engine.read.presenting import Ranking
from memsvc.engine.read.retrieval import Retrieved
from memsvc.ports.metadata import MemoryReads
from memsvc.text.analysis import terms
from memsvc.text.dates import date_match, mentioned_dates

BM25 = Retriever.BM25.value
TABLE = Retriever.KEYWORD_TABLE.value
DENSE = {View.CHUNK: Retriever.DENSE.value, View.SENTENCES: "DENSE_SENTENCES", View.WINDOW: "DENSE_WINDOW"}
"""The names of the dense lists; each view of tier E is a list of its own."""
RECIPE_S = {DENSE[View.CHUNK]: 1.0, BM25: 1.0, TABLE: 0.0}
RECIPE_E = {**dict.fromkeys(DENSE.values(), 1.0), BM25: 2.0, TABLE: 0.0}
GIVEN_KEYWORDS = 0.5
"""The weight of the keyword table in the recipe when the caller gave keywords."""

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
        candidates = {candidate.row: candidate for candidate in self._reads.candidates(list(fused), reach=reach)}
        totals = {row: fused[row].total for row in candidates}
        added = boosts(
            totals,
            candidates,
            lexical=rankings.get(BM25, ()),
            dates=_dates(query.text, candidates),
            named_speakers=_named(query.text, candidates),
            constants=self._constants,
        )
        scores = {row: self._score(query, candidates[row], totals[row], added[row], now) for row in candidates}
        kept = [row for row, score in scores.items() if score >= query.min_score]
        kept.sort(key=lambda row: (-scores[row], candidates[row].memory_id))
        entries = _best_entries(rankings)
        explained = _Explaining(query, rankings, fused, added, candidates, now) if query.explain else None
        last = query.offset + query.limit
        return [
            Ranking(
                row,
                candidates[row].memory_id,
                scores[row],
                entries[row],
                explained.of(row) if explained and query.offset <= place < last else None,
            )
            for place, row in enumerate(kept)
        ]

    def _score(self, query: SearchQuery, candidate: Candidate, total: float, added: Boosts, now: datetime) -> float:
        score = (total + sum(added)) / self._constants.best
        if query.weighting is not None:
            score *= time_weight(candidate, now=to_micros(now), weighting=query.weighting)
            score *= layer_factor(candidate, query.weighting)
        return min(1.0, max(0.0, score))


def _rankings(found: Retrieved) -> dict[str, list[Ranked]]:
    lists = {DENSE[view]: best_per_row(hits) for view, hits in found.dense.items()}
    if found.bm25:
        lists[BM25] = best_per_row(found.bm25)
    if found.keyword_table:
        lists[TABLE] = best_per_row(found.keyword_table)
    return lists


def _fused(query: SearchQuery, rankings: Rankings) -> dict[int, FusedScore]:
    fusion = query.fusion
    given = {name.value: weight for name, weight in fusion.weights.items()} if fusion.weights is not None else None
    if fusion.method is FusionMethod.RECIPROCAL_RANK:
        fused = reciprocal_rank(rankings, weights=given or {}, constant=fusion.rank_constant)
        return _scaled(fused, fusion, rankings, given or {})
    if fusion.method is FusionMethod.WEIGHTED and given is not None:
        return weighted_sum(
            rankings,
            weights={name: given.get(name, 0.0) for name in rankings},
            normalization=fusion.normalization,
            single_retriever_factor=fusion.single_retriever_factor,
        )
    if query.mode is Mode.SEMANTIC and len(rankings) == 1:
        return weighted_sum(rankings, weights={}, normalization=Normalization.NONE)
    recipe = RECIPE_E if DENSE[View.WINDOW] in rankings else RECIPE_S
    weights = {**recipe, TABLE: GIVEN_KEYWORDS} if query.keywords else recipe
    if not any(weights[name] for name in rankings):
        weights = {**weights, TABLE: 1.0}
    return weighted_sum(rankings, weights=weights)


def _scaled(
    fused: dict[int, FusedScore], fusion: Fusion, rankings: Rankings, given: Mapping[str, float]
) -> dict[int, FusedScore]:
    """Scale reciprocal ranks so that first in every list is 1: boosts and min_score then mean what they always do."""
    best = sum(given.get(name, 1.0) for name in rankings) / (fusion.rank_constant + 1) or 1.0
    return {
        row: FusedScore(score.total / best, {name: share / best for name, share in score.shares.items()})
        for row, score in fused.items()
    }


def _best_entries(rankings: Rankings) -> dict[int, int]:
    """Return the entry to show of each memory: the chunk that words found, else the one that meaning found."""
    chosen: dict[int, int] = {}
    for name in (BM25, DENSE[View.CHUNK], DENSE[View.SENTENCES], DENSE[View.WINDOW], TABLE):
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


def _named(text: str, candidates: Mapping[int, Candidate]) -> frozenset[str]:
    """Return the candidates' speakers that the query names; none when it names all of them."""
    speakers = {candidate.speaker for candidate in candidates.values() if candidate.speaker}
    if not speakers:
        return frozenset()
    words = set(terms(text))
    named = frozenset(speaker for speaker in speakers if (parts := terms(speaker)) and words.issuperset(parts))
    return frozenset() if len(named) == len(speakers) else named


class _Explaining:
    """Puts into words how a score came about."""

    def __init__(
        self,
        query: SearchQuery,
        rankings: Rankings,
        fused: Mapping[int, FusedScore],
        added: Mapping[int, Boosts],
        candidates: Mapping[int, Candidate],
        now: datetime,
    ) -> None:
        self._query = query
        self._fused = fused
        self._added = added
        self._candidates = candidates
        self._now = to_micros(now)
        method = Normalization.NONE if query.mode is Mode.SEMANTIC else query.fusion.normalization
        self._places = {
            name: {
                ranked.row: (rank, ranked.score, norm)
                for rank, (ranked, norm) in enumerate(zip(ranking, normalized(ranking, method), strict=True), start=1)
            }
            for name, ranking in rankings.items()
        }

    def of(self, row: int) -> Explanation:
        """Explain one memory's score."""
        scores = [
            RetrieverScore(_retriever(name), *place, share=self._fused[row].shares.get(name, 0.0))
            for name, places in self._places.items()
            if (place := places.get(row)) is not None
        ]
        return Explanation(tuple(scores), self._fused[row].total, tuple(self._boosts(row)))

    def _boosts(self, row: int) -> list[tuple[str, float]]:
        named = [(name, value) for name, value in self._added[row]._asdict().items() if value]
        weighting, candidate = self._query.weighting, self._candidates[row]
        if weighting is not None:
            named.append(("time_weighting", time_weight(candidate, now=self._now, weighting=weighting)))
            named.append(("layer", layer_factor(candidate, weighting)))
        return named


def _retriever(name: str) -> Retriever:
    return Retriever.DENSE if name in DENSE.values() else Retriever(name)
