"""Ranking over a real store: the order, its pages, and what the store no longer shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.index_entries import Hit, View, entry_id
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.search import Fusion, FusionMethod, Normalization, Retriever, SearchQuery
from memsvc.domain.write_requests import WriteOptions
from memsvc.engine.search.late_interaction import DIMENSION, LateInteraction, pack_signs
from memsvc.engine.search.ranking import RankedCandidates, Ranker
from memsvc.engine.search.retrieval import RetrievalResult
from memsvc.engine.search.scoring import RECIPES, RecipeVersion
from memsvc.ports.change_feed import PassageTokens
from memsvc.ports.models import QueryTokens
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
    ranker = Ranker(desk.store.memories, RECIPES[RecipeVersion.V2026_11])
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


# Late interaction.


MODEL = "test/tokens"
TOKENS = np.eye(3, DIMENSION, dtype=np.float32)
"""Three tokens of length 1."""


def store_tokens(desk: Desk, row: int, tokens: bytes, model: str = MODEL) -> None:
    """Store the tokens of a memory."""
    desk.store.tokens.replace(model, [row], [PassageTokens(entry_id(row, View.CHUNK, 0), bytes(16), tokens)])


def signs(*tokens: int) -> bytes:
    """Return the signs of tokens that are as near as can be to those of these numbers."""
    return pack_signs(np.where(TOKENS[list(tokens)] > 0, 1.0, -1.0).astype(np.float32)).tobytes()


def compared(desk: Desk, rows: Sequence[int], *, model: str = MODEL, **request: Any) -> RankedCandidates:
    """Rank for Ada what a search by meaning and words found in this order, for a query of the first token."""
    found = RetrievalResult(
        frozenset({Retriever.BM25, Retriever.DENSE}),
        dense={View.CHUNK: hits(rows, [0.5] * len(rows))},
        bm25=hits(rows, [1.0 - 0.1 * place for place in range(len(rows))]),
        query_tokens=QueryTokens(TOKENS[:1], np.ones(1)),
        token_model=model,
    )
    ranker = Ranker(
        desk.store.memories, RECIPES[RecipeVersion.V2026_11], LateInteraction(desk.store.tokens), min_relevance=0.1
    )
    query = SearchQuery(scope=ADA, text="story", **request)
    return ranker.rank(query, found, reach=Reach.from_scope(ADA), now=desk.clock())


def boosts(found: RankedCandidates, row: int) -> dict[str, float]:
    """Return what was added to the score of a memory."""
    [place] = [place for place in found.page(0, len(found)) if place.row == row]
    return dict(found.explain(place).boosts)


def test_tokens_decide_between_hits_of_the_lists(desk: Desk) -> None:
    """The memory whose tokens are nearest to the query's moves up; without tokens the fused score takes their place."""
    first, second, bare = remembered(desk, 3)
    store_tokens(desk, first, signs(1))
    store_tokens(desk, second, signs(0, 1))

    found = compared(desk, [first, second, bare])

    assert found.compared_tokens
    assert found.page(0, 1)[0].row == second
    assert boosts(found, second)["late_interaction"] == pytest.approx(1.0)
    assert "late_interaction_estimate" in boosts(found, bare)
    relevances = {place.row: place.relevance for place in found.page(0, 3)}
    assert relevances[bare] is None
    assert (relevances[second] or 0.0) > (relevances[first] or 1.0)


@pytest.mark.parametrize("tokens", [b"", b"half a token"])
def test_missing_and_damaged_tokens_are_not_compared(
    desk: Desk, tokens: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """They have no score instead of the worst; damage is in the log."""
    first, second = remembered(desk, 2)
    store_tokens(desk, first, tokens)
    store_tokens(desk, second, signs(0))

    found = compared(desk, [first, second])

    assert "late_interaction" not in boosts(found, first)
    assert ("damaged" in caplog.text) == bool(tokens)


def test_tokens_of_another_model_are_not_compared(desk: Desk) -> None:
    """Their similarities mean nothing."""
    [row] = remembered(desk, 1)
    store_tokens(desk, row, signs(0), "another/tokens")

    found = compared(desk, [row])

    assert not found.compared_tokens
    assert found.page(0, 1)[0].relevance is None
    assert not found.nothing_relevant


def test_irrelevant_memories_are_cut_on_request(desk: Desk) -> None:
    """Those whose relevance is not known stay; that nothing is relevant is said only if all are known."""
    far, near, bare = remembered(desk, 3)
    store_tokens(desk, far, signs(1))
    store_tokens(desk, near, signs(0))

    found = compared(desk, [far, near, bare], min_relevance=0.9)

    assert [place.row for place in found.page(0, 3)] == [bare]
    assert found.is_cut
    assert not found.nothing_relevant
    assert len(compared(desk, [far, near])) == 2
    assert compared(desk, [far, near]).nothing_relevant
    assert compared(desk, [far, near], min_relevance=0.9).nothing_relevant
    assert not compared(desk, [far, near], min_relevance=1e-9).nothing_relevant


def test_a_store_that_fails_leaves_the_stage_out(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The search is ranked by the lists alone, and the log says why."""
    [row] = remembered(desk, 1)
    store_tokens(desk, row, signs(0))

    def fail(*_: object) -> None:
        raise BackendUnavailableError("metadata", problem="is away")

    monkeypatch.setattr(type(desk.store.tokens), "tokens", fail)

    found = compared(desk, [row])

    assert found.page(0, 1)[0].row == row
    assert not found.compared_tokens
    assert "is away" in caplog.text
