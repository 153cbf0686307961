"""Questions that settle a conflict, in the language of the conversation.

The language is that of the newer memory: Chinese if its text is mostly Chinese, English otherwise.
"""

from __future__ import annotations

import re
from datetime import datetime

from memsvc.domain.conflicts import Contradiction, Rule
from memsvc.domain.memory import Memory
from memsvc.text.analysis import is_han
from memsvc.text.sentences import sentences

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

    A side that is not visible is asked for by its value alone. The days are those of UTC.
    """
    conflict, older, newer = contradiction.conflict, contradiction.older, contradiction.newer
    in_chinese = is_han(newer.content if newer is not None else f"{conflict.newer_value} {conflict.topic}")
    if older is None or newer is None:
        if in_chinese:
            return f"{conflict.topic}：现在是“{conflict.newer_value}”，还是“{conflict.older_value}”？"
        return f"About {conflict.topic}: is it now “{conflict.newer_value}” or “{conflict.older_value}”?"
    days = _days(_moment(older), _moment(newer), in_chinese=in_chinese)
    is_home = conflict.rule is Rule.LOCATION and conflict.topic in _HOMES
    if is_home and is_han(older.content) == in_chinese and not (older.speaker or newer.speaker):
        places = _as_written(conflict.older_value, older), _as_written(conflict.newer_value, newer)
        if in_chinese:
            return f"你说过住在{places[0]}{days[0]}，后来又说住在{places[1]}{days[1]}。现在哪个是对的？"
        return f"You said you live in {places[0]}{days[0]} and later in {places[1]}{days[1]}. Which is right now?"
    quotes = _quote(older, conflict.older_value), _quote(newer, conflict.newer_value)
    before, after = _introductions(older, newer, in_chinese=in_chinese)
    if in_chinese:
        return f"{before}“{quotes[0]}”{days[0]}，{after}“{quotes[1]}”{days[1]}。现在哪个是对的？"
    return f"{before} “{quotes[0]}”{days[0]} and {after} “{quotes[1]}”{days[1]}. Which is right now?"


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


def _moment(memory: Memory) -> datetime:
    return memory.event_time or memory.create_time
