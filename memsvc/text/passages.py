"""Passages: the text of a chunk that is embedded, its index terms, and the keywords of a memory.

Both carry what a reader of the conversation would know in addition to the words: who said it, when, under which
headings; the terms also the line before. Measured on chats: without the speaker in the embedded text recall falls to
half.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from functools import lru_cache
from operator import itemgetter

from memsvc.text.analysis import (
    HAN,
    MARKS,
    STOP_WORDS,
    UNSPACED,
    fold,
    is_han,
    limit_term_bytes,
    normal_form,
    segmenter,
    terms,
)
from memsvc.text.ranking_cues import date_terms

ANALYSIS_VERSION = "4"
"""Changes whenever the terms or passages of the same memory do: an index of another version is rebuilt."""

OWN_WEIGHT = 3
PREVIOUS_WEIGHT = 2
DATE_WEIGHT = 1
LONG_TERMS = 200
"""Text of more terms is written once: BM25 divides by the length, so three times as often scores nearly the same."""
PREVIOUS_CHARS = 1000
"""As much of the line before is taken: its subject, not all of a long answer."""


def passage(*, text: str, speaker: str, title: str, heading_path: Sequence[str], moment: datetime | None) -> str:
    """Return the text to embed: "[8 May 2023] Title > Heading", a line break, "Anna: text"; what is empty is left out.

    The date is written as in the text's own script: "[2023年5月8日]" before Han text.
    """
    date = f"[{date_terms(moment, han=is_han(text))}] " if moment else ""
    headings = _headings(title, heading_path, text)
    return f"{date}{' > '.join(headings)}\n{_line(speaker, text)}" if headings else f"{date}{_line(speaker, text)}"


def lexical_terms(
    *, text: str, speaker: str, title: str, heading_path: Sequence[str], moment: datetime | None, previous: str
) -> list[str]:
    """Return the terms to index, each part repeated by its weight: own words 3, the line before 2, the date 1.

    Repetition inside one field is what weighs parts against each other without separate length norms. In text of
    more than `LONG_TERMS` terms every part is written once.
    """
    own = _terms(" \n".join((*_headings(title, heading_path, text), _line(speaker, text))))
    date = _terms(date_terms(moment, han=is_han(text))) if moment else ()
    before = _terms(previous) if previous else ()
    if len(own) > LONG_TERMS:
        return [*before, *date, *own]
    return [*before * PREVIOUS_WEIGHT, *date * DATE_WEIGHT, *own * OWN_WEIGHT]


def summary_terms(summary: str, known: AbstractSet[str]) -> list[str]:
    """Return the terms of the summary of a memory beyond the *known* ones of its content, repeated like own words.

    Words that the content has are not repeated: the memory must not outrank one with the same content.
    """
    more = [term for term in _terms(summary) if term not in known]
    return more if len(more) > LONG_TERMS else more * OWN_WEIGHT


def previous_line(speaker: str, text: str) -> str:
    """Return what a memory passes on to the next one of its session as the line before: "Anna: text", not too long."""
    return _line(speaker, text[:PREVIOUS_CHARS])


def _terms(text: str) -> tuple[str, ...]:
    return cached_terms(text) if len(text) <= PREVIOUS_CHARS else tuple(terms(text))


@lru_cache(maxsize=256)
def cached_terms(text: str) -> tuple[str, ...]:
    """Analyse a line once, though the next line of its session needs it too; days recur even more."""
    return tuple(terms(text))


def _line(speaker: str, text: str) -> str:
    """Put the speaker before the text, unless the text begins with the speaker's name itself."""
    return f"{speaker}: {text}" if speaker and not text.startswith(speaker) else text


def _headings(title: str, heading_path: Sequence[str], text: str) -> list[str]:
    """Return title and headings, each once, without those that the text begins with."""
    if not title and not heading_path:
        return []
    start = text.lstrip("# ")
    return [heading for heading in dict.fromkeys((title, *heading_path)) if heading and not start.startswith(heading)]


# The words a memory is about, with weights, for the keyword table.


HAN_MIN_CHARS = 2
HAN_MAX_CHARS = 6
WORD_MIN_LETTERS = 3

_COUNT_WEIGHT = 0.1
_LENGTH_WEIGHT = 0.2
_FULL_LENGTH = 5
_LETTERS = rf"[^\W\d_{UNSPACED}](?:[^\W\d_{UNSPACED}]|[{MARKS}]){{0,63}}"
_RUN = re.compile(rf"([{HAN}]{{1,512}})|{_LETTERS}(?:['’]{_LETTERS}){{0,3}}")
_ASCII_WORD = re.compile(r"[a-z]{1,64}(?:'[a-z]{1,64}){0,3}")
_ASCII_BOUND = 64
_LONG_CHARS = 50_000
"""The length above which words are found one by one: for a million characters, all at once, no other thread runs for
70 ms."""
_DECIMALS = 4
_POSSESSIVE = re.compile(r"['’]s\Z", re.IGNORECASE)


def extract_keywords(text: str, limit: int = 10) -> list[tuple[str, float]]:
    """Return at most *limit* keywords of *text* with weights in (0, 1], heaviest first, ties by first appearance.

    Keywords are Chinese words of 2 to 6 characters, by real segmentation, those within a longer one among them, and
    words of at least 3 letters in lower case as written. Stop words are left out.
    Weight = min(0.1·count + 0.2·min(length / 5, 1), 1).
    """
    counts = Counter(_ascii_words(text) if text.isascii() else _candidates(text))
    weighted = [(word, _weight(len(word), count)) for word, count in counts.items() if word not in STOP_WORDS]
    weighted.sort(key=itemgetter(1), reverse=True)
    return weighted[: max(limit, 0)]


def memory_keywords(*, title: str, summary: str, content: str) -> list[tuple[str, float]]:
    """Return the keywords that a memory gets if the writer gives none."""
    return extract_keywords("\n".join(filter(None, (title, summary, content))))


def are_extracted(keywords: Collection[tuple[str, float]], *, title: str, summary: str, content: str) -> bool:
    """Return whether *keywords* follow from the texts of their memory, as now or as in earlier versions.

    Those extracted nothing from the summary.
    """
    held = set(keywords)
    texts = dict.fromkeys((summary, ""))
    return any(held == set(memory_keywords(title=title, summary=one, content=content)) for one in texts)


def _ascii_words(text: str) -> list[str]:
    """Return what `_candidates` does, several times as fast: imports extract keywords of every memory."""
    lowered = text.lower()
    if len(lowered) <= _LONG_CHARS:
        words = _ASCII_WORD.findall(lowered)
    else:
        words = [found[0] for found in _ASCII_WORD.finditer(lowered)]
    if "'s" in lowered:
        words = [word.removesuffix("'s") for word in words]
    return [
        word if len(word) <= _ASCII_BOUND else limit_term_bytes(word) for word in words if len(word) >= WORD_MIN_LETTERS
    ]


def _candidates(text: str) -> Iterator[str]:
    for run in _RUN.finditer(text):
        if run[1]:
            for word in segmenter().cut(normal_form(run[1])):
                yield from _han_words(word)
        else:
            word = fold(_POSSESSIVE.sub("", run[0]).replace("’", "'"))
            if len(word) >= WORD_MIN_LETTERS:
                yield limit_term_bytes(word)


def _han_words(word: str) -> Iterator[str]:
    """Yield a word, or of one that is too long the words within it: the longest from each place on where one ended."""
    if len(word) <= HAN_MAX_CHARS:
        if len(word) >= HAN_MIN_CHARS:
            yield word
        return
    ends: dict[int, int] = {}
    for _, start, end in segmenter().tokenize(word, "search"):
        if HAN_MIN_CHARS <= end - start <= HAN_MAX_CHARS:
            ends[start] = max(end, ends.get(start, 0))
    place = 0
    while place < len(word):
        end = ends.get(place, 0)
        if end:
            yield word[place:end]
        place = end or place + 1


@lru_cache(maxsize=1024)
def _weight(length: int, count: int) -> float:
    share = _LENGTH_WEIGHT if length >= _FULL_LENGTH else _LENGTH_WEIGHT * length / _FULL_LENGTH
    return round(min(_COUNT_WEIGHT * count + share, 1.0), _DECIMALS)
