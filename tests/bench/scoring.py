"""How good a ranking is, without any model as a judge."""

from __future__ import annotations

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import astuple, dataclass, fields

DEPTH = 20
_NDCG_DEPTH = 10


@dataclass(frozen=True, slots=True)
class Scores:
    """The measures of one question, or their means over several."""

    recall_at_5: float
    recall_at_10: float
    recall_at_20: float
    hit_at_1: float
    hit_at_5: float
    mrr: float
    ndcg_at_10: float

    @classmethod
    def of(cls, found: Sequence[str], evidence: AbstractSet[str]) -> Scores:
        """Score one ranked list, each id once; evidence that is not in it counts as not found.

        The gain of nDCG is 1 for evidence; the ideal list begins with all of it.
        """
        ranks = [rank for rank, one in enumerate(found, start=1) if one in evidence]
        gains = math.fsum(1.0 / math.log2(rank + 1) for rank in ranks if rank <= _NDCG_DEPTH)
        ideal = math.fsum(1.0 / math.log2(rank + 1) for rank in range(1, min(len(evidence), _NDCG_DEPTH) + 1))
        at_5, at_10, at_20 = (sum(rank <= depth for rank in ranks) / len(evidence) for depth in (5, 10, DEPTH))
        return cls(
            recall_at_5=at_5,
            recall_at_10=at_10,
            recall_at_20=at_20,
            hit_at_1=float(bool(ranks) and ranks[0] == 1),
            hit_at_5=float(bool(ranks) and ranks[0] <= 5),
            mrr=1.0 / ranks[0] if ranks else 0.0,
            ndcg_at_10=gains / ideal,
        )

    @classmethod
    def mean(cls, several: Sequence[Scores]) -> Scores:
        """Return the mean of each measure."""
        columns = zip(*map(astuple, several), strict=True)
        return cls(*(math.fsum(column) / len(several) for column in columns))

    def named(self) -> dict[str, float]:
        """Return the measures by their names as they are printed."""
        return {one.name.replace("_at_", "@").replace("mrr", "MRR"): getattr(self, one.name) for one in fields(self)}
