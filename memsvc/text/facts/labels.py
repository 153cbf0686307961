"""Readable names of topics and values, for people who settle a conflict.

Topics are keys: sorted stems, an owner, and the number of a scale, such as "preferred choice 14 of user". A label says
the same in words: "preferred programming language".
"""

from __future__ import annotations

import re

from memsvc.domain.conflicts import ABOUT, CHANGED, LOOSE, POLE, STATE, WHO, Fact
from memsvc.text.facts import chinese_lexicon
from memsvc.text.facts.english_lexicon import KIN

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
_SCALE = re.compile(r"(?P<verb>\w+) (?P<words>.+) scale (?P<number>\d+)")
_HAN_PREFERRED = re.compile(r"偏好(?P<rest>.*) (?P<number>\d+)")
_HAN_SCALE = re.compile(r"状态 (?P<number>\d+)")
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
    parts = [part for part in fact.parts if part.sort not in {ABOUT, CHANGED, WHO}]
    if any(part.sort == STATE for part in parts):
        return "so" if fact.positive else "no longer so"
    said = " ".join(_part_label(fact, part.sort, part.text) for part in parts).replace("|", ", ")
    if fact.positive:
        return said
    if said == "likes":
        return "dislikes"
    return f"不{said}" if _HAN.search(said) else f"not {said}"


def _part_label(fact: Fact, sort: str, text: str) -> str:
    if sort != POLE:
        return text
    pole, _, said = text.partition(":")
    scale = _HAN_SCALE.search(fact.topic)
    if said or scale is None:
        return said or text
    return chinese_lexicon.SCALES[int(scale["number"])][int(pole)][0]


def _english_label(topic: str) -> str:
    if scale := _SCALE.fullmatch(topic):
        about = _with_owner("", scale["words"].split())
        label = SCALE_LABELS[int(scale["number"])]
        return label if about == USER else f"{about}: {label}"
    verb, _, words = topic.partition(" ")
    if owned := _OWNED.fullmatch(topic):
        return _with_owner(_slot_label(owned["slot"]), owned["owner"].split())
    about = _with_owner("", words.split())
    return about if verb == "is" else f"{about}: {verb}"


def _slot_label(slot: str) -> str:
    preferred = _PREFERRED.fullmatch(slot)
    if preferred is None:
        return slot.removeprefix("choice of ")
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
        slot = f"{liking['verb']}: {liking['thing']}"
    elif slot == "是":
        slot = ""
    return " ".join(part for part in (who if who != USER else "", slot) if part)
