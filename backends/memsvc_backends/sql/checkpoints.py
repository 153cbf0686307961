"""Checkpoints, and what is left of purged memories."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from memsvc.domain.clock import from_micros, to_micros
from memsvc.domain.history import Checkpoint, Tombstone, tombstone_of
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach
from memsvc_backends.sql.database import Database
from memsvc_backends.sql.tables import checkpoints, tombstones

_C, _T = checkpoints.c, tombstones.c
_TOMBSTONE = (_T.row, _T.memory_id, _T.project_id, _T.session_id, _T.create_time, _T.time)


class SqlCheckpoints:
    """`memsvc.ports.features.CheckpointReads`."""

    def __init__(self, database: Database) -> None:
        """Read from *database*."""
        self._database = database

    def get(self, owner: str, project_id: str, name: str) -> Checkpoint | None:
        """Return a checkpoint by its name."""
        with self._database.reading() as connection:
            return read_checkpoint(connection, owner, project_id, name)

    def page(self, owner: str, project_id: str, *, after: tuple[datetime, str] | None, limit: int) -> list[Checkpoint]:
        """Return checkpoints, newest first."""
        statement = sa.select(checkpoints).where(_C.owner == owner, _C.project_id == project_id)
        if after is not None:
            time, name = to_micros(after[0]), after[1]
            # The first half is implied by the second, and lets the index be entered at the cursor.
            statement = statement.where(_C.create_time <= time, sa.or_(_C.create_time < time, _C.name > name))
        ordered = statement.order_by(_C.create_time.desc(), _C.name).limit(max(0, limit))
        with self._database.reading() as connection:
            return [checkpoint_from_row(row) for row in connection.execute(ordered)]

    def tombstones(self, *, reach: Reach, moment: datetime, after_row: int, limit: int) -> list[Tombstone]:
        """Return what was purged since a moment."""
        known = to_micros(moment)
        statement = (
            sa.select(*_TOMBSTONE)
            .where(_T.owner == reach.owner, _T.project_id.in_(reach.project_ids), _T.row > after_row)
            .where(_T.create_time <= known, _T.time > known)
            .order_by(_T.row)
            .limit(max(0, limit))
        )
        with self._database.reading() as connection:
            return [
                Tombstone(*row[:4], from_micros(row[4]), from_micros(row[5])) for row in connection.execute(statement)
            ]


def read_checkpoint(connection: sa.Connection, owner: str, project_id: str, name: str) -> Checkpoint | None:
    """Return a checkpoint by its name."""
    place = (_C.owner == owner, _C.project_id == project_id, _C.name == name)
    row = connection.execute(sa.select(checkpoints).where(*place)).one_or_none()
    return None if row is None else checkpoint_from_row(row)


def insert_checkpoint(connection: sa.Connection, checkpoint: Checkpoint) -> None:
    """Keep a new checkpoint."""
    values = {
        "owner": checkpoint.owner,
        "project_id": checkpoint.project_id,
        "name": checkpoint.name,
        "known_time": to_micros(checkpoint.known_time),
        "create_time": to_micros(checkpoint.create_time),
        "note": checkpoint.note,
    }
    connection.execute(sa.insert(checkpoints), values)


def insert_tombstone(connection: sa.Connection, memory: Memory, time: int) -> None:
    """Note that a memory is purged at *time*."""
    left = tombstone_of(memory, from_micros(time))
    values = {
        "row": left.row,
        "owner": memory.scope.owner,
        "project_id": left.project_id,
        "memory_id": left.memory_id,
        "session_id": left.session_id,
        "create_time": to_micros(left.create_time),
        "time": time,
    }
    connection.execute(sa.insert(tombstones), values)


def checkpoint_from_row(row: Sequence[Any]) -> Checkpoint:
    """Return the checkpoint in a row of `checkpoints`."""
    owner, project_id, name, known_time, create_time, note = row
    return Checkpoint(owner, project_id, name, from_micros(known_time), from_micros(create_time), note)
