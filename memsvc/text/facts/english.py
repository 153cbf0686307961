"""What English sentences state: where somebody lives, what they do, what they like, and what is what."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from memsvc.domain.conflicts import Rule, Statement, ValuePart
from memsvc.text.facts.conditions import english_condition, english_setting, said_when
from memsvc.text.facts.english_clauses import Speaking, clauses, names_in, place_in, plain, stem, subject_of, words_of
from memsvc.text.facts.english_general import general
from memsvc.text.facts.english_lexicon import OCCUPATIONS
from memsvc.text.facts.english_persons import persons
from memsvc.text.facts.english_preferences import preferences
from memsvc.text.facts.lexicon import words as listed

_GENERAL_ADVERBS = (
    r"(?:(?:now|currently|just|recently|also|still|really|actually|already|finally|has|have|had|is|am|are|been)\s+)*"
)
_NO = r"(?P<no>(?:do|does|did|is|am|are|has|have)\s+not\s+(?:longer\s+)?|no\s+longer\s+|never\s+)?"
_BEFORE = rf"(?:^|(?<=\s)){_GENERAL_ADVERBS}{_NO}{_GENERAL_ADVERBS}"

_LIVES = re.compile(
    rf"{_BEFORE}(?:lives?|living|resides?|residing|based|settled(?:\s+down)?)\s+in\s+(?P<value>.+)", re.IGNORECASE
)
_MOVED = re.compile(
    rf"{_BEFORE}(?:moved|relocated|emigrated)(?:\s+(?:back|over|away|out|house))?(?:\s+from\s+.+?)?\s+to\s+(?P<value>.+)",
    re.IGNORECASE,
)
_HOME = re.compile(
    r"^(?P<who>.*?)\s*(?:current\s+)?(?:home\s?town|home\s+city|home|residence)\s+is\s+(?:now\s+)?(?:in\s+)?(?P<value>.+)",
    re.IGNORECASE,
)
_WORKS_AS = re.compile(
    rf"{_BEFORE}(?:(?:works?|working|employed|hired|started|starts)\b[^,]*?\bas|promoted\s+to|(?:is|am|became|become)(?!\s+not))"
    r"(?:\s+(?:now|currently|also|still))*"
    r"\s+(?P<article>an?|the)?\s*(?P<value>[^,]+)",
    re.IGNORECASE,
)
_JOINED_AS = re.compile(r"\bjoined\s+.*?\bas\s+(?:an?|the)\s+(?P<value>[^,]+)", re.IGNORECASE)
_JOB_IS = re.compile(
    r"^(?P<who>.*?)\s*(?:job|profession|occupation)\s+is\s+(?:now\s+)?(?:an?\s+)?(?P<value>[^,]+)", re.IGNORECASE
)
_IDLE = re.compile(rf"{_BEFORE}(?P<value>retired|unemployed)\b", re.IGNORECASE)
_WORKS_AT = re.compile(
    rf"{_BEFORE}(?:(?:works?|working)(?:\s+(?:full[- ]time|part[- ]time|remotely|now))?\s+(?:at|for)"
    r"|employed\s+(?:by|at)|joined|started(?:\s+working|\s+a\s+new\s+job|\s+a\s+job)?\s+at)\s+(?P<value>.+)",
    re.IGNORECASE,
)
_WORKS_IN = re.compile(rf"{_BEFORE}(?:works?|working)\s+in\s+(?P<value>.+)", re.IGNORECASE)
_LEFT = re.compile(rf"{_BEFORE}(?:left|quit|resigned\s+from|laid\s+off\s+(?:by|from))\s+(?P<value>.+)", re.IGNORECASE)
_GENERAL_READ_WORDS = frozenset(
    listed("""
    home hometown residence live lives living reside resides residing based settled moved relocated emigrated job
    profession occupation joined retired unemployed work works working employed started left quit resigned laid""")
)
"""One of these, or a title, is in all that the readings of homes and jobs find."""
_TITLE_WORDS = frozenset({*OCCUPATIONS, *(f"{word}s" for word in OCCUPATIONS)})
_TITLE_ENDINGS = ("ologist", "ician", "grapher")
_TITLE_END = re.compile(r"\b(?:at|for|of|in|with|who|from|on|by|again|now|there|instead|anymore)\b")
_EMPLOYER_AFTER = re.compile(r"\s(?:at|for)\s+(?P<value>[A-Z].*)")

Reading = Callable[[re.Match[str]], Iterator[tuple[str, Rule, tuple[ValuePart, ...]]]]


def english_statements(sentences: Sequence[str], *, me: str | None, silent: str | None) -> Iterator[Statement]:
    """Yield what *sentences* state; *me* is whoever speaks, *silent* whom sentences without a subject are about."""
    speaking = Speaking(me, silent)
    for sentence in sentences:
        whole, setting = english_setting(plain(sentence))
        for clause in clauses(whole):
            bare, condition = english_condition(clause)
            found = list(_stated(bare, speaking)) if condition else []
            if found:
                yield from said_when(found, setting, condition)
            else:
                yield from said_when(_stated(clause, speaking), setting)


def _stated(clause: str, speaking: Speaking) -> Iterator[Statement]:
    words = words_of(clause)
    for pattern, reading in _READINGS if _may_be_read(clause, words) else ():
        match = pattern.search(clause)
        if match is None:
            continue
        named = match.groupdict()
        who = subject_of(named["who"] if "who" in named else clause[: match.start()], speaking)
        if who is None:
            continue
        found = [
            Statement(rule, f"{slot} of {' '.join(who)}", parts, reading is not _left and not named.get("no"))
            for slot, rule, parts in reading(match)
        ]
        if found:
            speaking.last = who
            yield from found
            if reading in _WHOLE:
                return
    yield from preferences(clause, words, speaking)
    yield from list(persons(clause, words, speaking)) or general(clause, words, speaking)


def _may_be_read(clause: str, words: frozenset[str]) -> bool:
    if not (words.isdisjoint(_GENERAL_READ_WORDS) and words.isdisjoint(_TITLE_WORDS)):
        return True
    return any(ending in clause.lower() for ending in _TITLE_ENDINGS)


def _lives(match: re.Match[str]) -> Iterator[tuple[str, Rule, tuple[ValuePart, ...]]]:
    place = place_in(match["value"])
    if place is not None:
        yield "home", Rule.LOCATION, (place,)


def _works_as(match: re.Match[str]) -> Iterator[tuple[str, Rule, tuple[ValuePart, ...]]]:
    title = _title(match["value"])
    if title:
        yield "job", Rule.OCCUPATION, (ValuePart("title", title),)
        after = _EMPLOYER_AFTER.search(match["value"])
        employer = names_in(after["value"]) if after else ""
        if employer:
            yield "employer", Rule.OCCUPATION, (ValuePart("employer", employer),)


def _works_at(match: re.Match[str]) -> Iterator[tuple[str, Rule, tuple[ValuePart, ...]]]:
    employer = names_in(match["value"])
    if employer:
        yield "employer", Rule.OCCUPATION, (ValuePart("employer", employer),)


def _works_in(match: re.Match[str]) -> Iterator[tuple[str, Rule, tuple[ValuePart, ...]]]:
    place = place_in(match["value"])
    if place is not None:
        yield "place of work", Rule.OCCUPATION, (place,)


def _left(match: re.Match[str]) -> Iterator[tuple[str, Rule, tuple[ValuePart, ...]]]:
    yield from _works_at(match)


def _idle(match: re.Match[str]) -> Iterator[tuple[str, Rule, tuple[ValuePart, ...]]]:
    yield "job", Rule.OCCUPATION, (ValuePart("title", match["value"].lower()),)


def _title(text: str) -> str:
    """Return a job title in lower case, empty when *text* does not begin with one."""
    words = _TITLE_END.split(text.lower())[0].split()
    is_title = bool(words) and (stem(words[-1]) in OCCUPATIONS or words[-1].endswith(_TITLE_ENDINGS))
    return " ".join(words) if is_title else ""


_READINGS: tuple[tuple[re.Pattern[str], Reading], ...] = (
    (_HOME, _lives),
    (_LIVES, _lives),
    (_MOVED, _lives),
    (_JOB_IS, _works_as),
    (_JOINED_AS, _works_as),
    (_IDLE, _idle),
    (_WORKS_AS, _works_as),
    (_WORKS_AT, _works_at),
    (_WORKS_IN, _works_in),
    (_LEFT, _left),
)
_WHOLE = frozenset({_lives, _idle})
"""Readings that leave nothing of a clause to others."""
