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

from memsvc.domain.clock import to_micros
from memsvc.domain.fusion import Column, Ranked
from memsvc.domain.memory import Layer
from memsvc.domain.query import Candidate, Weighting

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
    """Final scores by row, and the boosts behind them by name, then row; a boost of 0 is left out."""

    scores: Column
    boosts: dict[str, Column]
    scale: float

    def boosts_of(self, row: int) -> tuple[tuple[str, float], ...]:
        """Return what was added to the fused score of *row*, in order, and last the factor that scaled the sum."""
        added = [(name, column[row]) for name, column in self.boosts.items() if row in column]
        return (*added, (SCALE, self.scale))


def boosted(
    fused: Mapping[int, float],
    candidates: Mapping[int, Candidate],
    *,
    lexical: Sequence[Ranked],
    named: frozenset[str],
    dates: Mapping[int, float],
    constants: Constants,
) -> Scored:
    """Return the final scores, in 0..1, of the rows that both *fused* and *candidates* hold.

    Args:
        fused: Fused scores in 0..1.
        candidates: What is known of the memories, by row.
        lexical: The lexical list, best first: it tells which sessions the query is about.
        named: The speakers that the query names: see `named_speakers`. When it names none, or all that the
            candidates have, there is no speaker term.
        dates: How well a memory's time meets the dates that the query names, in 0..1; an absent row has 0.
        constants: The weights.
    """
    known = {row: candidate for row, candidate in candidates.items() if row in fused}
    columns = {
        NEIGHBOUR: _neighbour(fused, known, constants.neighbour),
        SESSION: _session(known, lexical, constants),
        DATE: {row: constants.date * match for row, match in dates.items() if match and row in known},
        SPEAKER: _speaker(known, named, constants.speaker),
    }
    sums = {row: fused[row] for row in known}
    for column in columns.values():
        for row, boost in column.items():
            sums[row] += boost
    scale = constants.scale
    scores = {row: score * scale if score > 0.0 else 0.0 for row, score in sums.items()}
    return Scored(scores, {name: column for name, column in columns.items() if column}, scale)


def named_speakers(text: str, speakers: Iterable[str]) -> frozenset[str]:
    """Return those of *speakers* that *text* names: by the whole name or by its first part, in any case.

    Names of spaced scripts must stand as words of their own. Roles such as "user" are nobody's name.
    """
    query = text.casefold()
    return frozenset(speaker for speaker in speakers if _is_named(speaker.casefold().strip(), query))


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


def _neighbour(fused: Mapping[int, float], candidates: Mapping[int, Candidate], weight: float) -> dict[int, float]:
    """Give each memory its share of the better one of the two beside it, where these are candidates too."""
    best: dict[int, float] = {}
    for row, candidate in candidates.items():
        previous = candidate.previous_row
        if previous is not None and previous in candidates:
            share = weight * fused[previous]
            if share > best.get(row, 0.0):
                best[row] = share
            share = weight * fused[row]
            if share > best.get(previous, 0.0):
                best[previous] = share
    return best


def _session(candidates: Mapping[int, Candidate], lexical: Sequence[Ranked], constants: Constants) -> Column:
    """Give each memory the weight of its session: by the sum of the session's best lexical hits, the best fully."""
    sessions = {row: one.session_id for row, one in candidates.items() if one.session_id}
    sums: dict[str, float] = {}
    counts: dict[str, int] = {}
    for row, _, score in lexical if sessions else ():
        if row in sessions:
            session = sessions[row]
            count = counts.get(session, 0)
            if count < constants.session_hits:
                counts[session] = count + 1
                sums[session] = sums.get(session, 0.0) + score
    most = max(sums.values(), default=0.0)
    if not most:
        return {}
    shares = {session: constants.session * total / most for session, total in sums.items()}
    return {row: shares[session] for row, session in sessions.items() if session in shares}


def _speaker(candidates: Mapping[int, Candidate], named: frozenset[str], weight: float) -> Column:
    speakers = {candidate.speaker for candidate in candidates.values()} - {""}
    others = speakers - named
    if others == speakers:
        return {}
    return {row: -weight for row, candidate in candidates.items() if candidate.speaker in others}


def _is_named(speaker: str, query: str) -> bool:
    if not speaker or speaker in ROLES:
        return False
    if not speaker.isascii() and speaker in query:
        return True
    first = speaker.split(maxsplit=1)[0]
    names = (speaker, first) if len(first) >= _MIN_FIRST_NAME else (speaker,)
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", query) for name in names if name in query)
