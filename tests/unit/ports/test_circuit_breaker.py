"""The circuit breaker of a backend."""

from __future__ import annotations

import threading
from contextlib import suppress

import pytest

from memsvc.domain.errors import BackendUnavailableError
from memsvc.engine.admin.diagnose import BackendPings, Pingable
from memsvc.ports.faults import (
    FAILURES,
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    BoundedCalls,
    BreakerState,
    CircuitBreaker,
    FaultLog,
)
from tests.support.thread_limit import no_new_threads
from tests.support.until import until


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


def test_the_endpoint_says_how_long_to_pause_and_what_is_wrong() -> None:
    """Its own pause replaces the usual one, and its problem ends the sentence of the error."""
    clock = Clock()
    breaker = CircuitBreaker("b", FaultLog(), now=clock, failures=1)

    assert breaker.note_failure("takes no more requests", pause=30.0) == 30.0

    with pytest.raises(BackendUnavailableError, match="'b' takes no more requests") as caught:
        breaker.check()
    assert caught.value.retry_seconds == 30.0
    clock.seconds += 30.0
    assert breaker.check()


def test_no_call_is_a_probe_of_a_backend_with_a_watchdog() -> None:
    """Until the watchdog reports an answer."""
    clock = Clock()
    breaker = CircuitBreaker("b", FaultLog(), now=clock, failures=1, is_watched=True)
    breaker.note_failure()
    clock.seconds += 10 * LONGEST_PAUSE_SECONDS
    with pytest.raises(BackendUnavailableError):
        breaker.check()

    breaker.note_success()

    assert not breaker.check()


def test_a_record_of_a_port_counts_into_the_whole() -> None:
    """Breakers that are not closed are known by their port."""
    faults = FaultLog()
    breaker = CircuitBreaker("b", faults.of_port("vectors"), failures=1)
    CircuitBreaker("c", faults.of_port("lexical"))
    assert {} == faults.open_breakers()

    breaker.note_failure()

    assert {"vectors": ("b", BreakerState.OPEN)} == faults.open_breakers()
    assert {"b": BreakerState.OPEN, "c": BreakerState.CLOSED} == faults.read().breakers


# Calls that may hang.


def test_a_late_call_is_given_up_and_opens_the_breaker() -> None:
    """It keeps its thread; once it has ended, calls pass again."""
    faults, release = FaultLog(), threading.Event()
    calls = BoundedCalls("b", faults, threads=1, seconds=0.05)
    assert calls.run(lambda: 7) == 7

    with pytest.raises(BackendUnavailableError, match=r"has not answered for 0\.05 s"):
        calls.run(release.wait)

    assert {"b": BreakerState.OPEN} == faults.read().breakers
    release.set()

    def answer() -> int:
        with suppress(BackendUnavailableError):
            return calls.run(lambda: 7)
        return 0

    assert until(answer) == 7
    assert {"b": BreakerState.CLOSED} == faults.read().breakers
    calls.close()


def test_a_thread_with_a_call_at_the_close_ends_with_it() -> None:
    """As the idle threads do."""
    calls, begun, release = (
        BoundedCalls("closed", FaultLog(), threads=1, seconds=60),
        threading.Event(),
        threading.Event(),
    )

    def work() -> None:
        begun.set()
        release.wait()

    caller = threading.Thread(target=calls.run, args=(work,))
    caller.start()
    begun.wait()
    calls.close()
    release.set()
    caller.join()

    until(lambda: "bounded-closed" not in {thread.name for thread in threading.enumerate()}, seconds=10)


def test_a_late_call_that_ends_closes_the_breaker() -> None:
    """The backend answers again, without a probe; calls of another kind have a breaker of their own."""
    faults, release = FaultLog(), threading.Event()
    calls = BoundedCalls("b", faults, threads=2, seconds=0.01, kind="writes")
    others = BoundedCalls("b", faults, threads=2, seconds=60)
    with pytest.raises(BackendUnavailableError, match="The backend 'b' has not answered"):
        calls.run(release.wait)
    assert others.run(lambda: 7) == 7
    assert {"b-writes": BreakerState.OPEN, "b": BreakerState.CLOSED} == faults.read().breakers

    release.set()

    until(lambda: faults.read().breakers["b-writes"] is BreakerState.CLOSED, seconds=10)
    for one in (calls, others):
        one.close()


def test_an_error_of_a_call_is_an_answer() -> None:
    """It reaches the caller and leaves the breaker closed, however often it comes."""
    faults = FaultLog()
    calls = BoundedCalls("b", faults, threads=2, seconds=60)

    def fail() -> None:
        raise FileNotFoundError

    for _ in range(2 * FAILURES):
        with pytest.raises(FileNotFoundError):
            calls.run(fail)

    assert {"b": BreakerState.CLOSED} == faults.read().breakers
    calls.close()


def test_a_backend_with_an_open_breaker_is_unhealthy() -> None:
    """Even if it answers the ping, as an endpoint that lists its models and hangs on every question."""
    faults = FaultLog()
    breaker = CircuitBreaker("openai-chat", faults.of_port("language_model"), failures=1)
    pings = BackendPings([Pingable("language_model", "openai", lambda: None)], faults=faults)
    assert pings.health()[0].healthy

    breaker.note_failure()

    [health] = pings.health()
    assert not health.healthy
    assert "The circuit breaker of 'openai-chat' is open" in health.message


def test_a_call_without_a_thread_fails_and_keeps_no_place() -> None:
    """The process has as many threads as it may; with fewer, calls are answered again."""
    calls = BoundedCalls("b", FaultLog(), threads=1, seconds=60)

    with no_new_threads("bounded-b"):
        for _ in range(2):
            with pytest.raises(BackendUnavailableError, match="can't start new thread"):
                calls.run(lambda: 7)

    assert calls.run(lambda: 7) == 7
    calls.close()
