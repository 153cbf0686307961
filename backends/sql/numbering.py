"""Rows of new memories."""

from __future__ import annotations

from collections.abc import Sequence

from backends.sql.codec import with_rows
from memsvc.domain.memory import Memory
from memsvc.ports.metadata import Record


def numbered(new: Sequence[Memory], first: int) -> list[Memory]:
    """Give rows from *first* on; a later line of a session is tied to the one before it here."""
    latest: dict[tuple[str, str, str], int] = {}
    found: list[Memory] = []
    for row, memory in enumerate(new, start=first):
        scope = memory.scope
        if not scope.session_id:
            found.append(with_rows(memory, row, memory.previous_row))
            continue
        session = (scope.owner, scope.project_id, scope.session_id)
        found.append(with_rows(memory, row, latest.get(session, memory.previous_row)))
        latest[session] = row
    return found


def with_memory(record: Record, memory: Memory) -> Record:
    """Return *record* of *memory*."""
    vector = (record.given_vector, record.given_model)
    return Record(memory, record.chunks, record.is_unique, *vector, record.statements)
