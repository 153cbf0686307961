"""Values that can be compared: numbers, dates, times, names, in English and Chinese."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from memsvc.domain.conflicts import Fact, ValuePart
from memsvc.text.facts.chinese_lexicon import CITIES
from memsvc.text.facts.chinese_lexicon import COUNTRIES as HAN_COUNTRIES
from memsvc.text.facts.english_lexicon import COUNTRIES, phrases, words

MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul", "august aug",
            "september sept sep", "october oct", "november nov", "december dec",
        ),
        start=1,
    )
    for name in names.split()
}  # fmt: skip
WEEKDAYS = {
    name: number
    for number, names in enumerate(("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"))
    for name in (names, f"{names}s")
}
NUMBERS = {
    word: number
    for number, word in enumerate(
        words("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen")
    )
}
_HAN_NUMBERS = {"零": 0, "一": 1, "二": 2, "两": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9}
_HAN_WEEKDAYS = {"一": 0, "二": 1, "三": 2, "四": 3, "五": 4, "六": 5, "日": 6, "天": 6}
_HAN_NUMBER = r"[零一二两三四五六七八九十]{1,3}|\d+"
_AFTERNOON = ("下午", "晚上", "傍晚", "夜里")
_NOON = 12

_MONTH = rf"(?P<month>{'|'.join(sorted(MONTHS, key=len, reverse=True))})"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_ENGLISH_DATES = (
    re.compile(rf"\b{_MONTH}\.?\s+(?:the\s+)?{_DAY}\b(?:,?\s*(?P<year>\d{{4}}))?", re.IGNORECASE),
    re.compile(rf"\b{_DAY}\s+(?:of\s+)?{_MONTH}\b(?:,?\s*(?P<year>\d{{4}}))?", re.IGNORECASE),
)
_NUMERIC_DATE = re.compile(r"\b(?P<year>\d{4})[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})\b")
_BARE_MONTH = re.compile(
    r"\b(?P<month>January|February|March|April|May|June|July|August|September|October|November|December)\b"
)
_HAN_DATE = re.compile(
    rf"(?:(?P<year>\d{{4}})年)?(?P<month>{_HAN_NUMBER})月份?(?:(?P<day>{_HAN_NUMBER})[日号])?(?:底|初|中旬)?"
)
_TIME = re.compile(r"\b(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?\s*(?P<half>am|pm|a\.m\.|p\.m\.|o'clock)", re.IGNORECASE)
_CLOCK = re.compile(r"\b(?P<hour>\d{1,2}):(?P<minute>\d\d)\b")
_HAN_TIME = re.compile(
    rf"(?P<half>早上|上午|中午|下午|晚上|傍晚|凌晨|夜里)?(?P<hour>{_HAN_NUMBER})点(?:(?P<minute>半|一刻|\d+分)|整|钟)?"
)
_WEEKDAY = re.compile(rf"\b({'|'.join(WEEKDAYS)})\b", re.IGNORECASE)
_HAN_WEEKDAY = re.compile(r"(?:周|星期|礼拜)([一二三四五六日天])")
_COUNTED = re.compile(
    r"\b(?P<thing>room|floor|level|building|rack|gate|platform|track|lane|desk|table|page|chapter|section|step|line|bay"
    r"|aisle|hall|suite|apartment|unit|exit|terminal|seat|row|slot|shelf|box|studio|office|phase|track|group|team|ward)"
    r"\s+(?:no\.?\s+|number\s+|#)?(?P<number>\d+[a-z]?)\b",
    re.IGNORECASE,
)
"""A number that names a thing, and measures nothing."""
_WEEKLY = re.compile(r"\b(?:every|each)\s+$", re.IGNORECASE)
_AMOUNT = re.compile(r"(?<![\w.])[$€£¥]?(?P<number>\d[\d,]*(?:\.\d+)?)\s*(?P<unit>%|[^\W\d_]+(?:\s+per\s+\w+|/\w+)?)?")
_HAN_AMOUNT = re.compile(
    r"(?P<number>[零一二两三四五六七八九十百千万]{1,8})(?P<unit>个|次|元|块|人|天|小时|分钟|公里|岁|公斤|斤|厘米|米)"
    r"|\A(?P<round>[一二两三四五六七八九][百千万十][零一二两三四五六七八九十百千万]{0,6})\Z"
)
"""In numerals; without a unit only when nothing else is said: 三千五 is 3500."""
_HAN_UNITS = {"十": 10, "百": 100, "千": 1_000, "万": 10_000}
_ORDINALS = {
    name: number
    for number, name in enumerate(words("ground first second third fourth fifth sixth seventh eighth ninth tenth"))
}
_FLOOR = re.compile(rf"\b(?P<name>{'|'.join(_ORDINALS)}|\d{{1,2}}(?:st|nd|rd|th)) floor\b", re.IGNORECASE)
_HAN_FLOOR = re.compile(rf"(?P<name>{_HAN_NUMBER})[楼层]\Z")


VALUE_CHARS = 500
"""Characters of a value that are read."""
MOST_DIGITS = 18


def parse_value(text: str) -> tuple[ValuePart, ...]:
    """Return the date, weekday, time and amount that *text* names, each sort at most once, in order of the sorts.

    The sort "weekly" next to a weekday means every week.
    """
    found: dict[str, str] = {}
    rest = text[:VALUE_CHARS]
    for take in (_take_counted, _take_date, _take_weekday, _take_time, _take_amount):
        rest = take(rest, found)
    return tuple(ValuePart(sort, found[sort]) for sort in sorted(found))


def han_number(text: str) -> int:
    """Return the number up to 99 that *text* writes, in digits or in Han numerals; 0 for more than 18 characters."""
    if len(text) > MOST_DIGITS:
        return 0
    if text.isdigit():
        return int(text)
    tens, ten, ones = text.rpartition("十")
    if not ten:
        return int("".join(str(_HAN_NUMBERS.get(digit, 0)) for digit in text) or 0)
    return _HAN_NUMBERS.get(tens, 1) * 10 + (_HAN_NUMBERS.get(ones, 0) if ones else 0)


def han_amount(text: str) -> int:
    """Return the number below 100 million that Han numerals write: 三千五百, and as it is spoken 三千五."""
    total = part = digit = 0
    unit = 1
    for letter in text:
        if letter not in _HAN_UNITS:
            digit = _HAN_NUMBERS.get(letter, 0)
            unit = 1 if letter == "零" else unit
            continue
        unit = _HAN_UNITS[letter]
        if letter == "万":
            total, part = (total + part + digit) * unit, 0
        else:
            part += (digit or 1) * unit
        digit = 0
    # The unit of a last digit is left out in speech: 一万二 is 12 000.
    return total + part + digit * max(unit // 10, 1)


def _take_counted(text: str, found: dict[str, str]) -> str:
    floor = _FLOOR.search(text) or _HAN_FLOOR.search(text)
    if floor is not None:
        name = floor["name"].lower()
        found["floor"] = str(_ORDINALS[name]) if name in _ORDINALS else str(han_number(name.rstrip("stndrh")))
        return text[: floor.start()] + " " + text[floor.end() :]
    match = _COUNTED.search(text)
    if match is None:
        return text
    found[match["thing"].lower()] = match["number"].lower()
    return text[: match.start()] + " " + text[match.end() :]


def _take_date(text: str, found: dict[str, str]) -> str:
    for pattern in (_NUMERIC_DATE, *_ENGLISH_DATES, _HAN_DATE, _BARE_MONTH):
        match = pattern.search(text)
        if match is not None:
            named = match.groupdict()
            day = named.get("day")
            date = f"{_month(named['month']):02}" + (f"-{han_number(day):02}" if day else "")
            found["date" if day else "month"] = date
            if named.get("year"):
                found["year"] = str(named["year"])
            return text[: match.start()] + " " + text[match.end() :]
    return text


def _month(name: str) -> int:
    return MONTHS.get(name.lower()) or han_number(name)


def _take_weekday(text: str, found: dict[str, str]) -> str:
    match = _WEEKDAY.search(text) or _HAN_WEEKDAY.search(text)
    if match is None:
        return text
    name = match[1].lower()
    found["weekday"] = str(WEEKDAYS[name] if name in WEEKDAYS else _HAN_WEEKDAYS[name])
    before = text[: match.start()]
    if name.endswith("days") or before.endswith("每") or _WEEKLY.search(before):
        found["weekly"] = "weekly"
    return text[: match.start()] + " " + text[match.end() :]


def _take_time(text: str, found: dict[str, str]) -> str:
    match = _TIME.search(text) or _CLOCK.search(text) or _HAN_TIME.search(text)
    if match is None:
        return text
    named = match.groupdict()
    hour, half = han_number(named["hour"]), (named.get("half") or "").lower()
    if (half.startswith("p") or half in _AFTERNOON) and hour < _NOON:
        hour += _NOON
    minute = {"半": "30", "一刻": "15"}.get(named["minute"] or "", (named["minute"] or "0").rstrip("分"))
    found["time"] = f"{hour:02}:{int(minute):02}"
    return text[: match.start()] + " " + text[match.end() :]


def _take_amount(text: str, found: dict[str, str]) -> str:
    match = _AMOUNT.search(text)
    if match is None:
        match = _HAN_AMOUNT.search(text)
    if match is None:
        words = [word for word in re.findall(r"[a-z-]+", text.lower().replace("one of", "")) if word in NUMBERS]
        if len(words) == 1:
            found["amount"] = str(NUMBERS[words[0]])
        return text
    named = match.groupdict()
    digits = (match["number"] or named["round"]).replace(",", "")
    unit = (match["unit"] or "").lower().rstrip("s")
    found[f"amount {unit}".strip()] = digits if digits[0].isdigit() else str(han_amount(digits))
    return text


# Names of persons and things, and words that rule a name out.


PEOPLE = frozenset(
    words("""
    manager boss supervisor mentor lead owner wife husband spouse partner girlfriend boyfriend fiance fiancee doctor
    dentist landlord assistant ceo cto leader maintainer responsible""")
)
"""Attributes whose one value is a person's name."""
HAN_PEOPLE = words(
    "CEO CTO CFO 老板 经理 上司 领导 导师 负责人 联系人 女朋友 男朋友 妻子 丈夫 太太 老公 老婆 班主任 房东 医生"
)
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
_STATES = frozenset(
    words("password passcode pin status priority plan diet format theme default size title stack language")
)
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


# Places by what they are: a city is compared with cities, not with the country or region around it or its quarters.


_ALIASES = {
    "nyc": "new york", "new york city": "new york", "la": "los angeles",
    "sf": "san francisco", "san fran": "san francisco", "frisco": "san francisco", "philly": "philadelphia",
    "vegas": "las vegas", "dc": "washington", "washington dc": "washington", "washington d.c": "washington",
    "nola": "new orleans", "uk": "united kingdom", "britain": "united kingdom", "great britain": "united kingdom",
    "us": "united states", "usa": "united states", "u.s": "united states", "america": "united states",
    "holland": "netherlands", "munchen": "munich", "münchen": "munich", "köln": "cologne", "wien": "vienna",
    "peking": "beijing", "bombay": "mumbai", "saigon": "ho chi minh city", "hcmc": "ho chi minh city",
    "bangalore": "bengaluru", "kiev": "kyiv", "cdmx": "mexico city", "kl": "kuala lumpur", "hk": "hong kong",
    "帝都": "北京", "魔都": "上海", "羊城": "广州", "鹏城": "深圳", "蓉城": "成都", "山城": "重庆", "江城": "武汉",
    "星城": "长沙", "冰城": "哈尔滨", "泉城": "济南", "春城": "昆明",
}  # fmt: skip
_REGIONS = frozenset(
    phrases("""
    alabama, alaska, arizona, arkansas, california, colorado, connecticut, delaware, florida, georgia, hawaii, idaho,
    illinois, indiana, iowa, kansas, kentucky, louisiana, maine, maryland, massachusetts, michigan, minnesota,
    mississippi, missouri, montana, nebraska, nevada, new hampshire, new jersey, new mexico, north carolina,
    north dakota, ohio, oklahoma, oregon, pennsylvania, rhode island, south carolina, south dakota, tennessee, texas,
    utah, vermont, virginia, west virginia, wisconsin, wyoming, new england, midwest, bay area, silicon valley,
    ontario, quebec, british columbia, alberta, nova scotia, manitoba, queensland, new south wales, tasmania, bavaria,
    saxony, hesse, brandenburg, north rhine-westphalia, baden-württemberg, catalonia, andalusia, galicia, tuscany,
    lombardy, sicily, sardinia, provence, brittany, normandy, flanders, wallonia, tyrol, yorkshire, kent, essex, surrey,
    sussex, cornwall, devon, scandinavia, balkans, hokkaido, kyushu, guangdong, zhejiang, sichuan, jiangsu, punjab,
    kerala, karnataka, maharashtra""")
) | frozenset(
    words("""
    河北 山西 辽宁 吉林 黑龙江 江苏 浙江 安徽 福建 江西 山东 河南 湖北 湖南 广东 海南 四川 贵州 云南 陕西 甘肃 青海
    台湾 内蒙古 广西 西藏 宁夏 新疆 加州 德州 东北 华北 华东 华南 江浙 长三角 珠三角 北海道 巴伐利亚""")
)
_QUARTERS = frozenset(
    phrases("""
    brooklyn, manhattan, queens, bronx, staten island, harlem, soho, tribeca, williamsburg, astoria, bushwick,
    greenwich village, upper east side, upper west side, lower east side, chelsea, midtown, downtown, uptown,
    hollywood, santa monica, venice beach, beverly hills, silver lake, mission, mission district, noe valley, sunset,
    castro, haight-ashbury, capitol hill, ballard, wicker park, lincoln park, hyde park,
    back bay, beacon hill, south end, kreuzberg, neukölln, neukolln, mitte, prenzlauer berg, friedrichshain,
    charlottenburg, schöneberg, wedding, moabit, schwabing, haidhausen, sendling, maxvorstadt, altona, eimsbüttel,
    st pauli, ehrenfeld, sachsenhausen, bornheim, shoreditch, hackney, camden, islington, brixton, clapham,
    notting hill, kensington, greenwich, mayfair, canary wharf, peckham, dalston, montmartre, le marais, marais,
    belleville, bastille, montparnasse, pigalle, trastevere, prati, gracia, gràcia, eixample, raval, lavapiés,
    malasaña, chueca, alfama, bairro alto, belém, de pijp, jordaan, oud-west, södermalm, vasastan, östermalm,
    grünerløkka, vesterbro, nørrebro, amager, kallio, shibuya, shinjuku, ginza, roppongi, asakusa, setagaya, meguro,
    akihabara, gangnam, hongdae, itaewon, bandra, andheri, indiranagar, koramangala, whitefield, bondi, surry hills,
    newtown, fitzroy, st kilda, carlton, kitsilano, gastown, yaletown, le plateau, polanco, roma norte, condesa,
    recoleta, san telmo, copacabana, ipanema, leblon, pudong, puxi, haidian, chaoyang, xuhui, jing'an,
    nanshan, futian, kowloon, wan chai, mong kok""")
) | frozenset(
    words("""
    浦东 浦西 海淀 朝阳 通州 昌平 大兴 顺义 丰台 望京 中关村 五道口 回龙观 天通苑 国贸 徐汇 静安 陆家嘴 徐家汇 虹桥
    闵行 松江 杨浦 天河 越秀 海珠 番禺 白云 荔湾 南山 福田 罗湖 宝安 龙岗 龙华 余杭 滨江 萧山 武侯 锦江 高新 江宁
    鼓楼 秦淮 洪山 江汉 武昌 汉口 汉阳 光谷 雁塔 岳麓 渝中 江北 九龙 旺角 铜锣湾 涩谷 新宿 银座""")
)
_QUARTER_ENDINGS = words(
    "区 县 镇 乡 村 街道 街 路 巷 胡同 弄 苑 园 花园 小区 新区 里 屯 庄 商圈 市中心 市区 郊区 城区"
)
_ENGLISH_QUARTERS = frozenset(
    words("district borough neighborhood neighbourhood street road avenue lane square county quarter suburbs heights")
)
_NO_TOWN = words("楼 层 室 号 栋 幢 单元 边 旁 旁边 附近 对面 隔壁 楼上 楼下 山上 山下 河边 海边 上 下 里面 外面")
_TOWNS = (*sorted(CITIES), *words("枣庄 新乡 萍乡 景德镇"))


def english_place(name: str) -> ValuePart:
    """Return the place that is called so, in lower case."""
    plain = _ALIASES.get(name, name)
    if plain in COUNTRIES:
        return ValuePart("country", plain)
    if plain in _REGIONS:
        return ValuePart("region", plain)
    if plain in _QUARTERS or plain.rpartition(" ")[2] in _ENGLISH_QUARTERS:
        return ValuePart("quarter", plain)
    return ValuePart("place", plain)


def chinese_place(name: str) -> ValuePart | None:
    """Return the place of this name, or None for one that is no town: a floor, by the lake."""
    name = _ALIASES.get(name, name.lower())
    if name.isascii():
        return english_place(name)
    if name in HAN_COUNTRIES:
        return ValuePart("country", name)
    region = next((one for one in _REGIONS if name.startswith(one)), "")
    if region and name.removeprefix(region) in {"", "省", "自治区", "那边"}:
        return ValuePart("region", region)
    within = name.removeprefix(region).removeprefix("省")
    name = within if len(within) > 1 else name
    if name.startswith(_TOWNS) or "市" in name[1:-1]:
        return ValuePart("place", name)
    if name in _QUARTERS or name.endswith(_QUARTER_ENDINGS):
        return ValuePart("quarter", name)
    return None if name.endswith(_NO_TOWN) else ValuePart("place", name)


# Conditions: a statement about summers does not contradict one about winters.


_SPANS = (
    r"(?:spring|summer|autumn|fall|winter|week|weekend|weekday|workday|holiday|vacation|semester|term|school year"
    r"|season|off-season|(?:rainy|dry|low|high|peak) season|business day)s?"
)
_ENGLISH_SPAN = rf"(?:in|during|over|on|at|for|throughout)\s+(?:the\s+)?(?P<span>{_SPANS})"
_ENGLISH_FIRST = re.compile(rf"^{_ENGLISH_SPAN}\s*,?\s+(?=\w)", re.IGNORECASE)
_ENGLISH_LAST = re.compile(
    rf"(?<!\s)\s+(?:{_ENGLISH_SPAN}(?=\s*$|\s+(?:and|but|with)\b|[,;])|during\s+(?P<other>(?:the\s+|my\s+|our\s+)?\w+(?:\s+\w+)?)\s*$)",
    re.IGNORECASE,
)
_CHINESE = re.compile(
    r"(?:在|每年|每到|一到|到了?)*(?P<span>[春夏秋冬][天季]|周末|工作日|平日|节假日|假期|[暑寒]假|暑期|[淡旺雨旱]季|出差(?=[时的期]))"
    r"(?:的时候|时候|时|期间|里)?(?:，)?(?:都|则|就)?"
)


def english_setting(sentence: str) -> tuple[str, str]:
    """Return a sentence without the season or span that it begins with, and that in lower case; empty: with none."""
    first = _ENGLISH_FIRST.match(sentence)
    return (sentence, "") if first is None else (sentence[first.end() :], _singular(first["span"]))


def english_condition(clause: str) -> tuple[str, str]:
    """Return a clause without the season or span that it ends with, and that in lower case; empty: with none."""
    last = _ENGLISH_LAST.search(clause)
    if last is None:
        return clause, ""
    return clause[: last.start()] + clause[last.end() :], _singular(last["span"] or last["other"])


def chinese_condition(clause: str) -> tuple[str, str]:
    """Return a clause without the season or span that it holds for, and that; empty when it has none."""
    match = _CHINESE.search(clause)
    if match is None:
        return clause, ""
    return clause[: match.start()] + clause[match.end() :], match["span"].replace("季", "天")


def said_when(found: Iterable[Fact], *when: str) -> Iterator[Fact]:
    """Yield statements as what is so in these seasons or spans; empty ones are none."""
    spans = " and ".join(span for span in when if span)
    for statement in found:
        yield replace(statement, topic=f"{statement.topic} in {spans}") if spans else statement


def _singular(span: str) -> str:
    return span.lower().removeprefix("the ").removesuffix("s")
