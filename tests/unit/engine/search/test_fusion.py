"""Fusion: properties that hold for any lists, and the numbers of the simple cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsvc.domain.index_entries import Hit, View, entry_id
from memsvc.domain.search import Normalization
from memsvc.engine.search.scoring import FusedScores, RankedList, best_per_row, reciprocal_rank, weighted_sum

WEIGHTS = {"dense": 0.7, "bm25": 0.3, "table": 0.1}
Fuse = Callable[[dict[str, RankedList]], FusedScores]
FUSIONS: dict[str, Fuse] = {
    "reciprocal rank": lambda rankings: reciprocal_rank(rankings, weights=WEIGHTS),
    "min-max": lambda rankings: weighted_sum(rankings, weights=WEIGHTS),
    "raw": lambda rankings: weighted_sum(rankings, weights=WEIGHTS, normalization=Normalization.NONE),
    "factor": lambda rankings: weighted_sum(rankings, weights=WEIGHTS, single_retriever_factor=0.7),
}


@st.composite
def _rankings(draw: st.DrawFn) -> dict[str, RankedList]:
    lists = {}
    for name in WEIGHTS:
        rows = draw(st.lists(st.integers(1, 12), unique=True, max_size=8))
        scores = draw(st.lists(st.floats(0.001, 50), min_size=len(rows), max_size=len(rows)))
        lists[name] = _listed(rows, sorted(scores, reverse=True))
    return lists


def _listed(rows: Sequence[int], scores: Sequence[float]) -> RankedList:
    entries = [entry_id(row, View.CHUNK, 0) for row in rows]
    return RankedList(np.array(rows, np.int64), np.array(entries, np.int64), np.array(scores, np.float64))


def _totals(fused: FusedScores) -> dict[int, float]:
    return dict(zip(fused.rows.tolist(), fused.totals.tolist(), strict=True))


def _all(fused: FusedScores) -> tuple[dict[int, float], dict[str, list[tuple[float, float]]]]:
    """Return everything that can be told of what was fused."""
    told = {
        name: [(fused.normalized_score(name, row), fused.share(name, row)) for row in range(14)]
        for name in fused.columns
    }
    return _totals(fused), told


def _ranking(*scores: float) -> RankedList:
    return _listed(range(1, len(scores) + 1), scores)


@pytest.mark.parametrize("name", FUSIONS)
@given(rankings=_rankings())
def test_the_order_of_the_lists_changes_no_bit(name: str, rankings: dict[str, RankedList]) -> None:
    """A permutation of the retrievers does not change the result."""
    backwards = dict(reversed(rankings.items()))

    assert _all(FUSIONS[name](backwards)) == _all(FUSIONS[name](rankings))


@pytest.mark.parametrize("name", FUSIONS)
@given(rankings=_rankings())
def test_an_empty_list_changes_nothing(name: str, rankings: dict[str, RankedList]) -> None:
    """Adding a retriever that found nothing changes nothing."""
    assert _all(FUSIONS[name]({**rankings, "more": _ranking()})) == _all(FUSIONS[name](rankings))


@given(rankings=_rankings())
def test_a_list_without_weight_changes_nothing(rankings: dict[str, RankedList]) -> None:
    """A retriever of weight 0 neither scores nor brings candidates."""
    weights = {**WEIGHTS, "more": 0.0}
    more = {**rankings, "more": _ranking(9.0, 8.0)}

    assert _all(weighted_sum(more, weights=weights)) == _all(weighted_sum(rankings, weights=weights))


@pytest.mark.parametrize("name", FUSIONS)
@given(rankings=_rankings())
def test_first_in_every_list_is_first(name: str, rankings: dict[str, RankedList]) -> None:
    """A memory that every retriever ranks first, with the highest score, has the highest total."""
    best = {
        each: _listed([99, *ranking.rows.tolist()], [60.0, *ranking.scores.tolist()])
        for each, ranking in rankings.items()
    }

    totals = _totals(FUSIONS[name](best))

    assert totals[99] == max(totals.values())


@given(rankings=_rankings())
def test_min_max_totals_are_between_0_and_1(rankings: dict[str, RankedList]) -> None:
    """The weighted mean of numbers in 0..1 is in 0..1."""
    totals = _totals(weighted_sum(rankings, weights=WEIGHTS))

    assert all(0.0 <= total <= 1.0 + 1e-12 for total in totals.values())


@pytest.mark.parametrize("name", ["reciprocal rank", "min-max", "raw"])
@given(rankings=_rankings())
def test_shares_add_up_to_the_total(name: str, rankings: dict[str, RankedList]) -> None:
    """What the lists contribute is the total, for every memory that any of them holds."""
    fused = FUSIONS[name](rankings)

    totals = _totals(fused)
    sums = {row: sum(fused.share(name, row) for name in fused.columns) for row in totals}
    assert totals == pytest.approx(sums)
    assert set(totals) == {row for ranking in rankings.values() for row in ranking.rows.tolist()}


def test_reciprocal_rank_adds_weight_over_constant_and_rank() -> None:
    """Ranks count from 1; a list without a weight counts 1."""
    fused = reciprocal_rank({"dense": _ranking(0.9, 0.8), "other": _ranking(3.0)}, weights={"dense": 0.5}, constant=60)

    assert _totals(fused) == pytest.approx({1: 0.5 / 61 + 1 / 61, 2: 0.5 / 62})
    assert [fused.columns["dense"].number(row) for row in (1, 2, 3)] == pytest.approx([1 / 61, 1 / 62, 0.0])


def test_weighted_sum_is_the_mean_of_min_max_scores() -> None:
    """The best of a list has 1, the last 0, a memory that is not in it 0."""
    fused = weighted_sum({"dense": _ranking(0.9, 0.5, 0.1), "bm25": _ranking(7.0, 3.0)}, weights={"bm25": 3.0})

    assert _totals(fused) == pytest.approx({1: 1.0, 2: 0.125, 3: 0.0})
    assert [fused.normalized_score("dense", row) for row in (1, 2, 3)] == pytest.approx([1.0, 0.5, 0.0])
    assert [fused.share("bm25", row) for row in (1, 2)] == pytest.approx([0.75, 0.0])


@pytest.mark.parametrize("scores", [(0.3,), (0.3, 0.3, 0.3)])
def test_equal_scores_are_all_the_best(scores: tuple[float, ...]) -> None:
    """A list of one, or of equals, is not divided by zero: all of it has 1."""
    assert set(weighted_sum({"dense": _ranking(*scores)}, weights={}).totals.tolist()) == {1.0}


def test_the_factor_meets_memories_of_one_list_only() -> None:
    """It multiplies their score in that list, whatever its weight is; two retrievers that agree need no discount."""
    rankings = {"dense": _ranking(0.9, 0.8), "bm25": _ranking(5.0)}
    weights = {"dense": 0.6, "bm25": 0.4}

    fused = weighted_sum(
        rankings, weights=weights, normalization=Normalization.NONE, absent_weight=1.0, single_retriever_factor=0.7
    )

    assert _totals(fused) == pytest.approx({1: (0.6 * 0.9 + 0.4 * 5.0) / 2, 2: 0.7 * 0.8})
    assert fused.share("dense", 2) == pytest.approx(0.7 * 0.8)


def test_nothing_fuses_to_nothing() -> None:
    """No lists, empty lists, or no weight at all give no memories."""
    assert _totals(weighted_sum({}, weights={})) == {}
    assert _totals(reciprocal_rank({"dense": _ranking()}, weights={})) == {}
    assert _totals(weighted_sum({"dense": _ranking(1.0)}, weights={"dense": 0.0})) == {}


def test_a_memory_is_ranked_by_its_best_entry() -> None:
    """Entries of one memory become one place, where the first of them stood."""
    hits = [
        Hit(entry_id(7, View.CHUNK, 3), 0.9),
        Hit(entry_id(5, View.CHUNK, 0), 0.8),
        Hit(entry_id(7, View.CHUNK, 0), 0.7),
    ]

    best = best_per_row(hits)

    assert best.rows.tolist() == [7, 5]
    assert best.entries.tolist() == [entry_id(7, View.CHUNK, 3), entry_id(5, View.CHUNK, 0)]
    assert best.scores.tolist() == [0.9, 0.8]
