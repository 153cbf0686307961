"""The reference reranker: the share of the query's words that a text holds. For tests; it knows no meaning."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendClosedError, DeadlineExceededError
from memsvc.ports.models import Reranker
from memsvc.ports.plugin import BackendContext, BackendSettings, BackendSpec

NAME = "in-memory reranker"
_WORD = re.compile(r"[^\W_\u2e80-\uffef]+|[\u2e80-\uffef]")


class InMemoryReranker:
    """`memsvc.ports.models.Reranker`: words count each once, a Chinese character is a word."""

    name = "in-memory/words"

    def __init__(self) -> None:
        """Be open."""
        self._closed = False

    def rerank(self, query: str, texts: Sequence[str], *, deadline: Deadline) -> list[float]:
        """Score texts."""
        self.ping()
        if deadline.has_passed():
            waiting_for = "the reranker"
            raise DeadlineExceededError(waiting_for)
        wanted = _words(query)
        return [len(wanted & _words(text)) / len(wanted) if wanted else 0.0 for text in texts]

    def ping(self) -> None:
        """Return, or raise BackendClosedError after `close`."""
        if self._closed:
            raise BackendClosedError(NAME)

    def close(self) -> None:
        """Refuse every later call."""
        self._closed = True


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))


def _open(_settings: BackendSettings, _context: BackendContext) -> AbstractContextManager[Reranker]:
    return closing(InMemoryReranker())


RERANKER: BackendSpec[Reranker] = BackendSpec(BackendSettings, _open)
"""The entry point `in-memory` of rerankers."""
