"""Time budget of a retriever: its share of a search's deadline."""

from __future__ import annotations

import threading
import time

from memsvc.domain.clock import Deadline

SHARE = 0.75
"""Share of the remaining time that retrieval may use; the rest is left for ranking and reading the hits."""
DECAY = 0.95
"""Factor by which the usual duration shrinks with every quicker answer."""
LONGEST_USUAL_SECONDS = 10.0


class TimeBudget:
    """Budget of one retriever: its usual duration and some patience beyond it. Thread-safe.

    The usual duration is the recent maximum of the durations of successful answers, so that a model that takes a second
    for every query is not given up each time.
    """

    def __init__(self, patience: float) -> None:
        """Allow *patience* seconds beyond the usual duration."""
        self._patience = patience
        self._usual = 0.0
        self._lock = threading.Lock()

    def note(self, seconds: float) -> None:
        """Record the duration of a successful answer."""
        with self._lock:
            self._usual = min(max(seconds, self._usual * DECAY), LONGEST_USUAL_SECONDS)

    def limit(self, deadline: Deadline, *, has_others: bool) -> Deadline:
        """Return the deadline of the retriever.

        If no other retriever can answer (*has_others* is False), there is nothing to gain by giving up early.
        """
        if not has_others:
            return deadline
        remaining = deadline.remaining_seconds()
        seconds = self._usual + self._patience
        return Deadline(time.monotonic() + (seconds if remaining is None else min(seconds, remaining * SHARE)))
