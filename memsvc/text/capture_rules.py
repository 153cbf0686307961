"""Rules that decide what to remember of a statement, in Chinese and English.

First what states nothing is put aside: code, small talk, questions, requests for something now. Then the first reason
to remember that fits decides, the surest first. Where the memory belongs follows from the reason and from signs of a
project: preferences, personal facts and general technical knowledge hold everywhere; decisions and whatever speaks of
the project's files belong to the project; so does what cannot be decided.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import lru_cache
from itertools import islice, product

from memsvc.domain import limits
from memsvc.domain.capture import CaptureReason, CaptureVerdict
from memsvc.domain.memory import Kind, Layer, Recurrence
from memsvc.domain.sessions import Role
from memsvc.text import capture_cues as cues
from memsvc.text.analysis import is_han, simplified_form
from memsvc.text.facts.english_lexicon import phrases
from memsvc.text.facts.english_lexicon import words as listed
from memsvc.text.recalled_text import without_quotations
from memsvc.text.reminder_dates import named_days
from memsvc.text.reminder_extraction import names_event, names_own_deadline, names_visit, reminder_in, schedule_change
from memsvc.text.statement_split import statements, without_secrecy

LEAST_CHARS = 2
_LEAST_AHEAD, _LEAST_AHEAD_OF_VISIT, _MOST_AHEAD = timedelta(days=2), timedelta(days=1), timedelta(days=366)
CUE_CHARS = 2_000
"""As much of a statement is looked at; what it is about is said at its beginning."""
TITLE_CHARS = 60
_QUOTE_CHARS = 60
_SIGNS = re.compile(r"[,.!?;:，。！？；：、~～\n]+")
_COURTESY_CHARS = 40
_FORGET_CHARS = 200
"""A longer message is no mere request to forget something."""
_CLAUSE = re.compile(r"[,，;；]\s*|\s+(?:but|so)\s+")
_ASIDE = re.compile(
    r"(?<!\d)[,:]\s*|[，；;：]\s*|(?<=[?？])\s*|\s+[-–—]+\s+|——"
    r"|\s+(?:but|so|and|since|because|cos|cause|seeing as)\s+|所以|因为|不过|但是?",
    re.IGNORECASE,
)
"""Between a question or request and what is said beside it."""
_LEAST_WORDS_STATED, _LEAST_HAN_STATED = 3, 4
_LEAD = re.compile(
    r"^(?:please |pls |and |so |ok(?:ay)?,? |also,? |honestly,? |well,? )*"
    r"(?:(?:remember|note|keep in mind|bear in mind|for the record|fyi|don'?t forget)(?: that)?[,:]?\s+"
    r"|todo:?\s*|decision:\s*)"
    r"|^(?:请|麻烦|帮我|你要?)*(?:记住|记一下|记得|记下|备注一下|备注|注意|待办)[，,:：]?\s*",
    re.IGNORECASE,
)
_WIDE = {code + 0xFEE0: code for code in range(ord("0"), ord("z") + 1) if chr(code).isalnum()} | {0x3000: " "}
"""Letters and digits as wide as a Han character, which are the same; signs keep their width."""
_SPACES = re.compile(r"\s+")
_POLITE_END = re.compile(r"(?:,? please)?(?:吗|吧|呢|好吗|可以吗)?\s*[?？]+\s*$|(?:好|可以)?吗\s*$", re.IGNORECASE)
_NOT_DOING = re.compile(r"^not (?=\w+ing\b)", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[。！？!?；;\n]|\.(?=\s|$)")
_FIRST_PERSON = re.compile(r"\b(?:i|we|my|our|us)\b|我|咱", re.IGNORECASE)
_ME = re.compile(r"\bme\b(?! (?:an?|the|some|five|\d))", re.IGNORECASE)
_MOOD_OF_TODAY = re.compile(
    r"\b(?:an? (?:bit|little)|so|really|pretty|super|kind ?of|kinda|feeling"
    r"|too)\b.*\b(?:today|tonight|right now|this (?:morning|afternoon|evening))\W*$",
    re.IGNORECASE,
)
_SINGULAR = re.compile(r"\b(?:me|my|i)\b|我", re.IGNORECASE)
_BIDDING = re.compile(
    r"(?:please\s+|always|never|from now on|don'?t|do not|when|every|whenever|before|after|use|write|keep|add|run|make"
    r"|put|format|name|include|in the future|going forward|must)\b"
    r"|.*(?:务必|一定|永远|一律|以后|今后|每次|禁止|必须|不得|不要|绝不|都要|都得|而不|不要?用|别用|代替)",
    re.IGNORECASE,
)
_WORD = re.compile(r"[A-Za-z0-9]|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")


_Reason = tuple[CaptureReason | None, re.Match[str] | None]


@dataclass(frozen=True, slots=True)
class _CaptureForm:
    """Fields of a memory that a capture reason implies."""

    kind: Kind
    layer: Layer
    category: str
    importance: int


_FORMS: Mapping[CaptureReason, _CaptureForm] = {
    CaptureReason.RULE: _CaptureForm(Kind.PREFERENCE, Layer.CORE, "rule", 5),
    CaptureReason.PREFERENCE: _CaptureForm(Kind.PREFERENCE, Layer.CORE, "preference", 4),
    CaptureReason.PERSONAL_FACT: _CaptureForm(Kind.FACT, Layer.LONG_TERM, "personal", 4),
    CaptureReason.DECISION: _CaptureForm(Kind.DECISION, Layer.LONG_TERM, "decision", 4),
    CaptureReason.TASK: _CaptureForm(Kind.TASK, Layer.SHORT_TERM, "task", 3),
    CaptureReason.PROJECT_FACT: _CaptureForm(Kind.FACT, Layer.LONG_TERM, "project", 3),
    CaptureReason.KNOWLEDGE: _CaptureForm(Kind.KNOWLEDGE, Layer.LONG_TERM, "knowledge", 3),
    CaptureReason.EXPERIENCE: _CaptureForm(Kind.EXPERIENCE, Layer.LONG_TERM, "experience", 3),
    CaptureReason.OPINION: _CaptureForm(Kind.OPINION, Layer.LONG_TERM, "opinion", 2),
    CaptureReason.FACT: _CaptureForm(Kind.FACT, Layer.LONG_TERM, "fact", 2),
    CaptureReason.ASKED: _CaptureForm(Kind.FACT, Layer.LONG_TERM, "fact", 4),
}


_QUOTED = CaptureVerdict.ignore(CaptureReason.QUOTED, "It is quoted, or pasted to be worked on.")


def judge(text: str, role: Role = Role.USER, *, is_code: bool = False, is_quoted: bool = False) -> CaptureVerdict:
    """Return what to do with one statement. The same statement always gets the same verdict.

    *is_quoted* says that it is part of a quotation, or of material to be worked on.
    """
    shown = _plain(text)
    if role in {Role.SYSTEM, Role.TOOL}:
        return CaptureVerdict.ignore(CaptureReason.ROLE, f"What the {role.value.lower()} says is not remembered.")
    if is_code or cues.CODE.search(shown):
        return CaptureVerdict.ignore(CaptureReason.CODE, "It is code, a log or data.")
    if role is Role.ASSISTANT:
        return _of_agent(shown)
    if is_quoted:
        return _QUOTED
    return _with_title(_of_material(shown) or _of_user(without_secrecy(shown)), text)


def judge_day_ahead(text: str, moment: datetime) -> CaptureVerdict | None:
    """Return what to do with a statement of a user, said at *moment*, in which `judge` finds nothing but a day to come.

    None: it names no day to be reminded of from the day after tomorrow on, within a year, or hands over text. A day of
    the week alone counts with a time or an event: "exam on Friday", but not "Mondays!". More than two days are a list.
    Tradespeople and deliveries may come tomorrow. A reminder that is asked for counts in any case.
    """
    shown = without_secrecy(_plain(text))
    reminder = None if _of_material(shown) else reminder_in(shown, moment)
    if reminder is None:
        return None
    is_visit, is_asked = names_visit(shown), bool(_reminder_bidden(shown)) or _is_reminder_once(shown)
    if reminder.recurrence is Recurrence.NONE:
        due = date(reminder.year, reminder.month, reminder.day)
        least = timedelta(0) if is_asked else _LEAST_AHEAD_OF_VISIT if is_visit else _LEAST_AHEAD
        if not least <= due - moment.date() <= _MOST_AHEAD:
            return None
    days = named_days(shown, moment.date())
    if not days or len(days) > 2:  # noqa: PLR2004 - a list of days is material; a period has two
        return None
    is_due = names_own_deadline(shown)
    is_timed = reminder.minute is not None or is_visit or is_due or names_event(shown)
    if all(day.is_weekday for day in days) and not (is_timed or is_asked):
        return None
    is_personal = reminder.recurrence is Recurrence.YEARLY or is_visit or cues.PERSONAL_LIFE.search(shown)
    reason = CaptureReason.PERSONAL_FACT if is_personal else CaptureReason.FACT
    verdict = _verdict(CaptureReason.TASK if is_due or is_asked else reason, shown, None)
    verdict = replace(verdict, detail=f"It names a day to come: '{shown[days[0].start : days[0].end]}'.")
    return _with_title(verdict, text)


def verdict_of_reading(text: str, chance: float) -> CaptureVerdict:
    """Return the verdict on a statement of which the rules know nothing and that lasts with this probability."""
    shown = _plain(text)
    is_chinese = _is_chinese(shown)
    is_own = _HAN_OWN.search(shown) if is_chinese else not _OWN.isdisjoint(cues.plain_words(shown))
    is_personal = is_own or cues.PERSONAL_LIFE.search(shown)
    verdict = _verdict(CaptureReason.PERSONAL_FACT if is_personal else CaptureReason.FACT, shown, None)
    verdict = replace(verdict, detail=f"It reads like something that lasts (probability {chance:.2f}).")
    return _with_title(verdict, text)


def stated_part(text: str) -> str:
    """Return the clauses of a question or request of a user that say something of their life without asking.

    "Halal, and there's five of us at home, so what can I cook?" says two things. Empty: there are none.
    """
    part = stated_clauses(text)
    is_own = _HAN_OWN.search(part) if _is_chinese(part) else not _OWN.isdisjoint(cues.plain_words(part))
    return part if is_own or cues.PERSONAL_LIFE.search(part) else ""


def stated_clauses(text: str) -> str:
    """Return the clauses of a question or request that neither ask nor request, whomever they are about."""
    shown = _plain(text)
    stated = [clause for clause in _ASIDE.split(shown) if clause and _is_stated(clause)]
    return ("，" if _is_chinese(shown) else ", ").join(stated)


def _is_stated(clause: str) -> bool:
    least = _LEAST_HAN_STATED if _is_chinese(clause) else _LEAST_WORDS_STATED
    if len(clause if _is_chinese(clause) else clause.split()) < least or clause.rstrip().endswith(("?", "？")):
        return False
    return not (cues.QUESTION.search(clause) or cues.COMMAND.search(clause))


def _plain(text: str) -> str:
    """Return the beginning of a text in the characters of the rules: none of double width, Chinese simplified."""
    return simplified_form(text.strip()[:CUE_CHARS].translate(_WIDE))


def _with_title(verdict: CaptureVerdict, text: str) -> CaptureVerdict:
    """Return a verdict with the title in the characters of *text*."""
    if not verdict.title or text.isascii():
        return verdict
    written = text.strip()[:CUE_CHARS].translate(_WIDE)
    place = simplified_form(written).find(verdict.title.rstrip("…"))
    return verdict if place < 0 else replace(verdict, title=written[place : place + len(verdict.title)])


def _of_user(text: str) -> CaptureVerdict:
    """Judge a statement of a user. Cues within quotations do not count."""
    verdict = _in_own_words(text)
    own = without_quotations(text)
    if own == text or not verdict.remember or verdict.reason is CaptureReason.FACT:
        return verdict
    bare = _in_own_words(own)
    if not bare.remember or bare.reason is CaptureReason.FACT:
        return _QUOTED
    return replace(bare, title=verdict.title)


def _in_own_words(text: str) -> CaptureVerdict:
    text = bid_in(text)
    revoked = _revocation(text)
    if revoked is not None:
        return _of_this_text(text) or _verdict(CaptureReason.RULE, text, revoked)
    return (
        _judge_ignored(text)
        or _judge_remembered(text)
        or CaptureVerdict.ignore(CaptureReason.NOTHING, "It states nothing that lasts.")
    )


def _revocation(text: str) -> re.Match[str] | None:
    """Return the words that revoke an instruction on the manner of answers, or None."""
    if cues.QUESTION.search(text) and text.rstrip().endswith(("?", "？", "吗")):
        return None
    found = cues.REVOKED["en"].search(" ".join(cues.plain_words(text)))
    return found or (None if text.isascii() else cues.REVOKED["zh"].search(_SPACES.sub("", text)))


def bid_in(text: str) -> str:
    """Return what a question bids to be done later, or the text: "Could you please always …?" asks nothing."""
    wanted = _reminder_bidden(text)
    if wanted:
        return wanted
    polite = cues.LASTING_BID.search(text)
    if polite is None:
        return text
    adverb = re.search(r"\b(?:always|never|from now on)\b", polite[0], re.IGNORECASE)
    bid = (polite["kept"] or "") + text[adverb.start() if adverb else polite.end() :]
    return _POLITE_END.sub("", _NOT_DOING.sub("stop ", bid))


def _reminder_bidden(text: str) -> str:
    """Return the reminder that a question politely asks for; empty for others, such as those about what was said."""
    polite = cues.REMINDER_BID.search(text)
    if polite is None or cues.RECALL.search(text):
        return ""
    when = _CHINESE_DAY.match(text[: polite.end()])
    rest = _ASKING_END.sub("", text[polite.end() :])
    wanted = (when["day"] if when else "") + _REMINDING.sub("remind me ", rest, count=1)
    is_named = _REMINDED_OF.search(wanted) or _DATE.search(wanted) or _CHINESE_REMINDED_OF.search(wanted)
    return wanted if is_named else ""


_ASKING_END = re.compile(r"(?:,? please)?(?:好吗|可以吗|行吗|吗|吧|呢|么)?\s*[?？。.!！]*\s*$", re.IGNORECASE)
_REMINDING = re.compile(
    r"^(?:please )?(?:remind(?:ing)? (?:me|us)\b\s*|(?=(?:an? |another )?reminders?\b))", re.IGNORECASE
)
_REMINDED_OF = re.compile(
    r"\bto (?!(?:me|us|my|our|the)\b)\w{2,}|\b(?:at|in|before|after|when|every|by) \w+", re.IGNORECASE
)
_CHINESE_DAY = re.compile(
    r"^(?:请问|那|对了|嗨|哎|你好|麻烦(?:你|您)?|可以的话)?[，,\s]*[你您]?(?P<day>[^，,。？?吗]{1,12}?)(?=能|可|是否|方便)"
)
_CHINESE_REMINDED_OF = re.compile(
    r"提醒(?:一下)?(?:我|咱)们?(?:一下|下)?[^，。？?]{2,}|^[^，。？?]{2,}提醒(?:一下)?(?:我|咱)"
)


def _of_material(text: str) -> CaptureVerdict | None:
    """Return the verdict on what hands over text to be worked on, be it in itself or after it; None for the rest.

    Likewise on what announces a role-play, in which nothing is said of the user.
    """
    if cues.ROLE_PLAY.search(text) and not cues.ROLE_PLAY_END.search(text):
        return _QUOTED
    cue = cues.MATERIAL.search(text)
    if cue is None:
        return None
    return _QUOTED if text[cue.end() :].strip() else _nothing_stated(CaptureReason.COMMAND, cue)


def title_of(text: str) -> str:
    """Return a heading for a statement: its first sentence without the words that introduce it, cut at a word."""
    first = _first_sentence(text, keep_lead=False, keep_end=False)
    if len(first) <= TITLE_CHARS:
        return first
    cut = first[:TITLE_CHARS]
    head, space, _ = cut.rpartition(" ")
    return f"{head if space and len(head) > TITLE_CHARS // 2 else cut}…"


def title_after(title: str, before: str, content: str) -> str | None:
    """Return the title of a new *content* if *title* was made of the one *before*, in the same way; otherwise None.

    It was made of it if it is `title_of` it, or its whole first sentence, with or without the end mark and the words
    that introduce it.
    """
    if not title or title == title_of(before):
        return title_of(content) if title else None
    for keep_lead, keep_end in product((False, True), repeat=2):
        if title == _first_sentence(before, keep_lead=keep_lead, keep_end=keep_end):
            following = _first_sentence(content, keep_lead=keep_lead, keep_end=keep_end)
            return following if len(following) <= limits.TITLE else title_of(content)
    return None


def _first_sentence(text: str, *, keep_lead: bool, keep_end: bool) -> str:
    flat = " ".join(text.split())
    bare = flat if keep_lead else _LEAD.sub("", flat) or flat
    end = _SENTENCE_END.search(bare, 1)
    first = bare if end is None else bare[: end.end() if keep_end else end.start()]
    return first.strip(" ,，:：-*#>")


def _of_agent(text: str) -> CaptureVerdict:
    """Judge what an agent says: its deeds and decisions count, what it says about the user is an echo."""
    text = without_quotations(text)
    is_asking = cues.QUESTION.search(text) is not None
    if not is_asking and not cues.ECHO.search(text):
        if cue := cues.DECISION.search(text):
            return _verdict(CaptureReason.DECISION, text, cue)
        if (cue := cues.DONE_BY_AGENT.search(text)) and not cues.WORDING.search(text):
            return _verdict(CaptureReason.EXPERIENCE, text, cue)
    return CaptureVerdict.ignore(
        CaptureReason.ROLE, "What an assistant says is remembered only when it was done or decided."
    )


def _judge_ignored(text: str) -> CaptureVerdict | None:
    """Return why *text* states nothing that lasts, or None when it may state something."""
    if len(_WORD.findall(text[: LEAST_CHARS * 4])) < LEAST_CHARS:
        return CaptureVerdict.ignore(CaptureReason.NOTHING, "It holds no words.")
    if cue := cues.FORGET.search(text):
        return _nothing_stated(CaptureReason.FORGET, cue)
    if _is_small_talk(text):
        return CaptureVerdict.ignore(CaptureReason.SMALL_TALK, "It is said out of courtesy.")
    stated = cues.TAG_QUESTION.pattern.sub("", text) or text
    if verdict := _of_another_world(stated):
        return verdict
    if (cue := cues.QUESTION.search(stated)) and not (
        _is_chinese(stated) and not stated.rstrip().endswith(("?", "？", "吗")) and cues.BID["zh"].search(stated)
    ):
        return None if _states_before_asking(stated) else _nothing_stated(CaptureReason.QUESTION, cue)
    return _of_the_moment(stated)


def is_courtesy(text: str) -> bool:
    """Return whether a message of a user or an assistant says nothing but that it was heard: "Noted, good luck!".

    So does one without content words: "Lovely.", 哈哈, an emoji.
    """
    if not any(map(str.isalnum, text)):
        return True
    return _consists_of(simplified_form(text[:CUE_CHARS].translate(_WIDE)), (cues.SMALL_TALK, cues.ACKNOWLEDGEMENT))


def is_forget_request(message: str) -> bool:
    """Return whether a short message of a user only asks that something be not remembered, apart from courtesies.

    Most messages hold no such words, and are not split into statements.
    """
    if len(message) > _FORGET_CHARS or not cues.FORGET.search(_plain(message)):
        return False
    reasons = {judge(piece.text).reason for piece in statements(message, most=_FORGET_CHARS)}
    return reasons <= {CaptureReason.FORGET, CaptureReason.SMALL_TALK}


def _is_small_talk(text: str) -> bool:
    """Return whether every clause is one of courtesy."""
    return _consists_of(text, (cues.SMALL_TALK,))


def _consists_of(text: str, kinds: Sequence[cues.Cue]) -> bool:
    """Return whether every clause is wholly one of these cues; long ones are none, and would be slow to classify."""
    clauses = [clause for clause in _SIGNS.split(text) if clause.strip()]
    return all(
        len(clause) <= _COURTESY_CHARS and any(kind.pattern.fullmatch(clause) for kind in kinds) for clause in clauses
    )


def _of_the_moment(text: str) -> CaptureVerdict | None:
    """Return the verdict on a request for something now or on a passing state; None for what is meant to last."""
    if cues.ASKED.search(text) or cues.LASTING.search(text):
        return None
    everyday, _ = _everyday_reason(text)
    if cues.MANNER.search(text) or everyday is CaptureReason.RULE:
        return _of_this_text(text) if _is_of_style(text) else None
    if (cue := _MOOD_OF_TODAY.search(text)) and everyday is None:
        return _nothing_stated(CaptureReason.PASSING, cue)
    if everyday is CaptureReason.TASK or (everyday and (_FIRST_PERSON.search(text) or _ME.search(text))):
        return None
    if (cue := cues.COMMAND.search(text)) and not _is_more_than_a_command(text):
        return _nothing_stated(CaptureReason.COMMAND, cue)
    cue = None if everyday else cues.REMARK.search(text) or (None if _is_personal(text) else cues.PASSING.search(text))
    return _nothing_stated(CaptureReason.PASSING, cue) if cue else None


def _of_this_text(text: str) -> CaptureVerdict | None:
    """Return the verdict on an instruction that holds for the text at hand only, else None."""
    cue = cues.ONCE.search(text)
    return _nothing_stated(CaptureReason.COMMAND, cue) if cue else None


def _states_before_asking(text: str) -> bool:
    """Return whether a clause before the question says something of the user that lasts."""
    *before, _ = _CLAUSE.split(text)
    return any(_is_personal(clause) and not cues.QUESTION.search(clause) for clause in before)


def _is_personal(text: str) -> bool:
    return bool(cues.PREFERENCE.search(text) or cues.PERSONAL.search(text))


def _is_more_than_a_command(text: str) -> bool:
    return bool(cues.TASK.search(text) or cues.DECISION.search(text) or cues.PREFERENCE.search(text))


def _judge_remembered(text: str) -> CaptureVerdict | None:
    asked = cues.ASKED.search(text)
    reason, cue = _reason(text)
    if reason is None and _changes_event(text, is_known=True) and not cues.HYPOTHESIS.search(text):
        reason = CaptureReason.PERSONAL_FACT
    if reason is None:
        return _verdict(CaptureReason.ASKED, text, asked) if asked else None
    return _verdict(reason, text, cue, least=4 if asked else 1)


def _changes_event(text: str, *, is_known: bool = False) -> bool:
    """Return whether a text says that an event was moved or called off; *is_known*: one of a known sort.

    Of other sorts are those that are called off without a word on who does it: "Choir is cancelled."
    """
    change = schedule_change(text)
    if change is None:
        return False
    return bool(change.events) or (
        change.is_cancelled and not is_known and not _FIRST_PERSON.search(text) and not _CALLING_OFF.match(text)
    )


_CALLING_OFF = re.compile(r"\W*(?:just |finally |already )?(?:cancel|call|scrap|取消)", re.IGNORECASE)


def _reason(text: str) -> _Reason:
    """Return the first reason that fits, the surest first, and the words that it was found by."""
    if cue := cues.MANNER.search(text):
        return CaptureReason.RULE, cue
    everyday, everyday_cue = _everyday_reason(text)
    if everyday is CaptureReason.RULE or (everyday_cue is not None and everyday is CaptureReason.PERSONAL_FACT):
        return everyday, everyday_cue
    if cues.HYPOTHESIS.search(text):
        return None, None
    for reason, listed_cue in _SURE_CUES:
        if cue := listed_cue.search(text):
            return reason, cue
    found = _less_sure_reason(text)
    is_of_life = everyday is CaptureReason.PERSONAL_FACT and found[0] is CaptureReason.EXPERIENCE
    is_surer = everyday is not None and found[0] in _LESS_SURE.get(everyday, _UNSURE)
    if is_surer or (is_of_life and not (cues.TECHNOLOGY.search(text) or cues.PROJECT.search(text))):
        return everyday, everyday_cue
    return found


_SURE_CUES = (
    (CaptureReason.TASK, cues.TASK),
    (CaptureReason.DECISION, cues.DECISION),
    (CaptureReason.PREFERENCE, cues.PREFERENCE),
)
_UNSURE = frozenset({None, CaptureReason.FACT, CaptureReason.OPINION})
_BODY_OR_KIN = re.compile(
    r"my (?:knees?|back|eyes?|hands?|head|shoulder|skin|stomach|teeth|hair|legs?|feet"
    r"|foot|neck)|我(?:的|们)?[妈爸老姐哥弟妹爷奶]\w?",
    re.IGNORECASE,
)


_MY_KIN = re.compile(r"(?:my|our) ", re.IGNORECASE)
_PAST_EVENT = re.compile(
    r"\b(?:(?!need|feed|turned|moved|died|passed|graduated|married|retired|started|joined|adopted|divorced|studied|lived"
    r"|worked|served|named|called|owned|founded|inherited|emigrated|switched|finished|allowed|retired|stopped|used"
    r"|diagnosed|scared|supposed|based|engaged|interested)\w{2,}ed|made|said|told|asked|sent|gave|ate|came|saw|did"
    r"|found|took|slept|ran|threw|fell|bit|sang|stole|got (?:arrested|mad|angry|stuck|lost|caught)|met)\b",
    re.IGNORECASE,
)
_ACHES = re.compile(r"\b(?:hurts?|aches?|itch(?:es)?|stings?)\b(?!.*\b(?:since|for|always|every|chronic|when)\b)")


def _is_mood_of(personal: re.Match[str], text: str) -> bool:
    """Return whether a part of the body or a relative is only mentioned in a passing remark."""
    if _MY_KIN.match(personal[0]):
        told = _PAST_EVENT.search(text) and not _DATE.search(text) and not _AMOUNT.search(text)
        if told or _ACHES.search(text):
            return True
    if not _BODY_OR_KIN.fullmatch(personal[0]):
        return False
    if _is_chinese(text):
        return _HAN_MOOD.search(text) is not None or _HAN_LASTING.search(text) is None
    return cues.FLEETING["en"].first_in(cues.plain_words(text)) not in _EVEN_SO


_LESS_SURE = {
    CaptureReason.PREFERENCE: _UNSURE | {CaptureReason.EXPERIENCE, CaptureReason.PERSONAL_FACT},
    CaptureReason.TASK: _UNSURE | {CaptureReason.EXPERIENCE, CaptureReason.PERSONAL_FACT, CaptureReason.PROJECT_FACT},
    CaptureReason.DECISION: _UNSURE
    | {CaptureReason.EXPERIENCE, CaptureReason.PERSONAL_FACT, CaptureReason.PROJECT_FACT},
}
"""Reasons that an everyday reason takes the place of."""


# Everyday speech: phrases tell the reason, a subject of one's own and a lasting word tell that it is worth keeping.


_NO_MATCH: tuple[None, None] = (None, None)
_DAY = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)"
)
_DATE = re.compile(
    rf"\b(?:{_DAY}\.? \d{{1,2}}|\d{{1,2}}(?:st|nd|rd|th)?(?: of)? {_DAY}|(?:in|by|until|till|end of) {_DAY}"
    r"|(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)day?s?|\d{4}-\d\d-\d\d|the \d{1,2}(?:st|nd|rd|th)"
    r"|tomorrow|next (?:week|month|year)|in (?:an?|two|three|four|five|six|\d+) (?:days?|weeks?|months?)"
    r"|end of (?:the )?(?:week|month|year)|month end|\d{1,2}/\d{1,2})\b",
    re.IGNORECASE,
)
_HAN_DATE = re.compile(r"[0-9一二三四五六七八九十]{1,3}[月号日点]|[周礼拜星期]{1,2}[一二三四五六日天]")
_OWN = frozenset(
    listed("""
    i me my mine we us our ours mum mom dad mother father wife husband partner boyfriend girlfriend fiance
    fiancee son daughter sister brother kid kids baby grandma grandpa nan gran grandad aunt uncle cousin
    niece nephew missus hubby flatmate roommate housemate landlord boss manager team""")
)
_IMPERSONAL = frozenset(
    listed("""
    it that this these those there he she they you your the a an what why how who is are was were do does
    did can could would should one most many all if when because""")
)
_HAN_NUMBER = re.compile(r"[0-9]|[一二两三四五六七八九十百千万](?:个|块|人|只|条|号|月|点|岁|平|千|百|万|起|张)")
_HAN_OWN = re.compile(r"我|咱|俺|本人|自己|家里")
_HAN_SAID_BY_ANOTHER = re.compile(r"^(?:他|她|它|你|您|这|那|有|人|为)(?!们家|家那位|个…|个?(?:项目|仓库|服务|系统))")
_ALMOST = frozenset({"nearly", "almost"})
_DECIDED = re.compile(
    r"\b(?:decided|settled (?:on|it)|agreed|chose|chosen|opted|gone? with|went with"
    r"|picked)\b|决定|就定|定了|定成|商量好|拍板|敲定|选定"
)


def _of_another_world(text: str) -> CaptureVerdict | None:
    """Return the verdict on wishes, suppositions, stories, texts to be written and what strangers say; else None."""
    if cues.ASKED.search(text):
        return None
    if verdict := _of_talk_at_hand(text):
        return verdict
    if _is_chinese(text):
        return _of_another_chinese_world(text)
    words = cues.plain_words(text)
    said = cues.UNREAL["en"].first_in(words)
    is_own = not _OWN.isdisjoint(words)
    if not said and not is_own:
        said = cues.FICTION.first_in(words) or cues.REPORTED["en"].first_in(words)
        said = said if " " in said or said in _HEARSAY else ""
    if not said:
        lead = next((place for place, word in enumerate(words) if word not in _LEADS), 0)
        is_reported = cues.REPORTED["en"].begins(words[lead:]) and not (is_own and words[lead] in _HEARSAY)
        said = " ".join(words[lead:][:2]) if is_reported else ""
        said = said or (" ".join(words[lead:][:2]) if cues.FICTION.begins(words[lead:]) else "")
    if not _VISITORS.isdisjoint(said.split()) and _is_visit(text):
        said = ""
    if words[:2] == ["never", "mind"]:
        return CaptureVerdict.ignore(CaptureReason.SMALL_TALK, "It is said out of courtesy.")
    return _as_said_by_others(text, said) if said else None


def _of_talk_at_hand(text: str) -> CaptureVerdict | None:
    """Return the verdict on remarks, requests for a text or a change to one, and talk about others; else None."""
    if cue := cues.POINTING.search(text):
        return _nothing_stated(CaptureReason.PASSING, cue)
    if cue := cues.WRITING.search(text) or (None if _is_lasting_bid(text) else cues.EDITING.search(text)):
        return _nothing_stated(CaptureReason.COMMAND, cue)
    if cue := cues.LOOKUP.search(text):
        return _nothing_stated(CaptureReason.QUESTION, cue)
    if (cue := cues.AT_HAND.search(text) or cues.EXAGGERATION.search(text)) and not cues.MANNER.search(text):
        return _nothing_stated(CaptureReason.PASSING, cue)
    cue = cues.ASIDE.search(text) or cues.STORY.search(text)
    if cue is None and not (is_of_health(text) or is_of_household(text) or _is_visit(text)):
        cue = cues.OTHERS.search(text) or cues.MOMENT.search(text) or cues.ANECDOTE.search(text)
    if cue is None:
        return None
    return _QUOTED if without_quotations(text) != text else _nothing_stated(CaptureReason.PASSING, cue)


def _is_visit(text: str) -> bool:
    """Return whether a text says that tradespeople or a delivery come on a day."""
    return names_visit(text) and bool(named_days(text, _ANY_DAY))


_ANY_DAY = date(2026, 1, 1)


def _is_lasting_bid(text: str) -> bool:
    """Return whether a request holds from now on."""
    if cues.LASTING.search(text) or cues.MANNER.search(text) or _confidentiality(text):
        return True
    is_chinese = _is_chinese(text)
    spoken = text if is_chinese else " ".join(cues.plain_words(text))
    return cues.BID["zh" if is_chinese else "en"].search(spoken) is not None


def is_standing(text: str) -> bool:
    """Return whether a text says in so many words that a request holds from now on or no more."""
    text = simplified_form(text)
    return bool(cues.LASTING.search(text) or cues.MANNER.search(text) or _revocation(text) or _confidentiality(text))


_JEST = re.compile(r"\b(?:lol|lmao|haha\w*|jk|just kidding)\b|哈哈|开玩笑", re.IGNORECASE)


def _confidentiality(text: str) -> re.Match[str] | None:
    """Return the words that ask not to pass something on, of which a person or the thing is named, or None.

    Requests on a text at hand ("don't mention the price to the client in this email"), on technology and in jest are
    none.
    """
    cue = cues.CONFIDENTIAL.search(text)
    if (
        cue is None
        or _JEST.search(text)
        or cues.WORDING.search(text)
        or _ARTEFACT.search(text)
        or cues.TECHNOLOGY.search(text)
    ):
        return None
    return None if text.isascii() and cues.ONCE.search(text) else cue


def is_of_health(text: str) -> bool:
    """Return whether a text says what someone must not eat, drink, take or do, or of an illness; quotations do not."""
    text = without_quotations(simplified_form(text))
    if _is_chinese(text):
        return bool(cues.HEALTH["zh"].first_in(text))
    words = cues.plain_words(text)
    return bool(cues.HEALTH["en"].first_in(words) or cues.CANNOT.search(" ".join(words)))


def is_of_household(text: str) -> bool:
    """Return whether a text says where something is kept, what health staff found, or what became of a pet."""
    return cues.HOUSEHOLD.search(without_quotations(simplified_form(text))) is not None


def _as_said_by_others(text: str, said: str) -> CaptureVerdict:
    return (
        _QUOTED
        if without_quotations(text) != text
        else CaptureVerdict.ignore(CaptureReason.NOTHING, f"It says {said!r}.")
    )


_VISITORS = frozenset(listed("someone somebody man men woman lady guy bloke dude person people"))
"""Words by which the tradespeople of a visit are named, who are else strangers."""
_HEARSAY = frozenset(
    listed("""
    apparently allegedly reportedly narrator protagonist lyrics fictional""")
)
_LEADS = frozenset(
    listed("""
    so and but well lol haha tbh honestly ok okay oh hey fun fact hm actually""")
)


def _of_another_chinese_world(text: str) -> CaptureVerdict | None:
    said = cues.UNREAL["zh"].first_in(text)
    if not said:
        said = cues.REPORTED["zh"].first_in(_ADDRESSED.sub("", text, count=1))
        is_own = "我" in text and "说" not in text
        if said in _PEOPLE_AROUND and (is_own or (_is_lasting_bid(text) and not _QUOTES.search(text))):
            said = ""
    if said:
        return _as_said_by_others(text, said)
    said = cues.WORKED_ON.first_in(text)
    if said and said[0] in _HAN_WRITING:
        before = text[: text.index(said)]
        said = said if not before or before.endswith(_HAN_BIDDING) or before.startswith(_HAN_BIDDING) else ""
    if not said or (cues.BID["zh"].search(text) and not _QUOTES.search(text)):
        return None
    return CaptureVerdict.ignore(CaptureReason.COMMAND, f"It says {said!r}.")


_ADDRESSED = re.compile(
    r"^(?:(?:以后|今后|往后|从今以后|请|麻烦|你|那|对了|能不能|可以)[，,]?)*(?:(?:别|不要|少)(?:再|老|总)?)?[跟和对]我说"
    r"(?=话[^。]{0,4}(?:别|不要|直接|简短|简洁|简单|干脆|随意|随便|用)|您)"
)
"""Asks the agent how to speak to the user: 以后跟我说话别用您; not what another said to the user."""
_PEOPLE_AROUND = frozenset(
    listed("""
    邻居 别人 大爷 大妈 大叔 主播 博主 电影 电视剧 作者 朋友圈 热搜 成语 典故 这句 这首 出自 楼下那 网上
    都说 公交车上 地铁上""")
)
_HAN_WRITING = frozenset("写编讲唱背造起取列猜译翻续接形用")
_HAN_BIDDING = (",", "，", "。", ";", "；", ":", "：", " ", "帮我", "给我", "替我", "请", "你", "再", "来", "就", "把")
_QUOTES = re.compile(r"[:：\"“「]")


def _is_chinese(text: str) -> bool:
    return not text.isascii() and is_han(text)


def _everyday_reason(text: str) -> _Reason:
    """Return the reason to remember what is said in everyday words, and the words that it was found by."""
    return chinese_everyday_reason(text) if _is_chinese(text) else english_everyday_reason(text)


@dataclass(frozen=True, slots=True)
class _EverydaySentence:
    """A sentence and what the rules of everyday speech look at first.

    Attributes:
        words: Those of `capture_cues.plain_words`; empty in Chinese.
        is_own: Whether it is about the speaker or a relative.
        is_about_someone: Whether it may be about a definite person or thing: own, named, or without a subject.
        fleeting: The first word of a passing mood, empty when there is none.
        dated: A date or a day to come.
    """

    text: str
    words: Sequence[str]
    is_own: bool
    is_about_someone: bool
    fleeting: str
    dated: re.Match[str] | None
    duty: str


@lru_cache(maxsize=64)
def english_everyday_reason(text: str) -> _Reason:
    """Return why an English text is or is not worth keeping, by everyday words."""
    words = cues.plain_words(text)
    plain = " ".join(words)
    if cue := _confidentiality(text) or (None if _is_reminder_once(text) else cues.BID["en"].search(plain)):
        return CaptureReason.RULE, cue
    is_own = not _OWN.isdisjoint(words)
    said = words[next((place for place, word in enumerate(words) if word not in _LEADS), 0) :]
    is_bare = bool(said) and (said[0] not in _IMPERSONAL or said[:2] == ["can", "not"])
    sentence = _EverydaySentence(
        text,
        words,
        is_own,
        is_own or is_bare or _NAME.search(text) is not None,
        cues.FLEETING["en"].first_in(words),
        _DATE.search(text),
        cues.DUTY["en"].first_in(words),
    )
    readings = (_english_ban, _english_task, _english_household, _english_taste, _english_change, _english_circumstance)
    return next((found for reading in readings if (found := reading(sentence, plain)) is not None), _NO_MATCH)


_ONCE_REMINDED = re.compile(
    r"^(?:(?:please|pls|hey|hi|and|so|ok(?:ay)?|also|just|oh),?\s+)*(?:(?:remind|nudge|ping) me\b"
    r"|(?:don['’]?t|do not) (?:let me )?forget\b)"
    r"(?!.*\b(?:always|never|every|each|whenever|from now on)\b)",
    re.IGNORECASE,
)


def _is_reminder_once(text: str) -> bool:
    """Return whether a text asks once to be reminded of something by a day: "remind me to pay before Friday"."""
    if _ONCE_REMINDED.match(text) is None:
        return False
    return any(day.is_clear and day.recurrence is Recurrence.NONE for day in named_days(text, _ANY_DAY))


def _english_ban(said: _EverydaySentence, plain: str) -> _Reason | None:
    """Return the reason of what must not be eaten, taken or done, and of health."""
    is_bidding = said.words[:1] == ["never"] or said.words[:2] == ["do", "not"]
    if not is_bidding and (cue := cues.CANNOT.search(plain)):
        return (CaptureReason.PERSONAL_FACT, cue) if said.is_about_someone and not said.fleeting else _NO_MATCH
    health = cues.HEALTH["en"].first_in(said.words)
    if health and said.is_about_someone:
        return CaptureReason.PERSONAL_FACT, re.search(re.escape(health.split()[0]), said.text, re.IGNORECASE)
    return None


def _english_task(said: _EverydaySentence, _: str) -> _Reason | None:
    event = cues.EVENTS.first_in(said.words)
    is_due = event or (said.duty and said.is_own) or cues.ERRANDS.begins(said.words)
    if said.dated and is_due and _ALMOST.isdisjoint(said.words):
        if event in _FEASTS and not said.duty:
            return CaptureReason.PERSONAL_FACT, said.dated
        if said.is_about_someone and _PAST_WORDS.isdisjoint(said.words):
            return CaptureReason.TASK, said.dated
    return (CaptureReason.TASK, None) if said.duty in _PROMISES and said.is_own else None


def _english_household(said: _EverydaySentence, _: str) -> _Reason | None:
    cue = cues.HOUSEHOLD.search(said.text)
    return (CaptureReason.PERSONAL_FACT, cue) if cue else None


def _english_taste(said: _EverydaySentence, plain: str) -> _Reason | None:
    if said.fleeting or not said.is_about_someone:
        return None
    is_taste = cues.TASTE["en"].first_in(said.words) or _SORT_OF_PERSON.search(plain)
    return (CaptureReason.PREFERENCE, None) if is_taste else None


def _english_change(said: _EverydaySentence, plain: str) -> _Reason | None:
    change = cues.CHANGE["en"].first_in(said.words) if said.fleeting in _EVEN_SO else ""
    if not change:
        return _NO_MATCH if said.fleeting or _is_once_more(said, plain) else None
    if said.is_about_someone or said.dated or change in _SURE_CHANGES or _AMOUNT.search(said.text):
        return (CaptureReason.DECISION if _DECIDED.search(plain) else CaptureReason.PERSONAL_FACT), None
    return _NO_MATCH if said.fleeting or _is_once_more(said, plain) else None


def _is_once_more(said: _EverydaySentence, plain: str) -> bool:
    """Return whether something happens again that is no habit."""
    return "again" in said.words and cues.HABIT["en"].search(plain) is None


def _english_circumstance(said: _EverydaySentence, plain: str) -> _Reason | None:
    if said.is_about_someone and (cue := _INTRODUCED.search(said.text) or _PRICE.search(said.text)):
        return CaptureReason.PERSONAL_FACT, cue
    life = cues.LIFE["en"].first_in(said.words) if said.is_own or _NAME.search(said.text) else ""
    is_event = life.startswith(("my ", "our ")) and _PAST_EVENT.search(said.text) and not said.dated
    if life and not is_event:
        return CaptureReason.PERSONAL_FACT, None
    cue = cues.HABIT["en"].search(plain)
    return (CaptureReason.PERSONAL_FACT, cue) if cue else None


_AMOUNT = re.compile(r"\d[\d,.]*\b(?!%)")


_PROMISES = frozenset(
    phrases("""
    promised, i owe, we owe, owe them, owe him, owe her, do not let me, remind me, nudge me, put it down""")
)
_SURE_CHANGES = frozenset(
    phrases("""
    called off, cancelled, canceled, fell through, fallen through, postponed, rescheduled, renamed,
    no longer, brought forward, pushed back, switched off""")
)
_NAME = re.compile(
    r"(?<=[a-z,;:] )(?!I\b)[A-Z][a-z]+|^[A-Z][a-z]+(?:'s)? (?:is|has|was|and|got|left|moved|started|now)\b"
)
_PAST_WORDS = frozenset(
    listed("""
    was were went had did came saw used ran won lost gave took visited finished ended attended celebrated
    happened launched released shipped learned learnt enjoyed""")
)
_FEASTS = frozenset({"birthday", "anniversary"})
_EVEN_SO = frozenset(
    [
        "",
        "today",
        "tonight",
        "this morning",
        "this afternoon",
        "this evening",
        "lol",
        "haha",
        "hahaha",
        "omg",
        "ugh",
        "phew",
    ]
)
"""Fleeting words that do not make a change of circumstance a passing one."""
_SORT_OF_PERSON = re.compile(
    r"^(?:(?:i am|we are|still|now|just|basically|a|an|the)\s)*(?:[\w-]+ ){1,2}(?:guy"
    r"|girl|gal|person|lover|drinker|eater|household|family)\b"
)
_INTRODUCED = re.compile(
    r"\bI(?:'m| am) (?:[A-Z][a-z]+\b|(?:on|in|with) the [\w -]{2,30}(?:team|squad|crew|board|committee)\b)"
    r"|\b(?:I|we|We)\b[^.]{0,40}\b(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*(?:/|s\b)"
)
_PRICE = re.compile(r"\d(?:k|,\d{3})?\s?(?:/|per |a |an )(?:mo|month|yr|year|hr|hour|week|wk|day)\b", re.IGNORECASE)


@lru_cache(maxsize=64)
def chinese_everyday_reason(text: str) -> _Reason:
    """Return why a Chinese text is or is not worth keeping, by everyday words."""
    if cue := _confidentiality(text) or cues.BID["zh"].search(text):
        return CaptureReason.RULE, cue
    if cue := cues.HOUSEHOLD.search(text):
        return CaptureReason.PERSONAL_FACT, cue
    if health := cues.HEALTH["zh"].first_in(text):
        return CaptureReason.PERSONAL_FACT, re.search(re.escape(health), text)
    is_own = _HAN_OWN.search(text) is not None
    said = _EverydaySentence(
        text,
        (),
        is_own,
        is_own or _HAN_SAID_BY_ANOTHER.search(text) is None,
        cues.FLEETING["zh"].first_in(text),
        _HAN_DATE.search(text) or re.search(re.escape(cues.DAYS.first_in(text) or "\0"), text),
        cues.DUTY["zh"].first_in(text),
    )
    if not said.is_about_someone:
        return _NO_MATCH
    if said.duty and (said.dated or text.startswith(_HAN_DUTIES)):
        return CaptureReason.TASK, said.dated
    return _chinese_change(said) or _chinese_circumstance(said) or _NO_MATCH


def _chinese_change(said: _EverydaySentence) -> _Reason | None:
    change = cues.CHANGE["zh"].first_in(said.text)
    is_lasting = not said.fleeting and not _HAN_MOOD.search(said.text) and (said.is_own or said.dated)
    if change and (change not in _HAN_WEAK_CHANGES or is_lasting):
        return (CaptureReason.DECISION if _DECIDED.search(said.text) else CaptureReason.PERSONAL_FACT), None
    return None


def _chinese_circumstance(said: _EverydaySentence) -> _Reason | None:
    text = said.text
    if said.fleeting:
        return None
    is_pleased = _HAN_PLEASED.search(text) or _HAN_PEOPLE.search(text)
    if cues.TASTE["zh"].first_in(_HAN_COUNTED.sub("", text)) and not is_pleased:
        return CaptureReason.PREFERENCE, None
    if _HAN_MOOD.search(text) and "开始" not in text:
        return None
    is_stated = said.is_own or _HAN_NUMBER.search(text) or _HAN_STATING.search(text)
    if is_stated and _is_chinese_circumstance(text):
        return CaptureReason.PERSONAL_FACT, None
    cue = cues.HABIT["zh"].search(text)
    return (CaptureReason.PERSONAL_FACT, cue) if cue else None


def _is_chinese_circumstance(text: str) -> bool:
    """Return whether a text names a circumstance. A relative alone is none: something must be said that lasts."""
    said = cues.LIFE["zh"].first_in(text)
    if said in {"我这", "我那"}:
        return _HAN_NAMED.search(text) is not None
    return bool(said) and not (_HAN_KIN.fullmatch(said) and not _HAN_LASTING.search(text))


_HAN_NAMED = re.compile(r"[是叫坏换丢旧新开月周]|[0-9一二三四五六七八九十]")


_HAN_KIN = re.compile(r"我?[妈爸姐哥弟妹]|孩子|儿子|女儿|闺女|老[公婆伴]|[爷奶姥外][^，。]|[爸爹]妈|岳[父母]|丈夫|妻子")
_HAN_LASTING = re.compile(
    r"[是在有叫姓会属每住爱岁戒病养做当上读学开给买卖送升调任]|不(?:能|吃|喝|会|爱|喜|准|让|敢|肯|想|去|再|用)"
    r"|一直|已经|现在|开始|打算|准备|[要得]|[0-9一二三四五六七八九十]"
)
_HAN_WEAK_CHANGES = frozenset(
    listed("""
    给了 没了 变成 重新 停了 丢了 挪 生了 换了 定了 报了 接手 提前了 涨价 降价 走了三 出手了""")
)
_HAN_PEOPLE = re.compile(r"^[^我咱，,]{1,6}(?:人|们|族|界|粉丝)(?:都|特别|很|超|最|就|还)*(?:喜欢|爱|讨厌|习惯)")
_HAN_COUNTED = re.compile(r"[一二两三四五六七八九十几半0-9][只条头匹]")
"""A measure word, which may look like "only"."""
_HAN_MOOD = re.compile(
    r"又[^,，。]{1,8}了|真[^的,，。]{1,3}[。！!啊]*$|太[^,，。]{1,4}了[。！!]*$"
    r"|^好[^,，。]{1,4}[啊呀]?[。！!]*$|[啊呀哇][。！!]*$"
)
_HAN_PLEASED = re.compile(r"喜欢(?:了?[。！!~]*$|你|这|那|它)|就算了[吧。！]*$(?<!的就算了)")
_HAN_STATING = re.compile(r"[叫在是有姓]|用的")


_HAN_DUTIES = ("得", "欠", "记得", "别忘", "答应", "还得", "我得", "我欠", "我答应", "要", "我要", "该", "提醒")


def _less_sure_reason(text: str) -> _Reason:
    if cue := cues.OPINION.search(text):
        return CaptureReason.OPINION, cue
    experience, personal = cues.EXPERIENCE.search(text), cues.PERSONAL.search(text)
    if personal and _is_mood_of(personal, text):
        personal = None
    if personal and not cues.EXPLICIT_PROJECT.search(text) and not _comes_before(experience, personal):
        return CaptureReason.PERSONAL_FACT, personal
    if experience and _is_own_experience(text, experience):
        return CaptureReason.EXPERIENCE, experience
    return _plain_reason(text)


_OF_IT = re.compile(
    r" (?:it|that|this|them|these|those)\b|(?<=had a) (?:blast|laugh|look|nap|coffee|drink|shower|bite)",
    re.IGNORECASE,
)


def _is_own_experience(text: str, cue: re.Match[str]) -> bool:
    """Return whether a person or project of the user takes part, and the deed is named."""
    is_own = _FIRST_PERSON.search(text) or _ME.search(text) or cues.PROJECT.search(text) or cues.TECHNOLOGY.search(text)
    is_told = is_own or " went " in text or _OUTCOME.search(text)
    return bool(is_told) and _OF_IT.match(text, cue.end()) is None and _is_notable(text, cue)


def _is_notable(text: str, cue: re.Match[str]) -> bool:
    """Return whether a deed in the first person has a time, a name, a number or an outcome."""
    if _OWN_DEED.match(cue[0]) is None:
        return True
    return any(mark.search(text) for mark in (_NOTABLE, cues.TECHNOLOGY, cues.PROJECT, cues.INFORMATIVE, _OUTCOME))


_OWN_DEED = re.compile(
    r"(?:i|we)(?:'ve| have)?(?: \w+)? (?:spent|ran|lost|won|saw|met|tried|watched|made|took|caught|had|found|bought"
    r"|flew|drove|painted|cooked|climbed|struggled|noticed|read)\b|我|咱",
    re.IGNORECASE,
)
_NOTABLE = re.compile(
    r"\b(?:yesterday|last|ago|first|finally|because|since|daughter|son|baby|job|doctor|hospital)\b"
    r"|昨|前天|上周|上个|去年|前年|周[一二三四五六日末]|月|年|终于|第一|人生|《|半天|因为|所以|才|从|换成|修复|解决|定位|医院",
    re.IGNORECASE,
)


_OUTCOME = re.compile(r"\b(?:made|turned out|root cause|took us)\b|浪费|顺利|搞砸|教训|复盘|踩|之后|那趟|那次")


def _plain_reason(text: str) -> _Reason:
    """Return the verdict on a statement of fact that does not mention its speaker."""
    if cue := _rule(text):
        return CaptureReason.RULE, cue
    if day := _day_ahead(text):
        return (CaptureReason.PERSONAL_FACT if cues.PERSONAL_LIFE.search(text) else CaptureReason.FACT), day
    technology, project = cues.TECHNOLOGY.search(text), cues.PROJECT.search(text)
    if technology and cues.GENERAL.search(text) and not project and not _FIRST_PERSON.search(text):
        return CaptureReason.KNOWLEDGE, technology
    cue = project or cues.INFORMATIVE.search(text)
    if cue is None or not cues.STATING.search(text):
        return None, None
    if project is None and not _FIRST_PERSON.search(text) and cues.EVENT.search(text):
        return None, None
    return (CaptureReason.PROJECT_FACT if project else CaptureReason.FACT), cue


_NAMED_DAY = re.compile(
    rf"\b(?:{_DAY}\.? \d{{1,2}}(?:st|nd|rd|th)?|\d{{1,2}}(?:st|nd|rd|th)?(?: of)? {_DAY})\b(?!,? (?:1\d|20[01])\d)"
    r"|(?<!年)(?:[0-9]{1,2}|[一二三四五六七八九十]{1,2})月(?:[0-9]{1,2}|[一二三四五六七八九十]{1,3})[号日]",
    re.IGNORECASE,
)


def _day_ahead(text: str) -> re.Match[str] | None:
    """Return the day and month that a statement names, unless it is about people without a name or a past year."""
    days = list(islice(_NAMED_DAY.finditer(text), 3))
    if not days or len(days) > 2:  # noqa: PLR2004 - a list of days is material; a period has two
        return None
    is_own = _FIRST_PERSON.search(text) or _ME.search(text)
    return days[0] if is_own or not cues.EVENT.search(text) else None


def _comes_before(first: re.Match[str] | None, second: re.Match[str]) -> bool:
    return first is not None and first.start() < second.start()


def _rule(text: str) -> re.Match[str] | None:
    """Return the lasting word of a statement that instructs."""
    cue = cues.LASTING.search(text)
    return cue if cue and _BIDDING.match(text) else None


def _is_global(reason: CaptureReason, text: str) -> bool:
    """Return whether what has this reason holds outside the project; what cannot be decided does not."""
    if cues.EXPLICIT_PROJECT.search(text):
        return False
    if reason is CaptureReason.RULE:
        return _is_global_rule(text)
    if reason is CaptureReason.OPINION:
        return not cues.PROJECT.search(text)
    if reason in {CaptureReason.EXPERIENCE, CaptureReason.TASK}:
        return bool(cues.PERSONAL_LIFE.search(text)) and not cues.TECHNOLOGY.search(text)
    return reason in {CaptureReason.PREFERENCE, CaptureReason.PERSONAL_FACT, CaptureReason.KNOWLEDGE}


def _is_global_rule(text: str) -> bool:
    """Return whether a rule is about the user, secrets or the manner of answers, and not about work in a project."""
    if cues.MANNER.search(text) or (_confidentiality(text) and not cues.PROJECT.search(text)):
        return True
    is_about_user = _SINGULAR.search(text) is not None or (_is_of_style(text) and not _ARTEFACT.search(text))
    return is_about_user and not cues.PROJECT.search(text)


_OF_EVENTS = frozenset({CaptureReason.PERSONAL_FACT, CaptureReason.FACT, CaptureReason.EXPERIENCE})
_ARTEFACT = re.compile(
    r"\b(?:commits?|docs?|documentation|code|comments?|readme|reports?|e-?mails?|tests?|pull requests?|changelog"
    r"|files?|prs?|slides?|articles?|databases?|sql)\b|文档|代码|注释|提交|报告|邮件|文章|幻灯|数据库|表结构|周报|日报",
    re.IGNORECASE,
)
"""What a rule is for, if it is not for the answers of the agent."""


def _is_of_style(text: str) -> bool:
    """Return whether a rule is about the manner of answers."""
    return any(cue.search(text) for cue in cues.STYLE.values())


def _verdict(reason: CaptureReason, text: str, cue: re.Match[str] | None, *, least: int = 1) -> CaptureVerdict:
    is_change = reason in _OF_EVENTS and _changes_event(text)
    # An event is a task until it takes place.
    is_global = _is_global(CaptureReason.TASK if is_change else reason, text)
    if is_change and not is_global:
        reason = CaptureReason.PROJECT_FACT
    form = _FORMS[reason]
    return CaptureVerdict(
        remember=True,
        reason=reason,
        detail=_quote_cue(cue),
        is_global=is_global,
        layer=form.layer,
        kind=form.kind,
        category=form.category,
        importance=max(form.importance, least),
        title=title_of(text),
        tags=_tags(form.category, text),
    )


def _tags(category: str, text: str) -> tuple[str, ...]:
    """Return the category and the technologies that are named, each once, at most five; no web address names one."""
    found = (match for match in cues.TECHNOLOGY.pattern.finditer(text) if not _WEB_SCHEME.match(text, match.start()))
    named = [match[0].lower() for match in found]
    return tuple(dict.fromkeys((category, *named)))[:5]


_WEB_SCHEME = re.compile(r"https?://", re.IGNORECASE)


def _nothing_stated(reason: CaptureReason, cue: re.Match[str]) -> CaptureVerdict:
    return CaptureVerdict.ignore(reason, _quote_cue(cue))


def _quote_cue(cue: re.Match[str] | None) -> str:
    if cue is None:
        return ""
    words = " ".join(cue[0].split())
    return f"It says {words[:_QUOTE_CHARS]!r}." if words else ""
