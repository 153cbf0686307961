"""The one filter tree. Every store and index translates it; nothing is filtered after the top k."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from memsvc.domain.memory import Json

MAX_DEPTH = 8
MAX_VALUES = 256
MEMO_FILTERS = 32
MAX_METADATA_NUMBERS = 256
"""Numbers of one memory's metadata that ranges test: the first ones by path and value."""
T = TypeVar("T")


class Field(StrEnum):
    """Field of a filter; values equal the names in `memsvc.domain.index_entries.Attributes`.

    ID, KEY, ACCESS_TIME, ORIGIN and TRUST are known to the metadata store alone: the engine resolves them to ROW
    before an index sees the tree. The fields of numbers are IMPORTANCE, CONFIDENCE, TRUST, ROW and the times
    (microseconds); TAGS and METADATA hold several strings each; all others hold one string. EXPIRE_TIME is
    `memsvc.domain.memory.Memory.expiry`.
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


class Match(StrEnum):
    """Part of a string that a value of `AnyOf` is compared with."""

    WHOLE = "WHOLE"
    PREFIX = "PREFIX"
    """Of the field KEY alone."""


@dataclass(frozen=True, slots=True)
class AnyOf:
    """The field holds one of the values (for a field of several: at least one). No values: nothing matches.

    With the match PREFIX the field begins with one of the values, none of which is empty.
    """

    field: Field
    values: tuple[str, ...] | tuple[int, ...]
    match: Match = Match.WHOLE


@dataclass(frozen=True, slots=True)
class Range:
    """The number is within all given bounds. A memory without the number never matches.

    Of the field METADATA, at least one of the numbers at the dotted *path* is within the bounds. No index sees that
    test: the engine turns it into one of terms, by `number_test`.
    """

    field: Field
    above: float | None = None
    at_least: float | None = None
    below: float | None = None
    at_most: float | None = None
    path: str = ""


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


@dataclass(frozen=True, slots=True)
class Begun(Not):
    """The memory has no valid_from, or has begun at *moment* (microseconds): see `Memory.has_begun`.

    Indexes, which compare no two fields, may test it as the negation that it is: that lets a later start pass, too, if
    the memory was written after *moment*, by a clock that was set back since. Searches test what indexes find again.
    """

    moment: int

    @classmethod
    def at(cls, moment: int) -> Begun:
        """Return the test for a moment."""
        written = (Range(field, at_most=moment) for field in (Field.CREATE_TIME, Field.UPDATE_TIME))
        return cls(And((Range(Field.VALID_FROM, above=moment), *written)), moment)


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
    return tuple(sorted({term for name, value in metadata.items() for term in _scalars(name, value)}))


def _scalars(path: str, value: Json) -> Iterator[str]:
    if isinstance(value, dict):
        for name, child in value.items():
            yield from _scalars(f"{path}.{name}", child)
    elif isinstance(value, list):
        for child in value:
            yield from _scalars(path, child)
    else:
        yield metadata_term(path, value)


# Ranges of numbers in metadata.
#
# A number is a sign and the 64 bits of its magnitude as a double, which are in the order of the magnitudes. An index
# compares whole terms alone. So it holds terms of each number that name nodes of a tree of 16 branches, one level for
# each hexadecimal digit, from the root to the last digit that is not 0, and a term with the end mark for the number
# itself. A range is covered by few nodes: about 40 for "3 or more", 480 at most.


_SIGNS = ("+", "-")
_DIGITS = 16
_BITS = 64
_BRANCHES = 0xF
_LARGEST = (1 << (_BITS - 1)) - 1
"""No magnitude is larger: the first bit is that of the sign."""
_END = "."


class NumberSpan(NamedTuple):
    """Numbers of one sign whose magnitudes have bits from *low* to *high*, both included."""

    sign: str
    low: int
    high: int


def metadata_numbers(metadata: Mapping[str, Json]) -> list[tuple[str, float]]:
    """Return the numbers in *metadata* with their paths, lists flattened, sorted and without repeats.

    Whole numbers that no double holds are rounded to one, and left out beyond the largest one.
    """
    numbers = (pair for name, value in metadata.items() for pair in _numbers(name, value))
    found = {(path, number) for path, number in numbers if math.isfinite(number)}
    return sorted(found)[:MAX_METADATA_NUMBERS]


def number_terms(metadata: Mapping[str, Json]) -> list[str]:
    """Return the terms by which indexes find the numbers in *metadata*, sorted and without repeats."""
    return sorted({term for path, number in metadata_numbers(metadata) for term in _terms_of_number(path, number)})


def number_test(bounds: Range) -> AnyOf:
    """Return the test of terms that the memories with a number within *bounds* at their path pass."""
    return AnyOf(Field.METADATA, _terms_of_range(bounds))


def number_bits(number: float) -> tuple[str, int]:
    """Return the sign and the magnitude's bits; 0 has the sign "+"."""
    (bits,) = struct.unpack(">Q", struct.pack(">d", abs(number)))
    return _SIGNS[number < 0], bits


def number_spans(bounds: Range) -> list[NumberSpan]:
    """Return the numbers within *bounds*: none, one or two spans."""
    given = (bounds.above, bounds.at_least, bounds.below, bounds.at_most)
    if any(bound is not None and math.isnan(bound) for bound in given):
        return []
    low = max(_position(bounds.at_least, -_LARGEST), _position(bounds.above, -_LARGEST - 1) + 1)
    high = min(_position(bounds.at_most, _LARGEST), _position(bounds.below, _LARGEST + 1) - 1)
    spans = []
    if low < 0 and low <= high:
        spans.append(NumberSpan("-", max(1, -high), -low))
    if high >= 0 and low <= high:
        spans.append(NumberSpan("+", max(0, low), high))
    return spans


def _position(bound: float | None, absent: int) -> int:
    """Return the place of a number among all doubles: neighbours differ by 1, and 0 is 0."""
    if bound is None:
        return absent
    sign, bits = number_bits(_as_double(bound))
    return bits if sign == "+" else -bits


def _as_double(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _numbers(path: str, value: Json) -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for name, child in value.items():
            yield from _numbers(f"{path}.{name}", child)
    elif isinstance(value, list):
        for child in value:
            yield from _numbers(path, child)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, _as_double(value) + 0.0


def _terms_of_number(path: str, number: float) -> Iterator[str]:
    sign, bits = number_bits(number)
    digits = f"{bits:0{_DIGITS}x}".rstrip("0") or "0"
    # No term of an equal value is like this: after the last "=" it would have no JSON.
    tag = f"{path}>{sign}"
    for length in range(1, len(digits) + 1):
        yield tag + digits[:length]
    if len(digits) < _DIGITS:
        yield f"{tag}{digits}{_END}"


@lru_cache(maxsize=64)
def _terms_of_range(bounds: Range) -> tuple[str, ...]:
    found = []
    for sign, low, high in number_spans(bounds):
        tag = f"{bounds.path}>{sign}"
        for node in _nodes(low, high):
            found.append(tag + node)
            shortest = node.rstrip("0") or "0"
            if len(shortest) < len(node):
                found.append(f"{tag}{shortest}{_END}")
    return tuple(dict.fromkeys(found))


def _nodes(low: int, high: int) -> Iterator[str]:
    """Yield the nodes of the tree that cover the numbers from *low* to *high*, and no others."""
    for digits in range(_DIGITS, 0, -1):
        while low <= high and (low & _BRANCHES or digits == 1):
            yield f"{low:0{digits}x}"
            low += 1
        while low <= high and high & _BRANCHES != _BRANCHES:
            yield f"{high:0{digits}x}"
            high -= 1
        if low > high:
            return
        low >>= 4
        high >>= 4


# Prefixes of keys.
#
# Keys are often paths, and their prefixes folders: an index holds a term of each folder of a memory's key. Memories
# under any other prefix are looked up in the store, and an index gets their rows: 8 000 rows take 40 to 90 ms.


_FOLDER = "/"
_MAX_FOLDERS = 16


def key_terms(key: str) -> list[str]:
    """Return the terms by which indexes find a key by its folders, at most 16."""
    ends = [place for place, character in enumerate(key) if character == _FOLDER]
    # No other term of metadata ends with the separator.
    return [f"key>{key[: end + 1]}" for end in ends[:_MAX_FOLDERS]]


def key_test(where: AnyOf) -> AnyOf | None:
    """Return the test of terms that equals a test of key prefixes, None when one of these is not a folder."""
    prefixes = [str(value) for value in where.values]
    if not all(prefix.endswith(_FOLDER) and prefix.count(_FOLDER) <= _MAX_FOLDERS for prefix in prefixes):
        return None
    return AnyOf(Field.METADATA, tuple(f"key>{prefix}" for prefix in prefixes))


def conjunction(*filters: Filter | None) -> Filter | None:
    """Return the filters joined by And, leaving out absent ones; None when all are absent."""
    present = tuple(child for child in filters if child is not None)
    if len(present) > 1:
        return And(present)
    return present[0] if present else None
