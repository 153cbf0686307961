"""A reminder as a memory holds it. What it means in time is said in `memsvc.domain.reminders`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Slot(StrEnum):
    """A part of a day, in which what is due is given once."""

    MORNING = "MORNING"
    AFTERNOON = "AFTERNOON"


class Recurrence(StrEnum):
    """Whether a reminder comes once, or every year."""

    NONE = "NONE"
    YEARLY = "YEARLY"


@dataclass(frozen=True, slots=True)
class Reminder:
    """A day on which a memory comes due.

    Attributes:
        year: That of the day; for a yearly one the first in which it is due, 0: it always was.
        minute: The time of day in minutes since midnight; None: the whole day.
        time_zone: An IANA name; empty: the zone of whoever asks.
        slot: None: every slot that begins before the time of day.
        phrase: The words of the content that it was found in; empty: it was given.
    """

    month: int
    day: int
    year: int = 0
    recurrence: Recurrence = Recurrence.YEARLY
    minute: int | None = None
    time_zone: str = ""
    slot: Slot | None = None
    phrase: str = ""
