"""Waiting for what happens elsewhere: in another thread or process."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_SECONDS = 120.0
PAUSE_SECONDS = 0.005


def until(condition: Callable[[], object], *, seconds: float = PATIENCE_SECONDS) -> None:
    """Look again and again until it is so; fail when it is not in time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"It did not come to that within {seconds} s."
        time.sleep(PAUSE_SECONDS)
