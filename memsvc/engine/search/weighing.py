"""Letting time, importance, use and layer weigh in, without a score leaving 0..1."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

import numpy as np

from memsvc.domain.search import Weighting
from memsvc.engine.search.scoring import Column, Scored, layer_boosts, time_factors
from memsvc.ports.candidates import Candidates

TIME_WEIGHTING = "time_weighting"
LAYER = "layer"
CEILING = "ceiling"
LEAST = 1e-6
"""Scores that would be 0 or less are brought between 0 and this: however little two memories fit, one fits better."""


def _nothing() -> Column:
    return np.empty(0)


@dataclass(frozen=True, slots=True, eq=False)
class WeightedScores:
    """Final scores of the candidates, and the factors that led to them.

    Attributes:
        times: Empty when time and layer play no part, and so is *layers*.
        ceiling: What brought all scores back to 0..1, where a factor lifted the best above 1.
    """

    scores: Column
    times: Column = field(default_factory=_nothing)
    layers: Column = field(default_factory=_nothing)
    ceiling: float = 1.0

    def factors_of(self, place: int) -> tuple[tuple[str, float], ...]:
        """Return what a candidate's score was multiplied by, in order; factors of 1 are left out."""
        factors = (
            (TIME_WEIGHTING, float(self.times[place]) if len(self.times) else 1.0),
            (LAYER, float(self.layers[place]) if len(self.layers) else 1.0),
            (CEILING, self.ceiling),
        )
        return tuple((name, factor) for name, factor in factors if factor != 1.0)


def above_zero(fused: Column, scored: Scored) -> Column:
    """Return the scores with those at 0 spread over what lies below `LEAST`, in the order of their sums."""
    is_low = scored.scores <= LEAST
    if not is_low.any():
        return scored.scores
    sums = fused[is_low]
    for column in scored.boosts.values():
        sums = sums + column[is_low]
    scores = scored.scores.copy()
    scores[is_low] = LEAST * (1.0 + np.maximum(-1.0, sums * scored.scale)) / (1.0 + LEAST)
    return scores


def weighed(scores: Column, candidates: Candidates, weighting: Weighting | None, now: datetime) -> WeightedScores:
    """Return the final scores. When one lies above 1, all are brought back by one factor: the order stays."""
    if weighting is None:
        return WeightedScores(np.minimum(1.0, scores))
    layers = layer_boosts(candidates, weighting)
    factors = time_factors(candidates, now, weighting)
    lifted = scores * factors
    ceiling = 1.0 / float(lifted.max(initial=1.0))
    return WeightedScores(np.minimum(1.0, lifted * ceiling), factors / layers, layers, ceiling)
