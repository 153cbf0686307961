"""Schedule of reminders: days, slots of a day, and pending deliveries.

A reminder is a day of the calendar, once or every year, month or week, in its own time zone or that of the caller. A
day has two slots; what is due is given once in each, until it is acknowledged.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache

from memsvc.domain.field_rules import time_zone
from memsvc.domain.limits import SHORT_TERM_DAYS
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
_MOST_DAYS = 31
_MONTHLY = 10
"""Numbers of monthly reminders are this and the day of the month."""
_LUNAR = 2000
"""Numbers of yearly reminders of the lunisolar calendar are this and MMDD of it."""
_SHORT_LUNAR_MONTH = 29
LUNAR_YEARS = (1900, 2100)
"""Days of the lunisolar calendar are known in the years between."""
_WEEK = 7
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
        recurring: Those of weekly, monthly and yearly ones, ascending.
        first: The first of a span of others, as a rule of those of one day; likewise *last*.
    """

    recurring: tuple[int, ...]
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Moment:
    """Moment and time zone of a query for due reminders.

    Attributes:
        zone: Where reminders are that name no zone.
        slot: The slot to look at the day from; None: the one that it is.
        overdue_days: Number of days for which an unacknowledged reminder of one day is listed.
        days_ahead: Number of days after the present one whose reminders are listed as well; 0: only what is due.
    """

    now: datetime
    zone: tzinfo
    slot: Slot | None = None
    overdue_days: int = OVERDUE_DAYS
    days_ahead: int = 0


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
    """Return the number by which it is found: YYYYMMDD of one day, which is more than that of any recurring one.

    2000 and MMDD of the lunisolar calendar, MMDD every year, 10 and the day of the month every month, 1 (Monday) to 7
    every week.
    """
    if reminder.is_lunar:
        return _lunar_number(*_lunar_day_of(reminder))
    if reminder.recurrence is Recurrence.WEEKLY:
        return date(reminder.year, reminder.month, reminder.day).isoweekday()
    if reminder.recurrence is Recurrence.MONTHLY:
        return _MONTHLY + reminder.day
    number = reminder.month * 100 + reminder.day
    return number if reminder.recurrence is Recurrence.YEARLY else reminder.year * 10_000 + number


def window(now: datetime, overdue_days: int, days_ahead: int = 0) -> Window:
    """Return which reminders can be due. Somewhere on earth it is yesterday still, or tomorrow already."""
    today = now.astimezone(UTC).date()
    days = [today + number * _DAY for number in range(-1, days_ahead + 2) if today <= date.max - (number + 1) * _DAY]
    recurring: set[int] = set()
    for day in days:
        last = calendar.monthrange(day.year, day.month)[1]
        recurring |= {day.isoweekday(), _MONTHLY + day.day, day.month * 100 + day.day}
        if day.day == last:
            recurring.update(range(_MONTHLY + last, _MONTHLY + _MOST_DAYS + 1))
            if (day.month, last) == (_FEBRUARY, _LAST):
                recurring.add(_FEBRUARY * 100 + _LEAP_DAY)
        recurring.update(_lunar_numbers(day))
    first = today - timedelta(days=overdue_days + 1)
    return Window(tuple(sorted(recurring)), _one_day(first), _one_day(days[-1]))


def windows_since(first: date) -> tuple[Window, Window]:
    """Return the window of all reminders of one day from *first* on, and that of all recurring ones."""
    recurring = Window((), 1, _LUNAR + _MONTHS * 100 + _MOST_DAYS)
    return Window((), _one_day(first), _one_day(date.max)), recurring


def occurs_on(reminder: Reminder, day: date) -> bool:
    """Return whether it is due on that day."""
    return next_day(reminder, day) == day


def next_day(reminder: Reminder, since: date) -> date | None:
    """Return the first day on which it is due, not before *since*; None: never again.

    A day that a month does not have is its last one: 29 February is 28 February in most years, the 31st the 30th.
    """
    if reminder.is_lunar:
        first = date(reminder.year, reminder.month, reminder.day)
        return next_lunar_day(*_lunar_day_of(reminder), max(since, first))
    if reminder.recurrence is Recurrence.YEARLY:
        year = max(since.year, reminder.year)
        months = [(year, reminder.month), (year + 1, reminder.month)]
    else:
        first = date(reminder.year, reminder.month, reminder.day)
        if reminder.recurrence is Recurrence.NONE:
            return first if first >= since else None
        since = max(since, first)
        if reminder.recurrence is Recurrence.WEEKLY:
            ahead = (first - since).days % _WEEK
            return since + timedelta(days=ahead) if (date.max - since).days >= ahead else None
        months = [(since.year, since.month), (since.year + since.month // _MONTHS, since.month % _MONTHS + 1)]
    days = (_day_of_month(year, month, reminder.day) for year, month in months if year <= date.max.year)
    return next((day for day in days if day >= since), None)


def is_to_come(reminder: Reminder | None, now: datetime) -> bool:
    """Return whether it is due at *now* or later, or was missed so lately that it may still be listed as overdue."""
    if reminder is None:
        return False
    return next_day(reminder, now.astimezone(UTC).date() - timedelta(days=OVERDUE_DAYS + 1)) is not None


def short_term_end(reminder: Reminder | None, valid_from: datetime | None, now: datetime) -> datetime | None:
    """Return when a SHORT_TERM memory that is written *now* expires; None: never.

    Not before its reminder, and not before it is valid: `SHORT_TERM_DAYS` after the latest of the write, the day of the
    reminder and *valid_from*.
    """
    begins = now if valid_from is None else max(now, valid_from)
    if reminder is not None:
        if reminder.recurrence is not Recurrence.NONE or reminder.year > YEARS[1]:
            return None
        begins = max(begins, datetime(reminder.year, reminder.month, reminder.day, tzinfo=UTC))
    lifetime = timedelta(days=SHORT_TERM_DAYS)
    return None if begins > datetime.max.replace(tzinfo=UTC) - lifetime else begins + lifetime


# The Chinese lunisolar calendar. The library takes 20 ms to import, so only what needs it does.


@lru_cache(maxsize=1024)
def lunar_day(day: date) -> tuple[int, int, bool] | None:
    """Return month and day of *day* in the Chinese lunisolar calendar, and whether that month is a leap month.

    None: the year is not between those of `LUNAR_YEARS`.
    """
    from borax.calendars.lunardate import LunarDate  # noqa: PLC0415 - see above

    if not LUNAR_YEARS[0] < day.year < LUNAR_YEARS[1]:
        return None
    found = LunarDate.from_solar_date(day.year, day.month, day.day)
    return found.month, found.day, bool(found.leap)


def next_lunar_day(month: int, day: int, since: date) -> date | None:
    """Return the next day with this month and day of the lunisolar calendar, not before *since*; None: not known.

    The 30th of a month without it is the 29th.
    """
    from borax.calendars.lunardate import LCalendars, LunarDate  # noqa: PLC0415 - see above

    if not (1 <= month <= _MONTHS and 1 <= day <= _SHORT_LUNAR_MONTH + 1 and since.year > LUNAR_YEARS[0]):
        return None
    for year in range(since.year - 1, min(since.year + 2, LUNAR_YEARS[1])):
        longest = LCalendars.ndays(year, month)
        found = LunarDate(year, month, min(day, longest)).to_solar_date()
        if found >= since:
            return date(found.year, found.month, found.day)
    return None


def solar_term(name: str, since: date) -> date | None:
    """Return the next day of one of the 24 solar terms, such as 清明, not before *since*; None: not known."""
    from borax.calendars.lunardate import TermUtils  # noqa: PLC0415 - see above

    for year in range(since.year, min(since.year + 2, LUNAR_YEARS[1])):
        found = TermUtils.nth_term_day(year, TermUtils.get_index_for_name(name)) if year > LUNAR_YEARS[0] else None
        if found is not None and found >= since:
            return date(found.year, found.month, found.day)
    return None


def lunar_start(day: date, number: int) -> date:
    """Return *day*, or the last one before it on the 30th of the same month, if *number* is 30 and this month has 29.

    A yearly reminder takes its day of the lunisolar calendar from its date, so that has to be the 30th.
    """
    found = lunar_day(day)
    if found is None or found[1] >= number:
        return day
    for year in range(day.year - 1, LUNAR_YEARS[0] + 1, -1):
        # The month begins up to a month earlier or later than that of another year.
        earlier = next_lunar_day(found[0], number, date(year, day.month, 1) - _SHORT_LUNAR_MONTH * _DAY)
        if earlier is not None and earlier < day and lunar_day(earlier) == (found[0], number, False):
            return earlier
    return day


def _lunar_day_of(reminder: Reminder) -> tuple[int, int]:
    """Return month and day of a reminder of the lunisolar calendar; that of a leap month is of the month before it."""
    found = lunar_day(date(reminder.year, reminder.month, reminder.day))
    return (reminder.month, reminder.day) if found is None else found[:2]


def _lunar_numbers(day: date) -> Iterator[int]:
    """Yield the numbers of the reminders of the lunisolar calendar that are due on *day*."""
    found = lunar_day(day)
    if found is not None and not found[2]:
        yield _lunar_number(*found[:2])
        following = lunar_day(day + _DAY)
        if found[1] == _SHORT_LUNAR_MONTH and (following is None or following[1] == 1):
            yield _lunar_number(found[0], found[1] + 1)


def _lunar_number(month: int, day: int) -> int:
    return _LUNAR + month * 100 + day


def _day_of_month(year: int, month: int, day: int) -> date:
    return date(year, month, min(day, calendar.monthrange(year, month)[1]))


def due_occurrence(reminder: Reminder, moment: Moment, given: AbstractSet[Given]) -> Occurrence | None:
    """Return what of a reminder is to be given at a *moment*, after what was *given* already; None: nothing.

    On its day that is the latest of its slots that has begun. After it, one that was in no slot of its day
    acknowledged is overdue for some days, unless it recurs. When the moment looks ahead, it is else the first slot to
    come within those days that was not acknowledged.
    """
    zone = _zone(reminder, moment)
    local = moment.now.astimezone(zone)
    today, present = local.date(), moment.slot or slot_of(local.hour)
    if reminder.recurrence is Recurrence.NONE and (day := _missed_day(reminder, today, moment.overdue_days)):
        if any(when == day for when, _ in given):
            return None
        slot = slots_of(reminder)[-1]
        return Occurrence(day, slot, due_time(reminder, day, slot, zone), is_overdue=True)
    begun = _begun(reminder, present)
    if begun and occurs_on(reminder, today) and (today, begun[-1]) not in given:
        is_over = begun[-1] is not present
        return Occurrence(today, begun[-1], due_time(reminder, today, begun[-1], zone), is_overdue=is_over)
    return _upcoming(reminder, (today, present), moment.days_ahead, zone, given) if moment.days_ahead else None


def _begun(reminder: Reminder, present: Slot) -> list[Slot]:
    return [slot for slot in slots_of(reminder) if present is Slot.AFTERNOON or slot is Slot.MORNING]


def _upcoming(
    reminder: Reminder, present: Given, days: int, zone: tzinfo, given: AbstractSet[Given]
) -> Occurrence | None:
    """Return the first occurrence after the *present* slot, within *days*, that was not acknowledged."""
    today, slot_now = present
    day = next_day(reminder, today)
    while day is not None and (day - today).days <= days:
        begun = _begun(reminder, slot_now) if day == today else []
        slots = [slot for slot in slots_of(reminder) if slot not in begun and (day, slot) not in given]
        if slots:
            return Occurrence(day, slots[0], due_time(reminder, day, slots[0], zone))
        day = None if day == date.max else next_day(reminder, day + _DAY)
    return None


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
