"""What differs from database to database, in one place. Another database begins here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.sql import operators
from sqlalchemy.sql.elements import UnaryExpression

from backends.sql.jsontext import json_text
from backends.sql.settings import Durability, SqlSettings

T = TypeVar("T")

MAX_INTEGER = (1 << 63) - 1
"""The largest number of a column; drivers refuse larger parameters."""
MAX_PARAMETERS = 500
"""How many values one statement is given as parameters of their own."""
BLOCK_PARAMETERS = 2000
"""How many values an insert of many rows is given; more at once is no quicker."""
LOG_BYTES = 64 * 1024 * 1024
"""What the log may keep of the disk after a large transaction."""
SNAPSHOT_BEGIN = "BEGIN"
"""Opens a transaction that sees one state of the database throughout."""
WRITE_BEGIN = "BEGIN IMMEDIATE"
"""Opens a transaction that may write: it takes the writer's lock at once, so that it cannot fail half way for it."""


def listed(name: str) -> sa.TableValuedAlias:
    """Return a table of one column `value` made of the JSON array in the parameter *name*.

    However many values there are, the text of the statement stays the same, and is compiled once.
    """
    return sa.func.json_each(sa.bindparam(name, type_=sa.Text)).table_valued("value", name=f"listed_{name}")


def list_parameter(values: Iterable[float | str]) -> str:
    """Return the parameter that `listed` reads."""
    return json_text(list(values))


def pairs(name: str) -> sa.TableValuedAlias:
    """Return a table of the pairs in the parameter *name*; `pair_of` takes them apart."""
    return sa.func.json_each(sa.bindparam(name, type_=sa.Text)).table_valued("value", name=f"pairs_{name}")


def pair_of(table: sa.TableValuedAlias, size: int = 2) -> list[sa.ColumnElement[Any]]:
    """Return the members of the tuples in a table of `pairs`."""
    return [sa.func.json_extract(table.c.value, f"$[{place}]") for place in range(size)]


def pairs_parameter(values: Iterable[Sequence[float | str]]) -> str:
    """Return the parameter that `pairs` reads."""
    return json_text(list(values))


def gathered_rows(*columns: sa.ColumnElement[Any]) -> sa.ColumnElement[str]:
    """Return one text that holds all rows of *columns*, for `rows_of_text`. Not for fractions: they lose digits.

    The driver lets the interpreter lock go for every row that it steps to, and beside a busy thread has to wait for
    it each time: two hundred rows of a search took 160 ms during an import. One row waits once.
    """
    return sa.func.json_group_array(sa.func.json_array(*columns), type_=sa.Text)


def hexadecimal(column: sa.ColumnElement[bytes]) -> sa.ColumnElement[str]:
    """Return the bytes of *column* as digits, for `gathered_rows`."""
    return sa.func.hex(column, type_=sa.Text)


def rows_of_text(text: str) -> list[list[Any]]:
    """Return the rows that `gathered_rows` put into a text."""
    rows: list[list[Any]] = json.loads(text)
    return rows


def unindexed(column: sa.ColumnElement[T]) -> sa.ColumnElement[T]:
    """Return the value of *column* such that SQLite's planner does not enter an index by it.

    Without statistics it believes that one owner has but ten memories, and would read them all to find three by row.
    """
    return UnaryExpression(column, operator=operators.custom_op("+"), type_=column.type)


def exploded(column: sa.ColumnElement[str]) -> sa.TableValuedAlias:
    """Return a table of one column `value` made of the JSON array in *column*, beside the row that it is of."""
    return sa.func.json_each(column).table_valued("value", name="exploded")


def element(array: sa.ColumnElement[Any], place: int) -> sa.ColumnElement[Any]:
    """Return the text or number at a place of a JSON array."""
    return sa.func.json_extract(array, sa.literal_column(f"'$[{place}]'"))


def run_text(connection: sa.Connection, text: str, values: Sequence[Any] = ()) -> list[Any]:
    """Run a statement in the driver's own words and return its rows.

    What SQLAlchemy does beside takes several times as long as a small statement; errors are the same.
    """
    driver: Any = connection.dialect.dbapi
    cursor = connection.connection.cursor()
    try:
        cursor.execute(text, values)
        return list(cursor.fetchall()) if cursor.description else []
    except driver.Error as error:
        raise sa.exc.DBAPIError.instance(text, None, error, driver.Error) from error
    finally:
        cursor.close()


def run_kept(connection: sa.Connection, statement: sa.ClauseElement, parameters: Mapping[str, Any]) -> list[Any]:
    """Run a statement that is kept for good, as `run_text` does, and return its rows."""
    text, names, values = _compiled(connection.dialect, statement)
    return run_text(
        connection, text, tuple([parameters[name] if name in parameters else values[name] for name in names])
    )


@cache
def _compiled(dialect: sa.Dialect, statement: sa.ClauseElement) -> tuple[str, Sequence[str], Mapping[str, Any]]:
    compiled: Any = statement.compile(dialect=dialect)
    return str(compiled), compiled.positiontup or (), compiled.params


def insert_new(table: sa.Table) -> sa.Insert:
    """Return an insert that leaves out rows which a unique index refuses."""
    return sqlite.insert(table).on_conflict_do_nothing()


def upsert(table: sa.Table, changes: Sequence[str]) -> sa.Insert:
    """Return an insert that, where the primary key is there, sets the columns *changes* instead."""
    insert = sqlite.insert(table)
    values: Mapping[str, Any] = {name: insert.excluded[name] for name in changes}
    return insert.on_conflict_do_update(index_elements=list(table.primary_key), set_=values)


def upsert_when(
    table: sa.Table, new: Mapping[str, Any], changes: Sequence[str], condition: sa.ColumnElement[bool]
) -> sa.Insert:
    """Return an insert that, where the primary key is there, sets the columns *changes*, if the row meets *condition*.

    Its count of rows is 0 when the row was there and does not.
    """
    insert = sqlite.insert(table).values(new)
    values: Mapping[str, Any] = {name: insert.excluded[name] for name in changes}
    return insert.on_conflict_do_update(index_elements=list(table.primary_key), set_=values, where=condition)


def empty_log(connection: sa.Connection) -> bool:
    """Bring the log into the file and make it empty; return False when a reader of an older state is in the way."""
    [(is_busy, _, _)] = run_text(connection, "PRAGMA wal_checkpoint(TRUNCATE)")
    return not is_busy


def rewrite(connection: sa.Connection) -> None:
    """Write the whole file anew, without anything that was removed. Outside a transaction."""
    run_text(connection, "VACUUM")


def prepare_connection(connection: Any, settings: SqlSettings) -> None:
    """Set a fresh connection of the driver up; transactions are begun by us, never by the driver."""
    connection.isolation_level = None
    cursor = connection.cursor()
    synchronous = "FULL" if settings.durability is Durability.FULL else "NORMAL"
    for pragma in (
        f"busy_timeout = {int(settings.wait_seconds * 1000)}",
        "journal_mode = WAL",
        f"synchronous = {synchronous}",
        f"cache_size = -{max(1, settings.cache_bytes // 1000)}",
        "temp_store = MEMORY",
        # What is purged is to be gone from the file too, not only from its directory of pages.
        "secure_delete = ON",
        f"journal_size_limit = {LOG_BYTES}",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
