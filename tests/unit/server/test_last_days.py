"""The last days of a filter, where there are not so many."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from memsvc.domain.filter_evaluation import matches
from memsvc.domain.history import AsOf
from memsvc.domain.index_entries import attributes_of
from memsvc.domain.memory import Memory
from memsvc.testing.factories import NOW, memory
from memsvc.v1 import filters_pb2 as filters_pb
from tests.support.selections import selection_of

FIRST = datetime.min.replace(tzinfo=UTC)
LATER = datetime(99, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("moment", [FIRST, LATER])
def test_last_days_may_reach_behind_the_first_day(moment: datetime) -> None:
    """Then they begin with the year 1; those of an event end with the moment that is asked about, as ever."""

    def selects(field: filters_pb.TimeField.ValueType, stored: Memory) -> bool:
        chosen = filters_pb.Filter(last_days=36_500, last_days_field=field)
        selection = selection_of(chosen, now=NOW, as_of=AsOf(known_time=moment))
        return matches(selection.where, attributes_of(stored))

    assert selects(filters_pb.TIME_FIELD_CREATE_TIME, memory(create_time=FIRST))
    assert selects(filters_pb.TIME_FIELD_EVENT_TIME, memory(event_time=FIRST))
    assert not selects(filters_pb.TIME_FIELD_EVENT_TIME, memory(event_time=moment + timedelta(days=1)))
    assert not selects(filters_pb.TIME_FIELD_EVENT_TIME, memory())


def test_last_days_are_exact() -> None:
    """They begin so many times 24 hours before now, to the microsecond."""
    chosen = filters_pb.Filter(last_days=36_500)
    first = NOW - timedelta(days=36_500)

    where = selection_of(chosen, now=NOW).where

    assert matches(where, attributes_of(memory(create_time=first)))
    assert not matches(where, attributes_of(memory(create_time=first - timedelta(microseconds=1))))
