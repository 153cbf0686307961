"""What statements say differently from database to database, in one place: everything else is written once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.sqlite.dml import OnConflictDoNothing, OnConflictDoUpdate
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.visitors import InternalTraversal
from sqlalchemy.types import TypeEngine

from backends.sql.jsontext import json_text

T = TypeVar("T")

MAX_INTEGER = (1 << 63) - 1
"""The largest number of a column; drivers refuse larger parameters."""
MAX_PARAMETERS = 500
"""How many values one statement is given as parameters of their own."""
BLOCK_PARAMETERS = 2000
"""How many values an insert of many rows is given; more at once is no quicker."""
TEXT = sa.Text()
NUMBER = sa.BigInteger()
FRACTION: sa.Double[float] = sa.Double()


class _Element(FunctionElement[Any]):
    """Something that every database has, each under a name of its own."""

    inherit_cache = True


class _Listed(_Element):
    """A table of the members of a JSON array, which are *told* to be of a type; SQLite knows it."""

    name = "listed"
    _traverse_internals = [  # noqa: RUF012 - as SQLAlchemy has it
        *FunctionElement._traverse_internals,  # noqa: SLF001 - how SQLAlchemy is told what tells elements apart
        ("told", InternalTraversal.dp_string),
    ]

    def __init__(self, array: sa.ColumnElement[Any], type_: TypeEngine[Any]) -> None:
        super().__init__(array)
        self.told = _type_name(type_)


class _IsListed(_Element):
    """That a column is among the members of a JSON array, which are *told* to be of a type; SQLite knows it."""

    name = "is_listed"
    type = sa.Boolean()
    _is_implicitly_boolean = True  # It is a condition as it stands; "= 1" would keep SQLite from entering an index.
    _traverse_internals = [  # noqa: RUF012 - as above
        *FunctionElement._traverse_internals,  # noqa: SLF001 - as above
        ("told", InternalTraversal.dp_string),
        ("alias", InternalTraversal.dp_string),
    ]

    def __init__(self, column: sa.ColumnElement[Any], name: str) -> None:
        super().__init__(column, sa.bindparam(name, type_=sa.Text))
        self.told = _type_name(column.type)
        self.alias = f"listed_{name}"


class _Paired(_Element):
    """A table of the members of a JSON array, which are arrays."""

    name = "paired"
    inherit_cache = True


class _Member(_Element):
    """The member at *place* of a JSON array, which is *told* to be of a type; SQLite knows it."""

    name = "member"
    _traverse_internals = [  # noqa: RUF012 - as SQLAlchemy has it
        *FunctionElement._traverse_internals,  # noqa: SLF001 - as above
        ("place", InternalTraversal.dp_plain_obj),
        ("told", InternalTraversal.dp_string),
    ]

    def __init__(self, array: sa.ColumnElement[Any], place: int, type_: TypeEngine[Any]) -> None:
        super().__init__(array)
        self.place = place
        self.told = _type_name(type_)
        self.type = type_


class _Gathered(_Element):
    name = "gathered"
    inherit_cache = True
    type = TEXT


class _Hexadecimal(_Element):
    name = "hexadecimal"
    inherit_cache = True
    type = TEXT


class _Unindexed(_Element):
    name = "unindexed"
    inherit_cache = True

    def __init__(self, column: sa.ColumnElement[Any]) -> None:
        super().__init__(column)
        self.type = column.type


class _Place(_Element):
    """Where in one text another begins, 0: nowhere."""

    name = "place"
    inherit_cache = True
    type = NUMBER


class _Truncated(_Element):
    name = "truncated"
    inherit_cache = True
    type = NUMBER


def listed(name: str, type_: TypeEngine[Any] = TEXT) -> sa.TableValuedAlias:
    """Return a table of one column `value` made of the JSON array in the parameter *name*, of texts or of numbers.

    However many values there are, the text of the statement stays the same, and is compiled once.
    """
    return _Listed(sa.bindparam(name, type_=sa.Text), type_).table_valued(
        sa.column("value", type_), name=f"listed_{name}"
    )


def listed_values(values: Iterable[float | str], type_: TypeEngine[Any] = TEXT) -> sa.TableValuedAlias:
    """Return a table of one column `value` made of these values."""
    return _Listed(sa.literal(list_parameter(values), sa.Text), type_).table_valued(
        sa.column("value", type_), name="listed_values"
    )


def is_listed(column: sa.ColumnElement[Any], name: str) -> sa.ColumnElement[bool]:
    """Return the condition that *column* is in the JSON array in the parameter *name*: an index finds it by that."""
    return _IsListed(column, name)


def list_parameter(values: Iterable[float | str]) -> str:
    """Return the parameter that `listed` reads."""
    return json_text(list(values))


def pairs(name: str) -> sa.TableValuedAlias:
    """Return a table of the pairs in the parameter *name*; `pair_of` takes them apart."""
    return _Paired(sa.bindparam(name, type_=sa.Text)).table_valued("value", name=f"pairs_{name}")


def pair_of(table: sa.TableValuedAlias, *types: TypeEngine[Any]) -> list[sa.ColumnElement[Any]]:
    """Return the members of the tuples in a table of `pairs`, which are of these types."""
    return [_Member(table.c.value, place, type_) for place, type_ in enumerate(types)]


def pairs_parameter(values: Iterable[Sequence[float | str]]) -> str:
    """Return the parameter that `pairs` reads."""
    return json_text(list(values))


def gathered_rows(*columns: sa.ColumnElement[Any]) -> sa.ColumnElement[str]:
    """Return one text that holds all rows of *columns*, for `rows_of_text`. Not for fractions: they lose digits.

    The driver lets the interpreter lock go for every row that it steps to, and beside a busy thread has to wait for
    it each time: two hundred rows of a search took 160 ms during an import. One row waits once.
    """
    return _Gathered(*columns)


def hexadecimal(column: sa.ColumnElement[bytes]) -> sa.ColumnElement[str]:
    """Return the bytes of *column* as digits, for `gathered_rows`."""
    return _Hexadecimal(column)


def rows_of_text(text: str) -> list[list[Any]]:
    """Return the rows that `gathered_rows` put into a text."""
    rows: list[list[Any]] = json.loads(text)
    return rows


def unindexed(column: sa.ColumnElement[T]) -> sa.ColumnElement[T]:
    """Return the value of *column* such that the planner does not enter an index by it.

    Without statistics, which SQLite does not keep and PostgreSQL takes its time to make, it believes that one owner has
    but a few memories, and would read them all to find three by row.
    """
    return _Unindexed(column)


def exploded(column: sa.ColumnElement[str]) -> sa.TableValuedAlias:
    """Return a table of one column `value` made of the texts in a JSON array, beside the row that it is of."""
    return _Listed(column, TEXT).table_valued(sa.column("value", TEXT), name="exploded")


def exploded_pairs(column: sa.ColumnElement[str]) -> sa.TableValuedAlias:
    """Return a table of the pairs in a JSON array, for `pair_of`, beside the row that they are of."""
    return _Paired(column).table_valued("value", name="exploded")


def holds_text(column: sa.ColumnElement[str], part: str) -> sa.ColumnElement[bool]:
    """Return the condition that *part* is somewhere in *column*, as it is written."""
    return _Place(column, sa.literal(part, sa.Text)) > sa.literal_column("0")


def truncated(value: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
    """Return a number of at least 0 without its fraction."""
    return _Truncated(value)


@compiles(_Listed)
@compiles(_Paired)
def _json_each(element: _Element, compiler: Any, **kw: Any) -> str:
    return f"json_each({compiler.process(element.clauses, **kw)})"


@compiles(_Listed, "postgresql")
def _array_of_values(element: _Listed, compiler: Any, **kw: Any) -> str:
    array = compiler.process(element.clauses, **kw)
    return f"LATERAL (SELECT value::{element.told} AS value FROM json_array_elements_text(({array})::json))"  # noqa: S608 - our own


@compiles(_IsListed)
def _in_json_each(element: _IsListed, compiler: Any, **kw: Any) -> str:
    column, array = (compiler.process(part, **kw) for part in element.clauses)
    return f"{column} IN (SELECT {element.alias}.value FROM json_each({array}) AS {element.alias})"  # noqa: S608 - our own


@compiles(_IsListed, "postgresql")
def _any_of_array(element: _IsListed, compiler: Any, **kw: Any) -> str:
    # An array is part of the condition by which an index is entered. A join with the list would be planned by guesses
    # of how many rows meet the other conditions, which are far off before there are statistics.
    column, array = (compiler.process(part, **kw) for part in element.clauses)
    values = f"SELECT value::{element.told} FROM json_array_elements_text(({array})::json)"  # noqa: S608 - our own
    return f"{column} = ANY (ARRAY({values}))"


@compiles(_Paired, "postgresql")
def _array_of_pairs(element: _Paired, compiler: Any, **kw: Any) -> str:
    return f"LATERAL json_array_elements(({compiler.process(element.clauses, **kw)})::json)"


@compiles(_Member)
def _json_extract(element: _Member, compiler: Any, **kw: Any) -> str:
    return f"json_extract({compiler.process(element.clauses, **kw)}, '$[{element.place}]')"


@compiles(_Member, "postgresql")
def _json_member(element: _Member, compiler: Any, **kw: Any) -> str:
    return f"(({compiler.process(element.clauses, **kw)})->>{element.place})::{element.told}"


@compiles(_Gathered)
def _json_group_array(element: _Gathered, compiler: Any, **kw: Any) -> str:
    return f"json_group_array(json_array({compiler.process(element.clauses, **kw)}))"


@compiles(_Gathered, "postgresql")
def _json_agg(element: _Gathered, compiler: Any, **kw: Any) -> str:
    return f"coalesce(json_agg(json_build_array({compiler.process(element.clauses, **kw)})), '[]')::text"


@compiles(_Hexadecimal)
def _hex(element: _Hexadecimal, compiler: Any, **kw: Any) -> str:
    return f"hex({compiler.process(element.clauses, **kw)})"


@compiles(_Hexadecimal, "postgresql")
def _encode(element: _Hexadecimal, compiler: Any, **kw: Any) -> str:
    return f"encode({compiler.process(element.clauses, **kw)}, 'hex')"


@compiles(_Unindexed)
def _plus(element: _Unindexed, compiler: Any, **kw: Any) -> str:
    return f"+{compiler.process(element.clauses, **kw)}"


@compiles(_Unindexed, "postgresql")
def _coalesce(element: _Unindexed, compiler: Any, **kw: Any) -> str:
    value = compiler.process(element.clauses, **kw)
    return f"coalesce({value}, {value})"


@compiles(_Place)
def _instr(element: _Place, compiler: Any, **kw: Any) -> str:
    return f"instr({compiler.process(element.clauses, **kw)})"


@compiles(_Place, "postgresql")
def _strpos(element: _Place, compiler: Any, **kw: Any) -> str:
    return f"strpos({compiler.process(element.clauses, **kw)})"


@compiles(_Truncated)
def _cast(element: _Truncated, compiler: Any, **kw: Any) -> str:
    return f"CAST({compiler.process(element.clauses, **kw)} AS BIGINT)"


@compiles(_Truncated, "postgresql")
def _floor(element: _Truncated, compiler: Any, **kw: Any) -> str:
    # A cast alone would round.
    return f"floor({compiler.process(element.clauses, **kw)})::bigint"


@compiles(OnConflictDoNothing, "postgresql")
def _on_conflict_do_nothing(_element: OnConflictDoNothing, _compiler: Any, **_kw: Any) -> str:
    return "ON CONFLICT DO NOTHING"


@compiles(OnConflictDoUpdate, "postgresql")
def _on_conflict_do_update(element: Any, compiler: Any, **kw: Any) -> str:
    element.constraint_target = None
    clause: str = compiler.visit_on_conflict_do_update(element, **kw)
    return clause


def _type_name(type_: TypeEngine[Any]) -> str:
    if isinstance(type_, sa.Integer):
        return "bigint"
    return "double precision" if isinstance(type_, sa.Double) else "text"


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
    insert = sqlite.insert(table).values(new).execution_options(preserve_rowcount=True)
    values: Mapping[str, Any] = {name: insert.excluded[name] for name in changes}
    return insert.on_conflict_do_update(index_elements=list(table.primary_key), set_=values, where=condition)
