"""Schedule of reminders: days, slots of a day, and pending deliveries.

A reminder is a day of the calendar, once or every year, in its own time zone or that of the caller. A day has two
slots; what is due is given once in each, until it is acknowledged.
"""

from __future__ import annotations

import calendar
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from memsvc.domain.field_rules import time_zone
from memsvc.domain.memory import Memory, Recurrence, Reminder, Slot, Status

AFTERNOON_HOUR = 15
"""The first hour of the afternoon slot; the morning slot begins with the day."""
OVERDUE_DAYS = 7
"""Number of days for which an unacknowledged reminder of one day is listed."""
YEARS = (1900, 2999)
"""The years that a reminder may be of, and that can be asked about."""
_MORNING_ENDS = AFTERNOON_HOUR * 60
_FEBRUARY, _LAST, _LEAP_DAY = 2, 28, 29
_LEAP_YEAR = 2000
_MONTHS = 12
_DAY = timedelta(days=1)

Given = tuple[date, Slot]
Acknowledged = tuple[date, Slot, datetime]
"""For which day and slot a reminder was given, and when that was noted."""
"""A day and a slot in which a reminder was acknowledged."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A time at which a reminder is due.

    Attributes:
        due_time: Since when.
        is_overdue: Whether its slot is over.
    """

    day: date
    slot: Slot
    due_time: datetime
    is_overdue: bool = False


@dataclass(frozen=True, slots=True)
class DueReminder:
    """A memory that is due, and when."""

    memory: Memory
    occurrence: Occurrence


@dataclass(frozen=True, slots=True)
class Window:
    """The numbers (see `day_number`) of all reminders that can be due at a moment, wherever on earth that is asked.

    Attributes:
        yearly: Those of yearly ones, ascending.
        first: The first of those of one day; likewise *last*.
    """

    yearly: tuple[int, ...]
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Moment:
    """Moment and time zone of a query for due reminders.

    Attributes:
        zone: Where reminders are that name no zone.
        slot: The slot to look at the day from; None: the one that it is.
        overdue_days: Number of days for which an unacknowledged reminder of one day is listed.
    """

    now: datetime
    zone: tzinfo
    slot: Slot | None = None
    overdue_days: int = OVERDUE_DAYS


def slot_of(hour: int) -> Slot:
    """Return the slot that an hour belongs to."""
    return Slot.AFTERNOON if hour >= AFTERNOON_HOUR else Slot.MORNING


def slots_of(reminder: Reminder) -> tuple[Slot, ...]:
    """Return the slots in which it is given: the one that it names, else all that begin before its time of day."""
    if reminder.slot is not None:
        return (reminder.slot,)
    if reminder.minute is not None and reminder.minute < _MORNING_ENDS:
        return (Slot.MORNING,)
    return (Slot.MORNING, Slot.AFTERNOON)


def is_day(year: int, month: int, day: int) -> bool:
    """Return whether there is such a day; without a *year* (0), in some year."""
    if not 1 <= month <= _MONTHS:
        return False
    return 1 <= day <= calendar.monthrange(year or _LEAP_YEAR, month)[1]


def day_number(reminder: Reminder) -> int:
    """Return the number by which it is found: YYYYMMDD of one day, MMDD every year, which is always less."""
    number = reminder.month * 100 + reminder.day
    return number if reminder.recurrence is Recurrence.YEARLY else reminder.year * 10_000 + number


def window(now: datetime, overdue_days: int) -> Window:
    """Return which reminders can be due. Somewhere on earth it is yesterday still, or tomorrow already."""
    today = now.astimezone(UTC).date()
    days = [today - _DAY, today, today + _DAY]
    yearly = {day.month * 100 + day.day for day in days}
    if any((day.month, day.day) == (_FEBRUARY, _LAST) and not calendar.isleap(day.year) for day in days):
        yearly.add(_FEBRUARY * 100 + _LEAP_DAY)
    first = today - timedelta(days=overdue_days + 1)
    return Window(tuple(sorted(yearly)), _one_day(first), _one_day(days[-1]))


def day_in(reminder: Reminder, year: int) -> date | None:
    """Return the day of a year on which it is due, or None. 29 February is 28 February where there is none."""
    if reminder.recurrence is Recurrence.NONE:
        return date(reminder.year, reminder.month, reminder.day) if reminder.year == year else None
    if year < reminder.year:
        return None
    if not is_day(year, reminder.month, reminder.day):
        return date(year, _FEBRUARY, _LAST)
    return date(year, reminder.month, reminder.day)


def occurs_on(reminder: Reminder, day: date) -> bool:
    """Return whether it is due on that day."""
    return day_in(reminder, day.year) == day


def due_occurrence(reminder: Reminder, moment: Moment, given: AbstractSet[Given]) -> Occurrence | None:
    """Return what of a reminder is to be given at a *moment*, after what was *given* already; None: nothing.

    On its day that is the latest of its slots that has begun. After it, one that was in no slot of its day
    acknowledged is overdue for some days, unless it is yearly.
    """
    zone = _zone(reminder, moment)
    local = moment.now.astimezone(zone)
    today, present = local.date(), moment.slot or slot_of(local.hour)
    if reminder.recurrence is Recurrence.NONE and (day := _missed_day(reminder, today, moment.overdue_days)):
        if any(when == day for when, _ in given):
            return None
        slot = slots_of(reminder)[-1]
        return Occurrence(day, slot, due_time(reminder, day, slot, zone), is_overdue=True)
    if not occurs_on(reminder, today):
        return None
    begun = [slot for slot in slots_of(reminder) if present is Slot.AFTERNOON or slot is Slot.MORNING]
    if not begun or (today, begun[-1]) in given:
        return None
    return Occurrence(today, begun[-1], due_time(reminder, today, begun[-1], zone), is_overdue=begun[-1] is not present)


def due_time(reminder: Reminder, day: date, slot: Slot, zone: tzinfo) -> datetime:
    """Return since when it is due: from its time of day if that is in the slot, else from the slot's begin.

    A time that clocks skip on that day is as much later as they skip; of one that they show twice it is the first.
    """
    minute = reminder.minute
    if minute is None or slot_of(minute // 60) is not slot:
        minute = _MORNING_ENDS if slot is Slot.AFTERNOON else 0
    return datetime.combine(day, time(minute // 60, minute % 60), zone).astimezone(UTC)


def reminds(memory: Memory) -> bool:
    """Return whether *memory* has an active reminder: an archived one has not."""
    return memory.reminder is not None and memory.status is Status.ACTIVE


def _zone(reminder: Reminder, moment: Moment) -> tzinfo:
    # An unknown zone comes from an import: the exporting machine knew it.
    return (time_zone(reminder.time_zone) if reminder.time_zone else None) or moment.zone


def _missed_day(reminder: Reminder, today: date, days: int) -> date | None:
    day = date(reminder.year, reminder.month, reminder.day)
    return day if _DAY <= today - day <= timedelta(days=days) else None


def _one_day(day: date) -> int:
    return day.year * 10_000 + day.month * 100 + day.day
