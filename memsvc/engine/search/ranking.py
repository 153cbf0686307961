"""Ranking: the lists of the retrievers become one, by the default recipe or the requested fusion."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
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
from memsvc.domain.use_feedback import FeedbackRules, FeedbackState, use_scores
from memsvc.engine.search.late_interaction import (
    RELEVANCE,
    USUAL_ANSWER,
    AnswerScores,
    LateInteraction,
    LateScores,
    leads_of,
)
from memsvc.engine.search.retrieval import CandidateReader, RetrievalResult, Timing
from memsvc.engine.search.scoring import (
    LATE_INTERACTION,
    SCALE,
    BoostConstants,
    BoostedScores,
    FusedScores,
    RankedList,
    Recipe,
    ScoreColumn,
    TextFeatures,
    WeightedScores,
    apply_boosts,
    apply_weighting,
    best_per_row,
    named_speakers,
    reciprocal_rank,
    spread_low_scores,
    weighted_sum,
)
from memsvc.ports.candidates import ABSENT, Candidates, Integers
from memsvc.ports.features import StatementReads, UseReads
from memsvc.text.analysis import Script, script_of
from memsvc.text.ranking_cues import asked_topics, date_match, mentioned_dates, question_cues, unpack_cues

DENSE = {View.CHUNK: Retriever.DENSE.value, View.SENTENCES: "DENSE_SENTENCES", View.WINDOW: "DENSE_WINDOW"}
"""Names of the dense lists; each view of granularity E is a list of its own."""
RankedLists: TypeAlias = Mapping[str, RankedList]
"""The ranked lists by name, best first, without empty lists."""
BM25 = Retriever.BM25.value
TABLE = Retriever.KEYWORD_TABLE.value
GIVEN_KEYWORDS = 0.5
"""Weight of the keyword table in the recipe when the caller gives keywords, as a share of the mean weight."""
EXTRA_VIEWS = 1.5
"""Weight of the three dense lists of granularity E in all, as a multiple of the weight of the only one of S."""
_DELETED, _PRIVATE = Status.DELETED.value, Layer.SESSION.value
KEYWORD_MODE = 0.1
"""Its weight in a keyword search without given keywords: memories that match by keywords only come last."""
STATED_RELEVANCE = 0.8
"""Least relevance of a memory that states what a question about the user asks for."""
MOST_STATED = 100
"""Number of memories, the newest, that are compared with such a question."""
NO_VALUES: ScoreColumn = np.empty(0)
NO_BOOSTS = BoostConstants(neighbour=0.0, session=0.0, date=0.0, speaker=0.0)
"""A fusion requested by name applies no other term of the recipe."""
_SCRIPTS = tuple(Script)
NO_FEATURES = TextFeatures(NO_VALUES, NO_VALUES, frozenset(), None, NO_VALUES)


class UseSignal:
    """Reports of use as terms of a score."""

    def __init__(self, uses: UseReads, rules: FeedbackRules) -> None:
        """Read from *uses*; *rules* decide whether reports join the ranking, and their weight."""
        self._uses = uses
        self._rules = rules

    def scores(self, owner: str, rows: Integers) -> Mapping[int, float]:
        """Return the terms of those of the owner's memories that have any, by row, with one read of the store."""
        feedback, counts = self._uses.signal(owner, rows)
        if feedback.state(self._rules) is not FeedbackState.GAIN:
            return {}
        return use_scores(counts, feedback.counts.share, self._rules.weight)


class Ranker:
    """Fusion, late interaction, boosts, weighting and sorting."""

    def __init__(
        self,
        reads: CandidateReader,
        recipe: Recipe,
        late: LateInteraction | None = None,
        min_relevance: float = 0.0,
        use_signal: UseSignal | None = None,
        statements: StatementReads | None = None,
    ) -> None:
        """Rank by *recipe*; without *late* no search compares tokens, without *use_signal* none uses reports.

        Without *statements* questions about the user are not compared with what memories state.

        A search that gives no minimum of its own reports that nothing reaches *min_relevance*.
        """
        self._reads = reads
        self._recipe = recipe
        self._late = late
        self.min_relevance = min_relevance
        self._use_signal = use_signal
        self._statements = statements

    def with_reader(self, reads: CandidateReader) -> Ranker:
        """Return the same ranker on another reader, without late interaction, statements and reports of use.

        Those are of the current state.
        """
        return Ranker(reads, self._recipe)

    @property
    def depth(self) -> int:
        """Return the number of hits to request from each retriever."""
        return self._recipe.hybrid.depth

    def compares_tokens(self, query: SearchQuery) -> bool:
        """Return whether late interaction is part of the ranking of *query*."""
        is_default = query.fusion.method is FusionMethod.DEFAULT
        return self._late is not None and is_default and self._constants(query).late > 0.0

    def rank(
        self,
        query: SearchQuery,
        found: RetrievalResult,
        *,
        reach: Reach,
        now: datetime,
        use: Mapping[int, float] | None = None,
    ) -> RankedCandidates:
        """Rank the retrieved hits, without memories that an index still has but that may no longer be shown.

        If the query asks for reports of use, *use* are their terms by row; None: those of the store.
        """
        started = time.perf_counter()
        rankings = _rankings(found)
        fused = _fuse(query, rankings, found, self._constants(query))
        fusing = time.perf_counter()
        candidates = self._reads.candidates(fused.rows, reach=reach)
        candidates = candidates.where(_visible(candidates, query))
        totals = fused.totals_of(candidates.rows)
        timings: tuple[Timing, ...] = (("fuse", started, fusing - started),)
        comparing = time.perf_counter()
        late = self._late_scores(found, candidates, totals, rankings)
        stated = self._stated(query, candidates, reach)
        relevances = NO_VALUES
        if late is not None:
            answers = _answer_scores(rankings, candidates, found.moved)
            relevances = _relevances(query.text, candidates, late, answers, stated)
        boosting = time.perf_counter()
        if late is not None:
            timings = (*timings, ("late_interaction", comparing, boosting - comparing))
        normalized = NO_VALUES if late is None else late.normalized
        terms = self._use_terms(query, candidates, reach, use)
        if _fusion_method(query) is FusionMethod.DEFAULT:
            features = self._features(query, candidates, fused, rankings, normalized, terms)
            features = replace(features, answers=_answer_terms(fused, candidates, found.moved), stated=stated)
            scored = apply_boosts(totals, candidates, features, self._constants(query))
        else:
            scored = apply_boosts(totals, candidates, NO_FEATURES, NO_BOOSTS)
        weights = apply_weighting(spread_low_scores(totals, scored), candidates, query.weighting, now)
        order = _best_first(weights.scores, query.min_score)
        if query.min_relevance and late is not None:
            order = order[~(relevances[order] < query.min_relevance)]
        timings = (*timings, ("boost", boosting, time.perf_counter() - boosting))
        is_cut = len(order) < len(candidates)
        breakdown = ScoreBreakdown(rankings, fused, candidates, scored, weights, relevances)
        least = query.min_relevance or self.min_relevance
        # A comparison with NaN is False: where a relevance is not known, nothing is said.
        nothing_relevant = late is not None and bool((relevances < least).all())
        return RankedCandidates(order, is_cut, breakdown, timings, nothing_relevant=nothing_relevant)

    def _stated(self, query: SearchQuery, candidates: Candidates, reach: Reach) -> ScoreColumn | None:
        """Return 1 for candidates that state what a question about the user asks for; None for other queries."""
        if self._statements is None or query.mode is not Mode.HYBRID or not len(candidates):
            return None
        topics = asked_topics(query.text)
        if not topics:
            return None
        rows = self._statements.rows_on_topics(reach.owner, reach.project_ids, topics, limit=MOST_STATED)
        return np.isin(candidates.rows, rows).astype(np.float64)

    def _use_terms(
        self, query: SearchQuery, candidates: Candidates, reach: Reach, use: Mapping[int, float] | None
    ) -> ScoreColumn:
        is_default = query.mode is Mode.HYBRID and query.fusion.method is FusionMethod.DEFAULT
        if not (query.use_feedback and is_default and len(candidates)):
            return NO_VALUES
        if use is None:
            use = {} if self._use_signal is None else self._use_signal.scores(reach.owner, candidates.rows)
        return np.array([use.get(row, 0.0) for row in candidates.rows.tolist()]) if use else NO_VALUES

    def _constants(self, query: SearchQuery) -> BoostConstants:
        return self._recipe.hybrid if query.mode is Mode.HYBRID else self._recipe.single

    def _late_scores(
        self,
        found: RetrievalResult,
        candidates: Candidates,
        totals: ScoreColumn,
        rankings: RankedLists,
    ) -> LateScores | None:
        """Return the scores by late interaction, which are part of the ranking or only the source of the relevance."""
        if found.query_tokens is None or self._late is None or not self._recipe.hybrid.late or not len(candidates):
            return None
        lists = [rankings[name] for name in (DENSE[View.CHUNK], BM25) if name in rankings]
        return self._late.scores(found.query_tokens, found.token_model, candidates, totals, lists)

    def _features(
        self,
        query: SearchQuery,
        candidates: Candidates,
        fused: FusedScores,
        rankings: RankedLists,
        late: ScoreColumn,
        use: ScoreColumn,
    ) -> TextFeatures:
        speakers = map(candidates.names.text, set(candidates.speakers.tolist()))
        words = fused.columns[BM25].of(candidates.rows) if BM25 in fused.columns else NO_VALUES
        return TextFeatures(
            late=late,
            dates=_dates(query.text, candidates),
            named=named_speakers(query.text, speakers),
            lexical=rankings.get(BM25),
            words=words,
            asked=question_cues(query.text),
            use=use,
        )


@dataclass(frozen=True, slots=True, eq=False)
class RankedCandidates:
    """All candidates at or above the min_score of a query. `RankedMemory` values are created for requested pages only.

    Attributes:
        order: The positions of the candidates, best first, ties in any order.
        is_cut: Whether there were candidates below the min_score or the min_relevance.
        nothing_relevant: Whether all candidates, also those that were cut, are below the minimum relevance.
    """

    order: Integers
    is_cut: bool
    breakdown: ScoreBreakdown
    timings: tuple[Timing, ...]
    nothing_relevant: bool = False

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
        return [
            RankedMemory(-score, memory_id, row, entry, place, breakdown.relevance_of(place))
            for (score, memory_id, place), row, entry in listed
        ]

    def _with_equals(self, start: int, stop: int) -> tuple[int, int]:
        """Extend a page by neighbours with equal scores: only their ids decide which are on the page."""
        falling = -self.breakdown.weighted.scores[self.order]
        first = int(np.searchsorted(falling, falling[start], side="left"))
        return first, int(np.searchsorted(falling, falling[stop - 1], side="right"))

    @property
    def retrieved_rows(self) -> list[int]:
        """Return the rows of all retrieved memories, also of those that are not candidates."""
        rows: list[int] = self.breakdown.fused.rows.tolist()
        return rows

    @property
    def compared_tokens(self) -> bool:
        """Return whether late interaction scored any of the candidates."""
        return LATE_INTERACTION in self.breakdown.scored.boosts

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
        relevance: The probability that it is what the query asks for; None if it is not known.
    """

    score: float
    memory_id: str
    row: int
    entry_id: int
    place: int
    relevance: float | None = None

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
    relevances: ScoreColumn

    def relevance_of(self, place: int) -> float | None:
        """Return the relevance of one of the candidates, or None if it is not known."""
        if not len(self.relevances) or np.isnan(self.relevances[place]):
            return None
        return float(self.relevances[place])

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


def _answer_terms(fused: FusedScores, candidates: Candidates, moved: float) -> ScoreColumn:
    """Return the normalised dense scores times the share by which the question was moved."""
    dense = fused.columns.get(DENSE[View.CHUNK])
    return moved * dense.of(candidates.rows) if moved and dense is not None else NO_VALUES


def _answer_scores(rankings: RankedLists, candidates: Candidates, moved: float) -> AnswerScores | None:
    dense = rankings.get(DENSE[View.CHUNK])
    if not moved or dense is None:
        return None
    return AnswerScores(leads_of(dense.scores_of(candidates.rows), dense.scores, USUAL_ANSWER), moved)


def _relevances(
    text: str, candidates: Candidates, late: LateScores, answers: AnswerScores | None, stated: ScoreColumn | None
) -> ScoreColumn:
    cues = unpack_cues(candidates.cues)
    is_other_script = cues.is_known & (cues.scripts != _SCRIPTS.index(script_of(text)))
    relevances = RELEVANCE.relevances(late, is_other_script, answers)
    return relevances if stated is None else np.where(stated, np.fmax(relevances, STATED_RELEVANCE), relevances)


def _best_first(scores: ScoreColumn, least: float) -> Integers:
    order = np.argsort(-scores)
    return order if least <= 0.0 else order[scores[order] >= least]


def _rankings(found: RetrievalResult) -> RankedLists:
    lists = {DENSE[view]: best_per_row(hits) for view, hits in found.dense.items()}
    lists[BM25] = best_per_row(found.bm25)
    lists[TABLE] = best_per_row(found.keyword_table)
    return {name: ranking for name, ranking in lists.items() if ranking}


def _fuse(query: SearchQuery, rankings: RankedLists, found: RetrievalResult, constants: BoostConstants) -> FusedScores:
    if query.mode is Mode.SEMANTIC:
        return weighted_sum(rankings, weights={}, normalization=Normalization.NONE)
    fusion = query.fusion
    if fusion.method is FusionMethod.DEFAULT:
        return weighted_sum(rankings, weights=_list_weights(query, rankings, constants))
    answered = found.asked - {lost.retriever for lost in found.degraded}
    weights = {one.value: _weight(fusion, one) for one in found.asked}
    if Retriever.BM25 not in answered and weights.get(TABLE) == 0.0:
        # The table was asked in place of BM25.
        weights[TABLE] = _weight(fusion, Retriever.BM25)
    weights |= dict.fromkeys(rankings.keys() - weights.keys(), 0.0)
    whole = sum(weights[one.value] for one in answered)
    factor = fusion.single_retriever_factor if len(answered) > 1 else None
    if fusion.method is FusionMethod.RECIPROCAL_RANK:
        ranks = reciprocal_rank(
            rankings, weights=weights, constant=fusion.rank_constant, single_retriever_factor=factor or 1.0
        )
        return ranks.scale_by((fusion.rank_constant + 1) / whole if whole else 1.0)
    # A retriever that answered without hits gives every memory 0.
    absent = max(0.0, whole - sum(weights[name] for name in rankings))
    return weighted_sum(
        _clip_scores(rankings) if fusion.normalization is Normalization.NONE else rankings,
        weights=weights,
        normalization=fusion.normalization,
        absent_weight=absent,
        single_retriever_factor=factor,
    )


def _clip_scores(rankings: RankedLists) -> RankedLists:
    return {name: ranking.with_scores(np.clip(ranking.scores, 0.0, 1.0)) for name, ranking in rankings.items()}


def _weight(fusion: Fusion, retriever: Retriever) -> float:
    return 1.0 if fusion.weights is None else fusion.weights.get(retriever, 0.0)


def _list_weights(query: SearchQuery, rankings: RankedLists, constants: BoostConstants) -> dict[str, float]:
    has_extra_views = DENSE[View.WINDOW] in rankings
    dense = constants.dense * (EXTRA_VIEWS / len(DENSE) if has_extra_views else 1.0)
    # In a HYBRID search without given keywords the table is asked in place of a BM25 that failed.
    table = GIVEN_KEYWORDS if query.keywords else KEYWORD_MODE
    unit = (constants.dense + constants.lexical) / (4.0 if has_extra_views else 2.0)
    return {**dict.fromkeys(DENSE.values(), dense), BM25: constants.lexical, TABLE: table * unit}


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
        return NO_VALUES
    times = candidates.event_times.tolist()
    return np.array([0.0 if time == ABSENT else date_match(mentions, from_micros(time)) for time in times])
