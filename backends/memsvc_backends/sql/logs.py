"""Daily logs that have grown old, by an index that holds no other memories."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa

from memsvc.domain.maintenance import Area
from memsvc.domain.memory import Memory
from memsvc.ports.operations import LogPlace
from memsvc_backends.sql.database import Database
from memsvc_backends.sql.memory_codec import MEMORY_COLUMNS, memory_from_row
from memsvc_backends.sql.tables import IS_LOG, memories


class SqlLogs:
    """`memsvc.ports.operations.LogReads`."""

    def __init__(self, database: Database) -> None:
        """Read from *database*."""
        self._database = database

    def old_logs(self, area: Area, *, before: str, after: LogPlace, limit: int) -> Sequence[Memory]:
        """Return the next old logs."""
        parameters = {
            "before": before, "after": after.key, "row": after.row, "most": max(0, limit), "owner": area.owner,
            "project": area.project_id,
        }  # fmt: skip
        statement = _select(
            has_owner=area.owner is not None, has_project=bool(area.owner is not None and area.project_id)
        )
        with self._database.reading() as connection:
            return [memory_from_row(row) for row in connection.execute(statement, parameters)]


@cache
def _select(*, has_owner: bool, has_project: bool) -> sa.Select[Any]:
    key, after = memories.c.key, sa.bindparam("after", type_=sa.Text)
    statement = sa.select(*MEMORY_COLUMNS).where(
        IS_LOG,
        key < sa.bindparam("before"),
        key >= after,
        sa.or_(key > after, memories.c.row > sa.bindparam("row")),
    )
    if has_owner:
        statement = statement.where(memories.c.owner == sa.bindparam("owner"))
    if has_project:
        statement = statement.where(memories.c.project_id == sa.bindparam("project"))
    return statement.order_by(key, memories.c.row).limit(sa.bindparam("most", type_=sa.Integer))
