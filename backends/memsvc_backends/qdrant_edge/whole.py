"""Ranges of whole numbers, exactly, although Qdrant reads bounds as doubles and may compare as doubles, too.

A double holds every whole number below 2^53: the microseconds of the years 1684 to 2255. A bound beyond is moved into
the range as far as the next double from which on comparing is sure, and the few numbers in between, at most 64 up to
the year 9999, are named one by one, since Qdrant matches whole numbers as such. That is right whether the engine
compares with an index, as whole numbers, or with the payload, as doubles. So points hold nothing for it, and a search
with bounds in the years above, as nearly all have, is asked with these alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from memsvc.domain.clock import to_micros
from memsvc.domain.filters import Range

_EXACT = 2**53
"""Each whole number nearer to 0 than this is a double, and no other is rounded to it."""
FIRST, LAST = to_micros(datetime.min.replace(tzinfo=UTC)), to_micros(datetime.max.replace(tzinfo=UTC))
"""No number that is stored lies outside: of all whole numbers, the times reach farthest."""


class Part(NamedTuple):
    """A test: a number passes that lies within all *bounds*, by the names of Qdrant's, or is one of *others*.

    Without bounds, none but the *others* pass; without these too, every number does.
    """

    bounds: dict[str, float]
    others: Sequence[int] = ()


def parts_of(where: Range) -> list[Part]:
    """Return tests that exactly those numbers pass all of which lie in the range; no tests: it holds none."""
    named = (("gt", where.above), ("gte", where.at_least), ("lt", where.below), ("lte", where.at_most))
    near = {name: bound for name, bound in named if bound is not None}
    if all(type(bound) is int and -_EXACT < bound < _EXACT for bound in near.values()):
        return [Part(near)]
    return _of_any(where.at_least, where.above, where.at_most, where.below)


def _of_any(*given: float | None) -> list[Part]:
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


def _parts(low: int | None, high: int | None) -> list[Part]:
    """Return the tests of the numbers from *low* to *high*, where these are given."""
    if (low is not None and low > LAST) or (high is not None and high < FIRST):
        return []
    if low is not None and high is not None:
        if low > high:
            return []
        if low == high and abs(low) >= _EXACT:
            return [Part({}, (low,))]
    ends = [] if low is None else [_from(low)]
    ends += [] if high is None else [_up_to(high)]
    plain = {name: bound for end in ends if not end.others for name, bound in end.bounds.items()}
    far = [end for end in ends if end.others]
    return far if far and not plain else [Part(plain), *far]


def _from(low: int) -> Part:
    if abs(low) < _EXACT or low <= FIRST:
        return Part({"gte": float(low)})
    edge = float(low - 1)
    if edge < low - 1:
        edge = math.nextafter(edge, math.inf)
    # What is rounded to more than the edge is more, and what is as much as the next double is rounded to no less.
    return Part({"gt": edge}, range(low, int(math.nextafter(edge, math.inf))))


def _up_to(high: int) -> Part:
    if abs(high) < _EXACT or high >= LAST:
        return Part({"lte": float(high)})
    edge = float(high + 1)
    if edge > high + 1:
        edge = math.nextafter(edge, -math.inf)
    return Part({"lt": edge}, range(int(math.nextafter(edge, -math.inf)) + 1, high + 1))
