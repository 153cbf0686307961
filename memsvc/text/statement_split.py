"""Text that was said, taken apart into what can be judged by itself."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from memsvc.text.analysis import simplified_form
from memsvc.text.capture_cues import CONTINUED, CONTINUED_NOT, MATERIAL, ROLE_PLAY, ROLE_PLAY_END, SECRECY
from memsvc.text.recalled_text import CITATION, LEADING_CITATION, is_rendered, spans_of_quotes, spans_of_rendered
from memsvc.text.sentences import sentences

_FENCE = re.compile(r"^[ \t]*(```|~~~)[^\n]*\n.*?(?:^[ \t]*\1[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_BULLET = re.compile(r"^\s*(?:[-*+•]\s+(?:\[[ xX]\]\s+)?|\d+[.)、]\s*|#{1,6}\s+|(?:>\s*)+)")
_MARKED = re.compile(r"\s*(?:>|```|~~~|[\"'“「『«])")
"""What begins a quotation or code that says itself where it ends."""
_CUE_CHARS = 2_000
"""What hands text over says so at its beginning."""
_TRAILING = re.compile(rf"(?:{CITATION.pattern.replace('(?P<id>', '(?:')}[\s.。,，;；]*)+")

_SECRECY_CUT = re.compile(
    r"[,;:，；：]\s{0,3}|(?<=\S)\s{1,3}[-–—]{1,3}\s{1,3}|——|(?<=[.!。！])\s{0,3}(?=\S)"
    r"|(?<=[\u3400-\u9fff])\s{1,3}(?=[\u3400-\u9fff])"
    r"|(?<=\S)\s{1,3}(?:but|so|and)\s{1,3}",
    re.IGNORECASE,
)
"""Between a clause that asks not to pass on what was said and other clauses."""
_SECRECY_CHARS = 60
_SIGNS = " .!。！~～…"


@dataclass(frozen=True, slots=True)
class StatementPiece:
    """A sentence, a list item or fenced code. *line* is its whole line.

    Attributes:
        is_recalled: Whether it is part of a context that the service rendered.
        is_quoted: Whether it is part of a quotation, of material to be worked on, of a role-play, of a story, or of
            the details of a requested text.
    """

    text: str
    line: str
    is_code: bool = False
    is_quoted: bool = False
    is_recalled: bool = False


def statements(text: str, *, most: int | None = None) -> list[StatementPiece]:
    """Return the statements of *text* in order, trimmed, none blank; at most the first *most*.

    A sentence or line is one, without the mark of its list or heading; fenced code is one, as it is. A citation after a
    sentence belongs to it, unless the line begins with one, as those of a context do. So does a sentence that only asks
    not to pass on what was said ("Don't tell her!"), unless it follows a question.
    """
    return list(islice(_marking_cited(_StatementSplitter(text).pieces()), most))


def without_secrecy(text: str) -> str:
    """Return *text* without the clauses at its ends that ask not to pass it on; the text if there are only such.

    "I'm pregnant, don't tell anyone yet" gives "I'm pregnant". The text is in simplified characters.
    """
    clauses = _clauses_of(text)
    kept = [at for at, (start, end) in enumerate(clauses) if not _asks_secrecy(text[start:end])]
    if not kept or len(kept) == len(clauses):
        return text
    return text[clauses[kept[0]][0] : clauses[kept[-1]][1]]


def is_secrecy(sentence: str) -> bool:
    """Return whether a sentence only asks not to pass on what was said before it, such as "Don't tell her!"."""
    if len(sentence) > 2 * _SECRECY_CHARS:
        return False
    sentence = simplified_form(sentence)
    return all(_asks_secrecy(sentence[start:end]) for start, end in _clauses_of(sentence))


def _asks_secrecy(clause: str) -> bool:
    clause = clause.strip(_SIGNS)
    return 0 < len(clause) <= _SECRECY_CHARS and SECRECY.pattern.fullmatch(clause) is not None


def _clauses_of(text: str) -> list[tuple[int, int]]:
    """Return where the clauses of *text* begin and end, at least one."""
    cuts = [cut.span() for cut in _SECRECY_CUT.finditer(text)]
    starts, ends = [0, *(end for _, end in cuts)], [*(start for start, _ in cuts), len(text)]
    return [(start, end) for start, end in zip(starts, ends, strict=True) if text[start:end].strip(_SIGNS)] or [
        (0, len(text))
    ]


class _StatementSplitter:
    """One pass over a text, which remembers whether what it reads is still the user's."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._quotations = spans_of_quotes(text)
        self._contexts = spans_of_rendered(text)
        self._is_pasted = self._ends_with_paragraph = self._is_played = False

    def pieces(self) -> Iterator[StatementPiece]:
        start = 0
        for fence in _FENCE.finditer(self._text):
            yield from self._spoken(start, fence.start())
            code = fence[0].strip()
            yield StatementPiece(
                code, code, is_code=True, is_recalled=self._span(self._contexts, fence.start()) is not None
            )
            start = fence.end()
        yield from self._spoken(start, len(self._text))

    def _spoken(self, start: int, end: int) -> Iterator[StatementPiece]:
        for line in self._text[start:end].splitlines(keepends=True):
            yield from self._on_line(line, start)
            start += len(line)

    def _on_line(self, line: str, start: int) -> Iterator[StatementPiece]:
        whole = line.strip()
        if not whole and self._ends_with_paragraph:
            self._is_pasted = self._ends_with_paragraph = False
        is_quoted_line, is_continued = whole.startswith(">"), False
        for first, last in _spans(line):
            sentence, begin = line[first:last].rstrip(), start + first
            if self._is_played and ROLE_PLAY_END.search(sentence[:_CUE_CHARS]):
                self._is_played = False
            is_quoted = is_quoted_line or self._is_pasted or self._is_quotation(begin, sentence)
            is_recalled = self._span(self._contexts, begin) is not None or is_rendered(sentence)
            is_detail = is_continued and CONTINUED_NOT.search(sentence[:_CUE_CHARS]) is None
            is_continued = is_continued or CONTINUED.search(sentence[:_CUE_CHARS]) is not None
            is_others = is_quoted or is_detail or self._is_played
            yield StatementPiece(sentence, whole, is_quoted=is_others, is_recalled=is_recalled)
            if not is_quoted:
                self._note_what_follows(sentence, start + last)

    def _is_quotation(self, begin: int, sentence: str) -> bool:
        """Return whether a sentence begins within a quotation that began before it, or is one as a whole."""
        span = self._span(self._quotations, begin)
        if span is None:
            return False
        first, end = span
        return first < begin or end >= begin + len(sentence.rstrip(".。!！?？,，;；"))

    @staticmethod
    def _span(spans: Sequence[tuple[int, int]], place: int) -> tuple[int, int] | None:
        """Return the one of *spans*, which are in order, that holds *place*."""
        at = bisect_right(spans, place, key=lambda span: span[0]) - 1
        return spans[at] if at >= 0 and place < spans[at][1] else None

    def _note_what_follows(self, sentence: str, end: int) -> None:
        """Note whether *sentence*, which ends at *end*, hands over what comes after it, and how far that goes.

        A role-play goes on until its end is announced.
        """
        said = sentence[:_CUE_CHARS]
        self._is_played = self._is_played or bool(ROLE_PLAY.search(said) and not ROLE_PLAY_END.search(said))
        cue = MATERIAL.search(said)
        if cue is None:
            return
        begins_here = bool(sentence[cue.end() :].strip())
        self._ends_with_paragraph = begins_here
        self._is_pasted = begins_here or not _MARKED.match(self._text, end)


def _spans(line: str) -> list[tuple[int, int]]:
    """Return where the sentences of *line* are, each with the citations and the request for secrecy that follow it."""
    spans: list[tuple[int, int]] = []
    is_cited_after = CITATION.search(line) and not LEADING_CITATION.match(line)
    end = 0
    for sentence in sentences(_BULLET.sub("", line).strip()):
        start = line.index(sentence, end)
        end = start + len(sentence)
        citations = _TRAILING.match(line, start, end) if is_cited_after and spans else None
        if citations is not None:
            spans[-1] = (spans[-1][0], citations.end())
            start = citations.end()
        if spans and start < end and is_secrecy(line[start:end]) and line[spans[-1][1] - 1] not in "?？":
            spans[-1] = (spans[-1][0], end)
        elif start < end:
            spans.append((start, end))
    return spans


def _marking_cited(pieces: Iterable[StatementPiece]) -> Iterator[StatementPiece]:
    """Yield *pieces*, those before a line of nothing but citations as recalled."""
    before: StatementPiece | None = None
    for piece in pieces:
        if before is not None:
            yield replace(before, is_recalled=True) if _TRAILING.fullmatch(piece.text) else before
        before = piece
    if before is not None:
        yield before
