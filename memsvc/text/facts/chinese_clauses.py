"""The parts of Chinese clauses: who is spoken of, and what a phrase names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from memsvc.domain.conflicts import ValuePart
from memsvc.text.facts.values import chinese_place

_QUOTED = re.compile(r"[“\"「『]([^”\"」』]*)[”\"」』]")
_MOST_QUOTED_CHARS = 6
_SPLIT = re.compile(r"[，,；;。！!…\n]+|(?<=[^\d])、(?=我|他|她)|但是?(?=[我他她不])|而且|并且")
_UNSAID = re.compile(
    r"如果|要是|假如|假设|可能|也许|或许|大概|(?<![联思理幻感])想(?!念)|打算|计划(?!经济)|希望|准备(?!金)|考虑|梦想|曾|以前|之前|过去|从前|原来|原先|本来"
    r"|小时候|年轻时|当时|那时|(?<!小)说(?!明)|认为|觉得|以为|听说|据说|传言|是否|要不要|会不会|能不能|是不是|应该|建议|例如|比如|假装|差点|除非"
    r"|写道|问|吗$|吗？|呢$|？|\?|前年|去年|年前|暂时|有时|偶尔|(?:19|20)\d\d年(?!\d*月)|将(?:会|要|在)|快要|明年|下个?月"
)
_LEADING = re.compile(
    r"^(?:目前|现在|当前|如今|最近|今天|今后|从今天起|以后|更新|备注|注意|另外|还有|事实|偏好|已经|其实|听好)[：:，,]?"
)
_NAME_END = re.compile(
    r"(?:目前|现在|如今|当前|最近|已经|已|刚刚|刚|也|还|都|又|就|仍然|仍|一直|的|是|常|更|比较|平时|通常|一般|总是|真的?|其实|了)+$"
)
_INDEFINITE = re.compile(
    r"^(?:有|某|一个|一位|一些|很多|这|那|谁|什么|哪|没有|每|所有|大家|人们|别人|有人|你|您|它)|[的地得]?时候|因为|所以|虽然|认识|知道|看来|让|使得|不过|但|一[个位名部]|[？?：:《]|又是|那天|喜欢|其中|在$"
)
_GENERIC = re.compile(r"的|我们的?|咱们的?|项目(?=.)|最新|当前|目前|现在|新(?=.)")
_MOST_SUBJECT = 16
_PLACE_END = re.compile(r"(?:了|的家|那边|附近|这边|生活|工作|定居|居住|长住|常住|上班|上学|，.*|已经.*)+$")
_NO_PLACE = re.compile(
    r"^(?:一|这|那|哪|两|[大小新老旧](?:房|屋|楼|公寓|区|城|镇|村|家|别墅|地方)|学校|宿舍|家|酒店|公司|医院|别人|父母|他|她|我|朋友|同事)|的"
)
_MOST_PLACE = 12


@dataclass(slots=True)
class HanSpeakerContext:
    """The speaker and the last person mentioned; as `english.SpeakerContext`."""

    me: str | None
    silent: str | None
    last: str | None = None


def clauses(sentence: str) -> Iterator[str]:
    """Yield the clauses of a sentence that assert something now: no wish, plan, guess, report or past."""
    if sentence.rstrip('”"」』 ').endswith(("?", "？", "吗", "呢")):
        return
    text = _QUOTED.sub(lambda quote: quote[1] if len(quote[1]) <= _MOST_QUOTED_CHARS else "说", sentence)
    for clause in _SPLIT.split(text.replace(" ", "") if not text.isascii() else text):
        asserted = _LEADING.sub("", (clause or "").strip("：:。.！! "))
        if asserted and _UNSAID.search(asserted):
            return
        if asserted:
            yield asserted


def subject_of(text: str, speaking: HanSpeakerContext) -> str | None:
    """Return what a subject is called, or None when it is nothing definite."""
    said = _NAME_END.sub("", _LEADING.sub("", text.strip()))
    if not said:
        return speaking.last or speaking.silent
    if said in _WORDS:
        return _WORDS[said](speaking)
    if not 1 < len(said) <= _MOST_SUBJECT or _INDEFINITE.search(said):
        return None
    owner = "用户" if said.startswith("用户") else said[0]
    if owner in _WORDS and not said.startswith("我们"):
        whose = _WORDS[owner](speaking)
        return None if whose is None else f"{whose}:{_name_of(said.removeprefix(owner))}"
    return _name_of(said) or None


_WORDS: Mapping[str, Callable[[HanSpeakerContext], str | None]] = {
    "我": lambda speaking: speaking.me,
    "本人": lambda speaking: speaking.me,
    "俺": lambda speaking: speaking.me,
    "用户": lambda _: "user",
    "他": lambda speaking: speaking.last,
    "她": lambda speaking: speaking.last,
}
"""Pronouns and their persons."""


def _name_of(text: str) -> str:
    return _GENERIC.sub("", text).lower() or text


def place_in(text: str) -> ValuePart | None:
    """Return the place that *text* names."""
    place = _PLACE_END.sub("", text.strip())
    if not 1 < len(place) <= _MOST_PLACE or _NO_PLACE.search(place):
        return None
    return chinese_place(place)
