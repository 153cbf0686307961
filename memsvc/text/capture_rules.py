"""Rules that decide what to remember of a statement, in Chinese and English.

First what states nothing is put aside: code, small talk, questions, requests for something now. Then the first reason
to remember that fits decides, the surest first. Where the memory belongs follows from the reason and from signs of a
project: preferences, personal facts and general technical knowledge hold everywhere; decisions and whatever speaks of
the project's files belong to the project; so does what cannot be decided.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from memsvc.domain.capture import CaptureReason, CaptureVerdict
from memsvc.domain.memory import Kind, Layer
from memsvc.domain.sessions import Role
from memsvc.text import capture_cues as cues
from memsvc.text.recalled_text import without_quotations

LEAST_CHARS = 2
CUE_CHARS = 2_000
"""As much of a statement is looked at; what it is about is said at its beginning."""
TITLE_CHARS = 60
_QUOTE_CHARS = 60
_SIGNS = re.compile(r"[,.!?;:，。！？；：、~～\n]+")
_COURTESY_CHARS = 40
_CLAUSE = re.compile(r"[,，;；]\s*|\s+(?:but|so)\s+")
_LEAD = re.compile(
    r"^(?:please |pls |and |so |ok(?:ay)?,? |also,? |honestly,? |well,? )*"
    r"(?:(?:remember|note|keep in mind|bear in mind|for the record|fyi|don'?t forget)(?: that)?[,:]?\s+"
    r"|todo:?\s*|decision:\s*)"
    r"|^(?:请|麻烦|帮我|你要?)*(?:记住|记一下|记得|记下|备注一下|备注|注意|待办)[，,:：]?\s*",
    re.IGNORECASE,
)
_WIDE = {code + 0xFEE0: code for code in range(ord("0"), ord("z") + 1) if chr(code).isalnum()} | {0x3000: " "}
"""Letters and digits as wide as a Han character, which are the same; signs keep their width."""
_POLITE_END = re.compile(r"(?:,? please)?(?:吗|吧|呢|好吗|可以吗)?\s*[?？]+\s*$", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[。！？!?；;\n]|\.(?=\s|$)")
_FIRST_PERSON = re.compile(r"\b(?:i|we|my|our|us)\b|我|咱", re.IGNORECASE)
_SINGULAR = re.compile(r"\b(?:me|my|i)\b|我", re.IGNORECASE)
_BIDDING = re.compile(
    r"(?:please\s+|always|never|from now on|don'?t|do not|when|every|whenever|before|after|use|write|keep|add|run|make"
    r"|put|format|name|include|in the future|going forward|must)\b"
    r"|.*(?:务必|一定|永远|一律|以后|今后|每次|禁止|必须|不得|不要|绝不|都要|都得|而不|不要?用|别用|代替)",
    re.IGNORECASE,
)
_WORD = re.compile(r"[A-Za-z0-9]|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")


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
    shown = text.strip()[:CUE_CHARS].translate(_WIDE)
    if role in {Role.SYSTEM, Role.TOOL}:
        return CaptureVerdict.ignore(CaptureReason.ROLE, f"What the {role.value.lower()} says is not remembered.")
    if is_code or cues.CODE.search(shown):
        return CaptureVerdict.ignore(CaptureReason.CODE, "It is code, a log or data.")
    if role is Role.ASSISTANT:
        return _of_agent(shown)
    if is_quoted:
        return _QUOTED
    return _of_material(shown) or _of_user(shown)


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
    text = _bidden(text)
    return (
        _judge_ignored(text)
        or _judge_remembered(text)
        or CaptureVerdict.ignore(CaptureReason.NOTHING, "It states nothing that lasts.")
    )


def _bidden(text: str) -> str:
    """Return what a question bids to be done from now on: "Could you please always …?" is no question."""
    polite = cues.LASTING_BID.search(text)
    if polite is None or not _POLITE_END.search(text):
        return text
    adverb = re.search(r"\b(?:always|never|from now on)\b", polite[0], re.IGNORECASE)
    return _POLITE_END.sub("", text[adverb.start() if adverb else polite.end() :])


def _of_material(text: str) -> CaptureVerdict | None:
    """Return the verdict on what hands over text to be worked on, be it in itself or after it; None for the rest."""
    cue = cues.MATERIAL.search(text)
    if cue is None:
        return None
    return _QUOTED if text[cue.end() :].strip() else _nothing_stated(CaptureReason.COMMAND, cue)


def title_of(text: str) -> str:
    """Return a heading for a statement: its first sentence without the words that introduce it, cut at a word."""
    flat = " ".join(text.split())
    bare = _LEAD.sub("", flat) or flat
    end = _SENTENCE_END.search(bare, 1)
    first = (bare[: end.start()] if end else bare).strip(" ,，:：-*#>")
    if len(first) <= TITLE_CHARS:
        return first
    cut = first[:TITLE_CHARS]
    head, space, _ = cut.rpartition(" ")
    return f"{head if space and len(head) > TITLE_CHARS // 2 else cut}…"


def _of_agent(text: str) -> CaptureVerdict:
    """Judge what an agent says: its deeds and decisions count, what it says about the user is an echo."""
    is_asking = cues.QUESTION.search(text) is not None
    if not is_asking and not cues.ECHO.search(text):
        if cue := cues.DECISION.search(text):
            return _verdict(CaptureReason.DECISION, text, cue)
        if cue := cues.DONE_BY_AGENT.search(text):
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
    if cue := cues.QUESTION.search(stated):
        return None if _states_before_asking(stated) else _nothing_stated(CaptureReason.QUESTION, cue)
    return _of_the_moment(stated)


def _is_small_talk(text: str) -> bool:
    """Return whether every clause is one of courtesy; long ones are none, and would be slow to classify."""
    clauses = [clause for clause in _SIGNS.split(text) if clause.strip()]
    return all(len(clause) <= _COURTESY_CHARS and cues.SMALL_TALK.pattern.fullmatch(clause) for clause in clauses)


def _of_the_moment(text: str) -> CaptureVerdict | None:
    """Return the verdict on a request for something now or on a passing state; None for what is meant to last."""
    if cues.ASKED.search(text) or cues.MANNER.search(text) or cues.LASTING.search(text):
        return None
    if (cue := cues.COMMAND.search(text)) and not _is_more_than_a_command(text):
        return _nothing_stated(CaptureReason.COMMAND, cue)
    if (cue := cues.PASSING.search(text)) and not _is_personal(text):
        return _nothing_stated(CaptureReason.PASSING, cue)
    return None


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
    if reason is None:
        return _verdict(CaptureReason.ASKED, text, asked) if asked else None
    return _verdict(reason, text, cue, least=4 if asked else 1)


def _reason(text: str) -> tuple[CaptureReason | None, re.Match[str] | None]:
    """Return the first reason that fits, the surest first, and the words that it was found by."""
    if cue := cues.MANNER.search(text):
        return CaptureReason.RULE, cue
    if cues.HYPOTHESIS.search(text):
        return None, None
    if cue := cues.TASK.search(text):
        return CaptureReason.TASK, cue
    if cue := cues.DECISION.search(text):
        return CaptureReason.DECISION, cue
    if cue := cues.PREFERENCE.search(text):
        return CaptureReason.PREFERENCE, cue
    return _less_sure_reason(text)


def _less_sure_reason(text: str) -> tuple[CaptureReason | None, re.Match[str] | None]:
    if cue := cues.OPINION.search(text):
        return CaptureReason.OPINION, cue
    experience, personal = cues.EXPERIENCE.search(text), cues.PERSONAL.search(text)
    if personal and not cues.EXPLICIT_PROJECT.search(text) and not _comes_before(experience, personal):
        return CaptureReason.PERSONAL_FACT, personal
    if experience:
        return CaptureReason.EXPERIENCE, experience
    return _plain_reason(text)


def _plain_reason(text: str) -> tuple[CaptureReason | None, re.Match[str] | None]:
    """Return the verdict on a statement of fact that does not mention its speaker."""
    if cue := _rule(text):
        return CaptureReason.RULE, cue
    technology, project = cues.TECHNOLOGY.search(text), cues.PROJECT.search(text)
    if technology and cues.GENERAL.search(text) and not project and not _FIRST_PERSON.search(text):
        return CaptureReason.KNOWLEDGE, technology
    cue = project or cues.INFORMATIVE.search(text)
    if cue is None or not cues.STATING.search(text):
        return None, None
    return (CaptureReason.PROJECT_FACT if project else CaptureReason.FACT), cue


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
    if reason in {CaptureReason.PREFERENCE, CaptureReason.PERSONAL_FACT, CaptureReason.KNOWLEDGE}:
        return True
    if reason is CaptureReason.RULE:
        is_about_user = bool(_SINGULAR.search(text)) and not cues.PROJECT.search(text)
        return is_about_user or cues.MANNER.search(text) is not None
    if reason is CaptureReason.OPINION:
        return not cues.PROJECT.search(text)
    if reason in {CaptureReason.EXPERIENCE, CaptureReason.TASK}:
        return bool(cues.PERSONAL_LIFE.search(text)) and not cues.TECHNOLOGY.search(text)
    return False


def _verdict(reason: CaptureReason, text: str, cue: re.Match[str] | None, *, least: int = 1) -> CaptureVerdict:
    form = _FORMS[reason]
    is_global = _is_global(reason, text)
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
    """Return the category and the technologies that are named, each once, at most five."""
    named = [match[0].lower() for match in cues.TECHNOLOGY.pattern.finditer(text)]
    return tuple(dict.fromkeys((category, *named)))[:5]


def _nothing_stated(reason: CaptureReason, cue: re.Match[str]) -> CaptureVerdict:
    return CaptureVerdict.ignore(reason, _quote_cue(cue))


def _quote_cue(cue: re.Match[str] | None) -> str:
    if cue is None:
        return ""
    words = " ".join(cue[0].split())
    return f"It says {words[:_QUOTE_CHARS]!r}." if words else ""
