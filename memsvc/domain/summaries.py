"""Summaries of a log, a period, a topic: how they are named, and what they are made of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import MAXYEAR, UTC, datetime, timedelta

from memsvc.domain import limits
from memsvc.domain.clock import to_micros
from memsvc.domain.filters import And, AnyOf, Field, Filter, Not, Or, Range
from memsvc.domain.memory import Json, Kind, Layer, Memory, Status, Tier
from memsvc.domain.memory_keys import DAILY, convention_of
from memsvc.domain.sessions import SOURCE

SUMMARY = "summary/"
"""How the keys of summaries begin."""
COMPACTION, PERIOD = "compaction", "period summary"
"""What `Memory.source` says of a summary of a daily log, and of one of a period or topic."""
MADE_SUMMARIES = frozenset({SOURCE, PERIOD, COMPACTION})
"""What `Memory.source` says of summaries that the service makes: of trimmed messages, of periods, of daily logs."""
CATEGORY = "summary"
SUMMARY_SHARE = 4
"""A summary of messages has at most a quarter of their tokens."""
LEAST_SUMMARY = 40
"""Length of such a summary that is always allowed: about one sentence."""
HASH = "summed_up_hash"
"""Metadata key of a log's summary: the hash of the summarised content."""
_MONTH = re.compile(r"(?P<year>[0-9]{4})-(?P<month>0[1-9]|1[0-2])")
_BLANKS = re.compile(r"\s+")
_DECEMBER = 12
_NO_MATERIAL = (Kind.MESSAGE.value, Kind.DOCUMENT.value)
"""Conversations have summaries of their own, which are material."""


@dataclass(frozen=True, slots=True)
class Period:
    """A span of time, from *start* on and before *end*; None is open. *name* is its part of the summary's key."""

    name: str
    start: datetime | None = None
    end: datetime | None = None

    @classmethod
    def month(cls, text: str) -> Period | None:
        """Return the month that "2026-02" names, in UTC, or None when *text* names none."""
        match = _MONTH.fullmatch(text)
        if match is None or int(match["year"]) == 0:
            return None
        year, month = int(match["year"]), int(match["month"])
        start = datetime(year, month, 1, tzinfo=UTC)
        if month < _DECEMBER:
            return cls(text, start, datetime(year, month + 1, 1, tzinfo=UTC))
        # After the last month that there is comes nothing.
        return cls(text, start, datetime(year + 1, 1, 1, tzinfo=UTC) if year < MAXYEAR else None)

    @classmethod
    def between(cls, start: datetime | None, end: datetime | None) -> Period:
        """Return a span of time, named by its ends."""
        if start is None and end is None:
            return cls("all")
        return cls(f"{_moment(start)}..{_moment(end)}", start, end)


def summary_key(period: Period, topic: str) -> str:
    """Return the key under which the summary of a period and topic is kept, such as "summary/2026-02/tea"."""
    return f"{SUMMARY}{period.name}/{topic}" if topic else f"{SUMMARY}{period.name}"


def normal_topic(topic: str) -> str:
    """Return a topic as it is named in keys: trimmed, its white space single, in small letters."""
    return _BLANKS.sub(" ", topic.strip()).casefold()


def material_of(period: Period) -> tuple[Filter, Filter]:
    """Return what a period is summed up of: by the time it happened, and for what has none, by the time of writing.

    Memories in use or expired, and archived daily logs; not messages, documents or summaries of these,
    nothing private to a session, and nothing whose place another memory took.
    """
    statuses = Or(
        (
            AnyOf(Field.STATUS, (Status.ACTIVE.value, Status.EXPIRED.value)),
            And((AnyOf(Field.STATUS, (Status.ARCHIVED.value,)), AnyOf(Field.CATEGORY, (DAILY.rstrip("/"),)))),
        )
    )
    common = (
        statuses,
        Not(AnyOf(Field.KIND, _NO_MATERIAL)),
        # What was summed up already is not summed up again.
        Not(AnyOf(Field.CATEGORY, (CATEGORY,))),
        Not(AnyOf(Field.LAYER, (Layer.SESSION.value,))),
    )
    has_time = Range(Field.EVENT_TIME, at_least=-1e18)
    return (
        And((*common, _within(Field.EVENT_TIME, period))),
        And((*common, Not(has_time), _within(Field.CREATE_TIME, period))),
    )


def summary_tokens(message_tokens: int, most: int) -> int:
    """Return the maximum length of a summary of messages of so many tokens in all; *most* is that of any summary."""
    return min(most, max(message_tokens // SUMMARY_SHARE, LEAST_SUMMARY))


def day_before(now: datetime, days: float) -> str:
    """Return the key of the first daily log that is not yet *days* old: logs with a smaller key are."""
    return f"{DAILY}{(now - timedelta(days=days)).date().isoformat()}"


def is_old_log(memory: Memory, before: str) -> bool:
    """Return whether a memory is a daily log in use, of a day before *before*, that may be archived."""
    return (
        memory.status is Status.ACTIVE
        and memory.key.startswith(DAILY)
        and convention_of(memory.key) is not None
        and memory.key < before
        and memory.layer in {Layer.SHORT_TERM, Layer.LONG_TERM}
        and memory.tier is not Tier.CORE
        and not memory.work_in_progress
    )


def log_key(log: Memory) -> str:
    """Return the key of the summary of a daily log."""
    return f"{SUMMARY}{log.key}"[: limits.KEY]


def sums_up(summary: Memory, log: Memory) -> bool:
    """Return whether *summary* was made of *log* with the content that it still has."""
    return summary.source == COMPACTION and summary.metadata.get(HASH) == log.content_hash


def log_metadata(log: Memory) -> Mapping[str, Json]:
    """Return what the summary of *log* keeps of it."""
    return {HASH: log.content_hash}


def _within(field: Field, period: Period) -> Range:
    return Range(
        field,
        at_least=-1e18 if period.start is None else to_micros(period.start),
        below=None if period.end is None else to_micros(period.end),
    )


def _moment(moment: datetime | None) -> str:
    if moment is None:
        return ""
    plain = moment.astimezone(UTC)
    is_midnight = (plain.hour, plain.minute, plain.second, plain.microsecond) == (0, 0, 0, 0)
    return (
        f"{plain:%Y-%m-%d}"
        if is_midnight
        else f"{plain:%Y-%m-%dT%H:%M:%S}" + (f".{plain.microsecond:06}Z" if plain.microsecond else "Z")
    )
