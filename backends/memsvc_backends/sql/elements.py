"""Expressions that every database has, each under a name of its own; `memsvc_backends.sql.dialect` makes them.

Each says as a format how SQLite and how PostgreSQL write it: `{0}`, `{1}` are its arguments, `{arguments}` all of them
with commas between, and `{element}` is the element itself.
"""

from __future__ import annotations

from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite.dml import OnConflictDoNothing, OnConflictDoUpdate
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.visitors import InternalTraversal
from sqlalchemy.types import TypeEngine

TEXT = sa.Text()
NUMBER = sa.BigInteger()
FRACTION: sa.Double[float] = sa.Double()


class Element(FunctionElement[Any]):
    """Something that every database has, each under a name of its own."""

    inherit_cache = True
    sqlite: ClassVar[str]
    postgresql: ClassVar[str]


class Listed(Element):
    """A table of the members of a JSON array, which are *told* to be of a type; SQLite knows it."""

    name = "listed"
    sqlite = "json_each({0})"
    postgresql = "LATERAL (SELECT value::{element.told} AS value FROM json_array_elements_text(({0})::json))"
    _traverse_internals = [  # noqa: RUF012 - as SQLAlchemy has it
        *FunctionElement._traverse_internals,  # noqa: SLF001 - how SQLAlchemy is told what tells elements apart
        ("told", InternalTraversal.dp_string),
    ]

    def __init__(self, array: sa.ColumnElement[Any], type_: TypeEngine[Any]) -> None:
        super().__init__(array)
        self.told = _type_name(type_)


class IsListed(Element):
    """That a column is among the members of a JSON array, which are *told* to be of a type; SQLite knows it."""

    name = "is_listed"
    sqlite = "{0} IN (SELECT {element.known_as}.value FROM json_each({1}) AS {element.known_as})"
    # An array is part of the condition by which an index is entered. A join with the list would be planned by guesses
    # of how many rows meet the other conditions, which are far off before there are statistics.
    postgresql = "{0} = ANY (ARRAY(SELECT value::{element.told} FROM json_array_elements_text(({1})::json)))"
    type = sa.Boolean()
    _is_implicitly_boolean = True  # It is a condition as it stands; "= 1" would keep SQLite from entering an index.
    _traverse_internals = [  # noqa: RUF012 - as above
        *FunctionElement._traverse_internals,  # noqa: SLF001 - as above
        ("told", InternalTraversal.dp_string),
        ("known_as", InternalTraversal.dp_string),
    ]

    def __init__(self, column: sa.ColumnElement[Any], name: str) -> None:
        super().__init__(column, sa.bindparam(name, type_=sa.Text))
        self.told = _type_name(column.type)
        self.known_as = f"listed_{name}"


class JsonPairs(Element):
    """A table of the members of a JSON array, which are arrays."""

    name = "paired"
    sqlite = "json_each({0})"
    postgresql = "LATERAL json_array_elements(({0})::json)"
    inherit_cache = True


class Member(Element):
    """The member at *place* of a JSON array, which is *told* to be of a type; SQLite knows it."""

    name = "member"
    sqlite = "json_extract({0}, '$[{element.place}]')"
    postgresql = "(({0})->>{element.place})::{element.told}"
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


class JsonRows(Element):
    """All rows of some columns as one text."""

    name = "gathered"
    sqlite = "json_group_array(json_array({arguments}))"
    postgresql = "coalesce(json_agg(json_build_array({arguments})), '[]')::text"
    inherit_cache = True
    type = TEXT


class Hexadecimal(Element):
    """Bytes as digits."""

    name = "hexadecimal"
    sqlite = "hex({0})"
    postgresql = "encode({0}, 'hex')"
    inherit_cache = True
    type = TEXT


class NoIndex(Element):
    """The value of a column, by which no index is entered."""

    name = "unindexed"
    sqlite = "+{0}"
    postgresql = "coalesce({0}, {0})"
    inherit_cache = True

    def __init__(self, column: sa.ColumnElement[Any]) -> None:
        super().__init__(column)
        self.type = column.type


class Place(Element):
    """Where in one text another begins, 0: nowhere."""

    name = "place"
    sqlite = "instr({0}, {1})"
    postgresql = "strpos({0}, {1})"
    inherit_cache = True
    type = NUMBER


class Truncated(Element):
    """A number of at least 0 without its fraction."""

    name = "truncated"
    sqlite = "CAST({0} AS BIGINT)"
    # A cast alone would round.
    postgresql = "floor({0})::bigint"
    inherit_cache = True
    type = NUMBER


@compiles(Element)
def _as_sqlite(element: Element, compiler: Any, **kw: Any) -> str:
    return _written(element.sqlite, element, compiler, **kw)


@compiles(Element, "postgresql")
def _as_postgresql(element: Element, compiler: Any, **kw: Any) -> str:
    return _written(element.postgresql, element, compiler, **kw)


@compiles(OnConflictDoNothing, "postgresql")
def _on_conflict_do_nothing(_element: OnConflictDoNothing, _compiler: Any, **_kw: Any) -> str:
    return "ON CONFLICT DO NOTHING"


@compiles(OnConflictDoUpdate, "postgresql")
def _on_conflict_do_update(element: Any, compiler: Any, **kw: Any) -> str:
    element.constraint_target = None
    clause: str = compiler.visit_on_conflict_do_update(element, **kw)
    return clause


def _written(words: str, element: Element, compiler: Any, **kw: Any) -> str:
    arguments = [compiler.process(argument, **kw) for argument in element.clauses]
    return words.format(*arguments, arguments=", ".join(arguments), element=element)


def _type_name(type_: TypeEngine[Any]) -> str:
    if isinstance(type_, sa.Integer):
        return "bigint"
    return "double precision" if isinstance(type_, sa.Double) else "text"
