"""The numbers that a transaction gives: rows of new memories, and positions of changes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import sqlalchemy as sa

from memsvc.domain.memory import Memory
from memsvc.ports.metadata import Record
from memsvc_backends.sql.dialect import execute_compiled
from memsvc_backends.sql.memory_codec import with_rows
from memsvc_backends.sql.tables import counters


class Numbers(NamedTuple):
    """The last row and the last position that were given."""

    row: int
    position: int


class Numbering:
    """Gives numbers out of memory: read at the first need, and noted when the transaction ends.

    Writers of all processes stand in one line, so that nobody else gives any meanwhile.
    """

    def __init__(self, connection: sa.Connection) -> None:
        """Number in the transaction of a connection."""
        self._connection = connection
        self._noted: Numbers | None = None
        self.last: Numbers | None = None

    def take(self, *, rows: int, positions: int) -> Numbers:
        """Take the next numbers; return the last of each."""
        if self._noted is None:
            [row] = execute_compiled(self._connection, _select_numbers(), {})
            self._noted = Numbers(*row)
        last = self.last or self._noted
        self.last = Numbers(last.row + rows, last.position + positions)
        return self.last

    def note(self) -> None:
        """Have the store know what was given."""
        if self.last is not None and self.last != self._noted:
            execute_compiled(self._connection, _note_numbers(), {"row": self.last.row, "position": self.last.position})
            self._noted = self.last


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


@cache
def _select_numbers() -> sa.Select[Any]:
    return sa.select(counters.c.last_row, counters.c.last_position)


@cache
def _note_numbers() -> sa.Update:
    return sa.update(counters).values(last_row=sa.bindparam("row"), last_position=sa.bindparam("position"))
