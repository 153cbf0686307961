"""The rows of all tables in a form that is independent of the database."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, cast

import sqlalchemy as sa

from memsvc.ports.operations import MovedTable
from memsvc_backends.sql import tables
from memsvc_backends.sql.dialect import cached_statement, execute
from memsvc_backends.sql.row_writer import insert_rows
from memsvc_backends.sql.tables import (
    files,  # noqa: F401 - it belongs to all tables
    metadata,
)

Row = tuple[Any, ...]
Key = tuple[Any, ...]

NOT_MOVED: frozenset[str] = frozenset()
"""Tables of the store that stay where they are: none."""
MOVED: tuple[sa.Table, ...] = tuple(table for table in metadata.sorted_tables if table.name not in NOT_MOVED)
"""What is moved: every table that there is, so that none can be forgotten."""
INCIDENTAL = frozenset(
    {
        "call_rates", "embeddings", "leases", "outbox", "passage_tokens", "requests", "counters", "vault_state",
        "webhook_cursors", "webhook_deliveries",
    }
)  # fmt: skip
"""Tables that a service changes by itself when it does no more than start, or that hold nothing that others do not."""
INCIDENTAL_COLUMNS = {"memories": frozenset({"access_count", "access_time"})}
"""Columns that reads change, by table."""
FIRST_PAGE, LARGEST_PAGE, KEYS = 64, 1024, 120
PAGE_BYTES = 2_000_000
SAMPLE = 64
"""Minimum number of rows from which the size of a page is estimated."""
_MODULUS = 1 << 128

assert tables.api_keys.metadata is metadata  # noqa: S101 - imported for its table


def key_columns(table: sa.Table) -> tuple[sa.Column[Any], ...]:
    """Return the columns of the primary key."""
    return tuple(table.primary_key.columns)


def key_of(table: sa.Table, row: Row) -> Key:
    """Return the primary key of a row."""
    return tuple([row[place] for place in _key_places(table)])


def pages(connection: sa.Connection, table: sa.Table, after: Key | None = None) -> Iterator[list[Row]]:
    """Yield the rows in the order of the key, a few megabytes at a time; every page is read when it is asked for."""
    limit = FIRST_PAGE
    while page := page_after(connection, table, after, limit):
        yield page
        after = key_of(table, page[-1])
        limit = next_limit(limit, page)


def page_after(connection: sa.Connection, table: sa.Table, after: Key | None, limit: int) -> list[Row]:
    """Return the next rows, in the order of the key, without one page more than *limit*."""
    key = key_columns(table)
    statement = sa.select(table).order_by(*key).limit(limit)
    if after is not None:
        bounds = [sa.literal(value, column.type) for value, column in zip(after, key, strict=True)]
        statement = statement.where(key[0] > bounds[0] if len(key) == 1 else sa.tuple_(*key) > sa.tuple_(*bounds))
    return [canonical(table, row) for row in execute(connection, statement)]


def next_limit(limit: int, page: Sequence[Row]) -> int:
    """Return how many rows the next page may have, so that pages stay small whatever is in them."""
    step = 1 + len(page) // SAMPLE
    size = step * sum(len(value) for row in page[::step] for value in row if isinstance(value, str | bytes))
    if size > PAGE_BYTES:
        return max(1, limit // 2)
    return min(limit * 2, LARGEST_PAGE) if size < PAGE_BYTES // 4 else limit


def rows_with(connection: sa.Connection, table: sa.Table, keys: Sequence[Key]) -> list[Row]:
    """Return the existing rows with these keys."""
    return [canonical(table, row) for row in execute(connection, sa.select(table).where(_is_one_of(table, keys)))]


def delete_rows(connection: sa.Connection, table: sa.Table, keys: Sequence[Key]) -> None:
    """Delete the existing rows with these keys."""
    execute(connection, sa.delete(table).where(_is_one_of(table, keys)))


def write_rows(connection: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> None:
    """Insert rows, none of which is there."""
    if connection.dialect.name == "postgresql":
        _copy_in(connection, table, rows)
    else:
        insert_rows(connection, table, rows)


def counts(connection: sa.Connection) -> dict[str, int]:
    """Return how many rows each table has."""
    found = execute(connection, _counts()).one()
    return {table.name: int(rows) for table, rows in zip(MOVED, found, strict=True)}


def without_incidental(table: sa.Table, rows: Iterable[Row]) -> list[Row]:
    """Return rows without the values that reads change."""
    incidental = INCIDENTAL_COLUMNS.get(table.name, frozenset())
    kept = [place for place, column in enumerate(table.columns) if column.name not in incidental]
    return [tuple([row[place] for place in kept]) for row in rows]


def canonical(table: sa.Table, row: Sequence[Any]) -> Row:
    """Return a row as every database would give it."""
    return tuple(
        [
            value if value is None or make is None else make(value)
            for value, make in zip(row, _makers(table), strict=True)
        ]
    )


class Digest:
    """A digest of the rows of a table, independent of their order, from which rows can be removed.

    The sum of a hash of 128 bits of each row: two tables that differ have the same one as rarely as two rows do.
    """

    def __init__(self, rows: int = 0, total: int = 0) -> None:
        """Start from a digest, or of nothing."""
        self.rows = rows
        self.total = total

    def add(self, rows: Iterable[Row]) -> None:
        """Take rows in."""
        for row in rows:
            self.rows += 1
            self.total += _hash(row)
        self.total %= _MODULUS

    def remove(self, rows: Iterable[Row]) -> None:
        """Take rows out that are in it."""
        for row in rows:
            self.rows -= 1
            self.total -= _hash(row)
        self.total %= _MODULUS

    def to_table(self, name: str) -> MovedTable:
        """Return the digest as part of a progress."""
        return MovedTable(name, self.rows, f"{self.total:032x}")

    @classmethod
    def from_table(cls, table: MovedTable) -> Digest:
        """Return the digest of a progress."""
        return cls(table.rows, int(table.digest, 16))


@cached_statement
def _counts() -> sa.Select[Any]:
    return sa.select(*(sa.select(sa.func.count()).select_from(table).scalar_subquery() for table in MOVED))


def _hash(row: Row) -> int:
    # What Python writes of numbers, texts and bytes can be read back: different rows are written differently.
    written = repr(row).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(written, digest_size=16).digest(), "big")


def _copy_in(connection: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> None:
    """Hand rows over in PostgreSQL's own way: reading long inserts takes psycopg longer than all else together."""
    names = ", ".join(f'"{column.name}"' for column in table.columns)
    text = f'COPY "{table.name}" ({names}) FROM STDIN'
    driver: Any = connection.dialect.dbapi
    cursor = connection.connection.cursor()
    try:
        with cast("Any", cursor).copy(text) as copy:
            for row in rows:
                copy.write_row(row)
    except driver.Error as error:
        raise sa.exc.DBAPIError.instance(text, None, error, driver.Error) from error
    finally:
        cursor.close()


def _is_one_of(table: sa.Table, keys: Sequence[Key]) -> sa.ColumnElement[bool]:
    key = key_columns(table)
    if len(key) == 1:
        return key[0].in_([value for (value,) in keys])
    return sa.tuple_(*key).in_(keys)


@cache
def _key_places(table: sa.Table) -> tuple[int, ...]:
    names = table.columns.keys()
    return tuple(names.index(column.name) for column in key_columns(table))


def _double(value: Any) -> float:
    return float(value) + 0.0


@cache
def _makers(table: sa.Table) -> tuple[Callable[[Any], Any] | None, ...]:
    def maker(column: sa.Column[Any]) -> Callable[[Any], Any] | None:
        if isinstance(column.type, sa.Double):
            # SQLite has no negative zero.
            return _double
        return bytes if isinstance(column.type, sa.LargeBinary) else None

    return tuple(maker(column) for column in table.columns)
