"""Moments and days as people write them."""

from __future__ import annotations

import time as time_module
from datetime import date, datetime, time

import pytest
import typer
from typer.testing import CliRunner

from memsvc.cli.app import app
from memsvc.cli.enums import Recurrence
from memsvc.cli.moments import parse_day, parse_moment
from memsvc.cli.reminders import reminder_field

NOW = datetime(2026, 2, 4, 22, 30)  # noqa: DTZ001 - local time; a Wednesday


def now() -> datetime:
    return NOW


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-02", "2026-01-02T00:00:00"),
        ("2026-01-02 09:30", "2026-01-02T09:30:00"),
        ("2026-01-02T09:30:15", "2026-01-02T09:30:15"),
        ("2026-01-02T09:30Z", "2026-01-02T09:30:00+00:00"),
        ("2026-01-02T09:30+08:00", "2026-01-02T09:30:00+08:00"),
        ("now", "2026-02-04T22:30:00"),
        ("Today", "2026-02-04T00:00:00"),
        ("yesterday", "2026-02-03T00:00:00"),
        ("tomorrow 9:00", "2026-02-05T09:00:00"),
        ("yesterday at 18:45", "2026-02-03T18:45:00"),
        ("昨天", "2026-02-03T00:00:00"),
        ("9:05", "2026-02-04T09:05:00"),
        ("2 hours ago", "2026-02-04T20:30:00"),
        ("an hour ago", "2026-02-04T21:30:00"),
        ("in 90 minutes", "2026-02-05T00:00:00"),
        ("in  a  week", "2026-02-11T22:30:00"),
    ],
)
def test_a_moment_is_read(text: str, moment: str) -> None:
    """ISO 8601 with and without a zone, and a few words."""
    assert parse_moment(text, now=now).isoformat() == moment


@pytest.mark.parametrize(
    ("moment", "text", "expected"),
    [
        ("2027-03-14T01:30:00-05:00", "in 2 hours", "2027-03-14T04:30:00-04:00"),
        ("2027-03-14T04:00:00-04:00", "2 hours ago", "2027-03-14T01:00:00-05:00"),
        ("2026-11-01T01:45:00-05:00", "30 minutes ago", "2026-11-01T01:15:00-05:00"),
        ("2026-11-01T01:45:00-05:00", "in 10 minutes", "2026-11-01T01:55:00-05:00"),
        ("2026-11-01T01:45:00-05:00", "now", "2026-11-01T01:45:00-05:00"),
        ("2027-03-13T09:00:00-05:00", "in 1 day", "2027-03-14T09:00:00-04:00"),
    ],
)
def test_hours_pass_while_clocks_are_changed(
    moment: str, text: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the days on which daylight saving time begins and ends. A day later is the same time of day."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "America/New_York")
        time_module.tzset()
        local = datetime.fromtimestamp(datetime.fromisoformat(moment).timestamp())  # noqa: DTZ006 - local time
        found = parse_moment(text, now=lambda: local).astimezone().isoformat()
    time_module.tzset()

    assert found == expected


@pytest.mark.parametrize(
    "text", ["soon", "", "at", "yesterday 25:00", "in 999999 weeks", "2026", "2 hours", "2026-02-30"]
)
def test_what_is_no_moment_is_answered_by_the_forms(text: str) -> None:
    """All of them, and the words that were given."""
    with pytest.raises(typer.BadParameter) as refused:
        parse_moment(text, now=now)

    assert refused.value.message.startswith(f"{text!r} is not a time. Allowed: YYYY-MM-DD, ")
    assert "yesterday" in refused.value.message


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2027-05-08", (date(2027, 5, 8), None)),
        ("05-08", ((5, 8), None)),
        ("02-29", ((2, 29), None)),
        ("today", (date(2026, 2, 4), None)),
        ("Tomorrow", (date(2026, 2, 5), None)),
        ("后天", (date(2026, 2, 6), None)),
        ("friday", (date(2026, 2, 6), None)),
        ("wednesday", (date(2026, 2, 11), None)),
        ("next monday", (date(2026, 2, 9), None)),
        ("in 3 days", (date(2026, 2, 7), None)),
        ("in 2 weeks", (date(2026, 2, 18), None)),
        ("in 2 hours", (date(2026, 2, 5), time(0, 30))),
    ],
)
def test_a_day_is_read(text: str, day: tuple[object, time | None]) -> None:
    """A span of hours has a time, too."""
    assert parse_day(text, "--remind", now=now) == day


@pytest.mark.parametrize("text", ["yesterday", "soon", "3 days ago", "in 0 days", "13-01", "2027-02-29"])
def test_what_is_no_day_to_come_is_answered_by_the_forms(text: str) -> None:
    """Days that are over cannot be reminded of by a word."""
    with pytest.raises(typer.BadParameter) as refused:
        parse_day(text, "--remind", now=now)

    assert refused.value.message.startswith(f"{text!r} is not a day. Allowed: YYYY-MM-DD, MM-DD for every year, ")


def test_a_reminder_of_hours_has_a_time() -> None:
    """The service gives it in the part of the day that it is in."""
    assert set(reminder_field("in 2 hours", None).get("reminder") or {}) == {"date", "time"}
    assert set(reminder_field("tomorrow", None).get("reminder") or {}) == {"date"}
    assert reminder_field("", None) == {}
    monthly = reminder_field("2027-01-31", Recurrence.MONTH)
    assert monthly == {"reminder": {"date": date(2027, 1, 31), "recurrence": "MONTHLY"}}


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (["add", "x", "--when", "soon"], "--when"),
        (["add", "x", "--remind", "soon"], "--remind"),
        (["list", "--as-of", "soon"], "--as-of"),
        (["reminders", "list", "--at", "soon"], "--at"),
        (["reminders", "ack", "ID", "soon"], "DATE"),
    ],
)
def test_the_option_is_named(command: list[str], option: str) -> None:
    """It is wrong usage."""
    told = CliRunner().invoke(app, command)

    assert told.exit_code == 2
    assert f"Invalid value for '{option}': 'soon' is not a " in told.stderr.replace(
        f"for {option}:", f"for '{option}':"
    )
    assert "Allowed: YYYY-MM-DD" in told.stderr
