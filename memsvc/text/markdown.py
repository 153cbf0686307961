"""The block structure of a Markdown text, as ranges of its characters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from markdown_it import MarkdownIt
from markdown_it.token import Token

HEADING_MAX_CHARS = 200
"""A longer "heading" is a paragraph that happens to stand above a line of dashes."""

_NEWLINE = re.compile("\n")
_FRONT_MATTER = re.compile(r"---[ \t]*\n.*?\n(?:---|\.\.\.)[ \t\r]*(?:\n|\Z)", re.DOTALL)
_NOT_NEWLINE = re.compile(r"[^\n]")


class BlockKind(Enum):
    """What a block is, as far as splitting it is concerned."""

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

    Plain text is Markdown too: its paragraphs are blocks. Front matter is one block and makes no headings.
    """
    line_starts = [0, *(match.end() for match in _NEWLINE.finditer(text))]
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
