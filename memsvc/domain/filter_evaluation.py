"""The meaning of the filter tree, written out plainly: what every store and index must agree with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime

from memsvc.domain.clock import to_micros
from memsvc.domain.filters import And, AnyOf, Field, Filter, Match, Not, Or, Range
from memsvc.domain.index_entries import Attributes, metadata_of
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach

Values = tuple[str | float, ...]
_OF_SCOPE = frozenset({Field.AGENT_ID, Field.SESSION_ID})


def memory_matches(where: Filter | None, memory: Memory) -> bool:
    """Return whether a memory matches, in the fields too that only a store knows."""
    return where is None or _matches(where, lambda field: _values_of(memory, field))


def _values_of(memory: Memory, field: Field) -> Values:
    if field is Field.METADATA:
        return metadata_of(memory)
    value = getattr(memory.scope if field in _OF_SCOPE else memory, field.value)
    if value is None:
        return ()
    if isinstance(value, datetime):
        return (to_micros(value),)
    return value if isinstance(value, tuple) else (value,)


def matches(where: Filter | None, attributes: Attributes) -> bool:
    """Return whether the filter, which names no field that only a store knows, matches."""

    def values(field: Field) -> Values:
        value = getattr(attributes, field.value)
        if value is None:
            return ()
        return value if isinstance(value, tuple) else (value,)

    return where is None or _matches(where, values)


def within(reach: Reach, attributes: Attributes) -> bool:
    """Return whether *attributes* lie in *reach*."""
    return attributes.owner == reach.owner and attributes.project_id in reach.project_ids


def _matches(where: Filter, values: Callable[[Field], Values]) -> bool:
    if isinstance(where, And):
        return all(_matches(child, values) for child in where.children)
    if isinstance(where, Or):
        return any(_matches(child, values) for child in where.children)
    if isinstance(where, Not):
        return not _matches(where.child, values)
    if isinstance(where, AnyOf):
        return _is_any(where, values(where.field))
    if where.field is Field.METADATA:
        return any(_inside(where, number) for number in _numbers_at(where.path, values(where.field)))
    return any(_inside(where, value) for value in values(where.field) if not isinstance(value, str))


def _is_any(where: AnyOf, held: Values) -> bool:
    if where.match is Match.PREFIX:
        return any(str(value).startswith(str(prefix)) for value in held for prefix in where.values)
    return any(value in where.values for value in held)


def _numbers_at(path: str, terms: Values) -> Iterator[float]:
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
