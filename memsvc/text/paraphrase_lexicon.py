"""The words that likeness knows: those that say nothing, those that say the same, and those that point to a time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from memsvc.text.facts.english_lexicon import words

FILLERS = frozenset(
    words("""
    a an the is am are be been being do does that also please currently now nowadays definitely actually basically
    的 是 也 就 呢 啊 呀 嘛 在 于 目前 现在 当前 其实 确实 位""")
)
"""Words that change nothing of what a sentence says."""
DEGREES = frozenset(words("really very quite truly 很 非常 特别 十分 相当 挺 真"))
"""Words that change nothing in a sentence without a negation: "not very good" is not "not good"."""
NEGATIONS = frozenset(
    words("""
    not no never nothing nobody none neither nor without cannot hardly rarely
    不 没 没有 未 无 别 勿 莫 非 否 不是 不会 不能 不要 不可以 不得 从不 并不 并非 毫不 无法 不太""")
)

SELF = frozenset(words("i me my mine myself user 我 我的 本人 用户 俺 咱 自己"))
OURS = frozenset(words("we our ours us 我们 咱们"))

_VERBS = words("""
    accept ask attend avoid believe belong book bring build buy call care carry check choose collect commute
    complete consider contain cook cover cycle deal depend deploy design develop drink drive eat enjoy
    exercise expect fear feel follow forget get give go grow handle hate have help hold host include join
    keep know lead learn leave like listen live love maintain make manage mean meet move need offer open
    order own paint pay plan play prefer provide read receive recommend require return ride run say see sell
    send serve share sing sleep speak spend start stay stop store study suffer support swim take teach tell
    think train travel try use value visit wait wake walk want watch wear weigh work worry write dislike
    reside fix repair mend choose select pick detest loathe adore forbid ban lend borrow rent arrive depart
    manage owe repair treat raise paint bake sew cause hire fire marry divorce address name park clean wash
    feed adopt rescue paint sign found lead chair edit host sponsor test review approve reject merge lock
    damage steal break switch replace swim dance knit commute""")
_PAST = """
run ran run
write wrote written
choose chose chosen
build built built
buy bought bought
teach taught taught
give gave given
take took taken
make made made
drive drove driven
eat ate eaten
drink drank drunk
speak spoke spoken
steal stole stolen
break broke broken
lend lent lent
lead led led
sell sold sold
keep kept kept
leave left left
meet met met
pay paid paid
send sent sent
spend spent spent
tell told told
wear wore worn
win won won
lose lost lost
begin began begun
swim swam swum
sing sang sung
find found found
hold held held
know knew known
grow grew grown
see saw seen
go went gone
come came come
get got gotten
forbid forbade forbidden
"""
PAST_FORMS: Mapping[str, str] = {
    past: base for base, past, _ in (line.split() for line in _PAST.strip().splitlines()) if past not in {base, "got"}
}
"""Irregular pasts and their bases."""
PARTICIPLES: Mapping[str, str] = {part: base for base, _, part in (line.split() for line in _PAST.strip().splitlines())}
"""Irregular participles and their bases."""
_IRREGULAR: Mapping[str, str] = {"has": "have", "goes": "go", "watches": "watch", "teaches": "teach"}

_SAME = """
like enjoy
fix repair mend
choose select pick
answer reply response respond
answers replies responses
short brief concise
shop store
quit stop
married wed
begin commence
road street
couch sofa
lawyer attorney solicitor
holiday vacation
lift elevator
garbage rubbish trash
hate detest loathe
prefer favor favour
live reside dwell
use utilize utilise
buy purchase
start begin
big large
photo photograph
bike bicycle
film movie
mom mother mum
dad father
kid child
kids children
phone telephone
apartment flat
doctor physician
favorite favourite
color colour
gray grey
center centre
theater theatre
program programme
喜欢 喜爱
偏好 偏爱
讨厌 厌恶
居住 住
使用 用 采用
购买 买
妈妈 母亲 妈 老妈
爸爸 父亲 爸 老爸
电影 影片
自行车 单车
医生 大夫
岳母 丈母娘
岳父 老丈人
回答 回复 答复
电脑 计算机
照片 相片
西红柿 番茄
土豆 马铃薯
妻子 老婆 太太
丈夫 老公
孩子 小孩
"""
_PHRASES = """
like: is fond of | am fond of | are fond of | is a fan of | am a fan of | is keen on | am keen on | is into | am into
dislike: do not like | does not like
live: is based | am based | are based
allergic to: have an allergy to | has an allergy to
never: not ever
过敏: 有过敏
"""


def _forms() -> Iterator[tuple[str, str]]:
    for line in _SAME.strip().splitlines():
        head, *others = line.split()
        yield from ((other, head) for other in others)


def _bases() -> Iterator[tuple[str, str]]:
    for verb in _VERBS:
        is_hissing = verb.endswith(("s", "x", "ch", "sh"))
        ies = verb.endswith("y") and verb[-2] not in "aeou"
        yield (f"{verb[:-1]}ies" if ies else f"{verb}{'es' if is_hissing else 's'}"), verb
    yield from _IRREGULAR.items()


SAME: Mapping[str, str] = dict(_forms())
"""Words that say the same as another, in their base form."""
BASES: Mapping[str, str] = dict(_bases())
"""The base of the third person of common verbs. Of other words no form is taken for another: "worked" is not "works"
and "cats" are not "cat"."""
PHRASES: Mapping[str, str] = {
    phrase.strip(): head
    for head, _, phrases in (line.partition(": ") for line in _PHRASES.strip().splitlines())
    for phrase in phrases.split("|")
}
"""Phrases that say the same as a word."""

RELATIONS = frozenset(
    words("""
    in at of to as on live home house city place based name named called job employer employed
    work like by 住 家 住处 居住 城市 工作 职业 名字 叫 名叫 喜欢 喝 吃 上班 为 主""")
)
"""Words that only tie what is stated to whom it is stated of: a statement that is the same says them already."""

COMPARING = frozenset(words("than from to before after over between like 比 比起 像 从 到 之前 之后 前 后"))
"""Words between two that must not change places."""

RELATIVE = frozenset(
    words("""
    today yesterday tomorrow tonight ago last next this recently lately soon later earlier
    今天 昨天 明天 前天 后天 今晚 昨晚 上周 下周 本周 这周 上个月 下个月 这个月 本月 去年 今年 明年 最近 刚才 刚刚 今早
    今 昨 明 上次 下次 这次""")
)
"""Words whose meaning depends on when they were said."""

POINTING = frozenset(
    words("""
    he she it they his her hers its their theirs him them this that these those there here both
    他 她 它 他们 她们 它们 他的 她的 它的 这 那 这个 那个 这些 那些 这里 那里 此 其 该""")
)
"""Pronouns and other words that refer to the context."""


def _turns(*pairs: tuple[str, str]) -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(pattern, re.IGNORECASE), plain) for pattern, plain in pairs)


ENGLISH_TURNS = _turns(
    (r"\b(?:can not|cannot|could not) (?:stand|bear|abide)\b", "hate"),
    (r"\bdoes not like\b|\bdo not like\b", "dislike"),
    (r"\b(?:is|am|are) (?:fond of|a fan of|keen on|into)\b", "like"),
    (r"\b(?:started|began) (?:a (?:new )?job|a position|working|work) (?:at|for|with)\b", "started work at"),
    (r"\b(works?|working) (?:at|for)\b", r"\1 at"),
    (r"\b(?:is|am|are) employed (?:by|at)\b", "works at"),
    (r"\b(?:settled|decided) on\b", "chose"),
    (r"\b(?:gave|given|give) up\b", "quit"),
    (r"\bquit (?:smoking|cigarettes|tobacco)\b|\bstopped smoking\b", "quit smoking"),
    (r"\b(?:goes?|went) (swimming|running|climbing|hiking|fishing|cycling|dancing)\b", r"\1"),
    (
        r"\bhas to be in by\b|\bmust be in by\b|\bis due (?:on|by)\b|\bmust be (?:submitted|handed in|delivered) by\b",
        "deadline",
    ),
    (r"\bthe deadline (?:for|of) (.+?) is(?: on)?\b", r"\1 deadline"),
    (r"'s birthday (?:falls on|is on|is)\b", " born"),
    (r"\bwas born on\b", "born"),
    (r"\bmy birthday (?:falls on|is on|is)\b", "i born"),
    (r"'s name is\b|\b(?:is|am) (?:called|named)\b|\bgoes by\b", " is"),
    (
        r"\bhave an? allergy to\b|\bhas an? allergy to\b|\bam allergic to\b|\bis allergic to\b|\ballergic to\b",
        "allergic",
    ),
    (
        r"\b(?:can not|must not|may not|cannot|mustn't|is not allowed to|am not allowed to) (?:eat|have)\b",
        "can not eat",
    ),
    (r"\b(?:can not|must not|may not|cannot|is not allowed to|am not allowed to) drink\b", "can not drink"),
    (r"\b(?:scared|afraid|frightened) of\b", "afraid of"),
    (
        (
            r"\b(?:likes?|wants?|prefers?) to be (?:called|addressed as|known as)\b|\b(?:call"
            r"|address) me(?: as)?\b|\bnickname is\b"
        ),
        "called",
    ),
    (r"\b(?:our|the) (\w+) is (\w+)$|\bwe use (\w+) as (?:our|the) (\w+)$", r"our \1\4 \2\3"),
    (r"\b(?:married to|wed to)\b", "married"),
    (
        (
            r"\bis based in\b|\bam based in\b|\bresides? in\b|\bis living in\b"
            r"|\bam living in\b|\bmakes? (?:his|her|my|their) home in\b"
        ),
        "lives in",
    ),
    (r"\b(?:a|an) (\w+) speaker\b", r"speaks \1"),
    (r"\bkeep (?:answers|replies|responses) (\w+)$|\b(?:answers|replies|responses) should be (\w+)$", r"answers \1\2"),
    (r"\bnightly\b", "every night"),
    (r"\bdaily\b", "every day"),
    (r"\bweekly\b", "every week"),
    (r"\bmonthly\b", "every month"),
    (r"\bapproximately\b|\broughly\b", "about"),
    (r"\bbecause of\b|\bdue to\b|\bowing to\b", "because"),
    (r"\bthe user's\b|\buser's\b", "my"),
    (r"\bthe user (?:is|am)\b|\buser is\b", "i am"),
    (r"\bthe user\b", "i"),
    (r"\bmy (?:home|house|flat) is in\b", "i lives in"),
    (r"^(.+) is my employer$", r"i works at \1"),
    (r"^(.+?) is the name of (my|our) (\w+)$", r"\2 \3 is \1"),
    (r"^(.+?), my (\w+), ", r"my \2 \1 "),
    (r"\b(?:works?|working) as (?=an? )", "is "),
    (r"\b(?:comes?|hails?) from\b|\bis a native of\b", "is from"),
    (r"\b(?:runs?|ran) out\b", "expires"),
    (r"\b(?:do|does) not (?=drink|eat|smoke)|\bnever (?=drinks?|eats?|smokes?)", "not "),
    (r"^(.+) is when (.+) (?:begins?|starts?)$", r"\2 starts at \1"),
    (r"^the date of (.+) is (\d)", r"\1 is on \2"),
    (r"\b(?:am|is|are) the (\w+) player\b", r"play the \1"),
    (r"\b(?:go|goes|going|went) for a (swim|run|walk|hike|ride)\b", r"\1"),
    (r"\b(?:wear shoes of size|take shoe size|take size|wear size) (?=\d)", "shoe size is "),
    (r"\bmy shoe size\b", "shoe size"),
    (r"\bi (?=shoe size)", ""),
    (r"\b(?:answers|replies|responses) should be (?=in )|\bplease (?:answer|reply|respond) (?=in )", "answer "),
)
"""Turns of phrase that say the same, for the core of an English sentence in lower case."""
_NP = r"[^\s,，。把被是的给]{1,8}?"
CHINESE_TURNS = _turns(
    (
        rf"^({_NP})把(.{{1,10}}?)(修好|写完|做完|卖|送|换|改|戒|关|删|租|借|弄丢|打碎|承包|买|拿|交|吃|喝|扔|洗|搬)(了|掉了?)?$",
        r"\1\3\2",
    ),
    (
        rf"^(.{{1,10}}?)被({_NP})(修好|写完|卖|送|换|改|关|删|租|借|弄丢|打碎|承包|买|拿|吃|喝|扔|洗|搬|选中|录取)(了|走了?|掉了?)?$",
        r"\2\3\1",
    ),
    (rf"^(.{{1,10}}?)是({_NP})(修好|写|做|画|题|起|取|买|送|承包|设计|开|教|负责|修|拍|织|种|装|定|选)的$", r"\2\3\1"),
    (r"取了|起了", "起"),
    (r"不喜欢|不爱(?=[吃喝看听玩])|厌恶|反感", "讨厌"),
    (r"(?<![可热恋亲敬酷偏钟心喜最不])爱(?=[吃喝看听玩])|喜爱|热爱", "喜欢"),
    (r"^(.{1,4}?)家在|^(.{1,4}?)(?:居住|定居)在|家住", r"\1\2住在"),
    (r"定居(?!在)|安家在", "住在"),
    (r"是素食(?:主义)?者", "吃素"),
    (r"的昵称是|的小名是|平时叫|希望被称为|叫做|名叫", "叫"),
    (r"^叫我", "我叫"),
    (r"(?:不能|不可以|不可|不得|不许|禁止)(?=[吃喝碰])|忌口|忌", "不能"),
    (r"有(.{1,6}?)过敏(?:症)?$", r"对\1过敏"),
    (r"对(.{1,8}?)有?过敏(?:反应)?", r"对\1过敏"),
    (r"周日|周天|星期[日天]|礼拜[日天]", "星期日"),
    (r"(?:周|礼拜)([一二三四五六])", r"星期\1"),
    (r"(?:就职于|任职于|供职于)(.{1,10})$", r"在\1上班"),
    (r"在(.{1,8}?)(?:任职|就职|工作)", r"在\1上班"),
    (r"我妈(?!妈)|我母亲", "我妈妈"),
    (r"我爸(?!爸)|我父亲", "我爸爸"),
    (r"大夫", "医生"),
    (r"现在|目前|如今|其实|真的|一直", ""),
    (r"用户", "我"),
    (r"我的?家在", "我住在"),
    (r"^(.{1,8}?)是我的?(?:工作单位|单位|公司|雇主)$", r"我在\1上班"),
    (r"来自(.{1,6})$", r"是\1人"),
    (r"^(.{1,4}?)是(我|我们|我家)的?(女儿|儿子|妻子|丈夫|猫|狗)的名字$", r"\2\3叫\1"),
    (r"从来不|从不|一向不|向来不", "不"),
    (r"过期", "到期"),
    (r"每到(?=星期)|每逢(?=星期)|一到(?=星期)", "每"),
    (r"(?:都|就|会)?去(?=游泳|跑步|健身|爬山|打球)", ""),
    (r"^到(?=[0-9一二三四五六七八九十]{1,2}月)|(?<=[0-9]年)起", ""),
    (r"不再(?:碰|抽|喝|吃)", "戒"),
    (r"戒了", "戒"),
    (r"^审(.{1,6})的是(.{1,6})$", r"\1由\2审"),
    (r"^请用(.{1,6})(?:回答|回复|答复)$|^(?:回答|回复|答复)(?:时)?(?:请|要|得)?用(.{1,6})$", r"用\1\2回答"),
    (r"^我穿([0-9]+)码的鞋$|^我的?鞋码是([0-9]+)$", r"我穿\1\2码鞋"),
    (r"^吃(.{1,8}?)会过敏$", r"对\1过敏"),
    (r"我吃(.{1,8}?)会过敏", r"我对\1过敏"),
    (r"^(.{1,12}?)(?:开始)?开(站会|例会|周会|晨会|班会)$", r"\2\1开始"),
    (r"^(.{2,12}?)做(备份|快照|巡检)$", r"\2\1跑"),
    (r"^(.{2,12}?)办(婚礼|酒席|派对)$", r"\2在\1"),
)
"""Turns of phrase that say the same, for the core of a Chinese sentence."""
