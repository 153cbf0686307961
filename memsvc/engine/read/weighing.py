"""Letting time, importance, use and layer weigh in, without a score leaving 0..1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from memsvc.domain.query import Candidate, Weighting
from memsvc.domain.scoring import Column, Scored, layer_boost, time_factor

TIME_WEIGHTING = "time_weighting"
LAYER = "layer"
CEILING = "ceiling"
LEAST = 1e-6
"""Scores that would be 0 or less are brought between 0 and this: however little two memories fit, one fits better."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """Final scores of the candidates, and the factors that led to them.

    Attributes:
        times: Empty when time and layer play no part, and so is *layers*.
        ceiling: What brought all scores back to 0..1, where a factor lifted the best above 1.
    """

    scores: Column
    times: Column = field(default_factory=list)
    layers: Column = field(default_factory=list)
    ceiling: float = 1.0

    def factors_of(self, place: int) -> tuple[tuple[str, float], ...]:
        """Return what a candidate's score was multiplied by, in order; factors of 1 are left out."""
        factors = (
            (TIME_WEIGHTING, self.times[place] if self.times else 1.0),
            (LAYER, self.layers[place] if self.layers else 1.0),
            (CEILING, self.ceiling),
        )
        return tuple((name, factor) for name, factor in factors if factor != 1.0)


def above_zero(fused: Sequence[float], scored: Scored) -> Column:
    """Return the scores with those at 0 spread over what lies below `LEAST`, in the order of their sums."""
    scores = scored.scores.copy()
    for place in [place for place, score in enumerate(scores) if score <= LEAST]:
        added = sum(column[place] for column in scored.boosts.values())
        scores[place] = LEAST * (1.0 + max(-1.0, (fused[place] + added) * scored.scale)) / (1.0 + LEAST)
    return scores


def weighed(scores: Column, candidates: Sequence[Candidate], weighting: Weighting | None, now: datetime) -> Weighed:
    """Return the final scores. When one lies above 1, all are brought back by one factor: the order stays."""
    if weighting is None:
        is_within = max(scores, default=0.0) <= 1.0
        return Weighed(scores if is_within else [min(1.0, score) for score in scores])
    layers = [layer_boost(one.layer, weighting) for one in candidates]
    factors = [time_factor(one, now, weighting) for one in candidates]
    lifted = [score * factor for score, factor in zip(scores, factors, strict=True)]
    ceiling = 1.0 / max(1.0, *lifted) if lifted else 1.0
    return Weighed(
        [min(1.0, score * ceiling) for score in lifted],
        [factor / layer for factor, layer in zip(factors, layers, strict=True)],
        layers,
        ceiling,
    )
