"""Waiting for another thread or process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_SECONDS = 120.0
SHORTEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.002, 0.1
Value = TypeVar("Value")


def until(condition: Callable[[], Value | None], *, seconds: float = PATIENCE_SECONDS) -> Value:
    """Call *condition* until it returns a true value, and return that value; fail after *seconds*.

    The only place in the tests that sleeps.
    """
    end, pause = time.monotonic() + seconds, SHORTEST_PAUSE_SECONDS
    while not (value := condition()):
        assert time.monotonic() < end, f"The condition did not hold within {seconds} s."
        time.sleep(pause)
        pause = min(1.5 * pause, LONGEST_PAUSE_SECONDS)
    return value
