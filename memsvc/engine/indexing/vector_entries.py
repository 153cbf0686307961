"""From memories to the entries of a vector index: embed what is not known, centre, and number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, repeat

import numpy as np

from memsvc.domain.index_entries import Document, View, entry_id
from memsvc.engine.indexing.cached_embedder import CachedEmbedder
from memsvc.engine.indexing.centring import Means, centred
from memsvc.engine.indexing.views import EmbeddingGranularity, Passage, passages_of
from memsvc.engine.runtime.search_priority import SEARCH_PRIORITY
from memsvc.ports.models import Vector, Vectors
from memsvc.ports.vectors import VectorEntry

_FLOAT_BYTES = 4
_SOLE = Passage(View.CHUNK, 0, "")


class VectorEntries:
    """Makes vector entries: raw vectors first, which means are taken from, then the centred ones."""

    def __init__(self, embedding: CachedEmbedder, tier: EmbeddingGranularity) -> None:
        self._embedding = embedding
        self._tier = tier

    def raw(self, documents: Sequence[Document]) -> list[tuple[Document, list[Passage], Vectors]]:
        """Return every document with its passages and their raw vectors, embedding those not known.

        Raises:
            BackendUnavailableError: The embedder cannot be reached.
        """
        todo, vectors = self._all(documents)
        ends = list(accumulate(len(passages) for _, passages in todo))
        starts = [0, *ends]
        return [
            (document, passages, vectors[start:end])
            for (document, passages), start, end in zip(todo, starts, ends, strict=False)
        ]

    def entries(self, documents: Sequence[Document], means: Means) -> dict[int, list[VectorEntry]]:
        """Return the entries of each document by row, centred by *means*.

        Raises:
            BackendUnavailableError: The embedder cannot be reached.
        """
        todo, vectors = self._all(documents)
        # All vectors of a view at once: one by one they took ten times as long as the rest.
        views = np.array([passage.view for _, passages in todo for passage in passages], dtype=np.int8)
        moved = np.empty(vectors.shape, dtype=np.float32)
        for view in View:
            moved[views == view] = centred(vectors[views == view], means.get(view))
        rows = iter(moved)
        return {document.memory.row: _entries(document, passages, rows) for document, passages in todo}

    def embed(self, documents: Sequence[Document]) -> None:
        """Have everything embedded that `entries` needs for these documents; it then finds the vectors in the store.

        Raises:
            BackendUnavailableError: The embedder cannot be reached.
        """
        texts: list[str] = []
        for document in documents:
            has_vector = self._has_vector(document)
            texts += [passage.text for passage in self._passages(document, has_vector=has_vector)[has_vector:]]
        self._embedding.passages(texts)

    def cost(self, document: Document) -> int:
        """Return how many chunks have to be embedded, unless they were before: none when a vector was given."""
        return 0 if self._has_vector(document) else len(document.chunks)

    def _all(self, documents: Sequence[Document]) -> tuple[list[tuple[Document, list[Passage]]], Vectors]:
        """Return the passages of all documents, and their vectors one below the other."""
        todo: list[tuple[Document, list[Passage]]] = []
        texts: list[str] = []
        given: list[bytes] = []
        is_given: list[bool] = []
        model, dimension = self._embedding.model, self._embedding.dimension
        for document in documents:
            SEARCH_PRIORITY.give_way()
            has_vector = _has_vector(document, model, dimension)
            passages = self._passages(document, has_vector=has_vector)
            if has_vector:
                given.append(document.given_vector)
            texts += [passage.text for passage in passages[has_vector:]]
            is_given += [has_vector, *repeat(False, len(passages) - 1)]  # noqa: FBT003 - the value repeated
            todo.append((document, passages))
        known = np.array(is_given, dtype=bool)
        vectors = np.empty((len(is_given), dimension), dtype=np.float32)
        vectors[known] = np.frombuffer(b"".join(given), dtype="<f4").reshape(len(given), dimension)
        vectors[~known] = self._embedding.passages(texts)
        return todo, vectors

    def _passages(self, document: Document, *, has_vector: bool) -> list[Passage]:
        """Return the passages of a document; the text of one that has its vector, and is alone, is not written out."""
        return [_SOLE] if has_vector and self._tier is EmbeddingGranularity.S else passages_of(document, self._tier)

    def _has_vector(self, document: Document) -> bool:
        return _has_vector(document, self._embedding.model, self._embedding.dimension)


def _has_vector(document: Document, model: str, dimension: int) -> bool:
    return document.given_model == model and len(document.given_vector) == _FLOAT_BYTES * dimension


def _entries(document: Document, passages: Sequence[Passage], vectors: Iterator[Vector]) -> list[VectorEntry]:
    row, attributes = document.memory.row, document.attributes
    return [
        VectorEntry(entry_id(row, passage.view, passage.ordinal), passage.view, next(vectors), attributes)
        for passage in passages
    ]
