"""The words by which a sentence is seen to remind of something, and those by which it is seen not to."""

from __future__ import annotations

import re

CUES = (
    "birthday", "bday", "b-day", "anniversar", "remind", "forget", "remember", "deadline", "due", "appointment", "exam",
    "interview", "flight", "checkup", "check-up", "surgery", "alarm", "expir", "meeting", "presentation", "must",
    "have to", "has to", "need to", "needs to", "every ", "each year", "annual", "yearly",
)  # fmt: skip
HAN_CUES = (
    "生日", "纪念日", "提醒", "记得", "别忘", "不要忘", "让我忘", "截止", "到期", "预约", "约了", "考试", "面试",
    "航班", "体检", "手术", "开会", "会议", "复诊", "答辩", "交", "完成", "要在", "每年",
)  # fmt: skip
"""A sentence that has none of them needs no closer look. Looking for each by itself is ten times as quick as an
expression for all."""
DATE_CUE = re.compile(r"[0-9]|day|tomorrow|tonight|this |week|month|[日号天周期拜晚早]")


def _any(*alternatives: str) -> re.Pattern[str]:
    return re.compile("|".join(alternatives), re.IGNORECASE)


def _words(text: str) -> str:
    """Return an expression for one of the words that white space parts."""
    return "|".join(text.split())


NEVER = _any(
    r"\b(?:if|whether|suppose|unless|daily|weekly|monthly|lunar|cancell?ed|called off|postponed|thought|used to)\b",
    r"\b(?:pretend\w*|maybe|perhaps|might|not|isn['’]t|no longer|never)\b",
    r"\bevery (?:day|week|month|morning|evening|\w+day)\b|\beach (?:day|week|month)\b",
    r"\bremind (?:me|us) (?:of|what|who|how|why|where|when|which|whether)\b",
    r"农历|阴历|旧历|正月|腊月|每天|每日|每个?(?:周|星期|礼拜|月)|如果|要是|假如|万一|取消(?=[了。！，,]|\Z)|推迟|改期|没人|谁也没",
    r"以为|可能|也许|不是|不用|没有",
)
"""Supposed, denied, called off, or of a rhythm that is not reckoned."""
_NO = r"\b(?:\w+n['’]t|dont|neednt|cannot|never|not|no need|stop)\b(?!\s+you\b(?!\s+dare))"
_UP_TO = r"(?:(?!\b(?:forget|fail|hesitate|mind|remember|miss|so|but)\b)[^,.;:!?–—]){0,60}?"
_HAN_NO = (
    r"(?:(?<![特分个区告级性类差识离送辨])别(?![人的处])|不要(?!紧)|不用|不必|不需|不须|[无毋][需须]|没有?必要|用不着|犯不着|勿|甭"
    r"|不许|不准|停止|不再|不(?:想|希望|愿意?)(?=[让要你您被再])|不会?(?=提醒))"
)
_HAN_UP_TO = r"(?:(?!忘|提醒)(?:[^，。,；;！!？?、：:]|[：:](?=[0-9]))){0,30}"
REFUSED = _any(
    rf"{_NO}{_UP_TO}\b(?:remind(?:ing)?\b|(?:set|need|want|send|give)\b[^,.;:!?]{{0,20}}\b(?:reminder|alarm)s?\b)",
    r"\b(?:no|without) (?:\w+ )?(?:reminder|alarm)s?\b",
    rf"{_HAN_NO}{_HAN_UP_TO}提醒",
)
"""Not to be reminded of, in one breath; but "don't forget to remind me" and 别忘了提醒我 ask for it."""
_FORGET = r"\b(?:do not|don['’]?t) (?:let me |let us )?forget\b"
ALLOWED_NOT = _any(
    _FORGET,
    r"(?P<to>\bremind (?:me|us)\b[^,.;:!?]{0,60}?)\b(?:not to|never to|to not|to never)\b",
)
"""Refuses nothing: what is not to be forgotten, and what one is to be reminded not to do, behind the group *to*."""
QUESTION = _any(r"[?？]|[吗呢么]\s*[。！]?\s*\Z|几月|哪天|什么时候|\b(?:when|what|which)\b")
REQUEST = _any(r"\b(?:can|could|would|will) you (?:please |kindly )?(?:remind|set)\b|(?:能|可以|能不能).{0,12}提醒")
"""A question that is none."""

_IRREGULAR = _words(
    "went came saw ate gave got took made met held spent threw bought brought told said thought found left lost paid"
    " sent won wrote felt forgot kept knew ran sat slept spoke stood taught wore began became broke built chose drove"
    " fell flew"
)
_NO_PAST = _words(
    "need indeed feed speed seed scheduled planned booked supposed required expected invited wed red med bed shed"
)
PAST = _any(
    r"\b(?:was|were|had|did|ago|yesterday|back in)\b|\blast (?:week|month|year|night|\w+day)\b",
    rf"\b(?!(?:{_NO_PAST})\b)\w{{2,}}ed\b|(?<![’\']ve )(?<!\bhave )\b(?:{_IRREGULAR})\b",
    r"昨天|前天|上周|上个?(?:月|星期|礼拜)|去年|前年|以前|当时|那天|那年|曾|[见去来吃看做谈说聊]过|过了?(?=[。，,！!\s]|\Z)|刚刚|刚才",
)
HAN_DONE = re.compile(r"(?<!忘)(?<![约订定排买])(?<![约订定排买]好)了(?!解)")
"""What is done, but for what was booked for later; 别忘了 is no past."""

_FEAST = "(?:birthday|b-?day|anniversary)"
YEARLY_BEFORE = _any(
    rf"{_FEAST}(?:\s+(?:is|falls|comes)(?:\s+up)?(?:\s+(?:always|coming up))?(?:\s+on)?|\s*[:=]|\s+on|\s*,)"
    r"\s*(?:the\s+)?\Z",
    r"(?:生日|纪念日)(?:是|在|为|就是|：|:|，|,|\s)*(?:每年的?)?\s*\Z",
)
"""Before a day: it is a birthday or an anniversary."""
PLAINLY = _any(r"(?:\bis|falls|comes|是|[:=：])\s*(?:up\s*)?(?:on\s*)?(?:the\s*)?(?:每年的?)?\s*\Z")
"""Before a day: a reminder, whatever the rest of the sentence."""
YEARLY_AFTER = re.compile(
    r"\A(?:st|nd|rd|th)?\s*(?:,|is|it's|it is|marks|:|-|–)?\s*(?:it's\s+|it is\s+)?"
    r"(?:our|my|his|her|their|the|[\w.]+['’]s)"
    rf"(?:\s+\w+(?:['’]s)?){{0,3}}\s+{_FEAST}\b",
    re.IGNORECASE,
)
HAN_YEARLY_AFTER = re.compile(
    r"\A\s*(?:(?:就?是|为)[^，。,；]{0,14}(?:生日|纪念日)|[^的，。,；]{0,6}生日(?=[\s，。！,!]|\Z))"
)
EVERY_YEAR = _any(r"\b(?:every|each) year\b|\b(?:yearly|annually)\b|每年")
EVERY = _any(r"\b(?:every|each)\s+\Z")
"""Before a day: it is that of every year."""

ASKED = _any(
    r"(?P<remind>(?<![a-z])remind (?:me|us)\b)",
    r"\bset (?:up )?(?:a|an) (?:reminder|alarm)\b|(?:\A|[.!;]\s*)reminder\b",
    r"(?:\A|[,.;:!]\s*|\bplease )(?:please )?(?:remember to|(?:don['’]?t|do not) (?:let me |let us )?forget)\b",
    r"(?P<han_remind>提醒(?:一下)?(?:我|咱|大家)|(?<=[，,。！\s])提醒|\A提醒)",
    r"(?P<han_remember>(?:千万)?(?:记得|(?:别|不要)(?:让我)?忘了?记?))",
)
OTHERS_REMIND = _any(
    r"(?:\b(?:he|she|they|it|who|we|will|would|did|does|do|should|must|shall|always)|(?<!you )\bto|['’]ll)\s+\Z"
)
HAN_OTHERS = re.compile(r"[他她它们谁妈爸师板姐哥](?:又|会|就|要|来|常|总是?)?\s*\Z|我(?:还|都|只|就)?\Z")
"""Before the request: another person reminds, or remembers."""

STRONG = _any(
    r"\b(?:deadline|appointment|exam|interview|flight|check-?up|surgery|expir(?:es|y|ation))\b",
    r"\bdue (?:on|by|date|before)?|截止|到期|预约|约了|考试|面试|航班|体检|手术|复诊|答辩|DDL",
)
WEAK = _any(
    r"\b(?:have|has|there's|there is|we're having|scheduled|will be|'ve got)\b.{0,40}\b(?:meeting|presentation)\b",
    r"\b(?:meeting|presentation)\b.{0,20}\b(?:is|scheduled|will be)\b|开会|会议",
    r"前(?:必须|要|得|需要?|务必).{0,12}(?:交|提交|完成|还)|(?:必须|要|得|需要?)在.{0,16}前.{0,8}(?:交|提交|完成|还)",
)
"""A deadline, an appointment."""
MUST = _any(r"\b(?:must|have to|has to|need to|needs to)\b.{0,60}\b(?:by|before|until|no later than)\s+\Z")
OF_ANOTHER = re.compile(r"\A\s*的(?!.{0,6}(?:考试|面试|航班|体检|手术|复诊|答辩|会议|截止|预约))")
DATED = _any(r"\b(?:of|from|dated|since)\s+\Z")
"""3月5日的邮件, the mail of March 5: the day is that of something else."""
NOTES = _any(r"\b(?:notes|minutes|summary|results?|recap|recording) (?:of|from|for|on)\b|纪要|记录|结果|总结")
