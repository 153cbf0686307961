"""Faults of backends: the record of them, and the circuit breaker of a backend over a network."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from memsvc.domain.errors import BackendUnavailableError


class BreakerState(StrEnum):
    """State of a circuit breaker."""

    CLOSED = "closed"
    """Calls pass."""
    OPEN = "open"
    """Calls fail at once."""
    HALF_OPEN = "half_open"
    """One call passes as a probe; the others fail at once."""


@dataclass(frozen=True, slots=True)
class FaultCounts:
    """The counts at one moment.

    Attributes:
        replaced: Number of processes that were replaced, by backend.
        breakers: State of the circuit breakers, by backend.
        degraded: Number of searches that lacked a retriever, by retriever and reason.
    """

    replaced: Mapping[str, int]
    breakers: Mapping[str, BreakerState]
    degraded: Mapping[tuple[str, str], int]


class FaultLog:
    """Counter of faults since the process started. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._replaced: Counter[str] = Counter()
        self._breakers: dict[str, BreakerState] = {}
        self._degraded: Counter[tuple[str, str]] = Counter()

    def note_replaced(self, backend: str) -> None:
        """Count a process of *backend* that died or hung and was replaced."""
        with self._lock:
            self._replaced[backend] += 1

    def note_breaker(self, backend: str, state: BreakerState) -> None:
        """Record the state of the circuit breaker of *backend*."""
        with self._lock:
            self._breakers[backend] = state

    def note_degraded(self, retriever: str, reason: str) -> None:
        """Count a search that lacked a retriever."""
        with self._lock:
            self._degraded[retriever, reason] += 1

    def read(self) -> FaultCounts:
        """Return the counts."""
        with self._lock:
            return FaultCounts(dict(self._replaced), dict(self._breakers), dict(self._degraded))


# Circuit breaker of a backend over a network.


FAILURES = 3
"""Failures in a row that open a breaker."""
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 2.0
"""Time between two probes, doubled with every probe that fails."""


class CircuitBreaker:
    """Fails calls at once while a backend does not answer, apart from a probe now and then. Thread-safe.

    A call asks `check` first and reports its outcome by `note_success` or `note_failure`. The first success closes the
    breaker. Own code, since pybreaker holds a lock during the call, so that the calls of several threads would run one
    by one.
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

    def note_success(self) -> None:
        """Record that the backend answered, whatever it said."""
        if not self._failures and not self._pause:
            return
        with self._lock:
            self._failures, self._pause = 0, 0.0
            self._faults.note_breaker(self._backend, BreakerState.CLOSED)

    def note_failure(self) -> None:
        """Record that the backend did not answer in time, or could not be reached."""
        with self._lock:
            self._failures += 1
            if self._failures >= FAILURES:
                self._pause = min(self._pause * 2, LONGEST_PAUSE_SECONDS) or FIRST_PAUSE_SECONDS
                self._probe_at = self._now() + self._pause
                self._faults.note_breaker(self._backend, BreakerState.OPEN)
