"""The port to a reranker: a model that reads a query and a text together and says how well they fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from memsvc.domain.clock import Deadline


class Reranker(Protocol):
    """Scores texts against a query. Safe to call from several threads; the same input gives the same scores."""

    @property
    def name(self) -> str:
        """Name the model."""
        ...

    def rerank(self, query: str, texts: Sequence[str], *, deadline: Deadline) -> list[float]:
        """Return one score for each of *texts*, in their order: 0 (has nothing to do with it) to 1 (answers it).

        A score depends on the query and its own text alone, not on the other texts. No texts: no scores.

        Raises:
            DeadlineExceededError: The deadline passed first.
            BackendUnavailableError: The model cannot be reached.
            BackendClosedError: The reranker was closed.
        """
        ...

    def ping(self) -> None:
        """Return when the model answers, or raise BackendUnavailableError."""
        ...
