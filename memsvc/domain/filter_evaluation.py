"""The meaning of the filter tree, written out plainly: what every store and index must agree with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from operator import attrgetter
from typing import TypeAlias, TypeVar

from memsvc.domain.clock import to_micros
from memsvc.domain.filters import And, AnyOf, Begun, Field, Filter, Match, Not, Or, Range
from memsvc.domain.index_entries import Attributes, metadata_of
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach

T = TypeVar("T")
Value: TypeAlias = str | float
Values: TypeAlias = tuple[Value, ...] | Value | datetime | None
"""The value of a field, or several; None: it has none."""
MemoryTest: TypeAlias = Callable[[Memory], bool]
AttributesTest: TypeAlias = Callable[[Attributes], bool]
_OF_SCOPE = frozenset({Field.AGENT_ID, Field.SESSION_ID})


def memory_test(where: Filter | None) -> MemoryTest:
    """Return a function that says whether a memory matches, in the fields too that only a store knows.

    To make it takes as long as to test two memories.
    """
    return _test(where, _memory_reader)


def matches(where: Filter | None, attributes: Attributes) -> bool:
    """Return whether the filter, which names no field that only a store knows, matches."""
    test: AttributesTest = _test(where, lambda field: attrgetter(field.value))
    return test(attributes)


def within(reach: Reach, attributes: Attributes) -> bool:
    """Return whether *attributes* lie in *reach*."""
    return attributes.owner == reach.owner and attributes.project_id in reach.project_ids


def _memory_reader(field: Field) -> Callable[[Memory], Values]:
    if field is Field.METADATA:
        return metadata_of
    if field is Field.EXPIRE_TIME:
        return attrgetter("expiry")
    return attrgetter(f"scope.{field.value}" if field in _OF_SCOPE else field.value)


def _test(where: Filter | None, reader_of: Callable[[Field], Callable[[T], Values]]) -> Callable[[T], bool]:
    """Return the test of a filter, whose leaves read their fields as *reader_of* says."""
    if where is None:
        return lambda _: True
    if isinstance(where, And):
        parts = [_test(child, reader_of) for child in where.children]
        return lambda item: all(part(item) for part in parts)
    if isinstance(where, Or):
        parts = [_test(child, reader_of) for child in where.children]
        return lambda item: any(part(item) for part in parts)
    if isinstance(where, Begun):
        return _begun(where.moment, *map(reader_of, (Field.VALID_FROM, Field.CREATE_TIME, Field.UPDATE_TIME)))
    if isinstance(where, Not):
        inner = _test(where.child, reader_of)
        return lambda item: not inner(item)
    read, leaf = reader_of(where.field), where
    return lambda item: (value := read(item)) is not None and _is_met(leaf, value)


def _begun(moment: int, *times: Callable[[T], Values]) -> Callable[[T], bool]:
    def passes(item: T) -> bool:
        start, *written = (_number(time(item)) for time in times)
        return start is None or start <= moment or any(one is not None and start <= one for one in written)

    return passes


def _number(value: Values) -> float | None:
    if isinstance(value, datetime):
        return to_micros(value)
    return value if isinstance(value, int | float) else None


def _is_met(leaf: AnyOf | Range, value: tuple[Value, ...] | Value | datetime) -> bool:
    held = value if isinstance(value, tuple) else (to_micros(value) if isinstance(value, datetime) else value,)
    if isinstance(leaf, AnyOf):
        if leaf.match is Match.PREFIX:
            return any(str(one).startswith(str(prefix)) for one in held for prefix in leaf.values)
        return any(one in leaf.values for one in held)
    if leaf.field is Field.METADATA:
        return any(_inside(leaf, number) for number in _numbers_at(leaf.path, held))
    return any(_inside(leaf, one) for one in held if not isinstance(one, str))


def _numbers_at(path: str, terms: Iterable[Value]) -> Iterator[float]:
    """Yield the numbers among the terms of metadata at a path; no other term ends in a bare number after the path."""
    beginning = f"{path}="
    for term in terms:
        if isinstance(term, str) and term.startswith(beginning):
            with suppress(ValueError):
                yield float(term[len(beginning) :])


def _inside(bounds: Range, value: float) -> bool:
    return (
        (bounds.above is None or value > bounds.above)
        and (bounds.at_least is None or value >= bounds.at_least)
        and (bounds.below is None or value < bounds.below)
        and (bounds.at_most is None or value <= bounds.at_most)
    )
