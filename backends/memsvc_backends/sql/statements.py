"""What memories state and contradict: the rows of it that come and go with them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from typing import Any

import sqlalchemy as sa

from memsvc.domain.conflicts import Rule, Statement, ValuePart
from memsvc.domain.memory import Memory
from memsvc.ports.metadata import Record
from memsvc_backends.sql.dialect import execute_compiled, is_listed, list_parameter
from memsvc_backends.sql.jsontext import json_text, json_value
from memsvc_backends.sql.tables import conflicts, statements


def statement_rows(records: Iterable[Record]) -> list[tuple[Any, ...]]:
    """Return the rows of the statements of *records*, in the order of the columns and of the key."""
    return sorted(
        (
            record.memory.scope.owner,
            record.memory.scope.project_id,
            statement.topic,
            record.memory.row,
            statement.rule.value,
            json_text([(part.sort, part.text) for part in statement.parts]),
            int(statement.positive),
        )
        for record in records
        for statement in record.statements or ()
    )


def read_statements(connection: sa.Connection, rows: Iterable[int]) -> dict[int, tuple[Statement, ...]]:
    """Return what the memories with these rows state, by topic; those that state nothing are left out."""
    found: dict[int, list[Statement]] = defaultdict(list)
    for row, rule, topic, parts, positive in execute_compiled(
        connection, _select_of_rows(), {"wanted": list_parameter(rows)}
    ):
        found[row].append(Statement(Rule(rule), topic, parts_of(parts), bool(positive)))
    return {row: tuple(stated) for row, stated in found.items()}


def delete_statements(connection: sa.Connection, row: int) -> None:
    """Remove what a memory states."""
    execute_compiled(connection, _delete_statements(), {"at_row": row})


def delete_conflicts(connection: sa.Connection, memory: Memory) -> None:
    """Remove the conflicts of a memory."""
    for side in (conflicts.c.older_id, conflicts.c.newer_id):
        connection.execute(sa.delete(conflicts).where(side == memory.id))


def parts_of(text: str) -> tuple[ValuePart, ...]:
    """Return the parts of a statement that were stored as a text."""
    return tuple(ValuePart(sort, said) for sort, said in json_value(text))


@cache
def _select_of_rows() -> sa.Select[Any]:
    columns = (statements.c.row, statements.c.rule, statements.c.topic, statements.c.parts, statements.c.positive)
    wanted = is_listed(statements.c.row, "wanted")
    return sa.select(*columns).where(wanted).order_by(statements.c.row, statements.c.topic)


@cache
def _delete_statements() -> sa.Delete:
    return sa.delete(statements).where(statements.c.row == sa.bindparam("at_row"))
