"""From memories to the entries of a vector index: embed what is not known, centre, and number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from memsvc.domain.entries import View, attributes_of, entry_id
from memsvc.domain.indexing import Document
from memsvc.engine.index.centring import Means, centred
from memsvc.engine.index.embedding import Embedding
from memsvc.engine.index.views import Passage, RetrievalTier, passages_of
from memsvc.ports.embedder import Vector, Vectors
from memsvc.ports.vectors import VectorEntry


class VectorEntries:
    """Makes vector entries: raw vectors first, which means are taken from, then the centred ones."""

    def __init__(self, embedding: Embedding, tier: RetrievalTier) -> None:
        self._embedding = embedding
        self._tier = tier

    def raw(self, documents: Sequence[Document]) -> list[tuple[Document, list[Passage], Vectors]]:
        """Return every document with its passages and their raw vectors, embedding those not known.

        Raises:
            BackendUnavailableError: The embedder cannot be reached.
        """
        todo = [(document, passages_of(document, self._tier)) for document in documents]
        given = [self._given(document) for document in documents]
        texts = [
            passage.text
            for (_, passages), vector in zip(todo, given, strict=True)
            for passage in passages[0 if vector is None else 1 :]
        ]
        embedded = self._embedding.passages(texts)
        made, start = [], 0
        for (document, passages), vector in zip(todo, given, strict=True):
            count = len(passages) - (vector is not None)
            rows = embedded[start : start + count]
            made.append((document, passages, rows if vector is None else np.vstack([vector, rows])))
            start += count
        return made

    def entries(self, documents: Sequence[Document], means: Means) -> dict[int, list[VectorEntry]]:
        """Return the entries of each document by row, centred by *means*.

        Raises:
            BackendUnavailableError: The embedder cannot be reached.
        """
        return {
            document.memory.row: self._centred(document, passages, vectors, means)
            for document, passages, vectors in self.raw(documents)
        }

    def unknown(self, documents: Sequence[Document]) -> list[Document]:
        """Return those documents whose first passage no vector was given for: the ones that cost an embedding."""
        return [document for document in documents if self._given(document) is None]

    def _given(self, document: Document) -> Vector | None:
        if not document.given_vector or document.given_model != self._embedding.model:
            return None
        return np.frombuffer(document.given_vector, dtype="<f4")

    @staticmethod
    def _centred(
        document: Document, passages: Sequence[Passage], vectors: Vectors, means: Mapping[View, Vector]
    ) -> list[VectorEntry]:
        attributes = attributes_of(document.memory)
        row = document.memory.row
        return [
            VectorEntry(
                entry_id(row, passage.view, passage.ordinal),
                passage.view,
                centred(vector, means.get(passage.view)),
                attributes,
            )
            for passage, vector in zip(passages, vectors, strict=True)
        ]
