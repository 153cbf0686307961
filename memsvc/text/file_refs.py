"""The references to files in a text: in code spans, and as where Markdown links and images lead to."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Protocol, TypeVar

from markdown_it import MarkdownIt
from markdown_it.token import Token

from memsvc.domain import limits
from memsvc.domain.files import FILE_CATEGORIES, REF, ref_from, with_block, written
from memsvc.domain.memory import FileRef
from memsvc.text.markdown import BlockKind, blocks
from memsvc.text.scripts import is_han

PIECE_CHARS = 4_000
READ_CHARS = 64_000
"""Of the pieces that may hold one so much is taken apart at most: a text made to be slow takes 2 s."""

_MARKS = tuple(f"{category}:" for category in FILE_CATEGORIES)
"""Looked for one by one: most texts have none, and are passed over in a microsecond."""
_CANDIDATE = re.compile(rf"[`(<\s]({REF})[`)>\s]")
_LINK_TOKENS = {"link_open": "href", "image": "src"}


class Spanned(Protocol):
    """A place in a text."""

    @property
    def start(self) -> int:
        """Return the index of its first character."""
        ...

    @property
    def end(self) -> int:
        """Return the index after its last character."""
        ...


P = TypeVar("P", bound=Spanned)


def refs_in(text: str) -> tuple[FileRef, ...]:
    """Return the references in *text*, each once, in the order of their places; at most as many as a memory may have.

    What stands in a block of code is an example, and none.
    """
    if ":" not in text or not any(mark in text for mark in _MARKS) or not _CANDIDATE.search(f" {text} "):
        return ()
    found: dict[FileRef, None] = {}
    left = READ_CHARS
    for piece in _pieces(text):
        if left <= 0 or len(found) >= limits.FILE_REFS:
            break
        candidates = {ref_from(candidate) for candidate in _CANDIDATE.findall(f" {piece} ")}
        if candidates - {None} - found.keys():
            left -= len(piece)
            found.update(dict.fromkeys(_read(piece)))
    return tuple(found)[: limits.FILE_REFS]


def given_apart(content: str, refs: Sequence[FileRef]) -> tuple[FileRef, ...]:
    """Return those of a memory's references that its content does not hold: they were given apart from it."""
    if not refs:
        return ()
    found = frozenset(refs_in(content))
    return tuple(ref for ref in refs if ref not in found)


def content_with_block(content: str, refs: Sequence[FileRef]) -> str:
    """Return *content* as a person reads it: followed by a block of the references given apart, in its language.

    `memsvc.domain.files.without_block` is the way back.
    """
    return with_block(content, given_apart(content, refs), is_chinese=is_han(content))


def _pieces(text: str) -> Iterator[str]:
    """Yield the blocks of *text* that are not code, long ones in pieces, cut where a block within them begins."""
    for block in blocks(text):
        if block.kind is BlockKind.CODE:
            continue
        if block.end - block.start <= PIECE_CHARS:
            yield text[block.start : block.end]
            continue
        for start, end in pairwise((block.start, *block.cuts, block.end)):
            yield from _slices(text[start:end])


def _slices(text: str) -> Iterator[str]:
    """Yield *text* in pieces of lines; a line that is too long is cut within."""
    start = 0
    while len(text) - start > PIECE_CHARS:
        end = text.rfind("\n", start, start + PIECE_CHARS) + 1 or text.rfind(" ", start, start + PIECE_CHARS) + 1
        end = end if end > start else start + PIECE_CHARS
        yield text[start:end]
        start = end
    yield text[start:]


class _Own(threading.local):
    """A parser for each thread: it costs more to make than to use, and builds caches while parsing."""

    def __init__(self) -> None:
        self.parser = MarkdownIt("commonmark").disable("html_block")
        # As it is written: a scheme that a browser does not know is what is looked for, and nothing is rendered.
        self.parser.validateLink = _any_link  # type: ignore[assignment,method-assign]  # meant to be replaced
        self.parser.normalizeLink = _as_written  # type: ignore[method-assign]  # meant to be replaced


def _read(piece: str) -> Iterator[FileRef]:
    env: dict[str, dict[str, dict[str, str]]] = {}
    texts = list(_targets(_own.parser.parse(piece, env)))
    texts += [definition["href"] for definition in env.get("references", {}).values()]
    yield from (ref for text in texts if (ref := ref_from(text)) is not None)


def _targets(tokens: Sequence[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type == "code_inline":
            yield token.content.strip()
        elif token.type in _LINK_TOKENS:
            yield str(token.attrGet(_LINK_TOKENS[token.type]) or "")
        if token.children:
            yield from _targets(token.children)


def _any_link(_: str) -> bool:
    return True


def _as_written(url: str) -> str:
    return url


_own = _Own()


def with_references(text: str, places: Iterable[P], ref_of: Callable[[P], FileRef]) -> str:
    """Return *text* with a reference in each of its *places*, which come in order and do not overlap."""
    parts: list[str] = []
    at = 0
    for place in places:
        parts += (text[at : place.start], written(ref_of(place)))
        at = place.end
    return "".join((*parts, text[at:]))
