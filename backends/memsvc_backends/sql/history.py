"""Memories as they were: a revision's row holds when it began, and its content once another took its place."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sa

from memsvc.domain.clock import from_micros, to_micros
from memsvc.domain.history import Revision
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach
from memsvc_backends.sql.database import Database
from memsvc_backends.sql.dialect import MAX_INTEGER, is_listed, list_parameter, listed, unindexed
from memsvc_backends.sql.elements import NUMBER
from memsvc_backends.sql.memory_codec import MEMORY_COLUMNS, memory_from_row, memory_from_snapshot
from memsvc_backends.sql.tables import memories, revisions

_R = revisions.c
_ROW_AT = MEMORY_COLUMNS.index(memories.c.row)


class SqlHistoryReads:
    """`memsvc.ports.features.HistoryReads`."""

    def __init__(self, database: Database) -> None:
        """Read from *database*."""
        self._database = database

    def revisions(self, memory_id: str, *, reach: Reach, before: int | None, limit: int) -> list[Revision]:
        """Return revisions, newest first."""
        top = MAX_INTEGER if before is None else min(before, MAX_INTEGER)
        with self._database.snapshot() as connection:
            row = connection.execute(_current(reach).where(memories.c.id == memory_id)).one_or_none()
            if row is None or limit <= 0:
                return []
            current = memory_from_row(row)
            parameters = {"row": current.row, "top": top, "limit": limit}
            found = connection.execute(_select_line(), parameters).all()
        return [
            Revision(
                current if snapshot is None else memory_from_snapshot(snapshot),
                ChangeAction(action),
                None if until is None else from_micros(until),
            )
            for snapshot, action, until in found
        ]

    def known_at(self, rows: Sequence[int], moment: datetime, *, reach: Reach) -> dict[int, Memory]:
        """Return what was known at a moment."""
        if not rows:
            return {}
        parameters = {"rows": list_parameter(dict.fromkeys(rows)), "moment": to_micros(moment)}
        with self._database.snapshot() as connection:
            found = connection.execute(_select_known(reach), parameters).all()
            known = {row: memory_from_snapshot(text) for row, text in found if text is not None}
            current = [row for row, text in found if text is None]
            if current:
                statement = _current(reach).where(is_listed(memories.c.row, "rows"))
                for row in connection.execute(statement, {"rows": list_parameter(current)}):
                    known[row[_ROW_AT]] = memory_from_row(row)
        return known


def _current(reach: Reach) -> sa.Select[Any]:
    owner, projects = (
        unindexed(memories.c.owner) == reach.owner,
        unindexed(memories.c.project_id).in_(reach.project_ids),
    )
    return sa.select(*MEMORY_COLUMNS).where(owner, projects)


@cache
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
    wanted = listed("rows", NUMBER)
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
        .where(unindexed(memories.c.owner) == reach.owner, unindexed(memories.c.project_id).in_(reach.project_ids))
    )
