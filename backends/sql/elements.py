"""Expressions that every database has, each under a name of its own; `backends.sql.dialect` makes them."""

from __future__ import annotations

from typing import Any

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


class Listed(Element):
    """A table of the members of a JSON array, which are *told* to be of a type; SQLite knows it."""

    name = "listed"
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


class Paired(Element):
    """A table of the members of a JSON array, which are arrays."""

    name = "paired"
    inherit_cache = True


class Member(Element):
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


class Gathered(Element):
    """All rows of some columns as one text."""

    name = "gathered"
    inherit_cache = True
    type = TEXT


class Hexadecimal(Element):
    """Bytes as digits."""

    name = "hexadecimal"
    inherit_cache = True
    type = TEXT


class Unindexed(Element):
    """The value of a column, by which no index is entered."""

    name = "unindexed"
    inherit_cache = True

    def __init__(self, column: sa.ColumnElement[Any]) -> None:
        super().__init__(column)
        self.type = column.type


class Place(Element):
    """Where in one text another begins, 0: nowhere."""

    name = "place"
    inherit_cache = True
    type = NUMBER


class Truncated(Element):
    """A number of at least 0 without its fraction."""

    name = "truncated"
    inherit_cache = True
    type = NUMBER


@compiles(Listed)
@compiles(Paired)
def _json_each(element: Element, compiler: Any, **kw: Any) -> str:
    return f"json_each({compiler.process(element.clauses, **kw)})"


@compiles(Listed, "postgresql")
def _array_of_values(element: Listed, compiler: Any, **kw: Any) -> str:
    array = compiler.process(element.clauses, **kw)
    return f"LATERAL (SELECT value::{element.told} AS value FROM json_array_elements_text(({array})::json))"  # noqa: S608 - our own


@compiles(IsListed)
def _in_json_each(element: IsListed, compiler: Any, **kw: Any) -> str:
    column, array = (compiler.process(part, **kw) for part in element.clauses)
    return f"{column} IN (SELECT {element.known_as}.value FROM json_each({array}) AS {element.known_as})"  # noqa: S608 - our own


@compiles(IsListed, "postgresql")
def _any_of_array(element: IsListed, compiler: Any, **kw: Any) -> str:
    # An array is part of the condition by which an index is entered. A join with the list would be planned by guesses
    # of how many rows meet the other conditions, which are far off before there are statistics.
    column, array = (compiler.process(part, **kw) for part in element.clauses)
    values = f"SELECT value::{element.told} FROM json_array_elements_text(({array})::json)"  # noqa: S608 - our own
    return f"{column} = ANY (ARRAY({values}))"


@compiles(Paired, "postgresql")
def _array_of_pairs(element: Paired, compiler: Any, **kw: Any) -> str:
    return f"LATERAL json_array_elements(({compiler.process(element.clauses, **kw)})::json)"


@compiles(Member)
def _json_extract(element: Member, compiler: Any, **kw: Any) -> str:
    return f"json_extract({compiler.process(element.clauses, **kw)}, '$[{element.place}]')"


@compiles(Member, "postgresql")
def _json_member(element: Member, compiler: Any, **kw: Any) -> str:
    return f"(({compiler.process(element.clauses, **kw)})->>{element.place})::{element.told}"


@compiles(Gathered)
def _json_group_array(element: Gathered, compiler: Any, **kw: Any) -> str:
    return f"json_group_array(json_array({compiler.process(element.clauses, **kw)}))"


@compiles(Gathered, "postgresql")
def _json_agg(element: Gathered, compiler: Any, **kw: Any) -> str:
    return f"coalesce(json_agg(json_build_array({compiler.process(element.clauses, **kw)})), '[]')::text"


@compiles(Hexadecimal)
def _hex(element: Hexadecimal, compiler: Any, **kw: Any) -> str:
    return f"hex({compiler.process(element.clauses, **kw)})"


@compiles(Hexadecimal, "postgresql")
def _encode(element: Hexadecimal, compiler: Any, **kw: Any) -> str:
    return f"encode({compiler.process(element.clauses, **kw)}, 'hex')"


@compiles(Unindexed)
def _plus(element: Unindexed, compiler: Any, **kw: Any) -> str:
    return f"+{compiler.process(element.clauses, **kw)}"


@compiles(Unindexed, "postgresql")
def _coalesce(element: Unindexed, compiler: Any, **kw: Any) -> str:
    value = compiler.process(element.clauses, **kw)
    return f"coalesce({value}, {value})"


@compiles(Place)
def _instr(element: Place, compiler: Any, **kw: Any) -> str:
    return f"instr({compiler.process(element.clauses, **kw)})"


@compiles(Place, "postgresql")
def _strpos(element: Place, compiler: Any, **kw: Any) -> str:
    return f"strpos({compiler.process(element.clauses, **kw)})"


@compiles(Truncated)
def _cast(element: Truncated, compiler: Any, **kw: Any) -> str:
    return f"CAST({compiler.process(element.clauses, **kw)} AS BIGINT)"


@compiles(Truncated, "postgresql")
def _floor(element: Truncated, compiler: Any, **kw: Any) -> str:
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
