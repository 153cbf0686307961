"""What the tests of moving share: any row of any table, and all rows of a database."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from pydantic import SecretStr

from memsvc.ports.operations import MoveProgress, MoveTarget
from memsvc.ports.plugin import BackendContext
from memsvc.testing.store_harness import Clock
from memsvc_backends.sql import SQL, SqlMetadataStore, SqlSettings
from memsvc_backends.sql.database import Database
from memsvc_backends.sql.settings import Durability
from memsvc_backends.sql.store_migration.table_rows import canonical
from memsvc_backends.sql.tables import metadata

TABLES: Sequence[sa.Table] = [table for table in metadata.sorted_tables if table.name != "counters"]
_numbers = itertools.count(1)


@contextmanager
def opened(folder: Path, url: str = "") -> Iterator[SqlMetadataStore]:
    """Open a store: in the folder of a data directory, or at an address."""
    settings = SqlSettings(durability=Durability.NORMAL, url=SecretStr(url) if url else None)
    with SQL.open(settings, BackendContext(folder / "metadata", Clock())) as store:
        assert isinstance(store, SqlMetadataStore)
        yield store


def database_of(store: SqlMetadataStore) -> Database:
    """Return the database of a store."""
    return store._database


def dump(store: SqlMetadataStore) -> dict[str, list[str]]:
    """Return every row of every table of the store, as text, sorted."""
    with database_of(store).snapshot() as connection:
        return {
            table.name: sorted(repr(canonical(table, row)) for row in connection.execute(sa.select(table)))
            for table in metadata.sorted_tables
        }


def move(store: SqlMetadataStore, url: str = "") -> list[MoveProgress]:
    """Move, and return the steps."""
    return list(store.moves.run(MoveTarget(url), settle=lambda: None))


def put(store: SqlMetadataStore, table: sa.Table) -> None:
    """Insert some row."""
    with database_of(store).write_transaction() as connection:
        connection.execute(sa.insert(table), {column.name: _some(column) for column in table.columns})


def change(store: SqlMetadataStore, table: sa.Table) -> None:
    """Change some row in all that is not its key."""
    values = {column.name: _some(column) for column in table.columns if not column.primary_key}
    with database_of(store).write_transaction() as connection:
        if values:
            connection.execute(sa.update(table).where(_is_last(table)).values(values))


def rename(store: SqlMetadataStore, table: sa.Table) -> None:
    """Change the key of some row."""
    values = {column.name: _some(column) for column in table.primary_key}
    with database_of(store).write_transaction() as connection:
        connection.execute(sa.update(table).where(_is_last(table)).values(values))


def drop(store: SqlMetadataStore, table: sa.Table) -> None:
    """Delete some row."""
    with database_of(store).write_transaction() as connection:
        connection.execute(sa.delete(table).where(_is_last(table)))


def swap(store: SqlMetadataStore, table: sa.Table) -> None:
    """Delete some row, and insert one with the same values but for its key: whatever is unique changes hands."""
    with database_of(store).write_transaction() as connection:
        row = connection.execute(sa.select(table).where(_is_last(table))).first()
        if row is None:
            return
        connection.execute(sa.delete(table).where(_is_last(table)))
        taken = dict(row._mapping) | {column.name: _some(column) for column in table.primary_key}
        connection.execute(sa.insert(table), taken)


CHANGES = (put, put, put, change, rename, drop, swap)


def _is_last(table: sa.Table) -> sa.ColumnElement[bool]:
    key = list(table.primary_key)
    last = sa.select(*key).order_by(*(column.desc() for column in key)).limit(1)
    return key[0] == last.scalar_subquery() if len(key) == 1 else sa.tuple_(*key).in_(last)


def _some(column: sa.Column[Any]) -> Any:
    number = next(_numbers)
    if column.nullable and number % 3 == 0:
        return None
    if isinstance(column.type, sa.Double):
        return number / 7
    if isinstance(column.type, sa.LargeBinary):
        return bytes([0, 255, number % 256]) + number.to_bytes(4, "big")
    if isinstance(column.type, sa.SmallInteger):
        return number % 2
    if isinstance(column.type, sa.Integer):
        return number
    return f"{column.name} 海港 {number} \\ ' \" % \N{GRINNING FACE}"
