"""The words a memory is about, with weights, for the keyword table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from operator import itemgetter

from memsvc.text.analysis import HAN, MARKS, STOP_WORDS, UNSPACED, normal_form, segmenter
from memsvc.text.stemming import bounded, fold

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


def _ascii_words(text: str) -> list[str]:
    """Return what `_candidates` does, several times as fast: imports extract keywords of every memory."""
    lowered = text.lower()
    words = _ASCII_WORD.findall(lowered)
    if "'s" in lowered:
        words = [word.removesuffix("'s") for word in words]
    return [word if len(word) <= _ASCII_BOUND else bounded(word) for word in words if len(word) >= WORD_MIN_LETTERS]


def _candidates(text: str) -> Iterator[str]:
    for run in _RUN.finditer(text):
        if run[1]:
            for word in segmenter().cut(normal_form(run[1])):
                yield from _han_words(word)
        else:
            word = fold(_POSSESSIVE.sub("", run[0]).replace("’", "'"))
            if len(word) >= WORD_MIN_LETTERS:
                yield bounded(word)


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
