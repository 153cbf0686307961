"""A file that a user keeps beside the memories: what is known of it. Its content lies elsewhere, under its hash."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from memsvc.domain.memory import Json
from memsvc.domain.scope import Scope

SHA256_DIGITS = 64
"""How many hexadecimal digits a content hash has."""


class FileCategory(StrEnum):
    """What a file is for; the first half of a reference to it, as in `chart:def456`."""

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
    """One file, apart from its bytes. It never changes, but for the coming of its content.

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


@dataclass(frozen=True, slots=True)
class FileFilter:
    """Which files are wanted; what is empty does not limit.

    Attributes:
        words: All of them must occur in what `searched_text` returns; they are folded as that is.
        media_type: A whole one such as "image/png", or one that ends in "/*".
    """

    categories: frozenset[FileCategory] = frozenset()
    words: tuple[str, ...] = ()
    media_type: str = ""
    sha256: str = ""


def folded(text: str) -> str:
    """Return *text* such that what readers take for the same is the same: width and case do not count."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def searched_text(file: File) -> str:
    """Return what a search for words looks at: the name and all texts of the metadata, folded, a line for each."""
    return "\n".join(folded(text).replace("\n", " ") for text in (file.name, *_texts(dict(file.metadata))))


def file_matches(where: FileFilter, file: File) -> bool:
    """Return whether a file is wanted."""
    text = searched_text(file) if where.words else ""
    return (
        (not where.categories or file.category in where.categories)
        and all(word in text for word in where.words)
        and media_type_matches(where.media_type, file.media_type)
        and where.sha256 in ("", file.sha256)
    )


def media_type_matches(wanted: str, media_type: str) -> bool:
    """Return whether *media_type* is *wanted*, or of the family that *wanted* names by its "/*"; "" is every one."""
    if wanted.endswith("/*"):
        return media_type.startswith(wanted[:-1])
    return wanted in ("", media_type)


def is_expired(file: File, now: datetime) -> bool:
    """Return whether a file is as if it were not there."""
    return file.expire_time is not None and file.expire_time <= now


def _texts(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name in sorted(value):
            yield from _texts(value[name])
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)
