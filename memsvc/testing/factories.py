"""Memories and attributes for tests: every field can be given, none has to be."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from typing import Any

from memsvc.domain.entries import Attributes, attributes_of
from memsvc.domain.memory import Memory, content_hash
from memsvc.domain.scope import Scope

NOW = datetime(2026, 2, 6, 9, 30, tzinfo=UTC)
_numbers = count(1)


def memory(content: str = "Anna lives in Lisbon.", **fields: Any) -> Memory:
    """Return a memory with a fresh id; *fields* are those of `Memory` and of its scope, by their names."""
    number = next(_numbers)
    scope = Scope(
        user_id=fields.pop("user_id", "ada"),
        project_id=fields.pop("project_id", ""),
        agent_id=fields.pop("agent_id", ""),
        session_id=fields.pop("session_id", ""),
        tenant_id=fields.pop("tenant_id", ""),
    )
    plain = Memory(
        id=f"01890000-0000-7000-8000-{number:012x}",
        scope=scope,
        content=content,
        create_time=NOW,
        update_time=NOW,
        content_hash=content_hash(content),
    )
    return replace(plain, **fields)


def attributes(row: int, **fields: Any) -> Attributes:
    """Return the attributes of a memory with this row; *fields* as for `memory`."""
    return attributes_of(memory(row=row, **fields))
