"""Moments as people read them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest

from memsvc.text.context_phrases import day_text, local

FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
NEW_YORK, SHANGHAI = ZoneInfo("America/New_York"), ZoneInfo("Asia/Shanghai")


def test_clocks_show_the_time_of_their_zone() -> None:
    """As far as they can."""
    moment = datetime(2026, 2, 6, 20, tzinfo=UTC)

    assert local(moment, SHANGHAI).isoformat() == "2026-02-07T04:00:00+08:00"
    assert local(FIRST, SHANGHAI).date() == date.min
    assert local(LAST, NEW_YORK).date() == date.max


@pytest.mark.parametrize(("moment", "zone"), [(FIRST, NEW_YORK), (LAST, SHANGHAI)])
def test_before_the_first_and_after_the_last_year_it_is_utc(moment: datetime, zone: ZoneInfo) -> None:
    """No clock can show such a day."""
    shown = local(moment, zone)

    assert (shown.replace(tzinfo=None), shown.tzinfo) == (moment.replace(tzinfo=None), UTC)


@pytest.mark.parametrize(
    ("day", "text"), [(date(1, 1, 1), "0001-01-01"), (date(987, 12, 3), "0987-12-03"), (date(2026, 2, 6), "2026-02-06")]
)
def test_years_have_four_digits(day: date, text: str) -> None:
    """So that days are read and sorted alike on every system."""
    assert day_text(day) == text
    assert day_text(datetime(day.year, day.month, day.day, 23, tzinfo=UTC)) == text
