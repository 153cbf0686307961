"""Ranking over a real store: the order, its pages, and what the store no longer shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from memsvc.domain.index_entries import Hit, View, entry_id
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.search import Fusion, FusionMethod, Normalization, Retriever, SearchQuery
from memsvc.domain.write_requests import WriteOptions
from memsvc.engine.search.ranking import RankedCandidates, Ranker
from memsvc.engine.search.retrieval import RetrievalResult
from memsvc.engine.search.scoring import BoostConstants
from tests.unit.engine.memories.write_path import ADA, Desk, open_desk

AS_THEY_ARE = Fusion(FusionMethod.WEIGHTED, normalization=Normalization.NONE)
"""A fusion that leaves the scores of a single list alone."""


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with open_desk(tmp_path) as opened:
        yield opened


def remembered(desk: Desk, count: int) -> list[int]:
    """Store some memories and return their rows."""
    return [desk.create(f"Line {number} of the story.").memory.row for number in range(count)]


def hits(rows: Sequence[int], scores: Sequence[float], ordinal: int = 0) -> list[Hit]:
    """Return hits that find these memories by one of their chunks."""
    return [Hit(entry_id(row, View.CHUNK, ordinal), score) for row, score in zip(rows, scores, strict=True)]


def ranked(desk: Desk, found: RetrievalResult, min_score: float = 0.0) -> RankedCandidates:
    """Rank for Ada."""
    query = SearchQuery(scope=ADA, text="story", fusion=AS_THEY_ARE, min_score=min_score)
    ranker = Ranker(desk.store.memories, BoostConstants())
    return ranker.rank(query, found, reach=Reach.from_scope(ADA), now=desk.clock())


def by_words(rows: Sequence[int], scores: Sequence[float]) -> RetrievalResult:
    """Return what a search by words alone found."""
    return RetrievalResult(frozenset({Retriever.BM25}), bm25=hits(rows, scores))


@pytest.mark.parametrize("scores", [[0.9, 0.8, 0.5, 0.5, 0.5, 0.5, 0.5, 0.2, 0.2], [0.5] * 9])
def test_pages_are_parts_of_one_order(desk: Desk, scores: list[float]) -> None:
    """Wherever a page begins and ends, it holds what the whole order has there: equal scores by memory id."""
    rows = remembered(desk, len(scores))

    found = ranked(desk, by_words(rows[::-1], scores))

    whole = found.page(0, len(found))
    assert sorted(place.row for place in whole) == rows
    assert sorted(whole, key=lambda place: (-place.score, place.memory_id)) == whole
    for start in range(len(whole) + 2):
        for stop in range(start, len(whole) + 2):
            assert found.page(start, stop) == whole[start:stop]


def test_nothing_found_has_no_pages(desk: Desk) -> None:
    """A search without candidates is empty, whatever page is asked for."""
    found = ranked(desk, by_words([], []))

    assert (len(found), found.page(0, 10)) == (0, [])


def test_what_the_store_does_not_show_is_left_out(desk: Desk) -> None:
    """Memories that are deleted, another user's, or unknown to the store have no place, though an index finds them."""
    shown, deleted = (desk.create(text).memory for text in ("It stays.", "It goes."))
    foreign = desk.create("Not yours.", Scope("bo", project_id="apollo")).memory
    desk.writing.revise.delete(ADA, deleted.id, hard=False, expected_revision=0, options=WriteOptions())

    found = ranked(desk, by_words([deleted.row, foreign.row, 999, shown.row], [0.9, 0.8, 0.7, 0.6]))

    assert [(place.memory_id, place.score) for place in found.page(0, 10)] == [(shown.id, 0.6)]
    assert not found.is_cut


def test_scores_below_the_least_are_cut_off(desk: Desk) -> None:
    """Only those at or above min_score count, and that others did not is told."""
    rows = remembered(desk, 4)

    found = ranked(desk, by_words(rows, [0.9, 0.5, 0.4, 0.3]), min_score=0.5)

    assert [place.row for place in found.page(0, 10)] == rows[:2]
    assert (len(found), found.is_cut) == (2, True)


def test_the_chunk_that_words_found_is_shown(desk: Desk) -> None:
    """Where meaning and words found different chunks of a memory, the one with the words is its best entry."""
    both, meaning = remembered(desk, 2)
    found = RetrievalResult(
        frozenset({Retriever.DENSE, Retriever.BM25}),
        dense={View.CHUNK: hits([meaning, both], [0.9, 0.8], ordinal=1)},
        bm25=hits([both], [5.0], ordinal=2),
    )

    entries = {place.row: place.entry_id for place in ranked(desk, found).page(0, 10)}

    assert entries == {both: entry_id(both, View.CHUNK, 2), meaning: entry_id(meaning, View.CHUNK, 1)}
