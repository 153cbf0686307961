"""Files of users: their metadata. The content is stored by its hash."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from string import Formatter
from urllib.parse import quote, unquote

from memsvc.domain import limits
from memsvc.domain.field_rules import name_fault
from memsvc.domain.file_text import FileText
from memsvc.domain.memory import FileRef, Json
from memsvc.domain.scope import Scope

SHA256_DIGITS = 64
"""How many hexadecimal digits a content hash has."""
HEADINGS = {"zh": "关联文件", "en": "Related files"}
"""The heading of the block, by language."""
_PLAIN_FIRST = re.compile(r"\w")
_PLAIN = re.compile(r"[\w.:/@+~-]")
_HEADING = re.compile(rf"\n\n\*\*(?:{'|'.join(HEADINGS.values())})\*\*:\n")
_DOTS = re.compile(r"\.{1,2}")
PLACES = frozenset({"category", "id", "name", "sha256", "user_id", "project_id", "tenant_id"})
"""What a template may name in braces."""


class FileCategory(StrEnum):
    """Category of a file; the first half of a reference to it, as in `chart:def456`."""

    ARTIFACT = "artifact"
    """What a tool made."""
    UPLOAD = "upload"
    """What a user brought."""
    REPORT = "report"
    CHART = "chart"
    CACHE = "cache"
    TEMP = "temp"
    MEMORY = "memory"
    """What belongs to a memory, such as an attachment or an image in its content."""


@dataclass(frozen=True, slots=True)
class File:
    """One file, apart from its bytes. It never changes, but for the coming of its content and the state of its text.

    Attributes:
        id: Unique in the store: a UUID of version 7, or what the file had where it came from.
        scope: Where it lives; the agent and the session that it came from are in it too, and limit nothing.
        name: What its user calls it. It is no path anywhere.
        sha256: Lower-case hexadecimal digits of the content's hash.
        expire_time: From when on it is as if it were not there; None: never.
        has_content: False: only this record was brought here; its owner has still to upload the content.
        row: The store's own number for it, growing in the order of writing. It never leaves the process.
    """

    id: str
    scope: Scope
    category: FileCategory
    name: str
    media_type: str
    size_bytes: int
    sha256: str
    create_time: datetime
    metadata: Mapping[str, Json] = field(default_factory=dict)
    expire_time: datetime | None = None
    has_content: bool = True
    row: int = 0
    text: FileText = field(default_factory=FileText)


@dataclass(frozen=True, slots=True)
class FileFilter:
    """Filter over files; empty fields do not limit.

    Attributes:
        words: All of them must occur in what `search_text_of` returns; they are folded as that is.
        media_type: A whole one such as "image/png", or one that ends in "/*".
    """

    categories: frozenset[FileCategory] = frozenset()
    words: tuple[str, ...] = ()
    media_type: str = ""
    sha256: str = ""


def fold_text(text: str) -> str:
    """Return *text* such that what readers take for the same is the same: width and case do not count."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def search_text_of(file: File) -> str:
    """Return what a search for words looks at: the name and all texts of the metadata, folded, a line for each."""
    return "\n".join(fold_text(text).replace("\n", " ") for text in (file.name, *_texts(dict(file.metadata))))


def media_type_matches(wanted: str, media_type: str) -> bool:
    """Return whether *media_type* is *wanted*, or of the family that *wanted* names by its "/*"; "" is every one."""
    if wanted.endswith("/*"):
        return media_type.startswith(wanted[:-1])
    return wanted in ("", media_type)


def is_expired(file: File, now: datetime) -> bool:
    """Return whether a file is as if it were not there."""
    return file.expire_time is not None and file.expire_time <= now


def fault_of_ref(ref: FileRef, file: File | None, now: datetime) -> str:
    """Return the predicate of a sentence that says why *ref* leads to no file; empty if it leads to *file*.

    *file* is the one with the id of *ref* within the caller's reach, expired or not.
    """
    if file is None:
        return "does not exist"
    if file.expire_time is not None and is_expired(file, now):
        return f"expired at {file.expire_time.isoformat(timespec='seconds')}"
    return "" if file.category.value == ref.category else f"is of category {file.category.value}"


def _texts(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name in sorted(value):
            yield from _texts(value[name])
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)


# Grammar of references to files in a text, and the block that lists references given apart from the text.
#
# One grammar for all of it. A reference is `category:id`, category one of `FILE_CATEGORIES`, so that neither `http:`
# nor `10:30` is one. The id begins with a letter, a digit or an underscore, and goes on with these and `. : / @ + ~
# -`; any other character of it is written as `%` and two hexadecimal digits for each byte of its UTF-8, as in a URL.


FILE_CATEGORIES = tuple(category.value for category in FileCategory)
"""Categories of files in their order in replies."""

REF = rf"(?:{'|'.join(FILE_CATEGORIES)}):(?:\w|%[0-9A-Fa-f]{{2}})(?:[\w.:/@+~-]|%[0-9A-Fa-f]{{2}})*"
"""A reference in a text, as a regular expression without groups."""


_REF = re.compile(REF)
_ITEMS = re.compile(rf"(?:- `{REF}`(?:\n|\Z))*\s*")
_ITEM = re.compile(rf"- `({REF})`")


def format_ref(ref: FileRef) -> str:
    """Return *ref* as text; `ref_from` is the inverse."""
    first, rest = ref.id[:1], ref.id[1:]
    return f"{ref.category}:{_percent_encode(first, _PLAIN_FIRST)}{_percent_encode(rest, _PLAIN)}"


def ref_from(text: str) -> FileRef | None:
    """Return the reference that *text* is as a whole, or None when it is none."""
    if not _REF.fullmatch(text):
        return None
    category, _, quoted = text.partition(":")
    try:
        name = unquote(quoted, errors="strict")
    except UnicodeDecodeError:
        return None
    return None if name_fault(name, most=limits.FILE_REF_ID) else FileRef(category, name)


def union(given: Sequence[FileRef], found: Sequence[FileRef]) -> tuple[FileRef, ...]:
    """Return all references, each once, those *given* first; at most as many as a memory may have."""
    return tuple(dict.fromkeys((*given, *found)))[: limits.FILE_REFS]


def refs_after_change(
    held: Sequence[FileRef], before: Sequence[FileRef], after: Sequence[FileRef]
) -> tuple[FileRef, ...]:
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
    return f"{content}\n\n**{heading}**:\n" + "".join(f"- `{format_ref(ref)}`\n" for ref in given)


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


def _percent_encode(text: str, plain: re.Pattern[str]) -> str:
    return "".join(char if plain.match(char) else "".join(f"%{byte:02X}" for byte in char.encode()) for char in text)


# URLs of files, made from a template.


@dataclass(frozen=True, slots=True)
class UrlTemplates:
    """Template of file URLs; an empty template makes none."""

    download: str = ""
    preview: str = ""


def fault_of_template(template: str) -> str:
    """Return what is wrong with a template, the empty string when nothing is."""
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        return f"is no template: {error}"
    names = [name for _, name, _, _ in parts if name is not None]
    if any(spec or conversion for _, _, spec, conversion in parts):
        return "must name its places without a format, as in {id}"
    if unknown := sorted(set(names) - PLACES):
        return f"names {', '.join(map(repr, unknown))}; there are {', '.join(sorted(PLACES))}"
    if template and not {"id", "sha256"} & set(names):
        return "must name {id} or {sha256}: else all files have one URL"
    return ""


def url_of(template: str, file: File) -> str:
    """Return the URL of a file; whatever it is called, its parts stay within theirs of the template."""
    scope = file.scope
    values = {
        "category": file.category.value,
        "id": file.id,
        "name": file.name,
        "sha256": file.sha256,
        "user_id": scope.user_id,
        "project_id": scope.project_id,
        "tenant_id": scope.tenant_id,
    }
    return template.format_map({name: _part(value) for name, value in values.items()})


def _part(value: str) -> str:
    """Return a value as one part of a path: one of dots alone would lead out of it, however it is quoted."""
    return "_" * len(value) if _DOTS.fullmatch(value) else quote(value, safe="")
