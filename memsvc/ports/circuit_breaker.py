"""Circuit breaker for backends that are reached over a network.

Own code, since pybreaker holds a lock during the call, so that the calls of several threads would run one by one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from memsvc.domain.errors import BackendUnavailableError
from memsvc.ports.faults import BreakerState, FaultLog

FAILURES = 3
"""Failures in a row that open a breaker."""
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 2.0
"""Time between two probes, doubled with every probe that fails."""


class CircuitBreaker:
    """Fails calls at once while a backend does not answer, apart from a probe now and then. Thread-safe.

    A call asks `check` first and reports its outcome by `succeeded` or `failed`. The first success closes the breaker.
    """

    def __init__(self, backend: str, faults: FaultLog, *, now: Callable[[], float] = time.monotonic) -> None:
        """Guard *backend*, report the state to *faults*, and read seconds from *now*."""
        self._backend = backend
        self._faults = faults
        self._now = now
        self._lock = threading.Lock()
        self._failures = 0
        self._pause = 0.0
        self._probe_at = 0.0
        faults.note_breaker(backend, BreakerState.CLOSED)

    def check(self) -> None:
        """Return if a call may be made: the breaker is closed, or it is time for a probe.

        Raises:
            BackendUnavailableError: The breaker is open; with the time until the next probe.
        """
        if not self._pause:
            return
        with self._lock:
            left = self._probe_at - self._now()
            if self._pause and left > 0:
                raise BackendUnavailableError(self._backend, retry_seconds=left)
            if self._pause:
                # One probe in each pause: the next one does not wait for the outcome of this one.
                self._probe_at = self._now() + self._pause
                self._faults.note_breaker(self._backend, BreakerState.HALF_OPEN)

    def succeeded(self) -> None:
        """Record that the backend answered, whatever it said."""
        if not self._failures and not self._pause:
            return
        with self._lock:
            self._failures, self._pause = 0, 0.0
            self._faults.note_breaker(self._backend, BreakerState.CLOSED)

    def failed(self) -> None:
        """Record that the backend did not answer in time, or could not be reached."""
        with self._lock:
            self._failures += 1
            if self._failures >= FAILURES:
                self._pause = min(self._pause * 2, LONGEST_PAUSE_SECONDS) or FIRST_PAUSE_SECONDS
                self._probe_at = self._now() + self._pause
                self._faults.note_breaker(self._backend, BreakerState.OPEN)
