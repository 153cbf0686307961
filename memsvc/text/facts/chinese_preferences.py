"""What Chinese clauses say somebody likes, dislikes or prefers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memsvc.domain.conflicts import Rule, Statement, ValuePart
from memsvc.text.facts.chinese_clauses import Speaking, subject_of
from memsvc.text.facts.chinese_lexicon import CONTRASTS

_FAVORITE = re.compile(
    r"^(?P<who>.*?)最(?:喜欢|爱|喜爱)的(?P<thing>[^是]{1,8})(?:是|变成了?|换成了?|改成了?)(?P<value>.{1,16})$"
)
_RATHER = (
    re.compile(r"^(?P<who>.*?)比起(?P<other>.+?)(?:来)?[我他她]?(?:更|还是更?)(?:喜欢|爱|偏好)(?P<value>.+)$"),
    re.compile(r"^(?P<who>.*?)更?(?:喜欢|偏好|爱)(?P<value>.+?)(?:而不是|胜过|多于|不喜欢)(?P<other>.+)$"),
)
_PREFERS = re.compile(r"^(?P<who>.*?)(?:更喜欢|更爱|偏好|偏爱|倾向于?|喜欢)(?P<value>.+)$")
_LIKES = re.compile(
    r"^(?P<who>.*?)(?P<degree>(?:很|最|非常|特别|比较|超|超级|十分|真的?|都|也|还|一直|现在|平时|挺)*)"
    r"(?:(?P<no>不再喜欢|不再爱|不太?喜欢|不太?爱|讨厌|厌恶|反感|受不了|不能接受|痛恨|恨)|喜欢上?|热爱|喜爱|钟爱|酷爱|(?<![可恋真敬亲友心])爱上?(?!人|好|情|尔|迪|丁|奇|心|护|德))(?P<value>(?!的|过).+)$"
)
_DOING = re.compile(r"^(?:喝|吃|看|听|玩|用|打|养)(?=.)")
_PREFERENCE_TAIL = re.compile(r"(?:了|啦|呀|啊|的味道|这类东西)+$")
_AND = re.compile(r"和|跟|、|以及|与")
_MOST_CHARS = 14


def preferences(clause: str, speaking: Speaking) -> Iterator[Statement]:
    """Yield favourites, what is preferred to what, likes and dislikes."""
    match = _FAVORITE.match(clause)
    if match is not None:
        who = subject_of(match["who"], speaking)
        if who is not None:
            speaking.last = who
            topic = f"{who} 最喜欢的{match['thing']}"
            yield Statement(
                Rule.PREFERENCE, topic, (ValuePart("value", _PREFERENCE_TAIL.sub("", match["value"]).lower()),)
            )
        return
    for pattern in _RATHER:
        match = pattern.match(clause)
        if match is not None:
            yield from _rather(match, speaking)
            return
    match = _PREFERS.match(clause)
    poles = [] if match is None or match["who"].endswith("不") else list(_pole(match, speaking))
    yield from poles
    match = _LIKES.match(clause)
    if match is not None:
        yield from _likes(match, speaking)


def _rather(match: re.Match[str], speaking: Speaking) -> Iterator[Statement]:
    who = subject_of(match["who"], speaking)
    chosen, other = _thing(match["value"]), _thing(match["other"])
    if who is not None and chosen and other:
        speaking.last = who
        pair = "或".join(sorted((chosen, other)))
        yield Statement(Rule.PREFERENCE, f"{who} 更喜欢{pair}", (ValuePart("choice", chosen),))


def _pole(match: re.Match[str], speaking: Speaking) -> Iterator[Statement]:
    who = subject_of(match["who"], speaking)
    if who is None:
        return
    chosen = _thing(match["value"])
    for number, scale in enumerate(CONTRASTS):
        for pole, words in enumerate(scale):
            said = next((word for word in words if chosen.startswith(word)), None)
            if said is not None:
                rest = chosen.removeprefix(said).removeprefix("的")
                topic = f"{who} 偏好{rest} {number}"
                yield Statement(Rule.PREFERENCE, topic, (ValuePart("pole", f"{pole}:{said}"),))
                return


def _likes(match: re.Match[str], speaking: Speaking) -> Iterator[Statement]:
    who = subject_of(match["who"], speaking)
    if who is None:
        return
    speaking.last = who
    for value in _AND.split(match["value"]):
        thing = _thing(value)
        if thing:
            topic = f"{who} 喜欢{thing}"
            yield Statement(Rule.PREFERENCE, topic, (ValuePart("liking", "喜欢"),), match["no"] is None)


def _thing(text: str) -> str:
    thing = _DOING.sub("", _PREFERENCE_TAIL.sub("", text.strip()))
    return thing.lower() if 0 < len(thing) <= _MOST_CHARS and "的是" not in thing else ""
