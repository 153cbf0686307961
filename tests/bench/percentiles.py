"""Durations, and what is said of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Sample:
    """What many durations come to, in milliseconds."""

    count: int
    p50: float
    p95: float
    p99: float
    longest: float
    mean: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Sample:
        """Return the summary of durations in seconds; percentiles lie between neighbours, linearly."""
        if not seconds:
            message = "There is nothing to summarise."
            raise ValueError(message)
        values = np.asarray(seconds) * 1000.0
        p50, p95, p99 = (float(value) for value in np.percentile(values, [50, 95, 99]))
        return cls(len(seconds), p50, p95, p99, float(values.max()), float(values.mean()))
