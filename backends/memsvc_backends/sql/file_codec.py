"""Files as rows, and back."""

from __future__ import annotations

from memsvc.domain.clock import from_micros, to_micros
from memsvc.domain.files import File, FileCategory, searched_text
from memsvc.domain.scope import OWNER_SEPARATOR, Scope
from memsvc_backends.sql.file_tables import files
from memsvc_backends.sql.jsontext import json_text, json_value
from memsvc_backends.sql.memory_codec import Row, Values, micros_or_none, moment_or_none

_NAMES = (
    "row", "id", "owner", "project_id", "agent_id", "session_id", "category", "name", "media_type", "size_bytes",
    "sha256", "create_time", "expire_time", "has_content", "metadata",
)  # fmt: skip
FILE_COLUMNS = tuple(files.c[name] for name in _NAMES)
"""What `file_from_row` reads, in this order."""


def file_from_row(row: Row) -> File:
    """Return the file in a row of `FILE_COLUMNS`."""
    (
        number, file_id, owner, project_id, agent_id, session_id, category, name, media_type, size_bytes, sha256,
        create_time, expire_time, has_content, metadata,
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
    )


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
        "searched": searched_text(file),
    }
