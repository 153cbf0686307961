"""Vectors that callers give."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np


def vector_from_proto(numbers: Sequence[float]) -> array[float] | None:
    """Return a given vector as float32 at unit length, or None when none was given.

    Only the direction of a given vector counts; at unit length no later sum of squares can overflow or vanish.
    """
    if not numbers:
        return None
    exact = np.fromiter(numbers, np.float64, len(numbers))
    return array("f", (exact / np.sqrt(exact @ exact)).astype(np.float32).tobytes())
