"""Requests for vectors with retries, rate limits and a circuit breaker."""

from __future__ import annotations

import base64
import binascii
import email.utils
import math
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any, Protocol

import numpy as np
import openai

from memsvc.domain.errors import BackendClosedError, BackendUnavailableError
from memsvc.ports.faults import CircuitBreaker, FaultLog
from memsvc.ports.models import Vector, Vectors
from memsvc.text.chunking import count_tokens
from memsvc_backends.openai.client import NAME, problem_of, refuse_when_closed
from memsvc_backends.openai.settings import OpenAiEmbedderSettings

FIRST_WAIT, LONGEST_WAIT = 0.25, 8.0
_MAY_PASS = frozenset({408, 409, 425, 429})
_SERVER_FAULTS = 500
_TOO_MUCH = frozenset({400, 413, 422})
"""How endpoints say that a request, or one text of it, is too long for them, among other things."""
MINUTE = 60.0
BURST_SECONDS = 10.0
"""So much of what is allowed may be spent at once, after a while of silence."""
QUERY_SHARE = 0.1
"""So much of a minute's allowance queries may overdraw, which passages then wait for."""
PING_TEXT = "ping"
"""The text of a probe by a ping, which the breaker waits for while no call comes."""


class TooMuchError(Exception):
    """The endpoint refuses the request as too large; fewer or shorter texts may pass."""


@dataclass(frozen=True, slots=True)
class Purpose:
    """Purpose of an embedding, which decides how long to wait.

    Attributes:
        input_type: What is sent as input_type; empty: nothing.
        patience: For how long after the first try another one may begin.
        is_query: A caller waits: an attempt is limited by the patience, and goes ahead of passages.
    """

    input_type: str
    patience: float
    is_query: bool


class EmbeddingRequester:
    """Client of the embeddings endpoint. Thread-safe."""

    def __init__(
        self,
        client: openai.OpenAI,
        settings: OpenAiEmbedderSettings,
        clock: WaitableClock,
        random: Random,
        faults: FaultLog | None = None,
    ) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock
        self._random = random
        # A failure follows several tries: one opens it.
        faults = FaultLog() if faults is None else faults
        self._breaker = CircuitBreaker(NAME, faults, now=clock.time, failures=1)
        self._pacing = RateLimiter(settings.requests_per_minute, settings.tokens_per_minute, clock)

    def vectors(self, texts: Sequence[str], purpose: Purpose, *, dimension: int) -> Vectors:
        """Return the vectors of *texts*, of *dimension* or, when that is 0, of any length.

        Raises:
            TooMuchError: The endpoint does not take so many, or so long ones.
            BackendUnavailableError: It cannot be reached, refuses, or answers something else; with when to come back.
        """
        give_up = self._clock.time() + purpose.patience
        tokens = sum(map(count_tokens, texts)) if self._settings.tokens_per_minute else 0
        is_probe = False
        for tried in range(self._settings.retries + 1):
            refuse_when_closed(self._client)
            is_probe = is_probe or self._breaker.check()
            left = give_up - self._clock.time()
            self._pacing.take_turn(tokens, patience=left if purpose.is_query else None)
            try:
                reply = self._ask(texts, purpose, give_up - self._clock.time())
            except openai.OpenAIError as error:
                self._wait_or_raise(error, tried, give_up)
                continue
            except ValueError as error:
                raise unusable("answered something else than JSON") from error
            found = vectors_of(reply, count=len(texts), dimension=dimension)
            self._breaker.note_success()
            return found
        message = "the last try raises"
        raise AssertionError(message)

    @property
    def is_left_alone(self) -> bool:
        """Return whether the circuit breaker is open: calls fail at once, but for a probe."""
        return self._breaker.is_open

    def _ask(self, texts: Sequence[str], purpose: Purpose, left: float) -> Any:
        more: dict[str, Any] = {}
        if self._settings.send_dimensions:
            more["dimensions"] = self._settings.dimensions
        if purpose.input_type:
            more["extra_body"] = {"input_type": purpose.input_type}
        timeout = self._settings.timeout_seconds
        if purpose.is_query:
            timeout = max(0.001, min(timeout, left))
        return self._client.with_options(timeout=timeout, max_retries=0).embeddings.create(
            model=self._settings.model, input=list(texts), encoding_format=self._settings.encoding.value, **more
        )

    def _wait_or_raise(self, error: openai.OpenAIError, tried: int, give_up: float) -> None:
        """Wait for the next try.

        Raises:
            TooMuchError: Fewer or shorter texts may be taken.
            BackendUnavailableError: Another try would not help, or begin too late.
        """
        status = error.status_code if isinstance(error, openai.APIStatusError) else 0
        if status in _TOO_MUCH:
            raise TooMuchError from error
        asked = _retry_after(error.response.headers) if isinstance(error, openai.APIStatusError) else None
        may_pass = isinstance(error, openai.APIConnectionError) or status in _MAY_PASS or status >= _SERVER_FAULTS
        wait = self._backoff(tried, error) if asked is None else asked
        if may_pass and tried < self._settings.retries and self._clock.time() + wait < give_up:
            self._clock.wait(wait)
            return
        problem = problem_of(error)
        seconds = self._breaker.note_failure(problem, pause=asked)
        raise BackendUnavailableError(NAME, retry_seconds=seconds, problem=problem) from error

    def _backoff(self, tried: int, error: openai.OpenAIError) -> float:
        is_dropped = isinstance(error, openai.APIConnectionError) and not isinstance(error, openai.APITimeoutError)
        if is_dropped and not tried:
            # Most often a kept connection that the endpoint has closed: a fresh one may do.
            return 0.0
        return float(min(FIRST_WAIT * 2.0**tried, LONGEST_WAIT)) * self._random.uniform(0.75, 1.0)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that the endpoint asks to be left alone for, or None."""
    for name, divisor in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / divisor
        except ValueError:
            continue
        if math.isfinite(seconds) and seconds >= 0:
            return seconds
    try:
        moment = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    return max(0.0, (moment.astimezone(UTC) - datetime.now(UTC)).total_seconds())


# How fast an endpoint may be asked, and when it wants to be left alone.


class WaitableClock(Protocol):
    """A clock that can wait."""

    def time(self) -> float:
        """Return seconds that only grow."""
        ...

    def wait(self, seconds: float) -> None:
        """Return after so many seconds.

        Raises:
            BackendClosedError: The embedder was closed while waiting.
        """
        ...


class WaitableMonotonicClock:
    """The monotonic clock of the machine."""

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
        """Wake all waiting threads."""
        self._closed.set()


class RateAllowance:
    """A token bucket: an allowance per minute that refills evenly; 0: no limit."""

    def __init__(self, per_minute: float, clock: WaitableClock) -> None:
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
    """Rate limiter of requests and tokens per minute, for all threads together."""

    def __init__(self, requests_per_minute: float, tokens_per_minute: float, clock: WaitableClock) -> None:
        self._requests = RateAllowance(requests_per_minute, clock)
        self._tokens = RateAllowance(tokens_per_minute, clock)
        self._clock = clock
        self._lock = threading.Lock()

    def take_turn(self, tokens: int, *, patience: float | None) -> None:
        """Return when a request of so many tokens may be sent. With a *patience* it is urgent, and refused beyond that.

        Raises:
            BackendUnavailableError: It would take longer than *patience*.
        """
        while wait := self._try_take(tokens, is_urgent=patience is not None):
            if patience is not None and wait > patience:
                raise BackendUnavailableError(NAME, retry_seconds=wait, problem="is asked as often as its limit allows")
            self._clock.wait(wait)

    def _try_take(self, tokens: int, *, is_urgent: bool) -> float:
        with self._lock:
            wait = max(
                self._requests.missing_seconds(1.0, is_urgent=is_urgent),
                self._tokens.missing_seconds(tokens, is_urgent=is_urgent),
            )
            if not wait:
                self._requests.spend(1.0)
                self._tokens.spend(tokens)
            return wait


# What an endpoint answered, as vectors, or why it is no answer.


def vectors_of(reply: Any, *, count: int, dimension: int) -> Vectors:
    """Return *count* vectors of unit length, in the order of the texts; *dimension* 0 takes any length.

    Endpoints that only resemble OpenAI's may leave anything out.

    Raises:
        BackendUnavailableError: They are fewer or more, of another length, or not numbers; the message says so.
    """
    data = getattr(reply, "data", None) or []
    if len(data) != count:
        raise unusable(f"answered {len(data)} vectors for {count} texts")
    places = [getattr(one, "index", None) for one in data]
    if places != list(range(count)) and sorted(place for place in places if isinstance(place, int)) == [*range(count)]:
        data = sorted(data, key=lambda one: int(one.index))
    rows = [_vector(getattr(one, "embedding", None)) for one in data]
    _check_lengths(rows, dimension)
    vectors = np.vstack(rows)
    if not np.isfinite(vectors).all():
        raise unusable("answered a vector that holds something else than finite numbers")
    # In double precision: the square of a large number is none in single precision.
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    if not lengths.all():
        raise unusable("answered a vector of zeros, which points nowhere")
    return np.ascontiguousarray(vectors / lengths, dtype=np.float32)


def _check_lengths(rows: Sequence[Vector], dimension: int) -> None:
    expected = dimension or len(rows[0])
    for row in rows:
        if len(row) != expected or not expected:
            raise unusable(
                f"answered a vector of {len(row)} dimensions instead of {expected}: has the model behind its name "
                "changed? Set dimensions among its options, and all vectors are computed again"
            )


def _vector(value: object) -> Vector:
    try:
        if isinstance(value, str):
            return np.frombuffer(base64.b64decode(value, validate=True), dtype="<f4").astype(np.float32)
        vector = np.asarray(value, dtype=np.float32)
    except (ValueError, TypeError, binascii.Error) as error:
        raise unusable("answered a vector that is none") from error
    if vector.ndim != 1:
        raise unusable("answered a vector that is none")
    return vector


def unusable(problem: str) -> BackendUnavailableError:
    """Return the error that says what is wrong with an answer, for the end of a sentence."""
    return BackendUnavailableError(NAME, retry_seconds=5.0, problem=problem)
