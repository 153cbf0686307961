"""The circuit breaker of a backend."""

from __future__ import annotations

import pytest

from memsvc.domain.errors import BackendUnavailableError
from memsvc.ports.faults import (
    FAILURES,
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    BreakerState,
    CircuitBreaker,
    FaultLog,
)


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def opened(clock: Clock, faults: FaultLog) -> CircuitBreaker:
    """Return a breaker after as many failures as open it."""
    breaker = CircuitBreaker("b", faults, now=clock)
    for _ in range(FAILURES):
        breaker.check()
        breaker.note_failure()
    return breaker


def test_failures_in_a_row_open_it() -> None:
    """Not failures with successes in between."""
    clock, faults = Clock(), FaultLog()
    breaker = CircuitBreaker("b", faults, now=clock)
    for _ in range(FAILURES):
        breaker.note_failure()
        breaker.note_success()
    breaker.check()
    assert {"b": BreakerState.CLOSED} == faults.read().breakers

    breaker = opened(clock, faults)

    with pytest.raises(BackendUnavailableError) as caught:
        breaker.check()
    assert FIRST_PAUSE_SECONDS == caught.value.retry_seconds
    assert {"b": BreakerState.OPEN} == faults.read().breakers


def test_one_probe_passes_in_each_pause() -> None:
    """Also while the earlier probe has no outcome: it may hang for long."""
    clock, faults = Clock(), FaultLog()
    breaker = opened(clock, faults)
    for _ in range(2):
        clock.seconds += FIRST_PAUSE_SECONDS
        breaker.check()
        with pytest.raises(BackendUnavailableError):
            breaker.check()
    assert {"b": BreakerState.HALF_OPEN} == faults.read().breakers


def test_a_failed_probe_doubles_the_pause_and_a_success_closes() -> None:
    """Up to the longest."""
    clock, faults = Clock(), FaultLog()
    breaker = opened(clock, faults)
    for _ in range(10):
        clock.seconds += LONGEST_PAUSE_SECONDS
        breaker.check()
        breaker.note_failure()
    with pytest.raises(BackendUnavailableError) as caught:
        breaker.check()
    assert LONGEST_PAUSE_SECONDS == caught.value.retry_seconds

    breaker.note_success()

    breaker.check()
    assert {"b": BreakerState.CLOSED} == faults.read().breakers
