"""Record of faults: replaced processes, circuit breakers, degraded searches."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


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
