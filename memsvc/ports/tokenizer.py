"""The port to a tokenizer: how many tokens of a language model a text takes."""

from __future__ import annotations

from typing import Protocol


class Tokenizer(Protocol):
    """Counts tokens. Safe to call from several threads; the same text always gives the same number.

    Tokens of a joined text need not be the sum of its parts': whoever must hold a budget exactly counts what is sent.
    """

    @property
    def name(self) -> str:
        """Name the vocabulary: counts of tokenizers with the same name are comparable."""
        ...

    @property
    def adds_up(self) -> bool:
        """Tell whether lines cost together what they cost alone.

        That is: texts that end with a newline, each followed by one that begins with "-", "#", "<" or a letter.
        """
        ...

    def count(self, text: str) -> int:
        """Return how many tokens *text* takes: 0 for an empty text, never negative, whatever the text holds.

        Nothing in a text has a special meaning: "<|endoftext|>" is counted as the characters it is made of.

        Raises:
            BackendUnavailableError: The tokenizer cannot be reached.
        """
        ...

    def ping(self) -> None:
        """Return when the tokenizer answers, or raise BackendUnavailableError."""
        ...
