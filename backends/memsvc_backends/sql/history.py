"""Earlier revisions: the row of a revision has its time, and its content once it is replaced."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from memsvc.domain.clock import from_micros, to_micros
from memsvc.domain.history import Checkpoint, Revision, Tombstone, tombstone_of
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach
from memsvc_backends.sql.database import Database
from memsvc_backends.sql.dialect import (
    MAX_INTEGER,
    NUMBER,
    cached_statement,
    execute,
    in_json_list,
    json_list,
    list_parameter,
    without_index,
)
from memsvc_backends.sql.memory_codec import MEMORY_COLUMNS, memory_from_row, memory_from_snapshot
from memsvc_backends.sql.tables import IS_FORGOTTEN, checkpoints, memories, revisions, tombstones

_R = revisions.c
_ROW_AT = MEMORY_COLUMNS.index(memories.c.row)
_C, _T = checkpoints.c, tombstones.c
EARLIEST = datetime.min.replace(tzinfo=UTC)
_TOMBSTONE = (_T.row, _T.memory_id, _T.project_id, _T.session_id, _T.create_time, _T.time)


class SqlHistoryReads:
    """`memsvc.ports.features.HistoryReads`."""

    def __init__(self, database: Database) -> None:
        """Read from *database*."""
        self._database = database

    def revisions(self, memory_id: str, *, reach: Reach, before: int | None, limit: int) -> list[Revision]:
        """Return revisions, newest first."""
        top = MAX_INTEGER if before is None else min(before, MAX_INTEGER)
        with self._database.snapshot() as connection:
            row = execute(connection, _current(reach).where(memories.c.id == memory_id)).one_or_none()
            if row is None or limit <= 0:
                return []
            current = memory_from_row(row)
            parameters = {"row": current.row, "top": top, "limit": limit}
            found = execute(connection, _select_line(), parameters).all()
        return [
            Revision(
                current if snapshot is None else memory_from_snapshot(snapshot),
                ChangeAction(action),
                None if until is None else from_micros(until),
            )
            for snapshot, action, until in found
        ]

    def has_deleted(self, *, reach: Reach) -> bool:
        """Return whether any memory is deleted."""
        parameters = {"owner": reach.owner, "projects": list_parameter(reach.project_ids)}
        with self._database.read_connection() as connection:
            return execute(connection, _select_any_deleted(), parameters).first() is not None

    def deletion_times(self, content_hashes: Iterable[str], *, reach: Reach) -> dict[str, datetime]:
        """Return when contents were deleted last."""
        wanted, projects = list_parameter(content_hashes), list_parameter(reach.project_ids)
        parameters = {"wanted": wanted, "owner": reach.owner, "projects": projects}
        with self._database.read_connection() as connection:
            found = execute(connection, _select_deleted(), parameters).all()
        return {content_hash: from_micros(time) for content_hash, time in found}

    def known_at(self, rows: Sequence[int], moment: datetime, *, reach: Reach) -> dict[int, Memory]:
        """Return what was known at a moment."""
        if not rows:
            return {}
        parameters = {"rows": list_parameter(dict.fromkeys(rows)), "moment": to_micros(moment)}
        with self._database.snapshot() as connection:
            found = execute(connection, _select_known(reach), parameters).all()
            known = {row: memory_from_snapshot(text) for row, text in found if text is not None}
            current = [row for row, text in found if text is None]
            if current:
                statement = _current(reach).where(in_json_list(memories.c.row, "rows"))
                for row in execute(connection, statement, {"rows": list_parameter(current)}):
                    known[row[_ROW_AT]] = memory_from_row(row)
        return known


def _current(reach: Reach) -> sa.Select[Any]:
    owner, projects = (
        without_index(memories.c.owner) == reach.owner,
        without_index(memories.c.project_id).in_(reach.project_ids),
    )
    return sa.select(*MEMORY_COLUMNS).where(owner, projects)


@cached_statement
def _select_any_deleted() -> sa.Select[Any]:
    of_projects = in_json_list(without_index(memories.c.project_id), "projects")
    return (
        sa.select(memories.c.row).where(IS_FORGOTTEN, memories.c.owner == sa.bindparam("owner"), of_projects).limit(1)
    )


@cached_statement
def _select_deleted() -> sa.Select[Any]:
    content_hash = memories.c.content_hash
    of_projects = in_json_list(without_index(memories.c.project_id), "projects")
    return (
        sa.select(content_hash, sa.func.max(memories.c.update_time))
        .where(
            IS_FORGOTTEN, memories.c.owner == sa.bindparam("owner"), in_json_list(content_hash, "wanted"), of_projects
        )
        .group_by(content_hash)
    )


@cached_statement
def _select_line() -> sa.Select[Any]:
    later = revisions.alias("later")
    until = (
        sa.select(later.c.time)
        .where(later.c.row == _R.row, later.c.revision > _R.revision)
        .order_by(later.c.revision)
        .limit(1)
        .scalar_subquery()
    )
    return (
        sa.select(_R.snapshot, _R.action, until)
        .where(_R.row == sa.bindparam("row"), _R.revision < sa.bindparam("top", type_=NUMBER))
        .order_by(_R.revision.desc())
        .limit(sa.bindparam("limit"))
    )


def _select_known(reach: Reach) -> sa.Select[Any]:
    wanted = json_list("rows", NUMBER)
    each = revisions.alias("each")
    latest = (
        sa.select(each.c.revision)
        .where(each.c.row == wanted.c.value, each.c.time <= sa.bindparam("moment"))
        .order_by(each.c.revision.desc())
        .limit(1)
        .scalar_subquery()
    )
    joined = sa.join(wanted, memories, memories.c.row == wanted.c.value).join(
        revisions, sa.and_(_R.row == wanted.c.value, _R.revision == latest)
    )
    return (
        sa.select(_R.row, _R.snapshot)
        .select_from(joined)
        .where(
            without_index(memories.c.owner) == reach.owner, without_index(memories.c.project_id).in_(reach.project_ids)
        )
    )


# Checkpoints, and what is left of purged memories.


class SqlCheckpoints:
    """`memsvc.ports.features.CheckpointReads`."""

    def __init__(self, database: Database) -> None:
        """Read from *database*."""
        self._database = database

    def get(self, owner: str, project_id: str, name: str) -> Checkpoint | None:
        """Return a checkpoint by its name."""
        with self._database.read_connection() as connection:
            return read_checkpoint(connection, owner, project_id, name)

    def page(self, owner: str, project_id: str, *, after: tuple[datetime, str] | None, limit: int) -> list[Checkpoint]:
        """Return checkpoints, newest first."""
        statement = sa.select(checkpoints).where(_C.owner == owner, _C.project_id == project_id)
        if after is not None:
            time, name = to_micros(after[0]), after[1]
            # The first half is implied by the second, and lets the index be entered at the cursor.
            statement = statement.where(_C.create_time <= time, sa.or_(_C.create_time < time, _C.name > name))
        ordered = statement.order_by(_C.create_time.desc(), _C.name).limit(max(0, limit))
        with self._database.read_connection() as connection:
            return [checkpoint_from_row(row) for row in execute(connection, ordered)]

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
        with self._database.read_connection() as connection:
            found = execute(connection, statement)
        return [
            Tombstone(row, memory_id, project_id, session_id, from_micros(created), from_micros(purged))
            for row, memory_id, project_id, session_id, created, purged in found
        ]


def read_checkpoint(connection: sa.Connection, owner: str, project_id: str, name: str) -> Checkpoint | None:
    """Return a checkpoint by its name."""
    place = (_C.owner == owner, _C.project_id == project_id, _C.name == name)
    row = execute(connection, sa.select(checkpoints).where(*place)).one_or_none()
    return None if row is None else checkpoint_from_row(row)


def latest_checkpoint(connection: sa.Connection, project: tuple[str, str] | None = None) -> datetime:
    """Return the latest known_time of the checkpoints of a project (owner, project id) or of all, or `EARLIEST`."""
    if project is None:
        found = execute(connection, _select_latest()).scalar()
    else:
        found = execute(
            connection, _select_latest_of(), dict(zip(("at_owner", "at_project"), project, strict=True))
        ).scalar()
    return EARLIEST if found is None else from_micros(found)


@cached_statement
def _select_latest() -> sa.Select[Any]:
    return sa.select(sa.func.max(_C.known_time))


@cached_statement
def _select_latest_of() -> sa.Select[Any]:
    return _select_latest().where(_C.owner == sa.bindparam("at_owner"), _C.project_id == sa.bindparam("at_project"))


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
    execute(connection, sa.insert(checkpoints), values)


def delete_checkpoint(connection: sa.Connection, owner: str, project_id: str, name: str) -> None:
    """Delete a checkpoint by its name."""
    place = (_C.owner == owner, _C.project_id == project_id, _C.name == name)
    execute(connection, sa.delete(checkpoints).where(*place))


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
    execute(connection, sa.insert(tombstones), values)


def checkpoint_from_row(row: Sequence[Any]) -> Checkpoint:
    """Return the checkpoint in a row of `checkpoints`."""
    owner, project_id, name, known_time, create_time, note = row
    return Checkpoint(owner, project_id, name, from_micros(known_time), from_micros(create_time), note)
