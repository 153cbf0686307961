"""Filters: what they select, by the plain meaning of the filter tree."""

from __future__ import annotations

from datetime import timedelta

import pytest
from google.protobuf.struct_pb2 import Value
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.domain.filter_evaluation import matches
from memsvc.domain.filters import And, Field, Range
from memsvc.domain.index_entries import attributes_of
from memsvc.domain.memory import Kind, Layer, Memory, Status, Tier
from memsvc.domain.scope import Visibility
from memsvc.server.responses.memories import time_to_proto
from memsvc.testing.factories import NOW, memory
from memsvc.v1 import types_pb2 as types
from tests.support.selections import selection_of

DAY = timedelta(days=1)
YESTERDAY, TOMORROW = NOW - DAY, NOW + DAY


def selects(chosen: types.Filter, stored: Memory, happened: types.TimeRange | None = None) -> bool:
    """Return whether a filter selects a memory."""
    selection = selection_of(chosen, now=NOW, time_range=happened)
    return matches(selection.where, attributes_of(stored), {Field.ID: (stored.id,), Field.ACCESS_TIME: ()})


def since(seconds_from_now: float) -> types.TimeRange:
    """Return the open range that begins so many seconds from now."""
    return types.TimeRange(start=time_to_proto(NOW + timedelta(seconds=seconds_from_now)))


def where(
    field: types.FilterField.ValueType, operator: types.FilterOperator.ValueType, *values: object, path: str = ""
) -> types.Filter:
    """Return a filter of one condition, without the defaults that get in its way."""
    wire = [
        Value(bool_value=value)
        if isinstance(value, bool)
        else Value(string_value=value)
        if isinstance(value, str)
        else Value(number_value=value)  # type: ignore[arg-type] # a number
        for value in values
    ]
    condition = types.FilterCondition(field=field, operator=operator, values=wire, metadata_path=path)
    return types.Filter(where=types.FilterExpression(condition=condition))


EQUALS, NOT_EQUALS, IN = types.FILTER_OPERATOR_EQUALS, types.FILTER_OPERATOR_NOT_EQUALS, types.FILTER_OPERATOR_IN
LESS, LESS_OR_EQUAL = types.FILTER_OPERATOR_LESS, types.FILTER_OPERATOR_LESS_OR_EQUAL
GREATER, GREATER_OR_EQUAL = types.FILTER_OPERATOR_GREATER, types.FILTER_OPERATOR_GREATER_OR_EQUAL
FACT = memory(
    kind=Kind.FACT,
    layer=Layer.CORE,
    tags=("a", "b"),
    speaker="Anna",
    importance=3,
    confidence=0.5,
    event_time=NOW,
    metadata={"ticket": {"state": "open", "size": 1, "done": False}},
)

CASES = [
    (types.Filter(), FACT, True),
    (types.Filter(), memory(status=Status.ARCHIVED), False),
    (types.Filter(statuses=[types.MEMORY_STATUS_ARCHIVED]), memory(status=Status.ARCHIVED), True),
    (types.Filter(statuses=[types.MEMORY_STATUS_ARCHIVED]), FACT, False),
    (types.Filter(), memory(tier=Tier.ARCHIVED), False),
    (types.Filter(tiers=[types.MEMORY_TIER_ARCHIVED]), memory(tier=Tier.ARCHIVED), True),
    (types.Filter(), memory(expire_time=NOW), False),
    (types.Filter(), memory(expire_time=TOMORROW), True),
    (types.Filter(include_expired=True), memory(expire_time=YESTERDAY), True),
    (
        types.Filter(statuses=[types.MEMORY_STATUS_EXPIRED]),
        memory(status=Status.EXPIRED, expire_time=YESTERDAY),
        True,
    ),
    (where(types.FILTER_FIELD_STATUS, EQUALS, "ARCHIVED"), memory(status=Status.ARCHIVED), True),
    (where(types.FILTER_FIELD_STATUS, NOT_EQUALS, "ACTIVE"), memory(status=Status.EXPIRED, expire_time=NOW), True),
    (where(types.FILTER_FIELD_STATUS, NOT_EQUALS, "DELETED"), memory(expire_time=YESTERDAY), False),
    (where(types.FILTER_FIELD_TIER, EQUALS, "ARCHIVED"), memory(tier=Tier.ARCHIVED), True),
    (where(types.FILTER_FIELD_TIER, EQUALS, "ARCHIVED"), memory(tier=Tier.ARCHIVED, status=Status.DELETED), False),
    (types.Filter(layers=[types.MEMORY_LAYER_CORE]), FACT, True),
    (types.Filter(kinds=[types.MEMORY_KIND_TASK]), FACT, False),
    (types.Filter(categories=[""]), FACT, True),
    (types.Filter(tags_any=["b", "c"]), FACT, True),
    (types.Filter(tags_all=["b", "c"]), FACT, False),
    (types.Filter(tags_all=["b", "a"]), FACT, True),
    (types.Filter(speakers=["anna"]), FACT, False),
    (types.Filter(ids=[FACT.id.upper()]), FACT, True),
    (types.Filter(ids=[memory().id]), FACT, False),
    (types.Filter(create_time=since(0)), FACT, True),
    (types.Filter(create_time=types.TimeRange(end=time_to_proto(NOW))), FACT, False),
    (types.Filter(create_time=since(0.000001)), FACT, False),
    (types.Filter(event_time=types.TimeRange()), FACT, True),
    (types.Filter(event_time=types.TimeRange()), memory(), False),
    (types.Filter(access_time=types.TimeRange()), memory(), False),
    (types.Filter(last_days=1), memory(create_time=YESTERDAY), True),
    (types.Filter(last_days=1), memory(create_time=YESTERDAY - DAY), False),
    (types.Filter(last_days=1, last_days_field=types.TIME_FIELD_EVENT_TIME), memory(event_time=TOMORROW), False),
    (types.Filter(last_days=1, last_days_field=types.TIME_FIELD_EVENT_TIME), FACT, True),
    (types.Filter(min_importance=3, max_importance=3), FACT, True),
    (types.Filter(min_importance=4), FACT, False),
    (types.Filter(min_confidence=0.5, max_confidence=0.5), FACT, True),
    (types.Filter(max_confidence=0.0), FACT, False),
    (types.Filter(metadata=[types.MetadataEquals(path="ticket.size", value=Value(number_value=1.0))]), FACT, True),
    (types.Filter(metadata=[types.MetadataEquals(path="ticket.size", value=Value(bool_value=True))]), FACT, False),
    (where(types.FILTER_FIELD_TAG, EQUALS, "a"), FACT, True),
    (where(types.FILTER_FIELD_TAG, NOT_EQUALS, "a"), FACT, False),
    (where(types.FILTER_FIELD_KIND, IN, "TASK", "FACT"), FACT, True),
    (where(types.FILTER_FIELD_IMPORTANCE, LESS, 3), FACT, False),
    (where(types.FILTER_FIELD_IMPORTANCE, LESS, 3.5), FACT, True),
    (where(types.FILTER_FIELD_IMPORTANCE, LESS_OR_EQUAL, 3), FACT, True),
    (where(types.FILTER_FIELD_IMPORTANCE, GREATER, 2.5), FACT, True),
    (where(types.FILTER_FIELD_IMPORTANCE, GREATER, 3), FACT, False),
    (where(types.FILTER_FIELD_IMPORTANCE, GREATER_OR_EQUAL, 3.5), FACT, False),
    (where(types.FILTER_FIELD_IMPORTANCE, LESS, 1e300), FACT, True),
    (where(types.FILTER_FIELD_IMPORTANCE, EQUALS, 3), FACT, True),
    (where(types.FILTER_FIELD_IMPORTANCE, EQUALS, 3.5), FACT, False),
    (where(types.FILTER_FIELD_IMPORTANCE, NOT_EQUALS, 3.5), FACT, True),
    (where(types.FILTER_FIELD_IMPORTANCE, IN, 1, 3), FACT, True),
    (where(types.FILTER_FIELD_CONFIDENCE, GREATER, 0.5), FACT, False),
    (where(types.FILTER_FIELD_EVENT_TIME, EQUALS, "2026-02-06T10:30:00+01:00"), FACT, True),
    (where(types.FILTER_FIELD_EVENT_TIME, LESS, "2026-02-06T09:30:00Z"), FACT, False),
    (where(types.FILTER_FIELD_EVENT_TIME, NOT_EQUALS, "2026-02-06T09:30:00Z"), memory(), True),
    (where(types.FILTER_FIELD_METADATA, IN, "open", "shut", path="ticket.state"), FACT, True),
    (types.Filter(metadata=[types.MetadataEquals(path="ticket.done", value=Value(bool_value=False))]), FACT, True),
    (where(types.FILTER_FIELD_METADATA, NOT_EQUALS, "open", path="missing"), FACT, True),
]


@pytest.mark.parametrize(("chosen", "stored", "expected"), CASES)
def test_a_filter_selects_what_the_api_says(chosen: types.Filter, stored: Memory, *, expected: bool) -> None:
    """Defaults, lists, ranges and conditions together mean what the .proto says."""
    assert expected == selects(chosen, stored)


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (memory(event_time=NOW, create_time=YESTERDAY - DAY), True),
        (memory(event_time=YESTERDAY - DAY, create_time=NOW), False),
        (memory(create_time=NOW), True),
        (memory(create_time=YESTERDAY - DAY), False),
    ],
)
def test_what_happened_is_by_event_time_else_by_create_time(stored: Memory, *, expected: bool) -> None:
    """A memory without an event time is taken by when it was stored."""
    assert expected == selects(types.Filter(), stored, since(-86_400))


def test_an_open_time_range_of_a_search_selects_everything() -> None:
    """Without bounds it is no condition."""
    assert selects(types.Filter(), memory(), types.TimeRange())


def test_expressions_nest() -> None:
    """And, or and not mean what they say."""
    is_a = where(types.FILTER_FIELD_TAG, EQUALS, "a").where
    is_c = where(types.FILTER_FIELD_TAG, EQUALS, "c").where
    not_c = types.FilterExpression(negated=is_c)

    def both(*parts: types.FilterExpression) -> types.Filter:
        return types.Filter(where=types.FilterExpression(all_of=types.FilterGroup(expressions=parts)))

    either = types.FilterExpression(any_of=types.FilterGroup(expressions=[is_c, is_a]))
    assert selects(both(is_a, not_c), FACT)
    assert not selects(both(either, is_c), FACT)
    assert selects(both(either, not_c), FACT)


def test_visibility_goes_beside_the_filter() -> None:
    """It belongs to the reach of a read."""
    selection = selection_of(types.Filter(visibility=types.PROJECT_VISIBILITY_GLOBAL), now=NOW)

    assert Visibility.GLOBAL is selection.visibility


@pytest.mark.parametrize(("nanos", "micros"), [(0, 0), (1, 1), (1000, 1), (1001, 2), (999_999_999, 1_000_000)])
def test_bounds_finer_than_a_microsecond_are_rounded_up(nanos: int, micros: int) -> None:
    """The first microsecond that is not before the bound is taken."""
    bound = types.TimeRange(start=Timestamp(nanos=nanos))
    where = selection_of(types.Filter(create_time=bound, include_not_valid=True), now=NOW).where

    assert isinstance(where, And)
    assert Range(Field.CREATE_TIME, at_least=micros) in where.children


def test_bounds_between_two_microseconds_select_the_later_one() -> None:
    """A time is stored to the microsecond, a bound may be finer."""
    start = time_to_proto(NOW)
    finer = types.TimeRange(start=Timestamp(seconds=start.seconds, nanos=start.nanos + 1))

    assert not selects(types.Filter(create_time=finer), FACT)
