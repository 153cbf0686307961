"""A new generation: filled and finished by a builder process, then opened in a fresh child, ready to be searched.

Why not in the child that is searched: opening took 80 ms and more in which it answered nothing. Why not the builder:
it yields to all others, and holds on to the memory that it built with.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.index_entries import VectorManifest
from memsvc.ports.faults import FaultLog
from memsvc_backends.qdrant_common.points import Changes, Slice, slices_of
from memsvc_backends.qdrant_edge.child_process import NAME, Child, Supervisor, translate
from memsvc_backends.qdrant_edge.manifest import generation_name
from memsvc_backends.qdrant_edge.settings import QdrantEdgeSettings
from memsvc_backends.qdrant_edge.watchdog import Pulse, Watchdog, processor_time

_log = logging.getLogger(__name__)
_NICENESS = 10
"""The builder yields to searches."""
_PATIENCE = 10
"""A builder may be idle for so many times what a searched child may be silent: it waits for the disk, too."""


class _Phase(Enum):
    BUILDING = "building"
    SEALED = "sealed"
    LIVE = "live"
    GONE = "gone"


class EdgeGeneration:
    """A generation under construction. For one thread at a time."""

    def __init__(
        self, manifest: VectorManifest, directory: Path, settings: QdrantEdgeSettings, faults: FaultLog
    ) -> None:
        self.manifest = manifest
        self._path = directory / generation_name(manifest.generation)
        self.shard = Supervisor(
            self._path,
            dimension=manifest.dimension,
            connections=settings.connections,
            limits=settings.limits(faults),
        )
        self._settings = settings
        self._phase = _Phase.BUILDING
        shutil.rmtree(self._path, ignore_errors=True)
        graph = (settings.graph_links, settings.graph_build_width) if manifest.hnsw else None
        with translate():
            self._builder = Child(connections=1, niceness=_NICENESS)
        self._faults = faults
        self._processor_time: int | None = None
        self._watchdog = Watchdog(_PATIENCE * settings.hang_seconds, self._find_pulse, self._give_up)
        self._watchdog.start()
        try:
            with translate():
                self._builder.call(("create", str(self._path), manifest.dimension, graph))
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
        """Replace the entries of each memory."""
        is_building = self._phase is _Phase.BUILDING
        size = self._settings.slice_points
        slices = slices_of(changes, dimension=self.manifest.dimension, size=size, is_bulk=is_building)
        with translate():
            for message, blob in writes(slices):
                if is_building:
                    self._builder.call(message, blob)
                else:
                    self.shard.call(message, blob)

    def seal(self) -> None:
        """Finish the bulk in the builder, then open the result in a child of its own."""
        try:
            with translate():
                self._builder.call(("finish",))
                self._builder.call(("close",))
                self._end_builder()
                self.shard.open()
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
        self._phase = _Phase.GONE
        self._end_builder()
        self.shard.retire()
        shutil.rmtree(self._path, ignore_errors=True)

    def abandon(self) -> None:
        """End the processes of a generation that is neither live nor gone, and leave the rest to the next opening."""
        if not self.is_unfinished:
            return
        self._phase = _Phase.GONE
        self._end_builder()
        self.shard.close()

    def _end_builder(self) -> None:
        self._builder.kill()
        self._watchdog.stop()

    def _find_pulse(self) -> Pulse:
        self._processor_time = processor_time(self._builder.pid)
        return self._builder.pulse

    def _give_up(self) -> None:
        """Kill a builder that hangs: the call that waits for it fails, and the generation is begun again later.

        One that answers no ping and works is left alone: the engine holds the interpreter lock while it builds a graph,
        which takes minutes.
        """
        if self._processor_time is None or processor_time(self._builder.pid) != self._processor_time:
            return
        _log.warning("edge builder hangs and is killed, pid %s", self._builder.pid)
        self._faults.note_replaced(NAME)
        self._builder.kill()


def writes(slices: Iterator[Slice]) -> Iterator[tuple[tuple[object, ...], bytes]]:
    """Return the requests that write the slices into a shard."""
    for part in slices:
        yield ("write", part.ids, part.payloads, part.memories), part.vectors
