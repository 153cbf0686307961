"""A layer that reads off the embedding and the words of a statement whether it tells something that lasts.

    p = 1 / (1 + exp(-(w · unit(v - m) + u · f + b)))

v is the embedding of the statement as a passage, m the mean embedding of neutral texts of its script, f the counts of
its phrases, scaled to the length 1: of one to three words, or one to four characters of Han text, simplified, each at
one of 32 768 places by a hash. The rules know the words of many things that people say of themselves; "Chuy's been my
foreman since '03" has none of them. And they take some statements for more than they are, for a name or a number, such
as "这题我算出来是 42". The layer is fitted by `python -m tests.bench.agent_day.statements` on what made-up people say
of their lives, and on small talk, requests, stories and news.
"""

from __future__ import annotations

import logging
import re
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from memsvc.domain.clock import Deadline
from memsvc.engine.conflicts.replacement import centre
from memsvc.engine.runtime.fitted_constants import UnusableConstantsError, read_constants, refuse_shapes, save_constants
from memsvc.ports.models import Embedder, Vectors
from memsvc.text.analysis import is_han, simplified_form
from memsvc.text.capture_cues import plain_words

Floats = npt.NDArray[np.float64]
CONSTANTS = Path(__file__).with_name("statement_layer.npz")
PHRASE_PLACES = 32_768
MOST_WORDS = 3
MOST_CHARACTERS = 4
MOST_READ = 256
"""Number of statements of one text or conversation that are read, the last ones: each costs some milliseconds."""
BATCH = 32
"""Number of statements that are embedded between two looks at the deadline."""
RESERVE_SECONDS = 1.0
"""Time reserved for the write."""
READ_CHARS = 400
"""As much of a statement is embedded."""
_STEEPEST = 30.0
_SPACES = re.compile(r"\s+")
log = logging.getLogger(__name__)


class StatementLayer:
    """The layer of one embedding model. Immutable, so it is safe to call from several threads.

    Attributes:
        embedding_model: The model of the embeddings that it reads.
    """

    def __init__(self, embedding_model: str, means: Floats, weights: Floats, phrases: Floats) -> None:
        """Take m of other scripts and of Han text, [2, dimension], w with b at its end, [dimension + 1], and u."""
        self.embedding_model = embedding_model
        self._means = means
        self._weights = weights
        self._phrases = phrases

    @classmethod
    def load(cls, path: Path) -> StatementLayer:
        """Read the constants of a file.

        Raises:
            UnusableConstantsError: The file is missing or damaged.
        """
        model, arrays = read_constants(path, ("means", "weights", "phrases"))
        means, weights, phrases = (one.astype(np.float64) for one in arrays)
        if weights.ndim != 1 or means.shape != (2, len(weights) - 1) or phrases.shape != (PHRASE_PLACES,):
            raise refuse_shapes(path)
        return cls(model, means, weights, phrases)

    def save(self, path: Path) -> None:
        """Write the constants to a file, as half-precision numbers that are rounded."""
        arrays = {"means": self._means, "weights": self._weights, "phrases": self._phrases}
        save_constants(path, self.embedding_model, arrays)

    def chances(self, vectors: Vectors, texts: Sequence[str]) -> Floats:
        """Return the probability that each of *texts*, whose embeddings are *vectors*, tells something that lasts."""
        centred = centre(vectors, self._means, [is_han(text) for text in texts])
        slopes = centred @ self._weights[:-1] + self._weights[-1]
        for at, text in enumerate(texts):
            places, counts = phrase_counts(text)
            slopes[at] += counts @ self._phrases[places]
        found: Floats = 1.0 / (1.0 + np.exp(-np.clip(slopes, -_STEEPEST, _STEEPEST)))
        return found


def phrase_counts(text: str) -> tuple[npt.NDArray[np.int64], Floats]:
    """Return the places of the phrases of a text, each once, and their counts, scaled to the length 1.

    The beginning and the end count as words, a question mark too; every number counts as the same word.
    """
    if is_han(text):
        characters = f"^{_SPACES.sub('', simplified_form(text).lower())}$"
        phrases = _runs(characters, MOST_CHARACTERS)
    else:
        words = ["#" if word[0].isdecimal() else word for word in plain_words(text)]
        phrases = _runs(["^", *words, "?" if text.rstrip().endswith("?") else "$"], MOST_WORDS)
    places, counts = np.unique(
        [zlib.crc32(phrase.encode("utf-8", "replace")) % PHRASE_PLACES for phrase in phrases], return_counts=True
    )
    return places, counts / np.linalg.norm(counts)


def _runs(parts: Sequence[str], most: int) -> list[str]:
    """Return the texts of all runs of one to *most* neighbours."""
    return [
        " ".join(parts[start : start + length])
        for length in range(1, most + 1)
        for start in range(len(parts) - length + 1)
    ]


@dataclass(frozen=True, slots=True)
class ReadStatements:
    """Result of the reading of statements.

    Attributes:
        chances: The probabilities that they tell something that lasts, by their places.
        unread: The number of those for which there was no time.
    """

    chances: Mapping[int, float]
    unread: int


class StatementReader:
    """Reads statements by a layer and its embedder. Thread-safe."""

    def __init__(self, layer: StatementLayer, embedder: Embedder) -> None:
        """Read by *layer*, which is made for the model of *embedder*."""
        self._layer = layer
        self._embedder = embedder

    def read(self, texts: Sequence[str], deadline: Deadline) -> ReadStatements:
        """Return how probable it is that each tells something that lasts, of the last texts if the time is short.

        Raises:
            BackendUnavailableError: The embedder cannot be reached.
        """
        found: dict[int, float] = {}
        first, end = max(0, len(texts) - MOST_READ), len(texts)
        longest = 0.0
        while end > first:
            remaining = deadline.remaining_seconds()
            if remaining is not None and remaining < RESERVE_SECONDS + longest:
                return ReadStatements(found, unread=end - first)
            started = time.monotonic()
            start = max(first, end - BATCH)
            read = [text[:READ_CHARS] for text in texts[start:end]]
            chances = self._layer.chances(self._embedder.embed_passages(read), read)
            found |= {start + at: float(chance) for at, chance in enumerate(chances)}
            end, longest = start, max(longest, time.monotonic() - started)
        return ReadStatements(found, unread=0)


def load_statement_reader(embedder: Embedder) -> StatementReader | None:
    """Return a reader by the shipped layer; None for other embedders, or, with a line in the log, without it."""
    try:
        layer = StatementLayer.load(CONSTANTS)
    except UnusableConstantsError as error:
        log.warning("statements of conversations are judged by rules alone: %s", error)
        return None
    return StatementReader(layer, embedder) if embedder.model == layer.embedding_model else None
