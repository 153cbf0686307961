"""Export of a user: all data of one owner, read in one snapshot."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from memsvc.domain.clock import from_micros
from memsvc.domain.conflicts import Conflict, Fact
from memsvc.domain.files import File
from memsvc.domain.history import Checkpoint, Tombstone
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import Memory
from memsvc.domain.reminders import Acknowledged
from memsvc.domain.sessions import Session
from memsvc.domain.user_data import RecordKind, StoredMemory, StoredRevision
from memsvc_backends.sql.conflicts import CONFLICT_COLUMNS, conflict_from_row
from memsvc_backends.sql.database import Database
from memsvc_backends.sql.dialect import cached_statement, execute, in_json_list, list_parameter, stream, without_index
from memsvc_backends.sql.file_rows import FILE_COLUMNS, file_from_row
from memsvc_backends.sql.history import checkpoint_from_row
from memsvc_backends.sql.memory_codec import MEMORY_COLUMNS, memory_from_row, memory_from_snapshot
from memsvc_backends.sql.row_writer import read_acknowledgements, read_facts
from memsvc_backends.sql.sessions import MESSAGE_COLUMNS, SESSION_COLUMNS, record_from_row, session_from_row
from memsvc_backends.sql.tables import (
    checkpoints,
    conflicts,
    files,
    memories,
    memory_vectors,
    messages,
    revisions,
    sessions,
    tombstones,
)

PAGE = 500
"""Memories asked for in one statement; they are fetched one by one."""
_ACTIONS = {action.value: action for action in ChangeAction}
_PREVIOUS = memories.alias("previous")
_VECTOR = (memory_vectors.c.model, memory_vectors.c.vector)
_BESIDE = (memories.c.is_unique, revisions.c.action, _PREVIOUS.c.id.label("previous_id"), *_VECTOR)
_ROW = [column.name for column in MEMORY_COLUMNS].index("row")
_OWN, _MESSAGE = len(MEMORY_COLUMNS), len(MEMORY_COLUMNS) + len(_BESIDE)


class SqlUserReads:
    """`memsvc.ports.metadata.UserReads`."""

    def __init__(self, database: Database) -> None:
        """Read from *database*."""
        self._database = database

    @contextmanager
    def snapshot(self, owner: str) -> Iterator[SqlUserSnapshot]:
        """Read one state throughout."""
        with self._database.snapshot() as connection, self._database.driver.keep_alive(connection):
            yield SqlUserSnapshot(connection, owner)


class SqlUserSnapshot:
    """`memsvc.ports.metadata.UserSnapshot`."""

    def __init__(self, connection: sa.Connection, owner: str) -> None:
        """Read of *owner* on a connection that sees one state."""
        self._connection = connection
        self._owner = owner

    def counts(self) -> Mapping[RecordKind, int]:
        """Count the records."""
        tables = {
            RecordKind.SESSION: sessions,
            RecordKind.MEMORY: memories,
            RecordKind.CONFLICT: conflicts,
            RecordKind.CHECKPOINT: checkpoints,
            RecordKind.TOMBSTONE: tombstones,
            RecordKind.FILE: files,
        }
        found = {
            kind: self._number(sa.select(sa.func.count()).select_from(table), table) for kind, table in tables.items()
        }
        earlier = sa.select(sa.func.coalesce(sa.func.sum(memories.c.revision - 1), 0))
        return found | {RecordKind.REVISION: self._number(earlier, memories)}

    def sessions(self) -> Iterator[Session]:
        """Yield the sessions."""
        statement = sa.select(*SESSION_COLUMNS).where(sessions.c.owner == self._owner).order_by(sessions.c.row)
        yield from map(session_from_row, stream(self._connection, statement))

    def memories(self) -> Iterator[StoredMemory]:
        """Yield the memories; their rows come from an index alone, and are sorted here."""
        of_owner = sa.select(memories.c.row).where(memories.c.owner == self._owner)
        rows = array("q", sorted(execute(self._connection, of_owner).scalars()))
        for start in range(0, len(rows), PAGE):
            wanted = list_parameter(rows[start : start + PAGE])
            stated = read_facts(self._connection, rows[start : start + PAGE])
            noted = read_acknowledgements(self._connection, rows[start : start + PAGE])
            for row in stream(self._connection, _select_rows(), {"wanted": wanted}):
                yield stored_from_row(row, stated, noted)

    def earlier(self, memory: Memory) -> Iterator[StoredRevision]:
        """Yield the earlier revisions."""
        if memory.revision > 1:
            yield from read_earlier(self._connection, memory)

    def conflicts(self) -> Iterator[Conflict]:
        """Yield the conflicts."""
        statement = sa.select(*CONFLICT_COLUMNS).where(conflicts.c.owner == self._owner)
        ordered = statement.order_by(conflicts.c.project_id, conflicts.c.id)
        yield from map(conflict_from_row, stream(self._connection, ordered))

    def checkpoints(self) -> Iterator[Checkpoint]:
        """Yield the checkpoints."""
        statement = sa.select(checkpoints).where(checkpoints.c.owner == self._owner)
        ordered = statement.order_by(checkpoints.c.project_id, checkpoints.c.name)
        yield from map(checkpoint_from_row, stream(self._connection, ordered))

    def files(self) -> Iterator[File]:
        """Yield what is known of files."""
        statement = sa.select(*FILE_COLUMNS).where(files.c.owner == self._owner).order_by(files.c.row)
        yield from map(file_from_row, stream(self._connection, statement))

    def tombstones(self) -> Iterator[Tombstone]:
        """Yield the tombstones."""
        c = tombstones.c
        columns = (c.row, c.memory_id, c.project_id, c.session_id, c.create_time, c.time)
        statement = sa.select(*columns).where(c.owner == self._owner).order_by(c.row)
        for row, memory_id, project_id, session_id, created, purged in stream(self._connection, statement):
            yield Tombstone(row, memory_id, project_id, session_id, from_micros(created), from_micros(purged))

    def _number(self, statement: sa.Select[Any], table: sa.Table) -> int:
        return int(execute(self._connection, statement.where(table.c.owner == self._owner)).scalar_one())


def stored_from_row(
    row: Sequence[Any],
    stated: Mapping[int, tuple[Fact, ...]],
    noted: Mapping[int, tuple[Acknowledged, ...]],
) -> StoredMemory:
    """Return the memory in a row of `_select_stored`.

    *stated* is what memories state, *noted* what is of their reminders, by row.
    """
    memory = memory_from_row(row[:_OWN])
    is_unique, action, previous_id, model, vector = row[_OWN:_MESSAGE]
    message = row[_MESSAGE:]
    return StoredMemory(
        memory,
        bool(is_unique),
        _ACTIONS[action],
        previous_id or "",
        None if message[0] is None else record_from_row(message),
        vector or b"",
        model or "",
        stated.get(memory.row, ()),
        noted.get(memory.row, ()),
    )


def read_stored(connection: sa.Connection, owner: str, ids: Iterable[str]) -> dict[str, StoredMemory]:
    """Return the memories of an owner by id."""
    parameters = {"wanted": list_parameter(ids), "owner": owner}
    found = execute(connection, _select_ids(), parameters).all()
    rows = [row[_ROW] for row in found]
    stated, noted = read_facts(connection, rows), read_acknowledgements(connection, rows)
    return {stored.memory.id: stored for stored in (stored_from_row(row, stated, noted) for row in found)}


def read_earlier(connection: sa.Connection, memory: Memory) -> Iterator[StoredRevision]:
    """Yield the earlier revisions of a memory."""
    for text, action in stream(connection, _select_earlier(), {"at_row": memory.row}):
        yield StoredRevision(memory_from_snapshot(text), _ACTIONS[action])


def _select_stored() -> sa.Select[Any]:
    present = sa.and_(revisions.c.row == memories.c.row, revisions.c.revision == memories.c.revision)
    joined = (
        sa.join(memories, revisions, present)
        .outerjoin(_PREVIOUS, _PREVIOUS.c.row == memories.c.previous_row)
        .outerjoin(memory_vectors, memory_vectors.c.row == memories.c.row)
        .outerjoin(messages, messages.c.row == memories.c.row)
    )
    return sa.select(*MEMORY_COLUMNS, *_BESIDE, *MESSAGE_COLUMNS).select_from(joined)


@cached_statement
def _select_rows() -> sa.Select[Any]:
    return _select_stored().where(in_json_list(memories.c.row, "wanted")).order_by(memories.c.row)


@cached_statement
def _select_ids() -> sa.Select[Any]:
    mine = without_index(memories.c.owner) == sa.bindparam("owner")
    return _select_stored().where(in_json_list(memories.c.id, "wanted"), mine)


@cached_statement
def _select_earlier() -> sa.Select[Any]:
    earlier = (revisions.c.row == sa.bindparam("at_row"), revisions.c.snapshot.is_not(None))
    return sa.select(revisions.c.snapshot, revisions.c.action).where(*earlier).order_by(revisions.c.revision)
