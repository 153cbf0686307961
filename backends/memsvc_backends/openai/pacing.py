"""How fast an endpoint may be asked, and when it wants to be left alone."""

from __future__ import annotations

import threading
import time
from typing import Protocol

from memsvc.domain.errors import BackendClosedError, BackendUnavailableError
from memsvc_backends.openai.errors import NAME

MINUTE = 60.0
BURST_SECONDS = 10.0
"""So much of what is allowed may be spent at once, after a while of silence."""
QUERY_SHARE = 0.1
"""So much of a minute's allowance queries may overdraw, which passages then wait for."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 5.0
"""How long an endpoint that failed is left alone, twice as long each time, unless it says itself how long."""


class Clock(Protocol):
    """Time, and waiting."""

    def time(self) -> float:
        """Return seconds that only grow."""
        ...

    def wait(self, seconds: float) -> None:
        """Return after so many seconds.

        Raises:
            BackendClosedError: The embedder was closed meanwhile.
        """
        ...


class MonotonicClock:
    """The machine's."""

    def __init__(self) -> None:
        self._closed = threading.Event()

    def time(self) -> float:
        """Return the seconds of the monotonic clock."""
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        """Wait, unless `close` is called, now or before."""
        if self._closed.wait(seconds):
            raise BackendClosedError(NAME)

    def close(self) -> None:
        """Wake everybody who waits."""
        self._closed.set()


class Allowance:
    """So many of something a minute. What is spent grows back evenly; 0 a minute: no limit."""

    def __init__(self, per_minute: float, clock: Clock) -> None:
        self._rate = per_minute / MINUTE
        self._full = max(1.0, self._rate * BURST_SECONDS)
        self._level = self._full
        self._clock = clock
        self._at = clock.time()

    def missing_seconds(self, amount: float, *, is_urgent: bool) -> float:
        """Return how long it takes until *amount* may be spent; more than fits may be once it is full."""
        if not self._rate:
            return 0.0
        now = self._clock.time()
        self._level = min(self._full, self._level + (now - self._at) * self._rate)
        self._at = now
        overdraft = self._rate * MINUTE * QUERY_SHARE if is_urgent else 0.0
        return max(0.0, (min(amount, self._full) - overdraft - self._level) / self._rate)

    def spend(self, amount: float) -> None:
        """Take *amount* away, perhaps more than there is: who comes later waits for it."""
        self._level -= amount


class RateLimiter:
    """Keeps requests and tokens a minute within their limits, for all threads together."""

    def __init__(self, requests_per_minute: float, tokens_per_minute: float, clock: Clock) -> None:
        self._requests = Allowance(requests_per_minute, clock)
        self._tokens = Allowance(tokens_per_minute, clock)
        self._clock = clock
        self._lock = threading.Lock()

    def take_turn(self, tokens: int, *, patience: float | None) -> None:
        """Return when a request of so many tokens may be sent. With a *patience* it is urgent, and refused beyond that.

        Raises:
            BackendUnavailableError: It would take longer than *patience*.
        """
        while wait := self._taken(tokens, is_urgent=patience is not None):
            if patience is not None and wait > patience:
                raise BackendUnavailableError(NAME, retry_seconds=wait, problem="is asked as often as its limit allows")
            self._clock.wait(wait)

    def _taken(self, tokens: int, *, is_urgent: bool) -> float:
        with self._lock:
            wait = max(
                self._requests.missing_seconds(1.0, is_urgent=is_urgent),
                self._tokens.missing_seconds(tokens, is_urgent=is_urgent),
            )
            if not wait:
                self._requests.spend(1.0)
                self._tokens.spend(tokens)
            return wait


class Backoff:
    """While an endpoint is left alone, calls are refused at once: nobody waits for what will fail."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._until = 0.0
        self._next = FIRST_PAUSE
        self._problem = ""

    def check(self) -> None:
        """Return, or raise BackendUnavailableError that says what was wrong and when to come back."""
        with self._lock:
            left = self._until - self._clock.time()
            problem = self._problem
        if left > 0:
            raise BackendUnavailableError(NAME, retry_seconds=left, problem=problem)

    def begin(self, problem: str, seconds: float | None) -> float:
        """Leave the endpoint alone for so long, or for as long as is usual; return how long."""
        with self._lock:
            if seconds is None:
                seconds, self._next = self._next, min(self._next * 2, LONGEST_PAUSE)
            self._until = max(self._until, self._clock.time() + seconds)
            self._problem = problem
            return seconds

    def end(self) -> None:
        """Note that the endpoint answers."""
        with self._lock:
            self._until, self._next = 0.0, FIRST_PAUSE
