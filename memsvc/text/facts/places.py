"""Places by what they are: a city is compared with cities, not with the country or region around it or its quarters."""

from __future__ import annotations

from memsvc.domain.conflicts import ValuePart
from memsvc.text.facts.chinese_lexicon import CITIES
from memsvc.text.facts.chinese_lexicon import COUNTRIES as HAN_COUNTRIES
from memsvc.text.facts.english_lexicon import COUNTRIES
from memsvc.text.facts.lexicon import phrases, words

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
    """Return the place that is called so, or None for one that tells of no town: a floor, by the lake."""
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
