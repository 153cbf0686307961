"""Files as rows, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memsvc.domain.clock import from_micros, to_micros
from memsvc.domain.file_text import FileText, TextReason, TextState
from memsvc.domain.files import File, FileCategory, search_text_of
from memsvc.domain.scope import OWNER_SEPARATOR, Scope
from memsvc_backends.sql.dialect import json_text, json_value
from memsvc_backends.sql.memory_codec import Row, Values, micros_or_none, moment_or_none
from memsvc_backends.sql.tables import files

_NAMES = (
    "row", "id", "owner", "project_id", "agent_id", "session_id", "category", "name", "media_type", "size_bytes",
    "sha256", "create_time", "expire_time", "has_content", "metadata", "text_state", "text_reason", "text_chars",
    "text_bytes", "text_passages", "text_truncated", "text_attempts",
)  # fmt: skip
FILE_COLUMNS = tuple(files.c[name] for name in _NAMES)
"""What `file_from_row` reads, in this order."""


def file_from_row(row: Row) -> File:
    """Return the file in a row of `FILE_COLUMNS`."""
    (
        number, file_id, owner, project_id, agent_id, session_id, category, name, media_type, size_bytes, sha256,
        create_time, expire_time, has_content, metadata, *text,
    ) = row  # fmt: skip
    tenant_id, _, user_id = owner.partition(OWNER_SEPARATOR)
    return File(
        id=file_id,
        scope=Scope(user_id, project_id, agent_id, session_id, tenant_id),
        category=FileCategory(category),
        name=name,
        media_type=media_type,
        size_bytes=size_bytes,
        sha256=sha256,
        create_time=from_micros(create_time),
        metadata=json_value(metadata),
        expire_time=moment_or_none(expire_time),
        has_content=bool(has_content),
        row=number,
        text=_text_from_row(text),
    )


def _text_from_row(row: Sequence[Any]) -> FileText:
    state, reason, chars, size_bytes, passages, truncated, attempts = row
    return FileText(TextState(state), TextReason(reason), chars, size_bytes, passages, bool(truncated), attempts)


def file_values(file: File) -> Values:
    """Return the value of every column of `files`, by name."""
    scope = file.scope
    return {
        "row": file.row,
        "size_bytes": file.size_bytes,
        "create_time": to_micros(file.create_time),
        "expire_time": micros_or_none(file.expire_time),
        "has_content": int(file.has_content),
        "owner": scope.owner,
        "project_id": scope.project_id,
        "agent_id": scope.agent_id,
        "session_id": scope.session_id,
        "id": file.id,
        "category": file.category.value,
        "name": file.name,
        "media_type": file.media_type,
        "sha256": file.sha256,
        "metadata": json_text(dict(file.metadata)),
        "searched": search_text_of(file),
        **text_values(file.text, to_micros(file.create_time) if is_text_due(file) else None),
    }


def is_text_due(file: File) -> bool:
    """Return whether the text of a file can be extracted and has not been."""
    return file.text.state is TextState.PENDING and file.has_content


def text_values(text: FileText, due: int | None) -> Values:
    """Return the columns of the state of a text, with the time of the next attempt."""
    return {
        "text_state": text.state.value,
        "text_reason": text.reason.value,
        "text_chars": text.chars,
        "text_bytes": text.size_bytes,
        "text_passages": text.passages,
        "text_truncated": int(text.is_truncated),
        "text_attempts": text.attempts,
        "text_time": due,
    }
