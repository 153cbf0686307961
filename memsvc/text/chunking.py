"""Long content cut into pieces that fit an embedder, along its Markdown structure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import chain

from markdown_it import MarkdownIt
from markdown_it.token import Token

from memsvc.text.analysis import HAN, HANGUL, KANA
from memsvc.text.sentences import sentence_ends

_TINY_SHARE = 8
"""A section below this part of a chunk joins the next one, where that is possible without cutting it."""


@dataclass(frozen=True, slots=True)
class ChunkPiece:
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


def chunk(text: str, *, max_tokens: int = 400, overlap_tokens: int = 80) -> list[ChunkPiece]:
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
        return [ChunkPiece(text, (), 1, 1 + text.count("\n", 0, max(len(text) - 1, 0)))]
    breaks = [place for place, character in enumerate(text) if character == "\n"]
    pieces: list[ChunkPiece] = []
    for section in _join_sections(_sections(text, blocks(text)), limit):
        for start, end in _pack_units(text, section, limit, overlap):
            pieces += _piece(text, section.path, _trim(text, start, end), breaks)
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


def _join_sections(sections: Iterator[_Section], limit: int) -> Iterator[_Section]:
    """Join a tiny section with the next when that is its child or fits whole."""
    current = next(sections)
    for section in sections:
        descends = len(section.path) > len(current.path) and section.path[: len(current.path)] == current.path
        fits = current.cost + section.cost <= limit
        if current.cost * _TINY_SHARE < limit and (descends or fits):
            path = section.path if descends else _common_prefix(current.path, section.path)
            current = _Section(path, current.blocks + section.blocks, current.cost + section.cost)
        else:
            yield current
            current = section
    yield current


def _common_prefix(left: tuple[str, ...], right: tuple[str, ...]) -> tuple[str, ...]:
    length = next((at for at, pair in enumerate(zip(left, right, strict=False)) if pair[0] != pair[1]), None)
    return left[: min(len(left), len(right)) if length is None else length]


def _pack_units(text: str, section: _Section, limit: int, overlap: int) -> Iterator[tuple[int, int]]:
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

    Text after a heading must fit in the same piece, so that no piece ends with a heading.
    """
    heading_cost = 0
    for block in section.blocks:
        cost = quarter_tokens(text[block.start : block.end])
        room = limit - heading_cost if block.kind is BlockKind.TEXT and heading_cost * 2 < limit else limit
        if cost <= room:
            yield block.end
        else:
            yield from split_block(text, block, room)
        heading_cost = heading_cost + cost if block.kind is BlockKind.HEADING else 0


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    """Drop blank lines around a piece and white space at its cut ends; a first line keeps its indentation."""
    shown = text[start:end]
    blank = len(shown) - len(shown.lstrip())
    if start and text[start - 1] != "\n" and "\n" not in shown[:blank]:
        start += blank
    else:
        start += shown.rfind("\n", 0, blank) + 1
    return start, end - (len(shown) - len(shown.rstrip()))


def _piece(text: str, path: tuple[str, ...], extent: tuple[int, int], breaks: list[int]) -> Iterator[ChunkPiece]:
    start, end = extent
    if start < end:
        yield ChunkPiece(text[start:end], path, bisect_right(breaks, start - 1) + 1, bisect_right(breaks, end - 1) + 1)


# Positions at which to split a block that does not fit, and the start of the overlap.


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


# The block structure of a Markdown text, as ranges of its characters.


HEADING_MAX_CHARS = 200
"""A longer "heading" is a paragraph that happens to precede a line of dashes."""

MANY_LINES, SHORT_LINE = 2_000, 24
"""A text of more lines whose mean length in characters is less is not parsed."""

_NEWLINE = re.compile("\n")
_MARKED_LINE = re.compile(r"^ {0,3}(#{1,6}(?=[ \t\n])|```|~~~)([^\n]*)\n?", re.MULTILINE)
_FRONT_MATTER = re.compile(r"---[ \t]*\n.*?\n(?:---|\.\.\.)[ \t\r]*(?:\n|\Z)", re.DOTALL)
_NOT_NEWLINE = re.compile(r"[^\n]")


class BlockKind(Enum):
    """Kind of a block for splitting."""

    HEADING = "heading"
    TEXT = "text"
    CODE = "code"


@dataclass(frozen=True, slots=True)
class Block:
    """The characters [start, end) of one top-level block, with the blank lines after it.

    *level* and *title* are set for headings. *cuts* are the places inside at which nested blocks, such as list items,
    begin.
    """

    kind: BlockKind
    start: int
    end: int
    level: int = 0
    title: str = ""
    cuts: tuple[int, ...] = ()


def blocks(text: str) -> list[Block]:
    """Return the top-level blocks of *text* in order; together they cover it without gaps.

    Plain text is Markdown too: its paragraphs are blocks. Front matter is one block and makes no headings. Of a text of
    very many short lines only headings and code between fences are recognised.
    """
    line_starts = [0, *(match.end() for match in _NEWLINE.finditer(text))]
    if len(line_starts) > MANY_LINES and len(text) < SHORT_LINE * len(line_starts):
        return _line_blocks(text)
    tokens = _parser().parse(_source(text))
    opening = [index for index, token in enumerate(tokens) if token.level == 0 and token.map and token.nesting >= 0]
    starts = [line_starts[_first_line(tokens[index])] for index in opening]
    ends = [*starts[1:], len(text)] if starts else []
    cuts = _nested_starts(tokens, line_starts)
    found = [
        _block(tokens, index, (start, end), cuts[index])
        for index, start, end in zip(opening, starts, ends, strict=True)
    ]
    first = starts[0] if starts else len(text)
    return [Block(BlockKind.TEXT, 0, first), *found] if first else found


def _line_blocks(text: str) -> list[Block]:
    """Return the blocks of a text of many short lines: headings, and what is between them.

    The parser takes 35 µs a line: 50 times as long for a million characters of list items as for prose.
    """
    found: list[Block] = []
    start, fence = 0, ""
    for match in _MARKED_LINE.finditer(text):
        mark = match[1]
        if not mark.startswith("#"):
            fence = mark if not fence else "" if mark == fence else fence
        if fence or not mark.startswith("#"):
            continue
        if start < match.start():
            found.append(Block(BlockKind.TEXT, start, match.start()))
        title = " ".join(match[2].split()).rstrip("#").rstrip()
        kind = BlockKind.HEADING if len(title) <= HEADING_MAX_CHARS else BlockKind.TEXT
        found.append(Block(kind, match.start(), match.end(), level=len(mark), title=title))
        start = match.end()
    return [*found, Block(BlockKind.TEXT, start, len(text))] if start < len(text) else found


def _parser() -> MarkdownIt:
    """Return a parser of blocks only; a fresh one, because its rulers build caches while parsing."""
    return MarkdownIt("commonmark").disable(["inline", "reference", "html_block"])


def _source(text: str) -> str:
    """Return *text* for the parser, line by line the same: without returns (it ends lines there) and front matter."""
    source = text.replace("\r", " ")
    front = _FRONT_MATTER.match(source)
    return _NOT_NEWLINE.sub(" ", front[0]) + source[front.end() :] if front else source


def _nested_starts(tokens: list[Token], line_starts: list[int]) -> dict[int, tuple[int, ...]]:
    """Map the index of each top-level token to the places at which blocks nested in it begin."""
    starts: dict[int, tuple[int, ...]] = {}
    current: list[int] = []
    owner = -1
    for index, token in enumerate(tokens):
        if token.level == 0 and token.nesting >= 0:
            starts[owner] = tuple(dict.fromkeys(current))
            owner, current = index, []
        elif token.map and token.nesting >= 0 and token.type != "inline":
            current.append(line_starts[_first_line(token)])
    starts[owner] = tuple(dict.fromkeys(current))
    return starts


def _block(tokens: list[Token], index: int, extent: tuple[int, int], cuts: tuple[int, ...]) -> Block:
    token = tokens[index]
    start, end = extent
    if token.type == "heading_open":
        title = " ".join(tokens[index + 1].content.split())
        if len(title) <= HEADING_MAX_CHARS:
            return Block(BlockKind.HEADING, start, end, level=int(token.tag[1:]), title=title)
    kind = BlockKind.CODE if token.type in {"fence", "code_block"} else BlockKind.TEXT
    inner = tuple(cut for cut in cuts if start < cut < end)
    return Block(kind, start, end, cuts=inner)


def _first_line(token: Token) -> int:
    return token.map[0] if token.map else 0


# Estimate of the number of tokens of a text, without a vocabulary.


QUARTERS = 4
"""Quarter tokens in a token: the unit in which costs are whole numbers and add up."""

_CJK_RUN = re.compile(f"[{HAN}{KANA}{HANGUL}\u3000-\u303f\uff00-\uffef]+")


def count_tokens(text: str) -> int:
    """Estimate the tokens of *text*: one per Chinese, Japanese or Korean character, four bytes each for the rest.

    Against the vocabulary of multilingual E5: English prose 10 to 15 % too many, Chinese 40 % too many, Markdown with
    many signs 10 to 30 % too few, program code and addresses up to half too few.
    """
    return -(-quarter_tokens(text) // QUARTERS)


def quarter_tokens(text: str) -> int:
    """Return four times the estimate, unrounded: the value of a joined text is the sum of its parts' values."""
    if text.isascii():
        return len(text)
    encoded = len(text.encode("utf-8", "surrogatepass"))
    cjk = "".join(_CJK_RUN.findall(text))
    return encoded - len(cjk.encode("utf-8")) + QUARTERS * len(cjk)
