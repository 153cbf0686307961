"""Sentences of English and Chinese text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memsvc.text.analysis import is_han

# With one set of characters at its beginning the expression is found nine times as fast: 1 000 000 characters without
# any took 44 ms, in which no other thread runs.
_END = re.compile(
    r"[。！？；!?…‥．｡.](?:(?<=[。！？；])[。！？；]*|(?<=[!?…‥．｡])[!?…‥．｡]*|(?<=\.)\.*)"
    r"(?P<close>[\"'”’」』）)\]】》]*)(?P<space>\s*)",
)
_WIDE_ENDERS = "。！？；｡…‥"
_LINE = re.compile(r"[^\n\r]+")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\"'“‘])(?:[A-Za-z]|(?:[A-Za-z]\.)+[A-Za-z]|mr|mrs|ms|dr|prof|st|jr|sr|vs|etc|no|vol|fig|inc|ltd|co|dept|approx"
    r"|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\Z",
    re.IGNORECASE,
)
_LOOK_BEHIND = 12


def sentences(text: str) -> list[str]:
    """Return the sentences of *text* in order, trimmed, none blank.

    A sentence ends at 。！？；, at . ! ? … before white space, and at a line's end. Abbreviations ("Dr.", "e.g."),
    initials and numbers ("3.14") end none. Nothing but white space is lost.
    """
    return [text[start:end] for start, end in _statement_spans(text)]


def merge_sentences(text: str, *, min_chars: int = 80, min_han_chars: int = 40) -> list[str]:
    """Return neighbouring sentences merged until each is long enough; a short rest joins the last one.

    Long enough is *min_han_chars* for mostly Han text and *min_chars* for other text. Merged sentences keep the white
    space between them, so every result is a slice of *text*. Short text gives one result, blank text none.
    """
    merged: list[tuple[int, int]] = []
    is_open = False
    for start, end in _statement_spans(text):
        if is_open:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
        is_open = _is_short(text[merged[-1][0] : end], min_chars, min_han_chars)
    if is_open and len(merged) > 1:
        merged[-2:] = [(merged[-2][0], merged[-1][1])]
    return [text[start:end] for start, end in merged]


def sentence_ends(text: str, start: int, end: int) -> Iterator[int]:
    """Yield the offsets in (start, end) after which a new sentence begins, white space counted to the sentence before.

    Line ends are no sentence ends here: a paragraph may be wrapped.
    """
    for match in _END.finditer(text, start, end):
        if match.end() < end and _ends_sentence(text, match):
            yield match.end()


def _statement_spans(text: str) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for line in _LINE.finditer(text):
        start = line.start()
        for cut in (*sentence_ends(text, start, line.end()), line.end()):
            sentence = text[start:cut]
            trimmed = sentence.strip()
            if trimmed:
                begin = start + len(sentence) - len(sentence.lstrip())
                spans.append((begin, begin + len(trimmed)))
            start = cut
    return spans


def _ends_sentence(text: str, match: re.Match[str]) -> bool:
    if text[match.start()] in _WIDE_ENDERS:
        return True
    if not match["space"]:
        return False
    following = text[match.end()]
    if text[match.start()] != ".":
        return not following.islower()
    if following.islower():
        return False
    before = text[max(0, match.start() - _LOOK_BEHIND) : match.start()]
    return not (before[-1:].isalpha() and _ABBREVIATION.search(before))


def _is_short(text: str, min_chars: int, min_han_chars: int) -> bool:
    if len(text) >= max(min_chars, min_han_chars):
        return False
    return len(text) < (min_han_chars if is_han(text) else min_chars)
