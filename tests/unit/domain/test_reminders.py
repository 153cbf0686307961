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
    day_in,
    day_number,
    due_occurrence,
    due_time,
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


@given(st.integers(1900, 2999))
def test_29_february_is_the_28th_where_there_is_none(year: int) -> None:
    """In every year it is due on exactly one day."""
    leap = Reminder(2, 29)

    assert day_in(leap, year) == date(year, 2, 29 if isleap(year) else 28)
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

    for reminder in (once(day, time_zone=name), Reminder(day.month, day.day, time_zone=name)):
        assert slot_at(reminder, asked) is expected
        around, number = window(moment, 0), day_number(reminder)
        assert number in around.yearly or around.first <= number <= around.last


@FEW
@given(day=DAYS, moment=MOMENTS, zone=ZONES, days=st.integers(0, 30))
def test_nothing_is_due_that_is_not_looked_at(day: date, moment: datetime, zone: ZoneInfo, days: int) -> None:
    """The window holds all that can be due, and what is due is of the local day or overdue."""
    for reminder in (once(day), Reminder(day.month, day.day)):
        found = due_occurrence(reminder, Moment(moment, zone, overdue_days=days), frozenset())
        if found is None:
            continue
        around, number = window(moment, days), day_number(reminder)
        assert number in around.yearly or around.first <= number <= around.last
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
