"""Faults of backends: their record, the circuit breaker, and threads for calls that may hang."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import StrEnum
from queue import SimpleQueue
from typing import Any, TypeVar

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import UNREACHED, BackendUnavailableError, DeadlineExceededError
from memsvc.ports.thread_wait import ThreadWait

T = TypeVar("T")
NO_DEADLINE = Deadline()


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


@dataclass(frozen=True, slots=True)
class _Counters:
    """The state of the records of one process."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    replaced: Counter[str] = field(default_factory=Counter)
    breakers: dict[tuple[str, str], BreakerState] = field(default_factory=dict)
    """By port and backend."""
    degraded: Counter[tuple[str, str]] = field(default_factory=Counter)


class FaultLog:
    """Counter of faults since the process started. Thread-safe."""

    def __init__(self, counters: _Counters | None = None, port: str = "") -> None:
        """Count on its own, or with others into *counters*, for the backend of a *port*."""
        self._port = port
        self._counters = counters or _Counters()

    def of_port(self, port: str) -> FaultLog:
        """Return a record that counts into this one and knows the port of its backend."""
        return FaultLog(self._counters, port)

    def note_replaced(self, backend: str) -> None:
        """Count a process of *backend* that died or hung and was replaced."""
        with self._counters.lock:
            self._counters.replaced[backend] += 1

    def note_breaker(self, backend: str, state: BreakerState) -> None:
        """Record the state of the circuit breaker of *backend*."""
        with self._counters.lock:
            self._counters.breakers[self._port, backend] = state

    def note_degraded(self, retriever: str, reason: str) -> None:
        """Count a search that lacked a retriever."""
        with self._counters.lock:
            self._counters.degraded[retriever, reason] += 1

    def read(self) -> FaultCounts:
        """Return the counts."""
        counters = self._counters
        with counters.lock:
            breakers = {backend: state for (_, backend), state in counters.breakers.items()}
            return FaultCounts(dict(counters.replaced), breakers, dict(counters.degraded))

    def open_breakers(self) -> dict[str, tuple[str, BreakerState]]:
        """Return the backends whose circuit breaker is not closed, and its state, by port."""
        with self._counters.lock:
            return {
                port: (backend, state)
                for (port, backend), state in self._counters.breakers.items()
                if state is not BreakerState.CLOSED
            }


# Circuit breaker of a backend that may hang.


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

    def __init__(
        self,
        backend: str,
        faults: FaultLog,
        *,
        now: Callable[[], float] = time.monotonic,
        failures: int = FAILURES,
        is_watched: bool = False,
        kind: str = "",
    ) -> None:
        """Guard *backend*, report the state to *faults*, and read seconds from *now*.

        Args:
            backend: The name in errors and metrics.
            faults: The record that knows the state.
            now: A clock.
            failures: Failures in a row that open it.
            is_watched: A watchdog has probes of its own: no call passes as one.
            kind: The kind of calls that it guards; empty: all of the backend.
        """
        self._backend = backend
        self._label = f"{backend}-{kind}" if kind else backend
        self._faults = faults
        self._now = now
        self._most_failures = failures
        self._is_watched = is_watched
        self._lock = threading.Lock()
        self._failures = 0
        self._pause = 0.0
        self._probe_at = 0.0
        self._problem = UNREACHED
        faults.note_breaker(self._label, BreakerState.CLOSED)

    @property
    def is_open(self) -> bool:
        """Return whether calls fail, but for probes."""
        return self._pause > 0

    def check(self) -> bool:
        """Return if a call may be made: False if the breaker is closed, True if the call is a probe.

        Raises:
            BackendUnavailableError: The breaker is open; with the time until the next probe.
        """
        if not self._pause:
            return False
        with self._lock:
            if not self._pause:
                return False
            left = self._probe_at - self._now()
            if left > 0 or self._is_watched:
                retry = max(left, FIRST_PAUSE_SECONDS) if self._is_watched else left
                raise BackendUnavailableError(self._backend, retry_seconds=retry, problem=self._problem)
            # One probe in each pause: the next one does not wait for the outcome of this one.
            self._probe_at = self._now() + self._pause
            self._faults.note_breaker(self._label, BreakerState.HALF_OPEN)
            return True

    def note_success(self) -> None:
        """Record that the backend answered, whatever it said."""
        if not self._failures and not self._pause:
            return
        with self._lock:
            self._failures, self._pause = 0, 0.0
            self._faults.note_breaker(self._label, BreakerState.CLOSED)

    def note_failure(
        self, problem: str = UNREACHED, *, pause: float | None = None, opens_at_once: bool = False
    ) -> float:
        """Record that the backend did not answer in time, or could not be reached; return the pause, 0 if none.

        *problem* ends the sentence of errors while the breaker is open; *pause* is how long the backend itself asks not
        to be called; with *opens_at_once* no further failure is awaited.
        """
        with self._lock:
            self._failures += self._most_failures if opens_at_once else 1
            if self._failures < self._most_failures:
                return 0.0
            self._pause = min(self._pause * 2, LONGEST_PAUSE_SECONDS) or FIRST_PAUSE_SECONDS
            wait = self._pause if pause is None else pause
            self._probe_at = self._now() + wait if pause is None else max(self._probe_at, self._now() + wait)
            self._problem = problem
            self._faults.note_breaker(self._label, BreakerState.OPEN)
            return wait


# Threads for calls that may hang and cannot be interrupted.


class BoundedCalls:
    """Bulkhead: runs calls in threads of its own, each with a time limit. Thread-safe.

    A call that takes longer is given up and keeps its thread until it ends; while all threads are kept, further calls
    fail at once. A call that is late opens the circuit breaker, and closes it when it ends after all. The threads are
    daemons: a call that hangs does not keep the process from ending.
    """

    def __init__(self, backend: str, faults: FaultLog, *, threads: int, seconds: float, kind: str = "") -> None:
        """Run at most *threads* calls of *backend* at a time, each for at most *seconds*; report to *faults*.

        *kind* tells these calls from others of the same backend, which have a circuit breaker of their own.
        """
        self._breaker = CircuitBreaker(backend, faults, kind=kind)
        self._seconds = seconds
        self._backend = backend
        self._slots = threading.BoundedSemaphore(threads)
        self._lock = threading.Lock()
        self._idle = 0
        self._is_closed = False
        self._queue: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()

    def run(self, call: Callable[[], T], *, seconds: float | None = None, deadline: Deadline = NO_DEADLINE) -> T:
        """Return the result of *call*, which runs in another thread.

        Raises:
            DeadlineExceededError: It did not end shortly before *deadline*, which says nothing of the backend.
            BackendUnavailableError: It took longer than *seconds* (by default those of the bulkhead), no thread was
                free for the time of the bulkhead or could be started, or the breaker is open.
        """
        self._breaker.check()
        limit = self._seconds if seconds is None else seconds
        if not self._slots.acquire(timeout=self._seconds):
            raise self._late(self._seconds)
        future: Future[T] = Future()
        self._start(call, future)
        # A call whose deadline has passed is not made on behalf of a caller that waits.
        patience = deadline.patience_seconds() or None
        try:
            with ThreadWait():
                result = future.result(limit if patience is None else min(limit, patience))
        except TimeoutError as error:
            if future.done():
                raise
            if patience is not None and patience < limit:
                raise DeadlineExceededError(f"the backend {self._backend!r}") from error
            raise self._late(limit) from error
        except BackendUnavailableError as error:
            self._breaker.note_failure(error.problem)
            raise
        return result

    def close(self) -> None:
        """Let idle threads end, and the others when their calls do."""
        with self._lock:
            self._is_closed = True
            for _ in range(self._idle):
                self._queue.put(None)
            self._idle = 0

    def _late(self, seconds: float) -> BackendUnavailableError:
        problem = f"has not answered for {seconds:g} s"
        pause = self._breaker.note_failure(problem, opens_at_once=True)
        return BackendUnavailableError(self._backend, retry_seconds=pause, problem=problem)

    def _start(self, call: Callable[[], Any], future: Future[Any]) -> None:
        with self._lock:
            is_new = not self._idle
            self._idle -= not is_new
        if is_new:
            thread = threading.Thread(target=self._work, name=f"bounded-{self._backend}", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                # The process has as many threads as it may.
                self._slots.release()
                raise BackendUnavailableError(self._backend, problem=str(error)) from error
        self._queue.put((call, future))

    def _work(self) -> None:
        while (task := self._queue.get()) is not None:
            call, future = task
            try:
                result = call()
            except BackendUnavailableError as error:
                future.set_exception(error)
            except BaseException as error:  # noqa: BLE001 - delivered to the caller
                self._breaker.note_success()
                future.set_exception(error)
            else:
                # Also when the caller has given up: the backend answers again.
                self._breaker.note_success()
                future.set_result(result)
                del result
            del call, future, task
            with self._lock:
                self._idle += not self._is_closed
            self._slots.release()
            if self._is_closed:
                return
