"""Facts that a text states, in the words of each language and in other words.

`facts_in` joins the readings of `english` and `chinese`, whose topics are words of their language, with those of this
module for changes said in other words. The topics of the latter are concepts of `concepts.txt` and do not depend on the
language. They begin with `LOOSE` and hold only where the newer statement says itself that something changed, as
"switched to", "no longer" and 改成 do. Such a topic is a thing and a number or date of it, a thing that is so or no
longer so, a class of tools of which one is in use, a family of opposites, a name, a role, a home or a job.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files
from itertools import pairwise

from memsvc.domain.conflicts import ABOUT, CHANGED, LOOSE, POLE, STATE, WHO, Fact, Rule, ValuePart
from memsvc.text.analysis import STOP_WORDS, is_han, segmenter, simplified_form
from memsvc.text.facts.chinese import chinese_facts
from memsvc.text.facts.english import english_facts
from memsvc.text.facts.english_lexicon import COUNTRIES, phrases
from memsvc.text.facts.english_lexicon import words as listed
from memsvc.text.facts.values import MONTHS, NUMBERS, WEEKDAYS, is_han_name, parse_value
from memsvc.text.sentences import sentences

MAX_CHARS = 400
"""A longer text says too much to be put aside for one of its sentences; it states nothing."""
MAX_TOPIC_BYTES = 1_000
"""A statement with a longer topic, such as one about a word of hundreds of letters, is left out: stores have an index
of owner, project and topic, and PostgreSQL refuses index entries of more than 2 704 bytes."""
MAX_STATEMENTS, MAX_LOOSE = 8, 16
_NEW_TEXTS = 8_192
"""Texts whose facts are kept: a new one is read before its transaction, which asks for them again. Eight batches of the
largest size."""
USER = "user"

_PORT_TOPIC = re.compile(r"^is (?:.* )?port\b|端口 是$")
_TURN = re.compile(r"(?:^|\s)[^\W\d_]{1,16}\s?[:：]\s?(?=\w)")
"""How a turn of a conversation begins: what several people say is not stated by one."""
_USERS = frozenset({"", "user", "human", "用户", "我"})
_MACHINES = frozenset({"assistant", "agent", "ai", "bot", "system", "tool", "助手"})


def facts_in(text: str, *, speaker: str = "", is_titled: bool = False) -> tuple[Fact, ...]:
    """Return what *text* states for certain, at most `MAX_STATEMENTS`, each topic once: the last word on it counts.

    "I" is the *speaker*, or the user when there is none; a sentence without a subject is about the user, unless the
    text *is_titled*: then it may be about what the title names.
    """
    return () if len(text) > MAX_CHARS else cached_facts(text, speaker, is_titled=is_titled)


@lru_cache(maxsize=_NEW_TEXTS)
def cached_facts(text: str, speaker: str, *, is_titled: bool) -> tuple[Fact, ...]:
    """Return what `facts_in` returns for a text of at most `MAX_CHARS`."""
    if _is_conversation(text):
        return ()
    text = simplified_form(text)
    me = _me(speaker)
    silent = None if is_titled else me
    state = chinese_facts if is_han(text) else english_facts
    said = sentences(text)
    found = {statement.topic: statement for statement in state(said, me=me, silent=silent)}
    if _ADDING.search(text):
        found = {topic: fact for topic, fact in found.items() if not _is_exclusive(fact)}
    kept = [fact for fact in found.values() if len(fact.topic.encode(errors="replace")) <= MAX_TOPIC_BYTES]
    return tuple(kept[-MAX_STATEMENTS:])


def loose_facts_in(text: str, *, speaker: str = "") -> tuple[Fact, ...]:
    """Return what *text* may state in other words, at most `MAX_LOOSE`, each topic once.

    They are guesses: a contradiction of two of them is reason for doubt, and never for a change of what is stored.
    """
    return () if len(text) > MAX_CHARS else cached_loose_facts(text, speaker)


@lru_cache(maxsize=2048)
def cached_loose_facts(text: str, speaker: str) -> tuple[Fact, ...]:
    """Return what `loose_facts_in` returns for a text of at most `MAX_CHARS`."""
    if _is_conversation(text):
        return ()
    said = sentences(simplified_form(text))
    loose = {statement.topic: statement for statement in change_facts(said, me=_me(speaker))}
    return tuple(loose.values())[-MAX_LOOSE:]


def persons_in(text: str) -> frozenset[str]:
    """Return who is spoken of in *text*, other than the user: relatives, and names in lower case."""
    if len(text) > MAX_CHARS or _is_conversation(text):
        return frozenset()
    clauses = [_read(clause) for sentence in sentences(simplified_form(text)) for clause in _clauses_of(sentence)]
    whole = " ".join(clause.text for clause in clauses)
    return frozenset(_owners(clauses, whole, USER) if clauses else ()) - _ANYBODY


def _is_conversation(text: str) -> bool:
    return len(_TURN.findall(text)) > 1


def _me(speaker: str) -> str | None:
    """Return to whom "I" refers; None for a machine."""
    name = speaker.strip().lower()
    return USER if name in _USERS else None if name in _MACHINES else name


def _is_exclusive(fact: Fact) -> bool:
    """Return whether a choice, a job or a port excludes others, which one that is stated as a further one does not."""
    is_choice = any(part.sort == POLE for part in fact.parts)
    return is_choice or fact.rule is Rule.OCCUPATION or _PORT_TOPIC.search(fact.topic) is not None


# Changes said in other words.


MOST_THINGS = 5
_ENGLISH_WORD = re.compile(r"[^\W_]+(?:['.&+#/-][^\W_]+)*[+#]*|'s\b")
_CLAUSE = re.compile(r"[,;:.!?…—]+(?:\s|$)|[，。；！？：…\n]+|,(?=[\u3400-\u9fff])|\s(?:and|but|so|because|since)\s")
_HAN = re.compile(r"[\u3400-\u9fff]+")
_QUOTED = re.compile(r"[\"“「《]([^\"”」》]{1,20})[\"”」》]")
_CONTRACTIONS = (
    ("can't", "can not"), ("cannot", "can not"), ("won't", "will not"), ("n't", " not"), ("'re ", " are "),
    ("'m ", " am "), ("'ve ", " have "), ("'ll ", " will "), ("'d ", " would "),
)  # fmt: skip


def _set(text: str) -> frozenset[str]:
    return frozenset(phrase.strip() for phrase in text.replace("\n", " ").split(",") if phrase.strip())


_UNREAL = re.compile(
    r"\b(?:if|would|could|might|maybe|perhaps|wish|hope|hoping|suppose|imagine|considering|thinking (?:of|about)|dream"
    r"|plan(?:s|ning)? to|(?:want|wants|like|love) to|going to try|supposedly|i heard"
    r"|according to|asked|whether|rather be)\b"
    r"|\?\s*$|如果|要是|假如|可能会|也许|想试|打算(?!要)|考虑|希望|多好|听说|据说|有人说"
    r"|吗[?？。]?$|吧？|吧\?|？\s*$|是不是|没准|准备去",
    re.IGNORECASE,
)
_UNREAL_FROM_HERE = re.compile(
    r"^\W*(?:if|suppose|imagine|wish|maybe|perhaps)\b|^(?:如果|要是|假如)|多好|吧[?？]", re.IGNORECASE
)
_ADDING = re.compile(
    r"\b(?:also|too|as well|either|additionally|besides|another|on top of|in addition"
    r"|second|extra)\b(?! (?:much|many|small|big|late|early|long|short|expensive))"
    r"|(?<!再)也(?!能|行|好|可以|就|不)|还(?:有|会|在|爱|打|养|学|迷|喜欢|报|跟|要|想|去)"
    r"|另外|那个|另一个|the other|除了|又(?:报|买|养|学|加|开)|顺便",
    re.IGNORECASE,
)
_ENDED = _set(
    """is gone, are gone, 's gone, has gone, is off, 's off, are off, got stolen, got nicked, was stolen,
    been stolen, stolen, nicked, died, is dead, put down, cancelled, canceled, called off, scrubbed,
    scrapped, fell through, is out, 's out, are out, switched off, shut down, closed down, not happening,
    no longer, not any more, any more, anymore, been sold, sold, sold off, quit, quitting, gave up,
    given up, giving up, stopped, stop, left, has left, leaving, dumped, ditched, ditch, ditching, dropped,
    right off, gone off, went off, off the menu, off limits, done with, sick of, tired of, fed up with,
    can not stand, can not bear, hates, hate, got rid of, getting rid of, gave away, given away, no more,
    packed in, packing in, jacked in, chucked in, blocked, killed, killed the, forget, forget the, scrap,
    binned, thrown out, threw out, wrote off, written off, totalled, finished with, over it, off work,
    moved off, resigned, handed in, swore off, sworn off, can not have, can not eat, can not drink,
    can not do, must not, not allowed, had enough of, lost interest, bored of, backed out, pulled out,
    dropped out, gave it up, cut out, cutting out, not going, not running, not flying, not coming,
    not doing, not replacing, never again, came back clear, outgrew, grown out of, outgrown, cured, cleared,
    in remission, not allergic, went bust, lost my, lost the, expired, ended, is over, 's over,
    retired from, broke, crashed, traded in, part-exchanged, fell out, fallen out, do not talk,
    do not speak, not speaking, not talking, stopped talking, unfriended, split up, split with, broke up,
    broken up, parted ways, went our separate ways, no caffeine, no alcohol, for us"""
)
_CHANGING = _ENDED | _set(
    """now, these days, nowadays, from now on, from here on, from today, from tomorrow, as of, as from,
    instead, switched, switch, switching, moved, moving, moves, changed, changes, renamed, replaced,
    upgraded, upgrade, downgraded, went up, gone up, up to, down to, going up, raised, cut to, lowered,
    increased, reduced, pushed, slips, slip, slid, slides, slipped, postponed, delayed, bumped, bumping,
    rescheduled, brought forward, extended, extension, since, after all, turns out, turned out, finally,
    over to, on to, can only do, got the raise, got a raise, pay rise, been put on, her role, his role,
    took over, taken over, takes over, gets the rent, ported, porting, migrated, migrating, standardised on,
    the new place, again, in the end, had to, stretch to, or nothing, overruled, officially, official,
    at last, scrap that, skip, will do, is enough, are enough, is fine, please, reorg, kicks off, engaged,
    married, got married, single again, new job, started, joined, hired, promoted to, relocated, settled,
    signed the lease, closed on, got the keys, took a, landed, set to, put the, put it, had it changed,
    arrived, gave birth, graduated, finished, went vegan, went vegetarian, turned vegetarian, turned vegan,
    gone vegan, gone vegetarian, lately, or bust, i have got till, got till, got until, have until,
    have till, gave me until, rang, called to say, changed to, set at, got a new, the new, new landlord,
    new boss, our new, my new, only, no need, do not need, cleared up, can have, best mates again, made up,
    back together, on me, offered me, poached, acquired, bought by, got bought, merged, rebranded, closed,
    as usual no, night owl now, person now, girl now, guy now"""
)
_HAN_ENDED = re.compile(
    r"不[\u4e00-\u9fff]{1,2}了|不(?:喜欢|爱)[^,，。]{0,10}了|走了|去世|过世|不(?:再|能再"
    r"|想再|敢再|去|回|办|飞|喝|吃|抽|看|听|打|玩|用|做|干|坐|要|养|种|写|参加|租|碰|沾|开"
    r"|骑|养|学|练|交|来)[^,，。]{0,8}[了啦]|再也不|早不|不碰了|不敢碰|不沾|不能喝|不能吃"
    r"|不再"
    r"|戒|卖[了掉给]|卖掉|丢了|偷|黄了|泡汤|取消|作废|报废|没了|死了|扔了|退掉|退了|退租"
    r"|关[停了掉]|就关|下线|归档|掰了|散伙|分手|分了|离了|腻|看吐|吃吐|烦透"
    r"|一口都不|一滴都不|去不成|办不成|叼走|骑走|开走|送人|送去|送给|置换|闲鱼|摘了"
    r"|受不了|爬不动|看不动|吃不动|翻脸|闹翻|闹掰|绝交|拉黑|不来往|不联系|没破戒|掐了|离职"
    r"|辞职|辞了|不干"
    r"|脱敏|不过敏|随便逛|过敏好了|不用[^,，。]{0,8}了|不接|辞掉|退群|停用|弃用|砍掉|砍了"
    r"|没有了|出手|没批|变卦|看着费眼|嫌"
)
_HAN_CHANGING = re.compile(
    r"改|砍到|减到|加到|压到|提到|缩到|扩到|也能|挤到|换|挪|搬|迁|升|降|涨|调[到去成了]"
    r"|延[到期后]|推[迟到]|提前|宽限|现在|如今|以后|往后|今后|从今|起叫|只好|只能|定成"
    r"|就好|就行|不用|别|终于|早就|归|接手|接管|排到|放在|放到|跳槽"
    r"|入职|毕业|领证|结婚|喜酒|脱单|男朋友啦|女朋友啦|生了|新领导|新来|新学校|新公司"
    r"|单干|创业|转行|[了啦咯喽](?:$|[,，。！!~])|了[一二三四五六七八九十\d]|才\d|这个月起"
    r"|上个月开始|全[组公部]|清一色|到账|变成|变了|重新|那边去|去了"
)
_DENIED = re.compile(
    r"\b(?:not|no|never|hates?|dislikes?|avoids?|without|allergic|allergy|intolerant|can't stand|cannot)\b"
    r"|不(?!久|少|错|过[^敏]|同|如)|没(?!准)|讨厌|过敏|忌口|戒了|从不|绝不",
    re.IGNORECASE,
)
_GENERIC = _set(
    """company, number, size, email, day, week, month, year, time, thing, things, people, user, work, team,
    whole, firm, everything, everyone, place, home, life, lot, way, use, used, using, uses, write, written,
    written in, code, new, old, good, great, nice, best, last, next, first, second, morning, evening, night,
    today, tomorrow, yesterday, month, reply, replies, answer, answers, answering, message, messages,
    response, responses, please, always, never, want, wants, like, likes, love, loves, prefer, prefers,
    really, keep, give, gave, make, made, take, takes, took, going, gone, went, come, came, said, says,
    tell, told, need, needs, still, back, just, even, days, weeks, hours, minutes, currently, nowadays,
    instead, anymore, longer, switched, moved, changed, started, left, quit, sold, got, finally, ago, since,
    till, until, user's, prod, production, run, runs, running on, live, lives, living, called, named, name,
    it's, that's, there's, week, 名字, 名称, 一个, 一下, 开始, 时候, 公司, 用户, 现在, 以后, 今天, 明天,
    昨天, 最近, 这个, 那个, 自己, 东西, 事情, 直接, 回复, 回答, 每天, 每周, 每月, 已经, 终于, 医生, 大夫,
    一起, 工作, 全部, 上个月, 下个月, 这个月, 去年, 今年, 明年, 上周, 下周, 周末, 早上, 晚上, 下午, 上午,
    只能, 只要, 彻底, 改成, 换成, 改到, 换了, 改用, 搬到, 搬去, 不能, 不要, 不用, 喜欢, 特别, 喜爱, 讨厌,
    觉得, 知道, 需要, 使用, 实在, 只是, 结束, 干脆, 反正, 起来"""
)
_VERBISH = re.compile(r".{3,}(?:ly|ing)$")
_RELATED = _set(
    """friend, best friend, best mate, mate, mates, bestie, close, closest, partner, business partner,
    business partners, dating, together, boyfriend, girlfriend, fiance, couple, colleague"""
)
_HAN_RELATED = re.compile(
    r"哥们|闺蜜|发小|好友|朋友|钓友|合伙|铁哥们|超铁|最铁|铁磁|在一起|男友|女友|男朋友|女朋友|交情|同伴|搭档"
)
_FALLEN_OUT = re.compile(
    r"\b(?:fell|fallen|falling) out\b|\bblocked\b|\b(?:do not|does not|don't"
    r"|doesn't) (?:talk|speak)|\bnot (?:on )?(?:speaking|talking)|\bstopped (?:talking"
    r"|speaking)"
    r"|\b(?:split|broke|broken|parted)\b|\bdumped\b|\bunfriended\b|\bghosted\b"
    r"|\bcut (?:him|her|them) off\b|\bno longer (?:friends|together|partners)\b"
    r"|翻脸|掰了|散伙|绝交|闹翻|闹掰|拉黑|不来往|不联系|分手|分了|黄了|拆伙|决裂|不说话了|老死不相"
)
_LIVING = re.compile(
    r"\b(?:live|lives|living|rents?|renting|based|settled (?:in|down)|flat|house|home"
    r"|condo|apartment|place|room|relocated|moved|move|moving|lease"
    r"|keys)\b(?!.*\b(?:meeting|appointment|deadline|lesson)\b)"
    r"|\b(?:am|are|'m|'re) (?:\w+ )?in [A-Z]|住|室一厅|租|搬[到进去来家过出走]|定居|安家|落户|人在|家在|换到"
)
_MOVING = re.compile(
    r"\b(?:moved (?!to the|the|my|it|our)|moved to [A-Z]|moved (?:in|out|house|flat|back)"
    r"|relocated|shift fast|signed the lease|closed on|got the keys|settled in|it is!)"
    r"|\b(?:am|are) (?:\w+ )?in [A-Z]\w+ now\b|\bliving in [A-Z]\w+ now\b|\b(?:in|into"
    r"|got|have) (?:the|our|my|a) new (?:flat|house|place|home)\b|\bbought a (?:house|flat"
    r"|place)\b"
    r"|搬|合租|退租|定居|换到[^,，。]{1,6}来|人在[^,，。]{1,6}了|落户|租在"
)
_EMPLOYING = re.compile(
    r"\b(?:works?|working|worked|employed|job|teaches|teach|teaching|nurse|at [A-Z]\w+"
    r"|retired|engineer|drives?|platform eng|team at|employer)\b"
    r"|上班|任教|工作|就职|当[^,，。]{1,6}$|做[^,，。]{1,8}$|在[^,，。]{2,10}(?:做[^到]"
    r"|当[^时天]|任教|教书)|空乘|钳工|程序员|当老师|是[^,，。]{0,4}(?:老师|护士)|柜员"
    r"|学校是|教高"
)
_JOB_CHANGE = re.compile(
    r"\b(?:handed (?:in )?my|gave notice|packed in|jacked in|chucked in|quit (?!smoking"
    r"|drinking|coffee|sugar|meat)|resigned|left (?!on|in|for|at|the (?:door|keys|house)"
    r"|hill)|new job|started (?:at|a new|my|a job|work)|(?:^|\bi|\bi've|\bwe|\bhas|\bhe"
    r"|\bshe|[A-Z]\w+) (?:just )?joined|hired|on to a start-?up"
    r"|took (?:a|the) [\w ]{0,15}(?:job|gig|post|role)|got (?:bought|acquired|poached"
    r"|a job)|is with [A-Z]|'s with [A-Z]|employer is|first day at|made redundant|laid off"
    r"|fired|retired|now works|works (?:at|for) .* now|not flying|career change|retrained"
    r"|acquisition|went freelance|run .* now|drives an? )"
    r"|跳槽|入职|离职|辞职|辞了|转行|改行|单干|创业|下海"
    r"|调[到去](?![\d一二三四五六七八九十])|办完手续|不干了|不飞了|不坐柜台|第一天"
    r"|换(?:了)?(?:工作|公司|单位)|跑去做|落地了|退休了|去了(?:华为|腾讯|阿里|字节|美团)"
    r"|现在人在|上[^,，。]{2,6}那边去了",
)
_NAMED = re.compile(
    r"\b(?:called|named|nicknamed|christened|calls? (?:him|her|it)|going with|name is"
    r"|title is|name's|name of|goes by|codenamed?|renamed(?: \w+)? (?:to|as)|renamed"
    r"|rename|as|officially|it's|he's|she's|she is|he is"
    r"|\w+'s)\s+[\"“]?(?P<name>[A-Z][\w-]+(?: [A-Z][\w-]+)*)"
    r"|(?:名叫|取名|起名|改名|改叫|叫做|叫它|叫他|叫她|大名|小名|定成|挂上|书名是|名字是"
    r"|定名|叫)(?:是|为|叫|成了?)?[\"“「《]?(?P<han>[\u4e00-\u9fffA-Za-z]{2,8})"
)
_NAME_CUE = re.compile(r"\b(?:called|named|name|renamed|nickname|title|codename|officially|going with)\b|叫|名|招牌")
_PERSON_NAME = re.compile(
    r"(?<![A-Za-z])(?!I\b)[A-Z][a-z]+(?: [A-Z][a-z]+)?"
    r"|[小老阿][\u4e00-\u9fff](?![上市区家员大])|[\u4e00-\u9fff](?:老师|师傅|总|姐|哥|医生"
    r"|教练|经理)"
)
_ROLES = frozenset(
    listed("""
    manager owner landlord teacher doctor class""")
)
_NUMBER = re.compile(
    r"(?<![A-Za-z0-9_.])[$€£¥]?(?P<number>\d[\d,]*(?:\.\d+)*)\s?(?P<thousand>k\b|万|千"
    r"|百)?\s?(?P<unit>gb|tb|mb|g\b|t\b|kg|lb|km|cm|%|ms|minutes?|hours?|days?|weeks?"
    r"|months?|years?|people|users|人|个|名|天|分钟|小时|公里|斤|元|块|岁|次|年|平)?",
    re.IGNORECASE,
)
_HAN_NUMBER = re.compile(
    r"[一二两三四五六七八九十][一二两三四五六七八九十百千万点零]+|[一二两三四五六七八九十](?=[个万千百])"
)
_HAN_DIGITS = {character: digit for digit, character in enumerate("零一二三四五六七八九")} | {"两": 2}
_HAN_UNITS = {"十": 10, "百": 100, "千": 1000}
_BARE_HOUR = re.compile(
    r"\bat (?P<hour>\d{1,2})(?![\d:.]|\s?(?:%|am|pm|o'clock|euros|dollars|k\b|(?:st|nd|rd|th)))", re.IGNORECASE
)
_DAY_ONLY = re.compile(
    r"\b(?:the )?(?P<day>\d{1,2})(?:st|nd|rd|th)\b|(?<![月\d])(?P<han>\d{1,2}|[一二三十][一二三四五六七八九十]?)[号日]"
)
_ONE_OF_NUMBER = _set("once in six, every four")
_CALENDAR = frozenset(
    {*MONTHS, *WEEKDAYS, *NUMBERS, "mon", "tue", "tues", "wed", "thu", "thur", "fri", "sat", "sun", "am", "pm"}
)
_AMBIGUOUS = _set(
    """go, dart, swift, rust, spring, express, rails, fish, bear, notion, linear, arch, mint, edge, brave,
    teams, arc, drone, gin, flask, travis, zoom, solid, sketch, cursor, windows, oracle, hive, express,
    ruby, perl, lark, ember, windy"""
)
_ALIASES = {
    "postgres": "postgresql", "mongo": "mongodb", "vscode": "vs code", "golang": "go", "feishu": "飞书", "lark": "飞书",
    "mac": "macos",
    "飞书项目": "飞书", "dingtalk": "钉钉", "wecom": "企业微信", "aliyun": "阿里云", "mariadb": "mysql",
    "k3s": "kubernetes",
}  # fmt: skip


@dataclass(slots=True)
class _Concepts:
    """Phrases of one language and their meanings, each a sort, a family and a value."""

    meanings: dict[str, list[tuple[str, str, str]]] = field(default_factory=dict)
    most: int = 1

    def add(self, phrase: str, length: int, meaning: tuple[str, str, str]) -> None:
        known = self.meanings.setdefault(phrase, [])
        if meaning not in known:
            known.append(meaning)
        self.most = max(self.most, length)


@cache
def _concepts() -> tuple[_Concepts, _Concepts]:
    """Return the English and the Chinese concepts. Read at first use."""
    english, chinese = _Concepts(), _Concepts()
    text = files(__package__).joinpath("concepts.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        for phrase, meaning in _meanings(line):
            if _HAN.search(phrase):
                chinese.add(phrase, len(phrase), meaning)
            else:
                words = [word.lower() for word in _ENGLISH_WORD.findall(phrase)]
                english.add(" ".join(words), len(words), meaning)
                chinese.add(phrase.lower(), len(phrase), meaning) if len(words) == 1 and meaning[0] == "class" else None
    return english, chinese


def _meanings(line: str) -> Iterator[tuple[str, tuple[str, str, str]]]:
    sort, _, rest = line.partition(": ")
    if sort == "class":
        family, _, values = rest.partition(": ")
        for value in map(str.strip, values.split(",")):
            yield value, ("class", family, _ALIASES.get(value, value))
    elif sort == "pole":
        family, _, groups = rest.partition(": ")
        for number, group in enumerate(groups.split("//")):
            for phrase in map(str.strip, group.split("|")):
                yield phrase, ("pole", family, f"{number}:{phrase}")
    else:
        phrases = [phrase.strip() for phrase in rest.split(",")]
        for phrase in phrases:
            head = phrases[0] if sort in {"place", "person"} else sort
            yield phrase, (sort if sort in {"place", "person"} else "thing", head, head)


@dataclass(slots=True)
class _Clause:
    """One clause and what its words mean."""

    text: str
    is_han: bool
    words: list[str] = field(default_factory=list)
    things: list[str] = field(default_factory=list)
    modifiers: set[str] = field(default_factory=set)
    persons: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    classes: list[tuple[str, str]] = field(default_factory=list)
    poles: list[tuple[str, str, bool]] = field(default_factory=list)
    is_changing: bool = False
    is_ended: bool = False
    is_denied: bool = False


def change_facts(sentences: Sequence[str], *, me: str | None) -> Iterator[Fact]:
    """Yield the loose facts of *sentences*; *me* is the speaker, None when "I" is not a known person."""
    clauses: list[_Clause] = []
    for sentence in sentences:
        if sentence.rstrip(" \"'”").endswith(("?", "？", "吗")) or _UNREAL_FROM_HERE.search(sentence):
            continue
        clauses += [_read(clause) for clause in _clauses_of(sentence) if not _UNREAL.search(clause)]
    if not clauses:
        return
    whole = " ".join(clause.text for clause in clauses)
    is_added = _ADDING.search(whole) is not None
    is_changing = not is_added and any(clause.is_changing for clause in clauses)
    for before, clause in pairwise(clauses):
        if clause.is_ended and not clause.things and not clause.names:
            before.is_ended = before.is_changing = before.is_denied = True
    owners = _owners(clauses, whole, me)
    who = _who(whole, owners)
    yield from _numbers(clauses, who, changed=is_changing)
    yield from _states(clauses, whole, owners, added=is_added)
    yield from _allergies(clauses, whole, owners)
    yield from _in_use(clauses, who, changed=is_changing, added=is_added)
    yield from _opposites(clauses, owners, who, changed=is_changing)
    yield from _names(clauses, whole, owners, changed=is_changing)
    yield from _roles(clauses, changed=is_changing)
    yield from _friends(clauses, whole)
    yield from _address(whole)
    if not is_added:
        yield from _home(clauses, whole, owners)
        yield from _job(clauses, whole, owners)


def _clauses_of(sentence: str) -> list[str]:
    text = sentence.replace("’", "'")
    return [part.strip() for part in _CLAUSE.split(text) if part and part.strip()]


def _read(text: str) -> _Clause:
    clause = _Clause(text, is_han(text))
    if clause.is_han:
        _read_chinese(clause)
    else:
        _read_english(clause)
    if not clause.is_changing and _CHANGED_TO.search(text):
        clause.is_changing = True
    clause.is_denied = clause.is_ended or _DENIED.search(text) is not None
    return clause


_CHANGED_TO = re.compile(
    r"\b(?:cut|raise|raised|lowered|moved|changed|pushed|increased|reduced|dropped|bumped"
    r"|upped|trimmed|slashed|set|put|shifted"
    r"|renamed|converted|transferred|bring|brought|drop|stretched|grew|shrank|fell|rose"
    r"|climbed|jumped|extended)\b.*\b(?:to|until|till|on|from)\b",
    re.IGNORECASE,
)


def _read_english(clause: _Clause) -> None:
    plain = f"{clause.text} "
    if "'" in plain or "annot" in plain:
        for short, written in _CONTRACTIONS:
            plain = plain.replace(short, written)
    said = _ENGLISH_WORD.findall(plain.replace("'s ", " 's "))
    words = clause.words = [word.lower() for word in said]
    concepts, _ = _concepts()
    for start in range(len(words)):
        for end in range(start + 1, min(len(words), start + 5) + 1):
            phrase = " ".join(words[start:end])
            if phrase in _ENDED and words[end : end + 1] != ["of"]:
                clause.is_ended = True
            if phrase in _CHANGING:
                clause.is_changing = True
    place = 0
    heads = _CompoundNouns(clause)
    while place < len(words):
        end, meanings = _longest(concepts, words, place)
        if meanings and not (" ".join(words[place:end]) in _AMBIGUOUS and said[place].islower()):
            heads.follow(place, end, _thing_in(meanings))
            _add(clause, meanings, before=words[max(0, place - 4) : place])
        else:
            end = place + 1
            known = len(clause.things)
            _add_english_word(clause, said[place], is_first=place == 0)
            if len(clause.things) > known:
                heads.follow(place, end, clause.things[-1])
        place = end


def _longest(concepts: _Concepts, words: Sequence[str], place: int) -> tuple[int, list[tuple[str, str, str]]]:
    """Return the end and the meanings of the longest known phrase that begins at *place*."""
    for end in range(min(len(words), place + concepts.most), place, -1):
        phrase = " ".join(words[place:end])
        meanings = concepts.meanings.get(phrase)
        if meanings is None and end == place + 1:
            meanings = concepts.meanings.get(_stem(phrase))
        if meanings:
            return end, meanings
    return place + 1, []


@dataclass(slots=True)
class _CompoundNouns:
    """The last noun before the one that is read: right before it, it is no head, as "gym" in "gym shoes"."""

    clause: _Clause
    thing: str = ""
    end: int = -1

    def follow(self, place: int, end: int, thing: str) -> None:
        if self.end == place and self.thing and self.thing not in self.clause.names:
            self.clause.modifiers.add(self.thing)
        self.thing, self.end = thing, end


def _thing_in(meanings: Iterable[tuple[str, str, str]]) -> str:
    return next((value for sort, _, value in meanings if sort in {"thing", "class", "place"}), "")


def _add_english_word(clause: _Clause, word: str, *, is_first: bool) -> None:
    lower = word.lower().removesuffix("'s")
    if lower in STOP_WORDS or lower in _GENERIC or lower in _CALENDAR or lower in _CHANGING or not word[0].isalpha():
        return
    if word[0].isupper() and word != "I" and not (is_first and lower in _VERBS):
        clause.names.append(lower)
        clause.things.append(lower)
    elif len(lower) > 3 and lower not in _VERBS and not _VERBISH.fullmatch(lower):  # noqa: PLR2004 - short words say little
        clause.things.append(_stem(lower))


_VERBS = frozenset(
    listed("""
    works lives goes takes does eats drinks loves likes hates plays speaks drives uses wants needs prefers
    runs keeps moved switched renamed answer reply replies write deploys flying bought called named decided
    settled turns thinks stays gives starts started plans planned owns dating allergic prefer enjoys enjoy
    avoid avoids thanks sorry hello please thing finished happy glad crazy mad pretty nobody somebody else
    bear stand abide pretended pretend realised realized guess knew know known much more less than with from
    into onto about over under where when then them they their there here have been being were would could
    should will shall must very quite honestly seriously basically literally properly actually probably
    mostly already almost ever back down away open close right wrong true sure okay yeah well look looks
    felt feel feels mean means seems turned kind sort type reckons grew""")
)


def _stem(word: str) -> str:
    for ending, least in (("ies", 5), ("es", 6), ("s", 4)):
        if word.endswith(ending) and len(word) >= least and not word.endswith(("ss", "us", "is")):
            return word[: -len(ending)] + ("y" if ending == "ies" else "e" if ending == "es" else "")
    return word


def _read_chinese(clause: _Clause) -> None:
    text = clause.text.lower()
    _, concepts = _concepts()
    clause.is_ended = _HAN_ENDED.search(text) is not None
    clause.is_changing = clause.is_ended or _HAN_CHANGING.search(text) is not None
    place = 0
    covered = [False] * len(text)
    while place < len(text):
        for end in range(min(len(text), place + concepts.most), place, -1):
            meanings = concepts.meanings.get(text[place:end])
            if meanings and not (text[place:end].isascii() and _is_inside_word(text, place, end)):
                _add(clause, meanings, before=text[max(0, place - 3) : place])
                covered[place:end] = [True] * (end - place)
                if text[end : end + 1] == "的" and end + 1 < len(text):
                    clause.modifiers.add(_thing_in(meanings))
                place = end
                break
        else:
            place += 1
    for run in re.finditer(r"[\u3400-\u9fff]+|[a-z][\w.+#-]*", text):
        start = run.start()
        for word in segmenter().cut(run[0]) if run[0][0] > "\u3000" else (run[0],):
            is_name = not any(covered[start : start + len(word)]) and (start == 0 or text[start - 1] in "和跟与给帮")
            if is_name and 1 < len(word) < 4 and is_han_name(word):  # noqa: PLR2004 - names have two or three characters
                clause.names.append(word)
            elif len(word) > 1 and not any(covered[start : start + len(word)]) and word not in STOP_WORDS | _GENERIC:
                clause.things.append(word)
            start += len(word)
    clause.names += [name for name in _PERSON_NAME.findall(clause.text) if name.lower() not in concepts.meanings]


def _is_inside_word(text: str, start: int, end: int) -> bool:
    return (start > 0 and text[start - 1].isascii() and text[start - 1].isalnum()) or (
        end < len(text) and text[end].isascii() and text[end].isalnum()
    )


_NEGATORS = frozenset(
    listed("""
    nobody not no stop skip forget without scrap drop never instead hate ditch than off of rid prefer""")
)
_HAN_NEGATORS = ("不", "别", "不用", "别用", "不要", "不写", "不再", "得太", "太", "退掉", "退了", "而不", "不是", "嫌")


def _add(clause: _Clause, meanings: Iterable[tuple[str, str, str]], before: Sequence[str]) -> None:
    for sort, family, value in meanings:
        if sort == "thing":
            clause.things.insert(0, value)
        elif sort == "person":
            if len(before) < 3:  # noqa: PLR2004 - "my", "Ken's": further on the person is no subject
                clause.persons.append(value)
        elif sort == "place":
            clause.places.append(value)
            clause.things.append(value)
        elif sort == "class":
            clause.classes.append((family, value))
            clause.things.append(value)
        else:
            if isinstance(before, str):
                is_denied = before.endswith(_HAN_NEGATORS)
            else:
                is_denied = not _NEGATORS.isdisjoint(before) - (before[-1:] == ["prefer"])
            clause.poles.append((family, value, is_denied))


def _owners(clauses: Sequence[_Clause], whole: str, me: str | None) -> list[str]:
    """Return who is spoken of: relatives and named persons, or else the user."""
    first = clauses[0]
    subject = [
        name.lower()
        for name in first.names
        if whole.lower().startswith(name.lower())
        and name.lower() not in COUNTRIES
        and not _CALLED_OFF.match(whole.lower()[len(name) :])
    ]
    possessive = {name for name in subject if f"{name}'s" in whole.lower() or f"{name}的" in whole}
    if first.persons:
        return list(
            dict.fromkeys(
                (
                    *first.persons,
                    *(
                        name.lower()
                        for name in first.names[:2]
                        if name.lower() not in possessive
                        and not _BEFORE_THINGS.search(whole[: whole.find(name)].rstrip())
                    ),
                )
            )
        )
    if subject:
        return list(dict.fromkeys((*subject, *(name.lower() for name in first.names[:2]))))
    if (pronoun := _PRONOUN.match(whole)) and not _I.search(whole):
        said = pronoun[0].lower()
        return ["she" if said in {"she", "her", "她"} else "he" if said in {"he", "his", "他"} else "they"]
    return [me] if me is not None else []


_ANYBODY = frozenset({USER, "she", "he", "they"})
_PRONOUN = re.compile(r"(?:he|she|his|her|they|their)\b|他们?|她们?", re.IGNORECASE)
_I = re.compile(r"\b(?:i|my|me|we|our|us|user)\b|我|咱|用户", re.IGNORECASE)


def _who(whole: str, owners: Sequence[str]) -> tuple[ValuePart, ...]:
    """Return who is spoken of, if that is said; a named person may be he or she."""
    if owners == [USER] and not _I.search(whole):
        return ()
    if not owners:
        return ()
    is_named = owners[0] not in {USER, "she", "he", "they"}
    return (ValuePart(WHO, "|".join((*owners, "she", "he") if is_named else owners)),)


def _fact(topic: str, *parts: ValuePart, changed: bool = False, positive: bool = True) -> Fact:
    said = (*parts, ValuePart(CHANGED, "yes")) if changed else parts
    return Fact(Rule.GENERAL, f"{LOOSE}{topic}", tuple(sorted(said, key=lambda part: part.sort)), positive)


def concerns_answers(fact: Fact) -> bool:
    """Return whether a loose statement says how to answer: how long, in which form, with or without emojis."""
    return fact.topic.removeprefix(LOOSE) in _OF_ANSWERS


def _things(clauses: Iterable[_Clause]) -> list[str]:
    found = dict.fromkeys(thing for clause in clauses for thing in clause.things if thing not in _GENERIC)
    return list(found)


def _about(clauses: Iterable[_Clause], besides: Iterable[str] = ()) -> tuple[ValuePart, ...]:
    left = [thing for thing in _things(clauses) if thing not in besides][:MOST_THINGS]
    return (ValuePart(ABOUT, "|".join(left)),) if left else ()


def _numbers(clauses: Sequence[_Clause], who: tuple[ValuePart, ...], *, changed: bool) -> Iterator[Fact]:
    is_changed = changed and any(
        _HAN_SURELY_CHANGING.search(clause.text) if clause.is_han else clause.is_changing for clause in clauses
    )
    everything = _things(clauses)
    for clause in clauses:
        parts = _number_parts(clause.text)
        if not parts:
            continue
        things = _things([clause])
        attributes = [thing for thing in things if thing in _ATTRIBUTES]
        if not attributes and any(part.sort == "n" and "." in part.text for part in parts):
            attributes = ["version"]
        if not attributes and is_changed and not any(part.sort in _CALENDAR_SORTS for part in parts):
            attributes = [thing for thing in everything if thing in _ATTRIBUTES]
        chosen = [*things, *everything] if is_changed else things or everything
        chosen = attributes or chosen if is_changed else [*attributes, *chosen]
        for thing in list(dict.fromkeys(chosen))[:MOST_THINGS]:
            owner = () if parts[0].sort in _CALENDAR_SORTS else who
            yield _fact(f"number of {thing}", *owner, *parts, changed=is_changed)
        if is_changed and not attributes and _RISING.search(clause.text):
            yield from (_fact(f"number of {one}", *who, *parts, changed=True) for one in ("salary", "rent", "price"))
    values = [
        match["number"]
        for clause in clauses
        for match in _NUMBER.finditer(clause.text)
        if len(match["number"]) >= _IDENTIFYING_DIGITS
    ]
    if is_changed and len(values) > 1:
        yield _fact(f"number of {values[0]}", ValuePart("n", values[-1]), changed=True)
    elif len(values) == 1 and not is_changed:
        yield _fact(f"number of {values[0]}", ValuePart("n", values[0]))


_IDENTIFYING_DIGITS = 3
_ATTRIBUTES = frozenset(
    listed("""
    salary budget price port version threshold size speed number rent""")
)
_CALENDAR_SORTS = frozenset({"date", "day", "month", "weekday", "time"})
_RISING = re.compile(r"涨|降|加到|raised|went up|up to|cut to|down to", re.IGNORECASE)
_HAN_SURELY_CHANGING = re.compile(
    r"改|换|挪|搬|迁|升到|降到|涨|调[到成了]|延[到期后]|推[迟到]|提前|宽限|现在|如今|以后"
    r"|往后|今后|从今|只好|只能|才\d|排到|放在|放到|定成|新|挤到|砍到|减到|加到|压到|提到"
    r"|缩到|扩到|这个月起|最新|被占|归|也能掏"
)


def _number_parts(text: str) -> list[ValuePart]:
    found: dict[str, str] = {}
    for part in parse_value(text):
        if part.sort in {"date", "weekday", "time", "month"}:
            found[part.sort] = part.text
            if part.sort == "date":
                found["day"] = part.text.partition("-")[2].lstrip("0")
                found["month"] = part.text.partition("-")[0]
    if "day" not in found and (day := _DAY_ONLY.search(text)):
        said = day["day"] or day["han"]
        found["day"] = said if said.isdigit() else str(_han_value(said))
    if "time" not in found and (hour := _BARE_HOUR.search(text)):
        found["time"] = f"{int(hour['hour']):02}:00"
    return [ValuePart(sort, value) for sort, value in (found or _plain_numbers(text)).items()]


def _plain_numbers(text: str) -> dict[str, str]:
    """Return the numbers that are neither dates nor times, by their units."""
    values: dict[str, str] = {}
    for match in _NUMBER.finditer(text):
        digits = match["number"].replace(",", "")
        if digits.count(".") > 1 or (match["thousand"] is None and "." in digits):
            value = digits
        else:
            scale = {"k": 1000, "万": 10_000, "千": 1000, "百": 100}.get((match["thousand"] or "").lower(), 1)
            value = f"{float(digits) * scale:g}"
        values.setdefault(_unit(match["unit"]), value)
    for match in _HAN_NUMBER.finditer(text):
        if len(match[0]) == 2 and all(one in _HAN_DIGITS for one in match[0]):  # noqa: PLR2004 - 三四 is about three
            continue
        values.setdefault("n", str(_han_value(match[0])))
    return values


def _unit(unit: str | None) -> str:
    unit = (unit or "").lower().rstrip("s")
    return f"n {unit}" if unit not in {"", "元", "块", "个", "人", "名", "people", "user"} else "n"


def _han_value(text: str) -> int:
    """Return the number that Han numerals write, also the short form: 一万二 is 12000."""
    total = section = digit = 0
    last = 1
    for character in text:
        if character in _HAN_DIGITS:
            digit = _HAN_DIGITS[character]
        elif character in _HAN_UNITS:
            last = _HAN_UNITS[character]
            section += (digit or 1) * last
            digit = 0
        elif character == "万":
            total += ((section + digit) or 1) * 10_000
            section = digit = 0
            last = 10_000
    return total + section + (digit * last // 10 if last > 10 and digit and "零" not in text else digit)  # noqa: PLR2004


def _states(clauses: Sequence[_Clause], whole: str, owners: Sequence[str], *, added: bool) -> Iterator[Fact]:
    who = _who(whole, owners)
    for clause in clauses:
        is_back = _BACK.search(clause.text) is not None and not clause.is_ended
        is_denied = clause.is_ended or _AVOIDING.search(clause.text) is not None
        names = {name.lower() for name in clause.names}
        start = clause.text.lower()
        things = [
            one
            for one in _things([clause])
            if one not in _NO_STATE
            and not (clause.is_ended and one in clause.modifiers)
            and (one not in names or f"the {one}" in start or _is_no_person(one, start))
        ]
        for thing in things[:MOST_THINGS]:
            is_changed = not added and (clause.is_ended if is_denied else is_back)
            yield _fact(f"state of {thing}", *who, ValuePart(STATE, "so"), changed=is_changed, positive=not is_denied)


def _is_no_person(name: str, text: str) -> bool:
    """Return whether a name is that of a thing: neither a subject, nor an owner, nor a friend."""
    at = text.find(name)
    before, after = text[:at].rstrip(), text[at + len(name) :]
    if _CALLED_OFF.match(after):
        return True
    return _BEFORE_THINGS.search(before) is not None and not after.startswith("'s") and not _FALLEN_OUT.search(text)


_CALLED_OFF = re.compile(
    r"(?:'s| is| was| got| has been| 's been)? (?:cancelled|canceled|off|called off|scrubbed|postponed|not happening)\b"
)
_BEFORE_THINGS = re.compile(
    r"(?:^|\s)(?:left|to|at|on|in|use|uses|using|off|quit|the|my|our|drinks?|eats?"
    r"|cancelled|sold|ditched|dropped|own|owns|drive|drives|for|by)$"
)
_NO_STATE = frozenset(
    listed("""
    manager owner landlord salary budget price port version threshold size speed number rent deadline office
    title report""")
)
"""Things that always have some value, and are never no longer so."""
_BACK = re.compile(
    r"\b(?:again|now|nowadays|these days|after all|turns out|can have|came round"
    r"|comes? round|grown to|warmed to|back on|back to|finally)\b"
    r"|现在|居然|竟然|爱上|迷上|天天|开荤|稀罕|又能|真香|反倒|反而",
    re.IGNORECASE,
)
_AVOIDING = re.compile(
    r"\b(?:do(?:es)? not|don't|doesn't|never|no longer|hates?|dislikes?|avoids?|allergic"
    r"|can(?:'t| ?not)|won't|not a fan|gave up|stopped)\b"
    r"|不(?:吃|喝|碰|抽|爱|喜欢|看|听|玩|能吃|能喝|沾|用)|讨厌|怕|过敏|忌|从不|受不了"
    r"|(?<![特区级分性差告])别(?!人)|不要|勿",
    re.IGNORECASE,
)
_ALLERGIC = re.compile(r"\b(?:allerg\w+|intoleran\w+|hay fever)\b|过敏|不耐", re.IGNORECASE)
_CURED = re.compile(
    r"\b(?:came back (?:clear|negative)|outgr\w+|grown out of|can (?:have|eat|drink|own)"
    r"|no longer (?:allergic|intolerant)|not allergic|desensiti\w+|cured|tolerates?"
    r"|is fine with|eats? .* (?:again|now|fine))\b"
    r"|脱敏|不[^,，。]{0,8}过敏|过敏好|能吃了|可以吃了|随便吃|随便逛|随便摸|没事了|不起疹子",
    re.IGNORECASE,
)


def _allergies(clauses: Sequence[_Clause], whole: str, owners: Sequence[str]) -> Iterator[Fact]:
    is_cured = _CURED.search(whole) is not None
    if not (is_cured or _ALLERGIC.search(whole)):
        return
    for topic in (*(f"allergy to {thing}" for thing in _things(clauses)[:3]), *(f"allergy of {one}" for one in owners)):
        about = _about(clauses) if topic.startswith("allergy of") and not _DESENSITISED.search(whole) else ()
        yield _fact(topic, *about, ValuePart(STATE, "so"), changed=is_cured, positive=not is_cured)


_DESENSITISED = re.compile(r"desensiti|脱敏|no longer allergic|not allergic|不过敏", re.IGNORECASE)


def _in_use(clauses: Sequence[_Clause], who: tuple[ValuePart, ...], *, changed: bool, added: bool) -> Iterator[Fact]:
    used: dict[str, list[str]] = {}
    for clause in clauses:
        for family, value in clause.classes:
            if not clause.is_ended or re.search(r"\b(?:to|now|it's)\b|改|换|迁", clause.text):
                used.setdefault(family, []).append(value)
    for family, values in used.items():
        about = _about(clauses, values) if family in _SHARED_CLASSES and not added else ()
        yield _fact(f"{family} in use", *who, *about, ValuePart("value", "|".join(values)), changed=changed)


_SHARED_CLASSES = frozenset(
    listed("""
    language database os frontend backend cloud container tracker""")
)
"""Classes of which several may be in use, for different things."""


def _opposites(
    clauses: Sequence[_Clause], owners: Sequence[str], who: tuple[ValuePart, ...], *, changed: bool
) -> Iterator[Fact]:
    found: dict[str, tuple[str, bool]] = {}
    for clause in clauses:
        is_dated = any(character.isdigit() for character in clause.text) or "号" in clause.text
        for family, pole, is_denied in clause.poles:
            if family == "time of day" and (is_dated or not _WHEN_BEST.search(clause.text)):
                continue
            if (
                family == "person marital"
                and clause.is_han
                and not _IN_A_RELATION.search(clause.text)
                and not (clause.names or clause.persons)
            ):
                continue
            if family not in found or not is_denied:
                found[family] = (pole, not is_denied)
    for family, (pole, positive) in found.items():
        if family.startswith("person "):
            for owner in owners:
                topic = f"{family.removeprefix('person ')} of {owner}"
                yield _fact(topic, ValuePart(POLE, pole), changed=True, positive=positive)
        else:
            is_bidden = changed or _BIDDEN.search(" ".join(clause.text for clause in clauses)) is not None
            scopes = sorted(_SCOPES.intersection(_things(clauses))) if family in _SCOPED_FAMILIES else []
            about = (ValuePart(ABOUT, "|".join(scopes) or "answers"),) if family in _SCOPED_FAMILIES else ()
            yield _fact(
                family,
                *(() if family in _SCOPED_FAMILIES or family in _OF_ANSWERS else who),
                *about,
                ValuePart(POLE, pole),
                changed=is_bidden,
                positive=positive,
            )


_SCOPES = frozenset(
    listed("""
    report email paper book code config docs summary customer notebook yaml json sql go python java
    javascript typescript rust c++ kotlin php ruby commit slide plot invoice readme""")
)
_OF_ANSWERS = frozenset({"code comments", "emoji", "layout", "length", "reasoning", "tone"})
"""Opposites that say how to answer. They are the same for all persons that are spoken of."""
_SCOPED_FAMILIES = frozenset(
    phrases("""
    indentation, layout, units, tone, length, reasoning, channel, time of day""")
)
"""Opposites of which one holds for one thing and the other for another, such as tabs and spaces."""
_WHEN_BEST = re.compile(
    r"\b(?:person|owl|bird|brain|peaks?|work|deep|hard|focus|best|schedule|prefer"
    r"|productive|admin|emails?)\b|工作|效率|干活|写|猫子|型|安排|适合|专注",
    re.IGNORECASE,
)
_IN_A_RELATION = re.compile(r"我|俩|那段|对象|恋|男|女|婚|单身|光棍|领证|手续|前[夫妻]|喜酒")
_BIDDEN = re.compile(
    r"\b(?:please|only|just|for me)\b|^(?:use|write|reply|answer|keep|give|talk|skip|stop)\b|别|给我|请|还是.*吧",
    re.IGNORECASE,
)


_ADDRESSED = re.compile(
    r"\b(?:[Cc]all|[Aa]ddress) me (?:as )?(?P<name>[A-Z]\w+(?: [A-Z]\w+)*)|(?<!别)(?:叫"
    r"|称呼)我(?P<han>[^,，。就行吧好]{1,6})"
)


def _address(whole: str) -> Iterator[Fact]:
    said = [match["name"] or match["han"] for match in _ADDRESSED.finditer(whole)]
    if said:
        yield _fact("form of address", ValuePart("value", said[-1].lower()), changed=True)


def _names(clauses: Sequence[_Clause], whole: str, owners: Sequence[str], *, changed: bool) -> Iterator[Fact]:
    if not _NAME_CUE.search(whole) and not changed:
        return
    quoted = _QUOTED.findall(whole)
    said = [match["name"] or match["han"] for match in _NAMED.finditer(whole)]
    value = (quoted or said or [""])[-1].lower()
    if not value:
        return
    if len(set(said)) > 1 and not quoted and not changed:
        return
    is_named = _NAME_CUE.search(whole) is not None
    names = {name.lower() for clause in clauses for name in clause.names}
    for thing in [one for one in _things(clauses) if one not in names][:MOST_THINGS]:
        if thing not in value and value not in thing:
            yield _fact(f"name of {thing}", *_who(whole, owners), ValuePart("value", value), changed=is_named)


def _roles(clauses: Sequence[_Clause], *, changed: bool) -> Iterator[Fact]:
    everyone = list(dict.fromkeys(name.lower() for clause in clauses for name in clause.names))
    for clause in clauses:
        names = list(dict.fromkeys(name.lower() for name in clause.names)) or everyone
        for role in [thing for thing in clause.things if thing in _ROLES] if names else ():
            yield _fact(f"person of {role}", ValuePart("value", "|".join(names)), changed=changed)


def _friends(clauses: Sequence[_Clause], whole: str) -> Iterator[Fact]:
    is_out = _FALLEN_OUT.search(whole) is not None
    is_related = _HAN_RELATED.search(whole) is not None or any(
        not _RELATED.isdisjoint(clause.words) or "friend" in clause.persons or "boyfriend" in clause.persons
        for clause in clauses
    )
    if not (is_out or is_related):
        return
    names = list(dict.fromkeys(name.lower() for clause in clauses for name in clause.names))
    names = names[1:] if len(names) > 1 and whole.lower().startswith(names[0]) and not _JOINT.search(whole) else names
    if is_out:
        said = _REASON.split(whole)[0].lower()
        names = [name for name in names if name in said]
    for name in names:
        yield _fact(f"relation to {name}", ValuePart(STATE, "so"), changed=is_out, positive=not is_out)


_JOINT = re.compile(r"^\w+ and (?:i|me)\b", re.IGNORECASE)
_REASON = re.compile(r"\s(?:after|because|over|what|since|when)\s|[.;。；]|因为|为了?块?")


def _home(clauses: Sequence[_Clause], whole: str, owners: Sequence[str]) -> Iterator[Fact]:
    if not _LIVING.search(whole) or (list(owners) == [USER] and _THING_MOVED.search(whole)):
        return
    is_moved = _MOVING.search(whole) is not None
    places = [place for clause in clauses for place in clause.places] or [
        name.lower() for clause in clauses for name in clause.names if name.lower() not in owners
    ]
    places += [match[1] or match[2] for match in _HAN_PLACE.finditer(whole)]
    value = "|".join(dict.fromkeys(places)) or ("unnamed" if _DWELLING.search(whole) else "")
    if value or is_moved:
        for owner in owners:
            yield _fact(f"home of {owner}", ValuePart("value", value or "elsewhere"), changed=is_moved)


_THING_MOVED = re.compile(
    r"^(?:(?:the|our|my|this|that)\s+)(?:[\w'-]+\s+){1,4}?(?:(?:was|is|got|has been|have been)\s+)?mov(?:ed|es|ing)\b"
    r"|^(?![我咱俺他她上下这今昨前去刚终总已现又])[^，,。!！我咱俺他她]{1,8}?(?:搬|挪|移|改)到",
    re.IGNORECASE,
)
"""An appointment or an object is moved, and no home changes."""
_DWELLING = re.compile(r"\b(?:i|we|they|he|she) (?:still )?(?:live|rent)s? |住|挤|室一厅")
_HAN_PLACE = re.compile(
    r"(?:住|租住|搬|定居|安家|换)(?:在|到|进|去"
    r"|回)?了?([\u4e00-\u9fff]{2,4}?)(?=[^\u4e00-\u9fff]|[了的一来住租]|$)"
    r"|在([\u4e00-\u9fff]{2,5})(?:租|住|定居)"
)


_LEAVING = re.compile(
    r"\b(?:handed|notice|packed|jacked|chucked|quit|resigned|left|redundant|laid off"
    r"|fired|retired|not flying|got (?:bought|acquired))\b"
    r"|离职|辞|转行|改行|单干|不干|不飞|不坐|出来",
    re.IGNORECASE,
)


def _job(clauses: Sequence[_Clause], whole: str, owners: Sequence[str]) -> Iterator[Fact]:
    is_new = _JOB_CHANGE.search(whole) is not None
    if not is_new and not _EMPLOYING.search(whole):
        return
    taken = set(owners)
    value = "|".join([thing for thing in _things(clauses) if thing not in taken][:MOST_THINGS])
    if is_new and (not value or _LEAVING.search(whole)):
        value = "elsewhere"
    if value:
        for owner in owners:
            yield _fact(f"work of {owner}", ValuePart("value", value), changed=is_new)
