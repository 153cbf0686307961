"""Traits in Chinese clauses: allergies, possessions, habits and skills, and that someone has them no longer.

As `english_traits`: what is done somewhere or for something is no habit, and things are those of a list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from memsvc.domain.conflicts import ABLE, DOING, HAVING, Rule, ValuePart
from memsvc.text.facts.chinese_lexicon import STABLE_COUNTS
from memsvc.text.facts.english_lexicon import words
from memsvc.text.facts.english_traits import Trait

PASSING = re.compile(r"(?<!从)今[天晚早]|明[天早晚]|后天|这会儿|此刻|这几天|这两天|手头|身上|身边")
"""A sentence with one of these says how things are for a moment."""
_NOW = r"(?:现在|如今|目前|已经|早就|早已|已|都|也|还)*+"
_ADVERBS = words("现在 如今 目前 已经 早就 早已 一直 平时 每天 经常 通常 确实 其实 也 还 又 都")
_OFTEN = re.compile(r"(?:每天|天天)(?:早上|早晨|上午|中午|下午|晚上)?都?$|每[早晚]都?$")
"""What is done so often is done; who does not do it every morning may do it in the evening."""
_READ = re.compile(
    r"过敏|[有没养买戒会说讲懂抽吸喝吃玩打弹看听穿坐骑练学用]|开车|跑步|健身|游泳|做饭|熬夜|赌博|冥想|滑雪|跳舞"
)
"""One of these is in all that is read here."""
_NO = r"(?P<no>再也不|不再|不)"
_AND = re.compile(r"和|跟|、|以及|与|或者?")

# Allergies.


_ALLERGIC = (
    re.compile(rf"^(?P<who>.*?)(?P<no>不再|不)对(?P<thing>[^对]{{1,24}}?){_NOW}过敏了?$"),
    re.compile(
        rf"^(?P<who>.*?)对(?P<thing>[^对]{{1,24}}?){_NOW}(?:有点儿?|有些|严重|轻度|非常|很|特别)?(?P<no>不再|不|没有?)?{_NOW}过敏了?$"
    ),
    re.compile(r"^(?P<who>我|用户)(?P<thing>[^对会不没有了是也都很\d]{1,6}?)(?P<no>不)?过敏了?$"),
)


def _allergies(clause: str) -> Iterator[Trait]:
    if "过敏" not in clause:
        return
    for pattern in _ALLERGIC:
        match = pattern.match(clause)
        if match is None:
            continue
        if match["thing"].endswith(("不太", "不怎么", "不只", "不")) or match["who"].endswith(
            ("不只", "不仅", "不光", "只")
        ):
            return
        for thing in _AND.split(match["thing"]):
            if thing:
                part = ValuePart("allergic", "过敏")
                yield Trait(match["who"], f"对{thing.lower()}过敏", (part,), match["no"] is None)
        return


# Possessions.


_KEPT = frozenset(
    words("""
    车 汽车 自行车 电动车 摩托车 卡车 房 房子 公寓 花园 院子 车库 阳台 钢琴 吉他 小提琴 电视 洗碗机 微波炉 烘干机
    笔记本电脑 平板 打印机 护照 签证 驾照 纹身 房贷 工作 男朋友 女朋友 对象 男友 女友 老婆 老公 妻子 丈夫 室友 马
    兔子 仓鼠 鹦鹉 乌龟 信用卡 哮喘 糖尿病 高血压 癫痫 湿疹 关节炎""")
)
"""Things that one has for a long time."""
_SAME_THINGS = {
    "汽车": "车", "房": "房子", "男友": "男朋友", "女友": "女朋友", "猫咪": "猫", "小猫": "猫",
    "狗狗": "狗", "小狗": "狗",
}  # fmt: skip
_HAS_NOT = re.compile(r"^(?P<who>.*?)(?:没有?养?|不再[有养]|不[养])(?:任何)?(?P<thing>[^有没养了]{1,6})了?$")
_HAS = re.compile(
    r"^(?P<who>.*?)(?:(?:有|养|买)了?)(?P<number>一(?:辆|台|套|个|架|把|间|本|张|匹|只|条|位|名))?(?P<thing>[^有没养了]{1,6})了?$"
)


def _possessions(clause: str) -> Iterator[Trait]:
    match = _HAS_NOT.match(clause)
    if match is not None:
        yield from _possession(match, positive=False)
        return
    match = _HAS.match(clause)
    if match is not None and not (match["number"] and _same(match["thing"]) in STABLE_COUNTS):
        yield from _possession(match, positive=True)


def _same(thing: str) -> str:
    return _SAME_THINGS.get(thing, thing)


def _possession(match: re.Match[str], *, positive: bool) -> Iterator[Trait]:
    thing = _same(match["thing"])
    if not match["who"]:
        return
    if thing in STABLE_COUNTS:
        denial = ValuePart("amount", "0"), ValuePart(HAVING, "no")
        yield Trait(match["who"], f"{thing}的数量", (ValuePart(HAVING, "yes"),) if positive else denial, positive=True)
    elif thing in _KEPT:
        yield Trait(match["who"], f"有{thing}", (ValuePart(HAVING, "yes"),), positive)


# Habits and skills.


HABITS = frozenset(
    words("""
    抽烟 吸烟 喝酒 开车 跑步 健身 游泳 做饭 熬夜 赌博 冥想 骑车 滑雪 跳舞 晨跑 打游戏 吃早餐 吃早饭 吃宵夜 吃夜宵""")
)
SKILLS = frozenset(
    words("""
    开车 游泳 做饭 骑车 骑自行车 骑马 滑雪 滑冰 跳舞 唱歌 弹琴 弹钢琴 弹吉他 下棋 下围棋 织毛衣 编程 写代码 潜水""")
)
LANGUAGES = {
    **{name: name for name in words(
        """
        英语 法语 德语 日语 韩语 俄语 西班牙语 葡萄牙语 意大利语 荷兰语 瑞典语 阿拉伯语 泰语 越南语 印尼语 土耳其语
        希腊语 波兰语 捷克语 希伯来语 印地语 汉语 粤语 闽南语 上海话 四川话 客家话 普通话"""
    )},
    "英文": "英语", "法文": "法语", "德文": "德语", "日文": "日语", "日本话": "日语", "韩文": "韩语", "韩国话": "韩语",
    "俄文": "俄语", "西文": "西班牙语", "西语": "西班牙语", "葡语": "葡萄牙语", "中文": "汉语", "广东话": "粤语",
}  # fmt: skip
"""Languages and dialects, and the name that topics have."""
_SAME_HABITS = {
    "吸烟": "抽烟",
    "烟": "抽烟",
    "抽烟": "抽烟",
    "酒": "喝酒",
    "喝酒": "喝酒",
    "赌": "赌博",
    "熬夜": "熬夜",
}
"""What is given up, and the habit."""
_TASTED = {"抽烟": ("抽", "烟"), "喝酒": ("喝", "酒")}
"""Habits of which the liking of a thing is known, too."""
_QUIT = (
    re.compile(r"^(?P<who>.*?)(?:成功|彻底)?戒掉?了?(?P<thing>抽烟|吸烟|喝酒|熬夜|烟|酒|赌)(?:了|好久|很久|成功)*$"),
    re.compile(rf"^(?P<who>.*?)把(?P<thing>烟|酒|赌){_NOW}(?:给)?戒掉?了$"),
)
_UNREAL = re.compile(r"(?:没有?|该|得|要|必须|需要|试着|在|能|不|别|想|正)$")
_SPEAKS = re.compile(
    rf"^(?P<who>.*?){_NO}?(?:会[说讲]?|[说讲懂]|能[说讲])(?P<language>[\u4e00-\u9fff]{{1,4}}[语文话]){_NOW}了?$"
)
_CAN = re.compile(rf"^(?P<who>.*?){_NO}?会(?P<skill>{'|'.join(sorted(SKILLS))})了?$")
_DOES = re.compile(rf"^(?P<who>.*?){_NO}?(?P<habit>{'|'.join(sorted(HABITS))})了?$")
_TAKES = re.compile(r"^(?P<who>.*?)(?P<verb>[吃喝抽玩])(?P<thing>[^了过完着到]{1,8})$")
_PLAYS = re.compile(
    rf"^(?P<who>.*?){_NO}?(?P<verb>[打弹看听穿坐骑练学用])(?P<thing>[^了过完着到]{{1,8}}?)(?P<end>了)?$"
)


def doing_part(verb: str) -> ValuePart:
    """Return the part that says what is done with a thing; different verbs are not compared."""
    return ValuePart(f"{DOING} {verb}", verb)


def _habits(clause: str) -> Iterator[Trait]:
    for read in (_quit, _speaking, _skill, _habit, _taste, _play):
        found = list(read(clause))
        if found:
            yield from found
            return


def _quit(clause: str) -> Iterator[Trait]:
    for pattern in _QUIT:
        match = pattern.match(clause)
        if match is not None and clause.endswith(("了", "好久", "很久", "成功")) and not _UNREAL.search(match["who"]):
            yield from _habit_of(match["who"], _SAME_HABITS[match["thing"]], positive=False)
            return


def _habit_of(said: str, habit: str, *, positive: bool) -> Iterator[Trait]:
    habit = _SAME_HABITS.get(habit, habit)
    if habit in _TASTED:
        verb, thing = _TASTED[habit]
        yield Trait(said, f"喜欢{thing}", (doing_part(verb),), positive, Rule.PREFERENCE)
    else:
        yield Trait(said, habit, (ValuePart(DOING, habit),), positive)


def _speaking(clause: str) -> Iterator[Trait]:
    match = _SPEAKS.match(clause)
    language = LANGUAGES.get(match["language"]) if match is not None else None
    if match is not None and language is not None and match["who"]:
        yield Trait(match["who"], f"会说{language}", (ValuePart(ABLE, "会说"),), match["no"] is None)


def _skill(clause: str) -> Iterator[Trait]:
    match = _CAN.match(clause)
    if match is None or not match["who"]:
        return
    positive, skill = match["no"] is None, match["skill"]
    able = ValuePart(ABLE, f"会{skill}")
    # One who cannot do a thing does not do it either.
    yield Trait(match["who"], skill, (able,) if positive else (able, ValuePart(DOING, skill)), positive)


def _habit(clause: str) -> Iterator[Trait]:
    match = _DOES.match(clause)
    if match is not None and match["who"] and (match["no"] or not clause.endswith("了")):
        yield from _habit_of(match["who"], match["habit"], positive=match["no"] is None)


def _taste(clause: str) -> Iterator[Trait]:
    match = _TAKES.match(clause)
    if match is not None and match["who"]:
        thing = match["thing"].lower()
        yield Trait(match["who"], f"喜欢{thing}", (doing_part(match["verb"]),), positive=True, rule=Rule.PREFERENCE)


def _play(clause: str) -> Iterator[Trait]:
    match = _PLAYS.match(clause)
    if match is None or not match["who"] or (match["no"] is None and match["end"]):
        return
    # 不用加班 says that it is not necessary, and not what someone does.
    if match["no"] == "不" and match["verb"] == "用" and not match["thing"].isascii():
        return
    doing = f"{match['verb']}{match['thing'].lower()}"
    yield Trait(match["who"], doing, (ValuePart(DOING, doing),), match["no"] is None)


def traits(clause: str) -> Iterator[Trait]:
    """Yield the traits that a clause names."""
    if _READ.search(clause) is None:
        return
    for read in (_allergies, _possessions, _habits):
        found = list(read(clause))
        if found:
            yield from (
                replace(trait, said=_without_adverbs(_OFTEN.sub("", trait.said) if trait.positive else trait.said))
                for trait in found
            )
            return


def _without_adverbs(said: str) -> str:
    while said.endswith(_ADVERBS):
        said = said[: -len(next(adverb for adverb in _ADVERBS if said.endswith(adverb)))]
    return said
