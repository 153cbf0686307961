"""The filter tree and the reach as conditions on an index's table.

Every test is made two-valued: SQL's third value would survive a NOT and lose the memories without the field.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from memsvc.domain.filters import NUMBERS, And, AnyOf, Field, Filter, Not, Or, Range
from memsvc.domain.index_entries import ORDINAL_BITS, VIEW_BITS, Attributes
from memsvc.domain.scope import Reach

ROW_SHIFT = VIEW_BITS + ORDINAL_BITS
_MIN, _MAX = -(2**63), 2**63 - 1
_NULLABLE = {Field.EVENT_TIME, Field.EXPIRE_TIME, Field.VALID_FROM, Field.VALID_TO}
_SEVERAL = {Field.TAGS, Field.METADATA}
COLUMNS = (
    ("entry", "bigint", "NOT NULL"),
    ("owner_key", "bigint", "NOT NULL"),
    ("owner", "text", "NOT NULL"),
    ("project_id", "text", "NOT NULL"),
    ("agent_id", "text", "NOT NULL"),
    ("session_id", "text", "NOT NULL"),
    ("layer", "text", "NOT NULL"),
    ("kind", "text", "NOT NULL"),
    ("category", "text", "NOT NULL"),
    ("tier", "text", "NOT NULL"),
    ("status", "text", "NOT NULL"),
    ("speaker", "text", "NOT NULL"),
    ("tags", "text[]", "NOT NULL"),
    ("metadata", "text[]", "NOT NULL"),
    ("importance", "bigint", "NOT NULL"),
    ("confidence", "float8", "NOT NULL"),
    ("create_time", "bigint", "NOT NULL"),
    ("update_time", "bigint", "NOT NULL"),
    ("event_time", "bigint", ""),
    ("expire_time", "bigint", ""),
    ("valid_from", "bigint", ""),
    ("valid_to", "bigint", ""),
    ("fingerprint", "bigint", "NOT NULL"),
)
"""Name, type and constraint of each; the memory's row is the upper part of the entry's number."""
NAMES = tuple(name for name, _, _ in COLUMNS)
TYPES = tuple(kind for _, kind, _ in COLUMNS)
DEFINITIONS = ", ".join(f"{name} {kind} {constraint}" for name, kind, constraint in COLUMNS)
_ESCAPE = "\x01"
_NUL = "\x00"


class Condition(NamedTuple):
    """SQL with placeholders, and the parameters. Values are never part of the SQL."""

    words: str
    parameters: tuple[Any, ...] = ()


_ALWAYS, _NEVER = Condition("true"), Condition("false")


def selection(reach: Reach, where: Filter | None) -> Condition:
    """Return the condition that *reach* contains an entry that passes the filter."""
    owner = without_nul(reach.owner)
    within = Condition(
        "owner_key = %s AND owner = %s AND project_id = ANY(%s::text[])",
        (key_of(owner), owner, all_without_nul(reach.project_ids)),
    )
    return within if where is None else join_conditions("AND", [within, condition(where)])


def owner_selection(owner: str) -> Condition:
    """Return the condition that an entry is of the owner, by the key alone, which an index has."""
    return Condition("owner_key = %s", (key_of(without_nul(owner)),))


def condition(where: Filter) -> Condition:
    """Return the condition that an entry meets exactly when it matches *where*."""
    if isinstance(where, And):
        return join_conditions("AND", [_ALWAYS, *(condition(child) for child in where.children)])
    if isinstance(where, Or):
        return join_conditions("OR", [_NEVER, *(condition(child) for child in where.children)])
    if isinstance(where, Not):
        child = condition(where.child)
        return Condition(f"NOT ({child.words})", child.parameters)
    return _any_of(where) if isinstance(where, AnyOf) else _range(where)


def join_conditions(word: str, parts: list[Condition]) -> Condition:
    """Return the parts joined by AND or OR."""
    words = f" {word} ".join(f"({part.words})" for part in parts)
    return Condition(words, tuple(parameter for part in parts for parameter in part.parameters))


def _any_of(test: AnyOf) -> Condition:
    if test.field not in NUMBERS:
        texts = [without_nul(value) for value in test.values if isinstance(value, str)]
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
    return join_conditions("AND", [_ALWAYS, *parts])


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


# The columns that hold an entry's attributes, the same in the tables of both indexes.


def values_of(entry: int, attributes: Attributes) -> tuple[Any, ...]:
    """Return the values of `COLUMNS` in their order."""
    a = attributes
    owner = without_nul(a.owner)
    return (
        entry,
        key_of(owner),
        owner,
        without_nul(a.project_id),
        without_nul(a.agent_id),
        without_nul(a.session_id),
        without_nul(a.layer),
        without_nul(a.kind),
        without_nul(a.category),
        without_nul(a.tier),
        without_nul(a.status),
        without_nul(a.speaker),
        all_without_nul(a.tags),
        all_without_nul(a.metadata),
        a.importance,
        float(a.confidence),
        a.create_time,
        a.update_time,
        a.event_time,
        a.expire_time,
        a.valid_from,
        a.valid_to,
        a.fingerprint,
    )


# Strings as PostgreSQL can hold them, and their keys.


def without_nul(text: str) -> str:
    """Return *text* without NUL, which PostgreSQL refuses; different texts stay different."""
    if _NUL not in text and _ESCAPE not in text:
        return text
    return text.replace(_ESCAPE, f"{_ESCAPE}2").replace(_NUL, f"{_ESCAPE}1")


def all_without_nul(texts: Sequence[str]) -> list[str]:
    """Return each of *texts* as `without_nul` does."""
    return [without_nul(text) for text in texts]


def key_of(text: str) -> int:
    """Return a key of 64 bits. It finds; where it matters whose something is, the text is compared as well."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), signed=True)
