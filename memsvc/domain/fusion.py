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
        normalized: By list, then row: the score as it went into the sum, before its weight.
        shares: By list, then row: how much of the total, before any factor, comes from that list.
    """

    totals: Column
    normalized: dict[str, Column]
    shares: dict[str, Column]


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
    normalized = {
        name: {ranked.row: 1.0 / rank for rank, ranked in enumerate(rankings[name], start=constant + 1)}
        for name in used
    }
    return _sum(normalized, used, single_retriever_factor)


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
    normalized = {name: scaled(rankings[name]) for name in used}
    return _sum(normalized, {name: weight / whole for name, weight in used.items()}, single_retriever_factor)


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


def _sum(normalized: dict[str, Column], weights: Mapping[str, float], single_retriever_factor: float) -> Fused:
    shares = {
        name: {row: weights[name] * score for row, score in column.items()} for name, column in normalized.items()
    }
    parts: dict[int, list[float]] = {}
    for column in shares.values():
        for row, share in column.items():
            if row in parts:
                parts[row].append(share)
            else:
                parts[row] = [share]
    # fsum, because the last bit of a plain sum depends on the order of the lists.
    totals = {
        row: math.fsum(added) if len(added) > 1 else added[0] * single_retriever_factor for row, added in parts.items()
    }
    return Fused(totals, normalized, shares)
