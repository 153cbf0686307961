"""A generation of vectors: how its manifest is written, and how it is made."""

from __future__ import annotations

import threading
from typing import Any

from backends.postgres import vector_table as tables
from backends.postgres.errors import translate
from backends.postgres.generations import Kind, Making
from backends.postgres.settings import PgvectorSettings
from backends.postgres.vector_table import Changes
from memsvc.domain.entries import View
from memsvc.domain.indexing import VectorManifest

NAME = "pgvector"
_SLICE = 256
"""Memories of one transaction while a generation is made."""


def _to_json(manifest: VectorManifest) -> dict[str, Any]:
    return {
        "generation": manifest.generation,
        "model": manifest.model,
        "dimension": manifest.dimension,
        "position": manifest.position,
        "views": [view.name for view in manifest.views],
        "means": {view.name: list(mean) for view, mean in manifest.means.items()},
        "mean_samples": manifest.mean_samples,
        "hnsw": manifest.hnsw,
    }


def _from_json(content: dict[str, Any]) -> VectorManifest:
    means = {View[name]: tuple(mean) for name, mean in content["means"].items()}
    views = tuple(View[name] for name in content["views"])
    return VectorManifest(**{**content, "views": views, "means": means})


KIND: Kind[VectorManifest] = Kind("index_vectors", ("",), _to_json, _from_json)


class PgvectorGeneration:
    """A generation that is being made."""

    def __init__(self, making: Making[VectorManifest], settings: PgvectorSettings) -> None:
        self.making = making
        self._settings = settings
        self._lock = threading.Lock()

    def replace(self, changes: Changes) -> None:
        """Make the entries of each memory exactly those given."""
        manifest = self.making.made.manifest
        require_dimensions(changes, manifest.dimension)
        with self._lock, translate(NAME):
            for part in tables.sliced(changes, _SLICE):
                tables.replace(self.making.connection, self.making.made.base, part)

    def seal(self) -> None:
        """Build the graph when the manifest asks for one, and bring the planner's knowledge up to date."""
        with self._lock, translate(NAME):
            if self.making.made.manifest.hnsw:
                tables.build_graph(self.making.connection, self.making.made.base, self._settings)
            self.making.connection.execute(f'VACUUM ANALYZE "{self.making.made.base}"'.encode())

    def discard(self) -> None:
        """Remove the generation, unless it went live."""
        self.making.discard()


def require_dimensions(changes: Changes, dimension: int) -> None:
    """Raise DimensionMismatchError unless every vector has this length."""
    for entries in changes.values():
        for entry in entries:
            tables.require_dimension(entry.vector, dimension)
