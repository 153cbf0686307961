"""Summing up messages that are trimmed away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from memsvc.domain.secrets import Redactor
from memsvc.domain.sessions import Message, Role
from memsvc.ports.models import Tokenizer
from memsvc.text.extractive_summary import Line, summary_of

_WEIGHTS = {Role.USER: 1.3, Role.ASSISTANT: 1.0, Role.TOOL: 0.4, Role.SYSTEM: 0.4}
"""How much what each role says is worth: people say what is so, tools say much of everything."""


class Summarizer(Protocol):
    """Makes a text that stands for messages which are no longer in use. Safe to call from several threads."""

    @property
    def asks_a_model(self) -> bool:
        """Return whether summing up may take as long as a language model takes."""
        ...

    def summarize(self, messages: Sequence[Message], *, most_tokens: int) -> str:
        """Return a text of at most *most_tokens* tokens, in the language of the messages; never blank.

        Raises:
            MemsvcError: It cannot be made now; nothing is trimmed then.
        """
        ...


class ExtractiveSummarizer:
    """`Summarizer` without a language model: the sentences that say most, as they were said."""

    def __init__(self, tokenizer: Tokenizer, redactor: Redactor) -> None:
        """Count by *tokenizer*; quote no secret that *redactor* knows."""
        self._tokenizer = tokenizer
        self._redactor = redactor

    @property
    def asks_a_model(self) -> bool:
        """Return that no model is asked."""
        return False

    def summarize(self, messages: Sequence[Message], *, most_tokens: int) -> str:
        """Return the best sentences, in their order."""
        # Each text as a whole: a sentence of it may hold half of a secret.
        clean = self._redactor.text
        lines = [
            Line(speaker_of(message), clean(message.memory.content)[0], _WEIGHTS[message.record.role])
            for message in messages
        ]
        return summary_of(lines, most_tokens=most_tokens, count=self._tokenizer.count) or "…"


def speaker_of(message: Message) -> str:
    """Return who says a message: a name, or without one the role."""
    return message.memory.speaker or message.record.role.value.lower()
