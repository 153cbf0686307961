"""A clock that stands while a test is in the midst of something."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class HeldClock:
    """The machine's clock, but it can be held: then no file counts as quiet while a test is still at it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held_at: float | None = None
        self._lost = 0.0

    def __call__(self) -> float:
        """Return the time, without that for which it was held."""
        with self._lock:
            return (time.monotonic() if self._held_at is None else self._held_at) - self._lost

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold it while the context is open."""
        began = time.monotonic()
        with self._lock:
            self._held_at = began
        try:
            yield
        finally:
            with self._lock:
                self._held_at = None
                self._lost += time.monotonic() - began
