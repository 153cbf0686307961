"""Rank fusion: several ranked lists of memories become one score for each memory.

Data is stored by column, not by memory: a search ranks hundreds of memories, and explains ten.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from memsvc.domain.index_entries import ORDINAL_BITS, VIEW_BITS, Hit
from memsvc.domain.search import Normalization
from memsvc.ports.candidates import Hits, Integers, Numbers

RANK_CONSTANT = 60
"""Damps the weight of the first ranks (Cormack et al., 2009)."""

_ROW_SHIFT = ORDINAL_BITS + VIEW_BITS


@dataclass(frozen=True, slots=True, eq=False)
class RankedList:
    """A ranked list of memories, best first, each with its best entry and its score."""

    rows: Integers
    entries: Integers
    scores: Numbers

    def __len__(self) -> int:
        """Return the number of memories."""
        return len(self.rows)

    def place_of(self, row: int) -> int:
        """Return the position of a memory, counted from 0; -1 if it is not in the list."""
        places = np.flatnonzero(self.rows == row)
        return int(places[0]) if len(places) else -1

    def score_of(self, row: int) -> float:
        """Return the score of a memory; 0 if it is not in the list."""
        place = self.place_of(row)
        return 0.0 if place < 0 else float(self.scores[place])

    def with_scores(self, scores: Numbers) -> RankedList:
        """Return the same memories with other scores."""
        return RankedList(self.rows, self.entries, scores)


@dataclass(frozen=True, slots=True, eq=False)
class ListScores:
    """The normalised scores that a list gives its memories: (score - low) / span."""

    ranking: RankedList
    low: float = 0.0
    span: float = 1.0

    def times_weight(self, weight: float) -> Numbers:
        """Return the scores times *weight*, in the order of the list."""
        numbers: Numbers = weight * ((self.ranking.scores - self.low) / self.span)
        return numbers

    def number(self, row: int) -> float:
        """Return the score of a memory; 0 if it is not in the list."""
        return (self.ranking.score_of(row) - self.low) / self.span if self.ranking.place_of(row) >= 0 else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class FusedScores:
    """The result of a fusion.

    Attributes:
        rows: Every row in a list with a weight, once, ascending.
        totals: The fused score of each row.
        columns: The scores of each list before its weight.
        weights: The factor of each list.
        is_normalized: Whether the scores are normalised scores rather than reciprocal ranks.
    """

    rows: Integers
    totals: Numbers
    columns: dict[str, ListScores]
    weights: dict[str, float]
    is_normalized: bool = True

    def totals_of(self, rows: Integers) -> Numbers:
        """Return the fused scores of some of the rows."""
        return self.totals[np.searchsorted(self.rows, rows)]

    def total_of(self, row: int) -> float:
        """Return the fused score of one of the rows."""
        return float(self.totals[np.searchsorted(self.rows, row)])

    def normalized_score(self, name: str, row: int) -> float:
        """Return the score of a memory in a list before its weight; 0 if the fusion is by rank."""
        return self.columns[name].number(row) if self.is_normalized and name in self.columns else 0.0

    def share(self, name: str, row: int) -> float:
        """Return the part of the total of a memory that one list contributes; all of it if no other list has it."""
        holders = [other for other, column in self.columns.items() if column.ranking.place_of(row) >= 0]
        if name not in holders:
            return 0.0
        return self.total_of(row) if len(holders) == 1 else self.weights[name] * self.columns[name].number(row)

    def scale_by(self, factor: float) -> FusedScores:
        """Return the same with all totals multiplied by *factor*."""
        weights = {name: weight * factor for name, weight in self.weights.items()}
        return replace(self, totals=self.totals * factor, weights=weights)


def best_per_row(hits: Sequence[Hit]) -> RankedList:
    """Return the memories of *hits*, which are best first, in the order of their best entries."""
    columns = Hits.of(hits)
    entries, scores = columns.entries, columns.scores
    rows = entries >> _ROW_SHIFT
    ascending = np.sort(rows)
    if not (ascending[1:] == ascending[:-1]).any():
        return RankedList(rows, entries, scores)
    firsts = np.sort(np.unique(rows, return_index=True)[1])
    return RankedList(rows[firsts], entries[firsts], scores[firsts])


def reciprocal_rank(
    rankings: Mapping[str, RankedList],
    *,
    weights: Mapping[str, float],
    constant: int = RANK_CONSTANT,
    single_retriever_factor: float = 1.0,
) -> FusedScores:
    """Fuse by the sum of weight / (constant + rank), with ranks counted from 1.

    Only ranks count, so lists with incomparable scores can be combined. A list missing from *weights* has weight 1.0;
    lists of weight 0 and empty lists have no effect. The result does not depend on the order of the lists, to the last
    bit. *single_retriever_factor* multiplies the total of a memory that only one list has.
    """
    used = _effective_weights(rankings, weights)
    columns = {name: _reciprocal(rankings[name], constant) for name in used}
    return FusedScores(*_totals(columns, used, single_retriever_factor), columns, used, is_normalized=False)


def weighted_sum(
    rankings: Mapping[str, RankedList],
    *,
    weights: Mapping[str, float],
    normalization: Normalization = Normalization.MIN_MAX,
    single_retriever_factor: float = 1.0,
) -> FusedScores:
    """Fuse by the weighted mean of the scores; a memory that is not in a list has score 0 there.

    MIN_MAX maps the scores of each list to 0..1, and to 1 if they are all equal; totals are then in 0..1. A list
    missing from *weights* has weight 1.0; lists of weight 0 and empty lists have no effect: the mean is over the
    others. The result does not depend on the order of the lists, to the last bit. *single_retriever_factor* multiplies
    the total of a memory that only one list has.
    """
    used = _effective_weights(rankings, weights)
    whole = math.fsum(used.values())
    is_scaled = normalization is Normalization.MIN_MAX
    columns = {name: _min_max(rankings[name]) if is_scaled else ListScores(rankings[name]) for name in used}
    shares = {name: weight / whole for name, weight in used.items()}
    return FusedScores(*_totals(columns, shares, single_retriever_factor), columns, shares)


def _effective_weights(rankings: Mapping[str, RankedList], weights: Mapping[str, float]) -> dict[str, float]:
    """Return the weights of the lists that are not empty and have a weight."""
    return {name: weight for name, ranking in rankings.items() if ranking and (weight := weights.get(name, 1.0))}


def _reciprocal(ranking: RankedList, constant: int) -> ListScores:
    first = constant + 1
    return ListScores(ranking.with_scores(1.0 / np.arange(first, first + len(ranking))))


def _min_max(ranking: RankedList) -> ListScores:
    best, low = float(ranking.scores[0]), float(ranking.scores[-1])
    return (
        ListScores(ranking, low, best - low) if best > low else ListScores(ranking.with_scores(np.ones(len(ranking))))
    )


def _totals(
    columns: Mapping[str, ListScores], weights: Mapping[str, float], single_retriever_factor: float
) -> tuple[Integers, Numbers]:
    """Return the rows of all columns, ascending, and their sums."""
    if not columns:
        return np.empty(0, dtype=np.int64), np.empty(0)
    rows = np.concatenate([column.ranking.rows for column in columns.values()])
    shares = np.concatenate([column.times_weight(weights[name]) for name, column in columns.items()])
    # Sum in ascending order: the last bit depends on the order, which must not be that of the lists.
    order = np.lexsort((shares, rows))
    rows, shares = rows[order], shares[order]
    begins = np.concatenate(([0], np.flatnonzero(rows[1:] != rows[:-1]) + 1))
    totals: Numbers = np.add.reduceat(shares, begins)
    if single_retriever_factor != 1.0:
        totals[np.diff(begins, append=len(rows)) == 1] *= single_retriever_factor
    return rows[begins], totals
