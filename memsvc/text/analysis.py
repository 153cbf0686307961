"""From text to the terms it is found by: one analysis for every lexical backend."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from itertools import chain, pairwise

from memsvc.domain.text_cache import remembered
from memsvc.text.scripts import HAN, HANGUL, KANA, MARKS, SOUTH_EAST_ASIAN, UNSPACED
from memsvc.text.segmentation import normal_form, segmenter
from memsvc.text.stemming import MAX_TERM_BYTES, bounded
from memsvc.text.stop_words import STOP_WORDS
from memsvc.text.words import word_spans, word_terms

_HAN_GROUP = 1
_BIGRAM_GROUP = 2
_RUN_CHARS = 512
"""A longer run is cut here; it bounds the work of one segmentation and hides no text."""

_SAFE_CHARS = MAX_TERM_BYTES // 4
"""No word of a run this short can exceed the longest term."""

_SHORT_CHARS = 300
_SHORT_TEXTS = 2048

_COMMA_IN_NUMBER = r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))"


def _word_pattern(letters: str, apostrophes: str) -> str:
    joint = rf"(?:[._/@{apostrophes}-]|{_COMMA_IN_NUMBER})"
    return rf"[A-Za-z](?:\+\+|\#)(?!\w)|{letters}(?:{joint}{letters}){{0,8}}"


_LETTER = rf"[^\W_{UNSPACED}]"
_ASCII_WORD = re.compile(_word_pattern("[A-Za-z0-9]{1,64}", "'"))
_RUN = re.compile(
    rf"([{HAN}]{{1,{_RUN_CHARS}}})"
    rf"|([{KANA}]{{1,{_RUN_CHARS}}}|[{HANGUL}]{{1,{_RUN_CHARS}}}|[{SOUTH_EAST_ASIAN}]{{1,{_RUN_CHARS}}})"
    rf"|({_word_pattern(rf'{_LETTER}{{1,64}}(?:[{MARKS}]{{1,8}}{_LETTER}{{0,64}}){{0,16}}', chr(39) + '’')})"
)
_UNIT = re.compile(
    "[\u1100-\u115f][\u1160-\u11a7]*[\u11a8-\u11ff]*"
    "|.[\u3099\u309a\uff9e\uff9f\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece"
    "\u102b-\u103e\u17b4-\u17d3]*",
    re.DOTALL,
)
"""One written unit of a bigram run: a character with the marks that belong to it."""


@dataclass(frozen=True, slots=True)
class Token:
    """A term and the characters [start, end) of the original text it stands for."""

    term: str
    start: int
    end: int


def tokenize(text: str) -> list[Token]:
    """Return every term of *text* with its place, in reading order of the words.

    Terms may overlap: Han words hold shorter words, kana and hangul are bigrams, and a compound such as "main.py"
    gives its parts and the whole. No term is empty, holds white space or exceeds 64 bytes.
    """
    return [Token(term, start, end) for term, start, end in term_spans(text)]


def terms(text: str) -> list[str]:
    """Return the terms of `tokenize`, in the same order, faster."""
    if text.isascii():
        return list(chain.from_iterable(map(word_terms, _ASCII_WORD.findall(text))))
    cut = segmenter().cut_for_search
    found: list[str] = []
    for match in _RUN.finditer(text):
        run, group = match[0], match.lastindex
        if group == _HAN_GROUP:
            words = cut(normal_form(run))
            found += words if len(run) <= _SAFE_CHARS else map(bounded, words)
        elif group == _BIGRAM_GROUP:
            found += [term for term, _, _ in _bigrams(run)]
        else:
            found += word_terms(run)
    return found


def query_terms(text: str) -> list[str]:
    """Return the terms of a query without stop words and repetitions, in order.

    A query made only of stop words keeps them all, so that it still finds something.
    """
    distinct = dict.fromkeys(terms(text))
    stop_terms = _stop_terms()
    return [term for term in distinct if term not in stop_terms] or list(distinct)


def term_spans(text: str) -> list[tuple[str, int, int]]:
    """Return the tokens of `tokenize` as plain (term, start, end) tuples, for callers in a hurry."""
    spans: list[tuple[str, int, int]] = []
    if text.isascii():
        # As below, without a list for each word: of a first look at a text it is most of the work.
        for match in _ASCII_WORD.finditer(text):
            offset = match.start()
            for term, start, end in word_spans(match[0]):
                spans.append((term, offset + start, offset + end))
        return spans
    for match in _RUN.finditer(text):
        offset = match.start()
        spans += [(term, offset + start, offset + end) for term, start, end in _run_spans(match)]
    return spans


def matching_spans(text: str, wanted: AbstractSet[str]) -> list[tuple[str, int, int]]:
    """Return those of `term_spans` whose term is in *wanted*, without locating the terms of words that hold none."""
    is_ascii = text.isascii()
    if not is_ascii and len(text) <= _SHORT_CHARS:
        return [span for span in _short_spans(text) if span[0] in wanted]
    is_away = frozenset(wanted).isdisjoint
    spans: list[tuple[str, int, int]] = []
    if is_ascii:
        for match in _ASCII_WORD.finditer(text):
            if not is_away(word_terms(word := match[0])):
                spans += _placed(word_spans(word), match.start(), wanted)
        return spans
    for match in _RUN.finditer(text):
        if _may_match(match, wanted):
            spans += _placed(_run_spans(match), match.start(), wanted)
    return spans


@remembered(_SHORT_TEXTS)
def _short_spans(text: str) -> list[tuple[str, int, int]]:
    """Return the spans of a text that hits show whole: the same memories are found again and again."""
    return term_spans(text)


def _may_match(match: re.Match[str], wanted: AbstractSet[str]) -> bool:
    group = match.lastindex
    if group == _HAN_GROUP:
        run = normal_form(match[0])
        return any(term in run for term in wanted)
    return group == _BIGRAM_GROUP or any(term in wanted for term in word_terms(match[0]))


def _placed(spans: Sequence[tuple[str, int, int]], offset: int, wanted: AbstractSet[str]) -> list[tuple[str, int, int]]:
    return [(term, offset + start, offset + end) for term, start, end in spans if term in wanted]


def _run_spans(match: re.Match[str]) -> list[tuple[str, int, int]] | tuple[tuple[str, int, int], ...]:
    if match.lastindex == _HAN_GROUP:
        cut = segmenter().tokenize(normal_form(match[0]), "search")
        return [(bounded(word), start, end) for word, start, end in cut]
    if match.lastindex == _BIGRAM_GROUP:
        return _bigrams(match[0])
    return word_spans(match[0])


def _bigrams(run: str) -> list[tuple[str, int, int]]:
    units = [
        (unicodedata.normalize("NFKC", unit[0]).casefold(), unit.start(), unit.end()) for unit in _UNIT.finditer(run)
    ]
    if len(units) == 1:
        return [(bounded(units[0][0]), 0, len(run))]
    return [(bounded(left + right), start, end) for (left, start, _), (right, _, end) in pairwise(units)]


@cache
def _stop_terms() -> frozenset[str]:
    """Stop words as they look after analysis; Han words stay whole, their parts are listed on their own."""
    return frozenset(chain.from_iterable(terms(word) if word.isascii() else (word,) for word in STOP_WORDS))
