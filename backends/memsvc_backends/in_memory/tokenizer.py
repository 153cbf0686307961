"""The tokenizer that needs no vocabulary: it estimates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from memsvc.ports.models import Tokenizer
from memsvc.ports.plugin import BackendContext, BackendSettings, BackendSpec
from memsvc.text.chunking import count_tokens


class EstimatingTokenizer:
    """`memsvc.ports.models.Tokenizer`: four bytes a token, a Chinese character one; see `count_tokens`."""

    name = "estimate"
    adds_up = False

    def count(self, text: str) -> int:
        """Estimate the tokens of *text*."""
        return count_tokens(text)

    def ping(self) -> None:
        """Return: nothing can fail."""


@contextmanager
def _open(_settings: BackendSettings, _context: BackendContext) -> Iterator[Tokenizer]:
    yield EstimatingTokenizer()


ESTIMATE: BackendSpec[Tokenizer] = BackendSpec(BackendSettings, _open)
"""The entry point `estimate`."""
