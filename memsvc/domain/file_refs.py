"""How a reference to a file is written in a text, and the block that lists those given apart from the text.

One grammar for all of it. A reference is `category:id`, category one of `FILE_CATEGORIES`, so that neither `http:` nor
`10:30` is one. The id begins with a letter, a digit or an underscore, and goes on with these and `. : / @ + ~ -`; any
other character of it is written as `%` and two hexadecimal digits for each byte of its UTF-8, as in a URL.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import unquote

from memsvc.domain import limits
from memsvc.domain.files import FileCategory
from memsvc.domain.memory import FileRef

FILE_CATEGORIES = tuple(category.value for category in FileCategory)
"""What a file is, in the order in which they are told."""

REF = rf"(?:{'|'.join(FILE_CATEGORIES)}):(?:\w|%[0-9A-Fa-f]{{2}})(?:[\w.:/@+~-]|%[0-9A-Fa-f]{{2}})*"
"""A reference in a text, as a regular expression without groups."""

HEADINGS = {"zh": "关联文件", "en": "Related files"}
"""What stands above the block, by language."""

_REF = re.compile(REF)
_PLAIN_FIRST = re.compile(r"\w")
_PLAIN = re.compile(r"[\w.:/@+~-]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_HEADING = re.compile(rf"\n\n\*\*(?:{'|'.join(HEADINGS.values())})\*\*:\n")
_ITEMS = re.compile(rf"(?:- `{REF}`(?:\n|\Z))*\s*")
_ITEM = re.compile(rf"- `({REF})`")


def written(ref: FileRef) -> str:
    """Return *ref* as it stands in a text; `ref_from` is the way back."""
    first, rest = ref.id[:1], ref.id[1:]
    return f"{ref.category}:{_quoted(first, _PLAIN_FIRST)}{_quoted(rest, _PLAIN)}"


def ref_from(text: str) -> FileRef | None:
    """Return the reference that *text* is as a whole, or None when it is none."""
    if not _REF.fullmatch(text):
        return None
    category, _, quoted = text.partition(":")
    try:
        name = unquote(quoted, errors="strict")
    except UnicodeDecodeError:
        return None
    return FileRef(category, name) if len(name) <= limits.FILE_REF_ID and not _CONTROL.search(name) else None


def union(given: Sequence[FileRef], found: Sequence[FileRef]) -> tuple[FileRef, ...]:
    """Return all references, each once, those *given* first; at most as many as a memory may have."""
    return tuple(dict.fromkeys((*given, *found)))[: limits.FILE_REFS]


def followed(held: Sequence[FileRef], before: Sequence[FileRef], after: Sequence[FileRef]) -> tuple[FileRef, ...]:
    """Return the references of a memory whose content has changed, and which was given no new ones.

    *held* are those it had; what was found in the content *before* goes with it, what is found *after* comes, and all
    else was given, and stays.
    """
    gone = frozenset(before) - frozenset(after)
    return union([ref for ref in held if ref not in gone], after)


def with_block(content: str, given: Sequence[FileRef], *, is_chinese: bool) -> str:
    """Return *content* followed by the block of the references that were *given* apart from it.

    Without any it is the content as it is, unless that ends with such a block itself: then an empty one follows, which
    `without_block` takes away again.
    """
    if not given and without_block(content) == (content, ()):
        return content
    heading = HEADINGS["zh" if is_chinese else "en"]
    return f"{content}\n\n**{heading}**:\n" + "".join(f"- `{written(ref)}`\n" for ref in given)


def without_block(text: str) -> tuple[str, tuple[FileRef, ...]]:
    """Return *text* without the block at its end, and the references listed there, each once; the way back.

    A block that a person has given other lines, such as text after it, is part of the text. White space after it is no
    part of either.
    """
    headings = list(_HEADING.finditer(text))
    if not headings or not _ITEMS.fullmatch(text, headings[-1].end()):
        return text, ()
    refs = (ref_from(item) for item in _ITEM.findall(text, headings[-1].end()))
    listed = tuple(dict.fromkeys(ref for ref in refs if ref is not None))
    return text[: headings[-1].start()], listed


def _quoted(text: str, plain: re.Pattern[str]) -> str:
    return "".join(char if plain.match(char) else "".join(f"%{byte:02X}" for byte in char.encode()) for char in text)
