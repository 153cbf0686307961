"""Text of files: its states, the kinds of documents that have one, and its passages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

PASSAGE_CHARS = 1_000
"""Length of a passage; wide characters, such as those of Chinese, count twice."""
SECTION_CHARS = 200
"""Maximum length of the section of a passage."""


class TextState(StrEnum):
    """Progress of the extraction of a file's text."""

    PENDING = "PENDING"
    INDEXED = "INDEXED"
    UNSUPPORTED = "UNSUPPORTED"
    FAILED = "FAILED"


class TextReason(StrEnum):
    """Reason for which a file has no text."""

    NONE = ""
    UNSUPPORTED_TYPE = "UNSUPPORTED_TYPE"
    LIBRARY_MISSING = "LIBRARY_MISSING"
    DISABLED = "DISABLED"
    FILE_TOO_LARGE = "FILE_TOO_LARGE"
    UNKNOWN_ENCODING = "UNKNOWN_ENCODING"
    MALFORMED = "MALFORMED"
    ENCRYPTED = "ENCRYPTED"
    NESTED_TOO_DEEPLY = "NESTED_TOO_DEEPLY"
    EXPANDED_TOO_LARGE = "EXPANDED_TOO_LARGE"
    MEMORY_EXCEEDED = "MEMORY_EXCEEDED"
    TIME_EXCEEDED = "TIME_EXCEEDED"
    CRASHED = "CRASHED"
    CONTENT_MISSING = "CONTENT_MISSING"


REASON_MESSAGES: Mapping[TextReason, str] = {
    TextReason.NONE: "",
    TextReason.UNSUPPORTED_TYPE: "There is no text extraction for files of this type.",
    TextReason.LIBRARY_MISSING: "PDF needs a library: pip install 'memsvc[documents]', and restart the service.",
    TextReason.DISABLED: "Text extraction is off (setting files.text.enabled).",
    TextReason.FILE_TOO_LARGE: "The file is larger than the setting files.text.max_bytes.",
    TextReason.UNKNOWN_ENCODING: "The text is neither UTF-8, UTF-16 or UTF-32 with a byte order mark, nor GB18030.",
    TextReason.MALFORMED: "The file is damaged, or not of the type that its name or media type says.",
    TextReason.ENCRYPTED: "The file is encrypted, or of an Office format from before 2007.",
    TextReason.NESTED_TOO_DEEPLY: "The elements of the file are nested too deeply.",
    TextReason.EXPANDED_TOO_LARGE: "The file expands to more than the setting files.text.max_expanded_bytes.",
    TextReason.MEMORY_EXCEEDED: "Extraction needed more memory than the setting files.text.memory_bytes.",
    TextReason.TIME_EXCEEDED: "Extraction took longer than files.text.seconds, or more processor time than "
    "files.text.cpu_seconds.",
    TextReason.CRASHED: "The process that read the file ended unexpectedly, each time.",
    TextReason.CONTENT_MISSING: "The bytes of the file are missing.",
}
"""Descriptions of the reasons, for people."""
UNSUPPORTED = frozenset({TextReason.UNSUPPORTED_TYPE, TextReason.LIBRARY_MISSING, TextReason.DISABLED})
"""Reasons of UNSUPPORTED; the others are of FAILED."""
RESTORABLE = frozenset({TextReason.LIBRARY_MISSING, TextReason.DISABLED})
"""Reasons that a restart of the service may remove."""


class DocumentKind(StrEnum):
    """Kind of a document, which decides how its text is extracted."""

    TEXT = "text"
    MARKDOWN = "markdown"
    CSV = "csv"
    HTML = "html"
    PDF = "pdf"
    DOCX = "docx"
    XLSX = "xlsx"
    PPTX = "pptx"


_OFFICE = "application/vnd.openxmlformats-officedocument."
_OF_TYPE = {
    "text/markdown": DocumentKind.MARKDOWN,
    "text/x-markdown": DocumentKind.MARKDOWN,
    "text/csv": DocumentKind.CSV,
    "application/csv": DocumentKind.CSV,
    "text/tab-separated-values": DocumentKind.CSV,
    "text/html": DocumentKind.HTML,
    "application/xhtml+xml": DocumentKind.HTML,
    "application/pdf": DocumentKind.PDF,
    f"{_OFFICE}wordprocessingml.document": DocumentKind.DOCX,
    f"{_OFFICE}spreadsheetml.sheet": DocumentKind.XLSX,
    f"{_OFFICE}presentationml.presentation": DocumentKind.PPTX,
    "application/json": DocumentKind.TEXT,
    "application/x-ndjson": DocumentKind.TEXT,
    "application/xml": DocumentKind.TEXT,
    "application/yaml": DocumentKind.TEXT,
    "application/x-yaml": DocumentKind.TEXT,
    "application/toml": DocumentKind.TEXT,
    "application/sql": DocumentKind.TEXT,
}
_NOT_TEXT = frozenset({"text/rtf", "text/vnd.rn-realtext"})
_UNSPECIFIC = frozenset({"application/octet-stream", "text/plain", "application/zip", ""})
"""Types that say less than the extension of the name."""
_OF_EXTENSION = {
    **dict.fromkeys(("md", "markdown"), DocumentKind.MARKDOWN),
    **dict.fromkeys(("csv", "tsv"), DocumentKind.CSV),
    **dict.fromkeys(("html", "htm", "xhtml"), DocumentKind.HTML),
    **dict.fromkeys(("txt", "log", "rst", "json", "jsonl", "xml", "yaml", "yml", "toml", "ini"), DocumentKind.TEXT),
    "pdf": DocumentKind.PDF,
    "docx": DocumentKind.DOCX,
    "xlsx": DocumentKind.XLSX,
    "pptx": DocumentKind.PPTX,
}


def document_kind(media_type: str, name: str) -> DocumentKind | None:
    """Return the kind of a file, by its media type, or by its name if the type is unspecific; None: it has no text."""
    extension = name.rpartition(".")[2].lower() if "." in name else ""
    if media_type in _UNSPECIFIC and extension in _OF_EXTENSION:
        return _OF_EXTENSION[extension]
    if kind := _OF_TYPE.get(media_type):
        return kind
    is_text = media_type.startswith("text/") and media_type not in _NOT_TEXT
    return DocumentKind.TEXT if is_text else None


@dataclass(frozen=True, slots=True)
class FileText:
    """State of a file's text.

    Attributes:
        chars: Number of characters of the passages.
        size_bytes: Their size in UTF-8, which quotas count.
        is_truncated: Whether the file has more text than is indexed.
        attempts: Number of extractions that were begun.
    """

    state: TextState = TextState.PENDING
    reason: TextReason = TextReason.NONE
    chars: int = 0
    size_bytes: int = 0
    passages: int = 0
    is_truncated: bool = False
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class FilePassage:
    """A passage of a file's text, with its position.

    Attributes:
        ordinal: Number of the passage in the file, from 0.
        start_line: First line, row or paragraph, from 1: see FilePassage in the API.
        page: Page, slide or sheet, from 1; 0: the kind of document has none.
        section: Heading or name of the sheet above it; empty: none.
    """

    ordinal: int
    text: str
    start_line: int
    end_line: int
    page: int = 0
    section: str = ""


def initial_text(media_type: str, name: str) -> FileText:
    """Return the state of a new file's text."""
    if document_kind(media_type, name) is None:
        return FileText(TextState.UNSUPPORTED, TextReason.UNSUPPORTED_TYPE)
    return FileText()
