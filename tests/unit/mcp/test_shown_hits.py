"""The hits of a search that the tool recall shows."""

from __future__ import annotations

import pytest

from memsvc.mcp.read_tools import worth_showing
from memsvc.v1 import search_service_pb2 as search_pb


def _found(relevances: list[float | None], *, nothing_relevant: bool = False) -> search_pb.SearchResponse:
    return search_pb.SearchResponse(
        hits=[search_pb.Hit(relevance=relevance) for relevance in relevances], nothing_relevant=nothing_relevant
    )


@pytest.mark.parametrize(
    ("relevances", "nothing_relevant", "shown"),
    [
        ([0.9, 0.01, 0.0, 0.01, 0.4, 0.02, 0.019], False, [0.9, 0.01, 0.0, 0.4, 0.02]),
        ([0.05, 0.09, 0.01, 0.09], True, [0.05, 0.09, 0.01]),
        ([0.01], True, [0.01]),
        ([None, None, None, None, None], False, [None] * 5),
        ([0.5, 0.5, 0.5, None], False, [0.5, 0.5, 0.5, None]),
        ([], True, []),
    ],
)
def test_the_first_hits_are_shown_and_others_if_they_may_be_relevant(
    relevances: list[float | None], *, nothing_relevant: bool, shown: list[float | None]
) -> None:
    """An unknown relevance leaves nothing out."""
    found = worth_showing(_found(relevances, nothing_relevant=nothing_relevant))

    assert [hit.relevance if hit.HasField("relevance") else None for hit in found] == shown
