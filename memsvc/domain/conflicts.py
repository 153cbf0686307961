"""Two memories that contradict each other, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cached_property

from memsvc.domain.memory import Memory, Status

WEEKDAY, WEEKLY = "weekday", "weekly"
"""The sorts of parts that name a day of the week, and say that every week is meant."""
SCHEDULE = "schedule"
"""The sort of a part that names the day of an event, or that the event was called off."""
LOOSE = "~"
"""The beginning of topics of which a newer statement contradicts an older one only if it tells a change."""
CHANGED, ABOUT, WHO, STATE = "changed", "about", "who", "state"
"""The sorts of parts of such statements: it says so; the things it is about, "|" between them; likewise the
persons; it is or is not so."""
LIKING, HAVING, DOING, ABLE = "liking", "having", "doing", "able"
"""The sorts of parts that say that someone likes a thing, has it, does something and can do it."""
POLE = "pole"
"""The sort of a part that names one of several opposites: their number, and the word after a colon, as in "0:brief"."""


class ConflictPolicy(StrEnum):
    """Action of a write on an older memory that it contradicts."""

    MARK = "MARK"
    SUPERSEDE = "SUPERSEDE"
    KEEP_BOTH = "KEEP_BOTH"


class Resolution(StrEnum):
    """Resolution of a conflict."""

    CONFIRM = "CONFIRM"
    REJECT = "REJECT"
    KEEP_BOTH = "KEEP_BOTH"


class ConflictState(StrEnum):
    """State of a conflict."""

    OPEN = "OPEN"
    CONFIRMED = "CONFIRMED"
    REJECTED = "REJECTED"
    KEPT_BOTH = "KEPT_BOTH"
    CLOSED = "CLOSED"


@dataclass(frozen=True, slots=True)
class Conflict:
    """That a newer memory contradicts an older one, both of one owner and project, or the older one global.

    Attributes:
        id: A UUID of version 7: ids sort in the order in which conflicts were found.
        topic: What both speak of.
        older_value: What the older memory says of it; likewise *newer_value*.
        resolve_time: When it ceased to be OPEN.
    """

    id: str
    owner: str
    project_id: str
    older_id: str
    newer_id: str
    rule: Rule
    topic: str
    older_value: str
    newer_value: str
    create_time: datetime
    state: ConflictState = ConflictState.OPEN
    resolve_time: datetime | None = None


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A conflict with its two memories as they are; None is one that is gone, or private to another session."""

    conflict: Conflict
    older: Memory | None
    newer: Memory | None


# Statements: facts of a memory in a form that can be compared.


class Rule(StrEnum):
    """Rule that found a statement."""

    LOCATION = "LOCATION"
    OCCUPATION = "OCCUPATION"
    PREFERENCE = "PREFERENCE"
    GENERAL = "GENERAL"


@dataclass(frozen=True, slots=True)
class ValuePart:
    """One part of a value: only parts of the same sort can be compared, such as a time with a time."""

    sort: str
    text: str


@dataclass(frozen=True)
class Fact:
    """That something is so, or, when it is not *positive*, that it is not so.

    Attributes:
        topic: Who or what is spoken of, and in which respect: only statements of the same topic can contradict each
            other. One thing at a time is true of it.
        parts: What is said of it; each sort at most once, in the order of the sorts.
    """

    rule: Rule
    topic: str
    parts: tuple[ValuePart, ...]
    positive: bool = True

    @cached_property
    def values(self) -> Mapping[str, str]:
        """Values to compare, by the sort of the part: "brief" and "short" are of the same pole."""
        return {part.sort: part.text.partition(":")[0] if part.sort == POLE else part.text for part in self.parts}


class Currency(StrEnum):
    """State of knowledge about whether a memory still holds."""

    CURRENT = "CURRENT"
    OUTDATED = "OUTDATED"
    CONFLICTED = "CONFLICTED"
    POSSIBLY_OUTDATED = "POSSIBLY_OUTDATED"


@dataclass(frozen=True, slots=True)
class CurrencyMark:
    """The currency of a memory, and the id of the newer memory that replaces it; empty if none is known."""

    currency: Currency
    newer_id: str = ""


CURRENT = CurrencyMark(Currency.CURRENT)


def stored_mark(memory: Memory, valid_time: datetime | None = None) -> CurrencyMark:
    """Return what is stored of the currency of a memory, now or at *valid_time*, when it may still have held."""
    if memory.status is Status.SUPERSEDED:
        held = valid_time is not None and memory.valid_to is not None and valid_time < memory.valid_to
        return CURRENT if held else CurrencyMark(Currency.OUTDATED, memory.superseded_by_id)
    return CurrencyMark(Currency.CONFLICTED) if memory.status is Status.CONFLICTED else CURRENT


def contradicts_either(one: Fact, other: Fact) -> bool:
    """Return whether one of two contradicts the other, whichever is the older one."""
    return contradicts(one, other) or (one.topic.startswith(LOOSE) and contradicts(other, one))


def contradicts(older: Fact, newer: Fact) -> bool:
    """Return whether the two cannot both be so.

    Of the same topic, two positive statements differ in a part that both have, and neither is the other said more
    exactly; or one denies what the other says. Two denials never contradict each other, nor does what holds on one day
    of every week contradict what is said of no day.
    """
    if older.topic != newer.topic or not (older.positive or newer.positive):
        return False
    if older.topic.startswith(LOOSE):
        return _outdates(older, newer)
    left, right = older.values, newer.values
    if (WEEKLY in left or WEEKLY in right) and not (WEEKDAY in left and WEEKDAY in right):
        return False
    shared = left.keys() & right.keys()
    if older.positive != newer.positive:
        return bool(shared) and all(left[sort] == right[sort] for sort in shared)
    return any(not _agree(left[sort], right[sort]) for sort in shared)


def _outdates(older: Fact, newer: Fact) -> bool:
    """Return whether a statement of change makes an older one of the same loose topic outdated."""
    left = {sort: set(text.split("|")) for sort, text in older.values.items()}
    right = {sort: set(text.split("|")) for sort, text in newer.values.items()}
    if CHANGED not in right and (ABOUT not in right or left.get(ABOUT) != right[ABOUT]):
        return False
    if ABOUT in left and ABOUT in right and left[ABOUT].isdisjoint(right[ABOUT]):
        return False
    if not _may_be_same_person(left.get(WHO, _SOMEBODY), right.get(WHO, _SOMEBODY)):
        return False
    shared = (left.keys() & right.keys()) - {ABOUT, WHO, CHANGED}
    if older.positive != newer.positive:
        return bool(shared) and all(not left[sort].isdisjoint(right[sort]) for sort in shared)
    return any(left[sort].isdisjoint(right[sort]) for sort in shared)


_PRONOUNS = frozenset({"she", "he"})
_SOMEBODY = frozenset({"user"})
"""Who a loose statement is about that names no person."""


def _may_be_same_person(one: AbstractSet[str], other: AbstractSet[str]) -> bool:
    """Return whether two lists of persons, pronouns among them, have one in common."""
    named, others = one - _PRONOUNS, other - _PRONOUNS
    return not named.isdisjoint(others) if named and others else not one.isdisjoint(other)


def _agree(one: str, other: str) -> bool:
    """Return whether one text is the other, or the other said more exactly: "lisbon" and "lisbon portugal"."""
    if one == other:
        return True
    if one.isascii() and other.isascii():
        mine, theirs = set(one.split()), set(other.split())
        return not (_is_amount(one) or _is_amount(other)) and (mine <= theirs or theirs <= mine)
    return one in other or other in one


def _is_amount(text: str) -> bool:
    return any(letter.isdigit() for letter in text)
