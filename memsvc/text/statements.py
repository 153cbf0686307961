"""Text that was said, taken apart into what can be judged by itself."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from memsvc.domain.capture_cues import MATERIAL
from memsvc.domain.quotations import quoted_spans
from memsvc.text.sentences import sentences

_FENCE = re.compile(r"^[ \t]*(```|~~~)[^\n]*\n.*?(?:^[ \t]*\1[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_BULLET = re.compile(r"^\s*(?:[-*+•]\s+(?:\[[ xX]\]\s+)?|\d+[.)、]\s*|#{1,6}\s+|(?:>\s*)+)")
_MARKED = re.compile(r"\s*(?:>|```|~~~|[\"'“「『«])")
"""What begins a quotation or code that says itself where it ends."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A sentence, a list item or fenced code. *line* is the whole line that it stands on.

    Attributes:
        is_quoted: Whether it stands in a quotation, or in what the text before it hands over to be worked on.
    """

    text: str
    line: str
    is_code: bool = False
    is_quoted: bool = False


def statements(text: str, *, most: int | None = None) -> list[Piece]:
    """Return the statements of *text* in order, trimmed, none blank; at most the first *most*.

    A sentence or line is one, without the mark of its list or heading; fenced code is one, as it is.
    """
    return list(islice(_Reading(text).pieces(), most))


class _Reading:
    """One pass over a text, which remembers whether what it reads is still the user's."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._quotations = quoted_spans(text)
        self._starts = [start for start, _ in self._quotations]
        self._is_pasted = self._ends_with_paragraph = False

    def pieces(self) -> Iterator[Piece]:
        start = 0
        for fence in _FENCE.finditer(self._text):
            yield from self._spoken(start, fence.start())
            code = fence[0].strip()
            yield Piece(code, code, is_code=True)
            start = fence.end()
        yield from self._spoken(start, len(self._text))

    def _spoken(self, start: int, end: int) -> Iterator[Piece]:
        for line in self._text[start:end].splitlines(keepends=True):
            yield from self._on_line(line, start)
            start += len(line)

    def _on_line(self, line: str, start: int) -> Iterator[Piece]:
        whole = line.strip()
        if not whole and self._ends_with_paragraph:
            self._is_pasted = self._ends_with_paragraph = False
        is_quoted_line = whole.startswith(">")
        place = 0
        for sentence in sentences(_BULLET.sub("", line).strip()):
            place = line.find(sentence, place)
            begin = start + place
            is_quoted = is_quoted_line or self._is_pasted or self._is_quotation(begin, sentence)
            yield Piece(sentence, whole, is_quoted=is_quoted)
            place += len(sentence)
            if not is_quoted:
                self._note_what_follows(sentence, start + place)

    def _is_quotation(self, begin: int, sentence: str) -> bool:
        """Return whether a sentence begins within a quotation that began before it, or is one as a whole."""
        at = bisect_right(self._starts, begin) - 1
        if at < 0:
            return False
        first, end = self._quotations[at]
        return begin < end and (first < begin or end >= begin + len(sentence.rstrip(".。!！?？,，;；")))

    def _note_what_follows(self, sentence: str, end: int) -> None:
        """Note whether *sentence*, which ends at *end*, hands over what comes after it, and how far that goes."""
        cue = MATERIAL.search(sentence)
        if cue is None:
            return
        begins_here = bool(sentence[cue.end() :].strip())
        self._ends_with_paragraph = begins_here
        self._is_pasted = begins_here or not _MARKED.match(self._text, end)
