"""Moments and days on the command line: ISO 8601, and a few words for them; the machine's time zone."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any, TypeVar

import typer

from memsvc.cli.errors import print_error

MOMENT_FORMS = (
    'YYYY-MM-DD, "YYYY-MM-DD HH:MM" (with Z or +HH:MM for a zone), now, today, yesterday, tomorrow, "tomorrow 9:00", '
    '"2 hours ago", "in 3 days"'
)
DAY_FORMS = 'YYYY-MM-DD, MM-DD for every year, today, tomorrow, a day of the week, "in 3 days" or "in 2 hours"'
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DAYS: Mapping[str, int] = {
    "yesterday": -1, "today": 0, "tomorrow": 1,
    "昨天": -1, "今天": 0, "明天": 1, "后天": 2,
}  # fmt: skip
_UNITS: Mapping[str, timedelta] = {
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
}
T = TypeVar("T")
_SPAN = rf"(?P<count>\d{{1,6}}|an?)\s+(?P<unit>{'|'.join(_UNITS)})s?"
_AGO, _IN = re.compile(rf"{_SPAN}\s+ago"), re.compile(rf"in\s+{_SPAN}")
_DAY_AND_TIME = re.compile(rf"(?P<day>{'|'.join(_DAYS)})?\s*(?:at\s+)?(?P<time>\d\d?:\d\d)?")


def moment_option(text: str) -> Any:
    """Return an option of a moment with the help *text*."""
    return typer.Option(parser=parse_moment, metavar="TIME", help=text)


def parse_moment(text: str, *, now: Callable[[], datetime] = datetime.now) -> datetime:
    """Return the moment that an option names, without a zone where it is local time.

    Raises:
        typer.BadParameter: It names none; the message lists the forms.
    """
    words, moment = " ".join(text.lower().split()), now()
    try:
        if words == "now":
            return moment
        if (span := _span(words)) is not None:
            return _after(moment, span)
        found = _DAY_AND_TIME.fullmatch(words)
        if found and words:
            day = moment.date() + timedelta(days=_DAYS[found["day"]] if found["day"] else 0)
            return datetime.combine(day, _time(found["time"]))
        return datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError, OSError) as error:
        message = f"{text!r} is not a time. Allowed: {MOMENT_FORMS}."
        raise typer.BadParameter(message) from error


def parse_day(
    text: str, option: str, *, now: Callable[[], datetime] = datetime.now
) -> tuple[date | tuple[int, int], time | None]:
    """Return the day that *option* names, or a month and a day of every year, and a time if one is meant.

    Raises:
        typer.BadParameter: It names none; the message lists the forms.
    """
    words, moment = " ".join(text.lower().split()), now()
    try:
        if words in _DAYS and _DAYS[words] >= 0:
            return moment.date() + timedelta(days=_DAYS[words]), None
        if words.removeprefix("next ") in WEEKDAYS:
            # The next one, never today.
            ahead = (WEEKDAYS.index(words.removeprefix("next ")) - moment.weekday() - 1) % 7 + 1
            return moment.date() + timedelta(days=ahead), None
        if (span := _span(words)) is not None and span > timedelta():
            then = _after(moment, span)
            return then.date(), None if span % timedelta(days=1) == timedelta() else then.time()
        if re.fullmatch(r"\d\d-\d\d", words):
            leap = date.fromisoformat(f"2000-{words}")
            return (leap.month, leap.day), None
        return date.fromisoformat(words), None
    except (ValueError, OverflowError, OSError) as error:
        message = f"{text!r} is not a day. Allowed: {DAY_FORMS}."
        raise typer.BadParameter(message, param_hint=option) from error


def _span(words: str) -> timedelta | None:
    if found := _IN.fullmatch(words):
        sign = 1
    elif found := _AGO.fullmatch(words):
        sign = -1
    else:
        return None
    count = int(found["count"]) if found["count"].isdecimal() else 1
    return sign * count * _UNITS[found["unit"]]


def _after(moment: datetime, span: timedelta) -> datetime:
    """Return the local time a *span* later: whole days at the same time of day, hours and minutes as they pass.

    Between them clocks may be changed, so that an hour later is not the next hour of the day.
    """
    if span % timedelta(days=1) == timedelta():
        return moment + span
    return datetime.fromtimestamp(moment.timestamp() + span.total_seconds())  # noqa: DTZ006 - local time


def _time(text: str | None) -> time:
    hours, _, minutes = (text or "0:00").partition(":")
    return time(int(hours), int(minutes))


# Names of time zones.


MACHINE_ZONE = "[default: that of this machine; if that is UTC, that of the service]"
_ZONE_FOLDER = "zoneinfo/"
"""The folder of the files of zones, as it is named in links and in TZ."""
_UTC = frozenset({"", "UTC", "Etc/UTC", "UCT", "Etc/UCT", "Universal", "Etc/Universal", "Zulu", "Etc/Zulu"})


def is_time_zone(name: str) -> bool:
    """Return whether there is a time zone with this IANA name."""
    from memsvc.domain.field_rules import time_zone  # noqa: PLC0415 - a quick start

    return bool(name) and time_zone(name) is not None


def machine_time_zone(root: Path = Path("/")) -> str:
    """Return the IANA name of this machine's time zone: by TZ, /etc/localtime or /etc/timezone; empty if none has one.

    *root* is the folder that holds `etc`.
    """
    return next((name for name in _zone_candidates(root) if name and is_time_zone(name)), "")


def in_zone(named: str, ask: Callable[[str], T]) -> T:
    """Return what *ask* returns for a time zone, for that of this machine if none is named."""
    return ask(named) if named else in_machine_zone(ask)


def in_machine_zone(ask: Callable[[str], T]) -> T:
    """Return what *ask* returns for this machine's time zone; for none if it is UTC, so that the service's own holds.

    If the service does not know the zone, such as "US/Pacific" where the system has no names of earlier times, it gets
    the present offset from UTC, or no zone; that is written to stderr.
    """
    from memsvc.client import MemsvcCallError  # noqa: PLC0415 - a quick start

    zone = machine_time_zone()
    if zone in _UTC:
        return ask("")
    zones = dict.fromkeys((zone, _zone_of_offset(zone), ""))
    for each in zones:
        try:
            found = ask(each)
        except MemsvcCallError as error:
            fields = {violation.field.rpartition(".")[2] for violation in error.violations}
            if not each or fields != {"time_zone"}:
                raise
            continue
        if each != zone:
            print_error(
                f"memsvc: The service does not know this machine's time zone {zone!r} and uses {each or 'its own'}. "
                "Set TZ to another name, such as America/Los_Angeles."
            )
        return found
    raise AssertionError  # pragma: no cover - the last attempt returns or raises


def _zone_of_offset(zone: str) -> str:
    """Return the zone of the whole hours that *zone* is ahead of UTC now; empty if its offset has minutes."""
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - a quick start

    offset = datetime.now(ZoneInfo(zone)).utcoffset() or timedelta()
    hours = offset // timedelta(hours=1)
    # The signs of these names are those of POSIX.
    return f"Etc/GMT{-hours:+d}" if offset == timedelta(hours=hours) and hours else ""


def _zone_candidates(root: Path) -> Iterator[str]:
    yield _zone_name(os.environ.get("TZ", "").removeprefix(":"))
    # The target names the zone; a copy of a zone's file does not.
    with contextlib.suppress(OSError, RuntimeError):
        file = str((root / "etc" / "localtime").resolve())
        yield _zone_name(file) if _ZONE_FOLDER in file else ""
    try:
        yield (root / "etc" / "timezone").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return


def _zone_name(zone: str) -> str:
    """Return the name of a zone that may be given by its file."""
    return zone.rpartition(_ZONE_FOLDER)[2].removeprefix("posix/").removeprefix("right/")
