"""Reminders that are asked for at a distance from a day: "remind me two days before", 提前两天提醒我."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta

from memsvc.domain.memory import Recurrence, Reminder, Slot
from memsvc.domain.reminders import is_day, lunar_day, next_day, slot_of
from memsvc.text.analysis import HAN
from memsvc.text.reminder_dates import months_after, number_of, time_of_day

_I = re.IGNORECASE
_TENS = {
    "fourteen": 14, "fifteen": 15, "twenty": 20, "thirty": 30, "forty": 40, "forty-eight": 48, "sixty": 60,
    "ninety": 90, "forty-five": 45,
}  # fmt: skip
_COUNT = rf"\d{{1,3}}|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|the|half an?|{'|'.join(_TENS)}"
_EN = re.compile(
    rf"(?<![\w.])(?:(?P<few>a few|several|(?:a )?couple of)|(?P<two>an? (?=\w+ or two\b))"
    rf"|(?:(?:{_COUNT})\s?(?:-|–|to|or)\s?)?(?P<count>{_COUNT}))\s?(?:full |whole |good )?"
    r"(?P<unit>min(?:ute)?s?|h(?:ou)?rs?|h|days?|nights?|evenings?|mornings?|afternoons?|w(?:ee)?ks?|fortnights?|months?"
    r"|years?)(?: or two)?(?:['’])? "
    r"(?:in advance|ahead|before(?:hand)?|prior|earlier(?=\s*(?:\Z|[,.;:!?)]|than\b))|(?P<after>after(?:wards)?))\b",
    _I,
)
_HAN_COUNT = "(?:[0-9]{1,3}(?:[-~到至][0-9]{1,3})?|[一二两三四五六七八九十]{1,3}|一个半|半|几)"
_HAN_UNIT = "(?:分钟|刻钟|个?(?:小时|钟头)|天|日|晚|个?(?:周|星期|礼拜)|个?月|个半月|年)"
_HAN_PART = "(?:的?(?P<part{}>晚上?|夜里|傍晚|下午|早上|早晨|上午|中午))?"
_HAN = re.compile(
    rf"(?:提[前早]|(?<![最今明后])早|(?:(?<=[{HAN}])|之|以)(?<![从目当我你他她它们])前)"
    rf"(?P<count>{_HAN_COUNT})(?P<unit>{_HAN_UNIT})(?!的?[都内里]){_HAN_PART.format('')}"
    rf"|(?<![{HAN}])前(?P<count2>{_HAN_COUNT})(?P<unit2>{_HAN_UNIT}){_HAN_PART.format(2)}"
    rf"(?=[^，。,；我你他她]{{0,8}}(?:提醒|叫|喊|再|记得)(?![过了]))"
    rf"|(?<=[{HAN}])(?<!过)(?P<count3>{_HAN_COUNT})(?P<unit3>{_HAN_UNIT})[之以]?前(?=就?(?:提醒|叫|喊|通知|告诉))"
    rf"|(?P<eve>头一?[天晚]|前一?晚){_HAN_PART.format(4)}"
    rf"|(?P<next>第二天|次日|后一天){_HAN_PART.format(5)}"
)
_FEW = {"a few": 3, "several": 3, "几": 3}
_MINUTES = {"min": 1, "h": 60, "分钟": 1, "刻钟": 15, "小时": 60, "钟头": 60}
_DAY_MINUTES, _NOON, _WEEK = 24 * 60, 12 * 60, 7
_MONTHS_OF_YEAR, _HALF_MONTH = 12, 15
_LAST_KEPT = 30
"""A monthly reminder of a later day is due on the last one of its month, from which no distance is kept."""
_PLAIN_YEAR, _LEAP_YEAR = 2001, 2000
_AFTER_LONG = (1, 2, 4, 6, 8, 9, 11)
"""The months after those of 31 days."""
_MOST_TRIES = 3


@dataclass(frozen=True, slots=True)
class Offset:
    """A distance from the day of an event, at these offsets of the text.

    Attributes:
        days: Whole days, negative before the event; likewise *months* and *minutes*. One of them is not 0.
        slot: The part of that day which is named with the distance: "the evening before".
    """

    start: int
    end: int
    days: int = 0
    months: int = 0
    minutes: int = 0
    slot: Slot | None = None


def offsets_in(text: str) -> Iterator[Offset]:
    """Yield the distances that *text* names, in order, those in English first."""
    found = [_in_english(match) for match in _EN.finditer(text)]
    if not text.isascii():
        found += [_in_chinese(match) for match in _HAN.finditer(text)]
    yield from (one for one in found if one.days or one.months or one.minutes)


def _in_english(match: re.Match[str]) -> Offset:
    few, said = (match["few"] or "").lower(), (match["count"] or "").lower()
    if few or match["two"]:
        count: float = _FEW.get(few, 2)
    elif said.startswith("half"):
        count = 0.5
    else:
        count = 1 if said == "the" else _TENS.get(said) or number_of(said)
    return _of_unit(match, count, match["unit"].lower(), is_before=match["after"] is None)


def _in_chinese(match: re.Match[str]) -> Offset:
    if match["next"]:
        return _of_unit(match, 1, "天", is_before=False)
    if match["eve"]:
        return _of_unit(match, 1, match["eve"][-1], is_before=True)
    said = match["count"] or match["count2"] or match["count3"]
    return _of_unit(match, _han_count(said), match["unit"] or match["unit2"] or match["unit3"], is_before=True)


def _han_count(said: str) -> float:
    if said in _FEW:
        return _FEW[said]
    if said in {"半", "一个半"}:
        return 0.5 if said == "半" else 1.5
    last = re.split("[-~到至]", said)[-1]
    # 两三天: the larger of two numbers.
    return number_of(last) or number_of(last[-1])


def _of_unit(match: re.Match[str], count: float, unit: str, *, is_before: bool) -> Offset:
    """Return the distance of a match; one that has no whole number of its unit is nothing."""
    sign = -1 if is_before else 1
    slot = _slot_of(unit, next((match[name] for name in _parts(match) if match[name]), ""))
    for name, minutes in _MINUTES.items():
        if unit.lstrip("个").startswith(name):
            total = int(count * minutes)
            days, rest = divmod(total, _DAY_MINUTES)
            return (
                Offset(*match.span(), sign * days) if days and not rest else Offset(*match.span(), minutes=sign * total)
            )
    if unit[0] == "y" or unit == "年":
        return Offset(*match.span(), months=sign * int(count * _MONTHS_OF_YEAR))
    if unit.startswith("month") or unit.endswith("月"):
        half = "半" in unit or count % 1
        return Offset(*match.span(), sign * _HALF_MONTH * bool(half), sign * int(count))
    length = 2 * _WEEK if unit.startswith("fortnight") else _WEEK if unit[0] == "w" or unit[-1] in "周期拜" else 1
    return Offset(*match.span(), sign * int(count * length), slot=slot)


def _parts(match: re.Match[str]) -> list[str]:
    return [name for name in match.re.groupindex if name.startswith("part")]


def _slot_of(unit: str, part: str) -> Slot | None:
    """Return the part of the day of "the evening before" or 前一天晚上."""
    if part:
        return Slot.MORNING if part in {"早上", "早晨", "上午", "中午"} else Slot.AFTERNOON
    if unit.startswith(("night", "evening", "afternoon")) or unit == "晚":
        return Slot.AFTERNOON
    return Slot.MORNING if unit.startswith("morning") else None


def moved_by(found: Reminder, offset: Offset, beside: str, today: date) -> Reminder:
    """Return a reminder at a distance from its day, at the time of day that *beside* names, if any.

    One that recurs stays so where its recurrence can be told from a day; else its next occurrence is moved. What would
    be over by *today* stays on its day.
    """
    if offset.minutes:
        return _moved_by_minutes(found, offset, today)
    moved = _moved_by_days(found, offset, today)
    if moved is None:
        return found
    minute, part = time_of_day(beside)
    is_evening = offset.slot is Slot.AFTERNOON
    if minute is not None and is_evening and minute < _NOON:
        minute += _NOON
    slot = offset.slot or part if minute is None else slot_of(minute // 60)
    return replace(moved, minute=minute, slot=slot)


def _moved_by_minutes(found: Reminder, offset: Offset, today: date) -> Reminder:
    """Return a reminder so many minutes from its time of day; one without a time stays."""
    if found.minute is None:
        return found
    days, minute = divmod(found.minute + offset.minutes, _DAY_MINUTES)
    moved = _moved_by_days(found, Offset(offset.start, offset.end, days), today) if days else found
    if moved is None:
        return found
    return replace(moved, minute=minute, slot=None if found.slot is None else slot_of(minute // 60))


def _moved_by_days(found: Reminder, offset: Offset, today: date) -> Reminder | None:
    """Return a reminder on another day, not before *today*; None: there is none."""
    if found.is_lunar:
        place = lunar_day(date(found.year, found.month, found.day))
        keeps = place is not None and not offset.months and 0 < place[1] + offset.days < _LAST_KEPT
        return _on(found, offset) if keeps else _next_moved(found, offset, today)
    if found.recurrence is Recurrence.YEARLY:
        return _of_every_year(found, offset)
    if found.recurrence is Recurrence.MONTHLY:
        return _of_every_month(found, offset, today)
    moved = _on(found, offset)
    if found.recurrence is Recurrence.WEEKLY and moved is not None:
        ahead = max(0, (today - _day_of(moved)).days + _WEEK - 1) // _WEEK * _WEEK
        return None if offset.months else _on(moved, Offset(0, 0, ahead))
    return moved if moved is not None and _day_of(moved) >= today else None


def _of_every_year(found: Reminder, offset: Offset) -> Reminder | None:
    year = found.year or (_PLAIN_YEAR if is_day(_PLAIN_YEAR, found.month, found.day) else _LEAP_YEAR)
    moved = _on(replace(found, year=year), offset)
    return moved if moved is None or found.year else replace(moved, year=0)


def _of_every_month(found: Reminder, offset: Offset, today: date) -> Reminder | None:
    """Return a monthly reminder on an earlier or later day of the month; the day before the first is the last."""
    day = found.day + offset.days
    if not offset.months and found.day <= _LAST_KEPT and 0 < day <= _LAST_KEPT:
        return _on(found, offset)
    if not offset.months and day == 0:
        # The 31st of an earlier month: a monthly reminder of the 31st is due on the last day of each.
        return _on(replace(found, month=max(month for month in _AFTER_LONG if month <= found.month)), offset)
    return _next_moved(found, offset, today)


def _next_moved(found: Reminder, offset: Offset, today: date) -> Reminder | None:
    """Return the next occurrence of a reminder that recurs, moved, as a reminder of one day."""
    since: date | None = today
    for _ in range(_MOST_TRIES):
        day = None if since is None else next_day(found, since)
        if day is None:
            return None
        alone = replace(found, month=day.month, day=day.day, year=day.year, recurrence=Recurrence.NONE, is_lunar=False)
        moved = _on(alone, offset)
        if moved is not None and _day_of(moved) >= today:
            return moved
        since = None if day == date.max else day + timedelta(days=1)
    return None


def _day_of(found: Reminder) -> date:
    return date(found.year, found.month, found.day)


def _on(found: Reminder, offset: Offset) -> Reminder | None:
    """Return a reminder with its day moved; None: there is no such day."""
    day = months_after(_day_of(found), offset.months)
    if day is None or not 0 < day.toordinal() + offset.days <= date.max.toordinal():
        return None
    day += timedelta(days=offset.days)
    return replace(found, month=day.month, day=day.day, year=day.year)
