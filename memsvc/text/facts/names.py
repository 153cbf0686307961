"""What can be the name of a person or of a thing, and what tells something else of it."""

from __future__ import annotations

import re

from memsvc.text.facts.english_lexicon import COUNTRIES
from memsvc.text.facts.lexicon import words

PEOPLE = frozenset(
    words("""
    manager boss supervisor mentor lead owner wife husband spouse partner girlfriend boyfriend fiance fiancee doctor
    dentist landlord assistant ceo cto leader maintainer responsible""")
)
"""Attributes whose one value is a person's name."""
HAN_PEOPLE = words("老板 经理 上司 领导 导师 负责人 联系人 女朋友 男朋友 妻子 丈夫 太太 老公 老婆 班主任 房东 医生")
_RELATING = frozenset(
    words("""
    from of with without under over behind for to about like near between out off up per as via against around inside
    outside beyond beside because due after before during since through""")
)
_DEMONYMS = frozenset(
    words("""
    american british english irish scottish welsh canadian australian french german italian spanish portuguese dutch
    belgian swiss austrian swedish norwegian danish finnish polish czech hungarian romanian greek turkish russian
    ukrainian chinese japanese korean taiwanese vietnamese thai indian pakistani indonesian malaysian filipino
    brazilian mexican argentinian chilean colombian egyptian moroccan nigerian kenyan ethiopian israeli iranian
    catholic jewish muslim christian buddhist hindu european asian african""")
)
_TELLING_ENDS = ("ed", "ing", "ful", "ous", "able", "ible", "less", "ish")
_STATES = frozenset(words("status priority plan diet format theme default size title stack language"))
"""Attributes whose value may be any word."""
_SURNAMES = (
    "王李张刘陈杨黄赵吴周徐孙马朱胡郭何林罗郑梁谢宋唐许邓冯韩曹曾彭萧肖蔡潘田董袁于余叶蒋杜苏魏程吕丁沈任姚卢傅钟姜崔"
    "谭廖范汪陆金石戴贾韦夏邱方侯邹熊孟秦白江阎薛尹段雷黎史龙陶贺顾毛郝龚邵万钱严武戚莫孔向汤尚艾温康施牛洪翁樊殷霍童齐季"
)
_HAN_NAME = re.compile(rf"(?:[{_SURNAMES}]|欧阳|司马|上官|诸葛|[小老阿])[\u4e00-\u9fff·]{{1,3}}")
_FOREIGN_NAME = re.compile(r"[A-Za-z][A-Za-z.'-]*|[\u4e00-\u9fff]{2,6}·[\u4e00-\u9fff]{1,6}")
_HAN_TELLING = re.compile(r"的|最|^(?:从|由|在|来自|跟|和|给|被|把|有|没|属于|负责)|^(?:老|小)[人家外手]|[省市县国]人$")


def is_name_of(attribute: str, value: str) -> bool:
    """Return whether the English *value* can be the one value of an attribute."""
    said = value.split()
    first = said[0].lower()
    if first in _RELATING or first in _DEMONYMS:
        return False
    if attribute in PEOPLE:
        return said[0][0].isupper() and first not in COUNTRIES
    is_telling = said[0].islower() and first.endswith(_TELLING_ENDS)
    return attribute in _STATES or not is_telling


def is_han_name_of(attribute: str, value: str) -> bool:
    """Return whether the Chinese *value* can be the one value of an attribute."""
    if _HAN_TELLING.search(value):
        return False
    return not attribute.endswith(HAN_PEOPLE) or is_han_name(value)


def is_han_name(text: str) -> bool:
    """Return whether *text* looks like a person's name."""
    return (_HAN_NAME.fullmatch(text) or _FOREIGN_NAME.fullmatch(text)) is not None
