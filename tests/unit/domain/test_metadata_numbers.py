"""Ranges of numbers in metadata: the terms that an index holds say the same as a comparison of the numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsvc.domain.filter_evaluation import memory_test
from memsvc.domain.filters import (
    MAX_METADATA_NUMBERS,
    Field,
    Range,
    metadata_numbers,
    metadata_term,
    metadata_terms,
    number_bits,
    number_spans,
    number_terms,
    number_test,
)
from memsvc.domain.memory import Json
from memsvc.testing import factories

EDGES = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.1,
    5e-324,
    -5e-324,
    1.7976931348623157e308,
    -1.7976931348623157e308,
    2.0**53,
    16.0,
    255.0,
)
numbers = st.sampled_from(EDGES) | st.integers(-300, 300).map(float) | st.floats(allow_nan=False, allow_infinity=False)
bounds = st.none() | numbers | st.sampled_from((math.inf, -math.inf))
ranges = st.builds(
    Range, st.just(Field.METADATA), above=bounds, at_least=bounds, below=bounds, at_most=bounds, path=st.just("n")
)


def is_inside(test: Range, number: float) -> bool:
    """Return what the bounds mean."""
    return (
        (test.above is None or number > test.above)
        and (test.at_least is None or number >= test.at_least)
        and (test.below is None or number < test.below)
        and (test.at_most is None or number <= test.at_most)
    )


@settings(max_examples=2_000, deadline=None)
@given(test=ranges, number=numbers)
def test_terms_and_spans_mean_the_comparison(test: Range, number: float) -> None:
    """For every number and every pair of bounds, at the ends of the range too."""
    expected = is_inside(test, number)
    sign, bits = number_bits(number)

    assert bool(set(number_test(test).values) & set(number_terms({"n": number}))) == expected
    assert any(span.sign == sign and span.low <= bits <= span.high for span in number_spans(test)) == expected
    assert memory_test(test)(factories.memory(metadata={"n": number})) == expected


@settings(max_examples=500, deadline=None)
@given(number=numbers)
def test_neighbours_are_told_apart(number: float) -> None:
    """A bound includes or excludes the very number, and not the double next to it."""
    above, below = math.nextafter(number, math.inf), math.nextafter(number, -math.inf)
    held = set(number_terms({"n": number}))

    def found(**given_: float) -> bool:
        return bool(held & set(number_test(Range(Field.METADATA, path="n", **given_)).values))

    assert found(at_least=number, at_most=number)
    assert not found(above=number)
    assert not found(below=number)
    assert not math.isfinite(above) or not found(at_least=above)
    assert not math.isfinite(below) or not found(at_most=below)


@given(test=ranges)
def test_a_range_is_few_terms(test: Range) -> None:
    """However wide it is."""
    assert len(number_test(test).values) <= 2 * 480


def test_usual_numbers_and_ranges_are_very_few_terms() -> None:
    """Whole numbers have few digits that are not 0."""
    assert len(number_terms({"n": 3})) == len(number_terms({"n": -3})) == 5
    assert len(number_test(Range(Field.METADATA, path="n", at_least=3)).values) < 50


@pytest.mark.parametrize("value", ["3", True, None, {"m": 3}, [], ["3", False]])
def test_only_numbers_are_compared(value: Json) -> None:
    """Texts that look like numbers, truth values, null and the inner of objects are none."""
    everything = Range(Field.METADATA, path="n")

    assert not set(number_test(everything).values) & set(number_terms({"n": value}))
    assert not memory_test(everything)(factories.memory(metadata={"n": value}))


@pytest.mark.parametrize(
    "metadata",
    [{"n>+4008": 1}, {"n=3": 1}, {"n": "3>+4008."}, {"n>": {"+40": 1}}, {"n>+": 3}, {"n=3>+4": True}],
    ids=str,
)
def test_no_name_or_value_is_taken_for_a_number(metadata: dict[str, Any]) -> None:
    """Terms of equality and terms of numbers are never the same."""
    terms = {*metadata_terms(metadata)}

    assert not terms & set(number_terms({"n": 3}))
    assert not terms & set(number_test(Range(Field.METADATA, path="n", at_least=3)).values)
    assert not memory_test(Range(Field.METADATA, path="n"))(factories.memory(metadata=metadata))


def test_a_member_without_a_name_is_part_of_the_path() -> None:
    """What is within it is not found at the path of a member with a name."""
    metadata: dict[str, Json] = {"": {"n": 3, "": "x"}}

    assert metadata_terms(metadata) == (metadata_term(".", "x"), metadata_term(".n", 3))
    assert metadata_numbers(metadata) == [(".n", 3.0)]
    assert not memory_test(Range(Field.METADATA, path="n"))(factories.memory(metadata=metadata))
    assert memory_test(Range(Field.METADATA, path=".n"))(factories.memory(metadata=metadata))


def test_numbers_are_few_and_finite() -> None:
    """Beyond a number of them the first ones by path and value count; what is too large for a double is left out."""
    many: dict[str, Json] = {"m": list(range(MAX_METADATA_NUMBERS + 5)), "z": 1}

    found = metadata_numbers(many)

    assert found == [("m", float(number)) for number in range(MAX_METADATA_NUMBERS)]
    assert metadata_numbers({"n": [10**400, -(10**400), 2**53 + 1]}) == [("n", 2.0**53)]
