"""Building of passages from the lines of a document."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from memsvc.domain.file_text import PASSAGE_CHARS, FilePassage
from memsvc.extraction.text_formats import TextLine

_REMOVED = dict.fromkeys([*range(9), 11, 12, *range(14, 32), 127, *range(0xD800, 0xE000), 0xFEFF, 0xFFFE, 0xFFFF])
"""Control characters, which databases refuse, and halves of surrogate pairs, which have no UTF-8."""
_WIDE = re.compile("[\u1100-\u11ff\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")
_BREAKS = (re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])"), re.compile(r"\s+"))
"""Ends of sentences, and of words."""


def build_passages(lines: Iterable[TextLine], *, max_chars: int) -> Iterator[FilePassage]:
    """Yield passages of lines that follow each other, of about `PASSAGE_CHARS`; stop after *max_chars* in all.

    A passage ends with its page or section, at its length, or at an empty line once it is half as long. A longer line
    is divided, between sentences or words if possible.
    """
    ordinal = spent = 0
    held: list[TextLine] = []
    width = 0
    for line in _short_lines(lines):
        is_elsewhere = bool(held) and (line.page, line.section) != (held[-1].page, held[-1].section)
        own = _width(line.text)
        is_full = width + own > PASSAGE_CHARS or (not line.text and width > PASSAGE_CHARS // 2)
        if held and (is_elsewhere or is_full):
            passage = _passage(held, ordinal)
            yield passage
            ordinal, spent = ordinal + 1, spent + len(passage.text)
            held, width = [], 0
            if spent >= max_chars:
                return
        if line.text:
            held.append(line)
            width += own + 1
    if held:
        yield _passage(held, ordinal)


def _passage(lines: list[TextLine], ordinal: int) -> FilePassage:
    first, last = lines[0], lines[-1]
    text = "\n".join(line.text for line in lines)
    return FilePassage(ordinal, text, first.line, max(first.line, last.line), first.page, first.section)


def _short_lines(lines: Iterable[TextLine]) -> Iterator[TextLine]:
    for line in lines:
        text = line.text.translate(_REMOVED).rstrip()
        section = line.section.translate(_REMOVED).strip()
        if _width(text) <= PASSAGE_CHARS:
            yield TextLine(text, line.line, line.page, section)
            continue
        for part in _parts(text):
            yield TextLine(part, line.line, line.page, section)


def _parts(text: str) -> Iterator[str]:
    start = 0
    while start < len(text):
        end = _end_of_part(text, start)
        part = text[start:end].strip()
        if part:
            yield part
        start = end


def _end_of_part(text: str, start: int) -> int:
    window = text[start : start + PASSAGE_CHARS]
    if start + len(window) == len(text) and _width(window) <= PASSAGE_CHARS:
        return len(text)
    width = 0
    for end, char in enumerate(window):
        width += 2 if _WIDE.match(char) else 1
        if width > PASSAGE_CHARS:
            window = window[:end]
            break
    least = len(window) // 2
    for pattern in _BREAKS:
        ends = [match.end() for match in pattern.finditer(window, least) if match.end() > least]
        if ends:
            return start + ends[-1]
    return start + len(window)


def _width(text: str) -> int:
    return len(text) if text.isascii() else len(text) + len(_WIDE.findall(text))
