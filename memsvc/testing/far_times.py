"""Filters on times far from ours, in an index: exact to the microsecond there, too."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memsvc.domain.clock import to_micros
from memsvc.domain.filters import And, AnyOf, Field, Filter, Not, Range
from memsvc.domain.index_entries import Attributes
from memsvc.testing import factories
from memsvc.testing.derived_index import E, FullIndex, IndexSeams, M

FIELDS = (Field.CREATE_TIME, Field.UPDATE_TIME, Field.EVENT_TIME, Field.EXPIRE_TIME, Field.VALID_FROM, Field.VALID_TO)
LAST = to_micros(datetime.max.replace(tzinfo=UTC))
FIRST = to_micros(datetime.min.replace(tzinfo=UTC))
PLACES = {
    "first": FIRST + 2,
    "before-the-double": -(2**53),
    "after-the-double": 2**53,
    "2300": to_micros(datetime(2300, 1, 1, tzinfo=UTC)),
    "power-of-two": 2**57,
    "last": LAST - 2,
}
"""Where each number that is a double lies between some that are none, or is about to; see `PLACES` +- 2."""


class FarTimesContract(IndexSeams[E, M]):
    """Ranges and equality among neighbours of one microsecond."""

    @pytest.mark.parametrize("field", FIELDS, ids=str)
    @pytest.mark.parametrize("place", PLACES)
    def test_far_times_are_told_apart(self, live: FullIndex[E, M], field: Field, place: str) -> None:
        """Of times one microsecond apart, in any year, each bound and each equality takes the right ones."""
        times = {row: PLACES[place] + row - 3 for row in range(1, 6)}
        live.replace(self.changes(*(_at(row, field, time) for row, time in times.items())))

        for row, time in times.items():
            found = [self.rows(live, where=where) for where in _tests(field, time)]
            below, above = list(range(1, row)), list(range(row + 1, 6))
            assert found == [[row], below + above, below, [*below, row], above, [row, *above], [row], []]

    def test_every_time_lies_between_the_limits(self, live: FullIndex[E, M]) -> None:
        """Bounds at the first and the last moment, and beyond them, leave all in or all out."""
        times = {1: FIRST, 2: 0, 3: LAST}
        live.replace(self.changes(*(_at(row, Field.EVENT_TIME, time) for row, time in times.items())))

        def found(**bounds: float) -> list[int]:
            return self.rows(live, where=Range(Field.EVENT_TIME, **bounds))

        assert found(at_least=FIRST) == found(at_most=LAST) == found(above=FIRST - 1) == found(below=LAST + 1)
        assert found(at_least=FIRST, at_most=LAST) == [1, 2, 3]
        assert found(above=FIRST, below=LAST) == [2]
        assert found(below=FIRST) == found(above=LAST) == found(at_most=FIRST - 1) == found(at_least=LAST + 1) == []

    def test_far_range_spans_what_lies_between(self, live: FullIndex[E, M]) -> None:
        """Two bounds far apart, each between two doubles, take what lies between them, and nothing beside it."""
        day = timedelta(days=1) // timedelta(microseconds=1)
        low, high = PLACES["2300"] + 1, PLACES["last"] - day
        held = (low - 1, low, low + 1, low + day, high - day, high - 1, high, high + 1)
        live.replace(self.changes(*(_at(row, Field.VALID_TO, time) for row, time in enumerate(held))))

        assert self.rows(live, where=Range(Field.VALID_TO, at_least=low, at_most=high)) == [1, 2, 3, 4, 5, 6]
        assert self.rows(live, where=Range(Field.VALID_TO, above=low, below=high)) == [2, 3, 4, 5]


def _at(row: int, field: Field, time: int) -> Attributes:
    values: dict[str, Any] = {field.value: time}
    return factories.attributes(row)._replace(**values)


def _tests(field: Field, time: int) -> list[Filter]:
    equal = AnyOf(field, (time,))
    return [
        equal,
        And((Range(field, at_least=FIRST), Not(equal))),
        Range(field, below=time),
        Range(field, at_most=time),
        Range(field, above=time),
        Range(field, at_least=time),
        Range(field, at_least=time, at_most=time),
        Range(field, above=time, below=time + 1),
    ]
