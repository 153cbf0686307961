"""Measures of a ranking and of the confidence in its first hit, without any model as a judge."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
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
        """Return the measures by their names as they are printed, in the order of the columns."""
        return {_printed(one.name): getattr(self, one.name) for one in fields(self)}


@dataclass(frozen=True, slots=True)
class SessionScores:
    """Whether the first five sessions of the hits have all, or any, of the sessions with evidence (strict and lenient).

    This is what results of LongMemEval call recall_all@5 and recall_any@5.
    """

    all_at_5: float
    any_at_5: float

    @classmethod
    def of(cls, found: Sequence[str], evidence: AbstractSet[str]) -> SessionScores:
        """Score the sessions of the hits, in their order."""
        first = set(list(dict.fromkeys(found))[:5])
        return cls(float(evidence <= first), float(not evidence.isdisjoint(first)))

    @classmethod
    def mean(cls, several: Sequence[SessionScores]) -> SessionScores:
        """Return the means."""
        return cls(*(math.fsum(column) / len(several) for column in zip(*map(astuple, several), strict=True)))

    def named(self) -> dict[str, float]:
        """Return the measures by their names as they are printed."""
        return {"all sessions@5": self.all_at_5, "any session@5": self.any_at_5}


def _printed(name: str) -> str:
    measure, _, depth = name.partition("_at_")
    printed = {"recall": "R", "mrr": "MRR", "ndcg": "nDCG"}.get(measure, measure)
    return f"{printed}@{depth}" if depth else printed


def threshold_that_keeps(share: float, values: Sequence[float]) -> float:
    """Return the largest threshold that at least *share* of the values reach.

    Raises:
        ValueError: There is no value, or the share is not above 0 and at most 1.
    """
    if not values or not 0 < share <= 1:
        message = f"A threshold needs values and a share above 0 and at most 1, not {len(values)} and {share}."
        raise ValueError(message)
    # Products such as 0.95 * 20 may be a trifle above the whole number that they stand for.
    kept = math.ceil(share * len(values) - 1e-9)
    return sorted(values, reverse=True)[kept - 1]


def share_below(threshold: float, values: Sequence[float]) -> float:
    """Return the share of the values that are less than the threshold; there must be one."""
    return sum(value < threshold for value in values) / len(values)


def calibration_error(predictions: Iterable[tuple[float, bool]], *, bins: int = 10) -> float:
    """Return the expected calibration error: the mean distance of confidence and accuracy.

    Args:
        predictions: The confidence, from 0 to 1, and whether the prediction was right; there must be one.
        bins: The number of bins of equal width. A bin counts by its number of predictions; a confidence on the border
            of two bins is in the upper one, and 1 is in the last one.
    """
    filled: dict[int, list[tuple[float, bool]]] = {}
    for confidence, is_right in predictions:
        filled.setdefault(min(int(confidence * bins), bins - 1), []).append((confidence, is_right))
    distances = (
        abs(math.fsum(confidence for confidence, _ in one) - sum(is_right for _, is_right in one))
        for one in filled.values()
    )
    return math.fsum(distances) / sum(map(len, filled.values()))
