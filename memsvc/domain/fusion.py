"""Rank fusion: many ranked lists of memories in, one score for each memory out.

All is kept by column, and not by memory: a search ranks hundreds of memories, and shows and explains ten.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from memsvc.domain.entries import ORDINAL_BITS, VIEW_BITS, Hit
from memsvc.domain.query import Normalization

RANK_CONSTANT = 60
"""Damps the weight of the very first ranks (Cormack et al., 2009)."""

_PAIR = 2
_ROW_SHIFT = ORDINAL_BITS + VIEW_BITS


@dataclass(frozen=True, slots=True)
class RankedList:
    """What one list holds, best first: memories, each by its best entry and with its score."""

    rows: Sequence[int]
    entries: Sequence[int]
    scores: Sequence[float]

    def __len__(self) -> int:
        """Return how many memories the list holds."""
        return len(self.rows)

    def score_of(self, row: int) -> float:
        """Return a memory's score; 0 when the list does not hold it."""
        return self.scores[self.rows.index(row)] if row in self.rows else 0.0

    def with_scores(self, scores: Sequence[float]) -> RankedList:
        """Return the same memories with other scores."""
        return RankedList(self.rows, self.entries, scores)


@dataclass(frozen=True, slots=True)
class Column:
    """The numbers that a list gives its memories, (score - low) / span: worked out for the few that are explained."""

    ranking: RankedList
    low: float = 0.0
    span: float = 1.0

    def weighted(self, weight: float) -> Iterable[tuple[int, float]]:
        """Return the rows, and their numbers times *weight*."""
        low, span = self.low, self.span
        return zip(self.ranking.rows, [weight * ((score - low) / span) for score in self.ranking.scores], strict=True)

    def number(self, row: int) -> float:
        """Return a memory's number; 0 when the list does not hold it."""
        return (self.ranking.score_of(row) - self.low) / self.span if row in self.ranking.rows else 0.0


@dataclass(frozen=True, slots=True)
class Fused:
    """What fusion made of the lists.

    Attributes:
        totals: The fused score of every row that a list of some weight holds, in no order that matters.
        columns: By list: the numbers that it gives its memories, before its weight.
        weights: By list: what its numbers are multiplied by before they are added.
        is_normalized: Whether the numbers are scores, rather than made of ranks.
    """

    totals: dict[int, float]
    columns: dict[str, Column]
    weights: dict[str, float]
    is_normalized: bool = True

    def normalized(self, name: str, row: int) -> float:
        """Return a memory's score in a list as it went into the sum, before its weight; 0 when only ranks count."""
        return self.columns[name].number(row) if self.is_normalized and name in self.columns else 0.0

    def share(self, name: str, row: int) -> float:
        """Return how much of a memory's total comes from a list: all of it when no other list holds the memory."""
        holders = [other for other, column in self.columns.items() if row in column.ranking.rows]
        if name not in holders:
            return 0.0
        return self.totals[row] if len(holders) == 1 else self.weights[name] * self.columns[name].number(row)

    def scaled(self, factor: float) -> Fused:
        """Return the same with all totals multiplied."""
        totals = {row: total * factor for row, total in self.totals.items()}
        weights = {name: weight * factor for name, weight in self.weights.items()}
        return replace(self, totals=totals, weights=weights)


def best_per_row(hits: Sequence[Hit]) -> RankedList:
    """Return the memories of *hits*, which are best first, in order of their best entries."""
    entries = [hit[0] for hit in hits]
    scores = [hit[1] for hit in hits]
    rows = [entry >> _ROW_SHIFT for entry in entries]  # `row_of`, in place: searches do this hundreds of times
    if len(set(rows)) == len(rows):
        return RankedList(rows, entries, scores)
    firsts: dict[int, int] = {}
    for place, row in enumerate(rows):
        firsts.setdefault(row, place)
    places = firsts.values()
    return RankedList([*firsts], [entries[place] for place in places], [scores[place] for place in places])


def reciprocal_rank(
    rankings: Mapping[str, RankedList],
    *,
    weights: Mapping[str, float],
    constant: int = RANK_CONSTANT,
    single_retriever_factor: float = 1.0,
) -> Fused:
    """Fuse by the sum of weight / (constant + rank), ranks counted from 1.

    Only ranks matter, so lists with incomparable scores may be mixed. A list that is missing from *weights* counts
    1.0, one of weight 0 and an empty one change nothing. The order of the lists changes nothing, to the last bit.
    *single_retriever_factor* multiplies the total of a memory that only one list holds.
    """
    used = _used(rankings, weights)
    columns = {name: _reciprocal(rankings[name], constant) for name in used}
    return Fused(_totals(columns, used, single_retriever_factor), columns, used, is_normalized=False)


def weighted_sum(
    rankings: Mapping[str, RankedList],
    *,
    weights: Mapping[str, float],
    normalization: Normalization = Normalization.MIN_MAX,
    single_retriever_factor: float = 1.0,
) -> Fused:
    """Fuse by the weighted mean of the scores; a memory that a list does not hold has 0 there.

    MIN_MAX maps each list's own scores to 0..1, and to 1 when they are all equal; totals are then in 0..1.
    A list that is missing from *weights* counts 1.0, one of weight 0 and an empty one change nothing: the mean is
    taken over the others. The order of the lists changes nothing, to the last bit. *single_retriever_factor*
    multiplies the total of a memory that only one list holds.
    """
    used = _used(rankings, weights)
    whole = math.fsum(used.values())
    is_scaled = normalization is Normalization.MIN_MAX
    columns = {name: _min_max(rankings[name]) if is_scaled else Column(rankings[name]) for name in used}
    shares = {name: weight / whole for name, weight in used.items()}
    return Fused(_totals(columns, shares, single_retriever_factor), columns, shares)


def _used(rankings: Mapping[str, RankedList], weights: Mapping[str, float]) -> dict[str, float]:
    """Return the weights of the lists that have a say."""
    return {name: weight for name, ranking in rankings.items() if ranking and (weight := weights.get(name, 1.0))}


def _reciprocal(ranking: RankedList, constant: int) -> Column:
    first = constant + 1
    return Column(ranking.with_scores([1.0 / rank for rank in range(first, first + len(ranking))]))


def _min_max(ranking: RankedList) -> Column:
    best, low = ranking.scores[0], ranking.scores[-1]
    return Column(ranking, low, best - low) if best > low else Column(ranking.with_scores([1.0] * len(ranking)))


def _totals(
    columns: Mapping[str, Column], weights: Mapping[str, float], single_retriever_factor: float
) -> dict[int, float]:
    if len(columns) <= _PAIR and single_retriever_factor == 1.0:
        return _pair_totals([(column, weights[name]) for name, column in columns.items()])
    parts: dict[int, list[float]] = {}
    for name, column in columns.items():
        for row, share in column.weighted(weights[name]):
            if row in parts:
                parts[row].append(share)
            else:
                parts[row] = [share]
    # fsum, because the last bit of a plain sum depends on the order of the lists.
    return {
        row: math.fsum(added) if len(added) > 1 else added[0] * single_retriever_factor for row, added in parts.items()
    }


def _pair_totals(columns: Sequence[tuple[Column, float]]) -> dict[int, float]:
    """Add up two lists or fewer: the order of two numbers does not matter to their sum."""
    totals: dict[int, float] = {}
    for column, weight in columns:
        shares = column.weighted(weight)
        if not totals:
            totals = dict(shares)
            continue
        for row, share in shares:
            if row in totals:
                totals[row] += share
            else:
                totals[row] = share
    return totals
