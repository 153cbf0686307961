"""Words of spaced scripts, from plain ones to identifiers, paths, versions and contractions."""

from __future__ import annotations

import re

from memsvc.domain.text_cache import remembered
from memsvc.text.stemming import bounded, fold, term_of

WHOLE_MAX_CHARS = 40
"""A compound up to this long is also indexed as a whole; longer ones by their parts only."""

_CACHED_WORDS = 32_768

_SEGMENT = re.compile(r"[^/@]+")
_PART = re.compile(r"[^._'’-]+")
_SYMBOLIC = re.compile(r"[A-Za-z](?:\+\+|#)")
_NUMBER = re.compile(r"[0-9]+(?:,[0-9]{3})+(?:\.[0-9]+)?")
_VERSION = re.compile(r"v(?=[0-9]+\.[0-9])", re.IGNORECASE)
_CLITIC = re.compile(r"['’](?:s|d|ll|re|ve|m)\Z", re.IGNORECASE)
_NEGATION = re.compile(r"[^._-]+n['’]t", re.IGNORECASE)
_GLUE = re.compile("['’-]")
_CAMEL = re.compile(r"[a-z][A-Z]|[0-9][A-Z][a-z]|[A-Z]{2}[a-z]")
_PLURAL_ACRONYM = re.compile(r"[A-Z]{2,}s")
_HUMP = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z]+[0-9]*|[0-9]+")

Span = tuple[str, int, int]


@remembered(_CACHED_WORDS)
def word_spans(word: str) -> tuple[Span, ...]:
    """Return the terms of *word* with their offsets in it, parts before the whole they make.

    "don't" is one term ("dont"); the clitics 's 'd 'll 're 've 'm are dropped. A word joined by . _ - / @ or humps of
    capitals gives its parts and the whole; hyphens vanish from the whole, so "e-mail" meets "email".
    """
    if word.isalnum() and not _is_camel(word):
        return ((term_of(word), 0, len(word)),)
    segments = [match.span() for match in _SEGMENT.finditer(word)]
    spans = [span for start, end in segments for span in _segment_spans(word[start:end], start)]
    if len(segments) > 1 and len(word) <= WHOLE_MAX_CHARS:
        spans.append((bounded(fold(word)), 0, len(word)))
    return tuple(spans)


@remembered(_CACHED_WORDS)
def word_terms(word: str) -> tuple[str, ...]:
    """Return the terms of *word* in the order of `word_spans`."""
    return tuple(term for term, _, _ in word_spans(word))


def _segment_spans(segment: str, offset: int) -> list[Span]:
    clitic = _CLITIC.search(segment)
    if clitic and clitic.start():
        segment = segment[: clitic.start()]
    if _SYMBOLIC.fullmatch(segment):
        return [(segment.lower(), offset, offset + len(segment))]
    if _NUMBER.fullmatch(segment):
        return [(bounded(segment.replace(",", "")), offset, offset + len(segment))]
    if _NEGATION.fullmatch(segment):
        return [(term_of(_GLUE.sub("", segment)), offset, offset + len(segment))]
    parts = _parts(segment)
    spans = [(term_of(segment[start:end]), offset + start, offset + end) for start, end in parts]
    if len(parts) > 1 and len(segment) <= WHOLE_MAX_CHARS:
        spans.append((_whole(segment), offset, offset + len(segment)))
    return spans


def _parts(segment: str) -> list[tuple[int, int]]:
    version = _VERSION.match(segment)
    parts: list[tuple[int, int]] = []
    for match in _PART.finditer(segment, version.end() if version else 0):
        if _is_camel(match[0]):
            parts += [hump.span() for hump in _HUMP.finditer(segment, match.start(), match.end())]
        else:
            parts.append(match.span())
    return parts


def _whole(segment: str) -> str:
    return term_of(_GLUE.sub("", _VERSION.sub("", segment, count=1) if _VERSION.match(segment) else segment))


def _is_camel(word: str) -> bool:
    return word.isascii() and _CAMEL.search(word) is not None and _PLURAL_ACRONYM.fullmatch(word) is None
