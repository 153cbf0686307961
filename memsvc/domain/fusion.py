"""Rank fusion: many ranked lists of memories in, one score for each memory out.

Results are kept by column, as mappings from row to number: a search ranks hundreds of memories and explains ten.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeAlias

from memsvc.domain.entries import ORDINAL_BITS, VIEW_BITS, Hit
from memsvc.domain.query import Normalization

RANK_CONSTANT = 60
"""Damps the weight of the very first ranks (Cormack et al., 2009)."""

_PAIR = 2
_ROW_SHIFT = ORDINAL_BITS + VIEW_BITS


class Ranked(NamedTuple):
    """A memory as one list ranks it: by its best entry."""

    row: int
    entry_id: int
    score: float


_RANKED: Callable[[Iterable[float]], Ranked] = partial(tuple.__new__, Ranked)
"""Makes a place of a tuple, several times as fast as its class."""

Column: TypeAlias = dict[int, float]
"""A number for each row."""


@dataclass(frozen=True, slots=True)
class Fused:
    """What fusion made of the lists.

    Attributes:
        totals: The fused score of every row that a list of some weight holds, in no order that matters.
        columns: By list, then row: the number that the list gives a memory, before its weight.
        weights: By list: what its numbers are multiplied by before they are added.
        is_normalized: Whether the numbers are scores, rather than made of ranks.
    """

    totals: Column
    columns: dict[str, Column]
    weights: dict[str, float]
    is_normalized: bool = True

    def normalized(self, name: str, row: int) -> float:
        """Return a memory's score in a list as it went into the sum, before its weight; 0 when only ranks count."""
        return self.columns.get(name, {}).get(row, 0.0) if self.is_normalized else 0.0

    def share(self, name: str, row: int) -> float:
        """Return how much of a memory's total comes from a list: all of it when no other list holds the memory."""
        holders = [other for other, column in self.columns.items() if row in column]
        if name not in holders:
            return 0.0
        return self.totals[row] if len(holders) == 1 else self.weights[name] * self.columns[name][row]

    def scaled(self, factor: float) -> Fused:
        """Return the same with all totals multiplied."""
        totals = {row: total * factor for row, total in self.totals.items()}
        weights = {name: weight * factor for name, weight in self.weights.items()}
        return Fused(totals, self.columns, weights, self.is_normalized)


def best_per_row(hits: Sequence[Hit]) -> list[Ranked]:
    """Return the memories of *hits*, which are best first, in order of their best entries."""
    rows = [hit[0] >> _ROW_SHIFT for hit in hits]
    if len(set(rows)) == len(rows):
        return list(map(_RANKED, zip(rows, *zip(*hits, strict=True), strict=True))) if rows else []
    best: dict[int, Ranked] = {}
    for hit in hits:
        row = hit.entry_id >> _ROW_SHIFT  # `row_of`, in place: this is the hottest loop of a search
        if row not in best:
            best[row] = Ranked(row, hit.entry_id, hit.score)
    return list(best.values())


def reciprocal_rank(
    rankings: Mapping[str, Sequence[Ranked]],
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
    columns = {
        name: {ranked.row: 1.0 / rank for rank, ranked in enumerate(rankings[name], start=constant + 1)}
        for name in used
    }
    return Fused(_totals(columns, used, single_retriever_factor), columns, used, is_normalized=False)


def weighted_sum(
    rankings: Mapping[str, Sequence[Ranked]],
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
    scaled = _min_max if normalization is Normalization.MIN_MAX else _unchanged
    columns = {name: scaled(rankings[name]) for name in used}
    shares = {name: weight / whole for name, weight in used.items()}
    return Fused(_totals(columns, shares, single_retriever_factor), columns, shares)


def _used(rankings: Mapping[str, Sequence[Ranked]], weights: Mapping[str, float]) -> dict[str, float]:
    """Return the weights of the lists that have a say."""
    return {name: weight for name, ranking in rankings.items() if ranking and (weight := weights.get(name, 1.0))}


def _min_max(ranking: Sequence[Ranked]) -> Column:
    scores = [ranked.score for ranked in ranking]
    low = min(scores)
    span = max(scores) - low
    if not span:
        return dict.fromkeys((ranked.row for ranked in ranking), 1.0)
    return {row: (score - low) / span for row, _, score in ranking}


def _unchanged(ranking: Sequence[Ranked]) -> Column:
    return {row: score for row, _, score in ranking}


def _totals(columns: dict[str, Column], weights: Mapping[str, float], single_retriever_factor: float) -> Column:
    if len(columns) <= _PAIR and single_retriever_factor == 1.0:
        return _pair_totals([(column, weights[name]) for name, column in columns.items()])
    parts: dict[int, list[float]] = {}
    for name, column in columns.items():
        weight = weights[name]
        for row, score in column.items():
            if row in parts:
                parts[row].append(weight * score)
            else:
                parts[row] = [weight * score]
    # fsum, because the last bit of a plain sum depends on the order of the lists.
    return {
        row: math.fsum(added) if len(added) > 1 else added[0] * single_retriever_factor for row, added in parts.items()
    }


def _pair_totals(columns: Sequence[tuple[Column, float]]) -> Column:
    """Add up two lists or fewer: the order of two numbers does not matter to their sum."""
    totals: Column = {}
    for column, weight in columns:
        if not totals:
            totals = {row: weight * score for row, score in column.items()}
            continue
        get = totals.get
        totals |= {row: get(row, 0.0) + weight * score for row, score in column.items()}
    return totals
