"""When reminders are due: slots, zones, leap days, clocks that are moved."""

from __future__ import annotations

from calendar import isleap
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from memsvc.domain.memory import Recurrence, Reminder, Slot
from memsvc.domain.reminders import (
    Given,
    Moment,
    Occurrence,
    day_number,
    due_occurrence,
    due_time,
    lunar_day,
    next_day,
    next_lunar_day,
    occurs_on,
    window,
)

MORNING, AFTERNOON = Slot.MORNING, Slot.AFTERNOON
ZONES = st.sampled_from(
    ["UTC", "Asia/Shanghai", "Europe/Berlin", "America/New_York", "Pacific/Kiritimati", "Pacific/Pago_Pago",
     "Asia/Kathmandu", "Australia/Lord_Howe", "America/Sao_Paulo", "Africa/Cairo", "Asia/Beirut"]
).map(ZoneInfo)  # fmt: skip
"""With the farthest offsets, odd ones, and clocks that are moved at midnight."""
DAYS = st.dates(date(2012, 1, 1), date(2040, 12, 31))
"""From 2012 on: at the end of 2011 Samoa left a day out."""
MOMENTS = st.builds(datetime.combine, st.dates(date(2012, 1, 2), date(2040, 12, 30)), st.times(), tzinfo=st.just(UTC))
FEW = settings(max_examples=60, deadline=None)


def once(day: date, **fields: object) -> Reminder:
    """Return a reminder of one day."""
    return Reminder(day.month, day.day, day.year, Recurrence.NONE, **fields)  # type: ignore[arg-type] # of Reminder


def recurring(day: date, **fields: object) -> list[Reminder]:
    """Return the reminders of every year, month, week and year of the lunisolar calendar that begin on a day."""
    kinds = [(Recurrence.YEARLY, False), (Recurrence.MONTHLY, False), (Recurrence.WEEKLY, False)]
    found = lunar_day(day)
    kinds += [(Recurrence.YEARLY, True)] if found is not None and not found[2] else []
    return [
        Reminder(day.month, day.day, day.year, kind, is_lunar=is_lunar, **fields)  # type: ignore[arg-type] # of Reminder
        for kind, is_lunar in kinds
    ]


def at(day: date, hour: int, minute: int = 0, zone: ZoneInfo | None = None) -> Moment:
    """Return the moment at that local time."""
    local = zone or ZoneInfo("UTC")
    return Moment(datetime.combine(day, time(hour, minute), local).astimezone(UTC), local)


def slot_at(reminder: Reminder, moment: Moment, *acknowledged: Given) -> Slot | None:
    """Return in which slot it is to be given then."""
    found = due_occurrence(reminder, moment, frozenset(acknowledged))
    return None if found is None else found.slot


@pytest.mark.parametrize(
    ("fields", "slots"),
    [
        ({}, (MORNING, MORNING, AFTERNOON, AFTERNOON)),
        ({"slot": MORNING}, (MORNING, MORNING, MORNING, MORNING)),
        ({"slot": AFTERNOON}, (None, None, AFTERNOON, AFTERNOON)),
        ({"minute": 9 * 60}, (MORNING, MORNING, MORNING, MORNING)),
        ({"minute": 15 * 60}, (MORNING, MORNING, AFTERNOON, AFTERNOON)),
    ],
    ids=str,
)
def test_a_day_has_two_slots(fields: dict[str, object], slots: tuple[Slot | None, ...]) -> None:
    """The morning ends at 15:00; what was not given in its only slot is overdue for the rest of the day."""
    day = date(2026, 3, 5)
    moments = [at(day, 0), at(day, 14, 59), at(day, 15), at(day, 23, 59)]

    assert slots == tuple(slot_at(once(day, **fields), moment) for moment in moments)
    overdue = due_occurrence(once(day, **fields), moments[-1], frozenset())
    assert overdue is not None
    assert overdue.is_overdue is (overdue.slot is MORNING)


def test_each_slot_is_given_once() -> None:
    """What is acknowledged is not due again in that slot; the other slot, and the next year, are."""
    day, yearly = date(2026, 3, 5), Reminder(3, 5)
    given = [(day, MORNING)]

    assert slot_at(yearly, at(day, 9), *given) is None
    assert slot_at(yearly, at(day, 16), *given) is AFTERNOON
    assert slot_at(yearly, at(day, 16), *given, (day, AFTERNOON)) is None
    assert slot_at(yearly, at(date(2027, 3, 5), 9), *given, (day, AFTERNOON)) is MORNING


def test_what_was_missed_is_overdue_for_some_days() -> None:
    """Of one day only, when it was given in no slot of its day, in the last of them."""
    day = date(2026, 3, 5)
    late = at(day + timedelta(days=7), 9)

    assert due_occurrence(once(day), late, frozenset()) == Occurrence(day, AFTERNOON, at(day, 15).now, is_overdue=True)
    assert slot_at(once(day), late, (day, MORNING)) is None
    assert slot_at(once(day), at(day + timedelta(days=8), 0)) is None
    assert slot_at(once(day), Moment(late.now, UTC, overdue_days=6)) is None
    assert slot_at(Reminder(3, 5), late) is None


def test_a_slot_can_be_asked_for() -> None:
    """Whatever the hour is."""
    day = date(2026, 3, 5)
    moment = at(day, 9).now

    assert slot_at(once(day), Moment(moment, UTC, AFTERNOON)) is AFTERNOON
    assert slot_at(once(day, slot=AFTERNOON), Moment(moment, UTC, MORNING)) is None


def test_a_yearly_one_begins_with_its_year() -> None:
    """A wedding of next year has no anniversary before."""
    assert [occurs_on(Reminder(3, 5, 2026), date(year, 3, 5)) for year in (2025, 2026, 2027)] == [False, True, True]


def test_a_day_that_a_month_does_not_have_is_its_last() -> None:
    """The 31st is the last day of every month, and the 30th is there in February, too."""
    last, late = (Reminder(1, day, 2026, Recurrence.MONTHLY) for day in (31, 30))
    starts = [date(2026, month, 1) for month in range(1, 6)]

    assert [next_day(last, day) for day in starts] == [
        date(2026, *day) for day in ((1, 31), (2, 28), (3, 31), (4, 30), (5, 31))
    ]
    assert [next_day(late, day) for day in starts[:3]] == [date(2026, 1, 30), date(2026, 2, 28), date(2026, 3, 30)]
    assert next_day(last, date(2025, 6, 1)) == date(2026, 1, 31)
    assert next_day(last, date(2027, 12, 31)) == date(2027, 12, 31)
    assert next_day(late, date(2027, 12, 31)) == date(2028, 1, 30)


def test_a_weekly_one_is_due_on_its_weekday_from_its_first_day_on() -> None:
    """Every seven days, not before the first."""
    weekly = Reminder(2, 6, 2026, Recurrence.WEEKLY)

    assert [next_day(weekly, date(2026, 2, day)) for day in (1, 6, 7, 13)] == [
        date(2026, 2, day) for day in (6, 6, 13, 13)
    ]
    assert next_day(weekly, date(9999, 12, 31)) == date(9999, 12, 31)
    assert next_day(Reminder(2, 5, 2026, Recurrence.WEEKLY), date(9999, 12, 31)) is None


@pytest.mark.parametrize(
    ("month", "day", "since", "expected"),
    [
        (1, 1, date(2026, 1, 1), date(2026, 2, 17)),
        (8, 15, date(2026, 2, 4), date(2026, 9, 25)),
        (8, 15, date(2026, 9, 26), date(2027, 9, 15)),
        (5, 5, date(2025, 1, 1), date(2025, 5, 31)),
        (6, 15, date(2025, 6, 1), date(2025, 7, 9)),
        (12, 23, date(2026, 11, 29), date(2027, 1, 30)),
        (12, 30, date(2025, 2, 1), date(2026, 2, 16)),
        (1, 1, date(2101, 1, 1), None),
    ],
)
def test_days_of_the_lunisolar_calendar_are_found(month: int, day: int, since: date, expected: date | None) -> None:
    """New Year and festivals as published; in 2025 there were two sixth months, of which the first counts."""
    assert next_lunar_day(month, day, since) == expected


def test_a_lunar_birthday_moves_from_year_to_year() -> None:
    """It recurs on the day of the other calendar, from its first day on."""
    birthday = Reminder(9, 25, 2026, is_lunar=True)

    assert next_day(birthday, date(2020, 1, 1)) == date(2026, 9, 25)
    assert next_day(birthday, date(2026, 9, 26)) == date(2027, 9, 15)
    assert not occurs_on(birthday, date(2027, 9, 25))


def test_what_comes_next_is_seen_ahead() -> None:
    """Within the days that are asked for: the next slot that was not acknowledged, once nothing is due."""
    day, zone = date(2026, 2, 4), ZoneInfo("UTC")
    weekly = Reminder(2, 6, 2026, Recurrence.WEEKLY)

    def ahead(days: int, *given: Given) -> tuple[date, Slot] | None:
        found = due_occurrence(weekly, Moment(at(day, 9).now, zone, days_ahead=days), frozenset(given))
        return None if found is None else (found.day, found.slot)

    friday, following = date(2026, 2, 6), date(2026, 2, 13)
    assert [ahead(days) for days in (0, 1, 2)] == [None, None, (friday, MORNING)]
    assert ahead(9, (friday, MORNING)) == (friday, AFTERNOON)
    assert ahead(8, (friday, MORNING), (friday, AFTERNOON)) is None
    assert ahead(9, (friday, MORNING), (friday, AFTERNOON)) == (following, MORNING)
    today = due_occurrence(once(day), Moment(at(day, 9).now, zone, days_ahead=9), frozenset([(day, MORNING)]))
    assert today is not None
    assert (today.day, today.slot, today.is_overdue) == (day, AFTERNOON, False)


@FEW
@given(day=DAYS, moment=MOMENTS, zone=ZONES, days=st.integers(1, 366))
def test_nothing_ahead_is_left_out(day: date, moment: datetime, zone: ZoneInfo, days: int) -> None:
    """What is due within some days is among those that are looked at, and is the first day not before today."""
    for reminder in (once(day), *recurring(day)):
        today = moment.astimezone(zone).date()
        expected = next_day(reminder, today)
        found = due_occurrence(reminder, Moment(moment, zone, overdue_days=0, days_ahead=days), frozenset())
        if expected is None or (expected - today).days > days:
            assert found is None
            continue
        assert found is not None
        assert found.day == expected
        around, number = window(moment, 0, days), day_number(reminder)
        assert number in around.recurring or around.first <= number <= around.last


@given(st.integers(1900, 2999))
def test_29_february_is_the_28th_where_there_is_none(year: int) -> None:
    """In every year it is due on exactly one day."""
    leap = Reminder(2, 29)

    assert next_day(leap, date(year, 1, 1)) == date(year, 2, 29 if isleap(year) else 28)
    assert occurs_on(leap, date(year, 2, 28)) is not isleap(year)


@FEW
@given(day=DAYS, zone=ZONES, hour=st.integers(0, 23), minute=st.integers(0, 59), asker=ZONES, own=st.booleans())
def test_it_is_due_on_its_day_in_every_zone(
    day: date, zone: ZoneInfo, hour: int, minute: int, asker: ZoneInfo, *, own: bool
) -> None:
    """At each local time of that day, whoever asks from wherever, and among those that are looked at then."""
    moment = datetime.combine(day, time(hour, minute), zone).astimezone(UTC)
    assume(moment.astimezone(zone).replace(tzinfo=None) == datetime.combine(day, time(hour, minute)))
    name = zone.key if own else ""
    asked = Moment(moment, asker if own else zone)
    expected = AFTERNOON if hour >= 15 else MORNING

    for reminder in (once(day, time_zone=name), *recurring(day, time_zone=name)):
        assert slot_at(reminder, asked) is expected
        around, number = window(moment, 0), day_number(reminder)
        assert number in around.recurring or around.first <= number <= around.last


@FEW
@given(day=DAYS, moment=MOMENTS, zone=ZONES, days=st.integers(0, 30))
def test_nothing_is_due_that_is_not_looked_at(day: date, moment: datetime, zone: ZoneInfo, days: int) -> None:
    """The window holds all that can be due, and what is due is of the local day or overdue."""
    for reminder in (once(day), *recurring(day)):
        found = due_occurrence(reminder, Moment(moment, zone, overdue_days=days), frozenset())
        if found is None:
            continue
        around, number = window(moment, days), day_number(reminder)
        assert number in around.recurring or around.first <= number <= around.last
        today = moment.astimezone(zone).date()
        assert timedelta() <= today - found.day <= timedelta(days=days)
        assert found.due_time <= moment + timedelta(days=1)


@FEW
@given(day=DAYS, zone=ZONES)
def test_a_yearly_one_is_due_once_in_each_slot_of_its_year(day: date, zone: ZoneInfo) -> None:
    """Asked every hour of the days around it, and acknowledged each time, it is given twice."""
    reminder, given = Reminder(day.month, day.day), set[Given]()
    start = datetime.combine(day, time(), zone).astimezone(UTC) - timedelta(days=2)
    told = []
    for hour in range(24 * 5):
        found = due_occurrence(reminder, Moment(start + timedelta(hours=hour), zone), given)
        if found is not None:
            given.add((found.day, found.slot))
            told.append(found.slot)

    assert told == [MORNING, AFTERNOON]


def test_a_time_that_clocks_skip_is_later() -> None:
    """02:30 is 03:30 on the morning on which 02:00 is 03:00; of 02:30 twice, it is the first."""
    berlin = ZoneInfo("Europe/Berlin")
    reminder = Reminder(3, 29, minute=150)

    assert due_time(reminder, date(2026, 3, 29), MORNING, berlin) == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    assert due_time(reminder, date(2026, 10, 25), MORNING, berlin) == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)


def test_a_day_whose_midnight_clocks_skip_has_its_slots() -> None:
    """In Cairo the day begins at 01:00 then."""
    day, cairo = date(2026, 4, 24), ZoneInfo("Africa/Cairo")
    first = datetime(2026, 4, 23, 22, tzinfo=UTC)

    assert first.astimezone(cairo).hour == 1
    assert due_occurrence(once(day), Moment(first, cairo), frozenset()) == Occurrence(day, MORNING, first)
    assert due_occurrence(once(day), Moment(first - timedelta(seconds=1), cairo), frozenset()) is None


@pytest.mark.parametrize("zone", ["Mars/Olympus", "Europe", "../x"])
def test_an_unknown_zone_is_that_of_who_asks(zone: str) -> None:
    """A machine may know fewer zones than the one on which it was written."""
    day = date(2026, 3, 5)

    assert slot_at(once(day, time_zone=zone), at(day, 9)) is MORNING
