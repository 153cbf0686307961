"""A new generation: filled and finished by a short-lived process of its own, then taken over by the live child."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

from backends.qdrant.child import Child
from backends.qdrant.errors import translate
from backends.qdrant.manifest import generation_name
from backends.qdrant.points import Changes, Slice, slices_of
from backends.qdrant.settings import QdrantEdgeSettings
from backends.qdrant.supervisor import Supervisor
from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.indexing import VectorManifest

_log = logging.getLogger(__name__)
_NICENESS = 10
"""The builder gives way to searches."""


class _Phase(Enum):
    BUILDING = "building"
    SEALED = "sealed"
    LIVE = "live"
    GONE = "gone"


class EdgeGeneration:
    """A generation that is being made. From one thread at a time."""

    def __init__(
        self, manifest: VectorManifest, directory: Path, supervisor: Supervisor, settings: QdrantEdgeSettings
    ) -> None:
        self.manifest = manifest
        self.name = generation_name(manifest.generation)
        self._path = directory / self.name
        self._supervisor = supervisor
        self._settings = settings
        self._phase = _Phase.BUILDING
        shutil.rmtree(self._path, ignore_errors=True)
        graph = (settings.graph_links, settings.graph_build_width) if manifest.hnsw else None
        with translate():
            self._builder = Child(connections=1, niceness=_NICENESS)
        try:
            with translate():
                self._builder.call(("create", self.name, str(self._path), manifest.dimension, graph))
        except BackendUnavailableError:
            self.discard()
            raise

    @property
    def is_unfinished(self) -> bool:
        """Return whether the generation is neither live nor gone."""
        return self._phase in {_Phase.BUILDING, _Phase.SEALED}

    @property
    def builder_pid(self) -> int:
        """Return the process id of the builder, for diagnosis."""
        return self._builder.pid

    def replace(self, changes: Changes) -> None:
        """Make the entries of each memory exactly those given."""
        is_building = self._phase is _Phase.BUILDING
        size = self._settings.slice_points
        slices = slices_of(changes, dimension=self.manifest.dimension, size=size, is_bulk=is_building)
        with translate():
            for message, blob in writes(self.name, slices):
                if is_building:
                    self._builder.call(message, blob)
                else:
                    self._supervisor.call(message, blob)

    def seal(self) -> None:
        """Finish the bulk in the builder, then open the result in the live child."""
        try:
            with translate():
                self._builder.call(("finish", self.name))
                self._builder.call(("close", self.name))
                self._builder.kill()
                self._supervisor.open(self.name, self._path, self.manifest.dimension)
        except BackendUnavailableError:
            self.discard()
            raise
        self._phase = _Phase.SEALED
        _log.info("vector generation sealed, number %s", self.manifest.generation)

    def require_sealed(self) -> None:
        """Raise ValueError unless the generation can go live."""
        if self._phase is not _Phase.SEALED:
            message = f"The generation {self.manifest.generation} is {self._phase.value}, not sealed."
            raise ValueError(message)

    def went_live(self) -> None:
        """Note that the generation is the index's now, so that discarding it does nothing."""
        self._phase = _Phase.LIVE

    def discard(self) -> None:
        """Remove the generation, unless it is live or gone."""
        if not self.is_unfinished:
            return
        is_open = self._phase is _Phase.SEALED
        self._phase = _Phase.GONE
        self._builder.kill()
        if is_open:
            self._supervisor.close_shard(self.name)
        shutil.rmtree(self._path, ignore_errors=True)

    def abandon(self) -> None:
        """End the builder and leave the rest to the next opening."""
        self._phase = _Phase.GONE
        self._builder.kill()


def writes(name: str, slices: Iterator[Slice]) -> Iterator[tuple[tuple[object, ...], bytes]]:
    """Return the requests that write the slices into a shard."""
    for part in slices:
        yield ("write", name, part.ids, part.payloads, part.memories), part.vectors
