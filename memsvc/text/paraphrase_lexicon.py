"""The words that likeness knows: those that say nothing, those that say the same, and those that point to a time."""

from __future__ import annotations

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
    accept ask attend avoid believe belong book bring build buy call care carry check choose collect commute complete
    consider contain cook cover cycle deal depend deploy design develop drink drive eat enjoy exercise expect fear feel
    follow forget get give go grow handle hate have help hold host include join keep know lead learn leave like listen
    live love maintain make manage mean meet move need offer open order own paint pay plan play prefer provide read
    receive recommend require return ride run say see sell send serve share sing sleep speak spend start stay stop
    store study suffer support swim take teach tell think train travel try use value visit wait wake walk want watch
    wear weigh work worry write dislike reside
""")
_IRREGULAR: Mapping[str, str] = {"has": "have", "goes": "go", "watches": "watch", "teaches": "teach"}

_SAME = """
like enjoy
hate detest
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
妈妈 母亲 妈
爸爸 父亲 爸
电影 影片
自行车 单车
医生 大夫
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
