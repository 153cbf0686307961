"""Ingest: the bytes of a document, checked and made a memory (requirement M16)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from memsvc.domain import limits
from memsvc.domain.errors import InvalidRequestError, Violation
from memsvc.domain.memory import Json, Kind, Layer, Origin
from memsvc.domain.scope import Scope
from memsvc.domain.write_requests import Draft, WriteOptions, Written
from memsvc.engine.memories.create import MemoryCreator
from memsvc.engine.records.memory_builder import chunks_of

BYTE_ORDER_MARK = "\ufeff"
SKILL_FILE = "skill.md"
_FRONT_MATTER = re.compile(r"---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_FIELD = re.compile(r"^(title|name|description):[ \t]*(\S[^\r\n]*)", re.MULTILINE)
_HEADING = re.compile(r"^#[ \t]+(\S[^\r\n]*?)[ \t#]*\r?$", re.MULTILINE)
_HEAD_CHARS = 20_000
"""As much of a document is looked at for its title."""


@dataclass(frozen=True, slots=True)
class DocumentHeader:
    """What is said of a document before its bytes. None means not given.

    Attributes:
        size_bytes: How many bytes there are to be; 0: not said.
        sha256: The hexadecimal hash that they are to have; empty: not said.
    """

    name: str = ""
    key: str = ""
    kind: Kind | None = None
    title: str = ""
    layer: Layer | None = None
    category: str = ""
    tags: tuple[str, ...] = ()
    metadata: dict[str, Json] | None = None
    size_bytes: int = 0
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class IngestResult:
    """The memory that a document became, and in how many chunks it is searched."""

    written: Written
    chunk_count: int


class DocumentIngester:
    """Stores documents and skills."""

    def __init__(self, remember: MemoryCreator) -> None:
        """Store by *remember*."""
        self._remember = remember

    def ingest(self, scope: Scope, header: DocumentHeader, data: bytes, options: WriteOptions) -> IngestResult:
        """Store a whole document as one memory; return once it is durable.

        Raises:
            InvalidRequestError: The bytes are not what the header says, no UTF-8, blank, too long, or hold a NUL.
            MemoryExistsError, RequestIdReusedError, MemoryNotFoundError: As for `MemoryCreator.create`.
        """
        draft = draft_from_document(header, checked_text(header, data))
        written = self._remember.create(scope, draft, options, method="IngestDocument")
        return IngestResult(written, max(1, len(chunks_of(written.memory.content))))


def checked_text(header: DocumentHeader, data: bytes) -> str:
    """Return the text of a document.

    Raises:
        InvalidRequestError: As for `DocumentIngester.ingest`; it names everything that is wrong.
    """
    violations = list(_faults_of_bytes(header, data))
    try:
        text = data.decode("utf-8").removeprefix(BYTE_ORDER_MARK)
    except UnicodeDecodeError as error:
        violations.append(Violation("data", f"must be UTF-8; the byte at offset {error.start} is not"))
    else:
        violations += _faults_of_text(text)
    if violations:
        raise InvalidRequestError(violations)
    return text


def draft_from_document(header: DocumentHeader, text: str) -> Draft:
    """Return the memory that a document becomes; what its header leaves open is taken from its name and its text."""
    fields = _front_matter(text)
    is_skill = PurePosixPath(header.name.lower()).name == SKILL_FILE
    return Draft(
        content=text,
        key=header.key,
        layer=header.layer,
        kind=header.kind or (Kind.SKILL if is_skill else Kind.DOCUMENT),
        category=header.category or None,
        title=header.title or _title(header, text, fields)[: limits.TITLE] or None,
        summary=fields.get("description", "")[: limits.SUMMARY] or None,
        tags=header.tags or None,
        source=header.name or None,
        metadata=header.metadata,
        origin=Origin.DOCUMENT,
    )


def _faults_of_bytes(header: DocumentHeader, data: bytes) -> Iterator[Violation]:
    if header.size_bytes and len(data) != header.size_bytes:
        yield Violation("header.size_bytes", f"is {header.size_bytes}, but {len(data)} bytes arrived; send it again")
    if header.sha256:
        digest = hashlib.sha256(data).hexdigest()
        if digest != header.sha256.lower():
            yield Violation("header.sha256", f"is not the hash of what arrived, which is {digest}; send it again")


def _faults_of_text(text: str) -> Iterator[Violation]:
    if not text.strip():
        yield Violation("data", "must hold text that is not blank")
    if len(text) > limits.CONTENT:
        yield Violation("data", f"must have at most {limits.CONTENT} characters, not {len(text)}; split the document")
    if "\0" in text:
        yield Violation("data", "must not contain NUL")


def _front_matter(text: str) -> dict[str, str]:
    """Return the plain title, name and description of a document's front matter, without their quotes."""
    found = _FRONT_MATTER.match(text[:_HEAD_CHARS])
    pairs = _FIELD.findall(found[1]) if found else []
    return {name: value.strip().strip("\"'") for name, value in pairs}


def _title(header: DocumentHeader, text: str, fields: dict[str, str]) -> str:
    given = fields.get("title") or fields.get("name")
    if given:
        return given
    heading = _HEADING.search(text[:_HEAD_CHARS])
    return heading[1] if heading else PurePosixPath(header.name).name
