"""A layer that reads off an embedding whether a statement tells something that lasts.

    p = 1 / (1 + exp(-(w · unit(v - m) + b)))

v is the embedding of the statement as a passage, m the mean embedding of neutral texts of its script. The rules know
the words of many things that people say of themselves; "Chuy's been my foreman since '03" has none of them. The layer
is asked about such statements only. It is fitted by `python -m tests.bench.agent_day.statements` on what made-up people
say of their lives, and on small talk, requests, stories and news.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from memsvc.domain.clock import Deadline
from memsvc.engine.conflicts.replacement import centre
from memsvc.engine.runtime.fitted_constants import UnusableConstantsError, read_constants, refuse_shapes
from memsvc.ports.models import Embedder, Vectors
from memsvc.text.analysis import is_han

Floats = npt.NDArray[np.float64]
CONSTANTS = Path(__file__).with_name("statement_layer.npz")
LEAST_CHANCE = 0.8
"""The probability from which a statement is remembered: of 1 456 lines of filler that a fit did not see none is."""
MOST_READ = 256
"""Number of statements of one text or conversation that are read, the last ones: each costs some milliseconds."""
BATCH = 32
"""Number of statements that are embedded between two looks at the deadline."""
RESERVE_SECONDS = 1.0
"""Time reserved for the write."""
READ_CHARS = 400
"""As much of a statement is embedded."""
_STEEPEST = 30.0
log = logging.getLogger(__name__)


class StatementLayer:
    """The layer of one embedding model. Immutable, so it is safe to call from several threads.

    Attributes:
        embedding_model: The model of the embeddings that it reads.
    """

    def __init__(self, embedding_model: str, means: Floats, weights: Floats) -> None:
        """Take m of other scripts and of Han text, [2, dimension], and w with b at its end, [dimension + 1]."""
        self.embedding_model = embedding_model
        self._means = means
        self._weights = weights

    @classmethod
    def load(cls, path: Path) -> StatementLayer:
        """Read the constants of a file.

        Raises:
            UnusableConstantsError: The file is missing or damaged.
        """
        model, arrays = read_constants(path, ("means", "weights"))
        means, weights = (one.astype(np.float64) for one in arrays)
        if weights.ndim != 1 or means.shape != (2, len(weights) - 1):
            raise refuse_shapes(path)
        return cls(model, means, weights)

    def save(self, path: Path) -> None:
        """Write the constants to a file, as half-precision numbers."""
        halves = {"means": self._means.astype(np.float16), "weights": self._weights.astype(np.float16)}
        np.savez_compressed(path, allow_pickle=False, embedding_model=np.array(self.embedding_model), **halves)

    def chances(self, vectors: Vectors, texts: Sequence[str]) -> Floats:
        """Return the probability that each of *texts*, whose embeddings are *vectors*, tells something that lasts."""
        centred = centre(vectors, self._means, [is_han(text) for text in texts])
        slopes = np.clip(centred @ self._weights[:-1] + self._weights[-1], -_STEEPEST, _STEEPEST)
        found: Floats = 1.0 / (1.0 + np.exp(-slopes))
        return found


@dataclass(frozen=True, slots=True)
class ReadStatements:
    """Result of the reading of statements.

    Attributes:
        lasting: The probabilities of those that tell something that lasts, by their places.
        unread: The number of those for which there was no time.
    """

    lasting: Mapping[int, float]
    unread: int


class StatementReader:
    """Reads statements by a layer and its embedder. Thread-safe."""

    def __init__(self, layer: StatementLayer, embedder: Embedder) -> None:
        """Read by *layer*, which is made for the model of *embedder*."""
        self._layer = layer
        self._embedder = embedder

    def find_lasting(self, texts: Sequence[str], deadline: Deadline) -> ReadStatements:
        """Return those that tell something that lasts, the last texts first as far as the time is enough.

        Raises:
            BackendUnavailableError: The embedder cannot be reached.
        """
        lasting: dict[int, float] = {}
        first, end = max(0, len(texts) - MOST_READ), len(texts)
        longest = 0.0
        while end > first:
            remaining = deadline.remaining_seconds()
            if remaining is not None and remaining < RESERVE_SECONDS + longest:
                return ReadStatements(lasting, unread=end - first)
            started = time.monotonic()
            start = max(first, end - BATCH)
            read = [text[:READ_CHARS] for text in texts[start:end]]
            chances = self._layer.chances(self._embedder.embed_passages(read), read)
            lasting |= {start + at: float(chance) for at, chance in enumerate(chances) if chance >= LEAST_CHANCE}
            end, longest = start, max(longest, time.monotonic() - started)
        return ReadStatements(lasting, unread=0)


def load_statement_reader(embedder: Embedder) -> StatementReader | None:
    """Return a reader by the shipped layer; None for other embedders, or, with a line in the log, without it."""
    try:
        layer = StatementLayer.load(CONSTANTS)
    except UnusableConstantsError as error:
        log.warning("statements of conversations are judged by rules alone: %s", error)
        return None
    return StatementReader(layer, embedder) if embedder.model == layer.embedding_model else None
