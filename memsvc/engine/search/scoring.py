"""Scores: ranked lists become one fused score for each memory, and fused scores become final ones.

Final scores add late interaction, neighbours, session, date, speaker and cues, and apply time weighting:

    score = (fused + late + neighbour + session + date + speaker + cues + answer + use)
            / (1 + maximum of the terms before cues)

A recipe is a set of weights. Those of the earlier one come from an ablation on chats in two languages, those of 2026-11
from `python -m tests.bench.late_interaction`. Every weight is a setting.

Data is stored by column, not by memory: a search ranks hundreds of memories, and explains ten.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from memsvc.domain.clock import to_micros
from memsvc.domain.index_entries import ORDINAL_BITS, VIEW_BITS, Hit
from memsvc.domain.memory import Layer
from memsvc.domain.search import Normalization, TimeWeighting
from memsvc.ports.candidates import ABSENT, Candidates, Hits, Integers, Numbers
from memsvc.text.ranking_cues import NO_QUESTION, QuestionCues, unpack_cues

RANK_CONSTANT = 60
"""Damps the weight of the first ranks (Cormack et al., 2009)."""

_ROW_SHIFT = ORDINAL_BITS + VIEW_BITS


@dataclass(frozen=True, slots=True, eq=False)
class RankedList:
    """A ranked list of memories, best first, each with its best entry and its score."""

    rows: Integers
    entries: Integers
    scores: Numbers

    def __len__(self) -> int:
        """Return the number of memories."""
        return len(self.rows)

    def place_of(self, row: int) -> int:
        """Return the position of a memory, counted from 0; -1 if it is not in the list."""
        places = np.flatnonzero(self.rows == row)
        return int(places[0]) if len(places) else -1

    def score_of(self, row: int) -> float:
        """Return the score of a memory; 0 if it is not in the list."""
        place = self.place_of(row)
        return 0.0 if place < 0 else float(self.scores[place])

    def scores_of(self, rows: Integers) -> Numbers:
        """Return the scores of memories, which are in any order; the lowest of the list for those not in it."""
        found: Numbers = np.full(len(rows), self.scores[-1], dtype=np.float64)
        is_listed, places = _Places(self.rows).of(rows)
        found[is_listed] = self.scores[places]
        return found

    def with_scores(self, scores: Numbers) -> RankedList:
        """Return the same memories with other scores."""
        return RankedList(self.rows, self.entries, scores)


@dataclass(frozen=True, slots=True, eq=False)
class ListScores:
    """The normalised scores that a list gives its memories: (score - low) / span."""

    ranking: RankedList
    low: float = 0.0
    span: float = 1.0

    def times_weight(self, weight: float) -> Numbers:
        """Return the scores times *weight*, in the order of the list."""
        numbers: Numbers = weight * ((self.ranking.scores - self.low) / self.span)
        return numbers

    def number(self, row: int) -> float:
        """Return the score of a memory; 0 if it is not in the list."""
        return (self.ranking.score_of(row) - self.low) / self.span if self.ranking.place_of(row) >= 0 else 0.0

    def of(self, rows: Integers) -> Numbers:
        """Return the scores of memories, which are in any order; 0 for those that are not in the list."""
        found: Numbers = np.zeros(len(rows))
        is_listed, places = _Places(self.ranking.rows).of(rows)
        found[is_listed] = self.times_weight(1.0)[places]
        return found


@dataclass(frozen=True, slots=True, eq=False)
class FusedScores:
    """The result of a fusion.

    Attributes:
        rows: Every row in a list with a weight, once, ascending.
        totals: The fused score of each row.
        columns: The scores of each list before its weight.
        weights: The factor of each list.
        is_normalized: Whether the scores are normalised scores rather than reciprocal ranks.
    """

    rows: Integers
    totals: Numbers
    columns: dict[str, ListScores]
    weights: dict[str, float]
    is_normalized: bool = True

    def totals_of(self, rows: Integers) -> Numbers:
        """Return the fused scores of some of the rows."""
        return self.totals[np.searchsorted(self.rows, rows)]

    def total_of(self, row: int) -> float:
        """Return the fused score of one of the rows."""
        return float(self.totals[np.searchsorted(self.rows, row)])

    def normalized_score(self, name: str, row: int) -> float:
        """Return the score of a memory in a list before its weight; 0 if the fusion is by rank."""
        return self.columns[name].number(row) if self.is_normalized and name in self.columns else 0.0

    def share(self, name: str, row: int) -> float:
        """Return the part of the total of a memory that one list contributes; all of it if no other list has it."""
        holders = [other for other, column in self.columns.items() if column.ranking.place_of(row) >= 0]
        if name not in holders:
            return 0.0
        return self.total_of(row) if len(holders) == 1 else self.weights[name] * self.columns[name].number(row)

    def scale_by(self, factor: float) -> FusedScores:
        """Return the same with all totals multiplied by *factor*."""
        weights = {name: weight * factor for name, weight in self.weights.items()}
        return replace(self, totals=self.totals * factor, weights=weights)


def best_per_row(hits: Sequence[Hit]) -> RankedList:
    """Return the memories of *hits*, which are best first, in the order of their best entries."""
    columns = Hits.of(hits)
    entries, scores = columns.entries, columns.scores
    rows = entries >> _ROW_SHIFT
    ascending = np.sort(rows)
    if not (ascending[1:] == ascending[:-1]).any():
        return RankedList(rows, entries, scores)
    firsts = np.sort(np.unique(rows, return_index=True)[1])
    return RankedList(rows[firsts], entries[firsts], scores[firsts])


def reciprocal_rank(
    rankings: Mapping[str, RankedList],
    *,
    weights: Mapping[str, float],
    constant: int = RANK_CONSTANT,
    single_retriever_factor: float = 1.0,
) -> FusedScores:
    """Fuse by the sum of weight / (constant + rank), with ranks counted from 1.

    Only ranks count, so lists with incomparable scores can be combined. A list missing from *weights* has weight 1.0;
    lists of weight 0 and empty lists have no effect. The result does not depend on the order of the lists, to the last
    bit. *single_retriever_factor* multiplies the total of a memory that only one list has.
    """
    used = _effective_weights(rankings, weights)
    columns = {name: _reciprocal(rankings[name], constant) for name in used}
    rows, totals, is_single = _totals(columns, used)
    totals[is_single] *= single_retriever_factor
    return FusedScores(rows, totals, columns, used, is_normalized=False)


def weighted_sum(
    rankings: Mapping[str, RankedList],
    *,
    weights: Mapping[str, float],
    normalization: Normalization = Normalization.MIN_MAX,
    absent_weight: float = 0.0,
    single_retriever_factor: float | None = None,
) -> FusedScores:
    """Fuse by the weighted mean of the scores; a memory that is not in a list has score 0 there.

    MIN_MAX maps the scores of each list to 0..1, and to 1 if they are all equal; totals are then in 0..1. A list
    missing from *weights* has weight 1.0; lists of weight 0 and empty lists have no effect: the mean is over the
    others, and over *absent_weight* of scores of 0. The result does not depend on the order of the lists, to the last
    bit. With a *single_retriever_factor* the total of a memory that only one list has is its score there times that.
    """
    used = _effective_weights(rankings, weights)
    whole = math.fsum((*used.values(), absent_weight))
    is_scaled = normalization is Normalization.MIN_MAX
    columns = {name: _min_max(rankings[name]) if is_scaled else ListScores(rankings[name]) for name in used}
    shares = {name: weight / whole for name, weight in used.items()}
    rows, totals, is_single = _totals(columns, shares)
    if single_retriever_factor is not None:
        for column in columns.values():
            _, places = _Places(rows).of(column.ranking.rows)
            own = is_single[places]
            totals[places[own]] = column.times_weight(single_retriever_factor)[own]
    return FusedScores(rows, totals, columns, shares)


def _effective_weights(rankings: Mapping[str, RankedList], weights: Mapping[str, float]) -> dict[str, float]:
    """Return the weights of the lists that are not empty and have a weight."""
    return {name: weight for name, ranking in rankings.items() if ranking and (weight := weights.get(name, 1.0))}


def _reciprocal(ranking: RankedList, constant: int) -> ListScores:
    first = constant + 1
    return ListScores(ranking.with_scores(1.0 / np.arange(first, first + len(ranking))))


def _min_max(ranking: RankedList) -> ListScores:
    best, low = float(ranking.scores[0]), float(ranking.scores[-1])
    return (
        ListScores(ranking, low, best - low) if best > low else ListScores(ranking.with_scores(np.ones(len(ranking))))
    )


def _totals(
    columns: Mapping[str, ListScores], weights: Mapping[str, float]
) -> tuple[Integers, Numbers, npt.NDArray[np.bool_]]:
    """Return the rows of all columns, ascending, their sums, and which of them a single column has."""
    if not columns:
        return np.empty(0, dtype=np.int64), np.empty(0), np.empty(0, dtype=np.bool_)
    rows = np.concatenate([column.ranking.rows for column in columns.values()])
    shares = np.concatenate([column.times_weight(weights[name]) for name, column in columns.items()])
    # Sum in ascending order: the last bit depends on the order, which must not be that of the lists.
    order = np.lexsort((shares, rows))
    rows, shares = rows[order], shares[order]
    begins = np.concatenate(([0], np.flatnonzero(rows[1:] != rows[:-1]) + 1))
    totals: Numbers = np.add.reduceat(shares, begins)
    is_single: npt.NDArray[np.bool_] = np.diff(begins, append=len(rows)) == 1
    return rows[begins], totals, is_single


# From fused scores to final ones.


LATE_INTERACTION = "late_interaction"
LATE_ESTIMATE = "late_interaction_estimate"
"""For a memory without token vectors: its fused score takes the place of its score by late interaction."""
NEIGHBOUR = "neighbour"
SESSION = "session"
DATE = "date"
SPEAKER = "speaker"
LENGTH = "length"
QUESTIONS = "questions"
WHEN, WHERE, WHO = "when", "where", "who"
FIRST_PERSON = "first_person"
PREVIOUS_QUESTION = "previous_question"
STATEMENT = "statement"
ANSWER = "answer"
USE = "use"
SCALE = "scale"
MAX_ACCESS_FACTOR = 1.3
"""Limit of the feedback loop between reading and rank: without it the top memories stay on top."""
ROLES = frozenset(
    ("user", "assistant", "system", "tool", "human", "agent", "ai", "bot", "用户", "助手", "系统", "人类", "机器人")
)
"""Speakers that are roles of a conversation. "How does the user log in?" names no speaker."""

ScoreColumn: TypeAlias = npt.NDArray[np.float64]
"""A number for each candidate, in the order of the candidates."""

_MICROS_PER_DAY = 86_400_000_000
_DAYS_PER_DECAY = 30
_MOST_IMPORTANT = 5
_MIN_FIRST_NAME = 3
_LONG = 6.0
"""ln(1 + characters) of a long text."""
_NONE: ScoreColumn = np.empty(0)
"""A column without values."""
TIME_WEIGHTING = "time_weighting"
LAYER = "layer"
CEILING = "ceiling"
LEAST = 1e-6
"""Scores of 0 or less are mapped between 0 and this value, which keeps their order."""


@dataclass(frozen=True, slots=True)
class BoostConstants:
    """The weights of the default ranking, in terms of the fused score, which is in 0..1.

    Attributes:
        dense: Weight of the dense lists in the fused score, in all.
        lexical: Weight of the lexical list in the fused score.
        late: Weight of the score by late interaction; 0 omits the stage.
        neighbour: Share of the better score of the two neighbours in the session.
        session: Added to memories of the session with the best lexical hits, and to others in proportion.
        late_session: The same for the session with the best hits by late interaction.
        session_hits: Number of hits of a session that count.
        date: Added to a memory of a day that the query names.
        speaker: Subtracted from memories of other speakers if the query names a speaker.
        length: Added to long texts: from about 400 characters, or 130 in Chinese.
        questions: Subtracted from texts that only ask questions.
        when: Added to texts that name a time if the query asks for one.
        where: Added to texts that name a place if the query asks for one.
        who: Added to texts that name a person if the query asks for one.
        first_person: Added to texts in which a speaker that the query names tells of themselves.
        previous_question: Added to a text after a question that matches the query by words.
        statement: Added to memories that state what a question about the user asks for.
        answer: Added in proportion to the dense score and to the share by which the question was moved to its answers.
        depth: Number of entries requested from each retriever.
    """

    dense: float = 1.0
    lexical: float = 1.0
    late: float = 0.0
    neighbour: float = 0.25
    session: float = 0.20
    late_session: float = 0.0
    session_hits: int = 3
    date: float = 0.10
    speaker: float = 0.15
    length: float = 0.0
    questions: float = 0.0
    when: float = 0.0
    where: float = 0.0
    who: float = 0.0
    first_person: float = 0.0
    previous_question: float = 0.0
    statement: float = 0.0
    answer: float = 0.0
    depth: int = 100

    @property
    def scale(self) -> float:
        """Return the factor that maps the highest sum of a fused score in 0..1 and its boosts, without cues, to 1."""
        return 1.0 / (1.0 + self.late + self.neighbour + self.session + self.late_session + self.date)


@dataclass(frozen=True, slots=True)
class Recipe:
    """The weights of a version of the default ranking.

    Attributes:
        hybrid: For searches by meaning and words.
        single: For searches by one of the two.
    """

    hybrid: BoostConstants
    single: BoostConstants

    def change(self, weights: Mapping[str, Any]) -> Recipe:
        """Return the recipe with some of its constants replaced, by name.

        Searches by meaning or words alone have no late interaction and no cues.
        """
        return Recipe(
            replace(self.hybrid, **weights),
            replace(self.single, **{name: weight for name, weight in weights.items() if name in _OF_ALL_MODES}),
        )


class RecipeVersion(StrEnum):
    """A version of the default ranking."""

    V2026_11 = "2026-11"
    """Late interaction and cues of the text."""
    V2026_10 = "2026-10"
    """Vectors, words, neighbours, session, date and speaker."""


EARLIER = BoostConstants()
_OF_ALL_MODES = frozenset(("neighbour", "session", "date", "speaker", "depth"))
RECIPES = {
    RecipeVersion.V2026_11: Recipe(
        BoostConstants(
            dense=1.13,
            lexical=0.87,
            late=1.0,
            neighbour=0.43,
            session=0.33,
            late_session=0.17,
            date=0.27,
            speaker=0.30,
            length=0.30,
            questions=0.23,
            when=0.40,
            where=0.33,
            who=0.07,
            first_person=0.27,
            previous_question=0.20,
            statement=0.50,
            answer=0.67,
        ),
        EARLIER,
    ),
    RecipeVersion.V2026_10: Recipe(EARLIER, EARLIER),
}


@dataclass(frozen=True, slots=True, eq=False)
class TextFeatures:
    """Features of the candidates of a query beyond their scores. Each column has a value for each candidate.

    Attributes:
        late: The score by late interaction, in 0..1; NaN for candidates without token vectors. Empty: none has any.
        dates: The match of the candidate's time with the dates of the query, in 0..1; empty if the query names none.
        named: The speakers that the query names: see `named_speakers`. The speaker term is omitted if it names none, or
            all speakers of the candidates.
        lexical: The lexical list, which shows the sessions that the query is about.
        words: The normalised lexical scores, in 0..1; empty if there are none.
        asked: The kinds of answer that the query asks for.
        answers: The normalised dense scores times the share by which the question was moved to its answers, in 0..1;
            empty if it was not moved.
        stated: 1 for a candidate that states what the query asks for, else 0; empty if it asks for no statement.
        use: The terms of reports of use, weights included; empty if they are no part of the ranking.
    """

    late: ScoreColumn
    dates: ScoreColumn
    named: frozenset[str]
    lexical: RankedList | None
    words: ScoreColumn
    asked: QuestionCues = NO_QUESTION
    answers: ScoreColumn | None = None
    stated: ScoreColumn | None = None
    use: ScoreColumn | None = None


@dataclass(frozen=True, slots=True)
class BoostedScores:
    """Final scores of the candidates, and the boosts by name; boosts without values are left out."""

    scores: ScoreColumn
    boosts: dict[str, ScoreColumn]
    scale: float

    def boosts_of(self, place: int) -> tuple[tuple[str, float], ...]:
        """Return the boosts of a candidate, in order, and last the factor that scaled the sum.

        Boosts of 0 are left out.
        """
        added = [(name, float(column[place])) for name, column in self.boosts.items() if column[place]]
        return (*added, (SCALE, self.scale))


def apply_boosts(
    fused: ScoreColumn, candidates: Candidates, features: TextFeatures, constants: BoostConstants
) -> BoostedScores:
    """Return the scores of *candidates* from the fused score of each, in 0..1; cues may lift them above 1."""
    places = _Places(candidates.rows)
    late, late_columns = _late(fused, features.late, constants.late)
    base = fused if late is None else (fused + late) / 2.0
    session = _session(candidates, places, features.lexical, constants)
    columns = {
        **late_columns,
        NEIGHBOUR: _neighbour(base, candidates, places, constants.neighbour),
        SESSION: _add(session, _late_session(candidates, late, constants)),
        DATE: constants.date * features.dates,
        SPEAKER: _speaker(candidates, features.named, constants.speaker),
        **_cues(candidates, places, features, constants),
        STATEMENT: _NONE if features.stated is None else constants.statement * features.stated,
        ANSWER: _NONE if features.answers is None else constants.answer * features.answers,
        USE: _NONE if features.use is None else features.use,
    }
    boosts = {name: column for name, column in columns.items() if column.any()}
    sums = fused
    for column in boosts.values():
        sums = sums + column
    scale = constants.scale
    return BoostedScores(np.where(sums > 0.0, sums * scale, 0.0), boosts, scale)


def _late(fused: ScoreColumn, late: ScoreColumn, weight: float) -> tuple[ScoreColumn | None, dict[str, ScoreColumn]]:
    """Return the score by late interaction, or where there is none the fused one, and the columns of both."""
    if not weight or not len(fused):
        return None, {}
    if not len(late):
        return fused, {LATE_ESTIMATE: weight * fused}
    is_missing = np.isnan(late)
    whole = np.where(is_missing, fused, late)
    return whole, {
        LATE_INTERACTION: weight * np.where(is_missing, 0.0, whole),
        LATE_ESTIMATE: weight * np.where(is_missing, fused, 0.0),
    }


def _cues(
    candidates: Candidates, places: _Places, features: TextFeatures, constants: BoostConstants
) -> dict[str, ScoreColumn]:
    """Return the columns of the cues; a memory without known cues has none."""
    weights = (constants.length, constants.questions, constants.when, constants.where, constants.who)
    if not any((*weights, constants.first_person, constants.previous_question)):
        return {}
    cues, asked = unpack_cues(candidates.cues), features.asked
    columns = {
        LENGTH: constants.length * np.minimum(1.0, cues.log_length / _LONG),
        QUESTIONS: -constants.questions * cues.question_share,
        WHEN: constants.when * asked.asks_when * cues.has_time,
        WHERE: constants.where * asked.asks_where * cues.has_place,
        WHO: constants.who * asked.asks_who * cues.has_person,
    }
    if features.named:
        find = candidates.names.find
        is_named = np.isin(candidates.speakers, [find(name) for name in features.named])
        columns[FIRST_PERSON] = constants.first_person * is_named * cues.is_first_person
    if len(features.words):
        column = np.zeros(len(candidates))
        has_previous, previous = places.of(candidates.previous_rows)
        is_asked = cues.question_share[previous] > 0.0
        column[has_previous] = constants.previous_question * np.where(is_asked, features.words[previous], 0.0)
        columns[PREVIOUS_QUESTION] = column
    return columns


def _add(one: ScoreColumn, other: ScoreColumn) -> ScoreColumn:
    """Return the sum of two columns, either of which may be empty."""
    return one + other if len(one) and len(other) else one if len(one) else other


def named_speakers(text: str, speakers: Iterable[str]) -> frozenset[str]:
    """Return those of *speakers* that *text* names, by the whole or the first name, ignoring case.

    Names in spaced scripts must be whole words. Roles such as "user" are not names.
    """
    query = text.casefold()
    return frozenset(speaker for speaker in speakers if _is_named(speaker, query))


def time_factors(candidates: Candidates, now: datetime, weighting: TimeWeighting) -> ScoreColumn:
    """Return the factors of age, importance, use and layer for time weighting.

    decay_factor ** (days / 30) * (0.8 + 0.2 * importance / 5) * (1 + 0.1 * log10(access_count + 1)) * boost of the
    layer; the third factor is at most `MAX_ACCESS_FACTOR`. Days count from the event, otherwise from the writing; the
    future counts as today.
    """
    events = candidates.event_times
    happened = np.where(events == ABSENT, candidates.create_times, events)
    days = np.maximum(0, to_micros(now) - happened) / _MICROS_PER_DAY
    age = np.power(weighting.decay_factor, days / _DAYS_PER_DECAY)
    importance = 0.8 + 0.2 * candidates.importances / _MOST_IMPORTANT
    access = np.minimum(1.0 + 0.1 * np.log10(candidates.access_counts + 1.0), MAX_ACCESS_FACTOR)
    factors: ScoreColumn = age * importance * access * layer_boosts(candidates, weighting)
    return factors


def layer_boosts(candidates: Candidates, weighting: TimeWeighting) -> ScoreColumn:
    """Return the layer part of `time_factors`."""
    find, boosts = candidates.names.find, np.ones(len(candidates))
    boosts[candidates.layers == find(Layer.CORE.value)] = weighting.core_boost
    boosts[candidates.layers == find(Layer.LONG_TERM.value)] = weighting.long_term_boost
    return boosts


class _Places:
    """The positions of rows among others: those of a list, or the candidates."""

    def __init__(self, rows: Integers) -> None:
        self._order = np.argsort(rows)
        self._rows = rows[self._order]

    def of(self, wanted: Integers) -> tuple[npt.NDArray[np.bool_], Integers]:
        """Return a mask of the wanted rows that are among them, and the positions of these."""
        if not len(self._rows):
            return np.zeros(len(wanted), dtype=bool), np.empty(0, dtype=np.int64)
        nearest = np.minimum(np.searchsorted(self._rows, wanted), len(self._rows) - 1)
        is_present = self._rows[nearest] == wanted
        return is_present, self._order[nearest[is_present]]


def _neighbour(fused: ScoreColumn, candidates: Candidates, places: _Places, weight: float) -> ScoreColumn:
    """Return for each memory its share of the better one of its two neighbours, if these are candidates."""
    has_previous, previous = places.of(candidates.previous_rows)
    best = np.zeros(len(candidates))
    best[has_previous] = weight * fused[previous]
    np.maximum.at(best, previous, weight * fused[has_previous])
    return best


def _session(
    candidates: Candidates, places: _Places, lexical: RankedList | None, constants: BoostConstants
) -> ScoreColumn:
    """Return for each memory the weight of its session by the lexical hits."""
    if lexical is None:
        return _NONE
    is_present, found = places.of(lexical.rows)
    scores = lexical.scores[is_present]
    return _session_shares(candidates, found, scores, constants.session_hits) * constants.session


def _late_session(candidates: Candidates, late: ScoreColumn | None, constants: BoostConstants) -> ScoreColumn:
    """Return for each memory the weight of its session by late interaction."""
    if late is None or not constants.late_session:
        return _NONE
    order = np.argsort(-late, kind="stable")
    return _session_shares(candidates, order, late[order], constants.session_hits) * constants.late_session


def _session_shares(candidates: Candidates, found: Integers, scores: ScoreColumn, most: int) -> ScoreColumn:
    """Return for each memory the sum of its session's best scores, relative to the best session; empty if all are 0.

    Args:
        candidates: The ranking data of the memories.
        found: The positions of the scored memories among the candidates, best first.
        scores: Their scores.
        most: The number of memories of a session that count.
    """
    sessions, groups = np.unique(candidates.sessions[found], return_inverse=True)
    sums = _sums_of_first(groups, scores, len(sessions), most)
    sums[sessions == 0] = 0.0
    highest = float(sums.max(initial=0.0))
    if not highest:
        return _NONE
    nearest = np.minimum(np.searchsorted(sessions, candidates.sessions), len(sessions) - 1)
    shares: ScoreColumn = np.where(sessions[nearest] == candidates.sessions, sums[nearest], 0.0) / highest
    return shares


def _sums_of_first(groups: Integers, scores: ScoreColumn, count: int, most: int) -> ScoreColumn:
    """Return for each group the sum of its first *most* scores."""
    order = np.argsort(groups, kind="stable")
    sorted_groups = groups[order]
    begins = np.searchsorted(sorted_groups, sorted_groups)
    first = order[np.arange(len(order)) - begins < most]
    sums: ScoreColumn = np.bincount(groups[first], scores[first], count).astype(np.float64, copy=False)
    return sums


def _speaker(candidates: Candidates, named: frozenset[str], weight: float) -> ScoreColumn:
    if not named:
        return _NONE
    numbers = set(candidates.speakers.tolist()) - {0}
    others = [number for number in numbers if candidates.names.text(number) not in named]
    if len(others) == len(numbers):
        return _NONE
    return np.where(np.isin(candidates.speakers, others), -weight, 0.0)


@lru_cache(maxsize=4096)
def names_of_speaker(speaker: str) -> tuple[str, ...]:
    """Return the names by which a query may refer to a speaker, in lower case, full name first; none for roles."""
    whole = speaker.casefold().strip()
    if not whole or whole in ROLES:
        return ()
    first = whole.split(maxsplit=1)[0]
    return (whole, first) if len(first) >= _MIN_FIRST_NAME else (whole,)


def _is_named(speaker: str, query: str) -> bool:
    names = names_of_speaker(speaker)
    mentioned = [name for name in names if name in query]
    if not mentioned:
        return False
    if mentioned[0] == names[0] and not names[0].isascii():
        return True
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", query) for name in mentioned)


# Time weighting keeps scores in 0..1.


def _empty() -> ScoreColumn:
    return np.empty(0)


@dataclass(frozen=True, slots=True, eq=False)
class WeightedScores:
    """Final scores of the candidates, and the factors that led to them.

    Attributes:
        times: Empty without time weighting, and so is *layers*.
        ceiling: The factor that brings all scores back to 0..1 when cues or weighting lift the best above 1.
    """

    scores: ScoreColumn
    times: ScoreColumn = field(default_factory=_empty)
    layers: ScoreColumn = field(default_factory=_empty)
    ceiling: float = 1.0

    def factors_of(self, place: int) -> tuple[tuple[str, float], ...]:
        """Return the factors of a candidate, in order; factors of 1 are left out."""
        factors = (
            (TIME_WEIGHTING, float(self.times[place]) if len(self.times) else 1.0),
            (LAYER, float(self.layers[place]) if len(self.layers) else 1.0),
            (CEILING, self.ceiling),
        )
        return tuple((name, factor) for name, factor in factors if factor != 1.0)


def spread_low_scores(fused: ScoreColumn, scored: BoostedScores) -> ScoreColumn:
    """Return the scores with those at 0 spread below `LEAST`, in the order of their sums."""
    is_low = scored.scores <= LEAST
    if not is_low.any():
        return scored.scores
    sums = fused[is_low]
    for column in scored.boosts.values():
        sums = sums + column[is_low]
    scores = scored.scores.copy()
    scores[is_low] = LEAST * (1.0 + np.maximum(-1.0, sums * scored.scale)) / (1.0 + LEAST)
    return scores


def apply_weighting(
    scores: ScoreColumn, candidates: Candidates, weighting: TimeWeighting | None, now: datetime
) -> WeightedScores:
    """Return the final scores. If one exceeds 1, all are scaled by one factor, which keeps the order."""
    if weighting is None:
        ceiling = 1.0 / float(scores.max(initial=1.0))
        return WeightedScores(np.minimum(1.0, scores * ceiling), ceiling=ceiling)
    layers = layer_boosts(candidates, weighting)
    factors = time_factors(candidates, now, weighting)
    lifted = scores * factors
    ceiling = 1.0 / float(lifted.max(initial=1.0))
    return WeightedScores(np.minimum(1.0, lifted * ceiling), factors / layers, layers, ceiling)
