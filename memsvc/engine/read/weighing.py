"""Letting time, importance, use and layer weigh in, without a score leaving 0..1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from memsvc.domain.fusion import Column
from memsvc.domain.query import Candidate, Weighting
from memsvc.domain.scoring import Scored, layer_boost, time_factor

TIME_WEIGHTING = "time_weighting"
LAYER = "layer"
CEILING = "ceiling"
LEAST = 1e-6
"""Scores that would be 0 or less are brought between 0 and this: however little two memories fit, one fits better."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """Final scores by row, and the factors that led to them.

    Attributes:
        ceiling: What brought all scores back to 0..1, where a factor lifted the best above 1.
    """

    scores: Column
    times: Column = field(default_factory=dict)
    layers: Column = field(default_factory=dict)
    ceiling: float = 1.0

    def factors_of(self, row: int) -> tuple[tuple[str, float], ...]:
        """Return what the score of *row* was multiplied by, in order; factors of 1 are left out."""
        factors = (
            (TIME_WEIGHTING, self.times.get(row, 1.0)),
            (LAYER, self.layers.get(row, 1.0)),
            (CEILING, self.ceiling),
        )
        return tuple((name, factor) for name, factor in factors if factor != 1.0)


def above_zero(fused: Mapping[int, float], scored: Scored) -> Column:
    """Return the scores with those at 0 spread over what lies below `LEAST`, in the order of their sums."""
    return {
        row: score if score > LEAST else LEAST * (1.0 + max(-1.0, _sum(row, fused, scored))) / (1.0 + LEAST)
        for row, score in scored.scores.items()
    }


def _sum(row: int, fused: Mapping[int, float], scored: Scored) -> float:
    added = sum(column.get(row, 0.0) for column in scored.boosts.values())
    return (fused[row] + added) * scored.scale


def weighed(scores: Column, candidates: Mapping[int, Candidate], weighting: Weighting | None, now: datetime) -> Weighed:
    """Return the final scores. When one lies above 1, all are brought back by one factor: the order stays."""
    if weighting is None:
        is_within = max(scores.values(), default=0.0) <= 1.0
        return Weighed(scores if is_within else {row: min(1.0, score) for row, score in scores.items()})
    layers = {row: layer_boost(candidates[row].layer, weighting) for row in scores}
    factors = {row: time_factor(candidates[row], now, weighting) for row in scores}
    lifted = {row: score * factors[row] for row, score in scores.items()}
    ceiling = 1.0 / max(1.0, *lifted.values()) if lifted else 1.0
    return Weighed(
        {row: min(1.0, score * ceiling) for row, score in lifted.items()},
        {row: factor / layers[row] for row, factor in factors.items()},
        layers,
        ceiling,
    )
