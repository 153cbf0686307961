"""Corrections of what was said a moment before: "no wait, I meant Thursday", 说错了，是下周五; English and Chinese.

A correction names the right value alone. It is applied to the statement that it corrects, so that the statement is
remembered as it was meant. So is the news that something unnamed was moved: "it got moved to the 24th", 改到24号了.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from memsvc.text.analysis import simplified_form
from memsvc.text.facts.values import MONTHS

MOST_CHARS = 120
"""A longer text is no mere correction."""
MOST_WORDS = 3
"""Words, or pairs of Han characters, of a correction that neither the corrected text nor a correction usually has."""
_MONTH = rf"(?:{'|'.join(MONTHS)})"
_HAN_NUMBER = r"(?:\d{1,2}|[一二三四五六七八九十]{1,3})"
_CUE = re.compile(
    r"^(?:(?:oh|ah|um+|er+|argh|ugh|wait|hang on|hold on)\b[\s,.!…—-]*)*"
    r"(?:(?:oops|whoops|correction|scratch that|make that|typo|my (?:mistake|bad)|i meant?|no,? wait|wait,? no)\b"
    r"|(?:no|nope|sorry|actually)\b[\s,.:!—-]*(?:it['’]?s|it is|that['’]?s|she|he|they|i (?:said|meant?)|not|on|at)\b"
    r"|(?:(?:啊|哦|噢|呃|哎呀?|等等)[，,。！!\s]*)*(?:不对|不是|[说打写记弄搞]错了|口误|更正|纠正|我是说|应该是))",
    re.IGNORECASE,
)
_OWN_ERROR = re.compile(
    r"\b(?:oops|whoops|correction|scratch that|make that|typo|my (?:mistake|bad)|i meant?|no,? wait|wait,? no|i said)\b"
    r"|\bmixed\b",
    re.IGNORECASE,
)
"""Signs that the speaker was wrong, without which a name may be that of something else: "no, that's Bob calling"."""
_MOVE_CUE = re.compile(
    r"^(?:(?:oh|ah|ugh|argh|update|and|but|so|ok(?:ay)?|hey|actually|sorry|btw|by the way|turns out)\b[\s,.:!…—-]*)*"
    r"(?:(?:it|that|this)(?:['’]s|[  ](?:has|is|was|got|gets))?(?: just| now| since)?(?: been| got(?:ten)?| being)?"
    r"(?: moved| pushed| shifted| postponed| rescheduled| changed| delayed| brought forward| put back| bumped)"
    r"(?: back| forward| out)? (?:to|until|till)\b"
    r"|(?:(?:啊|哦|噢|哎呀?|对了|更新|刚才|刚刚|后来|现在|又|被|给|通知|时间|日期|已经?)[，,。！!：:\s]*)*"
    r"(?:改到|改成|改为|改期到|推迟到|推到|延期到|延到|挪到|提前到|调到|顺延到))",
    re.IGNORECASE,
)
_MOVE_WORDS = re.compile(
    r"\b(?:moved|pushed|shifted|postponed|rescheduled|changed|delayed|brought|forward|put|back|bumped|been|has|gets|just|now"
    r"|since|out|until|till|turns|update|next|this)\b|改[到成为期]|推[迟到]|延期?到|挪到|提前到|调到|顺延|后来|通知|日期|又|被|给",
    re.IGNORECASE,
)
_DATE = re.compile(
    rf"\b(?:the )?\d{{1,2}}(?:st|nd|rd|th)?(?: of)? {_MONTH}\b|\b{_MONTH}\.? \d{{1,2}}(?:st|nd|rd|th)?\b"
    rf"|\b(?:the )?\d{{1,2}}(?:st|nd|rd|th)\b|{_HAN_NUMBER}月{_HAN_NUMBER}[日号]?|{_HAN_NUMBER}号(?![线楼院])",
    re.IGNORECASE,
)
_DAY = re.compile(
    r"\b(?:(?:next|this) )?(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|mon|tues?|wed|thu(?:rs)?|fri)\b"
    r"|\b(?:tomorrow|tonight)\b"
    r"|(?:这|本|下下?)?(?:周|星期|礼拜)[一二三四五六日天]|[今明后]天|大后天|[今明]晚",
    re.IGNORECASE,
)
_WEEKDAY_END = re.compile(rf"(?:{_DAY.pattern})[\s,，]{{0,2}}\Z", re.IGNORECASE)
_TIME = re.compile(
    r"\b\d{1,2}(?:[:.]\d\d)? ?(?:am|pm|o'clock)\b|(?<=\bat )\d{1,2}\b(?![:.]\d)|\b\d{1,2}:\d\d\b"
    r"|\b(?:half|quarter) (?:past|to) [a-z]+\b|\bnoon\b"
    rf"|{_HAN_NUMBER}点(?:半|[一三]刻|{_HAN_NUMBER}分?)?",
    re.IGNORECASE,
)
_AMOUNT = re.compile(
    r"[£$€¥]\d+(?:[.,]\d+)*|\b\d+(?:[.,]\d+)*(?= ?(?P<unit>[a-z]+))"
    r"|(?:\d+(?:\.\d+)?|[一二两三四五六七八九十百千万]+)(?=(?P<han>年级|岁|个|天|年|斤|块|元|万|次|楼|人|只|条|口|公里|米|页|分钟|小时|班))",
    re.IGNORECASE,
)
_NUMBERED = re.compile(
    r"\b(?P<unit>number|room|gate|platform|seat|flat|apartment|line|bus|version|size|floor|level|page) ?#?\d+\b",
    re.IGNORECASE,
)
_SORTS = (_DATE, _DAY, _TIME, _NUMBERED, _AMOUNT)
_NAME = re.compile(r"(?<=[a-z,:] )[A-Z][a-z]+(?: [A-Z][a-z]+)*\b(?!['’]s)")
_NO_NAME = re.compile(rf"(?:{_MONTH}|(?:mon|tues|wednes|thurs|fri|satur|sun)day)s?", re.IGNORECASE)
_DENIED = re.compile(r"(?:\bnot|\binstead of|\brather than|不是|而非)\s*(?:on |at |in )?$", re.IGNORECASE)
_DAY_OF_MONTH = re.compile(r"\d{1,2}(?:st|nd|rd|th)?|[一二三四五六七八九十]{1,3}(?=[日号])")
_USUAL = frozenset(
    re.findall(
        r"\S+",
        "a an and am are as at bad be but by correct correction day days don't for from got have he her his i i'm "
        "in instead is it it's its just keep lives made make mean meant miscounted misread mistake mistyped mixed "
        "my no not oh on one oops place rather right said same say she sorry still than that that's the their they "
        "time to typo up wait was wrong your",
    )
)
_WORD = re.compile(r"[a-z]+(?:['’][a-z]+)?", re.IGNORECASE)
_USUAL_HAN = re.compile(
    r"不变|没错|没变|不动|时间|地点|其他|一样|刚才|刚刚|上面|之前|[说打写记弄搞]错|口误|更正|纠正|一下|不对|不是|应该|才对"
    r"|[的了是在我他她它说啊哦吧呢都仍]"
)
_RETRACTION = re.compile(
    r"\W*(?:(?:a?ha(?:ha)*h?|hehe|lol|lmao|nah|no(?=[,.!])|oh|ok(?:ay)?|sorry|oops|wait|um+)\W+)*"
    r"(?:(?:(?:i['’]?m |i am |i was )?(?:just |only |totally )*(?:kidding|joking|messing(?: with you)?)|jk|j/k"
    r"|(?:it|that) was (?:just |only )?a joke|(?:scratch|strike|disregard|ignore) that|i take (?:that|it) back"
    r"|(?:please )?(?:ignore|disregard) (?:my last message|what i (?:just )?said)"
    r"|forget (?:that )?i (?:ever |just )?said (?:that|anything|it)))"
    r"(?:\W+(?:lol|a?ha(?:ha)*h?|hehe|obviously|of course|sorry|mate|please|i['’]?m not(?: really)?))*\W*"
    r"|\W*(?:(?:[哈嘿呵嘻唉啊噢哦]|哎呀?|好吧|算了吧?|没有?啦|不是啦)[\s，,。！!~～…]*)*"
    r"(?:(?:我?(?:是|就是)?(?:跟|和)?你?(?:开(?:个|你)?玩笑|说着玩|逗你玩?|骗你|瞎说|胡说)(?:儿)?(?:的|呢|啦|而已|罢了)+)"
    r"|(?:你?就)?当我(?:刚才?)?没说(?:过)?|(?:刚才|上面|前面)(?:的|那句话?|说的)*(?:都)?(?:当我没说|不算|作废)"
    r"|我?收回(?:刚才|上面)?(?:的|那句|说的)*话?)(?:[吧啦了哈啊])*[\s。！!~～…，,]*",
    re.IGNORECASE,
)
"""A text that only takes back what was said before it."""
_ADDS = re.compile(r"\b(?:also|too|as well)\b|[也还]", re.IGNORECASE)


class _Value(NamedTuple):
    start: int
    end: int
    text: str
    unit: str


def is_correction(text: str) -> bool:
    """Return whether a text begins as a correction of what was said before, asks nothing and adds nothing."""
    if len(text) > MOST_CHARS or text.rstrip().endswith(("?", "？", "吗", "呢", "么")):
        return False
    return _CUE.match(text) is not None and _ADDS.search(text) is None


def correct_statement(statement: str, correction: str) -> str | None:
    """Return *statement* with the values that a correction names: a date, a day, a time, an amount, else a name.

    None if it is not sure what is corrected: the correction names two values of a sort, or none of a sort of which the
    statement has exactly one, or says more than the value.
    """
    if not is_correction(correction) or _says_more(correction, statement):
        return None
    result = statement
    for pattern in _SORTS:
        result = _replaced(result, correction, pattern)
    if result == statement and _OWN_ERROR.search(correction):
        result = _replaced(statement, correction, _NAME)
    return result if result != statement else None


def is_move(text: str) -> bool:
    """Return whether a text says that something which it does not name was moved, asks nothing and adds nothing."""
    if len(text) > MOST_CHARS or text.rstrip().endswith(("?", "？", "吗", "呢", "么", "吧")):
        return False
    return _MOVE_CUE.match(text) is not None and _ADDS.search(text) is None


def move_statement(statement: str, move: str) -> str | None:
    """Return *statement* with the day, and the time, to which a *move* says that it was moved.

    None unless each names exactly one day, and the move says no more than that.
    """
    if not is_move(move) or _says_more(_MOVE_WORDS.sub(" ", move), statement):
        return None
    before, after = _days(statement), _days(move)
    if len(before) != 1 or len(after) != 1 or _plain(before[0][0].text) == _plain(after[0][0].text):
        return None
    [(old, sort)], [(new, new_sort)] = before, after
    said = _of_same_form(old.text, new.text, sort) if sort is new_sort else new.text
    moved = _without_weekday(statement[: old.start]) + said + statement[old.end :]
    return _replaced(moved, move, _TIME)


def _without_weekday(text: str) -> str:
    """Return a text without the weekday of a date that follows it: of "on Tuesday " the "on "."""
    return _WEEKDAY_END.sub("", text)


def _days(text: str) -> list[tuple[_Value, re.Pattern[str]]]:
    """Return the dates, or else the other days that a text names, each with its pattern."""
    dates = [(value, _DATE) for value in _values(text, _DATE)]
    return dates or [(value, _DAY) for value in _values(text, _DAY)]


def apply_corrections(
    texts: Sequence[tuple[str, object]],
    most_back: int = 3,
    is_to_come: Callable[[int, str], bool] = lambda *_: True,
) -> tuple[list[str], dict[int, int]]:
    """Return the statements of a conversation as they were meant, and which of them only correct another, by place.

    Args:
        texts: Each statement in order, and who said it: a speaker corrects only their own statements.
        most_back: The number of earlier statements of the same speaker among which the corrected one is looked for.
        is_to_come: Whether the statement of a place, which reads so, is about a day to come: else nothing moves it.
            What names no event moves the only one of the earlier statements that is.
    """
    meant = [text for text, _ in texts]
    corrections: dict[int, int] = {}
    for place, (text, speaker) in enumerate(texts):
        own = [at for at in range(place) if texts[at][1] == speaker and at not in corrections]
        if is_move(text):
            dated = [at for at in own[-most_back:] if _days(meant[at]) and is_to_come(at, meant[at])]
            moved = move_statement(meant[dated[0]], text) if len(dated) == 1 else None
            if moved is not None:
                meant[dated[0]] = moved
                corrections[place] = dated[0]
            continue
        if not is_correction(text):
            continue
        for at in reversed(own[-most_back:]):
            if (found := correct_statement(meant[at], text)) is not None:
                meant[at] = found
                corrections[place] = at
                break
    return meant, corrections


def find_retracted(said: Sequence[tuple[str, object, int]]) -> dict[int, int]:
    """Return which statements of a conversation are taken back, with the statements that take them back, by place.

    "Just kidding" and 当我没说 take back the statement before them in their message; where they begin it, all that the
    same speaker said in the message before.

    Args:
        said: Each statement in order, who said it, and the place of its message.
    """
    retracted: dict[int, int] = {}
    for place, (text, speaker, message) in enumerate(said):
        if not is_retraction(text):
            continue
        own = [at for at in range(place) if said[at][1] == speaker and at not in retracted]
        if own and said[own[-1]][2] == message:
            retracted[own[-1]] = place
        elif own:
            retracted |= {at: place for at in own if said[at][2] == said[own[-1]][2]}
    return retracted


def is_retraction(text: str) -> bool:
    """Return whether a text only takes back what was said before it."""
    return len(text) <= MOST_CHARS and _RETRACTION.fullmatch(simplified_form(text.strip())) is not None


def _replaced(statement: str, correction: str, pattern: re.Pattern[str]) -> str:
    """Return the statement with its one value of a sort replaced by the one other value of the correction."""
    before = list(_values(statement, pattern))
    if len(before) != 1:
        return statement
    [old] = before
    named = [
        value
        for value in _values(correction, pattern)
        if value.unit == old.unit
        and _plain(value.text) != _plain(old.text)
        and not _DENIED.search(correction[: value.start])
    ]
    if len(named) != 1:
        return statement
    return statement[: old.start] + _of_same_form(old.text, named[0].text, pattern) + statement[old.end :]


def _values(text: str, pattern: re.Pattern[str]) -> Iterator[_Value]:
    for match in pattern.finditer(text):
        if pattern is _NAME and _NO_NAME.fullmatch(match[0]):
            continue
        groups = match.groupdict()
        unit = (groups.get("unit") or groups.get("han") or "").lower().rstrip("s")
        if pattern is _AMOUNT and unit in {"am", "pm", "st", "nd", "rd", "th", "o"}:
            continue
        yield _Value(match.start(), match.end(), match[0], unit)


def _plain(value: str) -> str:
    return re.sub(r"^(?:the|next|this) |\s|号|日", "", value.lower())


def _of_same_form(old: str, new: str, pattern: re.Pattern[str]) -> str:
    """Return the new value; a date without a month keeps the month of the old one."""
    if pattern is not _DATE or re.search(rf"{_MONTH}|月", new, re.IGNORECASE):
        return new
    if not re.search(rf"{_MONTH}|月", old, re.IGNORECASE):
        return new
    day = _DAY_OF_MONTH.search(new)
    *_, last = _DAY_OF_MONTH.finditer(old)
    return new if day is None else old[: last.start()] + day[0] + old[last.end() :]


def _says_more(correction: str, statement: str) -> bool:
    """Return whether a correction has more words of its own than a mere correction has."""
    rest = correction
    for pattern in _SORTS:
        rest = pattern.sub(" ", rest)
    known = {word.lower() for word in _WORD.findall(statement)} | _USUAL
    own = [word for word in _WORD.findall(_NAME.sub(" ", rest)) if word.lower().replace("’", "'") not in known]
    han = [char for char in _USUAL_HAN.sub("", rest) if "一" <= char <= "鿿" and char not in statement]
    return len(own) + len(han) / 2 > MOST_WORDS
