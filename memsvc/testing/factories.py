"""Memories and attributes for tests: every field can be given, none has to be."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from typing import Any

from memsvc.domain.files import File, FileCategory
from memsvc.domain.index_entries import Attributes, attributes_of
from memsvc.domain.memory import Memory, content_hash
from memsvc.domain.scope import Scope

NOW = datetime(2026, 2, 6, 9, 30, tzinfo=UTC)
_numbers = count(1)


def memory(content: str = "Anna lives in Lisbon.", **fields: Any) -> Memory:
    """Return a memory with a fresh id; *fields* are those of `Memory` and of its scope, by their names."""
    plain = Memory(
        id=_fresh_id(),
        scope=_scope(fields),
        content=content,
        create_time=NOW,
        update_time=NOW,
        content_hash=content_hash(content),
    )
    return replace(plain, **fields)


def file(content: bytes = b"1;2", **fields: Any) -> File:
    """Return a file with a fresh id and this content; *fields* are those of `File` and of its scope, by their names."""
    plain = File(
        id=_fresh_id(),
        scope=_scope(fields),
        category=FileCategory.UPLOAD,
        name="sales.csv",
        media_type="text/csv",
        size_bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        create_time=NOW,
    )
    return replace(plain, **fields)


def attributes(row: int, **fields: Any) -> Attributes:
    """Return the attributes of a memory with this row; *fields* as for `memory`."""
    return attributes_of(memory(row=row, **fields))


def _fresh_id() -> str:
    return f"01890000-0000-7000-8000-{next(_numbers):012x}"


def _scope(fields: dict[str, Any]) -> Scope:
    names = {"user_id": "ada", "project_id": "", "agent_id": "", "session_id": "", "tenant_id": ""}
    return Scope(**{name: fields.pop(name, default) for name, default in names.items()})
