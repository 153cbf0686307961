"""Ingestion of documents and skills as memories."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from memsvc.domain import limits
from memsvc.domain.errors import InvalidRequestError, Violation
from memsvc.domain.memory import Kind, Origin
from memsvc.domain.scope import Scope
from memsvc.domain.write_requests import Draft, WriteOptions, WriteResult
from memsvc.engine.memories.create import MemoryCreator
from memsvc.engine.records.memory_builder import chunks_of

BYTE_ORDER_MARK = "\ufeff"
SKILL_FILE = "skill.md"
_FRONT_MATTER = re.compile(r"---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_FIELD = re.compile(r"^(title|name|description):[ \t]*(\S[^\r\n]*)", re.MULTILINE)
_HEADING = re.compile(r"^#[ \t]+(\S[^\r\n]*?)[ \t#]*\r?$", re.MULTILINE)
_HEAD_CHARS = 20_000
"""Length of the beginning in which title and front matter are searched."""


_EMPTY = Draft("")


@dataclass(frozen=True, slots=True)
class DocumentHeader:
    """Metadata sent before the bytes of a document.

    Attributes:
        draft: The fields of the memory, without content.
        size_bytes: The expected number of bytes; 0: not given.
        sha256: The expected hash in hexadecimal; empty: not given.
    """

    name: str = ""
    draft: Draft = _EMPTY
    size_bytes: int = 0
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class IngestResult:
    """The memory of a document, and the number of its chunks."""

    written: WriteResult
    chunk_count: int


class DocumentIngester:
    """Stores documents and skills."""

    def __init__(self, creator: MemoryCreator) -> None:
        """Write by *creator*."""
        self._creator = creator

    def ingest(self, scope: Scope, header: DocumentHeader, data: bytes, options: WriteOptions) -> IngestResult:
        """Store a whole document as one memory; return once it is durable.

        Raises:
            InvalidRequestError: The bytes do not match the header, are not UTF-8, are blank or too long, or contain
                NUL.
            MemoryExistsError, RequestIdReusedError, MemoryNotFoundError: As for `MemoryCreator.create`.
        """
        draft = draft_from_document(header, checked_text(header, data))
        written = self._creator.create(scope, draft, options, method="IngestDocument")
        return IngestResult(written, max(1, len(chunks_of(written.memory.content))))


def checked_text(header: DocumentHeader, data: bytes) -> str:
    """Return the text of a document.

    Raises:
        InvalidRequestError: As for `DocumentIngester.ingest`; it lists all violations.
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
    """Return the draft of a document; title and summary default to name, front matter and first heading."""
    fields = _front_matter(text)
    is_skill = PurePosixPath(header.name.lower()).name == SKILL_FILE
    given = header.draft
    return replace(
        given,
        content=text,
        kind=given.kind or (Kind.SKILL if is_skill else Kind.DOCUMENT),
        title=given.title or _title(header, text, fields)[: limits.TITLE] or None,
        summary=given.summary or fields.get("description", "")[: limits.SUMMARY] or None,
        source=given.source or header.name or None,
        origin=given.origin or Origin.DOCUMENT,
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
    """Return title, name and description of the front matter, without quotes."""
    found = _FRONT_MATTER.match(text[:_HEAD_CHARS])
    pairs = _FIELD.findall(found[1]) if found else []
    return {name: value.strip().strip("\"'") for name, value in pairs}


def _title(header: DocumentHeader, text: str, fields: dict[str, str]) -> str:
    given = fields.get("title") or fields.get("name")
    if given:
        return given
    heading = _HEADING.search(text[:_HEAD_CHARS])
    return heading[1] if heading else PurePosixPath(header.name).name
