"""Reads of stored statements, for the comparison of memories that are stored already."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from memsvc.domain.clock import from_micros, to_micros
from memsvc.domain.conflicts import Conflict, Fact, Rule
from memsvc.domain.memory import Layer
from memsvc.ports.features import StatingMemory, StoredFact
from memsvc_backends.sql.conflicts import ACTIVE, conflict_from_row, select_of_memories
from memsvc_backends.sql.database import Database
from memsvc_backends.sql.dialect import cached_statement, execute, list_parameter
from memsvc_backends.sql.row_writer import parts_of, read_facts
from memsvc_backends.sql.tables import memories, statements

_MEMORY = memories.c


class SqlStatementReads:
    """`memsvc.ports.features.StatementReads`."""

    def __init__(self, database: Database) -> None:
        """Read from *database*."""
        self._database = database

    def stating(
        self,
        owner: str,
        project_id: str,
        *,
        layers: Sequence[Layer],
        since: datetime | None,
        after: tuple[int, ...],
        limit: int,
    ) -> list[StatingMemory]:
        """Return memories of a project, by the index of creation times."""
        order = (_MEMORY.create_time, _MEMORY.row)
        statement = _stating(*order).where(_MEMORY.owner == owner, _MEMORY.project_id == project_id)
        if layers:
            statement = statement.where(_MEMORY.layer.in_([layer.value for layer in layers]))
        if since is not None:
            statement = statement.where(_MEMORY.create_time >= to_micros(since))
        if after:
            # The first condition bounds the scan of the index, which SQLite does not derive from the second one.
            statement = statement.where(_MEMORY.create_time >= after[0], sa.tuple_(*order) > sa.tuple_(*after))
        return self._read(statement.order_by(*order).limit(max(0, limit)))

    def stating_rows(self, *, after: int, limit: int) -> list[StatingMemory]:
        """Return memories of all owners, by row."""
        statement = _stating(_MEMORY.row).where(_MEMORY.row > after)
        return self._read(statement.order_by(_MEMORY.row).limit(max(0, limit)))

    def facts_before(self, owner: str, project_id: str, topic: str, *, row: int, limit: int) -> list[StoredFact]:
        """Return earlier statements."""
        place = {"owner": owner, "project_id": project_id, "topic": topic, "before": row, "at_most": max(0, limit)}
        with self._database.read_connection() as connection:
            return [
                StoredFact(found[0], Fact(Rule(found[1]), topic, parts_of(found[2]), bool(found[3])))
                for found in execute(connection, _select_before(), place)
            ]

    def conflicts_of(self, owner: str, memory_ids: Sequence[str]) -> list[Conflict]:
        """Return the conflicts of some memories."""
        if not memory_ids:
            return []
        parameters = {"wanted": list_parameter(memory_ids), "owner": owner}
        with self._database.read_connection() as connection:
            return [conflict_from_row(row) for row in execute(connection, select_of_memories(), parameters)]

    def _read(self, statement: sa.Select[Any]) -> list[StatingMemory]:
        with self._database.read_connection() as connection:
            found = execute(connection, statement)
            stated = read_facts(connection, [row[0] for row in found])
        return [
            StatingMemory(row, memory_id, owner, project_id, from_micros(changed), stated.get(row, ()), tuple(place))
            for row, memory_id, owner, project_id, changed, *place in found
        ]


def _stating(*place: sa.ColumnElement[int]) -> sa.Select[Any]:
    states = sa.exists().where(statements.c.row == _MEMORY.row)
    columns = (_MEMORY.row, _MEMORY.id, _MEMORY.owner, _MEMORY.project_id, _MEMORY.update_time, *place)
    return sa.select(*columns).where(_MEMORY.status == ACTIVE, states)


@cached_statement
def _select_before() -> sa.Select[Any]:
    place = [statements.c[name] == sa.bindparam(name) for name in ("owner", "project_id", "topic")]
    joined = sa.join(statements, memories, memories.c.row == statements.c.row)
    return (
        sa.select(memories.c.id, statements.c.rule, statements.c.parts, statements.c.positive)
        .select_from(joined)
        .where(*place, statements.c.row < sa.bindparam("before"), memories.c.status == ACTIVE)
        .order_by(statements.c.row.desc())
        .limit(sa.bindparam("at_most"))
    )
