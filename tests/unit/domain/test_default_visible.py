"""Plain memories: what a filter's conditions are known to say of them, they say."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings

from memsvc.domain.filter_evaluation import matches
from memsvc.domain.filters import And, AnyOf, Field, Filter, Not, Range
from memsvc.domain.index_entries import attributes_of
from memsvc.domain.visibility import is_default_visible, split_default_visible
from memsvc.testing.factories import NOW, memory
from memsvc.v1 import filters_pb2 as filters_pb
from tests.differential.test_vectors import attributes, filters
from tests.support.selections import selection_of

HELD = [attributes(row, Random(row)) for row in range(600)]
PLAIN = [one for one in HELD if is_default_visible(one)]


def default() -> Filter:
    """Return what a search tests that asks for nothing."""
    where = selection_of(filters_pb.Filter(), now=NOW).where
    assert where is not None
    return where


@settings(max_examples=300, deadline=None)
@given(where=filters())
def test_what_plain_memories_meet_they_all_meet(where: Filter) -> None:
    """And together the two parts say what the whole says, of any memory."""
    of_plain, others = split_default_visible(where)

    assert all(matches(one, plain) for one in of_plain for plain in PLAIN)
    assert all(matches(And((*of_plain, *others)), one) == matches(where, one) for one in HELD)


def test_there_are_both() -> None:
    """Else nothing would be shown here."""
    assert 10 < len(PLAIN) < len(HELD) - 10
    assert is_default_visible(attributes_of(memory("tea")))
    assert not is_default_visible(attributes_of(memory("tea", expire_time=NOW)))


def test_a_search_that_asks_for_nothing_looks_at_one_number() -> None:
    """Every condition that holds without asking is one that plain memories meet."""
    assert split_default_visible(default())[1] == []


def test_what_is_asked_for_is_tested_of_all() -> None:
    """A condition that plain memories may not meet stands beside the others."""
    tag, range_ = AnyOf(Field.TAGS, ("tea",)), Range(Field.IMPORTANCE, at_least=3)
    of_plain, others = split_default_visible(And((default(), tag, Not(AnyOf(Field.TIER, ("ARCHIVED",))), range_)))

    assert others == [tag, range_]
    assert len(of_plain) > 3
