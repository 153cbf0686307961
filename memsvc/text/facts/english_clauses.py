"""The parts of English clauses: who is spoken of, and what a phrase names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from memsvc.domain.conflicts import ValuePart
from memsvc.text.facts.english_lexicon import DETERMINERS, GENERIC, NO_SUBJECT
from memsvc.text.facts.english_lexicon import words as listed
from memsvc.text.facts.values import MONTHS, WEEKDAYS, english_place

_CONTRACTIONS = tuple(
    (re.compile(pattern, re.IGNORECASE), plain)
    for pattern, plain in (
        (r"\bcan't\b|\bcannot\b", "can not"),
        (r"\bwon't\b", "will not"),
        (r"n't\b", " not"),
        (r"\b(i)'m\b", r"\1 am"),
        (r"\b(i|we|you|they)'ve\b", r"\1 have"),
        (r"\b(we|you|they)'re\b", r"\1 are"),
        (r"\b(he|she|it)'s\b", r"\1 is"),
        (r"'d\b", " would"),
        (r"'ll\b", " will"),
        (r"\bfavourite", "favorite"),
        (r"\bcolour", "color"),
        (r"\bany more\b", "anymore"),
    )
)
_UNSAID = re.compile(
    r"\b(?:if|unless|whether|would|could|might|may|maybe|perhaps|probably|possibly|should|wants?|wanted|wish(?:es|ed)?"
    r"|hopes?|hoped|hoping|plans? to|planned|planning|going to|will|consider(?:s|ed|ing)?|thinking|thinks?|thought"
    r"|dream(?:s|t|ed|ing)?|imagine[sd]?|used to|formerly|previously|former|once|back then|as an?|when|while"
    r"|until|till|ago"
    r"|before|last year|said|says|saying|told|tells|claim(?:s|ed)?|believes?|believed|according|asked|asks|heard"
    r"|supposed|allegedly|for example|for instance|pretends?|pretended|recommend(?:s|ed)?|suggest(?:s|ed)?"
    r"|almost|nearly|both"
    r"|sometimes|temporarily|either|was born"
    r"|(?<!favorite )(?:story|novel|book|film|movie|song|character))\b(?! (?:child(?:ren)?'s)\b)",
    re.IGNORECASE,
)
_UNSAID_ALONE = frozenset(
    listed("""
    if unless whether would could might maybe perhaps probably possibly should want wants wanted wish wishes wished
    hope hopes hoped hoping planned planning will consider considers considered considering thinking think thinks
    thought dream dreams dreamt dreamed dreaming imagine imagines imagined formerly previously former once when while
    until till ago before said says saying told tells claim claims claimed believe believes believed according asked
    asks heard supposed allegedly pretend pretends pretended recommend recommends recommended suggest suggests suggested
    almost nearly both sometimes temporarily either""")
)
"""`_UNSAID` finds these at any position, except jobs *as* something and what is a *child's*."""
_UNSAID_WORDS = _UNSAID_ALONE.union(
    listed("may plan plans going used back as last for was story novel book film movie song character")
)
"""One of these is in all that `_UNSAID` finds. Looking for words is quicker than looking for patterns."""
_EXEMPTING = frozenset({"as", "child", "children"})
_JOB_AS = re.compile(
    r"\b(?:works?|working|employed|hired|job|joined\b.*?|started\b.*?|position|role)\s+as\s+an?\b", re.IGNORECASE
)
_MONTH_MAY = re.compile(r"\bMay\b(?=\s+\d|\s*[.,]|$)")
_CENTURIES = ("19", "20")
_PAST_YEAR = re.compile(r"\b(?:in|since|until|from|during)\s+(?:19|20)\d\d\b", re.IGNORECASE)
_QUOTED = re.compile(r"[\"“”«»„]([^\"“”«»„]*)[\"“”«»„]|(?<!\w)'([^']{12,})'(?!\w)")
_MOST_QUOTED_WORDS = 2
_VERBS = (
    r"lives?|works?|moved|relocated|joined|left|quit|likes?|loves?|hates?|enjoys?|prefers?|dislikes?|resides?|settled|became"
    r"|i|he|she|they|it|we|my|his|her|our|their|the"
)
_MAY_SPLIT = re.compile(r"[;,]|\s(?:and|but)\s", re.IGNORECASE)
_SPLIT = re.compile(
    rf"\s*(?:;|,?\s+but|,?\s+and|,)\s+(?=(?:(?:now|then|currently|recently|just|also|has|have|is|are|am|do|does|not)\s+)*(?:{_VERBS})\b)",
    re.IGNORECASE,
)
_LEADING = re.compile(
    r"^(?:(?:actually|currently|now|well|so|today|these days|nowadays|at the moment|recently|note|update|fyi"
    r"|also|fact|preference"
    r"|since (?:last )?\w+|as of \w+|from now on|starting \w+)\s*[,:]?\s+)+",
    re.IGNORECASE,
)
_ANY_WORD = re.compile(r"\w+")
_WORD = re.compile(r"[^\W_](?:[\w.+#-]*[\w+#])?(?:'s)?")
_NAMES = re.compile(
    r"^(?:the\s+)?((?:[A-Z][\w'.&-]*|\d+)(?:(?:\s+|,\s*)(?:(?:de|da|do|of|the|am|an|la|le|los|las|del|upon|van|&)\s+)?[A-Z][\w'.&-]*)*)"
)
_NO_PLACES = WEEKDAYS.keys() | MONTHS.keys()
_MOST_WORDS = 6


@dataclass(slots=True)
class SpeakerContext:
    """The speaker and the last person mentioned.

    Attributes:
        me: The speaker, to whom "I" refers; None when unknown.
        silent: The subject of a sentence without one; None when unknown.
        last: The subject of the clause before.
    """

    me: str | None
    silent: str | None
    last: tuple[str, ...] | None = None


def plain(sentence: str) -> str:
    """Return a sentence without contractions; quoted speech is left out, quoted names stay."""
    text = sentence.replace("’", "'").replace("‘", "'")
    text = _QUOTED.sub(_without_quotes, text)
    if "'" in text or "our" in text or "more" in text or "cannot" in text:
        for pattern, written in _CONTRACTIONS:
            text = pattern.sub(written, text)
    return text


def _without_quotes(match: re.Match[str]) -> str:
    said = match[1] if match[1] is not None else match[2]
    return said if len(said.split()) <= _MOST_QUOTED_WORDS else " said "


def clauses(sentence: str) -> Iterator[str]:
    """Yield the clauses of a sentence that assert something now: no wish, plan, guess, report or past."""
    if sentence.rstrip(" \"')”").endswith("?"):
        return
    whole = sentence.strip().rstrip(".!… ")
    for clause in _SPLIT.split(whole) if _MAY_SPLIT.search(whole) else [whole]:
        asserted = _LEADING.sub("", clause.strip())
        if not _is_unsaid(asserted):
            yield asserted


def _is_unsaid(clause: str) -> bool:
    words = words_of(clause)
    if not words.isdisjoint(_UNSAID_ALONE) and words.isdisjoint(_EXEMPTING):
        return True
    if not words.isdisjoint(_UNSAID_WORDS):
        clause = _MONTH_MAY.sub("", _JOB_AS.sub("", clause))
        if _UNSAID.search(clause):
            return True
    return any(century in clause for century in _CENTURIES) and _PAST_YEAR.search(clause) is not None


def words_of(clause: str) -> frozenset[str]:
    """Return the words of a clause in lower case, which exclude patterns that cannot match."""
    return frozenset(_ANY_WORD.findall(clause.lower()))


def subject_of(text: str, speaking: SpeakerContext) -> tuple[str, ...] | None:
    """Return the words that tell a subject from others, sorted, or None when it is nothing definite."""
    words = _WORD.findall(text.rpartition(",")[2])
    if not words:
        return speaking.last or (None if speaking.silent is None else (speaking.silent,))
    first = words[0].lower()
    if len(words) > _MOST_WORDS or first in DETERMINERS or not NO_SUBJECT.isdisjoint(word.lower() for word in words):
        return None
    found: list[str] = []
    if first in {"i", "me", "my", "mine"}:
        if speaking.me is None:
            return None
        found.append(speaking.me)
        words = words[1:]
    elif first in {"he", "she", "they", "his", "her", "their"}:
        if speaking.last is None:
            return None
        found.extend(speaking.last)
        words = words[1:]
    elif first == "we":
        found.append("we")
        words = words[1:]
    return _distinguish(found, words)


def _distinguish(found: list[str], words: list[str]) -> tuple[str, ...] | None:
    said = [stem(word) for word in words]
    if "old" in said or "and" in said or "or" in said:
        return None
    specific = [word for word in said if word not in GENERIC] or [word for word in said if word not in {"the", "our"}]
    found.extend(specific)
    return tuple(sorted(set(found))) or None


def stem(word: str) -> str:
    """Return a word in lower case, without the genitive or plural."""
    word = word.lower().removesuffix("'s").removesuffix("'")
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3 else word  # noqa: PLR2004 - "bus"


def names_in(text: str) -> str:
    """Return the names at the beginning of *text* in lower case, without commas; empty when there are none."""
    match = _NAMES.match(text.strip())
    if match is None:
        return ""
    following = text.strip()[match.end() :].lstrip()
    if following.startswith(("and ", "or ")) and following.split()[1][:1].isupper():
        return ""
    return " ".join(match[1].replace(",", " ").rstrip(".").lower().split())


def place_in(text: str) -> ValuePart | None:
    """Return the place that *text* begins with, if it begins with a name."""
    name = names_in(text)
    if not name or name[0].isdigit() or name.split()[0] in _NO_PLACES:
        return None
    return english_place(name)
