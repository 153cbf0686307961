"""The embedder port on fastembed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from fastembed import TextEmbedding

from memsvc.domain.errors import BackendClosedError
from memsvc.ports.models import Vector, Vectors
from memsvc_backends.fastembed.models import NAME
from memsvc_backends.fastembed.settings import FastembedSettings

PROBE = "How long is a vector?"


class FastembedEmbedder:
    """An ONNX model in this process. Calls run side by side; passages go a few at a time, so no query waits long."""

    def __init__(self, model: TextEmbedding, settings: FastembedSettings) -> None:
        """Embed by a loaded *model*."""
        self._loaded: TextEmbedding | None = model
        self._settings = settings
        self.dimension = len(self._embed([PROBE])[0])
        self.model = _space(settings, self.dimension)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Embed texts, `batch_items` at a time."""
        self.ping()
        found = np.empty((len(texts), self.dimension), np.float32)
        size = self._settings.batch_items
        for start in range(0, len(texts), size):
            part = texts[start : start + size]
            found[start : start + len(part)] = self._embed([self._settings.passage_prefix + text for text in part])
        return found

    def embed_query(self, text: str) -> Vector:
        """Embed a query."""
        found: Vector = self._embed([self._settings.query_prefix + text])[0]
        return found

    def ping(self) -> None:
        """Return when the model is loaded."""
        self._model()

    def close(self) -> None:
        """Give the model back; calls under way keep it until they end."""
        self._loaded = None

    def _model(self) -> TextEmbedding:
        if self._loaded is None:
            raise BackendClosedError(NAME)
        return self._loaded

    def _embed(self, texts: Sequence[str]) -> Vectors:
        # The tokenizer is native and takes UTF-8; half a surrogate pair has none.
        whole = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        vectors = np.array(list(self._model().embed(whole, batch_size=len(whole))), np.float32)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors[~(lengths > 0)[:, 0], 0] = 1.0
        return np.ascontiguousarray(vectors / np.where(lengths > 0, lengths, 1.0), dtype=np.float32)


def _space(settings: FastembedSettings, dimension: int) -> str:
    """Return the name of the vector space: the model's, with a mark for what else makes the vectors of passages."""
    name = f"{NAME}/{settings.model}@{dimension}"
    if not settings.passage_prefix:
        return name
    return f"{name}#{hashlib.sha256(settings.passage_prefix.encode()).hexdigest()[:8]}"
