"""Entailment between two texts by rules: one memory can replace both if its text says all of the other's.

To keep the same thing twice costs little; to merge two things that only look alike loses one of them. So texts are
alike only sentence by sentence, each in the same words: words that say nothing left out, synonyms and the third person
of common verbs taken for one, and a clause that is first in one and last in the other. A number, a name, a
negation, a tense, a direction that differs makes another sentence, and so does every word not known to say nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from memsvc.domain.conflicts import LOOSE, Fact
from memsvc.text.analysis import HAN, query_terms, segmenter
from memsvc.text.facts import USER, facts_in
from memsvc.text.facts.values import MONTHS, NUMBERS, han_number
from memsvc.text.paraphrase_lexicon import (
    BASES,
    DEGREES,
    FILLERS,
    NEGATIONS,
    OURS,
    PHRASES,
    POINTING,
    RELATIONS,
    RELATIVE,
    SAME,
    SELF,
)
from memsvc.text.statement_split import statements

MOST_CHARS = 2_000
"""A longer text says too much to be compared; it is like none."""
MOST_SENTENCES = 40

_USERS = frozenset({"", USER, "human", "用户", "我"})
_TOKEN = re.compile(
    rf"(?P<han>[{HAN}]+)|(?P<date>@[\d-]+)|[^\W_{HAN}]+(?:(?:[.'’@/:+&_-]|,(?=\d{{3}}))[^\W_{HAN}]+)*[+#]*"
    r"|[-−](?=\d)|[^\w\s.,;:!\"'(){}\[\]“”‘’„«»、。…·《》「」『』【】（），；：！~`|-]"
)
_NEGATED = re.compile(r"n['’]t\b", re.IGNORECASE)
_CLITIC = re.compile(r"['’](?:s|m|re)\b", re.IGNORECASE)
_CONTRACTED = {"won't": "will not", "can't": "cannot", "shan't": "shall not"}
_CONTRACTION = re.compile(r"\b(?:won|can|shan)['’]t\b", re.IGNORECASE)
_MONTH = rf"(?P<month>{'|'.join(sorted(MONTHS, key=len, reverse=True))})"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_HAN_NUMBER = r"(?:[零一二两三四五六七八九十]{1,3}|\d{1,2})"
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_NUMBERS = {**NUMBERS, **{word: 10 * ten for ten, word in enumerate(_TENS, start=2)}}
_DATES = (
    re.compile(rf"\b{_MONTH}\.?\s+(?:the\s+)?{_DAY}\b(?![:.]?\d)", re.IGNORECASE),
    re.compile(rf"\b{_DAY}\s+(?:of\s+)?{_MONTH}\b", re.IGNORECASE),
    re.compile(rf"(?P<month>{_HAN_NUMBER})月(?P<day>{_HAN_NUMBER})[日号]"),
)
_PHRASE = re.compile(
    "|".join(
        re.escape(phrase) if not phrase.isascii() else rf"\b{re.escape(phrase)}\b"
        for phrase in sorted(PHRASES, key=len, reverse=True)
    )
)
_DENIAL = re.compile(
    r"\b(?:not|no|never|none|nothing|nobody|neither|nor|without|cannot|hardly|rarely)\b|n['’]t\b|[不没未无别勿莫非否]",
    re.IGNORECASE,
)
_ACRONYM = re.compile(r"\b(?:US|IT|WHO)\b")
"""Would be other words in small letters."""
_LIKING = re.compile(r"\b(?:love|adore)(s?)(?= (?:\w+ing|to)\b)")
""""To love doing something" means to like it much; "to love a person" does not."""
_HAN_LIKING = re.compile("(?:喜|(?<![可热恋亲敬酷偏钟心]))爱(?=[喝吃看听玩])")
_DIGIT = re.compile(r"\d")
_AS_WELL = re.compile(r"\s(?:too|as well)\s*[.!]*\s*\Z")
_HALF_OF_DAY = re.compile(r"(?<=\d)\s*([ap])\.?m\b\.?")


@dataclass(frozen=True, slots=True)
class NormalizedSentence:
    """One sentence in a form that is equal for sentences that say the same.

    Attributes:
        words: Those that say something, in order.
        stated: What the rules of `memsvc.text.facts` understand of it.
        rest: The words beyond what is stated, in order.
    """

    words: tuple[str, ...]
    stated: frozenset[Fact] = frozenset()
    rest: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NormalizedText:
    """Content of a text, sentence by sentence.

    Attributes:
        texts: The unchanged sentences, one for each of *said*.
        is_relative: Whether it depends on when it was said.
        is_lasting: Whether each sentence states something that stays true, rather than telling an event.
        is_pointing: Whether it begins with a reference to the text before: "she", "this".
    """

    said: tuple[NormalizedSentence, ...] = ()
    texts: tuple[str, ...] = ()
    is_relative: bool = False
    is_lasting: bool = False
    is_pointing: bool = False


NOTHING = NormalizedText()
"""The gist of what cannot be compared."""


@lru_cache(maxsize=4096)
def gist_of(text: str, speaker: str = "") -> NormalizedText:
    """Return what *text*, said by *speaker*, says; `NOTHING` for one that is too long, or without words."""
    if len(text) > MOST_CHARS:
        return NOTHING
    pieces = statements(text, most=MOST_SENTENCES + 1)
    if not pieces or len(pieces) > MOST_SENTENCES:
        return NOTHING
    is_user = speaker.strip().casefold() in _USERS
    said: list[NormalizedSentence] = []
    texts: list[str] = []
    for piece in pieces:
        one = NormalizedSentence((piece.text,)) if piece.is_code else _normalized(piece.text, speaker, is_user=is_user)
        if one.words:
            said.append(one)
            texts.append(piece.text)
    return NormalizedText(
        tuple(said),
        tuple(texts),
        is_relative=any(not RELATIVE.isdisjoint(one.words) for one in said),
        is_lasting=bool(said) and all(one.stated for one in said),
        is_pointing=bool(said) and said[0].words[0] in POINTING,
    )


def says_the_same(one: NormalizedSentence, other: NormalizedSentence) -> bool:
    """Return whether two sentences say the same."""
    if one.words == other.words or "".join(one.words) == "".join(other.words):
        return True
    if one.stated and one.stated == other.stated and one.rest == other.rest:
        return True
    return _is_turned(one.words, other.words)


def says_all_of(larger: NormalizedText, smaller: NormalizedText) -> bool:
    """Return whether the first sentence of both says the same, and each further one of *smaller* is in *larger*.

    The first sentence names the subject of the others.
    """
    if not smaller.said or not larger.said or not says_the_same(larger.said[0], smaller.said[0]):
        return False
    return all(any(says_the_same(one, other) for other in larger.said) for one in smaller.said[1:])


def are_alike(one: NormalizedText, other: NormalizedText) -> bool:
    """Return whether one of two texts says all that the other says."""
    return says_all_of(one, other) or says_all_of(other, one)


def join_texts(texts: Sequence[str], speaker: str = "") -> str:
    """Return the first of *texts* with the sentences of the others that say something new, in order."""
    known = list(gist_of(texts[0], speaker).said)
    added: list[str] = []
    for text in texts[1:]:
        gist = gist_of(text, speaker)
        for one, sentence in zip(gist.said, gist.texts, strict=True):
            if not any(says_the_same(one, other) for other in known):
                known.append(one)
                added.append(sentence)
    if not added:
        return texts[0]
    separator = "\n" if "\n" in texts[0].strip() else "" if re.search(rf"[{HAN}]", texts[0]) else " "
    return separator.join([_with_full_stop(texts[0].rstrip()), *map(_with_full_stop, added[:-1]), added[-1]])


def is_rewording_of(text: str, plain: str) -> bool:
    """Return whether *text* says what *plain* says as far as words tell: none that matters is lost, added or denied."""
    if set(query_terms(text)) != set(query_terms(plain)) or len(text) > 2 * len(plain):
        return False
    return len(_DENIAL.findall(text)) == len(_DENIAL.findall(plain))


def _with_full_stop(sentence: str) -> str:
    if sentence[-1] in ".!?。！？…；;":
        return sentence
    return f"{sentence}。" if re.search(rf"[{HAN}]", sentence) else f"{sentence}."


def _is_turned(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return whether one is the other with its beginning put to the end."""
    if len(one) != len(other) or sorted(one) != sorted(other):
        return False
    twice = one + one
    return any(twice[start : start + len(other)] == other for start in range(1, len(one)))


def _normalized(sentence: str, speaker: str, *, is_user: bool) -> NormalizedSentence:
    words = tuple(_words(sentence, is_user=is_user))
    stated = frozenset(one for one in facts_in(sentence, speaker=speaker) if not one.topic.startswith(LOOSE))
    if not stated:
        return NormalizedSentence(words)
    known = {word for one in stated for word in _words(one.topic, is_user=is_user)}
    known |= {
        word for one in stated for part in one.parts for word in _words(part.text.split(":")[-1], is_user=is_user)
    }
    return NormalizedSentence(
        words, stated, tuple(word for word in words if word not in known and word not in RELATIONS)
    )


def _words(sentence: str, *, is_user: bool) -> list[str]:
    """Return the words of a sentence that say something, each in its normal form."""
    found = [word for word in map(partial(_normal, is_user=is_user), _tokens(sentence)) if word]
    if NEGATIONS.isdisjoint(found):
        return [word for word in found if word not in DEGREES]
    return found


def _tokens(sentence: str) -> Iterator[str]:
    text = _ACRONYM.sub(lambda match: f"{match[0]}.acronym", unicodedata.normalize("NFKC", sentence))
    if "'" in text or "’" in text:
        text = _CONTRACTION.sub(lambda match: _CONTRACTED[match[0].casefold().replace("’", "'")], text)
        text = _CLITIC.sub("", _NEGATED.sub(" not", text))
    text = _AS_WELL.sub("", _LIKING.sub(r"like\1", text.casefold()))
    if not text.isascii():
        text = _HAN_LIKING.sub("喜欢", text)
    # Test substrings first: few sentences have a phrase or a date, and matching at every position is slow.
    if any(phrase in text for phrase in PHRASES):
        text = _PHRASE.sub(lambda match: PHRASES[match[0]], text)
    if "月" in text or _DIGIT.search(text):
        text = _HALF_OF_DAY.sub(r"\1m", text)
        for pattern in _DATES:
            text = pattern.sub(_date, text)
    for match in _TOKEN.finditer(text):
        yield from segmenter().cut(match[0]) if match["han"] else (match[0],)


def _date(match: re.Match[str]) -> str:
    month = MONTHS.get(match["month"].lower()) or han_number(match["month"])
    return f" @{month}-{han_number(match['day'])} "


def _normal(word: str, *, is_user: bool) -> str:
    if word in FILLERS:
        return ""
    if word in SELF:
        return USER if is_user or word not in {"user", "用户"} else word
    if word in OURS:
        return "we"
    if word in _NUMBERS:
        return str(_NUMBERS[word])
    if word[0].isdigit():
        return word.replace(",", "")
    base = BASES.get(word, word)
    return SAME.get(base, base)
