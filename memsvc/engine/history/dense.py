"""Comparing the meaning of texts that no index holds any longer, by the vectors stored when they were indexed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from memsvc.domain.index_entries import Document, Hit, View
from memsvc.domain.search import SearchQuery
from memsvc.engine.indexing.cached_embedder import CachedEmbedder
from memsvc.engine.indexing.centring import centred, means_of
from memsvc.engine.indexing.vector_entries import VectorEntries
from memsvc.engine.indexing.views import EmbeddingGranularity, passages_of
from memsvc.ports.vectors import VectorIndex

EMBEDDED = 32
"""How many memories without stored vectors are embedded for one search; more would take seconds."""


class PastVectors:
    """Scores documents as the live generation of the vector index would."""

    def __init__(self, vectors: VectorIndex, embedding: CachedEmbedder, tier: EmbeddingGranularity) -> None:
        """Centre by the manifest of *vectors*; take stored vectors from *embedding*."""
        self._vectors = vectors
        self._embedding = embedding
        self._entries = VectorEntries(embedding, tier)
        self._tier = tier

    def nearest(
        self, query: SearchQuery, documents: Mapping[int, Document], first: Sequence[int]
    ) -> tuple[dict[View, list[Hit]], bool]:
        """Return a hit for each entry by view, and whether documents were left out since they have no vectors.

        Of those without, the *first* ones by row are embedded.

        Raises:
            BackendUnavailableError: The embedder cannot be reached.
        """
        manifest = self._vectors.manifest
        if manifest is None or manifest.model != self._embedding.model:
            return {}, True
        chosen, is_partial = self._affordable(documents, first)
        means = means_of(manifest)
        asked = self._embedding.query(query.text) if query.vector is None else np.asarray(query.vector, np.float32)
        hits: dict[View, list[Hit]] = {view: [] for view in manifest.views}
        for entries in self._entries.entries(chosen, means).values():
            for entry in entries:
                if entry.view in hits:
                    score = float(centred(asked, means.get(entry.view)) @ entry.vector)
                    hits[entry.view].append(Hit(entry.entry_id, score))
        return hits, is_partial

    def _affordable(self, documents: Mapping[int, Document], first: Sequence[int]) -> tuple[list[Document], bool]:
        texts = {row: [passage.text for passage in passages_of(one, self._tier)] for row, one in documents.items()}
        flat = [text for several in texts.values() for text in several]
        stored = {text for text, is_known in zip(flat, self._embedding.known(flat), strict=True) if is_known}
        absent = [row for row, several in texts.items() if not stored.issuperset(several)]
        place = {row: rank for rank, row in reversed(list(enumerate(first)))}
        absent.sort(key=lambda row: place.get(row, len(first)))
        left_out = set(absent[EMBEDDED:])
        return [one for row, one in documents.items() if row not in left_out], bool(left_out)
