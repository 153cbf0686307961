"""The plain vector index: every search compares with every vector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from functools import partial
from threading import Lock

import numpy as np

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendClosedError, DeadlineExceededError, DimensionMismatchError
from memsvc.domain.filter_evaluation import matches, within
from memsvc.domain.filters import Filter
from memsvc.domain.index_entries import Hit, VectorManifest, View
from memsvc.domain.scope import Reach
from memsvc.ports.indexes import DeferredSearch, Generation, ListedEntry, PendingSearch, VectorEntry, VectorIndex
from memsvc.ports.models import Vector
from memsvc.ports.plugin import BackendContext, BackendSettings, BackendSpec

NAME = "in-memory vectors"


class InMemoryVectorGeneration:
    """The entries of one generation, by the row of their memory."""

    def __init__(self, manifest: VectorManifest) -> None:
        self.manifest = manifest
        self._memories: dict[int, tuple[VectorEntry, ...]] = {}
        self._lock = Lock()

    def replace(self, changes: Mapping[int, Sequence[VectorEntry]]) -> None:
        """Make the entries of each memory exactly those given."""
        for entries in changes.values():
            for entry in entries:
                self.require_dimension(entry.vector)
        with self._lock:
            for row, entries in changes.items():
                self._memories.pop(row, None)
                if entries:
                    self._memories[row] = tuple(entries)

    def seal(self) -> None:
        """Do nothing: all is in place."""

    def discard(self) -> None:
        """Do nothing: nothing is kept of a generation that no index holds."""

    def require_dimension(self, vector: Vector) -> None:
        """Raise DimensionMismatchError unless the vector has the length of the manifest."""
        if vector.shape != (self.manifest.dimension,):
            raise DimensionMismatchError(self.manifest.dimension, vector.size)

    def entries(self) -> list[VectorEntry]:
        """Return all entries as of now."""
        with self._lock:
            return [entry for entries in self._memories.values() for entry in entries]


class InMemoryVectorIndex:
    """Exact search over vectors kept in a dict; nothing survives closing."""

    is_shared = False

    def __init__(self) -> None:
        self._live: InMemoryVectorGeneration | None = None
        self._is_closed = False

    @property
    def manifest(self) -> VectorManifest | None:
        """Return the manifest of the live generation, or None when there is none."""
        live = self._open()
        return None if live is None else live.manifest

    def replace(self, changes: Mapping[int, Sequence[VectorEntry]]) -> None:
        """Make the entries of each memory exactly those given."""
        live = self._open()
        if live is None:
            message = "The index has no generation yet."
            raise ValueError(message)
        live.replace(changes)

    def search(
        self, vector: Vector, *, view: View, reach: Reach, where: Filter | None = None, limit: int, deadline: Deadline
    ) -> list[Hit]:
        """Return the entries of the view nearest to the vector, best first, equal scores by entry id."""
        live = self._open()
        if deadline.has_passed():
            raise DeadlineExceededError(NAME)
        if live is None:
            return []
        live.require_dimension(vector)
        hits = [
            Hit(entry.entry_id, _cosine(entry.vector, vector))
            for entry in live.entries()
            if entry.view == view and within(reach, entry.attributes) and matches(where, entry.attributes)
        ]
        return sorted(hits, key=lambda hit: (-hit.score, hit.entry_id))[:limit]

    def begin_search(
        self, vector: Vector, *, view: View, reach: Reach, where: Filter | None = None, limit: int, deadline: Deadline
    ) -> PendingSearch:
        """Return what searches when the result is asked for."""
        return DeferredSearch(
            partial(self.search, vector, view=view, reach=reach, where=where, limit=limit, deadline=deadline)
        )

    def begin(self, manifest: VectorManifest) -> Generation[VectorEntry]:
        """Start an empty generation."""
        self._open()
        return InMemoryVectorGeneration(manifest)

    def switch(self, generation: Generation[VectorEntry]) -> None:
        """Make the generation the live one."""
        self._open()
        if not isinstance(generation, InMemoryVectorGeneration):
            message = "The generation is another index's."
            raise TypeError(message)
        self._live = generation

    def inventory(self) -> Iterator[ListedEntry]:
        """List every entry as of the call."""
        live = self._open()
        entries = [] if live is None else live.entries()
        return iter([ListedEntry(entry.entry_id, entry.attributes.fingerprint) for entry in entries])

    def count(self, *, reach: Reach | None = None) -> int:
        """Return the number of entries: those in *reach*, or all."""
        live = self._open()
        entries = [] if live is None else live.entries()
        return sum(reach is None or within(reach, entry.attributes) for entry in entries)

    def unsealed_count(self) -> int:
        """Return 0: nothing is searched more slowly than anything else."""
        self._open()
        return 0

    def wants_graph(self) -> bool:
        """Return False: there is no graph to build."""
        self._open()
        return False

    def storage_bytes(self) -> int:
        """Return 0: nothing is on disk."""
        self._open()
        return 0

    def ping(self) -> None:
        """Return while the index is open."""
        self._open()

    def close(self) -> None:
        """Refuse every later use."""
        self._is_closed = True
        self._live = None

    def _open(self) -> InMemoryVectorGeneration | None:
        if self._is_closed:
            raise BackendClosedError(NAME)
        return self._live


def _cosine(one: Vector, other: Vector) -> float:
    length = float(np.linalg.norm(one)) * float(np.linalg.norm(other))
    return float(one @ other) / length if length else 0.0


def _open(_settings: BackendSettings, _context: BackendContext) -> AbstractContextManager[VectorIndex]:
    return closing(InMemoryVectorIndex())


VECTORS: BackendSpec[VectorIndex] = BackendSpec(settings=BackendSettings, open=_open)
