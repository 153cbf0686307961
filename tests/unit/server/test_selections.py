"""Filters: what they select, by the plain meaning of the filter tree."""

from __future__ import annotations

from datetime import timedelta

import pytest
from google.protobuf.struct_pb2 import Value
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.domain.filter_evaluation import memory_test
from memsvc.domain.filters import And, Field, Range
from memsvc.domain.memory import Kind, Layer, Memory, Status, Tier
from memsvc.domain.scope import Visibility
from memsvc.server.responses.memories import time_to_proto
from memsvc.testing.factories import NOW, memory
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.selections import selection_of

DAY = timedelta(days=1)
YESTERDAY, TOMORROW = NOW - DAY, NOW + DAY


def selects(chosen: filters_pb.Filter, stored: Memory, happened: types_pb.TimeRange | None = None) -> bool:
    """Return whether a filter selects a memory."""
    selection = selection_of(chosen, now=NOW, time_range=happened)
    return memory_test(selection.where)(stored)


def since(seconds_from_now: float) -> types_pb.TimeRange:
    """Return the open range that begins so many seconds from now."""
    return types_pb.TimeRange(start=time_to_proto(NOW + timedelta(seconds=seconds_from_now)))


def where(
    field: filters_pb.FilterField.ValueType,
    operator: filters_pb.FilterOperator.ValueType,
    *values: object,
    path: str = "",
) -> filters_pb.Filter:
    """Return a filter of one condition, without the defaults that get in its way."""
    wire = [
        Value(bool_value=value)
        if isinstance(value, bool)
        else Value(string_value=value)
        if isinstance(value, str)
        else Value(number_value=value)  # type: ignore[arg-type] # a number
        for value in values
    ]
    condition = filters_pb.FilterCondition(field=field, operator=operator, values=wire, metadata_path=path)
    return filters_pb.Filter(where=filters_pb.FilterExpression(condition=condition))


EQUALS, NOT_EQUALS, IN = (
    filters_pb.FILTER_OPERATOR_EQUALS,
    filters_pb.FILTER_OPERATOR_NOT_EQUALS,
    filters_pb.FILTER_OPERATOR_IN,
)
LESS, LESS_OR_EQUAL = filters_pb.FILTER_OPERATOR_LESS, filters_pb.FILTER_OPERATOR_LESS_OR_EQUAL
GREATER, GREATER_OR_EQUAL = filters_pb.FILTER_OPERATOR_GREATER, filters_pb.FILTER_OPERATOR_GREATER_OR_EQUAL
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
    (filters_pb.Filter(), FACT, True),
    (filters_pb.Filter(), memory(status=Status.ARCHIVED), False),
    (filters_pb.Filter(statuses=[types_pb.MEMORY_STATUS_ARCHIVED]), memory(status=Status.ARCHIVED), True),
    (filters_pb.Filter(statuses=[types_pb.MEMORY_STATUS_ARCHIVED]), FACT, False),
    (filters_pb.Filter(), memory(tier=Tier.ARCHIVED), False),
    (filters_pb.Filter(tiers=[types_pb.MEMORY_TIER_ARCHIVED]), memory(tier=Tier.ARCHIVED), True),
    (filters_pb.Filter(), memory(expire_time=NOW), False),
    (filters_pb.Filter(), memory(expire_time=TOMORROW), True),
    (filters_pb.Filter(include_expired=True), memory(expire_time=YESTERDAY), True),
    (
        filters_pb.Filter(statuses=[types_pb.MEMORY_STATUS_EXPIRED]),
        memory(status=Status.EXPIRED, expire_time=YESTERDAY),
        True,
    ),
    (where(filters_pb.FILTER_FIELD_STATUS, EQUALS, "ARCHIVED"), memory(status=Status.ARCHIVED), True),
    (where(filters_pb.FILTER_FIELD_STATUS, NOT_EQUALS, "ACTIVE"), memory(status=Status.EXPIRED, expire_time=NOW), True),
    (where(filters_pb.FILTER_FIELD_STATUS, NOT_EQUALS, "DELETED"), memory(expire_time=YESTERDAY), False),
    (where(filters_pb.FILTER_FIELD_TIER, EQUALS, "ARCHIVED"), memory(tier=Tier.ARCHIVED), True),
    (where(filters_pb.FILTER_FIELD_TIER, EQUALS, "ARCHIVED"), memory(tier=Tier.ARCHIVED, status=Status.DELETED), False),
    (filters_pb.Filter(layers=[types_pb.MEMORY_LAYER_CORE]), FACT, True),
    (filters_pb.Filter(kinds=[types_pb.MEMORY_KIND_TASK]), FACT, False),
    (filters_pb.Filter(categories=[""]), FACT, True),
    (filters_pb.Filter(tags_any=["b", "c"]), FACT, True),
    (filters_pb.Filter(tags_all=["b", "c"]), FACT, False),
    (filters_pb.Filter(tags_all=["b", "a"]), FACT, True),
    (filters_pb.Filter(speakers=["anna"]), FACT, False),
    (filters_pb.Filter(ids=[FACT.id.upper()]), FACT, True),
    (filters_pb.Filter(ids=[memory().id]), FACT, False),
    (filters_pb.Filter(create_time=since(0)), FACT, True),
    (filters_pb.Filter(create_time=types_pb.TimeRange(end=time_to_proto(NOW))), FACT, False),
    (filters_pb.Filter(create_time=since(0.000001)), FACT, False),
    (filters_pb.Filter(event_time=types_pb.TimeRange()), FACT, True),
    (filters_pb.Filter(event_time=types_pb.TimeRange()), memory(), False),
    (filters_pb.Filter(access_time=types_pb.TimeRange()), memory(), False),
    (filters_pb.Filter(last_days=1), memory(create_time=YESTERDAY), True),
    (filters_pb.Filter(last_days=1), memory(create_time=YESTERDAY - DAY), False),
    (
        filters_pb.Filter(last_days=1, last_days_field=filters_pb.TIME_FIELD_EVENT_TIME),
        memory(event_time=TOMORROW),
        False,
    ),
    (filters_pb.Filter(last_days=1, last_days_field=filters_pb.TIME_FIELD_EVENT_TIME), FACT, True),
    (filters_pb.Filter(min_importance=3, max_importance=3), FACT, True),
    (filters_pb.Filter(min_importance=4), FACT, False),
    (filters_pb.Filter(min_confidence=0.5, max_confidence=0.5), FACT, True),
    (filters_pb.Filter(max_confidence=0.0), FACT, False),
    (
        filters_pb.Filter(metadata=[filters_pb.MetadataEquals(path="ticket.size", value=Value(number_value=1.0))]),
        FACT,
        True,
    ),
    (
        filters_pb.Filter(metadata=[filters_pb.MetadataEquals(path="ticket.size", value=Value(bool_value=True))]),
        FACT,
        False,
    ),
    (where(filters_pb.FILTER_FIELD_TAG, EQUALS, "a"), FACT, True),
    (where(filters_pb.FILTER_FIELD_TAG, NOT_EQUALS, "a"), FACT, False),
    (where(filters_pb.FILTER_FIELD_KIND, IN, "TASK", "FACT"), FACT, True),
    (where(filters_pb.FILTER_FIELD_IMPORTANCE, LESS, 3), FACT, False),
    (where(filters_pb.FILTER_FIELD_IMPORTANCE, LESS, 3.5), FACT, True),
    (where(filters_pb.FILTER_FIELD_IMPORTANCE, LESS_OR_EQUAL, 3), FACT, True),
    (where(filters_pb.FILTER_FIELD_IMPORTANCE, GREATER, 2.5), FACT, True),
    (where(filters_pb.FILTER_FIELD_IMPORTANCE, GREATER, 3), FACT, False),
    (where(filters_pb.FILTER_FIELD_IMPORTANCE, GREATER_OR_EQUAL, 3.5), FACT, False),
    (where(filters_pb.FILTER_FIELD_IMPORTANCE, LESS, 1e300), FACT, True),
    (where(filters_pb.FILTER_FIELD_IMPORTANCE, EQUALS, 3), FACT, True),
    (where(filters_pb.FILTER_FIELD_IMPORTANCE, EQUALS, 3.5), FACT, False),
    (where(filters_pb.FILTER_FIELD_IMPORTANCE, NOT_EQUALS, 3.5), FACT, True),
    (where(filters_pb.FILTER_FIELD_IMPORTANCE, IN, 1, 3), FACT, True),
    (where(filters_pb.FILTER_FIELD_CONFIDENCE, GREATER, 0.5), FACT, False),
    (where(filters_pb.FILTER_FIELD_EVENT_TIME, EQUALS, "2026-02-06T10:30:00+01:00"), FACT, True),
    (where(filters_pb.FILTER_FIELD_EVENT_TIME, LESS, "2026-02-06T09:30:00Z"), FACT, False),
    (where(filters_pb.FILTER_FIELD_EVENT_TIME, NOT_EQUALS, "2026-02-06T09:30:00Z"), memory(), True),
    (where(filters_pb.FILTER_FIELD_METADATA, IN, "open", "shut", path="ticket.state"), FACT, True),
    (
        filters_pb.Filter(metadata=[filters_pb.MetadataEquals(path="ticket.done", value=Value(bool_value=False))]),
        FACT,
        True,
    ),
    (where(filters_pb.FILTER_FIELD_METADATA, NOT_EQUALS, "open", path="missing"), FACT, True),
]


@pytest.mark.parametrize(("chosen", "stored", "expected"), CASES)
def test_a_filter_selects_what_the_api_says(chosen: filters_pb.Filter, stored: Memory, *, expected: bool) -> None:
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
    assert expected == selects(filters_pb.Filter(), stored, since(-86_400))


def test_an_open_time_range_of_a_search_selects_everything() -> None:
    """Without bounds it is no condition."""
    assert selects(filters_pb.Filter(), memory(), types_pb.TimeRange())


def test_expressions_nest() -> None:
    """And, or and not mean what they say."""
    is_a = where(filters_pb.FILTER_FIELD_TAG, EQUALS, "a").where
    is_c = where(filters_pb.FILTER_FIELD_TAG, EQUALS, "c").where
    not_c = filters_pb.FilterExpression(negated=is_c)

    def both(*parts: filters_pb.FilterExpression) -> filters_pb.Filter:
        return filters_pb.Filter(where=filters_pb.FilterExpression(all_of=filters_pb.FilterGroup(expressions=parts)))

    either = filters_pb.FilterExpression(any_of=filters_pb.FilterGroup(expressions=[is_c, is_a]))
    assert selects(both(is_a, not_c), FACT)
    assert not selects(both(either, is_c), FACT)
    assert selects(both(either, not_c), FACT)


def test_visibility_goes_beside_the_filter() -> None:
    """It belongs to the reach of a read."""
    selection = selection_of(filters_pb.Filter(project_visibility=filters_pb.PROJECT_VISIBILITY_GLOBAL), now=NOW)

    assert Visibility.GLOBAL is selection.visibility


@pytest.mark.parametrize(("nanos", "micros"), [(0, 0), (1, 1), (1000, 1), (1001, 2), (999_999_999, 1_000_000)])
def test_bounds_finer_than_a_microsecond_are_rounded_up(nanos: int, micros: int) -> None:
    """The first microsecond that is not before the bound is taken."""
    bound = types_pb.TimeRange(start=Timestamp(nanos=nanos))
    where = selection_of(filters_pb.Filter(create_time=bound, include_not_valid=True), now=NOW).where

    assert isinstance(where, And)
    assert Range(Field.CREATE_TIME, at_least=micros) in where.children


def test_bounds_between_two_microseconds_select_the_later_one() -> None:
    """A time is stored to the microsecond, a bound may be finer."""
    start = time_to_proto(NOW)
    finer = types_pb.TimeRange(start=Timestamp(seconds=start.seconds, nanos=start.nanos + 1))

    assert not selects(filters_pb.Filter(create_time=finer), FACT)


def test_requests_without_a_filter_share_their_conditions_for_a_while() -> None:
    """They are those of a moment at most 50 ms ahead, so nothing is shown after its time."""
    moment = NOW + timedelta(milliseconds=10)
    expired = memory(expire_time=moment)

    shared = selection_of(filters_pb.Filter(), now=moment).where

    assert shared is selection_of(filters_pb.Filter(), now=moment + timedelta(milliseconds=40)).where
    assert shared is not selection_of(filters_pb.Filter(), now=moment + timedelta(milliseconds=41)).where
    assert shared is not None
    assert not memory_test(shared)(expired)
    assert memory_test(shared)(memory(expire_time=moment + timedelta(milliseconds=41)))
