"""Files as the JSON of a remembered answer, or of an exported line, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memsvc.domain.clock import from_micros, to_micros
from memsvc.domain.files import File, FileCategory
from memsvc.domain.scope import Scope

_SCOPE = ("user_id", "project_id", "agent_id", "session_id", "tenant_id")
_PLAIN = ("id", "name", "media_type", "size_bytes", "sha256", "has_content", "row")


def file_as_json(file: File) -> dict[str, Any]:
    """Return a file as JSON."""
    return {
        "scope": [getattr(file.scope, name) for name in _SCOPE],
        "plain": [getattr(file, name) for name in _PLAIN],
        "category": file.category.value,
        "create_time": to_micros(file.create_time),
        "expire_time": None if file.expire_time is None else to_micros(file.expire_time),
        "metadata": dict(file.metadata),
    }


def file_from_json(known: Mapping[str, Any]) -> File:
    """Return the file that `file_as_json` wrote."""
    plain: dict[str, Any] = dict(zip(_PLAIN, known["plain"], strict=True))
    return File(
        scope=Scope(*known["scope"]),
        category=FileCategory(known["category"]),
        create_time=from_micros(known["create_time"]),
        expire_time=None if known["expire_time"] is None else from_micros(known["expire_time"]),
        metadata=known["metadata"],
        **plain,
    )
