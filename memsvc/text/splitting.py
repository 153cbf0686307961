"""Where to cut a block that does not fit, and how far to step back for an overlap."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import chain

from memsvc.text.markdown import Block, BlockKind
from memsvc.text.sentences import sentence_ends
from memsvc.text.token_estimate import quarter_tokens

_GRAIN_SHARE = 8
"""Text without any border is cut into grains of this part of a chunk, so that an overlap can be of grains."""

_LINE_BREAK = re.compile(r"\n")
_SPACE = re.compile(r"\s+")

_Cutter = Callable[[str, int, int], Iterator[int]]


def split_block(text: str, block: Block, limit: int) -> Iterator[int]:
    """Yield the ends of the parts of *block*, in order, the last at its end; none costs over *limit* quarter tokens."""
    prose = (sentence_ends, _line_ends, _word_ends)
    cutters = (_line_ends, _word_ends) if block.kind is BlockKind.CODE else prose
    start = block.start
    for cut in (*block.cuts, block.end):
        yield from _split(text, (start, cut), cutters, limit)
        start = cut


def overlap_start(text: str, start: int, end: int, budget: int) -> int:
    """Return where the last *budget* quarter tokens of [start, end) begin, moved to a sentence, line or word border.

    The result is at least *start* and at most *end*.
    """
    place = end
    spent = 0
    while place > start:
        spent += quarter_tokens(text[place - 1])
        if spent > budget:
            break
        place -= 1
    middle = (place + end) // 2
    for cutter in (sentence_ends, _line_ends, _word_ends):
        border = next(cutter(text, place, end), end)
        if border <= middle:
            return border
    return place


def _split(text: str, extent: tuple[int, int], cutters: tuple[_Cutter, ...], limit: int) -> Iterator[int]:
    start, end = extent
    if quarter_tokens(text[start:end]) <= limit:
        yield end
    elif not cutters:
        yield from _grains(text, extent, max(limit // _GRAIN_SHARE, min(limit, 4)))
    else:
        for cut in chain(cutters[0](text, start, end), (end,)):
            yield from _split(text, (start, cut), cutters[1:], limit)
            start = cut


def _grains(text: str, extent: tuple[int, int], limit: int) -> Iterator[int]:
    start, end = extent
    spent = 0
    for place in range(start, end):
        cost = quarter_tokens(text[place])
        if spent + cost > limit:
            yield place
            spent = 0
        spent += cost
    yield end


def _line_ends(text: str, start: int, end: int) -> Iterator[int]:
    return (match.end() for match in _LINE_BREAK.finditer(text, start, end) if match.end() < end)


def _word_ends(text: str, start: int, end: int) -> Iterator[int]:
    return (match.end() for match in _SPACE.finditer(text, start, end) if match.end() < end)
