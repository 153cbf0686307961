"""What an agent loads at its start, whatever it is about to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from memsvc.domain.clock import to_micros
from memsvc.domain.filters import And, AnyOf, Field, Filter, Or, Range
from memsvc.domain.history import is_valid_at
from memsvc.domain.memory import Kind, Layer, Memory, Status, Tier
from memsvc.domain.reminders import Due

REMINDER_TAGS = ("reminder", "提醒")
_REMINDERS = frozenset(REMINDER_TAGS)
REMINDER_SPAN = timedelta(hours=24)
"""What lies so far back or ahead is due."""


class Essential(StrEnum):
    """Why a memory is loaded at the start: it is of layer or tier CORE, of tier ACTIVE, of kind PREFERENCE."""

    CORE = "CORE"
    ACTIVE = "ACTIVE"
    PREFERENCE = "PREFERENCE"


@dataclass(frozen=True, slots=True)
class CoreContext:
    """The memories to load at the start; each is in one list, the first that it fits.

    Attributes:
        is_incomplete: Whether there are more than the lists hold.
        due: When those come due that have a reminder, whichever list they are in.
    """

    core: Sequence[Memory] = ()
    active: Sequence[Memory] = ()
    preferences: Sequence[Memory] = ()
    reminders: Sequence[Memory] = ()
    is_incomplete: bool = False
    due: Sequence[Due] = ()


def may_remind(first: datetime, last: datetime) -> Filter:
    """Return the test that a memory is meant to remind of something, and of something from *first* to *last*."""
    return And(
        (
            Range(Field.EVENT_TIME, at_least=to_micros(first), at_most=to_micros(last)),
            Or((AnyOf(Field.KIND, (Kind.TASK.value,)), AnyOf(Field.TAGS, REMINDER_TAGS))),
        )
    )


def may_be_loaded(memory: Memory) -> bool:
    """Return whether a memory, as it is now, may be in one of the lists."""
    return (
        memory.layer is Layer.CORE
        or memory.tier in {Tier.CORE, Tier.ACTIVE}
        or memory.kind in {Kind.PREFERENCE, Kind.TASK}
        or not _REMINDERS.isdisjoint(memory.tags)
    )


def is_due(memory: Memory, now: datetime) -> bool:
    """Return whether it is time to remind of a memory without a reminder, which is due about when it happens."""
    return memory.reminder is None and memory.event_time is not None and abs(memory.event_time - now) <= REMINDER_SPAN


def is_in_use(memory: Memory, now: datetime) -> bool:
    """Return whether a memory is ACTIVE in status, of a tier that is loaded, and current."""
    return memory.status is Status.ACTIVE and memory.tier is not Tier.ARCHIVED and is_current(memory, now)


def is_current(memory: Memory, now: datetime) -> bool:
    """Return whether a memory is neither expired nor outside of the time in which it holds."""
    return (memory.expire_time is None or memory.expire_time > now) and is_valid_at(memory, now)
