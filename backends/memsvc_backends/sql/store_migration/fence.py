"""Refusing every write to a database whose data have moved away: by the database itself, whoever tries.

So an older process, another replica or a forgotten tool cannot write to what nobody reads any more.
"""

from __future__ import annotations

import sqlalchemy as sa

from memsvc_backends.sql.errors import MOVED as MOVED_MARK
from memsvc_backends.sql.store_migration.table_rows import MOVED

_NAME = "moved_away"
_EVENTS = ("INSERT", "UPDATE", "DELETE")


def put_up(connection: sa.Connection, place: str) -> None:
    """Refuse writes from the end of the transaction on. To be called where they are let in."""
    said = (MOVED_MARK + place).replace("'", "''")
    if connection.dialect.name == "postgresql":
        body = f"BEGIN RAISE EXCEPTION '{said}'; END"
        connection.exec_driver_sql(f'CREATE FUNCTION "{_NAME}"() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$')
    for table in MOVED:
        for statement in _statements(connection, table.name, said):
            connection.exec_driver_sql(statement)


def take_down(connection: sa.Connection) -> None:
    """Let writes in again."""
    is_postgres = connection.dialect.name == "postgresql"
    for table in MOVED:
        if is_postgres:
            connection.exec_driver_sql(f'DROP TRIGGER IF EXISTS "{_NAME}" ON "{table.name}"')
        else:
            for event in _EVENTS:
                connection.exec_driver_sql(f'DROP TRIGGER IF EXISTS "{_NAME}_{table.name}_{event}"')
    if is_postgres:
        connection.exec_driver_sql(f'DROP FUNCTION IF EXISTS "{_NAME}"()')


def _statements(connection: sa.Connection, table: str, said: str) -> list[str]:
    if connection.dialect.name == "postgresql":
        called = f'FOR EACH STATEMENT EXECUTE FUNCTION "{_NAME}"()'
        return [f'CREATE TRIGGER "{_NAME}" BEFORE INSERT OR UPDATE OR DELETE ON "{table}" {called}']
    return [
        f'CREATE TRIGGER "{_NAME}_{table}_{event}" BEFORE {event} ON "{table}" '
        f"BEGIN SELECT RAISE(ABORT, '{said}'); END"
        for event in _EVENTS
    ]
