"""What English clauses say of anything definite: the deadline is then, the dog is called so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from memsvc.domain.conflicts import Rule, Statement, ValuePart
from memsvc.text.facts.english_clauses import Speaking, stem, subject_of
from memsvc.text.facts.english_lexicon import COLORS, SCALES, SINGLE, STABLE_COUNTS
from memsvc.text.facts.lexicon import words as listed
from memsvc.text.facts.names import PEOPLE, is_name_of
from memsvc.text.facts.values import NUMBERS, parse_value

_ADVERBS = r"(?:(?:now|currently|already|also|still|officially|always|usually|has|have|had|been|was|were)\s+)*"
_CHANGED = (
    r"(?:moved|changed|switched|renamed|postponed|rescheduled|brought\s+forward|updated|raised|lowered|increased|reduced|set"
    r"|upgraded|extended|migrated|pushed\s+back|reset)\s+(?:from\s+.+?\s+)?(?:to|for|at)"
)
_IS = re.compile(
    rf"(?:^|(?<=\s)){_ADVERBS}(?P<verb>(?:is|are|am)(?P<no>\s+not|\s+no\s+longer)?(?:\s+(?:now|currently|still|already))*(?:\s+(?:called|named|{_CHANGED}))?"
    rf"|{_CHANGED})\s+(?P<at>(?:(?:on|at|in|due|by)\s+)*)(?P<value>.+)$",
    re.IGNORECASE,
)
_DOES = re.compile(
    r"(?:^|(?<=\s))(?P<verb>costs?|starts?|begins?|opens?|closes?|ends?|runs?|expires?|takes?|lasts|happens?|weighs?|holds?|contains?)"
    r"\s+(?:now\s+)?(?:(?:on|at|in|up\s+to)\s+)*(?P<value>.+)$",
    re.IGNORECASE,
)
_HAS = re.compile(
    rf"(?:^|(?<=\s))(?:has|have)\s+(?:now\s+)?(?P<number>\d+|{'|'.join(NUMBERS)}|no|a|an)\s+(?P<thing>\w+)(?=\s*$|\s*,)",
    re.IGNORECASE,
)
_END = re.compile(r"\s+(?:anymore|now|again|these days|from now on|, .*|,.*)$")
_TEXTUAL = re.compile(
    r"\b(?:address|password|passcode|name|codename|nickname|url|hostname|number|email)\s*$", re.IGNORECASE
)
"""Attributes whose values are compared as they are, whatever numbers are in them."""
_FREE_WORDS = 4
_PLACED = frozenset(listed("venue location destination room seat headquarters meeting capital"))
"""Attributes whose value is where something is; what others are in, or on, is a state of theirs."""
_NOT_NAMES = frozenset(
    listed("""
    good bad great nice kind slow fast big small large late early near close soon tight long short old young
    important wrong right fine okay ok ready done ill sick happy sad angry tired here there unknown unclear
    missing visiting nice strict friendly helpful away busy back broken down up same different very really
    too so quite not full empty that what still a an the being going coming working known in on at with""")
)


_READ_WORDS = frozenset(
    listed("""
    has have is are am moved changed switched renamed postponed rescheduled brought updated raised lowered increased
    reduced set upgraded extended migrated pushed reset cost costs start starts begin begins open opens close closes end
    ends run runs expire expires take takes lasts happen happens weigh weighs hold holds contain contains""")
)
"""One of these is in all that is read here."""


def general(clause: str, words: AbstractSet[str], speaking: Speaking) -> Iterator[Statement]:
    """Yield what a clause says of a definite subject: typed values, words of a scale, or an attribute's one value.

    *words* are those of the clause.
    """
    if _READ_WORDS.isdisjoint(words):
        return
    match = _HAS.search(clause)
    if match is not None and match["thing"].lower() in STABLE_COUNTS:
        yield from _has(clause, match, speaking)
        return
    for pattern in (_IS, _DOES):
        match = pattern.search(clause)
        if match is not None:
            yield from _is(clause, match, speaking, denied=pattern is _IS and match["no"] is not None)
            return


def _has(clause: str, match: re.Match[str], speaking: Speaking) -> Iterator[Statement]:
    who = subject_of(clause[: match.start()], speaking)
    if who is None:
        return
    word = match["number"].lower()
    number = {"no": "0", "a": "1", "an": "1"}.get(word) or str(NUMBERS.get(word, word))
    thing = {"kid": "child", "children": "child"}.get(stem(match["thing"]), stem(match["thing"]))
    yield Statement(Rule.GENERAL, f"number of {thing} of {' '.join(who)}", (ValuePart("amount", number),))


def _is(clause: str, match: re.Match[str], speaking: Speaking, *, denied: bool) -> Iterator[Statement]:
    said = clause[: match.start()]
    who = subject_of(said, speaking) if said.strip() or speaking.last else None
    if who is None:
        return
    speaking.last = who
    value = _END.sub("", match["value"].strip())
    verb = "is" if match.re is _IS else stem(match["verb"])
    topic = f"{verb} {' '.join(who)}"
    scaled = _scaled(value)
    if scaled is not None:
        yield Statement(Rule.GENERAL, f"{topic} scale {scaled.sort}", (scaled,), not denied)
        return
    is_name = verb == "is" and match["verb"].lower().endswith(("called", "named"))
    if len(who) == 1 and who[0] in {speaking.me, "we"} and not is_name:
        return
    parts = () if _TEXTUAL.search(said) else parse_value(value)
    if not parts and verb == "is":
        parts = _single(said, match["verb"], value, is_at=bool(match["at"].strip()))
    if is_name or (parts and PEOPLE.intersection(who) and value[0].isupper()):
        topic = f"{verb} {' '.join(sorted({*who, 'name'}))}"
    if parts:
        yield Statement(Rule.GENERAL, topic, parts, not denied)


def _scaled(value: str) -> ValuePart | None:
    words = value.lower().removeprefix("a ").removeprefix("an ").split()
    if not words or (len(words) > 1 and words[1] not in {"to", "with", "by", "for", "again", "today", "since"}):
        return None
    for number, scale in enumerate(SCALES):
        if words[0] in scale:
            return ValuePart(str(number), words[0])
    return None


def _single(said: str, verb: str, value: str, *, is_at: bool) -> tuple[ValuePart, ...]:
    """Return the one value of an attribute that has one, or of what is called so."""
    words = value.split()
    if not 0 < len(words) <= _FREE_WORDS or words[0].lower() in _NOT_NAMES:
        return ()
    if words[0].lower() in COLORS:
        return (ValuePart("color", words[0].lower()),)
    subject = [stem(word) for word in re.findall(r"[\w']+", said.partition(" of ")[0].partition(" for ")[0])]
    attribute = subject[-1] if subject else ""
    if is_at and attribute not in _PLACED:
        return ()
    is_single = attribute in SINGLE and is_name_of(attribute, value)
    if "favorite" in subject or is_single or verb.lower().endswith(("called", "named")) or "favorite" in verb:
        return (ValuePart("value", " ".join(words).lower().strip("\"'")),)
    return ()
