"""What English clauses say of how old somebody is, and of what is used as what."""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from memsvc.domain.conflicts import Rule, Statement, ValuePart
from memsvc.text.facts.english_clauses import Speaking, stem, subject_of
from memsvc.text.facts.english_lexicon import SINGLE
from memsvc.text.facts.lexicon import words

_AGE = re.compile(
    r"(?:^|(?<=\s))(?:is|am|are)\s+(?:(?:now|currently|already)\s+)*(?P<years>\d{1,3})"
    r"(?P<unit>[\s-]+years?[\s-]+old|\s+years\s+of\s+age)?(?:\s+now|\s+already)?$",
    re.IGNORECASE,
)
_USES = re.compile(
    r"(?:^|(?<=\s))(?:(?:now|currently|always|mainly|have|has)\s+)*(?:uses?|using|chose|picked|adopted|went\s+with"
    r"|(?:switched|moved|migrated|changed)\s+(?:over\s+)?(?:from\s+.+?\s+)?to)\s+(?P<value>(?:\S+\s+){0,3}?\S+)"
    r"\s+(?:as|for)\s+(?P<of>my|our|his|her|their|the)\s+(?P<attribute>(?:\w+\s+)??\w+?)"
    r"(?:\s+(?:now|instead|these days))?$",
    re.IGNORECASE,
)
_KIN = frozenset(
    words("""
    wife husband spouse partner girlfriend boyfriend fiance fiancee son daughter child kid brother sister mother father
    mom mum dad grandmother grandfather grandma grandpa aunt uncle cousin niece nephew friend""")
)


_USE_WORDS = frozenset(words("use uses using chose picked adopted went switched moved migrated changed"))
"""One of these is in all that `_USES` finds."""
_AGE_WORDS = frozenset({"is", "am", "are"})


def persons(clause: str, said: AbstractSet[str], speaking: Speaking) -> Iterator[Statement]:
    """Yield how old somebody is, or what is used as the one thing of its sort; *said* are the words of the clause."""
    match = None if _AGE_WORDS.isdisjoint(said) else _AGE.search(clause)
    if match is not None:
        yield from _age(clause[: match.start()], match, speaking)
        return
    match = None if _USE_WORDS.isdisjoint(said) else _USES.search(clause)
    if match is not None:
        yield from _used(clause[: match.start()], match, speaking)


def _age(said: str, match: re.Match[str], speaking: Speaking) -> Iterator[Statement]:
    who = subject_of(said, speaking)
    if who is None or not (match["unit"] or speaking.me in who[:1] or not _KIN.isdisjoint(who)):
        return
    if speaking.me in who and len(who) > 1 and _KIN.isdisjoint(who):
        return
    speaking.last = who
    yield Statement(Rule.GENERAL, f"age of {' '.join(who)}", (ValuePart("years", match["years"]),))


def _used(said: str, match: re.Match[str], speaking: Speaking) -> Iterator[Statement]:
    attribute = match["attribute"].lower()
    user = subject_of(said, speaking)
    if user is None or stem(attribute.split()[-1]) not in SINGLE:
        return
    owned = subject_of(f"our {attribute}", speaking) or ()
    who = owned if user == ("we",) or match["of"].lower() == "the" else tuple(sorted({*owned, *user}))
    yield Statement(Rule.GENERAL, f"is {' '.join(who)}", (ValuePart("value", match["value"].lower()),))
