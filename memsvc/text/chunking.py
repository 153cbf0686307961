"""Long content cut into pieces that fit an embedder, along its Markdown structure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from memsvc.text.markdown import Block, BlockKind, blocks
from memsvc.text.splitting import overlap_start, split_block
from memsvc.text.token_estimate import QUARTERS, quarter_tokens

_TINY_SHARE = 8
"""A section below this part of a chunk joins the next one, where that is possible without cutting it."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text, verbatim, with the headings above it and its lines: 1-based, both included."""

    text: str
    heading_path: tuple[str, ...]
    start_line: int
    end_line: int


@dataclass(frozen=True, slots=True)
class _Section:
    path: tuple[str, ...]
    blocks: tuple[Block, ...]
    cost: int

    @property
    def start(self) -> int:
        return self.blocks[0].start

    @property
    def end(self) -> int:
        return self.blocks[-1].end


def chunk(text: str, *, max_tokens: int = 400, overlap_tokens: int = 80) -> list[Piece]:
    """Return *text* as pieces of at most *max_tokens* in order, each a slice of it; no line that is not blank is lost.

    Text that fits is one piece with the whole text and no heading path: it is not parsed. Longer text is cut before
    headings, then between blocks, then at sentence or line ends, then between words, and at last anywhere; a code
    block is cut only when it does not fit. A piece that continues a section repeats about *overlap_tokens* of it (at
    most half a piece, less where the next block would not fit). A tiny section joins the next; its path is then the
    deeper of the two, or of neighbours what they share. Blank text that does not fit gives no piece.

    Raises:
        ValueError: *max_tokens* is below 1 or *overlap_tokens* is negative.

    """
    if max_tokens < 1 or overlap_tokens < 0:
        message = f"A chunk needs max_tokens >= 1 and overlap_tokens >= 0, got {max_tokens!r} and {overlap_tokens!r}."
        raise ValueError(message)
    limit = max_tokens * QUARTERS
    overlap = min(overlap_tokens * QUARTERS, limit // 2)
    if quarter_tokens(text) <= limit:
        return [Piece(text, (), 1, 1 + text.count("\n", 0, max(len(text) - 1, 0)))]
    breaks = [place for place, character in enumerate(text) if character == "\n"]
    pieces: list[Piece] = []
    for section in _joined(_sections(text, blocks(text)), limit):
        for start, end in _packed(text, section, limit, overlap):
            pieces += _piece(text, section.path, _trimmed(text, start, end), breaks)
    return pieces


def _sections(text: str, parsed: list[Block]) -> Iterator[_Section]:
    titles: list[Block] = []
    current: list[Block] = []
    for block in parsed:
        if block.kind is BlockKind.HEADING:
            if current:
                yield _section(text, titles, current)
            titles = [*(title for title in titles if title.level < block.level), block]
            current = []
        current.append(block)
    yield _section(text, titles, current)


def _section(text: str, titles: list[Block], members: list[Block]) -> _Section:
    cost = quarter_tokens(text[members[0].start : members[-1].end])
    return _Section(tuple(title.title for title in titles), tuple(members), cost)


def _joined(sections: Iterator[_Section], limit: int) -> Iterator[_Section]:
    """Join a tiny section with the next when that is its child or fits whole."""
    current = next(sections)
    for section in sections:
        descends = len(section.path) > len(current.path) and section.path[: len(current.path)] == current.path
        fits = current.cost + section.cost <= limit
        if current.cost * _TINY_SHARE < limit and (descends or fits):
            path = section.path if descends else _shared(current.path, section.path)
            current = _Section(path, current.blocks + section.blocks, current.cost + section.cost)
        else:
            yield current
            current = section
    yield current


def _shared(left: tuple[str, ...], right: tuple[str, ...]) -> tuple[str, ...]:
    length = next((at for at, pair in enumerate(zip(left, right, strict=False)) if pair[0] != pair[1]), None)
    return left[: min(len(left), len(right)) if length is None else length]


def _packed(text: str, section: _Section, limit: int, overlap: int) -> Iterator[tuple[int, int]]:
    """Yield the extents of the pieces of *section*: units packed while they fit, then a step back for the overlap."""
    start = end = section.start
    used = 0
    for unit_end in _unit_ends(text, section, limit):
        cost = quarter_tokens(text[end:unit_end])
        if used + cost > limit:
            yield start, end
            start = overlap_start(text, start, end, min(overlap, limit - cost))
            used = quarter_tokens(text[start:end])
        end = unit_end
        used += cost
    yield start, end


def _unit_ends(text: str, section: _Section, limit: int) -> Iterator[int]:
    """Yield the ends of the section's units, none over *limit*: whole blocks where they fit, else their parts.

    Text after a heading must fit beside it, so that no heading is left alone at the end of a piece.
    """
    beside = 0
    for block in section.blocks:
        cost = quarter_tokens(text[block.start : block.end])
        room = limit - beside if block.kind is BlockKind.TEXT and beside * 2 < limit else limit
        if cost <= room:
            yield block.end
        else:
            yield from split_block(text, block, room)
        beside = beside + cost if block.kind is BlockKind.HEADING else 0


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Drop blank lines around a piece and white space at its cut ends; a first line keeps its indentation."""
    shown = text[start:end]
    blank = len(shown) - len(shown.lstrip())
    if start and text[start - 1] != "\n" and "\n" not in shown[:blank]:
        start += blank
    else:
        start += shown.rfind("\n", 0, blank) + 1
    return start, end - (len(shown) - len(shown.rstrip()))


def _piece(text: str, path: tuple[str, ...], extent: tuple[int, int], breaks: list[int]) -> Iterator[Piece]:
    start, end = extent
    if start < end:
        yield Piece(text[start:end], path, bisect_right(breaks, start - 1) + 1, bisect_right(breaks, end - 1) + 1)
