"""The reference embedder: hashed pieces of words. It knows no meaning, but texts that share words come out near."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing

import numpy as np
from pydantic import Field

from memsvc.domain.errors import BackendClosedError
from memsvc.ports.models import Embedder, Vector, Vectors
from memsvc.ports.plugin import BackendContext, BackendSettings, BackendSpec

NAME = "in-memory"

_WORD = re.compile(r"\w+")
_PIECE_LENGTHS = (2, 3)


class InMemoryEmbedderSettings(BackendSettings):
    """Settings of the reference embedder."""

    dimension: int = Field(default=64, ge=2, le=4096)
    """The length of every vector. In fewer dimensions more pieces collide."""


class InMemoryEmbedder:
    """Each word, and each piece of two and three characters of it, adds to or takes from one dimension.

    A text without words gives the first axis.
    """

    def __init__(self, dimension: int) -> None:
        """Embed into *dimension* dimensions."""
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

    def ping(self) -> None:
        """Return, or raise BackendClosedError after `close`."""
        if self._closed:
            raise BackendClosedError(NAME)

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
    for word in _WORD.findall(text.casefold()):
        padded = f"<{word}>"
        yield padded
        for length in _PIECE_LENGTHS:
            yield from (padded[start : start + length] for start in range(len(padded) - length + 1))


def _open(settings: InMemoryEmbedderSettings, _context: BackendContext) -> AbstractContextManager[Embedder]:
    return closing(InMemoryEmbedder(settings.dimension))


EMBEDDER: BackendSpec[Embedder] = BackendSpec(InMemoryEmbedderSettings, _open)
