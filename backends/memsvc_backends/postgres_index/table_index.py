"""An index whose generations are tables, shared by any number of processes, whatever its entries are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic

from memsvc.domain.scope import Reach
from memsvc.ports.derived_index import Generation, Listed
from memsvc_backends.postgres_index.connections import Connections
from memsvc_backends.postgres_index.filters import selection
from memsvc_backends.postgres_index.generations import Generations, Kind, Live, M, Making
from memsvc_backends.postgres_index.reading import Reading
from memsvc_backends.postgres_index.table_generation import E, TableGeneration


class TableIndex(Generic[E, M]):
    """`memsvc.ports.derived_index.DerivedIndex`, but for its changes and searches."""

    is_shared = True

    def __init__(
        self, connections: Connections, kind: Kind[M], make: Callable[[Making[M]], TableGeneration[E, M]]
    ) -> None:
        self._connections = connections
        self._make = make
        self._making: TableGeneration[E, M] | None = None
        try:
            self._generations = Generations(connections, kind)
        except BaseException:
            connections.close()
            raise
        self._reading = Reading(connections, self._generations)

    @property
    def manifest(self) -> M | None:
        """Return the manifest of the live generation, or None when there is none."""
        live = self._generations.live()
        return None if live is None else live.manifest

    def begin(self, manifest: M) -> Generation[E]:
        """Start a generation; one that was begun here before and not switched to is discarded."""
        self._connections.require_open()
        if self._making is not None:
            self._making.discard()
        self._making = self._make(self._generations.begin(manifest))
        return self._making

    def switch(self, generation: Generation[E]) -> None:
        """Make a sealed generation the live one, and remove the one before."""
        self._connections.require_open()
        if self._making is None or generation is not self._making:
            message = "The generation is not the one that was begun last."
            raise ValueError(message)
        self._making.making.publish()
        self._making = None

    def inventory(self) -> Iterator[Listed]:
        """List every entry, ascending."""
        return self._reading.inventory()

    def count(self, *, reach: Reach | None = None) -> int:
        """Return the number of entries: those in *reach*, or all."""
        return self._reading.count(None if reach is None else selection(reach, None))

    def storage_bytes(self) -> int:
        """Return the bytes of all tables and their indexes."""
        return self._reading.storage_bytes()

    def ping(self) -> None:
        """Return when the database answers, or raise BackendUnavailableError."""
        self._connections.require_open()
        self._generations.refresh()

    def close(self) -> None:
        """Give the connections back, and refuse every later use."""
        self._connections.close()
        if self._making is not None:
            self._making.making.close()

    def _require_live(self) -> Live[M]:
        """Return the live generation, or raise ValueError when there is none."""
        live = self._generations.live()
        if live is None:
            message = "The index has no generation yet."
            raise ValueError(message)
        return live
