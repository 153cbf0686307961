"""The references to files in a text: in code spans, and as where Markdown links and images lead to."""

from __future__ import annotations

import re
import threading
from base64 import b64decode
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Protocol, TypeVar

from markdown_it import MarkdownIt
from markdown_it.token import Token

from memsvc.domain import limits
from memsvc.domain.file_text import FilePassage
from memsvc.domain.files import FILE_CATEGORIES, REF, File, FileCategory, format_ref, ref_from, with_block
from memsvc.domain.memory import FileRef, Json
from memsvc.text.analysis import is_han, terms
from memsvc.text.bm25 import K1, length_norm, saturation
from memsvc.text.chunking import Block, BlockKind, blocks

PIECE_CHARS = 4_000
READ_CHARS = 64_000
"""Of the pieces that may hold one so much is taken apart at most: a text made to be slow takes 2 s."""

_MARKS = tuple(f"{category}:" for category in FILE_CATEGORIES)
"""Looked for one by one: most texts have none, and are passed over in a microsecond."""
_CANDIDATE = re.compile(rf"[`(<\s]({REF})[`)>\s]")
_LINK_TOKENS = {"link_open": "href", "image": "src"}


class Span(Protocol):
    """A place in a text."""

    @property
    def start(self) -> int:
        """Return the index of its first character."""
        ...

    @property
    def end(self) -> int:
        """Return the index after its last character."""
        ...


P = TypeVar("P", bound=Span)


def refs_in(text: str) -> tuple[FileRef, ...]:
    """Return the references in *text*, each once, in the order of their places; at most as many as a memory may have.

    A reference in a block of code is an example, and ignored. That of an extracted image is always returned.
    """
    if ":" not in text or not any(mark in text for mark in _MARKS) or not _CANDIDATE.search(f" {text} "):
        return ()
    return with_image_refs(text, _read_pieces(text)[: limits.FILE_REFS])


def with_image_refs(text: str, refs: Sequence[FileRef]) -> tuple[FileRef, ...]:
    """Return *refs* with those of the images that were extracted from *text*, which take the places of the last ones.

    At most as many as a memory may have: a file without a reference would outlast the memory.
    """
    missing = [ref for ref in _image_refs(text) if ref not in refs]
    return (*refs[: max(0, limits.FILE_REFS - len(missing))], *missing)[: limits.FILE_REFS]


def _read_pieces(text: str) -> tuple[FileRef, ...]:
    found: dict[FileRef, None] = {}
    left = READ_CHARS
    for piece in _pieces(text):
        if left <= 0 or len(found) >= limits.FILE_REFS:
            break
        candidates = {ref_from(candidate) for candidate in _CANDIDATE.findall(f" {piece} ")}
        if candidates - {None} - found.keys():
            left -= len(piece)
            found.update(dict.fromkeys(_read(piece)))
    return tuple(found)


def refs_given_apart(content: str, refs: Sequence[FileRef]) -> tuple[FileRef, ...]:
    """Return those of a memory's references that its content does not hold: they were given apart from it."""
    if not refs:
        return ()
    found = frozenset(refs_in(content))
    return tuple(ref for ref in refs if ref not in found)


def content_with_block(content: str, refs: Sequence[FileRef]) -> str:
    """Return *content* as a person reads it: followed by a block of the references given apart, in its language.

    `memsvc.domain.files.without_block` is the way back.
    """
    return with_block(content, refs_given_apart(content, refs), is_chinese=is_han(content))


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


_PLACED = re.compile(
    rf"(?P<code>(?<!`)`[ ]?(?P<ref>{REF})[ ]?`(?!`))"
    rf"|(?<=\]\()(?P<open><?)(?P<target>{REF})(?P<close>>?)(?=[\s)])"
    rf"|(?P<label>^ {{0,3}}\[[^\]\n]{{1,200}}\]:[ \t]*)(?P<definition>{REF})(?=\s|$)",
    re.MULTILINE,
)


def link_refs(text: str, links: Mapping[FileRef, tuple[str, str]]) -> str:
    """Return *text* with the name and the URL of *links* for each reference to one, as Markdown links.

    A code span becomes a link; in links, images and link definitions the URL takes the place of the reference. Blocks
    of code stay as they are.
    """
    if not links:
        return text

    def linked(match: re.Match[str]) -> str:
        ref = ref_from(match["ref"] or match["target"] or match["definition"])
        if ref is None or ref not in links:
            return match[0]
        name, url = links[ref]
        if match["code"]:
            return f"[{_LABEL_SIGNS.sub(_escaped, name)}](<{url}>)"
        return f"<{url}>" if match["target"] else f"{match['label']}<{url}>"

    parts: list[str] = []
    at = 0
    for block in blocks(text):
        written = text[block.start : block.end]
        parts += (text[at : block.start], written if block.kind is BlockKind.CODE else _PLACED.sub(linked, written))
        at = block.end
    return "".join((*parts, text[at:]))


_LABEL_SIGNS = re.compile(r"[\[\]\\`*_<>]")


def _escaped(match: re.Match[str]) -> str:
    return f"\\{match[0]}"


class _ThreadParser(threading.local):
    """A parser for each thread: it costs more to make than to use, and builds caches while parsing."""

    def __init__(self) -> None:
        self.parser = MarkdownIt("commonmark").disable("html_block")
        # As it is written: a scheme that a browser does not know is what is looked for, and nothing is rendered.
        self.parser.validateLink = _any_link  # type: ignore[assignment,method-assign]  # meant to be replaced
        self.parser.normalizeLink = _as_written  # type: ignore[method-assign]  # meant to be replaced


def _read(piece: str) -> Iterator[FileRef]:
    env: dict[str, dict[str, dict[str, str]]] = {}
    texts = list(_targets(_parsers.parser.parse(piece, env)))
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


_parsers = _ThreadParser()


def with_references(text: str, places: Iterable[P], ref_of: Callable[[P], FileRef]) -> str:
    """Return *text* with a reference in each of its *places*, which come in order and do not overlap."""
    parts: list[str] = []
    at = 0
    for place in places:
        parts += (text[at : place.start], format_ref(ref_of(place)))
        at = place.end
    return "".join((*parts, text[at:]))


# The words that a file is found by: of its name, its category in both languages, its media type and its metadata.


NAME_WEIGHT = 1.0
CATEGORY_WEIGHT = 0.7
METADATA_WEIGHT = 0.5
MOST_TERMS = 512
"""So many words of one file are kept; those of its name come first."""
_TEXT_CHARS = 4_096

_CATEGORY_WORDS: Mapping[FileCategory, str] = {
    FileCategory.ARTIFACT: "artifact 产物 结果",
    FileCategory.UPLOAD: "upload 上传",
    FileCategory.REPORT: "report 报告 报表",
    FileCategory.CHART: "chart 图表",
    FileCategory.CACHE: "cache 缓存",
    FileCategory.TEMP: "temp temporary 临时",
    FileCategory.MEMORY: "memory attachment 记忆 附件",
}


def file_terms(file: File) -> dict[str, float]:
    """Return the words with their weights, over 0 to 1; of a repeated one the largest counts."""
    weights: dict[str, float] = {}
    for text, weight in _texts(file):
        for term in terms(text[:_TEXT_CHARS]):
            weights[term] = max(weight, weights.get(term, 0.0))
    return dict(islice(weights.items(), MOST_TERMS))


def _texts(file: File) -> Iterator[tuple[str, float]]:
    # A name such as "sales_2024-q1.xlsx" is of words, too.
    yield file.name, NAME_WEIGHT
    yield "".join(char if char.isalnum() else " " for char in file.name), NAME_WEIGHT
    yield _CATEGORY_WORDS[file.category], CATEGORY_WEIGHT
    yield file.media_type.replace("/", " "), METADATA_WEIGHT
    for text in _strings(file.metadata):
        yield text, METADATA_WEIGHT


def _strings(value: Json | Mapping[str, Json]) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name in sorted(value):
            yield from _strings(value[name])
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _strings(part)


# Inline images in a text, as `data:` URIs in base64, and the text that refers to them instead.


MARK = "](data:image/"
_REF_MARK = "](memory:"
_IMAGE_REF = re.compile(
    r"(?<=!\[)[^\[\]\n]{0,512}\]\((?P<uri>memory:[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12})(?=[)\s])"
)
_BACKTICKS = re.compile(r"(?<!\\)(?P<escape>\\*+)(?P<run>`++)")
_SIZE = r"=(?:\d{1,5}%?x|x\d)[\d%]{0,6}"
_IMAGE = re.compile(
    r"(?<=!\[)(?P<alt>[^\[\]\n]{0,512})\]\("
    r"(?P<uri>data:(?P<type>image/[a-z0-9][a-z0-9.+-]{0,63})(?:;[a-z0-9-]{1,32}=[\w.-]{0,64})?;base64,"
    r"""(?P<data>[^()\[\]<>"'`]*+))"""
    r"""(?:(?<=\s)(?:"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+'|\([^()]*+\))\s*+"""
    rf"(?:{_SIZE}\s*+)?)?\)",
    re.DOTALL,
)
"""The data ends before the closing bracket or a title; data in lines, and a size after it, are within."""
_SIZE_CHARS = 16
_SIZE_AFTER = re.compile(rf"\s{_SIZE}\Z")
_BLANK_LINE = re.compile(r"\n[ \t\r]*+\n")


@dataclass(frozen=True, slots=True)
class InlineImage:
    """An image in a text: its type, its bytes, and the offsets of its URI. None as bytes: it is not valid base64."""

    media_type: str
    alt: str
    data: bytes | None
    start: int
    end: int


def inline_images(text: str) -> list[InlineImage]:
    """Return the images in *text*, in order, but for those in blocks of code and code spans, which are examples."""
    if MARK not in text:
        return []
    found = [one for one in _IMAGE.finditer(text) if not _BLANK_LINE.search(one["data"])]
    return [_image(one) for one in _outside_code(text, found)]


def _image_refs(text: str) -> tuple[FileRef, ...]:
    """Return the references that took the place of images in *text*, wherever `inline_images` finds one."""
    if _REF_MARK not in text:
        return ()
    refs = (ref_from(one["uri"]) for one in _outside_code(text, list(_IMAGE_REF.finditer(text))))
    return tuple(dict.fromkeys(ref for ref in refs if ref is not None))


def _outside_code(text: str, places: list[re.Match[str]]) -> list[re.Match[str]]:
    """Return those of *places* whose `uri` is neither in a top-level block of code nor in a code span."""
    if not places:
        return []
    extents: list[tuple[int, int]] = []
    for block in blocks(text):
        if block.kind is BlockKind.CODE:
            extents.append((block.start, block.end))
        else:
            extents += _code_spans(text, block)
    starts = [start for start, _ in extents]

    def is_code(place: int) -> bool:
        at = bisect_right(starts, place) - 1
        return at >= 0 and place < extents[at][1]

    return [one for one in places if not is_code(one.start("uri"))]


def _code_spans(text: str, block: Block) -> Iterator[tuple[int, int]]:
    """Yield the extents of the code spans in *block*; none goes past a nested block or a blank line."""
    ends = block.cuts or tuple(one.end() for one in _BLANK_LINE.finditer(text, block.start, block.end))
    for start, end in pairwise((block.start, *ends, block.end)):
        runs = list(_BACKTICKS.finditer(text, start, end))
        # The places of the runs of each length, the last first: those before a span are dropped once.
        places: dict[int, list[int]] = {}
        for run in reversed(runs):
            places.setdefault(len(run["run"]), []).append(run.start("run"))
        past = start
        for run in runs:
            # A backslash makes the first backtick a character.
            opening = run.start("run") + len(run["escape"]) % 2
            length = run.end() - opening
            if opening < past or not length:
                continue
            closing = places.get(length, [])
            while closing and closing[-1] < run.end():
                closing.pop()
            if closing:
                past = closing[-1] + length
                yield opening, past


def _image(match: re.Match[str]) -> InlineImage:
    data = match["data"].rstrip()
    # A size after the target is an extension of Markdown, as in `(target =200x100)`.
    if size := _SIZE_AFTER.search(data, max(0, len(data) - _SIZE_CHARS)):
        data = data[: size.start()].rstrip()
    return InlineImage(match["type"], match["alt"], _decode(data), match.start("uri"), match.start("data") + len(data))


def _decode(data: str) -> bytes | None:
    """Return the bytes of base64, which may be wrapped: white space in it counts for nothing."""
    try:
        return b64decode("".join(data.split()), validate=True) or None
    except ValueError:
        # Also what is no ASCII.
        return None


# The words that the passages of a file are found by.


BASE_WEIGHT = 0.7
"""Weight of a term that a passage has; the rest grows with its share of the passage."""
USUAL_TERMS = 170
"""Terms of a passage of the usual length."""


def passage_weights(passage: FilePassage) -> dict[str, float]:
    """Return the terms of a passage and of its section with their weights, over 0 and at most 1."""
    counts = Counter(terms(passage.text))
    counts.update(dict.fromkeys(terms(passage.section), 1))
    norm = length_norm(counts.total(), USUAL_TERMS)
    return {
        term: BASE_WEIGHT + (1 - BASE_WEIGHT) * saturation(count, norm) / (K1 + 1) for term, count in counts.items()
    }
