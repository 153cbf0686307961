"""Values that can be compared: numbers, dates, times, names, in English and Chinese."""

from __future__ import annotations

import re

from memsvc.domain.conflicts import ValuePart
from memsvc.text.facts.lexicon import words

MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul", "august aug",
            "september sept sep", "october oct", "november nov", "december dec",
        ),
        start=1,
    )
    for name in names.split()
}  # fmt: skip
WEEKDAYS = {
    name: number
    for number, names in enumerate(("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"))
    for name in (names, f"{names}s")
}
NUMBERS = {
    word: number
    for number, word in enumerate(
        words("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen")
    )
}
_HAN_NUMBERS = {"零": 0, "一": 1, "二": 2, "两": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9}
_HAN_WEEKDAYS = {"一": 0, "二": 1, "三": 2, "四": 3, "五": 4, "六": 5, "日": 6, "天": 6}
_HAN_NUMBER = r"[零一二两三四五六七八九十]{1,3}|\d+"
_AFTERNOON = ("下午", "晚上", "傍晚", "夜里")
_NOON = 12

_MONTH = rf"(?P<month>{'|'.join(sorted(MONTHS, key=len, reverse=True))})"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_ENGLISH_DATES = (
    re.compile(rf"\b{_MONTH}\.?\s+(?:the\s+)?{_DAY}\b(?:,?\s*(?P<year>\d{{4}}))?", re.IGNORECASE),
    re.compile(rf"\b{_DAY}\s+(?:of\s+)?{_MONTH}\b(?:,?\s*(?P<year>\d{{4}}))?", re.IGNORECASE),
)
_NUMERIC_DATE = re.compile(r"\b(?P<year>\d{4})[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})\b")
_BARE_MONTH = re.compile(
    r"\b(?P<month>January|February|March|April|May|June|July|August|September|October|November|December)\b"
)
_HAN_DATE = re.compile(
    rf"(?:(?P<year>\d{{4}})年)?(?P<month>{_HAN_NUMBER})月份?(?:(?P<day>{_HAN_NUMBER})[日号])?(?:底|初|中旬)?"
)
_TIME = re.compile(r"\b(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?\s*(?P<half>am|pm|a\.m\.|p\.m\.|o'clock)", re.IGNORECASE)
_CLOCK = re.compile(r"\b(?P<hour>\d{1,2}):(?P<minute>\d\d)\b")
_HAN_TIME = re.compile(
    rf"(?P<half>早上|上午|中午|下午|晚上|傍晚|凌晨|夜里)?(?P<hour>{_HAN_NUMBER})点(?:(?P<minute>半|一刻|\d+分)|整|钟)?"
)
_WEEKDAY = re.compile(rf"\b({'|'.join(WEEKDAYS)})\b", re.IGNORECASE)
_HAN_WEEKDAY = re.compile(r"(?:周|星期|礼拜)([一二三四五六日天])")
_COUNTED = re.compile(
    r"\b(?P<thing>room|floor|level|building|rack|gate|platform|track|lane|desk|table|page|chapter|section|step|line|bay"
    r"|aisle|hall|suite|apartment|unit|exit|terminal|seat|row|slot|shelf|box|studio|office|phase|track|group|team|ward)"
    r"\s+(?:no\.?\s+|number\s+|#)?(?P<number>\d+[a-z]?)\b",
    re.IGNORECASE,
)
"""A number that names a thing, and measures nothing."""
_WEEKLY = re.compile(r"\b(?:every|each)\s+$", re.IGNORECASE)
_AMOUNT = re.compile(r"(?<![\w.])[$€£¥]?(?P<number>\d[\d,]*(?:\.\d+)?)\s*(?P<unit>%|[^\W\d_]+(?:\s+per\s+\w+|/\w+)?)?")
_HAN_AMOUNT = re.compile(
    r"(?P<number>[零一二两三四五六七八九十百千万]{1,6})(?P<unit>个|次|元|块|人|天|小时|分钟|公里|岁)"
)


def parse_value(text: str) -> tuple[ValuePart, ...]:
    """Return the date, weekday, time and amount that *text* names, each sort at most once, in order of the sorts.

    The sort "weekly" beside a weekday says that it is meant of every week.
    """
    found: dict[str, str] = {}
    rest = text
    for take in (_take_counted, _take_date, _take_weekday, _take_time, _take_amount):
        rest = take(rest, found)
    return tuple(ValuePart(sort, found[sort]) for sort in sorted(found))


def han_number(text: str) -> int:
    """Return the number up to 99 that *text* writes, in digits or in Han numerals."""
    if text.isdigit():
        return int(text)
    tens, ten, ones = text.rpartition("十")
    if not ten:
        return int("".join(str(_HAN_NUMBERS.get(digit, 0)) for digit in text) or 0)
    return _HAN_NUMBERS.get(tens, 1) * 10 + (_HAN_NUMBERS.get(ones, 0) if ones else 0)


def _take_counted(text: str, found: dict[str, str]) -> str:
    match = _COUNTED.search(text)
    if match is None:
        return text
    found[match["thing"].lower()] = match["number"].lower()
    return text[: match.start()] + " " + text[match.end() :]


def _take_date(text: str, found: dict[str, str]) -> str:
    for pattern in (_NUMERIC_DATE, *_ENGLISH_DATES, _HAN_DATE, _BARE_MONTH):
        match = pattern.search(text)
        if match is not None:
            named = match.groupdict()
            day = named.get("day")
            date = f"{_month(named['month']):02}" + (f"-{han_number(day):02}" if day else "")
            found["date" if day else "month"] = date
            if named.get("year"):
                found["year"] = str(named["year"])
            return text[: match.start()] + " " + text[match.end() :]
    return text


def _month(name: str) -> int:
    return MONTHS.get(name.lower()) or han_number(name)


def _take_weekday(text: str, found: dict[str, str]) -> str:
    match = _WEEKDAY.search(text) or _HAN_WEEKDAY.search(text)
    if match is None:
        return text
    name = match[1].lower()
    found["weekday"] = str(WEEKDAYS[name] if name in WEEKDAYS else _HAN_WEEKDAYS[name])
    before = text[: match.start()]
    if name.endswith("days") or before.endswith("每") or _WEEKLY.search(before):
        found["weekly"] = "weekly"
    return text[: match.start()] + " " + text[match.end() :]


def _take_time(text: str, found: dict[str, str]) -> str:
    match = _TIME.search(text) or _CLOCK.search(text) or _HAN_TIME.search(text)
    if match is None:
        return text
    named = match.groupdict()
    hour, half = han_number(named["hour"]), (named.get("half") or "").lower()
    if (half.startswith("p") or half in _AFTERNOON) and hour < _NOON:
        hour += _NOON
    minute = {"半": "30", "一刻": "15"}.get(named["minute"] or "", (named["minute"] or "0").rstrip("分"))
    found["time"] = f"{hour:02}:{int(minute):02}"
    return text[: match.start()] + " " + text[match.end() :]


def _take_amount(text: str, found: dict[str, str]) -> str:
    match = _AMOUNT.search(text)
    if match is None:
        match = _HAN_AMOUNT.search(text)
    if match is None:
        words = [word for word in re.findall(r"[a-z-]+", text.lower().replace("one of", "")) if word in NUMBERS]
        if len(words) == 1:
            found["amount"] = str(NUMBERS[words[0]])
        return text
    digits = match["number"].replace(",", "")
    unit = (match["unit"] or "").lower().rstrip("s")
    found[f"amount {unit}".strip()] = digits if digits[0].isdigit() else str(han_number(digits))
    return text
