"""From fused scores to final ones: what the memories around a memory, its speaker, its day and its use say.

    score = (fused + neighbour + session + date + speaker) / (1 + the most that the first three boosts can add)

Measured, not invented: every constant is a setting, and its default comes out of an ablation on chats in two languages.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from memsvc.domain.clock import to_micros
from memsvc.domain.fusion import RankedList
from memsvc.domain.memory import Layer
from memsvc.domain.query import Candidate, Weighting
from memsvc.domain.remembered import remembered

NEIGHBOUR = "neighbour"
SESSION = "session"
DATE = "date"
SPEAKER = "speaker"
SCALE = "scale"
MAX_ACCESS_FACTOR = 1.3
"""Reading feeds back into rank: without a ceiling, what is on top stays on top."""
ROLES = frozenset(
    ("user", "assistant", "system", "tool", "human", "agent", "ai", "bot", "用户", "助手", "系统", "人类", "机器人")
)
"""Speakers that are parts in a conversation. "How does the user log in?" names nobody."""

Column: TypeAlias = list[float]
"""A number for each candidate, in the order of the candidates."""

_MICROS_PER_DAY = 86_400_000_000
_DAYS_PER_DECAY = 30
_MOST_IMPORTANT = 5
_MIN_FIRST_NAME = 3


@dataclass(frozen=True, slots=True)
class Constants:
    """The constants of the default ranking.

    Attributes:
        neighbour: Share of the better one of the neighbours' fused scores in the session.
        session: Added to the memories of the session with the best lexical hits, to those of others in proportion.
        session_hits: How many of a session's lexical hits count.
        date: Added to a memory of a day that the query names.
        speaker: Taken from a memory of somebody else when the query names who spoke.
        depth: How many entries each retriever is asked for.
    """

    neighbour: float = 0.25
    session: float = 0.20
    session_hits: int = 3
    date: float = 0.10
    speaker: float = 0.15
    depth: int = 100

    @property
    def scale(self) -> float:
        """Return the factor that brings the highest sum of a fused score in 0..1 and its boosts to 1."""
        return 1.0 / (1.0 + self.neighbour + self.session + self.date)


@dataclass(frozen=True, slots=True)
class Scored:
    """Final scores of the candidates, and by name the boosts behind them; those that nobody has are left out."""

    scores: Column
    boosts: dict[str, Column]
    scale: float

    def boosts_of(self, place: int) -> tuple[tuple[str, float], ...]:
        """Return what was added to a candidate's fused score, in order, and last the factor that scaled the sum.

        A boost of 0 is left out.
        """
        added = [(name, column[place]) for name, column in self.boosts.items() if column[place]]
        return (*added, (SCALE, self.scale))


def boosted(
    fused: Sequence[float],
    candidates: Sequence[Candidate],
    *,
    lexical: RankedList | None,
    named: frozenset[str],
    dates: Sequence[float],
    constants: Constants,
) -> Scored:
    """Return the final scores of *candidates*, in 0..1.

    Args:
        fused: The fused score of each candidate, in 0..1.
        candidates: What is known of the memories.
        lexical: The lexical list: it tells which sessions the query is about.
        named: The speakers that the query names: see `named_speakers`. When it names none, or all that the
            candidates have, there is no speaker term.
        dates: How well each candidate's time meets the dates that the query names, in 0..1; empty when it names none.
        constants: The weights.
    """
    places: dict[int | None, int] = dict(zip([one.row for one in candidates], range(len(candidates)), strict=True))
    columns = {
        NEIGHBOUR: _neighbour(fused, candidates, places, constants.neighbour),
        SESSION: _session(candidates, places, lexical, constants),
        DATE: [constants.date * match for match in dates],
        SPEAKER: _speaker(candidates, named, constants.speaker),
    }
    boosts = {name: column for name, column in columns.items() if any(column)}
    sums = fused
    for column in boosts.values():
        sums = [score + boost for score, boost in zip(sums, column, strict=True)]
    scale = constants.scale
    return Scored([score * scale if score > 0.0 else 0.0 for score in sums], boosts, scale)


def named_speakers(text: str, speakers: Iterable[str]) -> frozenset[str]:
    """Return those of *speakers* that *text* names: by the whole name or by its first part, in any case.

    Names of spaced scripts must stand as words of their own. Roles such as "user" are nobody's name.
    """
    query = text.casefold()
    return frozenset(speaker for speaker in speakers if _is_named(speaker, query))


def time_factor(candidate: Candidate, now: datetime, weighting: Weighting) -> float:
    """Return the factor of age, importance, use and layer that a score is multiplied by when time is to count.

    decay_factor ** (days / 30) * (0.8 + 0.2 * importance / 5) * (1 + 0.1 * log10(access_count + 1)) * boost of the
    layer, the third at most `MAX_ACCESS_FACTOR`. Days count from when it happened, or else from when it was written;
    the future counts as today.
    """
    happened = candidate.create_time if candidate.event_time is None else candidate.event_time
    days = max(0, to_micros(now) - happened) / _MICROS_PER_DAY
    age = math.pow(weighting.decay_factor, days / _DAYS_PER_DECAY)
    importance = 0.8 + 0.2 * candidate.importance / _MOST_IMPORTANT
    access = min(1.0 + 0.1 * math.log10(candidate.access_count + 1), MAX_ACCESS_FACTOR)
    return age * importance * access * layer_boost(candidate.layer, weighting)


def layer_boost(layer: str, weighting: Weighting) -> float:
    """Return the part of `time_factor` that is the layer's."""
    if layer == Layer.CORE:
        return weighting.core_boost
    return weighting.long_term_boost if layer == Layer.LONG_TERM else 1.0


def _neighbour(
    fused: Sequence[float], candidates: Sequence[Candidate], places: Mapping[int | None, int], weight: float
) -> Column:
    """Give each memory its share of the better one of the two beside it, where these are candidates too."""
    beside = [places.get(one.previous_row) for one in candidates]
    best = [0.0] * len(candidates)
    for place, previous in [(place, previous) for place, previous in enumerate(beside) if previous is not None]:
        share = weight * fused[previous]
        if share > best[place]:  # noqa: PLR1730 - in the loops of a search `max` takes three times as long
            best[place] = share
        share = weight * fused[place]
        if share > best[previous]:  # noqa: PLR1730
            best[previous] = share
    return best


def _session(
    candidates: Sequence[Candidate], places: Mapping[int | None, int], lexical: RankedList | None, constants: Constants
) -> Column:
    """Give each memory the weight of its session: by the sum of the session's best lexical hits, the best fully."""
    if lexical is None:
        return []
    sessions = [one.session_id for one in candidates]
    sums: dict[str, float] = {}
    counts: dict[str, int] = {}
    for place, score in zip(map(places.get, lexical.rows), lexical.scores, strict=True):
        if place is None:
            continue
        session = sessions[place]
        count = counts.get(session, 0)
        if count < constants.session_hits:
            counts[session] = count + 1
            sums[session] = sums.get(session, 0.0) + score
    sums.pop("", None)
    most = max(sums.values(), default=0.0)
    if not most:
        return []
    shares = {session: constants.session * total / most for session, total in sums.items()}
    return [shares.get(session, 0.0) for session in sessions]


def _speaker(candidates: Sequence[Candidate], named: frozenset[str], weight: float) -> Column:
    speakers = {one.speaker for one in candidates} - {""} if named else frozenset()
    others = speakers - named
    if others == speakers:
        return []
    return [-weight if one.speaker in others else 0.0 for one in candidates]


@remembered(4096)
def _names_of(speaker: str) -> tuple[str, ...]:
    """Return what a query may call a speaker, in lower case, the whole name first; nothing for roles."""
    whole = speaker.casefold().strip()
    if not whole or whole in ROLES:
        return ()
    first = whole.split(maxsplit=1)[0]
    return (whole, first) if len(first) >= _MIN_FIRST_NAME else (whole,)


def _is_named(speaker: str, query: str) -> bool:
    names = _names_of(speaker)
    mentioned = [name for name in names if name in query]
    if not mentioned:
        return False
    if mentioned[0] == names[0] and not names[0].isascii():
        return True
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", query) for name in mentioned)
