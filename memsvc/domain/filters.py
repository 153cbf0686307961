"""The one filter tree. Every store and index translates it; nothing is filtered after the top k."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeAlias, TypeVar

from memsvc.domain.memory import Json

MAX_DEPTH = 8
MAX_VALUES = 256
MEMO_FILTERS = 32
T = TypeVar("T")


class Field(StrEnum):
    """Field of a filter; values equal the names in `memsvc.domain.index_entries.Attributes`.

    ID, KEY, ACCESS_TIME, ORIGIN and TRUST are known to the metadata store alone: the engine resolves them to ROW
    before an index sees the tree. The fields of numbers are IMPORTANCE, CONFIDENCE, TRUST, ROW and the times
    (microseconds); TAGS and METADATA hold several strings each; all others hold one string.
    """

    ID = "id"
    KEY = "key"
    ACCESS_TIME = "access_time"
    ROW = "row"
    AGENT_ID = "agent_id"
    SESSION_ID = "session_id"
    LAYER = "layer"
    KIND = "kind"
    CATEGORY = "category"
    TIER = "tier"
    STATUS = "status"
    SPEAKER = "speaker"
    TAGS = "tags"
    METADATA = "metadata"
    IMPORTANCE = "importance"
    CONFIDENCE = "confidence"
    CREATE_TIME = "create_time"
    UPDATE_TIME = "update_time"
    EVENT_TIME = "event_time"
    EXPIRE_TIME = "expire_time"
    VALID_FROM = "valid_from"
    VALID_TO = "valid_to"
    ORIGIN = "origin"
    TRUST = "trust"


STORE_ONLY = frozenset({Field.ID, Field.KEY, Field.ACCESS_TIME, Field.ORIGIN, Field.TRUST})
VALIDITY = frozenset({Field.VALID_FROM, Field.VALID_TO})
TIMES = VALIDITY | {Field.CREATE_TIME, Field.UPDATE_TIME, Field.ACCESS_TIME, Field.EVENT_TIME, Field.EXPIRE_TIME}
NUMBERS = TIMES | {Field.IMPORTANCE, Field.CONFIDENCE, Field.TRUST, Field.ROW}


@dataclass(frozen=True, slots=True)
class AnyOf:
    """The field holds one of the values (for a field of several: at least one). No values: nothing matches."""

    field: Field
    values: tuple[str, ...] | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Range:
    """The number is within all given bounds. A memory without the number never matches."""

    field: Field
    above: float | None = None
    at_least: float | None = None
    below: float | None = None
    at_most: float | None = None


@dataclass(frozen=True, slots=True)
class And:
    """All children match. No children: everything matches."""

    children: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one child matches. No children: nothing matches."""

    children: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The child does not match; so a memory without the field matches a negated test of it."""

    child: Filter


Filter: TypeAlias = AnyOf | Range | And | Or | Not


class FilterMemo(Generic[T]):
    """Values that were computed from the last few filters, found by the identity of a filter. Thread-safe.

    Requests without a filter of their own share one filter for a while, so that what is made of it is made once.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Filter, T]] = {}

    def get(self, where: Filter, make: Callable[[Filter], T]) -> T:
        """Return the value of a filter, made by *make* unless it is known."""
        known = self._known.get(id(where))
        # The filter is kept with its value, so no other one can have its identity.
        if known is not None and known[0] is where:
            return known[1]
        value = make(where)
        if len(self._known) >= MEMO_FILTERS:
            self._known = {}
        self._known[id(where)] = where, value
        return value


def metadata_term(path: str, value: bool | float | str | None) -> str:  # noqa: FBT001 - a JSON scalar
    """Return the canonical string of one scalar at a dotted path: equal values, equal strings (1 equals 1.0)."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"{path}={json.dumps(value, ensure_ascii=False)}"


def metadata_terms(metadata: Mapping[str, Json]) -> tuple[str, ...]:
    """Return the canonical string of every scalar in *metadata*, lists flattened, sorted and without repeats."""
    return tuple(sorted(set(_scalars("", dict(metadata)))))


def _scalars(path: str, value: Json) -> Iterator[str]:
    if isinstance(value, dict):
        for name, child in value.items():
            yield from _scalars(f"{path}.{name}" if path else name, child)
    elif isinstance(value, list):
        for child in value:
            yield from _scalars(path, child)
    else:
        yield metadata_term(path, value)


def conjunction(*filters: Filter | None) -> Filter | None:
    """Return the filters joined by And, leaving out absent ones; None when all are absent."""
    present = tuple(child for child in filters if child is not None)
    if len(present) > 1:
        return And(present)
    return present[0] if present else None
