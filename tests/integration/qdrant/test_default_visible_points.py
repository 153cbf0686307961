"""Of plain memories one number is looked at, in place of every condition that they are known to meet."""

from __future__ import annotations

from memsvc.domain.filters import And, AnyOf, Field, Range
from memsvc.domain.scope import Reach
from memsvc.testing.factories import NOW
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc_backends.qdrant_common.points import filter_of
from tests.support.selections import selection_of


def test_what_is_asked_for_stands_beside_the_one_number() -> None:
    """Owner, project, either plain or all that holds without asking, and what was asked for."""
    where = selection_of(filters_pb.Filter(), now=NOW).where
    assert where is not None
    asked = And((where, AnyOf(Field.TAGS, ("tea",)), Range(Field.IMPORTANCE, at_least=3)))

    must = filter_of(Reach("ada", ("",)), None, asked)["must"]

    assert isinstance(must, list)
    assert [next(iter(condition)) for condition in must] == ["key", "key", "should", "key", "key"]
