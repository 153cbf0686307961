"""Asking an endpoint for vectors: again where that may help, and not at all while it wants to be left alone."""

from __future__ import annotations

import email.utils
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any

import openai

from memsvc.domain.errors import BackendUnavailableError
from memsvc.ports.models import Vectors
from memsvc.text.token_estimate import count_tokens
from memsvc_backends.openai.client import refuse_when_closed
from memsvc_backends.openai.errors import NAME, problem_of
from memsvc_backends.openai.pacing import Backoff, Clock, RateLimiter
from memsvc_backends.openai.replies import unusable, vectors_of
from memsvc_backends.openai.settings import OpenAiEmbedderSettings

FIRST_WAIT, LONGEST_WAIT = 0.25, 8.0
_MAY_PASS = frozenset({408, 409, 425, 429})
_SERVER_FAULTS = 500
_TOO_MUCH = frozenset({400, 413, 422})
"""How endpoints say that a request, or one text of it, is too long for them, among other things."""


class TooMuchError(Exception):
    """The endpoint does not take these texts as they are; fewer or shorter ones it may."""


@dataclass(frozen=True, slots=True)
class Purpose:
    """What texts are embedded for, and so how patiently.

    Attributes:
        input_type: What is sent as input_type; empty: nothing.
        patience: For how long after the first try another one may begin.
        is_query: Somebody waits: a try is not waited for beyond the patience, and it goes ahead of passages.
    """

    input_type: str
    patience: float
    is_query: bool


class EmbeddingRequester:
    """Asks an endpoint. Safe to call from several threads."""

    def __init__(self, client: openai.OpenAI, settings: OpenAiEmbedderSettings, clock: Clock, random: Random) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock
        self._random = random
        self._pause = Backoff(clock)
        self._pacing = RateLimiter(settings.requests_per_minute, settings.tokens_per_minute, clock)

    def vectors(self, texts: Sequence[str], purpose: Purpose, *, dimension: int) -> Vectors:
        """Return the vectors of *texts*, of *dimension* or, when that is 0, of any length.

        Raises:
            TooMuchError: The endpoint does not take so many, or so long ones.
            BackendUnavailableError: It cannot be reached, refuses, or answers something else; with when to come back.
        """
        give_up = self._clock.time() + purpose.patience
        tokens = sum(map(count_tokens, texts)) if self._settings.tokens_per_minute else 0
        for tried in range(self._settings.retries + 1):
            refuse_when_closed(self._client)
            self._pause.check()
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
            self._pause.end()
            return found
        message = "the last try raises"
        raise AssertionError(message)

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
        seconds = self._pause.begin(problem, asked)
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
