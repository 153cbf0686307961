"""Text that was said, taken apart into what can be judged by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from memsvc.text.sentences import sentences

_FENCE = re.compile(r"^[ \t]*(```|~~~)[^\n]*\n.*?(?:^[ \t]*\1[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_BULLET = re.compile(r"^\s*(?:[-*+•]\s+(?:\[[ xX]\]\s+)?|\d+[.)、]\s*|#{1,6}\s+|>\s*)")


@dataclass(frozen=True, slots=True)
class Piece:
    """A sentence, a list item or fenced code. *line* is the whole line that it stands on."""

    text: str
    line: str
    is_code: bool = False


def statements(text: str, *, most: int = 64) -> list[Piece]:
    """Return the statements of *text* in order, trimmed, none blank; at most *most*: neighbours are joined if needed.

    A sentence or line is one, without the mark of its list or heading; fenced code is one, as it is.
    """
    found = list(_pieces(text))
    if len(found) <= most:
        return found
    size = -(-len(found) // most)
    groups = [found[start : start + size] for start in range(0, len(found), size)]
    return [_joined(group) for group in groups]


def _pieces(text: str) -> Iterator[Piece]:
    start = 0
    for fence in _FENCE.finditer(text):
        yield from _spoken(text[start : fence.start()])
        code = fence[0].strip()
        yield Piece(code, code, is_code=True)
        start = fence.end()
    yield from _spoken(text[start:])


def _spoken(text: str) -> Iterator[Piece]:
    for line in text.splitlines():
        bare = _BULLET.sub("", line).strip()
        for sentence in sentences(bare):
            yield Piece(sentence, line.strip())


def _joined(group: list[Piece]) -> Piece:
    text = "\n".join(piece.text for piece in group)
    lines = "\n".join(dict.fromkeys(piece.line for piece in group))
    return Piece(text, lines, is_code=all(piece.is_code for piece in group))
