"""The language model port on OpenAI's chat protocol."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import openai

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.memory import Json
from memsvc.ports.faults import CircuitBreaker, FaultLog
from memsvc.ports.models import Prompt, Schema, UnusableAnswerError
from memsvc_backends.openai.client import NAME, PING_SECONDS, ping, problem_of, refuse_when_closed, translate
from memsvc_backends.openai.settings import JsonOutput, OpenAiLanguageModelSettings

BREAKER = "openai-chat"
"""Name of the circuit breaker in the metrics; the embedder of the same package has another one."""
LEAST_SECONDS = 1.0
"""A call that times out with less time left does not count as a failure of the endpoint."""
SERVER_FAULTS = 500
_PROBE = Prompt("Answer with one word.", "ping", most_tokens=16)


class OpenAiLanguageModel:
    """A model at an endpoint. The client keeps connections, tries again, and may be used by several threads.

    While the endpoint does not answer, a circuit breaker fails calls at once, so that they fall back to rules.
    """

    def __init__(
        self, client: openai.OpenAI, settings: OpenAiLanguageModelSettings, faults: FaultLog | None = None
    ) -> None:
        """Use *client*, which the caller closes, and report the state of the breaker to *faults*."""
        self._client = client
        self._breaker = CircuitBreaker(BREAKER, FaultLog() if faults is None else faults)
        self._settings = settings

    @property
    def model(self) -> str:
        """Name the model."""
        return self._settings.model

    def text(self, prompt: Prompt, *, deadline: Deadline) -> str:
        """Return the answer as text."""
        return self._answer(prompt, {}, deadline)

    def json(self, prompt: Prompt, schema: Schema, *, deadline: Deadline) -> dict[str, Json]:
        """Return the answer as a JSON object."""
        if self._settings.json_output is JsonOutput.SCHEMA:
            shape = {"name": schema.name, "schema": dict(schema.schema), "strict": True}
            form: dict[str, Any] = {"type": "json_schema", "json_schema": shape}
        else:
            form = {"type": "json_object"}
            instructions = f"{prompt.instructions}\nAnswer with JSON of this schema: {json.dumps(schema.schema)}"
            prompt = Prompt(instructions, prompt.material, prompt.most_tokens)
        answer = self._answer(prompt, {"response_format": form}, deadline)
        try:
            value = json.loads(answer)
        except ValueError as error:
            message = "The answer is no JSON."
            raise UnusableAnswerError(message) from error
        if not isinstance(value, dict):
            message = "The answer is no JSON object."
            raise UnusableAnswerError(message)
        return value

    def ping(self) -> None:
        """Ask for the list of models; an endpoint that has none, but answers, is there.

        While the circuit breaker is open, ask the model for a word, too: a list does not show that it answers.
        """
        ping(self._client)
        if self._breaker.is_open:
            with suppress(UnusableAnswerError):
                self.text(_PROBE, deadline=Deadline(time.monotonic() + PING_SECONDS))

    def _answer(self, prompt: Prompt, more: dict[str, Any], deadline: Deadline) -> str:
        refuse_when_closed(self._client)
        remaining = deadline.remaining_seconds()
        if remaining is not None and remaining <= 0:
            raise BackendUnavailableError(NAME)
        self._breaker.check()
        if prompt.most_tokens:
            more = more | {"max_completion_tokens": prompt.most_tokens}
        with translate(), self._noted(deadline):
            completion = self._within(deadline).chat.completions.create(
                model=self._settings.model,
                messages=[
                    {"role": "system", "content": prompt.instructions},
                    {"role": "user", "content": prompt.material},
                ],
                temperature=self._settings.temperature,
                **more,
            )
        return _content(completion)

    @contextmanager
    def _noted(self, deadline: Deadline) -> Iterator[None]:
        """Report the outcome to the breaker. A caller with little time says nothing about the endpoint."""
        remaining = deadline.remaining_seconds()
        try:
            yield
        except openai.OpenAIError as error:
            is_hurried = remaining is not None and remaining < LEAST_SECONDS
            if not (isinstance(error, openai.APITimeoutError) and is_hurried):
                self._note(error)
            raise
        self._breaker.note_success()

    def _note(self, error: openai.OpenAIError) -> None:
        is_away = isinstance(error, openai.APIConnectionError)
        if is_away or (isinstance(error, openai.APIStatusError) and error.status_code >= SERVER_FAULTS):
            self._breaker.note_failure(problem_of(error))
        else:
            self._breaker.note_success()

    def _within(self, deadline: Deadline) -> openai.OpenAI:
        """Return the client with no more patience, over all tries, than the deadline has time left."""
        remaining = deadline.remaining_seconds()
        if remaining is None:
            return self._client
        tries = self._settings.retries + 1
        timeout = min(self._settings.timeout_seconds, remaining)
        # Tries that would not fit in the time left are not made; the pauses between them are the client's.
        fitting = min(tries, max(1, int(remaining / timeout)))
        return self._client.with_options(timeout=timeout, max_retries=fitting - 1)


def _content(completion: Any) -> str:
    """Return the text of an answer. Endpoints that only resemble OpenAI's may leave anything out."""
    choice = completion.choices[0] if getattr(completion, "choices", None) else None
    message = getattr(choice, "message", None)
    if choice is None or message is None:
        problem = "The answer holds no message."
    elif getattr(message, "refusal", None):
        problem = "The model refused to answer."
    elif choice.finish_reason == "length":
        problem = "The answer was cut off."
    elif not (message.content or "").strip():
        problem = "The answer is empty."
    else:
        return str(message.content).strip()
    raise UnusableAnswerError(problem)
