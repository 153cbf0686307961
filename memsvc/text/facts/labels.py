"""Readable names of topics and values, and questions, for people who settle a conflict.

Topics are keys: sorted stems, an owner, and the number of a scale, such as "preferred choice 14 of user". A label says
the same in words: "preferred programming language".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from memsvc.domain.conflicts import (
    ABLE,
    ABOUT,
    CHANGED,
    DOING,
    HAVING,
    LIKING,
    LOOSE,
    POLE,
    STATE,
    WEEKDAY,
    WEEKLY,
    WHO,
    Conflict,
    Contradiction,
    Fact,
    Rule,
)
from memsvc.domain.memory import Memory, Origin
from memsvc.text.analysis import is_han
from memsvc.text.facts import chinese_lexicon
from memsvc.text.facts.english_lexicon import KIN
from memsvc.text.facts.english_traits import BARE_HABITS, third_person
from memsvc.text.sentences import sentences

CONTRAST_LABELS = (
    "length",
    "brightness",
    "drink",
    "indentation",
    "units",
    "tone",
    "channel",
    "seat",
    "time of day",
    "temperature",
    "place of work",
    "taste",
    "clock",
    "loudness",
    "programming language",
    "editor",
    "operating system",
    "database",
    "web framework",
    "pet",
)
"""The names of `english_lexicon.CONTRASTS`, in its order."""
SCALE_LABELS = (
    "marital status",
    "enabled or disabled",
    "open or closed",
    "active or inactive",
    "online or offline",
    "public or private",
    "required or optional",
    "diet",
    "alive or dead",
    "paid or free",
    "approved or rejected",
    "handedness",
    "pregnancy",
    "supported or not",
)
"""The names of `english_lexicon.SCALES`, in its order."""
HAN_CONTRAST_LABELS = (
    "长短",
    "明暗",
    "座位",
    "饮料",
    "语气",
    "联系方式",
    "时段",
    "冷热",
    "口味",
    "单位制",
    "办公方式",
    "编程语言",
    "操作系统",
    "宠物",
)
"""The names of `chinese_lexicon.CONTRASTS`, in its order."""
HAN_SCALE_LABELS = ("婚姻状况", "启用状态", "公开状态", "在线状态", "必填或选填", "饮食", "收费或免费", "审批结果")
"""The names of `chinese_lexicon.SCALES`, in its order."""
USER = "user"
_NAMED_BY_OWNER = frozenset({"number", "state", "person"})
"""Slots of loose topics that say nothing to people."""

_LAST = frozenset({"name", "number", "address"})
"""Words that others precede, as in "phone number"."""

_HAN = re.compile(r"[\u3400-\u9fff]")
_PREFERRED = re.compile(r"preferred (?P<rest>.+) (?P<number>\d+)")
_SCALE = re.compile(r"(?P<verb>\w+) (?P<words>.+) scale (?P<number>\d+)(?: on (?P<day>\w+))?")
_HAN_PREFERRED = re.compile(r"偏好(?P<rest>.*) (?P<number>\d+)")
_HAN_SCALE = re.compile(r"状态 (?P<number>\d+)")
_HAN_HABITS = {"烟": "抽烟", "酒": "喝酒"}
"""Things of which the habit is better known than the liking."""
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_HAN_LIKING = re.compile(r"(?P<verb>喜欢|更喜欢)(?P<thing>.+)")
_SPAN = re.compile(r"(?P<topic>.+?) in (?P<span>.+)")
_OWNED = re.compile(r"(?P<slot>.+) of (?P<owner>.+?)")


def topic_label(topic: str) -> str:
    """Return the name of a topic for people, such as "favorite color" for "is color favorite user"."""
    if topic.startswith(LOOSE):
        slot, _, owner = topic.removeprefix(LOOSE).partition(" of ")
        named = owner if slot in _NAMED_BY_OWNER else slot if owner in {"", USER} else f"{slot} of {owner}"
        return named.replace("_", " ")
    spanned = _SPAN.fullmatch(topic)
    core = spanned["topic"] if spanned else topic
    is_han = _HAN.search(core) and " of " not in core
    label = _han_label(core) if is_han else _english_label(core)
    return f"{label} in {spanned['span']}" if spanned else label


def value_label(fact: Fact) -> str:
    """Return what *fact* says of its topic for people, such as "python" for "0:python"."""
    parts = {part.sort: part.text for part in fact.parts if part.sort not in {ABOUT, CHANGED, WHO}}
    if STATE in parts:
        return "so" if fact.positive else "no longer so"
    is_chinese = is_chinese_topic(fact.topic)
    trait = _trait_label(parts, is_chinese=is_chinese, positive=fact.positive)
    if trait:
        return trait
    said = " ".join(
        _part_label(fact, sort, text, is_weekly=WEEKLY in parts)
        for sort, text in parts.items()
        if sort not in {WEEKLY, HAVING}
    ).replace("|", ", ")
    if fact.positive:
        return said
    if said == "likes":
        return "dislikes"
    no = "不是" if WEEKDAY in parts else "不"
    return f"{no}{said}" if _HAN.search(said) else f"not {said}"


def is_chinese_topic(topic: str) -> bool:
    """Return whether a topic is of a Chinese statement; names in an English one may be Chinese."""
    return _HAN.search(topic) is not None and " of " not in topic and not topic.startswith("is ")


def _trait_label(parts: Mapping[str, str], *, is_chinese: bool, positive: bool) -> str:
    """Return what someone does, can or has, such as "does not smoke"; empty for other statements."""
    done = [text for sort, text in parts.items() if sort.startswith(DOING)]
    if ABLE in parts:
        yes, no = (parts[ABLE], f"不{parts[ABLE]}") if is_chinese else (f"can {parts[ABLE]}", f"cannot {parts[ABLE]}")
    elif len(done) > 1:
        yes, no = "", "不再" if is_chinese else "no longer"
    elif done:
        yes, no = (done[0], f"不{done[0]}") if is_chinese else (third_person(done[0]), f"does not {done[0]}")
    elif parts.get(HAVING) == "no":
        return "没有" if is_chinese else "none"
    elif HAVING in parts and "amount" not in parts:
        yes, no = ("有", "没有") if is_chinese else ("has", "does not have")
    else:
        return ""
    return yes if positive else no


def _part_label(fact: Fact, sort: str, text: str, *, is_weekly: bool = False) -> str:
    if sort == WEEKDAY:
        return _weekday_label(int(text), is_chinese=is_chinese_topic(fact.topic), is_weekly=is_weekly)
    if sort != POLE:
        return text
    pole, _, said = text.partition(":")
    scale = _HAN_SCALE.search(fact.topic)
    if said or scale is None:
        return said or text
    return chinese_lexicon.SCALES[int(scale["number"])][int(pole)][0]


def _weekday_label(day: int, *, is_chinese: bool, is_weekly: bool) -> str:
    if is_chinese:
        return f"{'每' if is_weekly else ''}周{'一二三四五六日'[day]}"
    return f"{_WEEKDAYS[day]}{'s' if is_weekly else ''}"


def _english_label(topic: str) -> str:
    if scale := _SCALE.fullmatch(topic):
        about = _with_owner("", scale["words"].split())
        label = SCALE_LABELS[int(scale["number"])]
        label = f"{label} on {scale['day'].capitalize()}" if scale["day"] else label
        return label if about == USER else f"{about}: {label}"
    verb, _, words = topic.partition(" ")
    if owned := _OWNED.fullmatch(topic):
        return _with_owner(_slot_label(owned["slot"]), owned["owner"].split())
    about = _with_owner("", words.split())
    return about if verb == "is" else f"{about}: {verb}"


def _slot_label(slot: str) -> str:
    preferred = _PREFERRED.fullmatch(slot)
    if preferred is None:
        if slot.startswith("speaking "):
            return f"speaking {slot.removeprefix('speaking ').capitalize()}"
        thing = slot.removeprefix(f"{LIKING} ")
        return thing if thing in BARE_HABITS else slot.removeprefix("choice of ").removeprefix(f"{HAVING} ")
    label = f"preferred {CONTRAST_LABELS[int(preferred['number'])]}"
    return label if preferred["rest"] == "choice" else f"{label} of {preferred['rest']}"


def _with_owner(label: str, words: list[str]) -> str:
    """Return a label with the words of its owner that is not the user alone."""
    # The words are sorted; these are said first or last.
    owner = [word for word in words if word in KIN]
    rest = [word for word in words if word != USER and word not in KIN]
    rest.sort(key=lambda word: (word != "favorite", word in _LAST))
    text = " ".join((*owner, *rest))
    if not label:
        return " ".join((*(f"{word}'s" for word in owner), *rest)) if owner and rest else text or USER
    return f"{label} of {text}" if text else label


def _han_label(topic: str) -> str:
    who, _, slot = topic.partition(" ")
    who = who.removeprefix(f"{USER}:")
    if preferred := _HAN_PREFERRED.fullmatch(slot):
        name = HAN_CONTRAST_LABELS[int(preferred["number"])]
        slot = f"偏好: {preferred['rest']}{name}"
    elif scale := _HAN_SCALE.fullmatch(slot):
        slot = HAN_SCALE_LABELS[int(scale["number"])]
    elif liking := _HAN_LIKING.fullmatch(slot):
        slot = _HAN_HABITS.get(liking["thing"], f"{liking['verb']}: {liking['thing']}")
    elif slot.startswith("有"):
        slot = slot.removeprefix("有")
    elif slot == "是":
        slot = ""
    return " ".join(part for part in (who if who != USER else "", slot) if part)


# Questions that settle a conflict, in the language of the newer memory: Chinese if its text is mostly Chinese.


QUOTED_CHARS = 120
"""Longer sentences are cut."""
_HOMES = frozenset({"home", "住处"})
"""The topics of the user's own home."""
_FIRST_PERSON = re.compile(r"\b(?:i|i'm|i've|my|me|we|our)\b|我|咱", re.IGNORECASE)
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip


def conflict_question(contradiction: Contradiction) -> str:
    """Return a question to put to the user, such as "You said … (3 May) and later … (9 June). Which is right now?".

    What was said first comes first. What a tool, a document or an import says, and is trusted less, comes last and is
    introduced as such. A side that is not visible is asked for by its value alone. The days are those of UTC.
    """
    conflict, older, newer = contradiction.conflict, contradiction.older, contradiction.newer
    in_chinese = is_han(newer.content if newer is not None else f"{conflict.newer_value} {conflict.topic}")
    if older is None or newer is None:
        if in_chinese:
            return f"{conflict.topic}：现在是“{conflict.newer_value}”，还是“{conflict.older_value}”？"
        return f"About {conflict.topic}: is it now “{conflict.newer_value}” or “{conflict.older_value}”?"
    said = older.said_time, _newer_said_time(conflict, older, newer)
    sides = [(older, conflict.older_value, said[0]), (newer, conflict.newer_value, said[1])]
    source = _less_trusted_source(older, newer)
    if source is None:
        sides.sort(key=lambda side: side[2])
    days = _days(*(moment for _, _, moment in sides), in_chinese=in_chinese)
    is_home = conflict.rule is Rule.LOCATION and conflict.topic in _HOMES and source is None
    if is_home and is_han(older.content) == in_chinese and not (older.speaker or newer.speaker):
        places = [_as_written(value, memory) for memory, value, _ in sides]
        if in_chinese:
            return f"你说过住在{places[0]}{days[0]}，后来又说住在{places[1]}{days[1]}。现在哪个是对的？"
        return f"You said you live in {places[0]}{days[0]} and later in {places[1]}{days[1]}. Which is right now?"
    quotes = [_quote(memory, value) for memory, value, _ in sides]
    before, after = _introductions(older, newer, in_chinese=in_chinese)
    link = "，" if in_chinese else " and "
    if source is not None:
        before = _introduction(older, in_chinese=in_chinese)
        link, after = ("，但", f"{source.chinese}说") if in_chinese else (", but ", f"{source.english} says")
    if in_chinese:
        return f"{before}“{quotes[0]}”{days[0]}{link}{after}“{quotes[1]}”{days[1]}。现在哪个是对的？"
    return f"{before} “{quotes[0]}”{days[0]}{link}{after} “{quotes[1]}”{days[1]}. Which is right now?"


class _SourceName(NamedTuple):
    """The name of a class of sources in both languages."""

    english: str
    chinese: str


_SOURCES = {
    Origin.TOOL: _SourceName("a tool", "一个工具"),
    Origin.DOCUMENT: _SourceName("a document", "一份文档"),
    Origin.IMPORT: _SourceName("an import", "导入的资料"),
}


def _less_trusted_source(older: Memory, newer: Memory) -> _SourceName | None:
    """Return the class of sources of *newer* if it is none of the user or an agent, and trusted less than *older*."""
    return _SOURCES.get(newer.origin) if newer.trust < older.trust else None


def _introduction(memory: Memory, *, in_chinese: bool) -> str:
    """Return the words before the quotation of a memory that is trusted more than the other one."""
    who = memory.speaker or (("你" if in_chinese else "You") if memory.origin is Origin.USER else "")
    if in_chinese:
        return f"{who}说过" if who else "之前记录的是"
    return f"{who} said" if who else "It was noted that"


def _newer_said_time(conflict: Conflict, older: Memory, newer: Memory) -> datetime:
    """Return when the newer side was said: if it is the older memory, changed since, when that was found."""
    is_restated = newer.event_time is None and newer.said_time < older.said_time
    return conflict.create_time if is_restated else newer.said_time


def _introductions(older: Memory, newer: Memory, *, in_chinese: bool) -> tuple[str, str]:
    """Return the words before each quotation: who said it, where that is known."""
    speaker = older.speaker if older.speaker == newer.speaker else ""
    is_user = not (older.speaker or newer.speaker) and bool(
        _FIRST_PERSON.search(older.content) and _FIRST_PERSON.search(newer.content)
    )
    if in_chinese:
        who = "你" if is_user else speaker
        return (f"{who}说过", "后来又说") if who else ("之前记录的是", "后来记录的是")
    who = "You" if is_user else speaker
    return (f"{who} said", "later") if who else ("It was noted that", "later that")


def _quote(memory: Memory, value: str) -> str:
    """Return the sentence of a memory that states a value, else its first one, without the mark at its end."""
    said = [sentence.strip() for sentence in sentences(memory.content) if sentence.strip()] or [memory.content]
    chosen = next((one for one in said if value.lower() in one.lower()), said[0])
    text = " ".join(chosen.split()).rstrip(".。!！")
    return text if len(text) <= QUOTED_CHARS else f"{text[: QUOTED_CHARS - 1]}…"


def _as_written(value: str, memory: Memory) -> str:
    """Return a value with the letters that the memory has, which statements do not keep."""
    found = re.search(re.escape(value), memory.content, re.IGNORECASE)
    return found[0] if found else value


def _days(older: datetime, newer: datetime, *, in_chinese: bool) -> tuple[str, str]:
    has_years = older.year != newer.year
    first, second = (_day(moment, in_chinese=in_chinese, has_year=has_years) for moment in (older, newer))
    return first, "" if second == first else second


def _day(moment: datetime, *, in_chinese: bool, has_year: bool) -> str:
    if in_chinese:
        return f"（{f'{moment.year}年' if has_year else ''}{moment.month}月{moment.day}日）"
    return f" ({moment.day} {_MONTHS[moment.month - 1]}{f' {moment.year}' if has_year else ''})"
