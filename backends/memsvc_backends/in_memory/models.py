"""Reference models for tests: an embedder of hashed word pieces, a reranker by shared words, a token estimate."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager

import numpy as np
from pydantic import Field

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendClosedError, DeadlineExceededError
from memsvc.ports.models import Embedder, Reranker, Tokenizer, Vector, Vectors
from memsvc.ports.plugin import BackendContext, BackendSettings, BackendSpec
from memsvc.text.chunking import count_tokens

EMBEDDER_NAME, RERANKER_NAME = "in-memory", "in-memory reranker"

_EMBEDDED_WORD = re.compile(r"\w+")
_RERANKED_WORD = re.compile(r"[^\W_\u2e80-\uffef]+|[\u2e80-\uffef]")
_PIECE_LENGTHS = (2, 3)


class InMemoryEmbedderSettings(BackendSettings):
    """Settings of the reference embedder."""

    dimension: int = Field(default=64, ge=2, le=4096)
    """The length of every vector. In fewer dimensions more pieces collide."""


class InMemoryEmbedder:
    """Feature hashing: each word and its character bigrams and trigrams add ±1 to one dimension.

    A text without words has the first unit vector.
    """

    query_lanes = 0

    def __init__(self, dimension: int) -> None:
        """Return vectors of length *dimension*."""
        self.dimension = dimension
        self.model = f"in-memory/pieces-{dimension}"
        self._closed = False

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Embed texts, each as `embed_query` does."""
        self.ping()
        return np.array([self._embed(text) for text in texts], np.float32).reshape(len(texts), self.dimension)

    def embed_query(self, text: str) -> Vector:
        """Embed a query, as a passage."""
        self.ping()
        return self._embed(text)

    def query_part(self, text: str) -> str:
        """Return the whole query."""
        return text

    def clear_text_cache(self) -> None:
        """Return: no text is kept."""

    def ping(self) -> None:
        """Return, or raise BackendClosedError after `close`."""
        if self._closed:
            raise BackendClosedError(EMBEDDER_NAME)

    def close(self) -> None:
        """Refuse every later call."""
        self._closed = True

    def _embed(self, text: str) -> Vector:
        vector = np.zeros(self.dimension, np.float32)
        for piece in _pieces(text):
            # crc32 and not hash(), which differs from process to process.
            digest = zlib.crc32(piece.encode("utf-8", "replace"))
            vector[(digest >> 1) % self.dimension] += 1.0 if digest & 1 else -1.0
        length = float(np.linalg.norm(vector))
        if not length:
            vector[0] = length = 1.0
        return vector / np.float32(length)


def _pieces(text: str) -> Iterator[str]:
    for word in _EMBEDDED_WORD.findall(text.casefold()):
        padded = f"<{word}>"
        yield padded
        for length in _PIECE_LENGTHS:
            yield from (padded[start : start + length] for start in range(len(padded) - length + 1))


def _open_embedder(settings: InMemoryEmbedderSettings, _context: BackendContext) -> AbstractContextManager[Embedder]:
    return closing(InMemoryEmbedder(settings.dimension))


EMBEDDER: BackendSpec[Embedder] = BackendSpec(InMemoryEmbedderSettings, _open_embedder)
"""The entry point `in-memory` of embedders."""


class InMemoryReranker:
    """`memsvc.ports.models.Reranker`: the share of distinct query words in a text; a Chinese character is a word."""

    name = "in-memory/words"

    def __init__(self) -> None:
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
            raise BackendClosedError(RERANKER_NAME)

    def close(self) -> None:
        """Refuse every later call."""
        self._closed = True


def _words(text: str) -> frozenset[str]:
    return frozenset(_RERANKED_WORD.findall(text.casefold()))


def _open_reranker(_settings: BackendSettings, _context: BackendContext) -> AbstractContextManager[Reranker]:
    return closing(InMemoryReranker())


RERANKER: BackendSpec[Reranker] = BackendSpec(BackendSettings, _open_reranker)
"""The entry point `in-memory` of rerankers."""


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
def _open_tokenizer(_settings: BackendSettings, _context: BackendContext) -> Iterator[Tokenizer]:
    yield EstimatingTokenizer()


ESTIMATE: BackendSpec[Tokenizer] = BackendSpec(BackendSettings, _open_tokenizer)
"""The entry point `estimate`."""
