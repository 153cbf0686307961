"""The filter tree as SQL.

Every test is made two-valued: SQL's third value would survive a Not and lose the memories without the field.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.types import TypeEngine

from memsvc.domain.filters import NUMBERS, And, AnyOf, Begun, Field, Filter, Match, Or, Range, number_spans
from memsvc.domain.memory import Status
from memsvc.domain.scope import Reach
from memsvc_backends.sql.dialect import FRACTION, MAX_INTEGER, MAX_PARAMETERS, NUMBER, TEXT, json_list_values
from memsvc_backends.sql.memory_codec import NO_NUMBER, encode_term, span_terms
from memsvc_backends.sql.tables import (
    IS_FORMER_HOLDER,
    IS_NAMED,
    IS_QUARANTINED,
    ZERO,
    memories,
    memory_metadata,
    memory_tags,
)

Condition = sa.ColumnElement[bool]

_QUARANTINED = AnyOf(Field.STATUS, (Status.QUARANTINED.value,))
_SURROGATES, _AFTER_SURROGATES = 0xD800, 0xE000
_SEVERAL = {Field.TAGS: memory_tags, Field.METADATA: memory_metadata}


def condition(where: Filter, owner: str) -> Condition:
    """Return the condition on `memories` that a memory of *owner* meets when it matches *where*."""
    if isinstance(where, And):
        return sa.and_(sa.true(), *(condition(child, owner) for child in where.children))
    if isinstance(where, Or):
        return sa.or_(sa.false(), *(condition(child, owner) for child in where.children))
    if isinstance(where, AnyOf):
        return _any_of(where)
    if isinstance(where, Range):
        return _number_range(where, owner) if where.field is Field.METADATA else _range(where)
    if isinstance(where, Begun):
        return has_begun(sa.literal(where.moment, NUMBER))
    return sa.not_(condition(where.child, owner))


def has_begun(now: sa.ColumnElement[int]) -> Condition:
    """Return the condition that a memory is valid from *now* or before: see `memsvc.domain.memory.Memory.has_begun`."""
    start, *written = memories.c.valid_from, memories.c.create_time, memories.c.update_time
    return sa.or_(start.is_(None), *(start <= time for time in (now, *written)))


def within(reach: Reach) -> Condition:
    """Return the condition that *reach* contains a memory."""
    return sa.and_(memories.c.owner == reach.owner, memories.c.project_id.in_(reach.project_ids))


def any_value(column: sa.ColumnElement[object], values: Sequence[int | str | float]) -> Condition:
    """Return the condition that *column* holds one of *values*, however many they are."""
    type_: TypeEngine[Any] = TEXT
    wanted = values
    if isinstance(column.type, sa.Double):
        type_ = FRACTION
    elif isinstance(column.type, sa.Integer):
        # No whole number is a fraction. All are of 64 bits, since a column may be of less than a value is.
        type_, wanted = NUMBER, [int(value) for value in values if int(value) == value]
    if len(wanted) <= MAX_PARAMETERS:
        return column.in_([sa.literal(value, type_) for value in wanted])
    return column.in_(sa.select(json_list_values(wanted, type_).c.value))


def _any_of(test: AnyOf) -> Condition:
    if test.match is Match.PREFIX:
        return sa.or_(sa.false(), *(_of_keys(_begins(str(prefix))) for prefix in test.values))
    if test == _QUARANTINED:
        # As a literal: they are few, and have an index to themselves.
        return IS_QUARANTINED
    kinds = (int, float) if test.field in NUMBERS else (str,)
    values = [value for value in test.values if isinstance(value, kinds) and _fits(value)]
    if not values:
        return sa.false()
    if test.field in _SEVERAL:
        return _has_term(_SEVERAL[test.field], values)
    column = memories.c[test.field.value]
    if test.field is Field.KEY and all(values):
        return _of_keys(any_value(column, values))
    return _present(column, any_value(column, values))


def _has_term(table: sa.Table, values: Sequence[int | str]) -> Condition:
    terms = [encode_term(str(value)) for value in values] if table is memory_metadata else values
    return sa.exists().where(
        table.c.owner == memories.c.owner, table.c.row == memories.c.row, any_value(table.c.term, terms)
    )


def _of_keys(test: Condition) -> Condition:
    """Return the condition that a memory has a key that passes the test; each half has an index of keys."""
    return sa.or_(sa.and_(IS_NAMED, test), sa.and_(IS_FORMER_HOLDER, test))


def _begins(prefix: str) -> Condition:
    end = end_of_prefix(prefix)
    return sa.and_(memories.c.key >= prefix, sa.true() if end is None else memories.c.key < end)


def end_of_prefix(prefix: str) -> str | None:
    """Return the first text behind all that begin with *prefix*, in the order of their characters; None: there is none.

    Texts cannot hold the surrogates.
    """
    kept = prefix.rstrip(chr(sys.maxunicode))
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    return kept[:-1] + chr(_AFTER_SURROGATES if _SURROGATES <= following < _AFTER_SURROGATES else following)


def _number_range(bounds: Range, owner: str) -> Condition:
    """Return the condition that a number of metadata is in the bounds; each span is a part of the table's key.

    The rows are looked up once for a statement, not for every memory: so the owner is a value, not a column.
    """
    found, term = memory_metadata.c, memory_metadata.c.term
    parts = []
    for span in number_spans(bounds):
        first, last = span_terms(bounds.path, span)
        rows = sa.select(found.row).where(found.owner == owner, term >= first, term <= last)
        parts.append(memories.c.row.in_(rows.where(term.not_like(NO_NUMBER))))
    return sa.or_(sa.false(), *parts)


def _range(bounds: Range) -> Condition:
    column = memories.c[bounds.field.value]
    tests: list[tuple[float | None, Callable[[sa.ColumnElement[float]], Condition]]] = [
        (bounds.above, column.__gt__),
        (bounds.at_least, column.__ge__),
        (bounds.below, column.__lt__),
        (bounds.at_most, column.__le__),
    ]
    if any(bound is not None and math.isnan(bound) for bound, _ in tests):
        return sa.false()
    return _present(column, *(test(_bindable(bound)) for bound, test in tests if bound is not None))


def _present(column: sa.ColumnElement[object], *tests: Condition) -> Condition:
    if column is memories.c.expire_time:
        # Work in progress does not expire.
        tests = (memories.c.work_in_progress == ZERO, *tests)
    if getattr(column, "nullable", False):
        return sa.and_(column.is_not(None), *tests)
    return sa.and_(sa.true(), *tests)


def _fits(value: float | str) -> bool:
    return isinstance(value, str) or abs(value) <= MAX_INTEGER


def _bindable(bound: float) -> sa.ColumnElement[float]:
    if abs(bound) > MAX_INTEGER:
        return sa.literal(math.copysign(math.inf, bound), FRACTION)
    return sa.literal(bound, NUMBER if isinstance(bound, int) else FRACTION)
