"""Days named in a sentence, also by how far off they are, and times of day."""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from memsvc.domain.memory import Slot
from memsvc.domain.reminders import is_day
from memsvc.text.ranking_cues import han_number, placed_dates

_WEEKDAYS = {name.lower(): number for number, name in enumerate(calendar.day_name)}
_HAN_WEEKDAYS = "一二三四五六"
_NUMBERS = {"a": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "ten": 10}
_NUMBER = rf"(?:\d{{1,3}}|{'|'.join(_NUMBERS)})"
_HAN_NUMBER = "(?:[0-9]{1,3}|[一二两三四五六七八九十]{1,3})"
_WEEK_DAYS = 7
_HOURS, _NOON, _MINUTES, _DECEMBER = 24, 12, 60, 12

_RELATIVE = re.compile(
    rf"\b(?:(?P<overmorrow>the day after tomorrow)|(?P<tomorrow>tomorrow)|(?P<today>today|tonight|this (?:morning|"
    rf"afternoon|evening))|in (?P<in>{_NUMBER}) (?P<unit>days?|weeks?)|(?P<from>{_NUMBER}) (?P<unit2>days?|weeks?) "
    rf"from (?:now|today)|(?P<which>(?:this coming|this|next|coming)\s+)?(?P<weekday>{'|'.join(_WEEKDAYS)})"
    r"|(?:the )?(?P<monthday>\d{1,2})(?:st|nd|rd|th) of (?P<month>next|this) month)\b"
    r"|(?P<大>大?后天)|(?P<明>明[天日早晚])|(?P<今>今[天日早晚])|"
    rf"(?P<后>{_HAN_NUMBER})(?P<量>天|日|个?(?:周|星期|礼拜))[之以]?后|"
    r"(?P<下>下下|下|这|本)?个?(?:周|星期|礼拜)(?P<周>[一二三四五六日天])"
    rf"|(?P<月>下个?月|这个月|本月)(?P<号>{_HAN_NUMBER})[日号號]",
    re.IGNORECASE,
)
_UNCLEAR = re.compile(r"(?<![\d/.])\d{1,2}/\d{1,2}(?:/\d{2,4})?(?![\d/])")
"""Which of them is the month is unknown."""
_CLOCK = re.compile(
    r"\b(?P<hour>\d{1,2})(?::(?P<minute>[0-5]\d))?\s*(?P<half>[ap])\.?m\b\.?"
    r"|(?<![\d:])(?P<hour24>[01]?\d|2[0-3]):(?P<minute24>[0-5]\d)(?![\d:])|\b(?P<noon>noon|midday)\b",
    re.IGNORECASE,
)
_HAN_CLOCK = re.compile(
    r"(?P<part>凌晨|早上|早晨|上午|中午|下午|傍晚|晚上|[明今][早晚])?\s*"
    rf"(?P<hour>{_HAN_NUMBER})\s*(?:点钟?|點|时|時)(?P<minute>半|一刻|三刻|{_HAN_NUMBER}(?=分))?"
)
_PARTS = re.compile(
    r"\b(?P<am>(?:in the|tomorrow|this|\w+day) morning)\b"
    r"|\b(?P<pm>(?:in the|tomorrow|this|\w+day) (?:afternoon|evening)|tonight)\b"
    r"|(?P<早>早上|早晨|上午|[明今]早)|(?P<晚>下午|傍晚|晚上|[明今]晚)",
    re.IGNORECASE,
)
_LATE = ("下午", "傍晚", "晚上", "今晚", "明晚")
_HAN_MINUTES = {"半": 30, "一刻": 15, "三刻": 45}


@dataclass(frozen=True, slots=True)
class NamedDay:
    """A day as a sentence names it, at these offsets; a part that is not said is 0.

    Attributes:
        exact: The day, when the sentence says which one of all it is.
    """

    start: int
    end: int
    month: int = 0
    day: int = 0
    year: int = 0
    exact: date | None = None

    @property
    def is_clear(self) -> bool:
        """Return whether it is one day, or one of every year: neither a month nor 3/5, which may be in March or May."""
        return self.day > 0


def named_days(text: str, today: date) -> list[NamedDay]:
    """Return the days that *text* names, in order; those that are off from *today* reckon weeks from Monday on.

    "Next Friday" and 下周五 are the Friday of the next week, "Friday" is the first one after *today*, and 这周五 may
    have been already.
    """
    found = [_absolute(*placed) for placed in placed_dates(text)]
    found += [one for match in _RELATIVE.finditer(text) if (one := _relative(match, today)) is not None]
    found += [NamedDay(*match.span()) for match in _UNCLEAR.finditer(text)]
    return list(_apart(sorted(found, key=lambda one: (one.start, -one.end))))


def time_of_day(text: str) -> tuple[int | None, Slot | None]:
    """Return the only time of day that *text* names, in minutes since midnight, and the part of the day it names."""
    minutes = [_minute(match) for match in _CLOCK.finditer(text)]
    minutes += [_han_minute(match) for match in _HAN_CLOCK.finditer(text)]
    known = [minute for minute in minutes if minute is not None]
    minute = known[0] if len(known) == 1 else None
    parts = {Slot.MORNING if match["am"] or match["早"] else Slot.AFTERNOON for match in _PARTS.finditer(text)}
    return minute, parts.pop() if len(parts) == 1 else None


def _absolute(start: int, end: int, mention: object) -> NamedDay:
    year, month, day = (getattr(mention, name) or 0 for name in ("year", "month", "day"))
    exact = date(year, month, day) if year and day else None
    return NamedDay(start, end, month, day, year, exact)


def _apart(found: list[NamedDay]) -> Iterator[NamedDay]:
    end = 0
    for one in found:
        if one.start >= end:
            yield one
            end = one.end


def _relative(match: re.Match[str], today: date) -> NamedDay | None:
    day = _off(match, today)
    return None if day is None else NamedDay(*match.span(), day.month, day.day, day.year, day)


def _off(match: re.Match[str], today: date) -> date | None:
    if match["weekday"] or match["周"]:
        return _weekday(match, today)
    if match["monthday"] or match["号"]:
        is_next = (match["month"] or "").lower() == "next" or "下" in (match["月"] or "")
        return _of_month(today, int(match["monthday"] or han_number(match["号"])), is_next=is_next)
    if number := match["in"] or match["from"] or match["后"]:
        unit = match["unit"] or match["unit2"] or match["量"]
        days = _WEEK_DAYS if unit[0].lower() == "w" or unit[-1] in "周期拜" else 1
        return today + timedelta(days=days * _number(number))
    ahead = 0
    if match["overmorrow"] or match["大"]:
        ahead = 3 if (match["大"] or "").startswith("大") else 2
    elif match["tomorrow"] or match["明"]:
        ahead = 1
    return today + timedelta(days=ahead)


def _weekday(match: re.Match[str], today: date) -> date:
    """Return the day of a week that is named, on its own the next one."""
    han = match["周"]
    name = _HAN_WEEKDAYS.find(han) % _WEEK_DAYS if han else _WEEKDAYS[match["weekday"].lower()]
    monday = today - timedelta(days=today.weekday())
    which = (match["下"] or match["which"] or "").strip().lower()
    weeks = {"next": 1, "下": 1, "下下": 2, "这": 0, "本": 0}.get(which)
    if weeks is not None:
        return monday + timedelta(days=weeks * _WEEK_DAYS + name)
    ahead = (name - today.weekday()) % _WEEK_DAYS
    return today + timedelta(days=ahead if ahead or which == "this" else _WEEK_DAYS)


def _of_month(today: date, day: int, *, is_next: bool) -> date | None:
    year, month = divmod(today.year * _DECEMBER + today.month - 1 + is_next, _DECEMBER)
    return date(year, month + 1, day) if is_day(year, month + 1, day) else None


def _number(text: str) -> int:
    if text.isdecimal():
        return int(text)
    return _NUMBERS.get(text.lower()) or han_number(text.replace("两", "二"))


def _minute(match: re.Match[str]) -> int | None:
    if match["noon"]:
        return _NOON * _MINUTES
    if match["hour24"]:
        return int(match["hour24"]) * _MINUTES + int(match["minute24"])
    hour = int(match["hour"])
    if not 1 <= hour <= _NOON:
        return None
    return (hour % _NOON + (_NOON if match["half"].lower() == "p" else 0)) * _MINUTES + int(match["minute"] or 0)


def _han_minute(match: re.Match[str]) -> int | None:
    hour, part = _number(match["hour"]), match["part"] or ""
    if part in _LATE and hour < _NOON:
        hour += _NOON
    if hour >= _HOURS or (not part and hour <= _NOON // 2):
        return None
    said = match["minute"] or ""
    minute = _HAN_MINUTES.get(said) or (_number(said) if said else 0)
    return hour * _MINUTES + minute if minute < _MINUTES else None
