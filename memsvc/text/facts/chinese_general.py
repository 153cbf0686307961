"""What Chinese clauses say of anything definite: the deadline is then, the dog is called so."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memsvc.domain.conflicts import Rule, Statement, ValuePart
from memsvc.text.facts.chinese_clauses import Speaking, subject_of
from memsvc.text.facts.chinese_lexicon import COLORS, SCALES, SINGLE, STABLE_COUNTS
from memsvc.text.facts.names import is_han_name_of
from memsvc.text.facts.values import han_number, parse_value

_NUMBER = r"[零一二两三四五六七八九十]{1,3}|\d+"
_CHANGED = (
    r"(?:改|换|变|调整|推迟|提前"
    r"|移|升级|更新|更名|改名|延期|延后|挪|设置?|定|涨|降|切换|重置|增加|减少)(?:成|为|到|至|在|回)了?"
)
_IS = re.compile(
    rf"^(?P<who>.+?)(?P<no>不)?(?:已经?|已)?(?P<verb>{_CHANGED}|名叫|叫做?|使?用的是|是|为"
    rf"|在(?=每?周|星期|\d|下午|上午|早上|晚上|[一二三四五六七八九十]{{1,3}}[月点]))(?P<value>.+)$"
)
_HAS = re.compile(
    rf"^(?P<who>.*?)(?:一共|总共)?(?:有|养|生)了?(?P<number>{_NUMBER})(?:个|只|条|位|名|台|间)(?P<thing>.+?)$"
)
_AT = re.compile(
    rf"^(?P<who>.+?)(?:每天|每晚)?(?P<value>(?:早上|上午|中午|下午|晚上)?(?:{_NUMBER})点(?:半|一刻)?)"
    r"(?P<verb>上班|下班|开门|关门|营业|开始|结束|上课|下课|打烊|开会)$"
)
_COSTS = re.compile(
    r"^(?P<who>.+?)(?P<verb>每[月年天周次]|一共|售价|需要?)(?P<value>\d[\d,.]*(?:元|块|美元|欧元|小时|分钟|天))钱?$"
)
_TAIL = re.compile(r"(?:了|开始?|举行|召开|进行|的)+$")
_NO_VALUE = re.compile(
    r"^(?:因为|为了|不|很|非常|最|比|这|那|一个|一种|一些|我|他|她|你|什么|怎|如何|好|坏|大|小|重要|两|否)"
)
_TYPED = re.compile(
    r"[\d零一二两三四五六七八九十百千万年月日号点半刻分周星期礼拜天早上下午中晚凌晨每前底初元块美欧%次个小时钟秒人公里米岁度a-zA-Z\s:/.\-开]+"
)
"""What dates, times and amounts are made of: with more words beside them, a clause tells of an event."""
_TEXTUAL = (
    "名字",
    "姓名",
    "昵称",
    "密码",
    "口令",
    "邮箱",
    "地址",
    "域名",
    "号",
    "号码",
    "电话",
    "车牌",
    "邮编",
    "代号",
)
"""Attributes whose values are compared as they are, whatever numbers are in them."""
_MOST_VALUE = 20
_HAS_NAME = ("叫", "叫做", "名叫")


def general(clause: str, speaking: Speaking) -> Iterator[Statement]:
    """Yield what a clause says of a definite subject: counts, words of a scale, typed values, an attribute's value."""
    for read in (_count, _scale, _scheduled, _is):
        found = list(read(clause, speaking))
        if found:
            yield from found
            return


def _count(clause: str, speaking: Speaking) -> Iterator[Statement]:
    match = _HAS.match(clause)
    if match is None or match["thing"] not in STABLE_COUNTS:
        return
    who = subject_of(match["who"], speaking)
    if who is not None:
        amount = ValuePart("amount", str(han_number(match["number"])))
        yield Statement(Rule.GENERAL, f"{who} {match['thing']}的数量", (amount,))


def _scale(clause: str, speaking: Speaking) -> Iterator[Statement]:
    said = clause.removesuffix("了")
    for number, scale in enumerate(SCALES):
        for pole, words in enumerate(scale):
            word = next((word for word in words if said.endswith(word)), None)
            if word is None:
                continue
            before = re.sub(r"(?:又|重新)?(?:开始|已经?|已被?|被|正在|是|还|仍)*$", "", said.removesuffix(word))
            denied = before.endswith(("不", "没", "没有", "不再"))
            who = subject_of(re.sub(r"(?:不再|不|没有?)$", "", before), speaking)
            if who is not None and "和" not in who:
                yield Statement(Rule.GENERAL, f"{who} 状态 {number}", (ValuePart("pole", str(pole)),), not denied)
            return


def _scheduled(clause: str, speaking: Speaking) -> Iterator[Statement]:
    match = _AT.match(clause) or _COSTS.match(clause)
    if match is None:
        return
    who = subject_of(match["who"], speaking)
    parts = parse_value(match["value"])
    if who is not None and parts:
        yield Statement(Rule.GENERAL, f"{who} {match['verb']}", parts)


def _is(clause: str, speaking: Speaking) -> Iterator[Statement]:
    match = _IS.match(clause)
    if match is None or len(match["value"]) > _MOST_VALUE:
        return
    who = subject_of(match["who"], speaking)
    if who is None or who == speaking.me or "最" in match["who"]:
        return
    value = _TAIL.sub("", match["value"])
    measured = re.sub(r"^每(?:分钟|小时|秒|天|月|年|次)", "", value)
    is_text = match["who"].endswith(_TEXTUAL) or len(_TYPED.sub("", measured)) > 1
    parts = () if is_text else parse_value(measured)
    parts = parts or _single(match["who"], match["verb"], value)
    if parts:
        speaking.last = who
        yield Statement(Rule.GENERAL, f"{who} 是", parts, match["no"] is None)


def _single(said: str, verb: str, value: str) -> tuple[ValuePart, ...]:
    if not value or _NO_VALUE.search(value):
        return ()
    if value.removesuffix("色") in COLORS:
        return (ValuePart("color", value.removesuffix("色")),)
    if (said.endswith(SINGLE) and is_han_name_of(said, value)) or verb in _HAS_NAME:
        return (ValuePart("value", value.lower()),)
    return ()
