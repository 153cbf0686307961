"""What Chinese clauses say of how old somebody is and is called, of what is used as what, and of habits given up."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memsvc.domain.conflicts import Rule, Statement, ValuePart
from memsvc.text.facts.chinese_clauses import Speaking, subject_of
from memsvc.text.facts.chinese_lexicon import SINGLE
from memsvc.text.facts.names import is_han_name
from memsvc.text.facts.values import han_number

_AGE = re.compile(
    r"^(?P<who>.*?)(?:今年|现在|已经|刚|刚满|满|的年龄)*是?(?P<years>[零一二两三四五六七八九十]{1,3}|\d{1,3})周?岁了?$"
)
_ABOUT = ("快", "近", "约", "不到", "超过", "才", "要", "像")
_CALLED = re.compile(
    r"^(?P<who>我|本人|俺|用户)(?:现在)?(?:的(?:名字|姓名)(?:是|叫)|的?名字叫|名叫|叫做?)(?P<value>[^的]{2,8})$"
)
_USES = re.compile(
    r"^(?P<who>.*?)(?:现在|已经|都|一直|目前)*(?:改用|换用|使用|采用|选用|用|换成了?|改成了?)了?(?P<value>.{1,16}?)"
    r"(?:来?做|当作?|作为?)(?:我们?的?|咱们的?)?(?P<attribute>.{2,8}?)了?$"
)
_GAVE_UP = re.compile(
    r"^(?P<who>.*?)(?:现在|已经|已|如今)*(?:再也不|不再|不|戒掉?了?)(?P<verb>[吃喝抽玩])(?P<value>.{1,8}?)了?$"
)


def persons(clause: str, speaking: Speaking) -> Iterator[Statement]:
    """Yield an age, a name, the one thing that is used for something, or that somebody has given up a habit."""
    for pattern, reading in ((_AGE, _age), (_CALLED, _called), (_USES, _used), (_GAVE_UP, _gave_up)):
        match = pattern.match(clause)
        if match is not None:
            yield from reading(match, speaking)
            return


def _age(match: re.Match[str], speaking: Speaking) -> Iterator[Statement]:
    if match["who"].endswith(_ABOUT):
        return
    who = subject_of(match["who"], speaking)
    if who is not None:
        speaking.last = who
        yield Statement(Rule.GENERAL, f"{who} 年龄", (ValuePart("years", str(han_number(match["years"]))),))


def _called(match: re.Match[str], speaking: Speaking) -> Iterator[Statement]:
    who = subject_of(match["who"], speaking)
    if who is not None and is_han_name(match["value"].removesuffix("了")):
        yield Statement(Rule.GENERAL, f"{who} 名字", (ValuePart("value", match["value"].removesuffix("了").lower()),))


def _used(match: re.Match[str], speaking: Speaking) -> Iterator[Statement]:
    if not match["attribute"].endswith(SINGLE):
        return
    said = match["who"] or "我们"
    who = subject_of(f"{said}的{match['attribute']}", speaking)
    if who is not None:
        yield Statement(Rule.GENERAL, f"{who} 是", (ValuePart("value", match["value"].lower()),))


def _gave_up(match: re.Match[str], speaking: Speaking) -> Iterator[Statement]:
    who = subject_of(match["who"], speaking)
    if who is not None:
        topic = f"{who} 喜欢{match['value'].lower()}"
        yield Statement(Rule.PREFERENCE, topic, (ValuePart("liking", "喜欢"),), positive=False)
