"""What English clauses say somebody likes, dislikes or prefers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from memsvc.domain.conflicts import Rule, Statement, ValuePart
from memsvc.text.facts.english_clauses import Speaking, stem, subject_of
from memsvc.text.facts.english_lexicon import CONTRASTS
from memsvc.text.facts.lexicon import words as listed

_PREFERENCE_ADVERBS = (
    r"(?:(?:now|currently|also|still|really|actually|always|generally|usually|just|absolutely|is|am|are|has|have)\s+)*"
)
_LIKES = re.compile(
    rf"(?:^|(?<=\s)){_PREFERENCE_ADVERBS}(?:"
    r"(?P<no>(?:do|does)\s+not\s+(?:really\s+|particularly\s+)?(?:like|love|enjoy)|no\s+longer\s+(?:likes?|loves?|enjoys?)|dislikes?|hates?|detests?"
    r"|loathes?|can\s+not\s+stand|can\s+not\s+bear|stopped\s+(?:liking|drinking|eating|smoking|playing|watching)|no\s+longer\s+(?:drinks?|eats?|smokes?|plays?|watch(?:es)?)"
    r"|(?:do|does)\s+not\s+(?:drink|eat|smoke)|gave\s+up(?:\s+(?:drinking|eating|smoking|playing|watching))?|not\s+fond\s+of|not\s+a\s+fan\s+of|tired\s+of|sick\s+of)"
    r"|likes?|loves?|enjoys?|adores?|fond\s+of|a\s+(?:big\s+)?fan\s+of)\s+(?P<value>.+)",
    re.IGNORECASE,
)
_PREFERS = re.compile(
    rf"(?:^|(?<=\s)){_PREFERENCE_ADVERBS}prefers?\s+(?P<value>.+?)(?:\s+(?:over|to|rather\s+than|instead\s+of)\s+(?P<other>.+))?$",
    re.IGNORECASE,
)
_TAIL = re.compile(
    r"\s+(?:anymore|now|these days|nowadays|very much|a lot|most|best|again|too|as well|at all|so much"
    r"|any longer|, .*)$",
    re.IGNORECASE,
)
_AND = re.compile(r"\s*(?:,|\band\b|\bor\b)\s*")
_EXCLAIMED = re.compile(r"\s*(?:like|love|enjoy|hate|adore|prefer)\b", re.IGNORECASE)
"""Without a subject, "Love it!" is no statement, but "Loves it." is."""
_UNLIKE = re.compile(r"(?:to\s+know|that|this|who|how|when|it|them|you|him|her|of|for|in|being\s+in)\b", re.IGNORECASE)
_COMPARED = re.compile(r".*\b(?:is|are|am)\b.*\blikes?\s", re.IGNORECASE)
_NO_THING = frozenset(listed("you they we he she i was were have has is are be how it who had them me us if so"))
_LITTLE = frozenset(listed("the a an my his her their our to of some"))
_DOING = frozenset(listed("drinking eating smoking playing watching"))
_MOST_WORDS = 6


_PREFERENCE_READ_WORDS = frozenset(
    listed("""
    like likes love loves enjoy enjoys dislike dislikes hate hates detest detests loathe loathes stand bear stopped
    longer drink drinks eat eats smoke smokes gave fond fan tired sick adore adores prefer prefers""")
)
"""One of these is in all that is read here."""


def preferences(clause: str, words: AbstractSet[str], speaking: Speaking) -> Iterator[Statement]:
    """Yield likes and dislikes, one for each thing, and what is preferred to what; *words* are those of the clause."""
    if _PREFERENCE_READ_WORDS.isdisjoint(words):
        return
    match = _LIKES.search(clause)
    if match is not None:
        yield from _likes(clause, match, speaking)
        return
    match = _PREFERS.search(clause)
    if match is not None:
        yield from _prefers(clause, match, speaking)


def _likes(clause: str, match: re.Match[str], speaking: Speaking) -> Iterator[Statement]:
    who = _who(clause, match, speaking)
    if who is None or _COMPARED.match(match[0]) or _UNLIKE.match(match["value"]):
        return
    speaking.last = who
    for thing in _AND.split(_trimmed(match["value"])):
        words = _content(thing)
        if words:
            topic = f"liking {' '.join(words)} of {' '.join(who)}"
            yield Statement(Rule.PREFERENCE, topic, (ValuePart("liking", "likes"),), match["no"] is None)


def _prefers(clause: str, match: re.Match[str], speaking: Speaking) -> Iterator[Statement]:
    who = _who(clause, match, speaking)
    if who is None:
        return
    speaking.last = who
    owner = " ".join(who)
    chosen, other = _content(_trimmed(match["value"])), _content(_trimmed(match["other"] or ""))
    if chosen and other:
        pair = " or ".join(sorted((" ".join(chosen), " ".join(other))))
        yield Statement(Rule.PREFERENCE, f"choice of {pair} of {owner}", (ValuePart("choice", " ".join(chosen)),))
    for number, scale in enumerate(CONTRASTS):
        for pole, words in enumerate(scale):
            said = [word for word in chosen if word in words or f"{word}s" in words]
            if said:
                rest = " ".join(word for word in chosen if word not in said)
                topic = f"preferred {rest or 'choice'} {number} of {owner}"
                yield Statement(Rule.PREFERENCE, topic, (ValuePart("pole", f"{pole}:{said[0]}"),))
                return


def _who(clause: str, match: re.Match[str], speaking: Speaking) -> tuple[str, ...] | None:
    said = clause[: match.start()]
    if not said.strip() and speaking.last is None and _EXCLAIMED.match(match[0]):
        return None
    return subject_of(said, speaking)


def _trimmed(text: str) -> str:
    text = text.strip().rstrip(".!")
    while True:
        shorter = _TAIL.sub("", text)
        if shorter == text:
            return text
        text = shorter


def _content(text: str) -> list[str]:
    words = [stem(word) for word in re.findall(r"[^\W_][\w'+#-]*", text)]
    if len(words) > 1 and words[0] in _DOING:
        words = words[1:]
    kept = [word for word in words if word not in _LITTLE]
    return kept if len(kept) <= _MOST_WORDS and _NO_THING.isdisjoint(kept) else []
