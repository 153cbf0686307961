"""Conversion of entries to Qdrant points: id, vector and filterable payload."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple, TypeAlias

import numpy as np

from memsvc.domain.clock import to_micros
from memsvc.domain.errors import DimensionMismatchError
from memsvc.domain.filters import NUMBERS, VALIDITY, And, AnyOf, Field, Filter, FilterMemo, Not, Or, Range
from memsvc.domain.index_entries import Attributes, View
from memsvc.domain.scope import Reach
from memsvc.domain.visibility import is_default_visible, split_default_visible
from memsvc.ports.indexes import VectorEntry
from memsvc.ports.models import Vector

Payload: TypeAlias = dict[str, str | float]
Changes: TypeAlias = Mapping[int, Sequence[VectorEntry]]

FINGERPRINT = "fingerprint"
OWNER, PROJECT, VIEW, STATUS = "owner", "project_id", "view", "status"
TERMS = "terms"
PLAIN = "plain"
"""1 where the memory is plain, and absent where it is not."""
NOTHING: Condition = {"has_id": []}
"""The condition that no point meets."""
SEALED_TERM = "sealed=1"
"""The term of a point that was there when its generation was sealed: it is packed, and in the graph if there is one."""
SEALED: Condition = {"key": TERMS, "match": {"text_any": SEALED_TERM}}
IS_PLAIN: Condition = {"key": PLAIN, "match": {"value": 1}}
_SPLITTING = re.compile(r"[\s%]")
"""What may not be in a token: white space, of which Python knows more than the engine, and the escape itself."""
_MANY_VALUES = 64
"""From here on, reading the number from the payload is quicker than one range for each value. Rows have an index."""
_EXACT = 2**53
"""Each whole number nearer to 0 than this is a double, and no other is rounded to it."""
FIRST, LAST = to_micros(datetime.min.replace(tzinfo=UTC)), to_micros(datetime.max.replace(tzinfo=UTC))
"""No stored number is outside: of all whole numbers, times have the largest range."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of a change, small enough to be written between two searches.

    Attributes:
        ids: The points to write.
        payloads: One for each point.
        vectors: The points' vectors, one behind the other, as float32 bytes.
        memories: The memories that are complete with this slice: row, and the ids it shall have and no others.
    """

    ids: list[int]
    payloads: list[Payload]
    vectors: bytes
    memories: list[tuple[int, list[int]]]


def payload_of(attributes: Attributes, view: View, marks: Sequence[str] = ()) -> Payload:
    """Return the payload of an entry with *marks* among its terms. Numbers that the memory has not are left out."""
    tokens = [
        ("agent_id", attributes.agent_id),
        ("session_id", attributes.session_id),
        ("layer", attributes.layer),
        ("kind", attributes.kind),
        ("category", attributes.category),
        ("tier", attributes.tier),
        ("speaker", attributes.speaker),
        *[("tags", tag) for tag in attributes.tags],
        *[("metadata", value) for value in attributes.metadata],
    ]
    terms = [*marks, *terms_of(tokens)]
    bounds: Payload = {}
    if attributes.valid_from is not None:
        terms.append(term_within_limit(Field.VALID_FROM))
        bounds[Field.VALID_FROM.value] = attributes.valid_from
    if attributes.valid_to is not None:
        terms.append(term_within_limit(Field.VALID_TO))
        bounds[Field.VALID_TO.value] = attributes.valid_to
    payload: Payload = {
        **bounds,
        OWNER: str(attributes.owner),
        PROJECT: attributes.project_id,
        VIEW: int(view),
        STATUS: attributes.status,
        TERMS: " ".join(terms),
        "row": attributes.row,
        "importance": attributes.importance,
        "confidence": attributes.confidence,
        "create_time": attributes.create_time,
        "update_time": attributes.update_time,
        FINGERPRINT: attributes.fingerprint,
    }
    if is_default_visible(attributes):
        payload[PLAIN] = 1
    if attributes.event_time is not None:
        payload["event_time"] = attributes.event_time
    if attributes.expire_time is not None:
        payload["expire_time"] = attributes.expire_time
    return payload


def require_dimension(vector: Vector, dimension: int) -> None:
    """Raise DimensionMismatchError unless the vector has this length."""
    if vector.shape != (dimension,):
        raise DimensionMismatchError(dimension, vector.size)


def vector_bytes(vectors: Sequence[Vector]) -> bytes:
    """Return the vectors, one behind the other, as float32 bytes."""
    return np.asarray(vectors, dtype=np.float32).tobytes()


def slices_of(changes: Changes, *, dimension: int, size: int, is_bulk: bool = False) -> Iterator[Slice]:
    """Cut a change into slices of at most *size* points and *size* memories.

    Args:
        changes: The entries by the row of their memory.
        dimension: The length that every vector must have.
        size: How much a slice holds at most.
        is_bulk: Whether the points are marked as ones that the generation was sealed with.

    Raises:
        DimensionMismatchError: A vector has another length; raised here, before there is any slice.
    """
    for entries in changes.values():
        for entry in entries:
            require_dimension(entry.vector, dimension)
    return (_slice(entries, memories, is_bulk=is_bulk) for entries, memories in _split(changes, size))


def _split(changes: Changes, size: int) -> Iterator[tuple[list[VectorEntry], list[tuple[int, list[int]]]]]:
    batch: list[VectorEntry] = []
    memories: list[tuple[int, list[int]]] = []
    for row, entries in changes.items():
        for entry in entries:
            if len(batch) == size:
                yield batch, memories
                batch, memories = [], []
            batch.append(entry)
        memories.append((row, [entry.entry_id for entry in entries]))
        if len(memories) == size:
            yield batch, memories
            batch, memories = [], []
    if batch or memories:
        yield batch, memories


def _slice(entries: Sequence[VectorEntry], memories: list[tuple[int, list[int]]], *, is_bulk: bool) -> Slice:
    marks = [SEALED_TERM] if is_bulk else []
    return Slice(
        ids=[entry.entry_id for entry in entries],
        payloads=[payload_of(entry.attributes, entry.view, marks) for entry in entries],
        vectors=vector_bytes([entry.vector for entry in entries]),
        memories=memories,
    )


# From the filter tree to Qdrant's filters, in Qdrant's own JSON form, which the engine and the server share.
#
# What every search tests (owner, project, view, status) has a payload field and an index of its own. All other
# strings lie in one field, `TERMS`, as tokens "field=value" in one string, under a full-text index that does nothing
# but split at white space. Against a field and a keyword index for each, a point takes half the time to write (the
# engine's binding needs 4 µs to take a string from Python, and more for one in a list) and a third of the memory.
#
# An empty list is a trap: Qdrant reads "should": [] as no condition at all, so nothing is written as `NOTHING`.


Condition: TypeAlias = dict[str, object]
"""One condition, or a whole filter, as Qdrant's JSON has it."""


def term(field: str, value: str) -> str:
    """Return the token of a string field's value; different values give different tokens."""
    if _SPLITTING.search(value):
        value = _SPLITTING.sub(_escape, value)
    return f"{field}={value}"


def terms_of(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Return the token of each field and value: all looked at together, since next to none needs an escape."""
    if _SPLITTING.search("".join([value for _, value in pairs])):
        return [term(field, value) for field, value in pairs]
    return [f"{field}={value}" for field, value in pairs]


def term_within_limit(field: Field) -> str:
    """Return the token that a point has whose memory has a number in this field."""
    return f"{field.value}=set"


def filter_of(
    reach: Reach,
    view: View | None = None,
    where: Filter | None = None,
    known: FilterMemo[list[Condition]] | None = None,
) -> Condition:
    """Return the filter of the entries in *reach*, of *view* if given, for which *where* holds.

    *known* are the conditions of the last filters.
    """
    must: list[Condition] = [
        {"key": OWNER, "match": {"value": str(reach.owner)}},
        {"key": PROJECT, "match": {"any": [str(project) for project in reach.project_ids]}},
    ]
    if view is not None:
        must.append({"key": VIEW, "match": {"value": int(view)}})
    if where is not None:
        must += _conditions(where) if known is None else known.get(where, _conditions)
    return {"must": must}


def plain_filter_of(reach: Reach, view: View | None = None) -> Condition:
    """Return the filter of the entries in *reach*, of *view* if given, whose memories are plain."""
    must = filter_of(reach, view)["must"]
    return {"must": [*must, IS_PLAIN]} if isinstance(must, list) else NOTHING


def _conditions(where: Filter) -> list[Condition]:
    """Return conditions that are met by exactly the entries for which *where* holds."""
    of_plain, others = split_default_visible(where)
    if len(of_plain) > 1:
        either: Condition = {"should": [IS_PLAIN, condition_of(And(tuple(of_plain)))]}
        return [either, *map(condition_of, others)]
    return [condition_of(where)]


def condition_of(where: Filter) -> Condition:
    """Return the condition that is met by exactly the entries for which *where* holds."""
    if isinstance(where, AnyOf):
        return _number_any(where) if where.field in NUMBERS else _string_any(where)
    if isinstance(where, Range):
        return _range(where)
    if isinstance(where, And):
        return _all_of(where.children)
    if isinstance(where, Or):
        return {"should": [condition_of(child) for child in where.children]} if where.children else NOTHING
    return {"must_not": [condition_of(where.child)]}


def _all_of(children: Sequence[Filter]) -> Condition:
    """Join conditions without a filter of its own for each that is denied: a search spends its time in making them."""
    must = [condition_of(child) for child in children if not isinstance(child, Not)]
    must_not = [condition_of(child.child) for child in children if isinstance(child, Not)]
    return {"must": must, "must_not": must_not} if must_not else {"must": must}


def _escape(found: re.Match[str]) -> str:
    return f"%{ord(found[0]):x};"


def _terms(terms: Sequence[str]) -> Condition:
    return {"key": TERMS, "match": {"text_any": " ".join(terms)}} if terms else NOTHING


def _string_any(where: AnyOf) -> Condition:
    values = [str(value) for value in where.values if isinstance(value, str)]
    if where.field is Field.STATUS:
        return {"key": STATUS, "match": {"any": values}}
    return _terms([term(where.field.value, value) for value in values])


def _number_any(where: AnyOf) -> Condition:
    values = [value for value in where.values if isinstance(value, int | float)]
    if not values:
        return NOTHING
    if where.field is Field.ROW or (len(values) >= _MANY_VALUES and where.field is not Field.CONFIDENCE):
        return {"key": where.field.value, "match": {"any": [int(value) for value in values]}}
    return {"should": [_range(Range(where.field, at_least=value, at_most=value)) for value in values]}


def _range(where: Range) -> Condition:
    if where.field is Field.CONFIDENCE:
        bounds = bounds_of(where)
        return NOTHING if bounds is None else {"key": where.field.value, "range": bounds}
    tests = [_part(where.field.value, part) for part in parts_of(where)]
    if not tests:
        return NOTHING
    if where.field in VALIDITY:
        # Few memories have such a number, and it has no index of its own: their term keeps the others from being read.
        tests.insert(0, _terms([term_within_limit(where.field)]))
    return tests[0] if len(tests) == 1 else {"must": tests}


def _part(name: str, part: FilterPart) -> Condition:
    within: Condition = {"key": name, "range": part.bounds}
    if not part.others:
        return within
    others: Condition = {"key": name, "match": {"any": list(part.others)}}
    return {"should": [within, others]} if part.bounds else others


def bounds_of(where: Range) -> dict[str, float] | None:
    """Return the bounds of a range of fractions, by Qdrant's names; None where one is no number: nothing is within."""
    bounds = {"gt": where.above, "gte": where.at_least, "lt": where.below, "lte": where.at_most}
    given = {name: float(bound) for name, bound in bounds.items() if bound is not None}
    return None if any(map(math.isnan, given.values())) else given


# Ranges of whole numbers, exactly, although Qdrant reads bounds as doubles and may compare as doubles, too.
#
# A double holds every whole number below 2^53: the microseconds of the years 1684 to 2255. A bound beyond is moved into
# the range as far as the next double from which on comparing is sure, and the few numbers in between, at most 64 up to
# the year 9999, are named one by one, since Qdrant matches whole numbers as such. That is right whether the engine
# compares with an index, as whole numbers, or with the payload, as doubles. So points hold nothing for it, and a search
# with bounds in the years above, as nearly all have, is asked with these alone.


class FilterPart(NamedTuple):
    """A test: a number passes that is within all *bounds*, by Qdrant's names, or is one of *others*.

    Without bounds, none but the *others* pass; without these too, every number does.
    """

    bounds: dict[str, float]
    others: Sequence[int] = ()


def parts_of(where: Range) -> list[FilterPart]:
    """Return tests that exactly those numbers pass all of which lie in the range; no tests: it holds none."""
    named = (("gt", where.above), ("gte", where.at_least), ("lt", where.below), ("lte", where.at_most))
    near = {name: bound for name, bound in named if bound is not None}
    if all(type(bound) is int and -_EXACT < bound < _EXACT for bound in near.values()):
        return [FilterPart(near)]
    return _of_any(where.at_least, where.above, where.at_most, where.below)


def _of_any(*given: float | None) -> list[FilterPart]:
    """Return the tests for bounds of any sort, in the order at least, above, at most, below."""
    if any(bound is not None and math.isnan(bound) for bound in given):
        return []
    # Infinities cannot be rounded; far outside one number is as good as another.
    at_least, above, at_most, below = (None if one is None else max(-(2.0**62), min(one, 2.0**62)) for one in given)
    lows = [math.ceil(at_least)] if at_least is not None else []
    lows += [math.floor(above) + 1] if above is not None else []
    highs = [math.floor(at_most)] if at_most is not None else []
    highs += [math.ceil(below) - 1] if below is not None else []
    return _parts(max(lows, default=None), min(highs, default=None))


def _parts(low: int | None, high: int | None) -> list[FilterPart]:
    """Return the tests of the numbers from *low* to *high*, where these are given."""
    if (low is not None and low > LAST) or (high is not None and high < FIRST):
        return []
    if low is not None and high is not None:
        if low > high:
            return []
        if low == high and abs(low) >= _EXACT:
            return [FilterPart({}, (low,))]
    ends = [] if low is None else [_from(low)]
    ends += [] if high is None else [_up_to(high)]
    plain = {name: bound for end in ends if not end.others for name, bound in end.bounds.items()}
    far = [end for end in ends if end.others]
    return far if far and not plain else [FilterPart(plain), *far]


def _from(low: int) -> FilterPart:
    if abs(low) < _EXACT or low <= FIRST:
        return FilterPart({"gte": float(low)})
    edge = float(low - 1)
    if edge < low - 1:
        edge = math.nextafter(edge, math.inf)
    # What is rounded to more than the edge is more, and what is as much as the next double is rounded to no less.
    return FilterPart({"gt": edge}, range(low, int(math.nextafter(edge, math.inf))))


def _up_to(high: int) -> FilterPart:
    if abs(high) < _EXACT or high >= LAST:
        return FilterPart({"lte": float(high)})
    edge = float(high + 1)
    if edge > high + 1:
        edge = math.nextafter(edge, -math.inf)
    return FilterPart({"lt": edge}, range(int(math.nextafter(edge, -math.inf)) + 1, high + 1))
