"""The embedded vector index: Qdrant Edge in a child process, exact unless a generation has a graph."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from backends.qdrant.builder import EdgeGeneration, writes
from backends.qdrant.child import NO_HURRY
from backends.qdrant.errors import NAME, ChildDiedError, EdgeFaultError, ShardClosedError, translate
from backends.qdrant.filters import OWNER, SEALED, Condition, filter_of
from backends.qdrant.frames import Message
from backends.qdrant.manifest import (
    ManifestError,
    disk_bytes,
    generation_name,
    read_manifest,
    remove_leftovers,
    remove_manifest,
    write_manifest,
)
from backends.qdrant.points import FINGERPRINT, Changes, require_dimension, slices_of, vector_bytes
from backends.qdrant.settings import QdrantEdgeSettings
from backends.qdrant.supervisor import Supervisor
from memsvc.domain.clock import Deadline
from memsvc.domain.entries import Hit, View, hits_of
from memsvc.domain.errors import BackendClosedError, DeadlineExceededError
from memsvc.domain.filters import Filter
from memsvc.domain.indexing import VectorManifest
from memsvc.domain.scope import Reach
from memsvc.ports.backend import BackendContext, BackendSpec
from memsvc.ports.embedder import Vector
from memsvc.ports.index import Generation, Listed
from memsvc.ports.vectors import VectorEntry, VectorIndex

_log = logging.getLogger(__name__)
_PAGE = 250
"""Points of one page of the inventory: 2 ms, for which searches wait."""


class QdrantEdgeIndex:
    """A VectorIndex over a directory of generations; every request names the one it means.

    The child knows no live generation, so a switch is one assignment here. A search that comes too late for the
    generation it names is told so, and repeated.
    """

    def __init__(self, settings: QdrantEdgeSettings, context: BackendContext) -> None:
        self._settings = settings
        self._directory = context.directory
        self._supervisor = Supervisor(settings)
        self._unfinished: list[EdgeGeneration] = []
        self._is_closed = False
        self._directory.mkdir(parents=True, exist_ok=True)
        self._live = self._open_live()
        remove_leftovers(self._directory, self._live)

    @property
    def manifest(self) -> VectorManifest | None:
        """Return the manifest of the live generation, or None when there is none."""
        if self._is_closed:
            raise BackendClosedError(NAME)
        return self._live

    @property
    def child_pid(self) -> int | None:
        """Return the process id of the child, for diagnosis."""
        return self._supervisor.pid

    def replace(self, changes: Changes) -> None:
        """Make the entries of each memory exactly those given, in slices between searches."""
        live = self.manifest
        if live is None:
            message = "The index has no generation yet."
            raise ValueError(message)
        slices = slices_of(changes, dimension=live.dimension, size=self._settings.slice_points)
        with translate():
            for request, blob in writes(generation_name(live.generation), slices):
                self._supervisor.call(request, blob)

    def search(
        self, vector: Vector, *, view: View, reach: Reach, where: Filter | None = None, limit: int, deadline: Deadline
    ) -> list[Hit]:
        """Return the entries of the view nearest to the vector, best first, equal scores by entry id."""
        live = self.manifest
        if deadline.passed():
            raise DeadlineExceededError(NAME)
        if live is None:
            return []
        require_dimension(vector, live.dimension)
        if limit <= 0:
            return []
        condition = filter_of(reach, view, where)

        def request(live: VectorManifest) -> Message:
            require_dimension(vector, live.dimension)
            width = self._settings.graph_search_width if live.hnsw else None
            return "search", generation_name(live.generation), condition, limit, width

        with translate():
            ids, scores = self._ask(request, blob=vector_bytes([vector]), deadline=deadline)
        return hits_of(ids, scores)

    def begin(self, manifest: VectorManifest) -> Generation[VectorEntry]:
        """Start a generation in a builder process."""
        live = self.manifest
        if live is not None and manifest.generation <= live.generation:
            message = f"The generation {manifest.generation} is not newer than {live.generation}."
            raise ValueError(message)
        generation = EdgeGeneration(manifest, self._directory, self._supervisor, self._settings)
        self._unfinished = [*(each for each in self._unfinished if each.is_unfinished), generation]
        return generation

    def switch(self, generation: Generation[VectorEntry]) -> None:
        """Make a sealed generation the live one, and remove the one before."""
        before = self.manifest
        if not isinstance(generation, EdgeGeneration):
            message = "The generation is another index's."
            raise TypeError(message)
        generation.require_sealed()
        write_manifest(self._directory, generation.manifest)
        self._live = generation.manifest
        generation.went_live()
        if before is not None:
            self._supervisor.close_shard(generation_name(before.generation))
            remove_leftovers(self._directory, generation.manifest)

    def inventory(self) -> Iterator[Listed]:
        """List the entries of the generation that is live when the first one is taken."""
        live = self.manifest
        start: int | None = None if live is None else 0
        while start is not None and live is not None:
            request = "page", generation_name(live.generation), start, _PAGE, FINGERPRINT
            with translate():
                ids, fingerprints, start = self._supervisor.call(request)
            yield from map(Listed, ids, fingerprints)

    def count(self, *, reach: Reach | None = None) -> int:
        """Return the number of entries: those in *reach*, or all."""
        return self._count(None if reach is None else filter_of(reach))

    def loose(self) -> int:
        """Return how many entries were written since the live generation was sealed."""
        self._require_open()
        return self._count(None) - self._count({"must": [SEALED]})

    def graph_pays(self) -> bool:
        """Return whether one owner has so many entries that a graph answers quicker than a scan."""
        self._require_open()
        with translate():
            largest = self._ask(lambda live: ("largest", generation_name(live.generation), OWNER)) or 0
        return bool(largest >= self._settings.graph_threshold)

    def storage_bytes(self) -> int:
        """Return the bytes on disk of all generations."""
        self._require_open()
        return disk_bytes(self._directory)

    def ping(self) -> None:
        """Return when the child answers and has the live generation open, or raise BackendUnavailableError."""
        live = self.manifest
        message = ("ping",) if live is None else ("count", generation_name(live.generation), None)
        with translate():
            try:
                self._supervisor.call(message, deadline=Deadline.after(self._settings.ping_seconds))
            except DeadlineExceededError as error:
                raise ChildDiedError from error

    def close(self) -> None:
        """End the builders and the child. Harmless when it is done."""
        self._is_closed = True
        for generation in self._unfinished:
            generation.abandon()
        self._supervisor.close()

    def _ask(
        self, request: Callable[[VectorManifest], Message], *, blob: bytes = b"", deadline: Deadline = NO_HURRY
    ) -> Any:
        """Ask the live generation, and the one after it when it was switched meanwhile."""
        live = self.manifest
        while live is not None:
            try:
                return self._supervisor.call(request(live), blob, deadline=deadline)
            except ShardClosedError:
                if self._live == live:
                    raise
                live = self._live
        return None

    def _count(self, where: Condition | None) -> int:
        with translate():
            return self._ask(lambda live: ("count", generation_name(live.generation), where)) or 0

    def _require_open(self) -> None:
        if self._is_closed:
            raise BackendClosedError(NAME)

    def _open_live(self) -> VectorManifest | None:
        """Open the live generation; what cannot be read is given up, since it can be built again."""
        try:
            live = read_manifest(self._directory)
            if live is not None:
                name = generation_name(live.generation)
                self._supervisor.open(name, self._directory / name, live.dimension)
        except (ManifestError, EdgeFaultError, ChildDiedError) as error:
            _log.warning("vector index given up, it has to be built again: %s", error)
            remove_manifest(self._directory)
            return None
        return live


@contextmanager
def _open(settings: QdrantEdgeSettings, context: BackendContext) -> Iterator[VectorIndex]:
    index = QdrantEdgeIndex(settings, context)
    try:
        yield index
    finally:
        index.close()


EDGE: BackendSpec[VectorIndex] = BackendSpec(settings=QdrantEdgeSettings, open=_open)
"""Qdrant Edge, as the entry point names it."""
