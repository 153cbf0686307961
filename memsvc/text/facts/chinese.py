"""Facts in Chinese sentences: residence, work, preferences, and definite things."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from memsvc.domain.conflicts import HAVING, LIKING, POLE, Fact, Rule, ValuePart
from memsvc.text.facts.chinese_lexicon import (
    CITIES,
    COLORS,
    CONTRASTS,
    COUNTRIES,
    OCCUPATION_ENDINGS,
    SCALES,
    SINGLE,
    STABLE_COUNTS,
)
from memsvc.text.facts.chinese_traits import LANGUAGES, PASSING, doing_part, traits
from memsvc.text.facts.values import (
    chinese_condition,
    chinese_place,
    han_number,
    is_han_name,
    is_han_name_of,
    parse_value,
    said_when,
)

_NO = r"(?P<no>不再|不|没有?|并不)?"
_WHEN = r"(?:上个?月|上周|上个?星期|前天|昨天|今天|今年|这个?月|这周|前几天|不久前|前不久|[年月]初|[年月]底)"
_LIVES_IN = rf"(?<![家记抓留守站停困保拦围锁封])住(?={'|'.join(sorted(CITIES))})"
"""我住北京, unlike 记住北京, and unlike 住院."""
_LIVES = tuple(
    re.compile(pattern)
    for pattern in (
        rf"^(?P<who>.*?){_WHEN}(?:从[^从]+?)?(?:移居到?|搬家?(?:到|去|至|回)了?|迁到了?)(?P<value>.+)$",
        rf"^(?P<who>.*?)(?:从[^从]+?)?{_NO}(?:居住在|(?<!家)住在|{_LIVES_IN}|定居在?|常住在?|移居到?|现居|搬家?(?:到|去|至|回)了?|迁到了?)(?P<value>.+)$",
        rf"^(?P<who>.*?){_NO}在(?P<value>[^在]+?)(?:生活|居住|定居|安家|租房)(?:了|着)?$",
        r"^(?P<who>.*?)的?家(?P<no>不)?(?:就|还)?(?:搬到了?|住在?|在)(?P<value>.+)$",
    )
)
_TITLES = (
    re.compile(
        rf"^(?P<who>.*?){_NO}在(?P<employer>[^在]+?)(?:当上?|做|担任)了?(?:一?[名位个])?(?P<value>[^的了]+)了?$"
    ),
    re.compile(
        rf"^(?P<who>.*?){_NO}(?:改行|转行)?(?:当上?|做|担任|成为|从事)了?(?:一?[名位个])?(?P<value>[^的了]+)了?$"
    ),
    re.compile(r"^(?P<who>.*?)的?(?:职业|工作|职位)(?:是|改为|变成了?|换成了?)(?:一?[名位个])?(?P<value>[^的]+)$"),
    re.compile(rf"^(?P<who>.+?){_NO}是(?:一?[名位个])?(?P<value>.+)$"),
)
_IDLE = re.compile(r"^(?P<who>.*?)(?:已经?|刚)?(?P<value>退休|失业)了?$")
_EMPLOYED = (
    re.compile(rf"^(?P<who>.*?){_NO}在(?P<value>[^在]+?)(?:工作|上班|任职|就职|供职)(?:了)?$"),
    re.compile(r"^(?P<who>.*?)(?P<no>不再)?(?:就职于|任职于|供职于|受雇于)(?P<value>.+)$"),
    re.compile(r"^(?P<who>.*?)(?:从[^从]+?)?(?:加入|入职|跳槽(?:到|去)|跳到)了?(?P<value>.+)$"),
    re.compile(r"^(?P<who>.*?)(?P<no>(?:已经?)?(?:从|离开))(?P<value>.+?)(?:离职|辞职|公司)?了$"),
)
_NO_EMPLOYER = re.compile(
    r"^(?:一|这|那|某|家|别|公司|单位|外|国|哪|周[一二三四五六日末]|星期|晚上|夜里|白天|早上|平时|节假日|线上)|的|项目|群|会议|讨论|俱乐部|社团|[位名个很最不了]|(?:组|小队|团队|部门|岗位)$|喜欢|年轻|杰出|优秀|著名|出色|成就|资深|一流"
)


def chinese_facts(sentences: Sequence[str], *, me: str | None, silent: str | None) -> Iterator[Fact]:
    """Yield what *sentences* state; *me* is the speaker, *silent* the subject of sentences without one."""
    speaking = HanSpeakerContext(me, silent)
    for sentence in sentences:
        setting = ""
        speaking.is_passing = PASSING.search(sentence) is not None
        for clause in clauses(sentence):
            bare, condition = chinese_condition(clause)
            if condition and not bare:
                setting = condition
                continue
            found = list(_facts_of_clause(bare, speaking)) if condition else []
            if found:
                yield from said_when(found, setting, condition)
            else:
                yield from said_when(_facts_of_clause(clause, speaking), setting)


def _facts_of_clause(clause: str, speaking: HanSpeakerContext) -> Iterator[Fact]:
    yield from indentation(clause, speaking)
    found = [*_home(clause, speaking), *_job(clause, speaking), *_employer(clause, speaking)]
    if not found:
        readings = (ports, preferences, persons, general, _traits)
        found = next((said for said in (list(read(clause, speaking)) for read in readings) if said), [])
    yield from found


def _traits(clause: str, speaking: HanSpeakerContext) -> Iterator[Fact]:
    """Yield the traits of a clause that says nothing else, and nothing for a moment."""
    for trait in traits(clause) if not speaking.is_passing else ():
        who = subject_of(trait.said, speaking)
        if who is not None:
            speaking.last = who
            yield Fact(trait.rule, f"{who} {trait.slot}", trait.parts, trait.positive)


def _home(clause: str, speaking: HanSpeakerContext) -> Iterator[Fact]:
    for pattern in _LIVES:
        match = pattern.match(clause)
        place = place_in(match["value"]) if match is not None else None
        if match is not None and place is not None:
            yield from _fact_of_match(match, speaking, "住处", Rule.LOCATION, place)
            return


def _job(clause: str, speaking: HanSpeakerContext) -> Iterator[Fact]:
    match = _IDLE.match(clause)
    if match is not None:
        yield from _fact_of_match(match, speaking, "职业", Rule.OCCUPATION, ValuePart("title", match["value"]))
        return
    for pattern in _TITLES:
        match = pattern.match(clause)
        if match is None or "最" in match["who"]:
            continue
        described, _, title = match["value"].removesuffix("了").rpartition("的")
        employer = match.groupdict().get("employer") or described
        if title.endswith(OCCUPATION_ENDINGS) and "、" not in title:
            yield from _fact_of_match(match, speaking, "职业", Rule.OCCUPATION, ValuePart("title", title))
            if _is_employer(employer):
                yield from _fact_of_match(match, speaking, "雇主", Rule.OCCUPATION, ValuePart("employer", employer))
            return


def _employer(clause: str, speaking: HanSpeakerContext) -> Iterator[Fact]:
    for pattern in _EMPLOYED:
        match = pattern.match(clause)
        if match is None:
            continue
        value = match["value"].removesuffix("了").removesuffix("公司")
        if value in CITIES or value in COUNTRIES or value.endswith(("市", "省")):
            sort = "country" if value in COUNTRIES else "place"
            yield from _fact_of_match(match, speaking, "工作地", Rule.OCCUPATION, ValuePart(sort, value))
        elif _is_employer(value):
            yield from _fact_of_match(match, speaking, "雇主", Rule.OCCUPATION, ValuePart("employer", value.lower()))
        return


def _is_employer(name: str) -> bool:
    return 1 < len(name) <= 12 and name not in CITIES | COUNTRIES and _NO_EMPLOYER.search(name) is None  # noqa: PLR2004 - longer than any short name


def _fact_of_match(
    match: re.Match[str], speaking: HanSpeakerContext, slot: str, rule: Rule, part: ValuePart
) -> Iterator[Fact]:
    who = subject_of(match["who"], speaking)
    if who is not None:
        speaking.last = who
        yield Fact(rule, f"{who} {slot}", (part,), not match.groupdict().get("no"))


# Facts about definite things: the deadline is then, the dog is called so.


_NUMBER = r"[零一二两三四五六七八九十]{1,3}|\d+"
_CHANGED = (
    r"(?:改|换|变|调整|推迟|提前"
    r"|移|升级|更新|更名|改名|延期|延后|挪|设置?|定|涨|降|切换|重置|增加|减少)(?:成|为|到|至|在|回)了?"
)
_IS = re.compile(
    rf"^(?P<who>.+?)(?P<no>不)?(?:现在|目前|如今|已经?|已)?(?P<verb>{_CHANGED}|名叫|叫做?|使?用的是|是|为"
    rf"|在(?=每?周|星期|\d|下午|上午|早上|晚上|[一二三四五六七八九十]{{1,3}}[月点楼层]))(?P<value>.+)$"
)
_HAS = re.compile(
    rf"^(?P<who>.*?)(?:一共|总共)?(?:有|养|生)了?(?P<number>{_NUMBER})(?:个|只|条|位|名|台|间)(?P<thing>.+?)$"
)
_AT = re.compile(
    rf"^(?P<who>.+?)(?:每天|每晚)?(?P<value>(?:早上|上午|中午|下午|晚上)?(?:{_NUMBER})点(?:半|一刻)?)"
    r"(?P<verb>上班|下班|开门|关门|营业|开始|结束|上课|下课|打烊|开会)$"
)
_OPEN = ("开门", "营业", "开放", "开馆")
_OPEN_ON = re.compile(
    r"^(?P<who>.+?)(?<![这下上本])(?:在|逢)?每?(?P<days>(?:周|星期|礼拜)[一二三四五六日天](?:[和、]?(?:周|星期|礼拜)?[一二三四五六日天])*)"
    r"(?:都|才|也|是)?(?P<no>不)?(?P<state>开门|营业|开放|开馆|关门|休息|休馆|闭馆|关闭)(?:的|了)?$"
)
_COSTS = re.compile(
    r"^(?P<who>.+?)(?P<verb>每[月年天周次]|一共|售价|需要?)(?P<value>\d[\d,.]*(?:元|块|美元|欧元|小时|分钟|天))钱?$"
)
_MEASURED = re.compile(
    r"^(?P<who>.+?)(?P<what>体重|身高|腰围|鞋码)(?:现在|目前|已经)?(?:有|是|为)?(?P<value>\d[\d.]*(?:公斤|千克|斤|kg|KG|厘米|cm|CM|米|码))了?$"
)
_TAIL = re.compile(r"(?:了|开始?|举行|召开|进行|的)+$")
_NO_VALUE = re.compile(
    r"^(?:因为|为了|不|很|非常|最|比|这|那|一个|一种|一些|我|他|她|你|今年|去年|明年|刚|新[找来换]|什么|怎|如何|好|坏|大|小|重要|两|否)"
)
_TYPED = re.compile(
    r"[\d零一二两三四五六七八九十百千万年月日号点半刻分周星期礼拜天早上下午中晚凌晨每前底初元块美欧%次个小时钟秒人公里米岁度a-zA-Z\s:/.\-开]+"
)
"""Characters of dates, times and amounts; a clause with more words describes an event."""
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


def general(clause: str, speaking: HanSpeakerContext) -> Iterator[Fact]:
    """Yield what a clause says of a definite subject: counts, words of a scale, typed values, an attribute's value."""
    for read in (_count, _open_on_days, _scale, _schedule_fact, _is):
        found = list(read(clause, speaking))
        if found:
            yield from found
            return


def _count(clause: str, speaking: HanSpeakerContext) -> Iterator[Fact]:
    match = _HAS.match(clause)
    if match is None or match["thing"] not in STABLE_COUNTS:
        return
    who = subject_of(match["who"], speaking)
    if who is not None:
        number = han_number(match["number"])
        parts = ValuePart("amount", str(number)), ValuePart(HAVING, "yes" if number else "no")
        yield Fact(Rule.GENERAL, f"{who} {match['thing']}的数量", parts)


def _scale(clause: str, speaking: HanSpeakerContext) -> Iterator[Fact]:
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
                yield Fact(Rule.GENERAL, f"{who} 状态 {number}", (ValuePart(POLE, str(pole)),), not denied)
            return


def _open_on_days(clause: str, speaking: HanSpeakerContext) -> Iterator[Fact]:
    """Yield whether something is open on each of some days: days are not compared with each other."""
    match = _OPEN_ON.match(clause)
    who = subject_of(match["who"], speaking) if match is not None else None
    if match is None or who is None or who == speaking.me:
        return
    is_open = (match["state"] in _OPEN) is (match["no"] is None)
    for day in re.sub("周|星期|礼拜|和|、", "", match["days"]).replace("天", "日"):
        pole = "0:开门" if is_open else "1:关门"
        yield Fact(Rule.GENERAL, f"{who} 周{day}营业", (ValuePart(POLE, pole),))


def _schedule_fact(clause: str, speaking: HanSpeakerContext) -> Iterator[Fact]:
    measured = _MEASURED.match(clause)
    if measured is not None:
        who = subject_of(measured["who"].removesuffix("的") + "的" + measured["what"], speaking)
        if who is not None:
            yield Fact(Rule.GENERAL, f"{who} 是", parse_value(measured["value"]))
        return
    match = _AT.match(clause) or _COSTS.match(clause)
    if match is None:
        return
    who = subject_of(match["who"], speaking)
    parts = parse_value(match["value"])
    if who is not None and parts:
        yield Fact(Rule.GENERAL, f"{who} {match['verb']}", parts)


def _is(clause: str, speaking: HanSpeakerContext) -> Iterator[Fact]:
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
        yield Fact(Rule.GENERAL, f"{who} 是", parts, match["no"] is None)


def _single(said: str, verb: str, value: str) -> tuple[ValuePart, ...]:
    if not value or _NO_VALUE.search(value):
        return ()
    if value.removesuffix("色") in COLORS:
        return (ValuePart("color", value.removesuffix("色")),)
    if (said.endswith(SINGLE) and is_han_name_of(said, value)) or verb in _HAS_NAME:
        return (ValuePart("value", value.lower()),)
    return ()


# Facts about persons: age, name, tools in use, and habits given up.


_AGE = re.compile(
    r"^(?P<who>.*?)(?:今年|现在|已经|刚|满|的年龄)*是?(?P<years>[零一二两三四五六七八九十]{1,3}|\d{1,3})周?岁了?$"
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
    r"^(?P<who>.*?)(?:现在|已经|已|如今)*(?:再也不|不再|不|戒掉?了?)(?P<verb>[吃喝抽玩])(?P<value>(?![素荤]).{1,8}?)了?$"
)


def persons(clause: str, speaking: HanSpeakerContext) -> Iterator[Fact]:
    """Yield an age, a name, the one thing that is used for something, or a habit that was given up."""
    for pattern, reading in ((_AGE, _age), (_CALLED, _name_fact), (_USES, _usage_fact), (_GAVE_UP, _gave_up)):
        match = pattern.match(clause)
        if match is not None:
            if pattern is _GAVE_UP:
                yield from _scale(clause, speaking)
            yield from reading(match, speaking)
            return


def _age(match: re.Match[str], speaking: HanSpeakerContext) -> Iterator[Fact]:
    if match["who"].endswith(_ABOUT):
        return
    who = subject_of(match["who"], speaking)
    if who is not None:
        speaking.last = who
        yield Fact(Rule.GENERAL, f"{who} 年龄", (ValuePart("years", str(han_number(match["years"]))),))


def _name_fact(match: re.Match[str], speaking: HanSpeakerContext) -> Iterator[Fact]:
    who = subject_of(match["who"], speaking)
    if who is not None and is_han_name(match["value"].removesuffix("了")):
        yield Fact(Rule.GENERAL, f"{who} 名字", (ValuePart("value", match["value"].removesuffix("了").lower()),))


def _usage_fact(match: re.Match[str], speaking: HanSpeakerContext) -> Iterator[Fact]:
    if not match["attribute"].endswith(SINGLE):
        return
    said = match["who"] or "我们"
    who = subject_of(f"{said}的{match['attribute']}", speaking)
    if who is not None:
        yield Fact(Rule.GENERAL, f"{who} 是", (ValuePart("value", match["value"].lower()),))


def _gave_up(match: re.Match[str], speaking: HanSpeakerContext) -> Iterator[Fact]:
    who = subject_of(match["who"], speaking)
    if who is not None:
        topic = f"{who} 喜欢{match['value'].lower()}"
        doing = () if speaking.is_passing else (doing_part(match["verb"]),)
        yield Fact(Rule.PREFERENCE, topic, (*doing, ValuePart(LIKING, "喜欢")), positive=False)


# Settings of developers: the port of a server, and indentation.


_PORT = re.compile(
    r"^(?:(?:我们?|咱们?)?把)?(?P<who>.+?)(?:从\d+(?:号)?(?:端口)?)?(?:现在|目前|已经?|默认|都)*(?P<no>不再|不)?(?:现在|目前|默认)*"
    r"(?:(?:(?:跑|运行|启动|部署|开|放|绑定|监听|暴露|改|换|挪|迁|搬|切换?)(?:在|到|于|成|为|至)了?|在|监听|占用|绑定|改?用|使用|采用)"
    r"(?:端口(?P<after>\d{1,5})|(?P<before>\d{1,5})号?端口))上?了?$"
)
_NUMBERED = re.compile(r"\d端口|端口\d|号端口")


def ports(clause: str, speaking: HanSpeakerContext) -> Iterator[Fact]:
    """Yield the port of a server, as 服务器的端口是 8080 does."""
    match = _PORT.match(clause) if _NUMBERED.search(clause) else None
    if match is None:
        return
    who = subject_of(match["who"], speaking)
    if who is None or who == speaking.me:
        return
    speaking.last = who
    number = int(match["after"] or match["before"])
    yield Fact(Rule.GENERAL, f"{who}端口 是", (ValuePart("amount", str(number)),), not match["no"])


_OFTEN = r"(?:现在|目前|如今|已经?|一直|一般|通常|平时|都|总是|只|统一|习惯|更?喜欢|更?偏好|更?爱|倾向于?)*"
_INDENT_WITH = r"(?:(?P<count>[一二两三四八]|\d)个)?(?P<with>tab|制表符|空格)(?:键|字符)?"
_INDENTS = (
    re.compile(
        rf"^(?P<who>.*?){_OFTEN}(?P<no>不再|不)?(?:改|换)?(?:使?用|采用|换成|改成)?{_INDENT_WITH}(?:来|做|进行)?缩进(?:代码)?了?$",
        re.IGNORECASE,
    ),
    re.compile(
        rf"^(?P<who>.*?)(?:的?代码)?的?缩进{_OFTEN}(?P<no>不再|不)?(?:改|换)?(?:使?用的?是?|采用|换成|改成|是|为){_INDENT_WITH}了?$",
        re.IGNORECASE,
    ),
)


def indentation(clause: str, speaking: HanSpeakerContext) -> Iterator[Fact]:
    """Yield what someone indents with."""
    for pattern in _INDENTS if "缩进" in clause else ():
        match = pattern.match(clause)
        if match is None:
            continue
        is_denied = match["no"] or match["who"].endswith(("不", "不太", "不再", "别"))
        who = None if is_denied else subject_of(match["who"], speaking)
        if who is not None:
            said = match["with"].lower()
            amount = (ValuePart("amount", str(han_number(match["count"]))),) if match["count"] else ()
            pole = ValuePart(POLE, f"{int(said == '空格')}:{said}")
            yield Fact(Rule.PREFERENCE, f"{who} 缩进", (*amount, pole))
        return


# Preferences: likes, dislikes and choices.


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


def preferences(clause: str, speaking: HanSpeakerContext) -> Iterator[Fact]:
    """Yield favourites, what is preferred to what, likes and dislikes."""
    match = _FAVORITE.match(clause)
    if match is not None:
        who = subject_of(match["who"], speaking)
        if who is not None:
            speaking.last = who
            topic = f"{who} 最喜欢的{match['thing']}"
            yield Fact(Rule.PREFERENCE, topic, (ValuePart("value", _PREFERENCE_TAIL.sub("", match["value"]).lower()),))
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


def _rather(match: re.Match[str], speaking: HanSpeakerContext) -> Iterator[Fact]:
    who = subject_of(match["who"], speaking)
    chosen, other = _thing_of(match["value"]), _thing_of(match["other"])
    if who is not None and chosen and other:
        speaking.last = who
        pair = "或".join(sorted((chosen, other)))
        yield Fact(Rule.PREFERENCE, f"{who} 更喜欢{pair}", (ValuePart("choice", chosen),))


def _pole(match: re.Match[str], speaking: HanSpeakerContext) -> Iterator[Fact]:
    who = subject_of(match["who"], speaking)
    if who is None:
        return
    chosen = _thing_of(match["value"])
    for number, scale in enumerate(CONTRASTS):
        for pole, words in enumerate(scale):
            said = next((word for word in words if chosen.startswith(word)), None)
            if said is not None:
                rest = chosen.removeprefix(said).removeprefix("的")
                topic = f"{who} 偏好{rest} {number}"
                yield Fact(Rule.PREFERENCE, topic, (ValuePart(POLE, f"{pole}:{said}"),))
                return


def _likes(match: re.Match[str], speaking: HanSpeakerContext) -> Iterator[Fact]:
    who = subject_of(match["who"], speaking)
    if who is None:
        return
    speaking.last = who
    for value in _AND.split(match["value"]):
        thing = _thing_of(value)
        if thing:
            topic = f"{who} 喜欢{thing}"
            yield Fact(Rule.PREFERENCE, topic, (ValuePart(LIKING, "喜欢"),), match["no"] is None)


def is_choice_of_liked(choice: Fact, liking: Fact) -> bool:
    """Return whether *choice* prefers the thing that *liking* says is liked: 我喜欢咖啡 is both."""
    who = choice.topic.partition(" 偏好")[0]
    chosen = tuple(f"{who} 喜欢{part.text.partition(':')[2]}" for part in choice.parts if part.sort == POLE)
    return liking.topic.startswith(chosen) and any(part.sort == LIKING for part in liking.parts)


def _thing_of(text: str) -> str:
    thing = _DOING.sub("", _PREFERENCE_TAIL.sub("", text.strip()))
    return thing.lower() if 0 < len(thing) <= _MOST_CHARS and "的是" not in thing else ""


# The parts of clauses: who is spoken of, and what a phrase names.


_QUOTED = re.compile(r"[“\"「『]([^”\"」』]{0,400}+)[”\"」』]")
_MOST_QUOTED_CHARS = 6
_SPLIT = re.compile(r"[，,；;。！!…\n]+|(?<=[^\d])、(?=我|他|她)|但是?(?=[我他她不])|而且|并且")
_UNSAID = re.compile(
    r"如果|要是|假如|假设|可能|也许|或许|大概|(?<![联思理幻感])想(?!念)|打算|计划(?!经济)|希望|准备(?!金)|考虑|梦想|曾|以前|之前|过去|从前|原来|原先|本来"
    rf"|小时候|年轻时|当时|那时|(?<!小)说(?!明|(?:{'|'.join(LANGUAGES)})了?$)|认为|觉得|以为|听说|据说|传言|是否|要不要|会不会|能不能|是不是|应该|建议|例如|比如|假装|差点|除非"
    r"|写道|问|吗$|吗？|呢$|？|\?|前年|去年|年前|暂时|有时|偶尔|(?:19|20)\d\d年(?!\d*月)|将(?:会|要|在)|快要|明年|下个?月"
)
_LEADING = re.compile(
    r"^(?:目前|现在|当前|如今|最近|今天|今后|从今天起|以后|更新|备注|注意|另外|还有|事实|偏好(?=[：:，,])|已经|其实|听好"
    r"|上个?(?:周末?|星期|礼拜|月)(?:[一二三四五六日天](?=[^一二三四五六日天]))?|昨天|前天|前几天|去年|前年|今年|这周末?|刚刚?|终于|总算"
    r")[：:，,]?"
)
_NAME_END = re.compile(
    r"(?:目前|现在|如今|当前|最近|已经|已|刚|也|还|都|又|就|仍然|仍|一直|的|是|常|更|比较|平时|通常|一般|总是|真|其实|了)+$"
)
_INDEFINITE = re.compile(
    r"^(?:有|某|一个|一位|一些|很多|这|那|谁|什么|哪|没有|每|所有|大家|人们|别人|有人|你|您|它)|[的地得]?时候|因为|所以|虽然|认识|知道|看来|让|使得|不过|但|一[个位名部]|[？?：:《]|又是|那天|喜欢|其中|在$"
)
_GENERIC = re.compile(r"的|我们的?|咱们的?|项目(?=.)|最新|当前|目前|现在|新(?=.)")
_MOST_SUBJECT = 16
_PLACE_END = re.compile(r"(?:了|的家|那边|附近|这边|生活|工作|定居|居住|长住|常住|上班|上学|，.*|已经.*)+$")
_NO_PLACE = re.compile(
    r"^(?:一|这|那|哪|两|[大小新老旧](?:房|屋|楼|公寓|区|城|镇|村|家|别墅|地方)|学校|宿舍|家|酒店|公司|医院|别人|父母|他|她|我|朋友|同事)|的|^(?:[下上这本]*(?:周|星期|礼拜)[一二三四五六日天\d末]|[今明后昨]天|下个?月|[\d一二三四五六七八九十]+[月点号楼层室:])"
)
_MOST_PLACE = 12


@dataclass(slots=True)
class HanSpeakerContext:
    """The speaker and the last person mentioned; as `english.SpeakerContext`."""

    me: str | None
    silent: str | None
    last: str | None = None
    is_passing: bool = False


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
