"""Triggers that log the rows changed during the copy, so that no change can be missed.

Triggers on every table write the key of each row that is inserted, changed or deleted into a log table, in the
same transaction, for all writers. Changes that are not in the outbox (accesses, sessions, keys,
requests, what was indexed) is covered like everything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.schema import CreateIndex, CreateTable

from memsvc_backends.sql.database import MOVED as MOVED_MARK
from memsvc_backends.sql.dialect import cached_statement, execute
from memsvc_backends.sql.store_migration.table_rows import KEYS, MOVED, Key, key_columns
from memsvc_backends.sql.tables import Number

PREFIX = "moving_"
_EVENTS = ("INSERT", "UPDATE", "DELETE")
_NAME = "moved_away"


@cache
def log_of(table: sa.Table) -> sa.Table:
    """Return the table of the changes of *table*: a number for each, and the key."""
    made = sa.Table(
        f"{PREFIX}{table.name}",
        sa.MetaData(),
        sa.Column("moving_number", Number, sa.Identity(), primary_key=True),
        *(sa.Column(column.name, column.type) for column in key_columns(table)),
    )
    sa.Index(f"{PREFIX}{table.name}_key", *(made.c[column.name] for column in key_columns(table)))
    return made


def install(connection: sa.Connection) -> None:
    """Write down every change of every table from now on."""
    remove(connection)
    for table in MOVED:
        log = log_of(table)
        execute(connection, CreateTable(log))
        for index in log.indexes:
            execute(connection, CreateIndex(index))
        for statement in _triggers(connection, table):
            execute(connection, statement)


def remove(connection: sa.Connection) -> None:
    """Write nothing down any more, and forget what was."""
    is_postgres = connection.dialect.name == "postgresql"
    names = set(sa.inspect(connection).get_table_names())
    for table in MOVED:
        log = PREFIX + table.name
        if log not in names:
            # PostgreSQL would lock the table to see that there is no trigger.
            continue
        if is_postgres:
            execute(connection, f'DROP TRIGGER IF EXISTS "{log}" ON "{table.name}"')
            execute(connection, f'DROP FUNCTION IF EXISTS "{log}_note"()')
        else:
            for event in _EVENTS:
                execute(connection, f'DROP TRIGGER IF EXISTS "{log}_{event}"')
        execute(connection, f'DROP TABLE IF EXISTS "{log}"')


def tables_with_changes(connection: sa.Connection) -> list[sa.Table]:
    """Return the tables with changes that are not copied yet."""
    found = execute(connection, _any_changes()).one()
    return [table for table, is_touched in zip(MOVED, found, strict=True) if is_touched]


def changed_keys(connection: sa.Connection, table: sa.Table) -> Iterator[tuple[list[int], list[Key]]]:
    """Yield the numbers of changes, and the keys of the rows, each key once, at its last change; in a snapshot."""
    statement, after = _changes(table), 0
    while found := execute(connection, statement, {"after": after}).all():
        after = found[-1][0]
        yield [row[0] for row in found], [tuple(row[2:]) for row in found if row[1]]


@cached_statement
def _any_changes() -> sa.Select[Any]:
    found: list[sa.ColumnElement[Any]] = [sa.exists(sa.select(log_of(table).c.moving_number)) for table in MOVED]
    return sa.select(*found)


@cached_statement
def _changes(table: sa.Table) -> sa.Select[Any]:
    log = log_of(table)
    later = log.alias()
    names = [column.name for column in key_columns(table)]
    is_same = sa.and_(*(later.c[name] == log.c[name] for name in names), later.c.moving_number > log.c.moving_number)
    is_last = ~sa.exists(sa.select(sa.literal_column("1")).select_from(later).where(is_same))
    return (
        sa.select(log.c.moving_number, is_last, *(log.c[name] for name in names))
        .where(log.c.moving_number > sa.bindparam("after"))
        .order_by(log.c.moving_number)
        .limit(KEYS)
    )


def forget(connection: sa.Connection, table: sa.Table, spans: Sequence[tuple[int, int]]) -> None:
    """Forget changes that were carried over: those with the numbers of *spans*, ends included."""
    number = log_of(table).c.moving_number
    for first, last in spans:
        execute(connection, sa.delete(log_of(table)).where(number.between(first, last)))


def count_pending(connection: sa.Connection) -> int:
    """Return the number of changes that are not copied yet."""
    counts = [sa.select(sa.func.count()).select_from(log_of(table)).scalar_subquery() for table in MOVED]
    return sum(execute(connection, sa.select(*counts)).one())


def _triggers(connection: sa.Connection, table: sa.Table) -> list[str]:
    log = PREFIX + table.name
    columns = [f'"{column.name}"' for column in key_columns(table)]
    into = f'INSERT INTO "{log}" ({", ".join(columns)}) VALUES '  # noqa: S608 - our own names
    old, new = (f"{into}({', '.join(f'{side}.{column}' for column in columns)});" for side in ("OLD", "NEW"))
    if connection.dialect.name == "postgresql":
        body = f"IF TG_OP <> 'INSERT' THEN {old} END IF; IF TG_OP <> 'DELETE' THEN {new} END IF; RETURN NULL;"
        called = f'FOR EACH ROW EXECUTE FUNCTION "{log}_note"()'
        return [
            f'CREATE FUNCTION "{log}_note"() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} END $$',
            f'CREATE TRIGGER "{log}" AFTER INSERT OR UPDATE OR DELETE ON "{table.name}" {called}',
        ]
    noted = {"INSERT": new, "UPDATE": f"{old} {new}", "DELETE": old}
    return [
        f'CREATE TRIGGER "{log}_{event}" AFTER {event} ON "{table.name}" BEGIN {noted[event]} END' for event in _EVENTS
    ]


# Barrier: the database refuses every write after its data have moved away, from any client.
#
# So an older process, another replica or a forgotten tool cannot write to the abandoned database.


def install_barrier(connection: sa.Connection, place: str) -> None:
    """Install the barrier: writes are refused once the transaction has ended."""
    said = (MOVED_MARK + place).replace("'", "''")
    if connection.dialect.name == "postgresql":
        body = f"BEGIN RAISE EXCEPTION '{said}'; END"
        execute(connection, f'CREATE FUNCTION "{_NAME}"() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$')
    for table in MOVED:
        for statement in _statements(connection, table.name, said):
            execute(connection, statement)


def remove_barrier(connection: sa.Connection) -> None:
    """Let writes in again."""
    is_postgres = connection.dialect.name == "postgresql"
    for table in MOVED:
        if is_postgres:
            execute(connection, f'DROP TRIGGER IF EXISTS "{_NAME}" ON "{table.name}"')
        else:
            for event in _EVENTS:
                execute(connection, f'DROP TRIGGER IF EXISTS "{_NAME}_{table.name}_{event}"')
    if is_postgres:
        execute(connection, f'DROP FUNCTION IF EXISTS "{_NAME}"()')


def _statements(connection: sa.Connection, table: str, said: str) -> list[str]:
    if connection.dialect.name == "postgresql":
        called = f'FOR EACH STATEMENT EXECUTE FUNCTION "{_NAME}"()'
        return [f'CREATE TRIGGER "{_NAME}" BEFORE INSERT OR UPDATE OR DELETE ON "{table}" {called}']
    return [
        f'CREATE TRIGGER "{_NAME}_{table}_{event}" BEFORE {event} ON "{table}" '
        f"BEGIN SELECT RAISE(ABORT, '{said}'); END"
        for event in _EVENTS
    ]
