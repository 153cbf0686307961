"""A small network that reads off the embedding, the tokens and the words of a statement whether it tells what lasts.

    p = 1 / (1 + exp(-z))
    z = w · unit(v - m) + u · f + r[reason] + o · max(0, H · s + h) + b
    s = the values Vₖ · x of the tokens, for each of 8 heads k their mean, weighted by exp(qₖ · x)

v is the embedding of the statement as a passage, m the mean embedding of neutral texts of its script, f the counts of
its phrases, scaled to the length 1: of one to three words, or one to four characters of Han text, simplified, each at
one of 32 768 places by a hash. The reason is that of the verdict of the rules, and x the packed vector of a token, 128
signs. Of an embedder that gives the same embeddings without tokens, as a server elsewhere, a linear sum with weights
of its own is read instead: z = w' · unit(v - m) + a · (u · f) + r'[reason] + b'. The rules know the words of many
things that people say of themselves; "Chuy's been my foreman since '03" has none of them. And they take some
statements for more than they are, for a name or a number, such as "这题我算出来是 42".
The constants are fitted by `python -m tests.bench.agent_day.statements` on what made-up people say of their lives, and
on small talk, requests, stories and news.
"""

from __future__ import annotations

import logging
import re
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from memsvc.domain.capture import CaptureReason
from memsvc.domain.clock import Deadline
from memsvc.engine.conflicts.replacement import centre
from memsvc.engine.runtime.fitted_constants import UnusableConstantsError, read_constants, refuse_shapes, save_constants
from memsvc.ports.models import Embedder, Vectors, token_embedder
from memsvc.text.analysis import is_han, simplified_form
from memsvc.text.capture_cues import plain_words

Floats = npt.NDArray[np.float64]
CONSTANTS = Path(__file__).with_name("statement_layer.npz")
PHRASE_PLACES = 32_768
MOST_WORDS = 3
MOST_CHARACTERS = 4
TOKEN_BITS = 128
MOST_TOKENS = 64
"""Number of tokens of a statement that are read."""
REASONS = (
    CaptureReason.FACT,
    CaptureReason.PROJECT_FACT,
    CaptureReason.EXPERIENCE,
    CaptureReason.OPINION,
    CaptureReason.PERSONAL_FACT,
    CaptureReason.PREFERENCE,
    CaptureReason.RULE,
    CaptureReason.DECISION,
    CaptureReason.KNOWLEDGE,
    CaptureReason.TASK,
    CaptureReason.NOTHING,
    CaptureReason.PASSING,
    CaptureReason.QUESTION,
    CaptureReason.COMMAND,
)
"""Reasons of the rules for which a statement is read."""
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


@dataclass(frozen=True, slots=True, eq=False)
class LayerConstants:
    """Constants of the network; n heads, each of d values, and k neurons.

    Attributes:
        means: m of other scripts and of Han text: [2, dimension].
        embedding: w, and last b: [dimension + 1].
        phrases: u: [`PHRASE_PLACES`].
        reasons: r, of `REASONS`: [reasons].
        queries: q: [128, n].
        values: V: [128, n · d].
        neurons: H, and last h: [n · d + 1, k].
        output: o: [k].
        without_tokens: w', b', r' and a: [dimension + 1 + reasons + 1].
    """

    means: Floats
    embedding: Floats
    phrases: Floats
    reasons: Floats
    queries: Floats
    values: Floats
    neurons: Floats
    output: Floats
    without_tokens: Floats

    @property
    def shapes_agree(self) -> bool:
        """Return whether each array has the shape that the others ask for."""
        return (
            self.embedding.ndim == self.output.ndim == 1
            and self.queries.ndim == self.values.ndim == 2  # noqa: PLR2004 - matrices
            and self.means.shape == (2, len(self.embedding) - 1)
            and self.phrases.shape == (PHRASE_PLACES,)
            and self.reasons.shape == (len(REASONS),)
            and len(self.queries) == len(self.values) == TOKEN_BITS
            and self.values.shape[1] % self.queries.shape[1] == 0
            and self.neurons.shape == (self.values.shape[1] + 1, len(self.output))
            and self.without_tokens.shape == (len(self.embedding) + len(REASONS) + 1,)
        )


@dataclass(frozen=True, slots=True)
class JudgedText:
    """A text of the user, and why the rules remember it or not."""

    text: str
    reason: CaptureReason


class StatementLayer:
    """The network for vectors of one model. Immutable, so it is safe to call from several threads.

    Attributes:
        embedding_model: The model of the embeddings that it reads.
        token_model: The model of the tokens that it reads.
    """

    def __init__(self, embedding_model: str, token_model: str, constants: LayerConstants) -> None:
        """Take the constants."""
        self.embedding_model = embedding_model
        self.token_model = token_model
        self._constants = constants

    @classmethod
    def load(cls, path: Path) -> StatementLayer:
        """Read the constants of a file.

        Raises:
            UnusableConstantsError: The file is missing or damaged.
        """
        models, arrays = read_constants(path, [one.name for one in fields(LayerConstants)])
        constants = LayerConstants(*(one.astype(np.float64) for one in arrays))
        if not constants.shapes_agree:
            raise refuse_shapes(path)
        embedding_model, _, token_model = models.partition(" ")
        return cls(embedding_model, token_model, constants)

    def save(self, path: Path) -> None:
        """Write the constants to a file, as half-precision numbers that are rounded."""
        arrays = {one.name: getattr(self._constants, one.name) for one in fields(LayerConstants)}
        save_constants(path, f"{self.embedding_model} {self.token_model}", arrays)

    def chances(self, statements: Sequence[JudgedText], vectors: Vectors, tokens: Sequence[bytes] | None) -> Floats:
        """Return the probability that each statement tells something that lasts, by its embedding and its tokens."""
        own = self._constants
        flags = np.array([[one is judged.reason for one in REASONS] for judged in statements], dtype=np.float64)
        centred = centre(vectors, own.means, [is_han(one.text) for one in statements])
        phrases = np.array([self._phrases(one.text) for one in statements])
        if tokens is None:
            parts = np.column_stack([centred, np.ones(len(statements)), flags, phrases])
            slopes = parts @ own.without_tokens
        else:
            slopes = centred @ own.embedding[:-1] + own.embedding[-1] + phrases + flags @ own.reasons
            slopes += np.array([self._read(token_signs(packed)) for packed in tokens])
        found: Floats = 1.0 / (1.0 + np.exp(-np.clip(slopes, -_STEEPEST, _STEEPEST)))
        return found

    def _phrases(self, text: str) -> float:
        """Return u · f."""
        places, counts = phrase_counts(text)
        return float(counts @ self._constants.phrases[places])

    def _read(self, signs: Floats) -> float:
        """Return o · max(0, H · s + h) of the tokens, [tokens, 128]."""
        own = self._constants
        heads = own.queries.shape[1]
        logits = signs @ own.queries
        weights = np.exp(logits - logits.max(axis=0, initial=-np.inf))
        weights /= np.maximum(weights.sum(axis=0), 1e-9)
        values = (signs @ own.values).reshape(len(signs), heads, own.values.shape[1] // heads)
        pooled = np.einsum("th,thd->hd", weights, values).ravel()
        return float(np.maximum(pooled @ own.neurons[:-1] + own.neurons[-1], 0.0) @ own.output)


def token_signs(packed: bytes) -> Floats:
    """Return the signs of the first tokens of a text, 1 or -1: [tokens, 128]."""
    bits = np.frombuffer(packed, np.uint8)[: MOST_TOKENS * TOKEN_BITS // 8].reshape(-1, TOKEN_BITS // 8)
    signs: Floats = np.unpackbits(bits, axis=1).astype(np.float64) * 2.0 - 1.0
    return signs


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
        """Read by *layer*, which is made for the model of *embedder*; its tokens are read if it gives them."""
        self._layer = layer
        self._embedder = embedder
        tokens = token_embedder(embedder)
        self._tokens = tokens if tokens is not None and tokens.token_model == layer.token_model else None

    def read(self, statements: Sequence[JudgedText], deadline: Deadline) -> ReadStatements:
        """Return how probable it is that each tells something that lasts, of the last ones if the time is short.

        Raises:
            BackendUnavailableError: The embedder cannot be reached.
        """
        found: dict[int, float] = {}
        first, end = max(0, len(statements) - MOST_READ), len(statements)
        longest = 0.0
        while end > first:
            remaining = deadline.remaining_seconds()
            if remaining is not None and remaining < RESERVE_SECONDS + longest:
                return ReadStatements(found, unread=end - first)
            started = time.monotonic()
            start = max(first, end - BATCH)
            chances = self._chances([replace(one, text=one.text[:READ_CHARS]) for one in statements[start:end]])
            found |= {start + at: float(chance) for at, chance in enumerate(chances)}
            end, longest = start, max(longest, time.monotonic() - started)
        return ReadStatements(found, unread=0)

    def _chances(self, statements: Sequence[JudgedText]) -> Floats:
        texts = [one.text for one in statements]
        if self._tokens is None:
            return self._layer.chances(statements, self._embedder.embed_passages(texts), None)
        return self._layer.chances(statements, *self._tokens.embed_passages_with_tokens(texts))


def load_statement_reader(embedder: Embedder) -> StatementReader | None:
    """Return a reader by the shipped layer; None for other embedders, or, with a line in the log, without it."""
    try:
        layer = StatementLayer.load(CONSTANTS)
    except UnusableConstantsError as error:
        log.warning("statements of conversations are judged by rules alone: %s", error)
        return None
    return StatementReader(layer, embedder) if embedder.model == layer.embedding_model else None
