"""The port to a language model: words in, words or JSON out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from memsvc.domain.clock import Deadline
from memsvc.domain.memory import Json


class UnusableAnswerError(Exception):
    """The model answered, but not with what it was asked for; asking again may help."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model is asked.

    Attributes:
        instructions: What it is to do, from us.
        material: What it is to do it with, from others: data, never instructions.
        most_tokens: How long the answer may be; 0 leaves it to the model.
    """

    instructions: str
    material: str
    most_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Schema:
    """The shape of an answer: a JSON schema of an object, and a name for it of letters, digits and underscores."""

    name: str
    schema: Mapping[str, Any]


class LanguageModel(Protocol):
    """Answers prompts. Safe to call from several threads; what it says is not trusted, and not the same every time."""

    @property
    def model(self) -> str:
        """Name the model."""
        ...

    def text(self, prompt: Prompt, *, deadline: Deadline) -> str:
        """Return the answer as text, trimmed and not empty.

        Raises:
            BackendUnavailableError: The model cannot be reached, refuses the service, or is not done by the deadline.
            UnusableAnswerError: The answer is empty, cut off or a refusal.
        """
        ...

    def json(self, prompt: Prompt, schema: Schema, *, deadline: Deadline) -> dict[str, Json]:
        """Return the answer as a JSON object. That it has the shape is asked for, not promised: check it.

        Raises:
            BackendUnavailableError: As for `text`.
            UnusableAnswerError: The answer is no JSON object, cut off or a refusal.
        """
        ...

    def ping(self) -> None:
        """Return when the model's service answers, or raise BackendUnavailableError."""
        ...
