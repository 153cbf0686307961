"""The filter tree and the reach as conditions on an index's table.

Every test is made two-valued: SQL's third value would survive a NOT and lose the memories without the field.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from memsvc.domain.filters import NUMBERS, And, AnyOf, Field, Filter, Not, Or, Range
from memsvc.domain.index_entries import ORDINAL_BITS, VIEW_BITS
from memsvc.domain.scope import Reach
from memsvc_backends.postgres_index.strings import all_held, held, key_of

ROW_SHIFT = VIEW_BITS + ORDINAL_BITS
_MIN, _MAX = -(2**63), 2**63 - 1
_NULLABLE = {Field.EVENT_TIME, Field.EXPIRE_TIME, Field.VALID_FROM, Field.VALID_TO}
_SEVERAL = {Field.TAGS, Field.METADATA}


class Condition(NamedTuple):
    """Words with places for parameters, and the parameters. No value is ever among the words."""

    words: str
    parameters: tuple[Any, ...] = ()


_ALWAYS, _NEVER = Condition("true"), Condition("false")


def selection(reach: Reach, where: Filter | None) -> Condition:
    """Return the condition that an entry lies in *reach* and passes the filter."""
    owner = held(reach.owner)
    within = Condition(
        "owner_key = %s AND owner = %s AND project_id = ANY(%s::text[])",
        (key_of(owner), owner, all_held(reach.project_ids)),
    )
    return within if where is None else joined("AND", [within, condition(where)])


def condition(where: Filter) -> Condition:
    """Return the condition that an entry meets exactly when it matches *where*."""
    if isinstance(where, And):
        return joined("AND", [_ALWAYS, *(condition(child) for child in where.children)])
    if isinstance(where, Or):
        return joined("OR", [_NEVER, *(condition(child) for child in where.children)])
    if isinstance(where, Not):
        child = condition(where.child)
        return Condition(f"NOT ({child.words})", child.parameters)
    return _any_of(where) if isinstance(where, AnyOf) else _range(where)


def joined(word: str, parts: list[Condition]) -> Condition:
    """Return the parts joined by AND or OR."""
    words = f" {word} ".join(f"({part.words})" for part in parts)
    return Condition(words, tuple(parameter for part in parts for parameter in part.parameters))


def _any_of(test: AnyOf) -> Condition:
    if test.field not in NUMBERS:
        texts = [held(value) for value in test.values if isinstance(value, str)]
        operator = "&& %s::text[]" if test.field in _SEVERAL else "= ANY(%s::text[])"
        return Condition(f"{test.field.value} {operator}", (texts,)) if texts else _NEVER
    numbers = [value for value in test.values if not isinstance(value, str) and _MIN <= value <= _MAX]
    if not numbers:
        return _NEVER
    if test.field is Field.CONFIDENCE:
        return Condition("confidence = ANY(%s::float8[])", ([float(number) for number in numbers],))
    if test.field is Field.ROW:
        return _rows(numbers)
    return _present(test.field, Condition(f"{test.field.value} = ANY(%s::bigint[])", (numbers,)))


def _rows(rows: list[int]) -> Condition:
    """Return the condition on the row; its bounds let the primary key find few of many."""
    highest = _MAX >> ROW_SHIFT
    known = [row for row in rows if 0 <= row <= highest]
    if not known:
        return _NEVER
    words = f"entry >> {ROW_SHIFT} = ANY(%s::bigint[]) AND entry BETWEEN %s::bigint AND %s::bigint"
    return Condition(words, (known, min(known) << ROW_SHIFT, (max(known) << ROW_SHIFT) | ((1 << ROW_SHIFT) - 1)))


def _range(bounds: Range) -> Condition:
    given = (bounds.above, bounds.at_least, bounds.below, bounds.at_most)
    if any(bound is not None and math.isnan(bound) for bound in given):
        return _NEVER
    if bounds.field is Field.CONFIDENCE:
        return _fractions(bounds)
    lower = max(_whole(bounds.at_least, math.ceil, _MIN), _whole(bounds.above, _after, _MIN))
    upper = min(_whole(bounds.at_most, math.floor, _MAX), _whole(bounds.below, _before, _MAX))
    if lower > upper or lower > _MAX or upper < _MIN:
        return _NEVER
    name = f"entry >> {ROW_SHIFT}" if bounds.field is Field.ROW else bounds.field.value
    test = Condition(f"{name} BETWEEN %s::bigint AND %s::bigint", (max(lower, _MIN), min(upper, _MAX)))
    return _present(bounds.field, test)


def _fractions(bounds: Range) -> Condition:
    tests = [(">", bounds.above), (">=", bounds.at_least), ("<", bounds.below), ("<=", bounds.at_most)]
    parts = [Condition(f"confidence {sign} %s::float8", (float(bound),)) for sign, bound in tests if bound is not None]
    return joined("AND", [_ALWAYS, *parts])


def _present(field: Field, test: Condition) -> Condition:
    if field not in _NULLABLE:
        return test
    return Condition(f"{field.value} IS NOT NULL AND {test.words}", test.parameters)


def _whole(bound: float | None, rounded: Callable[[float], int], absent: int) -> int:
    if bound is None:
        return absent
    # Infinities cannot be rounded; beyond the 64 bits one number is as good as another.
    return rounded(max(min(bound, 2.0**64), -(2.0**64)))


def _after(bound: float) -> int:
    return math.floor(bound) + 1


def _before(bound: float) -> int:
    return math.ceil(bound) - 1
