"""Final scores from fused ones: boosts for neighbours, session, date and speaker, and time weighting.

    score = (fused + neighbour + session + date + speaker) / (1 + maximum of the first three boosts)

Every constant is a setting; its default comes from an ablation on chats in two languages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from memsvc.domain.clock import to_micros
from memsvc.domain.memory import Layer
from memsvc.domain.search import TimeWeighting
from memsvc.engine.search.fusion import RankedList
from memsvc.ports.candidates import ABSENT, Candidates, Integers

NEIGHBOUR = "neighbour"
SESSION = "session"
DATE = "date"
SPEAKER = "speaker"
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
_NONE: ScoreColumn = np.empty(0)
"""A column without values."""
TIME_WEIGHTING = "time_weighting"
LAYER = "layer"
CEILING = "ceiling"
LEAST = 1e-6
"""Scores of 0 or less are mapped between 0 and this value, which keeps their order."""


@dataclass(frozen=True, slots=True)
class BoostConstants:
    """The constants of the default ranking.

    Attributes:
        neighbour: Share of the better fused score of the two neighbours in the session.
        session: Added to memories of the session with the best lexical hits, and to others in proportion.
        session_hits: Number of lexical hits of a session that count.
        date: Added to a memory of a day that the query names.
        speaker: Subtracted from memories of other speakers if the query names a speaker.
        depth: Number of entries requested from each retriever.
    """

    neighbour: float = 0.25
    session: float = 0.20
    session_hits: int = 3
    date: float = 0.10
    speaker: float = 0.15
    depth: int = 100

    @property
    def scale(self) -> float:
        """Return the factor that maps the highest sum of a fused score in 0..1 and its boosts to 1."""
        return 1.0 / (1.0 + self.neighbour + self.session + self.date)


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
    fused: ScoreColumn,
    candidates: Candidates,
    *,
    lexical: RankedList | None,
    named: frozenset[str],
    dates: ScoreColumn,
    constants: BoostConstants,
) -> BoostedScores:
    """Return the final scores of *candidates*, in 0..1.

    Args:
        fused: The fused score of each candidate, in 0..1.
        candidates: The ranking data of the memories.
        lexical: The lexical list, which shows the sessions that the query is about.
        named: The speakers that the query names: see `named_speakers`. The speaker term is omitted if it names none, or
            all speakers of the candidates.
        dates: The match of each candidate's time with the dates of the query, in 0..1; empty if the query names none.
        constants: The weights.
    """
    places = _Places(candidates.rows)
    columns = {
        NEIGHBOUR: _neighbour(fused, candidates, places, constants.neighbour),
        SESSION: _session(candidates, places, lexical, constants),
        DATE: constants.date * dates,
        SPEAKER: _speaker(candidates, named, constants.speaker),
    }
    boosts = {name: column for name, column in columns.items() if column.any()}
    sums = fused
    for column in boosts.values():
        sums = sums + column
    scale = constants.scale
    return BoostedScores(np.where(sums > 0.0, sums * scale, 0.0), boosts, scale)


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
    """The positions of rows among the candidates."""

    def __init__(self, rows: Integers) -> None:
        self._order = np.argsort(rows)
        self._rows = rows[self._order]

    def of(self, wanted: Integers) -> tuple[npt.NDArray[np.bool_], Integers]:
        """Return a mask of the wanted rows that are candidates, and their positions."""
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
    """Return for each memory the weight of its session.

    It is the sum of the session's best lexical hits, relative to the best session.
    """
    if lexical is None:
        return _NONE
    is_present, found = places.of(lexical.rows)
    sessions, groups = np.unique(candidates.sessions[found], return_inverse=True)
    sums = _sums_of_first(groups, lexical.scores[is_present], len(sessions), constants.session_hits)
    sums[sessions == 0] = 0.0
    most = float(sums.max(initial=0.0))
    if not most:
        return _NONE
    nearest = np.minimum(np.searchsorted(sessions, candidates.sessions), len(sessions) - 1)
    shares = np.where(sessions[nearest] == candidates.sessions, sums[nearest], 0.0)
    column: ScoreColumn = constants.session * shares / most
    return column


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
        ceiling: The factor that brings all scores back to 0..1 when weighting lifts the best above 1.
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
        return WeightedScores(np.minimum(1.0, scores))
    layers = layer_boosts(candidates, weighting)
    factors = time_factors(candidates, now, weighting)
    lifted = scores * factors
    ceiling = 1.0 / float(lifted.max(initial=1.0))
    return WeightedScores(np.minimum(1.0, lifted * ceiling), factors / layers, layers, ceiling)
