"""Days named in a sentence: absolute, by their distance, and recurring ones; and times of day.

English and Chinese, and dates of the Chinese lunisolar calendar when they are named as such.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta

from memsvc.domain.memory import Recurrence, Slot
from memsvc.domain.reminders import is_day, next_lunar_day, solar_term
from memsvc.text.ranking_cues import MONTHS, full_year, han_number, placed_dates
from memsvc.text.reminder_lexicon import MOVED_TO

_I = re.IGNORECASE
_WEEKDAYS = {name.lower(): number for number, name in enumerate(calendar.day_name)} | {
    "tuseday": 1, "tuesaday": 1, "wensday": 2, "wednsday": 2, "wendesday": 2, "thrusday": 3, "thursady": 3, "firday": 4,
    "saterday": 5, "satuday": 5,
}  # fmt: skip
"""With the spellings of those in a hurry."""
_SHORT = {
    "mon": 0,
    "tue": 1,
    "tues": 1,
    "wed": 2,
    "weds": 2,
    "thu": 3,
    "thur": 3,
    "thurs": 3,
    "fri": 4,
    "sat": 5,
    "sun": 6,
}
_HAN_WEEKDAYS = "一二三四五六"
_NUMBERS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "couple of": 2, "a couple of": 2, "three": 3, "four": 4, "five": 5, "six": 6,
    "seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12,
}  # fmt: skip
_ORDINALS = {"first": 1, "1st": 1, "second": 2, "2nd": 2, "third": 3, "3rd": 3, "fourth": 4, "4th": 4, "last": 0}
_DAY_WORDS = {"first": 1, "fifteenth": 15, "twentieth": 20}
_ONES = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
_TEENS = (
    "tenth", "eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth",
    "nineteenth",
)  # fmt: skip
_WRITTEN = dict(
    zip(
        [*_ONES, *_TEENS, "twentieth", *(f"twenty {one}" for one in _ONES), "thirtieth", "thirty first"],
        range(1, 32),
        strict=True,
    )
)
"""The days of a month as they are spoken."""
_WEEK_DAYS, _SATURDAY = 7, 5
_FORTNIGHT = 14
_HALF_MONTH = 15
_HALF_YEAR = 6
_HOURS, _NOON, _MINUTES, _DECEMBER = 24, 12, 60, 12
_MONTH_DAYS = 31
_SPAN_CHARS, _YEAR_CHARS = 16, 24
_AHEAD_MONTHS = 9
"""A month that is farther ahead is taken as one of the last."""
_FRIENDLY_HOURS = 6
"""An hour up to this without a part of the day is as likely of the afternoon."""


def _one_of(words: object) -> str:
    return "|".join(sorted(map(str, words), key=len, reverse=True))  # type: ignore[call-overload] # an iterable


_NUMBER = rf"(?:\d{{1,3}}|{_one_of(_NUMBERS)})"
_DAY_NAME = _one_of(_WEEKDAYS)
_SHORT_NAME = _one_of(_SHORT)
_MONTH = rf"(?:{_one_of(MONTHS)}|{_one_of(m[:3] for m in MONTHS)}|sept)\b\.?"
_NTH = r"(?P<{}>\d{{1,2}})(?:st|nd|rd|th)"
_HAN_NUMBER = "(?:[0-9]{1,3}|[一二两三四五六七八九十]{1,3})"
_HAN_DAY = "(?:[12][0-9]|3[01]|0?[1-9]|二?十[一二三四五六七八九]|[二三]十|三十一|[一二三四五六七八九十])"
_HAN_WEEK = "(?:周|星期|礼拜)"
_OF_COMPANY = (
    "公司[^，。,；！!]{0,6}?(?:年会|团建|聚|开[会业]|会议|体检|活动|培训|旅游|出游|晚[宴会]|尾牙|运动会|庆|搬|放假|组织"
    "|发工资|发钱)"
)
_NOT_A_DAY = f"(?![线楼门桌机车房间厅院选手仓库台位店铺馆码召称子司]|公(?!司)|(?!{_OF_COMPANY})公司)"
"""What may not follow 5号: a line, a building, a number, the horn; nor a company, but for an event of one."""

_OF_WEEK = r" after next\b|,? (?:(?:of|in) )?(?:calendar )?week\b"
"""After a weekday of a week that is not reckoned: "the Friday after next", "Friday of week 50"."""

_RECURRING = re.compile(
    # Not to be counted: every other Friday, the first Monday of every month.
    rf"(?P<odd>\b(?:every|each) (?:other|second|third|two|three|few|\d+|couple)\b[\w ]{{0,20}}"
    r"|\b(?:bi-?weekly|fortnightly)\b"
    r"|每(?:隔[一两二三四几]?|两|二|三|四|几|[2-9])(?:个)?(?:周|星期|礼拜|月|年|天)|隔周|隔月|双周"
    rf"|\b(?:{_one_of(_ORDINALS)}) (?:{_DAY_NAME}) (?:of|in) (?:every|each|the) month)"
    # Weekly.
    rf"|(?:\b(?:on )?(?:every|each) (?P<weekly>{_DAY_NAME}|{_SHORT_NAME})(?P<also1>s?\s*(?:,|/|&|and|or|to|through|-|–)"
    rf"\s*(?:every )?(?:{_DAY_NAME}|{_SHORT_NAME}))?(?: (?:morning|afternoon|evening|night))?"
    rf"|\b(?:weekly|every week|once a week|each week),? on (?P<weekly2>{_DAY_NAME})s?"
    rf"|\b(?:on )?(?P<weekly4>{_DAY_NAME})(?:(?: (?:morning|afternoon|evening|night))?,?"
    r" (?:every week|each week|weekly)|,? (?:mornings|afternoons|evenings|nights)"
    r"(?:,? (?:every week|each week|weekly))?)"
    rf"|\b(?:on )?(?P<weekly3>{_DAY_NAME})s"
    rf"(?P<also3>\s*(?:,|/|&|and|or|to|through|-|–)\s*(?P<later>{_DAY_NAME})s)?)\b(?!['’])"
    rf"|每 ?逢?(?:个|到)? ?{_HAN_WEEK}(?: (?=[一二三四五六日天](?! ?[次回天遍趟顿场节个小晚]))|的?(?:{_HAN_WEEK})?)"
    rf"(?P<每周>[一二三四五六日天](?![次遍趟]))(?P<并>[到至和、跟~—-]{_HAN_WEEK}?"
    rf"[一二三四五六日天]|{_HAN_WEEK}?[一二三四五六日天](?![点个次起定直般早天家大十]))?"
    # Monthly.
    rf"|\b(?P<eom>(?:(?:on|at|by) )?(?:the )?(?:last day|end) of (?:every|each) month|(?:every|each) month[- ]end"
    r"|(?:every|each) month (?:on|at|by) (?:the )?(?:last day|end))\b"
    rf"|\b(?:on |by )?(?:the )?(?P<mday4>first|fifteenth|twentieth)(?: day)? of (?:every|each|the) month\b"
    rf"|\b(?:on |by )?(?:the )?{_NTH.format('mday')}(?: day)? (?:of (?:every|each|the) month|(?:every|each) month)\b"
    rf"|\b(?:on |by )?(?:the )?{_NTH.format('mday5')},? (?:monthly|every month|each month)\b"
    rf"|\b(?:every month|each month|monthly),? (?:on|by) (?:the )?(?P<mday2>\d{{1,2}})(?:st|nd|rd|th)?\b(?!:)"
    rf"|\b(?:on )?(?:every|each) {_NTH.format('mday3')}\b(?! (?:of )?(?:{_MONTH}|day|week|month|time|year))"
    rf"|每(?:个)?月的?(?P<月末>底|末|最后一天|月底|月末)|每 ?个? ?月 ?的? ?(?P<每月>{_HAN_DAY}) ?[号日號]{_NOT_A_DAY}",
    _I,
)
_MOVED_FROM = re.compile(r"\b(?:moved|switched|shifted|changed|going)\b[^,;.]* from \Z", _I)
"""Before two weekdays of which the second counts: "moved from Mondays to Thursdays"."""
_RELATIVE = re.compile(
    rf"\b(?:(?P<overmorrow>(?:the )?day after tomorrow|overmorrow)|(?P<tomorrow>tomorrow|tomorow|tommorow|tmrw?|tmr)"
    r"|(?P<today>today|tonight|this (?:morning|afternoon|evening))"
    r"|(?<!once )(?<!twice )(?<!times )(?<!day )in (?:exactly |just )?"
    rf"(?P<in>{_NUMBER}) (?P<unit>days?|weeks?|months?|years?)"
    rf"(?!['’]? (?:or|of)|['’]? and (?:a half\b|half\b|{_NUMBER} (?:hour|day|week|month)))(?: from (?:today|now))?"
    rf"|in (?P<in2>a fortnight)"
    rf"|(?P<from>{_NUMBER}) (?P<unit2>days?|weeks?|months?) from (?:now|today|(?P<base>tomorrow))"
    r"|(?<!been )(?<!for )(?P<away>(?:a|one|two|three) weeks?|a fortnight)(?: from)? (?:today|(?P<base2>tomorrow))"
    r"(?! (?:since|that|when)\b)"
    rf"|(?P<aweek>(?:a|one|two|three) weeks?|a fortnight) (?:from|on) (?:this )?(?P<weekday4>{_DAY_NAME})(?!['’]s\b)"
    rf"|(?<!every )(?P<weekday5>{_DAY_NAME}) (?P<later>week|fortnight)(?! (?:of|one|two|three|\d))"
    rf"|(?P<ordinal>{_one_of(_ORDINALS)}) (?P<nthday>{_DAY_NAME}) (?:of|in) (?:(?P<nthmonth>{_MONTH})"
    r"|(?P<ofmonth>the|this|next) month)"
    rf"|(?:(?:at|by|before|until|till|on) )?(?:the )?(?:end|last day) of"
    rf" (?:(?P<endmonth>{_MONTH})(?:,? (?P<endyear>20\d\d))?"
    r"|(?P<end>the|this|next) month|(?P<endofyear>the|this|next) year)"
    r"|(?P<eom>(?:by )?(?:month[- ]end|EOM))|(?P<eoy>(?:by )?(?:year[- ]end|EOY))"
    rf"|next week,? (?:on )?(?P<nextweek>{_DAY_NAME})|(?P<nextweek2>{_DAY_NAME}),? (?:of )?next week"
    rf"|(?<!\ba )(?<!\bany )(?P<which>(?:this coming|this|next|coming)\s+)?(?P<weekday>{_DAY_NAME})(?! last|{_OF_WEEK})"
    rf"|(?:(?P<which2>this coming|this|next|coming)|on|by|before|until|till|due|for)\s+(?P<weekday2>{_SHORT_NAME})"
    rf"(?!{_OF_WEEK}|,? (?:of )?next week)"
    rf"|(?<![/&+])(?P<weekday7>{_SHORT_NAME})(?= (?:morning|afternoon|evening|night|noon)\b)"
    rf"|(?<=[,;:(] )(?P<weekday8>mon|tue|wed|thu|sat|sun)(?=,? (?:at |@ ?)?\d{{1,2}}(?:[:.]\d\d|\s?[ap]m))"
    rf"|(?<![/&+])(?P<weekday3>tues|thurs|thur|weds|fri)(?=[ ,.]*(?:at |@ ?)?\d)"
    rf"|(?:the )?{_NTH.format('monthday')} of (?P<month>next|this) month"
    rf"|(?P<month2>next|this) month,? (?:on )?the {_NTH.format('monthday2')})\b(?!['’]s\s+(?:child|paper|news))"
    r"|(?P<大>大*后[天儿])|(?P<明>明[天日早晚儿])|(?P<今>今[天日早晚儿])|"
    rf"(?:过|再过)?(?P<后>(?<!个)半|{_HAN_NUMBER}|俩)(?P<量>天|日|个半月|个?(?:周|星期|礼拜|月)|年)[之以]?后(?:的今天)?"
    rf"|(?:再?过|还有(?=.{{1,3}}天(?:[就要]|自动|到期|过期|截止|扣|续)))(?P<过>{_HAN_NUMBER}|俩)(?P<过量>天|个?(?:周|星期|礼拜|月))(?!年)"
    rf"|(?<![上每一两半周期拜])(?<!上个)(?<![周期拜]的)(?<!第[一二三四五]个)(?<!后一个)"
    rf"(?:(?P<下>下下|下|这|本)个?{_HAN_WEEK}(?:的?{_HAN_WEEK})?|个?{_HAN_WEEK})(?P<周>[一二三四五六日天])(?![次回天遍趟顿场节])"
    rf"|(?P<月>下个?月|这个月|本月|这月)(?P<号>{_HAN_DAY})[日号號]"
    rf"|(?:(?P<底年>\d{{4}})年)?(?P<底月>下个?|这个|本|{_HAN_DAY})?月(?:[底末]|的?最后一天)"
    rf"|(?<!上个)(?<!去)(?P<年底>年[底末])",
    _I,
)
_NTH_ALONE = re.compile(
    rf"\b(?:(?:on|by|for|before|until|till|is|due|starting|from|{_SHORT_NAME}|{_DAY_NAME})\s+(?:the\s+)?"
    rf"|['’]s\s+the\s+|the\s+|,\s*){_NTH.format('day')}\b"
    r"(?=\s*(?:\Z|[,.;:!?)–-]|(?:at|to|by|with|for|in|from|and|is|are|but|so|or|because|around|after|before|i|we|he|she"
    r"|they|you|my|our|the|please|pls|this|same(?= time| hour| slot| place)|morning|afternoon|evening|btw|ok|\d)\b))",
    _I,
)
_WORD_ALONE = re.compile(
    r"\b(?:on|by|before|until|till|is|due)\s+the\s+"
    rf"(?P<day>first|{_one_of(word for word in _WRITTEN if word not in _ONES)})"
    r"(?=\s*(?:\Z|[,.;:!)–-]|(?:at|with|for|and|so|but|because|please|pls|i|we|he|she|they)\b"
    r"|in the (?:morning|afternoon|evening)\b))",
    _I,
)
"""On the twentieth: not the second to the ninth, which are as often floors or attempts."""
_HAN_DAY_ALONE = re.compile(rf"(?<![0-9a-zA-Z月第年一二三四五六七八九十])(?P<day>{_HAN_DAY})[号號]{_NOT_A_DAY}")
_HAN_SHORT = re.compile(
    rf"(?:(?P<year>\d{{4}})年)?(?<![\d一二三四五六七八九十])(?P<month>1[0-2]|0?[1-9]|十[一二]?|[一二三四五六七八九])月"
    rf"(?P<day>{_HAN_DAY})(?![\d日号號个月点一二三四五六七八九十])"
)
"""6月18: the word for day left out."""
_SLASHED = re.compile(
    r"(?<![\d/.A-Za-z])(?P<one>\d{1,2})/(?P<other>\d{1,2})(?:/(?P<year>\d{4}|\d{2}))?(?![\d/%]|\s?[块元折分页票])"
)
_UNCLEAR_SLASH = (24, 7)
_DOTTED = re.compile(r"(?<![\d.,:/-])(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>20\d\d)(?!\.?\d)")
"""4.3.2027: with dots the day comes first."""
_VERSION_BEFORE = re.compile(r"(?:\b(?:version|release|build|firmware|driver|v|ver)|版本?)[ .:：]*\Z", _I)
_VERSION_AFTER = re.compile(r"\s?(?:版|release\b|build\b|firmware\b)", _I)
"""Beside a number with two dots that is no date."""
_VERSION_CHARS = 10
_WRITTEN_DATE = re.compile(
    rf"\b(?P<day>{_one_of(_WRITTEN).replace(' ', '[ -]')}) of (?P<month>{_one_of(MONTHS)})\b(?:,? (?P<year>20\d\d))?",
    _I,
)
_WEEKEND = re.compile(
    r"\b(?P<this>this (?:coming )?weekend)\b|(?P<下>下个?周末)|(?:这个?|本)周末"
    r"|(?<![上每个那这本下整])周末(?![前之后班档价愉快])",
    _I,
)
_HOLIDAYS: dict[str, tuple[int, int]] = {
    "christmas eve": (12, 24), "christmas day": (12, 25), "boxing day": (12, 26), "new year's eve": (12, 31),
    "new year's day": (1, 1), "halloween": (10, 31), "valentine's day": (2, 14), "平安夜": (12, 24), "圣诞": (12, 25),
    "元旦": (1, 1), "情人节": (2, 14), "劳动节": (5, 1), "五一": (5, 1), "国庆": (10, 1), "双十一": (11, 11),
    "双十二": (12, 12),
}  # fmt: skip
_LUNAR_HOLIDAYS = {
    "除夕": (12, 30), "大年三十": (12, 30), "春节": (1, 1), "元宵节": (1, 15), "端午": (5, 5), "七夕": (7, 7),
    "中秋": (8, 15), "重阳": (9, 9), "腊八": (12, 8),
}  # fmt: skip
_SOLAR_TERMS = ("清明", "冬至")
_HOLIDAY = re.compile(
    r"(?:\b(?:on|by|before|until|till) |(?<!for )(?<!after )(?<!since )(?<!last )(?<!every )(?<!about )"
    r"(?=(?:christmas (?:eve|day)|boxing day|new year['’]s (?:eve|day))\b))"
    + rf"(?P<name>{_one_of(name for name in _HOLIDAYS if name.isascii())})\b".replace("'", "['’]")
    + rf"|(?P<节>{_one_of([*(name for name in _HOLIDAYS if not name.isascii()), *_LUNAR_HOLIDAYS, *_SOLAR_TERMS])})节?"
    r"(?!节|树|老人|卡|帽|粽|月饼|粥|蒜|快乐|安康|[前之]后|前(?!一)|后)",
    _I,
)
"""Holidays that are one day; in English those with "day" or "eve", others behind "on" or "by": "for Christmas" and "at
Christmas" leave the day open."""
_SMALL_MONTH = re.compile(
    r"\b(?:on|by|due|date|is|until|till|before|for|booked|to|from|the)[ :]+"
    r"(?P<date>(?P<day>\d{1,2}) (?P<month>may|march)|(?P<month2>may|march) (?P<day2>\d{1,2}))"
    r"(?=\s*(?:\Z|[,.;:!)–-]|(?:at|for|with|in|and|so|but|please|pls|plz|morning|afternoon|evening|night|noon)\b))"
)
"""18 march: a month that may be a verb, where a date is expected."""
_YEAR_BEFORE = re.compile(r"\b(?P<which>next|this) year,? (?:on )?(?:the )?\Z|(?P<年>今|明|来|大?后)年的?\s?\Z", _I)
_YEAR_AFTER = re.compile(
    r" (?:of )?(?P<which>next|this) year\b|, (?P<which2>next|this) year(?=\s*(?:\Z|[,.;:!?)]))", _I
)
_YEARS_AHEAD = {"this": 0, "今": 0, "next": 1, "明": 1, "来": 1, "后": 2, "大后": 3}
"""The year of a date, named before or after it."""
_OFF_BEFORE = re.compile(
    rf"(?<![\w.])(?:(?P<count>{_NUMBER}|the) )?(?P<unit>days?|weeks?|months?|night|evening)"
    r" (?P<side>before|after|prior to|ahead of) (?:the )?\Z",
    _I,
)
_OFF_AFTER = re.compile(
    rf"的?(?:(?P<before>提前|之前|前)|(?P<after>之后|后))(?P<count>{_HAN_NUMBER})(?P<unit>天|日|晚|个?(?:周|星期|礼拜|月))"
    r"(?![都内里之])|的?(?P<next>第二天|次日)"
)
"""The distance from a day: "two days before 5 May", 5月5号前两天."""
_OFF_CHARS = 32
_FIRST_OF_SPAN = re.compile(
    r"(?<![\d.,:/£$€#])(?P<day>\d{1,2})(?:st|nd|rd|th)?"
    r"(?:\s?(?:-|–|—|to|till|until|through)\s?(?:the )?"
    r"|(?:, (?:the )?\d{1,2}(?:st|nd|rd|th)?){0,6},? ?(?P<and>and|&) ?(?:the )?)\Z",
    _I,
)
"""Before the last day of a span, or of several days: 2 to 5 May, 2 and 3 May."""
_COUNTED = re.compile(
    r"\b(?:rooms?|pages?|chapters?|tables?|units?|no|numbers?|lines?|bus(?:es)?|platforms?|floors?|gates?|parts?|levels?"
    r"|questions?|season|sizes?|ages?|aged|zones?|lots?|flats?|apartments?|years?|class|grades?|versions?|steps?|episodes?"
    r"|exercises?|sections?|items?|groups?|teams?|for|of|paid|between)\.? \Z",
    _I,
)
"""Before two numbers of which the first is no day: rooms 7 and 8."""
_LUNAR = re.compile(
    r"(?P<named>农历|阴历|旧历|老历|lunar\s+)?(?:每年)?(?:的)?(?P<leap>闰)?(?:(?P<month>正|冬|腊|十[一二]|1[0-2]"
    r"|[1-9]|[一二三四五六七八九十])月|大年(?=初))"
    r"(?P<day>初[一二三四五六七八九十]|廿[一二三四五六七八九]?|二十[一二三四五六七八九]?"
    r"|十[一二三四五六七八九]?|三十|[12][0-9]|30|[1-9])"
    r"[日号號]?"
)
_LUNAR_CUE = re.compile(r"农历|阴历|旧历|老历|正月|腊月|冬月|月初[一二三四五六七八九十]|月廿|大年初|\blunar\b", _I)
_CLOCK = re.compile(
    r"(?:\b(?P<off>half|(?:a )?quarter|five|ten|twenty|twenty[- ]five) (?P<side>past|after|to|before) "
    r"|(?<![\d:.])(?P<first>\d{1,2})(?:[:.](?P<first_minute>[0-5]\d))?\s?(?:-|–|—|to|till|until)\s?)?"
    r"(?<![\d:.])(?P<hour>\d{1,2})(?:[:.](?P<minute>[0-5]\d))?\s*(?P<half>[ap])\.?m\b\.?"
    r"|(?<![\d:])(?P<hour24>[01]?\d|2[0-3]):(?P<minute24>[0-5]\d)(?![\d:])|\b(?P<noon>noon|midday)\b|\b(?P<midnight>midnight)\b",
    re.IGNORECASE,
)
_SPAN_BEFORE = re.compile(r"(?:\b(?:from|at|between|around|today|tomorrow|\w{3,6}day)|[,;:(])\s*\Z", _I)
"""Before the first time of a span, which may else be a day or a number: "Dec 5 - 6 pm"."""
_LATE_BEFORE = re.compile(
    r"(?:\b(?:afternoon|evening|tonight)(?:,? (?:at|around|by|from))?|下午|午后|傍晚|晚上|[今明后]晚|中午)\s*\Z", _I
)
_LATE_AFTER = re.compile(r" (?:tonight|(?:in the |tomorrow |this |on \w+day )?(?:afternoon|evening))\b", _I)
"""The part of the day of a time without one: "8:30 in the evening", 晚上8:30."""
_HAN_CLOCK = re.compile(
    r"(?:(?P<part>凌晨|清晨|早上|早晨|上午|中午|下午|午后|傍晚|晚上|夜里|半夜|深夜|[明今后][早晚]|[早晚])\s*)?"
    rf"(?P<hour>{_HAN_NUMBER})\s*(?:点钟?|點|时|時)(?P<minute>半|一刻|三刻|{_HAN_NUMBER}(?=分)|[0-5]\d"
    r"|[二三四五]?十[一二三四五六七八九]?(?![个天块人万号日月多几]))?(?P<less>差)?"
)
_HOUR_WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_HOUR = rf"(?:1[0-2]|[1-9]|{_one_of(_HOUR_WORDS)})"
_PART = r"(?:(?:in the|tomorrow|this|on \w+day|\w+day) )?(?:morning|afternoon|evening)|tonight|o['’]?clock"
_SPOKEN_CLOCK = re.compile(
    rf"\b(?:half (?:past )?(?P<half>{_HOUR})|(?:(?:at|by|around) |(?=(?:a )?quarter))"
    rf"(?P<off>(?:a )?quarter|five|ten|twenty|twenty[- ]five) (?P<side>past|after|to|before) (?P<of>{_HOUR})"
    rf"|(?:at|by|around) (?P<at>{_HOUR})(?:[:.](?P<at_minute>[0-5]\d))?"
    rf"(?=\s*(?:[,;!?)]|\.(?!\d)|\Z|{_PART}|sharp|today|tomorrow|(?:next|this|on|with|for|and|so|the|my|i|we|to|before)\b"
    r"|(?:mon|tues?|wed|thu|fri|sat|sun)))"
    rf"|(?P<named>{_HOUR})(?:[:.](?P<named_minute>[0-5]\d))?(?= (?:{_PART})))(?![\w:%°€£$-]|\.\d)",
    _I,
)
"""A time without am or pm: "at six tonight", "half two", "nine in the morning"."""
_WORKED_SPAN = re.compile(
    rf"\b(?:(?:at|from|between|around|about|by|after|tomorrow|morning|\w{{3,6}}day|mon|tues?|weds?|thurs?|fri|sat"
    rf"|\d{{1,2}}(?:st|nd|rd|th))[,:]? "
    rf"|[(,;] ?)(?:at |from |between )?(?P<hour>{_HOUR})(?:[:.](?P<minute>[0-5]\d))?"
    rf"(?:\s?(?:-|–|—|to|till|until|and)\s?{_HOUR}(?:[:.][0-5]\d)?(?= *(?:[,;!?.)]|\Z|to\b|for\b|on\b|and\b|so\b|in\b))"
    rf"|(?= *(?:[,;!?)]|\.(?!\d)|\Z|to\b|for\b|on\b|and\b|so\b|tomorrow)))",
    _I,
)
"""A time, or the first of a span, at which someone comes to work."""
_SPAN_BETWEEN = re.compile(r"\s*(?:-|–|—|~|～|to|till|until|and|到|至)\s*", _I)
_FIRST_WORKED = 7
"""The hour from which people come to work: a time of an earlier one is of the afternoon."""
_MORNING, _LATER = re.compile(r"(?<!good )\bmornings?\b", _I), re.compile(r"\b(?:afternoon|evening|tonight)\b", _I)
_RISING = re.compile(r"\bwak(?:e|ing)\b|\balarm\b|\b(?:get|be|getting) up\b", _I)
_LAST_OF_AFTERNOON = 5
"""Up to this hour a time of which no part of the day is named is of the afternoon; of a later one it is not known."""
_PARTS = re.compile(
    r"\b(?P<am>(?:in the|tomorrow|this|\w+day) morning)\b"
    r"|\b(?P<pm>(?:in the|tomorrow|this|\w+day) (?:afternoon|evening)|tonight)\b"
    r"|(?P<早>早上|早晨|上午|[明今]早)|(?P<晚>下午|傍晚|晚上|[明今]晚)",
    re.IGNORECASE,
)
_LATE = ("下午", "午后", "傍晚", "晚上", "今晚", "明晚", "后晚", "晚", "夜里", "半夜", "深夜")
_NIGHT = ("晚", "晚上", "夜里", "半夜", "深夜")
_SMALL_HOURS, _LAST_OF_NOON = 5, 3
"""晚上两点 is of the night to the next day, up to the first of these; 中午一点 is 13:00, up to the second."""
_LESS = re.compile(rf"差(?:一刻|{_HAN_NUMBER}分)钟?\s*\Z")
_MIDNIGHT = _HOURS * _MINUTES - 1
"""Of a day is the last minute: what is due by midnight is due on that day."""
_CHRISTMAS = re.compile(r"\bchristmas\b|\bxmas\b|圣诞", _I)
_CHRISTMAS_DAYS = range(20, 32)
_OFF_MINUTES = {"half": 30, "quarter": 15, "five": 5, "ten": 10, "twenty": 20, "twenty five": 25}
_HAN_MINUTES = {"半": 30, "一刻": 15, "三刻": 45}


# Looking for each cue by itself takes a tenth of an expression, and most texts have none.
_RECURRING_CUES = (
    "every",
    "each",
    "weekly",
    "monthly",
    "days",
    "of the month",
    "mornings",
    "noons",
    "evenings",
    "nights",
    "once a week",
    "每",
    "隔",
    "双周",
)
_RELATIVE_CUES = (
    "day", "tom", "tmr", "tonight", "this ", "in ", "from ", "next", "end", "eom", "eoy", "fortnight", "overmorrow",
    "mon", "tue", "wed", "thu", "fri", "sat", "sun", "周", "星期", "礼拜", "天", "后", "明", "今", "月", "年", "过",
)  # fmt: skip
_ORDINAL_CUES = ("st", "nd", "rd", "th")


@dataclass(frozen=True, slots=True)
class NamedDay:
    """A day as a sentence names it, at these offsets; a part that is not said is 0.

    Attributes:
        exact: The day, when the sentence says which one of all it is; of a recurring one the first, not before today.
        recurrence: WEEKLY or MONTHLY when the sentence says so; YEARLY of a day of the lunisolar calendar without a
            year; else NONE, also of a day of any year.
        is_ahead: Whether its words say that it is to come: "tomorrow", 下周五.
        is_lunar: Whether it is of the Chinese lunisolar calendar.
        is_weekday: Whether it is named by its weekday alone: "Friday", not "next Friday".
        lunar_number: The day of the month by the Chinese lunisolar calendar: 30 also when that month has but 29.
        is_off: Whether it is named by its distance from another date: "two days before 5 May".
        is_loose: Whether it is a weekend or a holiday, which people also name when nothing is to happen on that day.
    """

    start: int
    end: int
    month: int = 0
    day: int = 0
    year: int = 0
    exact: date | None = None
    recurrence: Recurrence = Recurrence.NONE
    is_ahead: bool = False
    is_lunar: bool = False
    is_weekday: bool = False
    is_off: bool = False
    is_loose: bool = False
    lunar_number: int = 0

    @property
    def is_clear(self) -> bool:
        """Return whether it is one day, or one of every year: neither a month nor 3/5, which may be in March or May."""
        return self.day > 0


def named_days(text: str, today: date) -> list[NamedDay]:
    """Return the days that *text* names, in order; those that are off from *today* reckon weeks from Monday on.

    "Next Friday" and 下周五 are the Friday of the next week, "Friday" is the first one after *today*, and 这周五 may
    have been already. A day of the month alone ("the 20th", 20号) is the next, today included.
    """
    small = text.lower()
    found: list[NamedDay] = []
    if _has(small, _RECURRING_CUES):
        found += [_recurring(match, today) for match in _RECURRING.finditer(text)]
    if not text.isascii() and _LUNAR_CUE.search(text):
        found += [_lunar(match, today) for match in _LUNAR.finditer(text) if _is_lunar(match)]
    found += [
        _from_first(text, _absolute(*placed)) for placed in placed_dates(text) if not _is_version(text, *placed[:2])
    ]
    found += _less_common(text, small, today)
    if "march" in text or "may" in text:
        found += [one for match in _SMALL_MONTH.finditer(text) if (one := _small_month(match)) is not None]
    if _has(small, _RELATIVE_CUES):
        found += [one for match in _RELATIVE.finditer(text) if (one := _relative(match, today)) is not None]
    if "/" in text:
        found += [_slashed(match, text) for match in _SLASHED.finditer(text)]
    if " the " in small:
        found += [_day_in_words(match, today) for match in _WORD_ALONE.finditer(text)]
    if _has(small, _ORDINAL_CUES):
        found += [_day_alone(match, today, text) for match in _NTH_ALONE.finditer(text)]
    if not text.isascii():
        found += [_short(match) for match in _HAN_SHORT.finditer(text)]
        found += [_day_alone(match, today, text) for match in _HAN_DAY_ALONE.finditer(text)]
    found = [_in_named_year(text, one, today) for one in found]
    days = _apart(sorted(found, key=lambda one: (one.start, -one.end)))
    return [_off_named(text, one, today) if one.is_clear else one for one in days]


def _less_common(text: str, small: str, today: date) -> Iterator[NamedDay]:
    """Yield dates with dots, dates in words, weekends and holidays."""
    if "." in text:
        yield from (_dotted(match) for match in _DOTTED.finditer(text) if not _is_version(text, *match.span()))
    if " of " in small:
        yield from (_written(match) for match in _WRITTEN_DATE.finditer(text))
    if "weekend" in small or "周末" in small:
        yield from (_weekend(match, today) for match in _WEEKEND.finditer(text))
    yield from (_holiday(match, today) for match in _HOLIDAY.finditer(text))


def _has(text: str, cues: Sequence[str]) -> bool:
    return any(cue in text for cue in cues)


def time_of_day(text: str) -> tuple[int | None, Slot | None]:
    """Return the only time of day that *text* names, in minutes since midnight, and the part of the day it names."""
    minutes = [_minute(match) for match in _CLOCK.finditer(text)]
    minutes += [_han_minute(match) for match in _HAN_CLOCK.finditer(text)]
    known = [minute for minute in minutes if minute is not None]
    if not minutes:
        known = [minute for match in _SPOKEN_CLOCK.finditer(text) if (minute := _spoken_minute(match)) is not None]
    minute = known[0] if len(known) == 1 else None
    parts = {Slot.MORNING if match["am"] or match["早"] else Slot.AFTERNOON for match in _PARTS.finditer(text)}
    return minute, parts.pop() if len(parts) == 1 else None


def visiting_minute(text: str) -> int | None:
    """Return the time at which *text* says that someone comes to work, of a span the first, in minutes since midnight.

    People come to work by day: "at 8" and "9 to 12" are of the morning, "2 to 4" of the afternoon.
    """
    clocks = [match for pattern in (_CLOCK, _HAN_CLOCK) for match in pattern.finditer(text)]
    if len(clocks) == 2 and _SPAN_BETWEEN.fullmatch(text, clocks[0].end(), clocks[1].start()):  # noqa: PLR2004 - a span
        return _han_minute(clocks[0]) if clocks[0].re is _HAN_CLOCK else _minute(clocks[0])
    found = list(_WORKED_SPAN.finditer(text))
    if clocks or len(found) != 1 or _LATER.search(text):
        return None
    hour = number_of(found[0]["hour"])
    return _of_half(hour, int(found[0]["minute"] or 0), is_pm=not _FIRST_WORKED <= hour < _NOON)


def minutes_of(match: re.Match[str]) -> int | None:
    """Return the minutes of a duration of `reminder_lexicon.FROM_NOW`; None for more than a day."""
    if match["zh"]:
        unit = {"分钟": 1, "刻钟": 15}.get(match["单位"], 60)
        minutes = unit // 2 if match["zh"] == "半" else unit * number_of(match["zh"])
        minutes += unit // 2 if match["半"] or match["又半"] else 0
    else:
        said = match["en"].lower().replace("-", " ")
        unit = 1 if match["unit"].lower().startswith("min") else 60
        known = {"half an": 0.5, "a": 1, "an": 1, "forty five": 45}
        minutes = int(unit * known[said]) if said in known else unit * number_of(said)
    return minutes if 0 < minutes <= _HOURS * _MINUTES else None


def next_of(named: NamedDay, today: date) -> date | None:
    """Return the day, or of one of any year the next, *today* included; None: there is none within two years."""
    if named.exact is not None:
        return named.exact
    years = range(today.year, min(today.year + 2, date.max.year) + 1)
    days = (date(year, named.month, named.day) for year in years if is_day(year, named.month, named.day))
    return next((day for day in days if day >= today), None)


def _absolute(start: int, end: int, mention: object) -> NamedDay:
    year, month, day = (getattr(mention, name) or 0 for name in ("year", "month", "day"))
    exact = date(year, month, day) if year and day else None
    return NamedDay(start, end, month, day, year, exact)


def _in_named_year(text: str, one: NamedDay, today: date) -> NamedDay:
    """Return a day without a year as one of the year that is named beside it: "5 May next year", 明年5月5号."""
    if one.year or not one.day or one.recurrence is not Recurrence.NONE:
        return one
    start, end, year = _named_year(text, one.start, one.end, today)
    if not year:
        return one
    if not is_day(year, one.month, one.day):
        return NamedDay(start, end)
    return _exactly(start, end, date(year, one.month, one.day))


def _named_year(text: str, start: int, end: int, today: date) -> tuple[int, int, int]:
    """Return the offsets of a date with the year that is named beside it, and that year; 0: none is."""
    begin = max(0, start - _YEAR_CHARS)
    if before := _YEAR_BEFORE.search(text[begin:start]):
        start, which = begin + before.start(), before["which"] or before["年"]
    elif after := _YEAR_AFTER.match(text, end):
        end, which = after.end(), after["which"] or after["which2"]
    else:
        return start, end, 0
    year = today.year + _YEARS_AHEAD[which.lower()]
    return start, end, year if year <= date.max.year else 0


def _off_named(text: str, one: NamedDay, today: date) -> NamedDay:
    """Return the day that is so many days or weeks before or after *one*, if *text* names it by that; else *one*.

    One that is off by "the week" or "the month", or so far from a monthly day that it is of another month, is unclear.
    """
    begin = max(0, one.start - _OFF_CHARS)
    start, end = one.start, one.end
    if match := _OFF_BEFORE.search(text[begin:start]):
        start, is_before = begin + match.start(), match["side"].lower() != "after"
        count = 1 if match["count"] is None or match["count"].lower() == "the" else number_of(match["count"])
        is_vague = match["count"] is None or (
            match["count"].lower() == "the" and match["unit"].lower() in {"week", "month"}
        )
        unit = match["unit"].lower()
    elif not text.isascii() and (match := _OFF_AFTER.match(text, end)):
        end, is_before, is_vague = match.end(), bool(match["before"]), False
        count, unit = (1, "天") if match["next"] else (number_of(match["count"]), match["unit"])
    else:
        return one
    base = None if is_vague else next_of(one, today)
    if base is None:
        return NamedDay(start, end)
    sign = -1 if is_before else 1
    if unit.startswith("month") or unit[-1] == "月":
        day = None if one.recurrence is not Recurrence.NONE else months_after(base, sign * count)
    else:
        day = _off_days(base, sign * count * (_WEEK_DAYS if unit.startswith("week") or unit[-1] in "周期拜" else 1))
    if day is None:
        return NamedDay(start, end)
    if one.recurrence is not Recurrence.NONE:
        return _recurring_off(replace(one, start=start, end=end), day, today)
    named = replace(_exactly(start, end, day, is_ahead=one.is_ahead), is_off=True)
    # Of a day of any year the next is meant, which may be that far off already.
    return named if one.exact is not None or day < today else replace(named, year=0, exact=None)


def _recurring_off(one: NamedDay, day: date, today: date) -> NamedDay:
    """Return the day of a rhythm that is moved to *day*; unclear when not every occurrence is as far off."""
    if one.recurrence is Recurrence.WEEKLY:
        ahead = (day.weekday() - today.weekday()) % _WEEK_DAYS
        moved = _off_days(today, ahead)
        return NamedDay(one.start, one.end) if moved is None else _in_rhythm(one, moved)
    is_kept = one.exact is not None and one.exact.day < _MONTH_DAYS and day.month == one.exact.month
    return _in_rhythm(one, day) if is_kept and one.recurrence is Recurrence.MONTHLY else NamedDay(one.start, one.end)


def _in_rhythm(one: NamedDay, day: date) -> NamedDay:
    return replace(_exactly(one.start, one.end, day), recurrence=one.recurrence, is_off=True)


def _from_first(text: str, last: NamedDay) -> NamedDay:
    """Return the first day of a span in one month, of which *last* is named with the month; else *last*."""
    begin = max(0, last.start - _OFF_CHARS)
    match = _FIRST_OF_SPAN.search(text[begin : last.start]) if text[last.start : last.start + 1].isdigit() else None
    if (
        match is not None
        and match["and"]
        and _COUNTED.search(text[max(0, begin + match.start() - _SPAN_CHARS) : begin + match.start()])
    ):
        return last
    if match is None or not 0 < (day := int(match["day"])) < last.day:
        return last
    exact = None if last.exact is None else last.exact.replace(day=day)
    return replace(last, start=begin + match.start(), day=day, exact=exact)


def _small_month(match: re.Match[str]) -> NamedDay | None:
    month, day = _month_number(match["month"] or match["month2"]), int(match["day"] or match["day2"])
    return NamedDay(*match.span("date"), month, day) if is_day(0, month, day) else None


def _is_version(text: str, start: int, end: int) -> bool:
    """Return whether a date with dots is the number of a version."""
    if text[start:end].count(".") != 2:  # noqa: PLR2004 - day, month and year
        return False
    before = text[max(0, start - _VERSION_CHARS) : start]
    return bool(_VERSION_BEFORE.search(before) or _VERSION_AFTER.match(text, end))


def _dotted(match: re.Match[str]) -> NamedDay:
    year, month, day = int(match["year"]), int(match["month"]), int(match["day"])
    return _exactly(*match.span(), date(year, month, day) if is_day(year, month, day) else None)


def _written(match: re.Match[str]) -> NamedDay:
    """Return the day of a date in words: "the first of January"."""
    day, month, year = _WRITTEN[match["day"].lower().replace("-", " ")], _month_number(match["month"]), match["year"]
    if not is_day(int(year or 0), month, day):
        return NamedDay(*match.span())
    return NamedDay(*match.span(), month, day, int(year or 0), date(int(year), month, day) if year else None)


def _weekend(match: re.Match[str], today: date) -> NamedDay:
    """Return the Saturday of a weekend; on its Sunday that day."""
    weeks = _WEEK_DAYS if match["下"] else 0
    day = _off_days(today, max(0, _SATURDAY - today.weekday()) if not weeks else weeks + _SATURDAY - today.weekday())
    return replace(_exactly(*match.span(), day, is_ahead=bool(weeks)), is_loose=True)


def _holiday(match: re.Match[str], today: date) -> NamedDay:
    """Return the next day of a holiday, or that of the year which is named beside it."""
    year = _year_of(match, today)
    since, name = date(year, 1, 1) if year else today, (match["name"] or match["节"]).lower().replace("’", "'")
    if name in _LUNAR_HOLIDAYS:
        day = next_lunar_day(*_LUNAR_HOLIDAYS[name], since)
    elif name in _SOLAR_TERMS:
        day = solar_term(name, since)
    else:
        day = next_of(NamedDay(0, 0, *_HOLIDAYS[name]), since)
    return replace(_exactly(*match.span(), day), is_loose=True)


def _apart(found: list[NamedDay]) -> Iterator[NamedDay]:
    end = 0
    for one in found:
        if one.start >= end:
            yield one
            end = one.end


def _exactly(start: int, end: int, day: date | None, *, is_ahead: bool = False) -> NamedDay:
    if day is None:
        return NamedDay(start, end)
    return NamedDay(start, end, day.month, day.day, day.year, day, is_ahead=is_ahead)


def _slashed(match: re.Match[str], text: str) -> NamedDay:
    """Return the day of 12/25 or 25/12; in Chinese the month comes first, in English 3/5 is either."""
    one, other, year = int(match["one"]), int(match["other"]), int(match["year"] or 0)
    year = full_year(year) if len(match["year"] or "") == 2 else year  # noqa: PLR2004 - two digits
    if (one, other) == _UNCLEAR_SLASH:
        return NamedDay(*match.span())
    if one > _DECEMBER >= other:
        one, other = other, one
    elif one <= _DECEMBER and other <= _DECEMBER and one != other and not _has_han(text):
        return NamedDay(*match.span())
    if not is_day(year, one, other):
        return NamedDay(*match.span())
    return NamedDay(*match.span(), one, other, year, date(year, one, other) if year else None)


def _has_han(text: str) -> bool:
    return any("\u4e00" <= letter <= "\u9fff" for letter in text)


def _short(match: re.Match[str]) -> NamedDay:
    year, month, day = int(match["year"] or 0), han_number(match["month"]), han_number(match["day"])
    if not is_day(year, month, day):
        return NamedDay(*match.span())
    return NamedDay(*match.span(), month, day, year, date(year, month, day) if year else None)


def _day_alone(match: re.Match[str], today: date, text: str) -> NamedDay:
    """Return the next day of that number; of Christmas the next one in December."""
    span, number = (match.start("day"), match.end()), han_number(match["day"])
    if number in _CHRISTMAS_DAYS and _CHRISTMAS.search(text):
        return _exactly(*span, next_of(NamedDay(*span, _DECEMBER, number), today))
    return _exactly(*span, _next_of_month(today, number))


def _day_in_words(match: re.Match[str], today: date) -> NamedDay:
    number = _WRITTEN[match["day"].lower().replace("-", " ")]
    return _exactly(match.start(), match.end(), _next_of_month(today, number))


def _next_of_month(today: date, number: int) -> date | None:
    """Return the next day with that number, *today* included."""
    for ahead in range(3):
        day = _of_month(today, number, months=ahead)
        if day is not None and day >= today:
            return day
    return None


def _recurring(match: re.Match[str], today: date) -> NamedDay:
    start, end = match.span()
    later = match["later"] if _MOVED_FROM.search(match.string[max(0, start - _OFF_CHARS) : start]) else None
    if match["odd"] or match["also1"] or (match["also3"] and not later) or match["并"]:
        return NamedDay(start, end)
    start = match.start("later") if later else start
    weekday = later or match["weekly"] or match["weekly2"] or match["weekly3"] or match["weekly4"]
    if weekday or match["每周"]:
        ahead = (_weekday_number(weekday, match["每周"]) - today.weekday()) % _WEEK_DAYS
        day = _off_days(today, ahead)
        return replace(_exactly(start, end, day), recurrence=Recurrence.WEEKLY)
    said = match["mday"] or match["mday2"] or match["mday3"] or match["mday5"] or match["每月"]
    number = _MONTH_DAYS if match["eom"] or match["月末"] else _DAY_WORDS.get((match["mday4"] or "").lower())
    number = number or han_number(said)
    return replace(_exactly(start, end, _monthly_start(today, number)), recurrence=Recurrence.MONTHLY)


def _monthly_start(today: date, number: int) -> date | None:
    """Return the first day with that number, or, when the next month has none, the last one before *today*.

    A monthly reminder of a day that a month does not have is due on that month's last day.
    """
    if not 1 <= number <= _MONTH_DAYS:
        return None
    months = 0 if number >= today.day else 1
    for ahead in (months, months - 1, months - 2):
        day = _of_month(today, number, months=ahead)
        if day is not None:
            return day
    return None


def _relative(match: re.Match[str], today: date) -> NamedDay | None:
    day = _off(match, today)
    is_day_of_week = bool(_weekday_said(match) or match["周"])
    is_ahead = not (match["today"] or match["今"] or is_day_of_week)
    is_ahead = is_ahead or _which(match) in {"next", "下", "下下", "coming", "this coming"}
    if day is None:
        return None
    is_weekday = not is_ahead and is_day_of_week
    return replace(_exactly(*match.span(), day, is_ahead=is_ahead), is_weekday=is_weekday)


def _off(match: re.Match[str], today: date) -> date | None:  # noqa: PLR0911 - a form each
    if match["nextweek"] or match["nextweek2"]:
        name = _WEEKDAYS[(match["nextweek"] or match["nextweek2"]).lower()]
        return _off_days(today, _WEEK_DAYS + name - today.weekday())
    if _weekday_said(match) or match["周"]:
        return _weekday(match, today)
    if weeks := match["away"] or match["aweek"] or match["later"]:
        return _weeks_from(match, weeks, today)
    if match["nthday"]:
        return _nth_weekday(match, today)
    if match["endofyear"] or match["eoy"] or match["年底"]:
        return _year_end(match, today)
    if match["end"] or match["endmonth"] or match["eom"] or match[0].endswith(("月底", "月末", "最后一天")):
        return _month_end(match, today)
    if number := match["monthday"] or match["monthday2"] or match["号"]:
        is_next = (match["month"] or match["month2"] or "").lower() == "next" or "下" in (match["月"] or "")
        return _of_month(today, han_number(number), months=int(is_next))
    if match["in2"]:
        return _off_days(today, _FORTNIGHT)
    if number := match["in"] or match["from"] or match["后"] or match["过"]:
        unit = match["unit"] or match["unit2"] or match["量"] or match["过量"]
        return _after(today + timedelta(days=bool(match["base"])), number, unit.lower())
    return _near(match, today)


def _year_end(match: re.Match[str], today: date) -> date | None:
    year = today.year + ((match["endofyear"] or "").lower() == "next")
    if match["年底"]:
        # 明年年底, and 明年底, whose 年 is of both words.
        start, end = match.span()
        named = (_named_year(match.string, first, end, today)[2] for first in (start, start + 1))
        year = next(filter(None, named), year)
    return date(year, _DECEMBER, _MONTH_DAYS) if year <= date.max.year else None


def _year_of(match: re.Match[str], today: date) -> int:
    """Return the year that is named beside a match; 0: none is."""
    return _named_year(match.string, *match.span(), today)[2]


def _weeks_from(match: re.Match[str], weeks: str, today: date) -> date | None:
    """Return the day that is so many weeks from a weekday, from today or from tomorrow."""
    ahead = int(bool(match["base2"]))
    if name := match["weekday4"] or match["weekday5"]:
        ahead = (_WEEKDAYS[name.lower()] - today.weekday()) % _WEEK_DAYS or _WEEK_DAYS
    return _off_days(today, ahead + _weeks(weeks) * _WEEK_DAYS)


def _weeks(said: str) -> int:
    """Return the number of weeks in "a week", "two weeks", "fortnight"."""
    first = said.lower().split()[0]
    return 2 if said.lower().endswith("fortnight") else _NUMBERS.get(first, 1)


def _near(match: re.Match[str], today: date) -> date | None:
    """Return today, tomorrow or one of the days after; of 明年今天 the same day of that year."""
    if match["overmorrow"] or match["大"]:
        return _off_days(today, 2 + (match["大"] or "").count("大"))
    if match["今"] and (year := _year_of(match, today)):
        return _of_month(today, today.day, months=(year - today.year) * _DECEMBER)
    return _off_days(today, 1 if match["tomorrow"] or match["明"] else 0)


def _off_days(today: date, days: int) -> date | None:
    return today + timedelta(days=days) if (date.max - today).days >= days else None


def _after(today: date, number: str, unit: str) -> date | None:
    if number == "半":
        return months_after(today, _HALF_YEAR) if unit == "年" else _half_month_after(today) if "月" in unit else None
    count = 2 if number == "俩" else number_of(number)
    if unit.startswith("y") or unit == "年":
        return months_after(today, count * _DECEMBER)
    if unit.startswith("m") or unit.endswith("月"):
        day = months_after(today, count)
        return _half_month_after(day) if day is not None and "半" in unit else day
    return _off_days(today, count * (_WEEK_DAYS if unit[0] == "w" or unit[-1] in "周期拜" else 1))


def _half_month_after(day: date) -> date | None:
    return _off_days(day, _HALF_MONTH)


def months_after(today: date, months: int) -> date | None:
    """Return the same day so many months later, in a month without it the last; *months* may be negative."""
    number = today.year * _DECEMBER + today.month - 1 + months
    if not date.min.year <= number // _DECEMBER <= date.max.year:
        return None
    return _of_month(today, today.day, months=months) or _end_of(number)


def _which(match: re.Match[str]) -> str:
    return (match["下"] or match["which"] or match["which2"] or "").strip().lower()


def _weekday_number(name: str | None, han: str | None) -> int:
    if han:
        return _HAN_WEEKDAYS.find(han) % _WEEK_DAYS
    said = (name or "").lower()
    return _WEEKDAYS.get(said, _SHORT.get(said, 0))


def _weekday_said(match: re.Match[str]) -> str | None:
    names = ("weekday", "weekday2", "weekday3", "weekday7", "weekday8")
    return next((match[name] for name in names if match[name]), None)


def _weekday(match: re.Match[str], today: date) -> date | None:
    """Return the day of a week that is named, on its own the next one."""
    said = _weekday_said(match)
    name = _weekday_number(said, match["周"])
    which = _which(match)
    weeks = {"next": 1, "下": 1, "下下": 2, "这": 0, "本": 0, "this": 0}.get(which)
    if weeks is not None:
        return _off_days(today, weeks * _WEEK_DAYS + name - today.weekday())
    return _off_days(today, (name - today.weekday()) % _WEEK_DAYS or _WEEK_DAYS)


def _nth_weekday(match: re.Match[str], today: date) -> date | None:
    nth, name = _ORDINALS[match["ordinal"].lower()], _WEEKDAYS[match["nthday"].lower()]
    number = today.year * _DECEMBER + today.month - 1
    if match["nthmonth"] and (year := _year_of(match, today)):
        number = year * _DECEMBER + _month_number(match["nthmonth"]) - 1
    elif match["nthmonth"]:
        ahead = (_month_number(match["nthmonth"]) - today.month) % _DECEMBER
        number += ahead
    elif match["ofmonth"].lower() == "next":
        number += 1
    first, last = _first_of(number), _end_of(number)
    if nth:
        day = first + timedelta(days=(name - first.weekday()) % _WEEK_DAYS + (nth - 1) * _WEEK_DAYS)
    else:
        day = last - timedelta(days=(last.weekday() - name) % _WEEK_DAYS)
    return day if first <= day <= last else None


def _month_end(match: re.Match[str], today: date) -> date | None:
    said = (match["end"] or match["底月"] or "").lower()
    year = int(match["endyear"] or match["底年"] or 0) or _year_of(match, today)
    month = _month_number(match["endmonth"]) if match["endmonth"] else han_number(said)
    if not 0 <= month <= _DECEMBER:
        return None
    number = today.year * _DECEMBER + today.month - 1
    if year and month:
        number = year * _DECEMBER + month - 1
    elif month:
        ahead = (month - today.month) % _DECEMBER
        if ahead > _AHEAD_MONTHS:
            return None
        number += ahead
    elif said.startswith(("next", "下")):
        number += 1
    return _end_of(number)


def _month_number(name: str) -> int:
    return next(number for number, month in enumerate(MONTHS, start=1) if month[:3].lower() == name[:3].lower())


def _first_of(number: int) -> date:
    return date(number // _DECEMBER, number % _DECEMBER + 1, 1)


def _end_of(number: int) -> date:
    first = _first_of(number)
    return first.replace(day=calendar.monthrange(first.year, first.month)[1])


def _of_month(today: date, day: int, *, months: int) -> date | None:
    year, month = divmod(today.year * _DECEMBER + today.month - 1 + months, _DECEMBER)
    in_range = date.min.year <= year <= date.max.year
    return date(year, month + 1, day) if in_range and is_day(year, month + 1, day) else None


def number_of(text: str) -> int:
    """Return the value of "two", "couple of", 两 or a numeral; 0: it is none."""
    if text.isdecimal():
        return int(text)
    return _NUMBERS.get(text.lower()) or han_number(text.replace("两", "二"))


# The Chinese lunisolar calendar.


_LUNAR_MONTHS = {"正": 1, "冬": 11, "腊": 12}


def _is_lunar(match: re.Match[str]) -> bool:
    return bool(match["named"] or match["leap"] or match["month"] in _LUNAR_MONTHS or match["day"][0] in "初廿")


def _lunar(match: re.Match[str], today: date) -> NamedDay:
    name = match["month"] or "正"
    month = _LUNAR_MONTHS.get(name) or han_number(name)
    said = match["day"]
    day = han_number(said.removeprefix("初")) if not said.startswith("廿") else 20 + han_number(said[1:] or "〇")
    if match["leap"] or not day:
        return NamedDay(*match.span())
    found = next_lunar_day(month, day, today)
    return replace(_exactly(*match.span(), found), is_lunar=True, lunar_number=day)


def _minute(match: re.Match[str]) -> int | None:
    """Return the time of a match; of a span the first: "3 to 5 pm"."""
    if match["noon"]:
        return _NOON * _MINUTES
    if match["midnight"]:
        return _MIDNIGHT
    if match["hour24"]:
        return _late(match, int(match["hour24"])) * _MINUTES + int(match["minute24"])
    is_pm = match["half"].lower() == "p"
    found = _of_half(int(match["hour"]), int(match["minute"] or 0), is_pm=is_pm)
    if found is not None and match["off"]:
        return _beside_hour(found, match)
    if found is None or not match["first"] or not _is_first_time(match):
        return found
    first = _of_half(int(match["first"]), int(match["first_minute"] or 0), is_pm=is_pm)
    # From 11 to 1 pm is from the morning on.
    return first if first is None or first < found else (first + _NOON * _MINUTES) % (_HOURS * _MINUTES)


def _spoken_minute(match: re.Match[str]) -> int | None:
    """Return the time of a match without am or pm, by the part of the day that the text names, if any."""
    hour = number_of(match["half"] or match["of"] or match["at"] or match["named"])
    is_morning, is_later = _MORNING.search(match.string), _LATER.search(match.string)
    is_known = is_morning or is_later or not (_LAST_OF_AFTERNOON < hour < _NOON or _RISING.search(match.string))
    if not is_known or (is_morning and is_later) or (is_later and hour == _NOON):
        return None
    start = _of_half(hour, int(match["at_minute"] or match["named_minute"] or 0), is_pm=not is_morning)
    if start is None or match["half"]:
        return None if start is None else start + _MINUTES // 2
    return _beside_hour(start, match) if match["off"] else start


def _is_first_time(match: re.Match[str]) -> bool:
    """Return whether a number before a time begins a span of time; "moved from 3 to 5 pm" is no span."""
    begin = max(0, match.start() - _SPAN_CHARS)
    return bool(_SPAN_BEFORE.search(match.string[begin : match.start()])) and not MOVED_TO.search(match.string)


def _of_half(hour: int, minute: int, *, is_pm: bool) -> int | None:
    return (hour % _NOON + _NOON * is_pm) * _MINUTES + minute if 1 <= hour <= _NOON else None


def _beside_hour(hour: int, match: re.Match[str]) -> int:
    """Return the time that is so many minutes past an hour, or before it."""
    minutes = _OFF_MINUTES[match["off"].lower().removeprefix("a ").replace("-", " ")]
    is_past = match["side"].lower() in {"past", "after"}
    return (hour + (minutes if is_past else -minutes)) % (_HOURS * _MINUTES)


def _late(match: re.Match[str], hour: int) -> int:
    """Return an hour up to 11, which a sentence says to be of the afternoon or the evening, as it is of 24."""
    begin = max(0, match.start() - _SPAN_CHARS)
    before = _LATE_BEFORE.search(match.string[begin : match.start()])
    if not 0 < hour < _NOON or not (before or _LATE_AFTER.match(match.string, match.end())):
        return hour
    is_noon = before is not None and before[0].startswith("中午")
    return hour if is_noon and hour > _LAST_OF_NOON else hour + _NOON


def _han_minute(match: re.Match[str]) -> int | None:
    hour, part, said = number_of(match["hour"]), match["part"] or "", match["minute"] or ""
    if match["less"] or _LESS.search(match.string[max(0, match.start() - _SPAN_CHARS) : match.start()]):
        return None
    is_night = part.endswith(_NIGHT) and part != "傍晚"
    if is_night and hour == _NOON and not said:
        return _MIDNIGHT
    if is_night and (hour == _NOON or hour <= _SMALL_HOURS):
        return None
    if hour == _NOON and part == "凌晨":
        hour = 0
    if (part in _LATE and hour < _NOON) or (part == "中午" and hour <= _LAST_OF_NOON):
        hour += _NOON
    if hour >= _HOURS or (not part and hour <= _FRIENDLY_HOURS):
        return None
    minute = _HAN_MINUTES.get(said) or (number_of(said) if said else 0)
    return hour * _MINUTES + minute if minute < _MINUTES else None
