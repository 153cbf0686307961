"""Cues of ranking that need no model: the kind of answer a question asks for, and whether a turn can hold it.

English and Chinese. Every cue is a number in 0..1 that a ranking multiplies with a weight.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cache, lru_cache
from math import log1p
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from memsvc.text.analysis import Script, is_han, script_of, simplified_form
from memsvc.text.facts.statements import facts_in
from memsvc.text.sentences import sentences

Integers: TypeAlias = npt.NDArray[np.int64]
Numbers: TypeAlias = npt.NDArray[np.float64]

_I = re.IGNORECASE

# Questions.

_WHEN_QUESTION = re.compile(
    r"\bwhen\b|\b(?:what|which) (?:day|date|week|month|season|year|time|weekend)\b|\bhow (?:long|recently)\b"
    r"|\bhow many (?:days|weeks|months|years|hours)\b|\bhow old\b"
    r"|什么时候|什么时间|啥时候|何时|哪[一]?[天年月日]|哪个[月星周]|几[点号月时]|几[天年]|多久|多长时间|星期几|周几|多大",
    _I,
)
_WHERE_QUESTION = re.compile(
    r"\bwhere\b|\b(?:what|which) (?:\w+ )?(?:city|cities|country|countries|state|town|place|places|location|area|street"
    r"|restaurant|school|hotel|park|beach)\b"
    r"|哪里|哪儿|何处|哪个(?:地方|城市|国家|学校|公司|公园|餐厅|省)|什么地方|去哪|在哪|到哪|哪[座家所]",
    _I,
)
_WHO_QUESTION = re.compile(r"\bwho(?:m|se|'s|’s)?\b|\bwhat is the name of\b|谁|哪位|什么人|哪个人|叫什么", _I)

# Turns. Patterns of letters in any case search the lower-cased text: IGNORECASE takes five times as long.

_HAN = re.compile("[\u4e00-\u9fff]")
"""What every match of a Chinese pattern holds."""
_UNIT = r"(?:second|minute|hour|day|night|week|weekend|month|year|decade|summer|winter|spring|autumn|fall|semester)s?"
_WEEKDAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?"
_MONTH = (
    r"(?:january|february|march|april|june|july|august|september|october|november|december"
    r"|(?:in|last|next|this|since|of|early|late) may|may \d)"
)
_NUMBER = r"(?:\d+|a|an|one|two|three|four|five|six|seven|eight|nine|ten|few|couple of|several|many)"
_TIME_WORD = re.compile(
    rf"\b(?:yesterday|today|tonight|tomorrow|recently|lately|{_WEEKDAY}|{_MONTH}|birthday|anniversary|christmas|easter"
    rf"|thanksgiving|halloween|new year(?:'s|’s)?|(?:last|next|this|past|coming|previous|following|every|the other)"
    rf" (?:{_UNIT}|morning|evening|afternoon|time)|{_NUMBER} {_UNIT}|since|ago|(?:in|by|since|until) (?:19|20)\d\d"
    r"|\d{1,2}(?:st|nd|rd|th)|\d{1,2}(?::\d\d)? ?(?:am|pm)|years old)\b"
)
_HAN_TIME_WORD = re.compile(
    r"[昨今明前后当那][天晚日年早]|今[早晚]|[上下本这](?:个)?(?:周末?|月|星期|礼拜|学期|季度)|[去明今前]年|周[一二三四五六日天末]"
    r"|星期[一二三四五六日天]|[\d一二三四五六七八九十](?:号|日|月|年|天前|周前|个?月前|岁)"
    r"|[\d二两三四五六七八九十]点|一点[钟半多]|最近|刚才|刚刚|早上|晚上|下午|上午"
    r"|春节|中秋|国庆|元旦|圣诞|生日|暑假|寒假|春天|夏天|秋天|冬天"
)
_PLACE = re.compile(
    r"\b(?:in|at|from|to|near|around|visit(?:ed|ing)?|across|outside|inside|through|leave|left|toward) "
    r"(?:(?:the|a|an|my|our|his|her|their|this|that|downtown) )?(?:[A-Z][\w’'-]+"
    r"|(?:\w+ )?(?:park|beach|mountains?|lake|river|museum|school|college|university|office|home|house|hospital"
    r"|hotel|restaurant|caf[eé]|bar|club|store|shop|mall|gym"
    r"|church|library|studio|theat(?:er|re)|airport|station|city|town|village|country|forest|garden|farm|island|camp"
    r"|campsite|center|centre|street|kitchen|room|apartment|market|bookstore|shelter|stadium|zoo))\b"
)
_HAN_PLACE = re.compile(
    r"[在去到往从来][^，。！？,.!?\s]{0,8}?(?:里|边|馆|店|院|园|校|学|厅|室|城|市|省|国|县|镇|村|山|湖|海|河|江|岛|路|街|家|公司|机场|车站"
    r"|广场|超市|商场|中心|北京|上海|广州|深圳|杭州|成都)"
)
_NAME = re.compile(
    r"(?<=[a-z,;] )(?!I\b|I['’]|OK\b|Mr|Mrs)[A-Z][a-z]+"
    r"|\b(?:[Mm]y|[Oo]ur|[Hh]is|[Hh]er|[Tt]heir) (?:\w+ )?(?:mom|mother|mum|dad|father|parents|wife|husband|son"
    r"|daughter|kids?|children|sister|brother|cousin|aunt|uncle|grand\w+|friends?|partner|boyfriend|girlfriend|boss"
    r"|teacher|coach|neighbou?rs?|colleagues?|roommate|family|fianc[eé]e?|therapist|mentor)\b"
)
_HAN_NAME = re.compile(
    r"妈妈?|爸爸?|母亲|父亲|爷爷|奶奶|外公|外婆|姥姥|哥哥?|姐姐?|弟弟?|妹妹|儿子|女儿|孩子|老婆|老公|妻子|丈夫|男友|女友|男朋友|女朋友|朋友|同学|同事|老师|教练"
    r"|邻居|室友|老板|医生|叔叔?|阿姨|舅舅|表[哥姐弟妹]|[小老阿][王李张刘陈杨赵黄周吴徐孙胡朱高林何郭马罗强明芳军]|叫[\u4e00-\u9fff]{2,3}"
)
_FIRST_PERSON = re.compile(r"\b(?:i|i['’](?:m|ve|d|ll)|my|mine|me|myself|we|we['’](?:re|ve|d|ll)|our|ours|us)\b")
_HAN_FIRST_PERSON = re.compile("[我咱俺]")
_HAN_QUESTION_END = re.compile(r"(?:吗|呢|么|没有|对吧|是吧|好不好|行不行)[。～~…\s]*$")
_MAY_ASK = re.compile("[?？吗呢么吧]|没有|好不好|行不行")
"""What a text with a question holds."""
_QUESTION_END = re.compile(r"[?？][\"'”’」』）)\]\s]*$")


@dataclass(frozen=True, slots=True)
class QuestionCues:
    """The kinds of answer a question asks for; a question may ask for several, or for none of them."""

    asks_when: bool
    asks_where: bool
    asks_who: bool


NO_QUESTION = QuestionCues(asks_when=False, asks_where=False, asks_who=False)


@dataclass(frozen=True, slots=True)
class TurnCues:
    """Properties of a turn.

    Attributes:
        has_time: Whether it names a time, absolute or relative.
        has_place: Whether it holds a place phrase: "in Paris", "at the beach", 在公园里.
        has_person: Whether it names a person, or one by a relation: "my sister", 我同事.
        is_first_person: Whether its speaker tells of themselves.
        question_share: The share of its sentences that are questions, in 0..1.
    """

    has_time: bool
    has_place: bool
    has_person: bool
    is_first_person: bool
    question_share: float


def question_cues(question: str) -> QuestionCues:
    """Return the kinds of answer that *question* asks for."""
    question = simplified_form(question)
    return QuestionCues(
        asks_when=_WHEN_QUESTION.search(question) is not None,
        asks_where=_WHERE_QUESTION.search(question) is not None,
        asks_who=_WHO_QUESTION.search(question) is not None,
    )


def turn_cues(text: str) -> TurnCues:
    """Return the cues of a turn, from its text alone, without its speaker."""
    return _read_cues(text)


def _read_cues(text: str) -> TurnCues:
    text = simplified_form(text)
    lowered = text.lower()
    has_han = not text.isascii() and _HAN.search(text) is not None
    return TurnCues(
        has_time=_holds(_TIME_WORD, lowered) or (has_han and _holds(_HAN_TIME_WORD, text)),
        has_place=_holds(_PLACE, text) or (has_han and _holds(_HAN_PLACE, text)),
        has_person=_holds(_NAME, text) or (has_han and _holds(_HAN_NAME, text)),
        is_first_person=_holds(_FIRST_PERSON, lowered) or (has_han and _holds(_HAN_FIRST_PERSON, text)),
        question_share=question_share(text),
    )


def _holds(pattern: re.Pattern[str], text: str) -> bool:
    return pattern.search(text) is not None


def question_share(text: str) -> float:
    """Return the share of the sentences of *text* that are questions; 0 for blank text.

    A sentence is a question if it ends with a question mark, or with a Chinese particle of questions.
    """
    if _MAY_ASK.search(text) is None:
        return 0.0
    parts = sentences(text)
    if not parts:
        return 0.0
    return sum(is_question(part) for part in parts) / len(parts)


def is_question(sentence: str) -> bool:
    """Return whether a sentence ends as a question does."""
    return _QUESTION_END.search(sentence) is not None or _HAN_QUESTION_END.search(sentence) is not None


# The cues of a memory in one number, which the store keeps beside it: a ranking needs those of hundreds.

_READ_CHARS = 2_000
"""Where a text is read for cues it ends here: a long document is about too much for them."""
_NEW_TEXTS = 4_096
"""Texts whose cues are kept: a new one is read before its transaction, which asks for the cues of its row and of what
the store keeps in memory. Four batches of the largest size."""
_VERSION = 1
"""Raise it when the same text gets another number; 0 is that of a text which was not read."""
_SHARES = 15
_LENGTH_STEPS, _LONGEST = 16, 255
_LETTERS_OF_AN_IDEOGRAPH = 3
_HAS_TIME, _HAS_PLACE, _HAS_PERSON, _IS_FIRST_PERSON, _QUESTION_SHARE, _LENGTH, _SCRIPT, _VERSIONS = (
    0, 1, 2, 3, 4, 8, 16, 20
)  # fmt: skip
"""The lowest bit of each part."""
_SCRIPTS = {script: number for number, script in enumerate(Script)}


@dataclass(frozen=True, slots=True, eq=False)
class PackedCues:
    """The cues of n texts, each an array of the shape (n,); all zero for a text whose cues are not known.

    Attributes:
        has_time, has_place, has_person, is_first_person: As in `TurnCues`: 0 or 1.
        question_share: In 0..1, in steps of 1/15.
        log_length: The natural logarithm of 1 + the number of letters, in 0..15.9375, in steps of 1/16; an ideograph of
            a Han text counts as three letters.
        scripts: The places of the scripts in `tuple(Script)`.
        is_known: Whether the cues are known.
    """

    has_time: Numbers
    has_place: Numbers
    has_person: Numbers
    is_first_person: Numbers
    question_share: Numbers
    log_length: Numbers
    scripts: Integers
    is_known: npt.NDArray[np.bool_]


def pack_cues(text: str) -> int:
    """Return the cues of *text* as a number below 2**21: those of its first 2 000 characters, and its length.

    Bits 0 to 3: time, place, person, first person; 4 to 7: the share of questions in fifteenths; 8 to 15: the logarithm
    of the length in sixteenths; 16 to 19: the script; from 20 on the version of the cues.
    """
    return cached_cues(text[:_READ_CHARS], len(text))


@lru_cache(maxsize=_NEW_TEXTS)
def cached_cues(read: str, length: int) -> int:
    """Return the packed cues of the beginning *read* of a text of *length* characters."""
    cues, script = _read_cues(read), script_of(read)
    letters = length * (_LETTERS_OF_AN_IDEOGRAPH if script is Script.HAN else 1)
    return (
        cues.has_time << _HAS_TIME
        | cues.has_place << _HAS_PLACE
        | cues.has_person << _HAS_PERSON
        | cues.is_first_person << _IS_FIRST_PERSON
        | round(_SHARES * cues.question_share) << _QUESTION_SHARE
        | min(_LONGEST, round(_LENGTH_STEPS * log1p(letters))) << _LENGTH
        | _SCRIPTS[script] << _SCRIPT
        | _VERSION << _VERSIONS
    )


def unpack_cues(packed: Integers) -> PackedCues:
    """Return the cues behind numbers of `pack_cues`, of the shape (n,); 0 means that they are not known."""

    def part(first: int, last: int) -> Integers:
        return packed >> first & (1 << last - first) - 1

    return PackedCues(
        has_time=part(_HAS_TIME, _HAS_PLACE).astype(np.float64),
        has_place=part(_HAS_PLACE, _HAS_PERSON).astype(np.float64),
        has_person=part(_HAS_PERSON, _IS_FIRST_PERSON).astype(np.float64),
        is_first_person=part(_IS_FIRST_PERSON, _QUESTION_SHARE).astype(np.float64),
        question_share=part(_QUESTION_SHARE, _LENGTH) / _SHARES,
        log_length=part(_LENGTH, _SCRIPT) / _LENGTH_STEPS,
        scripts=part(_SCRIPT, _VERSIONS),
        is_known=packed >> _VERSIONS != 0,
    )


# Dates named in a question, and how well a moment answers them.


__all__ = [
    "DateMention",
    "date_match",
    "date_terms",
    "full_year",
    "han_number",
    "is_han",
    "mentioned_dates",
    "placed_dates",
]

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
_FIRST_SHORT_YEAR = 70
"""Two digits from this on are a year of the last century, as in POSIX."""
_PREFIX_LETTERS = 3
_HAN_DIGITS = "〇一二三四五六七八九"
_MONTH_NAME = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)(?![a-z])"
)
_DAY = r"\d{1,2}(?:st|nd|rd|th)?(?![\w:]|[./]\d)"
_YEAR = r"(?:(?:\s*,\s*|\s+(?:of\s+)?)(?P<{0}>(?:1[5-9]|20|21)\d\d)(?!\d)|,?\s?['’](?P<short_{0}>\d\d)(?![\w'’]))"
_ENGLISH = re.compile(
    rf"(?<![\d.:/])(?P<day1>{_DAY})[\s-]+(?:of\s+)?(?P<month1>{_MONTH_NAME})\.?(?:{_YEAR.format('year1')})?"
    rf"|(?<![a-z])(?P<month2>{_MONTH_NAME})\.?[\s-]+(?:the\s+)?(?P<day2>{_DAY})"
    rf"(?:\s*[-–]\s*{_DAY})?(?:{_YEAR.format('year2')})?"
    rf"|(?<![a-z])(?P<month3>{_MONTH_NAME})\.?{_YEAR.format('year3')}"
    rf"|(?<![a-z])(?P<month4>{_MONTH_NAME})",
    re.IGNORECASE | re.ASCII,
)
_NUMERIC = re.compile(
    r"(?<![\d./-])(?P<year>(?:1[5-9]|20|21)\d\d)(?:(?P<sep>[-/.])(?P<month>\d{1,2})(?P=sep)(?P<day>\d{1,2})"
    r"|-(?P<only>0[1-9]|1[0-2]))(?![\d/-])"
)
_HAN_DATE = re.compile(
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
_AFTER = re.compile(rf"\.?(?:\W*\Z|\s*(?:[-–/&]|,|\band|\bor|\bto)\s*(?:\d|{_MONTH_NAME})|\s*['’]\d\d)", re.IGNORECASE)
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

    Understood are English ("8 May, 2023", "8 May '23", "Sept. 3", "in June"), year-first numeric ("2023-05-08",
    "2023/5/8") and Chinese ("2023年5月", "五月八号") dates. "may" and "march" count only where a date is meant.
    Impossible dates and those whose order of day and month is unclear ("5/8/2023") are left out.
    """
    return list(dict.fromkeys(mention for *_, mention in placed_dates(text)))


def placed_dates(text: str) -> list[tuple[int, int, DateMention]]:
    """Return every mention of the dates of `mentioned_dates`, with its offsets."""
    text = simplified_form(text)
    found = [(*match.span(), _english(text, match)) for match in _ENGLISH.finditer(text)]
    if any(map(str.isdigit, text)):
        found += [(*match.span(), _numeric(match)) for match in _NUMERIC.finditer(text)]
    if not text.isascii():
        found += [(*match.span(), _chinese(match)) for match in _HAN_DATE.finditer(text)]
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
    year = _english_year(match)
    if form == "month4":
        if not _is_month(text, match):
            return None
    elif month in {"may", "march"} and not year and day.isdecimal():
        return None
    return DateMention(year, _month_number(month), int(day.rstrip("stndrh")) if day else None)


def _english_year(match: re.Match[str]) -> int | None:
    for name in ("year1", "year2", "year3"):
        if match[name]:
            return int(match[name])
        if match[f"short_{name}"]:
            return full_year(int(match[f"short_{name}"]))
    return None


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
    return full_year(year) if len(digits) == _CENTURY_DIGITS else year


def full_year(year: int) -> int:
    """Return the year of two digits: 2000 to 2069, or 1970 to 1999."""
    return year + (2000 if year < _FIRST_SHORT_YEAR else 1900)


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


# Topics of personal questions: "Where does my sister live?" asks for the topic of "My sister lives in Leeds.". A
# question is turned into statements that answer it, in its language and, for questions about the user, in the other.
# `facts_in` reads their topics, which are thus those of stored statements.

MOST_QUESTION_CHARS = 200
"""A longer query is more than a question about one attribute."""

_WHO = r"(?P<who>i|we|the user|user|my [a-z]+(?:-[a-z]+)*)"
_WHOSE = r"(?P<whose>my|our|the user's|user's|my [a-z]+(?:-[a-z]+)*'s)"
_NOW = r"(?: (?:right now|now|currently|today|these days|at the moment|at present|nowadays))*"
_DO = r"(?:do|does|am|are|is)"
_WHERE = r"(?:city|town|village|place|country|neighbou?rhood|area|part of town)"
_ENGLISH_QUESTIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        (
            rf"where {_DO}{_NOW} {_WHO}{_NOW} (?:live|living|reside|residing|based)"
            rf"|(?:what|which) {_WHERE} {_DO}{_NOW} {_WHO}{_NOW} (?:live |living |based )?in"
            rf"|in (?:what|which) {_WHERE} {_DO}{_NOW} {_WHO}{_NOW} (?:live|living|reside|based)"
            rf"|(?:what is|what's|where is|where's) {_WHOSE}{_NOW}"
            r" (?:home address|address|home town|hometown|home|place)"
        ),
        ("{I} {live} in Leeds.", "{My} home address is 12 Elm Street."),
    ),
    (
        (
            rf"where {_DO}{_NOW} {_WHO}{_NOW} (?:work|working|employed)"
            rf"|(?:who|whom|(?:what|which) (?:company|firm|employer|place)) {_DO}{_NOW} {_WHO}{_NOW}"
            r" (?:work|working|employed)(?: for| at| by| in)?"
            rf"|(?:who is|who's|what is|what's) {_WHOSE}{_NOW} (?:employer|company|workplace)"
        ),
        ("{I} {work} at Siemens.",),
    ),
    (
        (
            rf"what {_DO}{_NOW} {_WHO}{_NOW} do(?:ing)?(?: for (?:a living|work)| professionally| as a job)"
            rf"|(?:what is|what's) {_WHOSE}{_NOW} (?:job|profession|occupation|job title|line of work)"
        ),
        ("{I} {be} a nurse.", "{I} {work} at Siemens."),
    ),
    (
        rf"(?:what is|what's) {_WHOSE} name|what {_DO} {_WHO} called|who am i|what do you call (?P<me>me)",
        ("{My} name is Alex.", "{I} {be} called Alex."),
    ),
    (
        rf"how old {_DO}{_NOW} {_WHO}|(?:what is|what's) {_WHOSE}{_NOW} age",
        ("{I} {be} 34 years old.",),
    ),
)
_SELF_HAN = "我|我们|咱|咱们|用户|本人"
_WHO_HAN = rf"(?P<who>{_SELF_HAN}|我(?:的)?[\u4e00-\u9fff]{{1,3}}?)"
_NOW_HAN = "(?:现在|目前|如今|今天|到底|都|是)*"
_END_HAN = "(?:啊|呀|呢|的|来着|了)*"
_CHINESE_QUESTIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        (
            rf"{_NOW_HAN}{_WHO_HAN}{_NOW_HAN}(?:住|家|定居)(?:在|是)?(?:哪里|哪儿|哪|哪块|哪边|什么地方|哪个(?:城市|地方|区|小区)|哪座城市)"
            rf"|{_NOW_HAN}{_WHO_HAN}{_NOW_HAN}的?(?:住址|地址|家庭住址|家庭地址)是(?:什么|哪里|哪儿|多少)"
        ),
        ("{我}住在苏州。", "{我}家在苏州。"),
    ),
    (
        (
            rf"{_NOW_HAN}{_WHO_HAN}{_NOW_HAN}在(?:哪里|哪儿|哪|什么地方|哪家(?:公司|单位)|哪个(?:公司|单位)|什么(?:公司|单位))(?:工作|上班|干活|就职)"
            rf"|{_NOW_HAN}{_WHO_HAN}{_NOW_HAN}(?:给|为)(?:谁|哪家公司|哪家)(?:工作|打工|干活)"
            rf"|{_NOW_HAN}{_WHO_HAN}{_NOW_HAN}的?(?:公司|单位|雇主|东家)(?:是|叫)(?:什么|哪家|谁|哪个)"
        ),
        ("{我}在腾讯上班。",),
    ),
    (
        (
            rf"{_NOW_HAN}{_WHO_HAN}{_NOW_HAN}(?:是)?(?:做|干)(?:什么|啥)(?:工作|职业)?"
            rf"|{_NOW_HAN}{_WHO_HAN}{_NOW_HAN}的?(?:工作|职业|职位)是(?:什么|啥)"
        ),
        ("{我}是护士。", "{我}在腾讯上班。"),
    ),
    (
        rf"{_NOW_HAN}{_WHO_HAN}{_NOW_HAN}(?:叫|名叫)(?:什么|啥)(?:名字|名)?|{_WHO_HAN}的?名字(?:是|叫)(?:什么|啥)|我是谁",
        ("{我}叫林小可。", "{我}的名字是林小可。"),
    ),
    (rf"{_NOW_HAN}{_WHO_HAN}{_NOW_HAN}(?:多大|几岁|多少岁)(?:年纪)?", ("{我}34岁。", "{我}今年34岁。")),
)
_TOPIC_OWNER = re.compile(r"\b(?:user|we)\b")
"""A topic without it is about a thing: "Our name is" may be the name of anything."""
_END_MARKS = re.compile(r"[?？.。!！,，\s]+$")


def asked_topics(query: str) -> frozenset[str]:
    """Return the topics for which a question about the user, or a relative of the user, asks; none for other texts."""
    if len(query) > MOST_QUESTION_CHARS:
        return frozenset()
    text = _END_MARKS.sub("", simplified_form(query).strip()).lower().replace("’", "'")
    for number, pattern in enumerate(_question_patterns(is_chinese=is_han(text))):
        if match := pattern.fullmatch(text):
            return _topics_asked(number, _person_asked(match), is_chinese=is_han(text))
    return frozenset()


def _person_asked(match: re.Match[str]) -> str:
    """Return who is asked about: empty for the user."""
    found = [value for name, value in match.groupdict().items() if value and name.startswith("who")]
    name = found[0].removesuffix("'s") if found else ""
    return "" if name in _SELF else name


_SELF = frozenset({"", "i", "we", "the user", "user", "my", "our", "我的", *_SELF_HAN.split("|")})


@cache
def _question_patterns(*, is_chinese: bool) -> tuple[re.Pattern[str], ...]:
    forms = _CHINESE_QUESTIONS if is_chinese else _ENGLISH_QUESTIONS
    end = _END_HAN if is_chinese else _NOW
    return tuple(re.compile(f"(?:{_with_own_groups(form)}){end}") for form, _ in forms)


def _with_own_groups(form: str) -> str:
    """Return a pattern whose groups have names of their own: a name can be used once."""
    parts = re.split(r"\(\?P<(?:who|whose|me)>", form)
    return parts[0] + "".join(f"(?P<who{number}>{part}" for number, part in enumerate(parts[1:]))


def _topics_asked(number: int, person: str, *, is_chinese: bool) -> frozenset[str]:
    if person:
        return _topics_of(number, person, is_chinese=is_chinese)
    return _topics_of(number, "", is_chinese=False) | _topics_of(number, "", is_chinese=True)


def _topics_of(number: int, person: str, *, is_chinese: bool) -> frozenset[str]:
    texts = _answers_to(number, person, is_chinese=is_chinese)
    return frozenset(fact.topic for text in texts for fact in facts_in(text) if _TOPIC_OWNER.search(fact.topic))


def _answers_to(number: int, person: str, *, is_chinese: bool) -> Iterator[str]:
    for form in (_CHINESE_QUESTIONS if is_chinese else _ENGLISH_QUESTIONS)[number][1]:
        if is_chinese:
            yield form.replace("{我}", person or "我")
        elif person:
            words = {"I": person, "My": f"{person}'s", "live": "lives", "work": "works", "be": "is"}
            yield form.format(**{**words, "I": person.capitalize(), "My": f"{person.capitalize()}'s"})
        else:
            for words in (
                {"I": "I", "My": "My", "live": "live", "work": "work", "be": "am"},
                {"I": "We", "My": "Our", "live": "live", "work": "work", "be": "are"},
            ):
                yield form.format(**words)
