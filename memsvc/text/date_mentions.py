"""Dates named in text, and how well a moment answers them."""

from __future__ import annotations

import calendar
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from memsvc.text.analysis import is_han

__all__ = ["DateMention", "date_match", "date_terms", "han_number", "is_han", "mentioned_dates", "placed_dates"]

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip

SAME_DAY = 1.0
SOON_AFTER = 0.6
SOON_AFTER_DAYS = 7
SHORTLY_BEFORE = 0.3
SHORTLY_BEFORE_DAYS = 3
SAME_MONTH = 1.0
NEXT_MONTH = 0.4
NEXT_MONTH_DAYS = 10

_LEAP_YEAR = 2000
_CENTURY_DIGITS = 2
_PREFIX_LETTERS = 3
_HAN_DIGITS = "〇一二三四五六七八九"
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)(?![a-z])"
)
_DAY = r"\d{1,2}(?:st|nd|rd|th)?(?![\w:]|[./]\d)"
_YEAR = r"(?:\s*,\s*|\s+(?:of\s+)?)(?P<{}>(?:1[5-9]|20|21)\d\d)(?!\d)"
_ENGLISH = re.compile(
    rf"(?<![\d.:/])(?P<day1>{_DAY})[\s-]+(?:of\s+)?(?P<month1>{_MONTH})\.?(?:{_YEAR.format('year1')})?"
    rf"|(?<![a-z])(?P<month2>{_MONTH})\.?[\s-]+(?:the\s+)?(?P<day2>{_DAY})"
    rf"(?:\s*[-–]\s*{_DAY})?(?:{_YEAR.format('year2')})?"
    rf"|(?<![a-z])(?P<month3>{_MONTH})\.?{_YEAR.format('year3')}"
    rf"|(?<![a-z])(?P<month4>{_MONTH})",
    re.IGNORECASE | re.ASCII,
)
_NUMERIC = re.compile(
    r"(?<![\d./-])(?P<year>(?:1[5-9]|20|21)\d\d)(?:(?P<sep>[-/.])(?P<month>\d{1,2})(?P=sep)(?P<day>\d{1,2})"
    r"|-(?P<only>0[1-9]|1[0-2]))(?![\d/-])"
)
_HAN = re.compile(
    r"(?:(?<!\d)(?P<year>\d{4}|\d{2}|[〇零一二三四五六七八九]{4})\s*[年년]\s*)?"
    r"(?<!\d)(?P<month>\d{1,2}|[一二三四五六七八九十]{1,3})\s*[月월]份?"
    r"(?:\s*(?P<day>\d{1,2}|[一二三四五六七八九十]{1,3})\s*[日号號일])?"
)
_FULL_NAMES = frozenset(name.lower() for name in MONTHS) - {"may", "march"}
_BEFORE = re.compile(
    r"(?:\b(?:in|on|of|during|since|last|next|this|by|until|till|before|after|from|through|every|between|early|mid|late"
    r"|months?)[\s-]+|[–/]\s*)\Z",
    re.IGNORECASE,
)
_AFTER = re.compile(rf"\.?(?:\W*\Z|\s*(?:[-–/&]|,|\band|\bor|\bto)\s*(?:\d|{_MONTH})|\s*['’]\d\d)", re.IGNORECASE)
_VERB = re.compile(r"\s+(?:be|have|not|also)\b", re.IGNORECASE)
_LOOK_BEHIND = 12


@dataclass(frozen=True, slots=True)
class DateMention:
    """A date as named in text; a part that is not named is None."""

    year: int | None
    month: int | None
    day: int | None


def mentioned_dates(text: str) -> list[DateMention]:
    """Return the absolute dates of *text* that name at least a month, in order, each once.

    Understood are English ("8 May, 2023", "Sept. 3", "in June"), year-first numeric ("2023-05-08", "2023/5/8") and
    Chinese ("2023年5月", "五月八号") dates. "may" and "march" count only where a date is meant. Impossible dates and
    those whose order of day and month is unclear ("5/8/2023") are left out.
    """
    return list(dict.fromkeys(mention for *_, mention in placed_dates(text)))


def placed_dates(text: str) -> list[tuple[int, int, DateMention]]:
    """Return every mention of the dates of `mentioned_dates`, with its offsets."""
    found = [(*match.span(), _english(text, match)) for match in _ENGLISH.finditer(text)]
    if any(map(str.isdigit, text)):
        found += [(*match.span(), _numeric(match)) for match in _NUMERIC.finditer(text)]
    if not text.isascii():
        found += [(*match.span(), _chinese(match)) for match in _HAN.finditer(text)]
    found.sort(key=lambda place: place[0])
    return [(start, end, mention) for start, end, mention in found if mention and _is_possible(mention)]


def date_terms(moment: datetime, *, han: bool) -> str:
    """Return the day of *moment* as text to index: "8 May 2023", or "2023年5月8日" for Han text."""
    if han:
        return f"{moment.year}年{moment.month}月{moment.day}日"
    return f"{moment.day} {MONTHS[moment.month - 1]} {moment.year}"


def date_match(mentions: Sequence[DateMention], moment: datetime) -> float:
    """Return how well *moment* answers the best of *mentions*, in [0, 1]; 0 without mentions.

    A named day: the same day 1.0, up to 7 days after 0.6, up to 3 days before 0.3. Only a month: the same month 1.0,
    the first 10 days of the next 0.4. A mention without a year fits any year; a named year must be met, save that the
    days after may reach into the next.
    """
    return max((_match(mention, moment.date()) for mention in mentions), default=0.0)


def _english(text: str, match: re.Match[str]) -> DateMention | None:
    form = match.lastgroup or ""
    month = next(match[name] for name in ("month1", "month2", "month3", "month4") if match[name])
    day = match["day1"] or match["day2"]
    year = match["year1"] or match["year2"] or match["year3"]
    if form == "month4":
        if not _is_month(text, match):
            return None
    elif month in {"may", "march"} and not year and day.isdecimal():
        return None
    return DateMention(int(year) if year else None, _month_number(month), int(day.rstrip("stndrh")) if day else None)


def _is_month(text: str, match: re.Match[str]) -> bool:
    """Return whether a month's name without a number is a month, not a verb or a person."""
    if match[0].lower() in _FULL_NAMES:
        return True
    if match[0][0].islower() or _VERB.match(text, match.end()):
        return False
    before = text[max(0, match.start() - _LOOK_BEHIND) : match.start()]
    return bool(_BEFORE.search(before) or _AFTER.match(text, match.end()))


def _numeric(match: re.Match[str]) -> DateMention:
    day = match["day"]
    return DateMention(int(match["year"]), int(match["month"] or match["only"]), int(day) if day else None)


def _chinese(match: re.Match[str]) -> DateMention:
    year, day = match["year"], match["day"]
    return DateMention(_han_year(year) if year else None, han_number(match["month"]), han_number(day) if day else None)


def _han_year(digits: str) -> int:
    year = int("".join(_han_digit(digit) for digit in digits))
    return year + 2000 if len(digits) == _CENTURY_DIGITS else year


def han_number(numeral: str) -> int:
    """Return the value of "8", "八", "十八" or "二十八"; 0 for a numeral that is none."""
    if numeral.isdecimal():
        return int(numeral)
    tens, ten, ones = numeral.rpartition("十")
    if len(tens) > 1 or len(ones) > 1:
        return 0
    return (int(_han_digit(tens or "一")) * 10 if ten else 0) + int(_han_digit(ones or "〇"))


def _han_digit(digit: str) -> str:
    return digit if digit.isdecimal() else str(max(_HAN_DIGITS.find(digit), 0))


def _month_number(name: str) -> int:
    return next(
        number
        for number, month in enumerate(MONTHS, start=1)
        if month[:_PREFIX_LETTERS].lower() == name[:_PREFIX_LETTERS].lower()
    )


def _is_possible(mention: DateMention) -> bool:
    if mention.month is None or not 1 <= mention.month <= len(MONTHS):
        return False
    longest = calendar.monthrange(mention.year or _LEAP_YEAR, mention.month)[1]
    return mention.day is None or 1 <= mention.day <= longest


def _match(mention: DateMention, moment: date) -> float:
    years = [mention.year] if mention.year else [moment.year - 1, moment.year, moment.year + 1]
    if mention.day is None:
        return max(_month_match(year, mention.month, moment) for year in years)
    return max(_day_match(year, mention.month, mention.day, moment) for year in years)


def _day_match(year: int, month: int | None, day: int, moment: date) -> float:
    try:
        named = date(year, month or 0, day)
    except ValueError:  # 29 February of another year, or no month
        return 0.0
    days = (moment - named) // timedelta(days=1)
    if days == 0:
        return SAME_DAY
    if 0 < days <= SOON_AFTER_DAYS:
        return SOON_AFTER
    return SHORTLY_BEFORE if -SHORTLY_BEFORE_DAYS <= days < 0 else 0.0


def _month_match(year: int, month: int | None, moment: date) -> float:
    if month is None:
        return 0.0
    months = (moment.year - year) * len(MONTHS) + moment.month - month
    if months == 0:
        return SAME_MONTH
    return NEXT_MONTH if months == 1 and moment.day <= NEXT_MONTH_DAYS else 0.0
