"""What statements say differently from database to database, in one place: everything else is written once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.types import TypeEngine

from memsvc_backends.sql.elements import (
    TEXT,
    Hexadecimal,
    IsListed,
    JsonPairs,
    JsonRows,
    Listed,
    Member,
    NoIndex,
    Place,
    Truncated,
)
from memsvc_backends.sql.jsontext import json_text

T = TypeVar("T")

MAX_INTEGER = (1 << 63) - 1
"""The largest number of a column; drivers refuse larger parameters."""
MAX_PARAMETERS = 500
"""How many values one statement is given as parameters of their own."""
BLOCK_PARAMETERS = 2000
"""How many values an insert of many rows is given; more at once is no quicker."""


def listed(name: str, type_: TypeEngine[Any] = TEXT) -> sa.TableValuedAlias:
    """Return a table of one column `value` made of the JSON array in the parameter *name*, of texts or of numbers.

    However many values there are, the text of the statement stays the same, and is compiled once.
    """
    return Listed(sa.bindparam(name, type_=sa.Text), type_).table_valued(
        sa.column("value", type_), name=f"listed_{name}"
    )


def listed_values(values: Iterable[float | str], type_: TypeEngine[Any] = TEXT) -> sa.TableValuedAlias:
    """Return a table of one column `value` made of these values."""
    return Listed(sa.literal(list_parameter(values), sa.Text), type_).table_valued(
        sa.column("value", type_), name="listed_values"
    )


def is_listed(column: sa.ColumnElement[Any], name: str) -> sa.ColumnElement[bool]:
    """Return the condition that *column* is in the JSON array in the parameter *name*: an index finds it by that."""
    return IsListed(column, name)


def list_parameter(values: Iterable[float | str]) -> str:
    """Return the parameter that `listed` reads."""
    return json_text(list(values))


def pairs(name: str) -> sa.TableValuedAlias:
    """Return a table of the pairs in the parameter *name*; `pair_of` takes them apart."""
    return JsonPairs(sa.bindparam(name, type_=sa.Text)).table_valued("value", name=f"pairs_{name}")


def pair_of(table: sa.TableValuedAlias, *types: TypeEngine[Any]) -> list[sa.ColumnElement[Any]]:
    """Return the members of the tuples in a table of `pairs`, which are of these types."""
    return [Member(table.c.value, place, type_) for place, type_ in enumerate(types)]


def pairs_parameter(values: Iterable[Sequence[float | str]]) -> str:
    """Return the parameter that `pairs` reads."""
    return json_text(list(values))


def rows_as_json(*columns: sa.ColumnElement[Any]) -> sa.ColumnElement[str]:
    """Return one text that holds all rows of *columns*, for `rows_of_text`. Not for fractions: they lose digits.

    The driver lets the interpreter lock go for every row that it steps to, and beside a busy thread has to wait for
    it each time: two hundred rows of a search took 160 ms during an import. One row waits once.
    """
    return JsonRows(*columns)


def hexadecimal(column: sa.ColumnElement[bytes]) -> sa.ColumnElement[str]:
    """Return the bytes of *column* as digits, for `rows_as_json`."""
    return Hexadecimal(column)


def rows_of_text(text: str) -> list[list[Any]]:
    """Return the rows that `rows_as_json` put into a text."""
    rows: list[list[Any]] = json.loads(text)
    return rows


def unindexed(column: sa.ColumnElement[T]) -> sa.ColumnElement[T]:
    """Return the value of *column* such that the planner does not enter an index by it.

    Without statistics, which SQLite does not keep and PostgreSQL takes its time to make, it believes that one owner has
    but a few memories, and would read them all to find three by row.
    """
    return NoIndex(column)


def exploded(column: sa.ColumnElement[str]) -> sa.TableValuedAlias:
    """Return a table of one column `value` made of the texts in a JSON array, beside the row that it is of."""
    return Listed(column, TEXT).table_valued(sa.column("value", TEXT), name="exploded")


def exploded_pairs(column: sa.ColumnElement[str]) -> sa.TableValuedAlias:
    """Return a table of the pairs in a JSON array, for `pair_of`, beside the row that they are of."""
    return JsonPairs(column).table_valued("value", name="exploded")


def holds_text(column: sa.ColumnElement[str], part: str) -> sa.ColumnElement[bool]:
    """Return the condition that *part* is somewhere in *column*, as it is written."""
    return Place(column, sa.literal(part, sa.Text)) > sa.literal_column("0")


def truncated(value: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
    """Return a number of at least 0 without its fraction."""
    return Truncated(value)


def execute_raw(connection: sa.Connection, text: str, values: Sequence[Any] = ()) -> list[Any]:
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


def execute_compiled(
    connection: sa.Connection, statement: sa.ClauseElement, parameters: Mapping[str, Any]
) -> list[Any]:
    """Run a statement that is kept for good, as `execute_raw` does, and return its rows."""
    return execute_raw(connection, *_kept(connection, statement, parameters))


def each_kept(connection: sa.Connection, statement: sa.ClauseElement, parameters: Mapping[str, Any]) -> Iterator[Any]:
    """Run a statement as `execute_compiled` does, and yield its rows, each fetched when it is asked for."""
    text, values = _kept(connection, statement, parameters)
    driver: Any = connection.dialect.dbapi
    cursor: Any = connection.connection.cursor()
    try:
        cursor.execute(text, values)
        yield from cursor
    except driver.Error as error:
        raise sa.exc.DBAPIError.instance(text, None, error, driver.Error) from error
    finally:
        cursor.close()


def _kept(
    connection: sa.Connection, statement: sa.ClauseElement, parameters: Mapping[str, Any]
) -> tuple[str, tuple[Any, ...]]:
    text, names, values = _compiled(connection.dialect, statement)
    return text, tuple([parameters[name] if name in parameters else values[name] for name in names])


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
    insert = sqlite.insert(table).values(new).execution_options(preserve_rowcount=True)
    values: Mapping[str, Any] = {name: insert.excluded[name] for name in changes}
    return insert.on_conflict_do_update(index_elements=list(table.primary_key), set_=values, where=condition)
