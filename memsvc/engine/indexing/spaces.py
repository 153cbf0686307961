"""The models at hand: the one in use, and perhaps the one before, whose index answers until the new one is whole."""

from __future__ import annotations

from dataclasses import dataclass

from memsvc.domain.index_entries import VectorManifest
from memsvc.engine.indexing.cached_embedder import CachedEmbedder
from memsvc.engine.indexing.vector_entries import VectorEntries


@dataclass(frozen=True, slots=True)
class EmbeddingSpace:
    """A model, and what makes entries by it. In the space of the one in use, *is_current*, are given vectors too."""

    embedding: CachedEmbedder
    entries: VectorEntries
    is_current: bool = True


class EmbeddingSpaces:
    """Tells which model a generation was made by."""

    def __init__(self, current: EmbeddingSpace, previous: EmbeddingSpace | None = None) -> None:
        self.current = current
        self._previous = previous

    def of(self, manifest: VectorManifest | None) -> EmbeddingSpace | None:
        """Return the space that the vectors of a generation are in, or None when its model is not at hand."""
        if manifest is None:
            return None
        made_by = (manifest.model, manifest.dimension)
        for space in (self.current, self._previous):
            if space is not None and (space.embedding.model, space.embedding.dimension) == made_by:
                return space
        return None
