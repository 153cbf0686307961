"""The vector index over a Qdrant server, which several processes share.

One collection holds a generation: a point for each entry, with a payload index for each filtered field. All searches
are of one owner, so there is no graph over all points but one for each owner who has enough of them (`payload_m`): what
a filter leaves below `full_scan_kilobytes` is scanned, and nothing is missed there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from qdrant_client import models

from backends.qdrant.connection import AbsentError, Connection, connected
from backends.qdrant.generations import Generations, Live
from backends.qdrant.points import require_dimension
from backends.qdrant.server_filters import filter_within, payload_indexes
from backends.qdrant.server_generation import ServerGeneration
from backends.qdrant.server_manifest import vector_manifest, vector_text
from backends.qdrant.server_points import operations, server_payload
from backends.qdrant.server_reading import Reading, best_hits
from backends.qdrant.server_settings import QdrantServerSettings, Quantization
from memsvc.domain.clock import Deadline
from memsvc.domain.entries import Hit, View
from memsvc.domain.errors import BackendUnavailableError, DeadlineExceededError
from memsvc.domain.filters import Filter
from memsvc.domain.indexing import VectorManifest
from memsvc.domain.scope import Reach
from memsvc.ports.backend import BackendContext, BackendSpec
from memsvc.ports.embedder import Vector
from memsvc.ports.index import Generation, Listed
from memsvc.ports.vectors import Deferred, PendingSearch, VectorEntry, VectorIndex

NAME = "qdrant"
_PAYLOAD_BYTES = 600
"""About what the payload of a point and its indexes take."""
_FLOAT_BYTES = 4


class QdrantServerIndex:
    """`memsvc.ports.vectors.VectorIndex`. A down server makes calls fail, and nothing else: it may come back."""

    is_shared = True

    def __init__(self, connection: Connection, settings: QdrantServerSettings, context: BackendContext) -> None:
        self._connection = connection
        self._settings = settings
        codec = (vector_text, vector_manifest)
        self._generations = Generations(connection, settings, f"{settings.prefix}-vectors", codec, context.now)
        self._reading = Reading(connection, self._generations)

    @property
    def manifest(self) -> VectorManifest | None:
        """Return the manifest of the live generation, or None when there is none.

        Raises:
            BackendUnavailableError: The server cannot be reached, and never was since the index was opened.
        """
        live = self._generations.live()
        return None if live is None else live.manifest

    def replace(self, changes: Mapping[int, Sequence[VectorEntry]]) -> None:
        """Make the entries of each memory exactly those given, in the generation whose manifest this thread read."""
        live = self._generations.written_for()
        if live is None:
            message = "The index has no generation yet."
            raise ValueError(message)
        self._write(live, changes)
        self._generations.confirm(live)

    def search(
        self, vector: Vector, *, view: View, reach: Reach, where: Filter | None = None, limit: int, deadline: Deadline
    ) -> list[Hit]:
        """Return the entries of the view nearest to the vector, best first, equal scores by entry id."""
        live = self._generations.live()
        if deadline.passed():
            raise DeadlineExceededError(NAME)
        if live is not None:
            require_dimension(vector, live.manifest.dimension)
        if live is None or limit <= 0:
            return []
        arguments = {
            "query": vector.tolist(),
            "query_filter": filter_within(reach, view, where),
            "search_params": models.SearchParams(
                hnsw_ef=max(self._settings.graph_search_width, min(limit, 1024)),
                quantization=models.QuantizationSearchParams(rescore=True, oversampling=2.0),
            ),
        }
        return self._reading.of_live(lambda found: best_hits(partial(self._asked, found, arguments, deadline), limit))

    def begin_search(
        self, vector: Vector, *, view: View, reach: Reach, where: Filter | None = None, limit: int, deadline: Deadline
    ) -> PendingSearch:
        """Return what searches when the result is asked for."""
        return Deferred(
            partial(self.search, vector, view=view, reach=reach, where=where, limit=limit, deadline=deadline)
        )

    def begin(self, manifest: VectorManifest) -> Generation[VectorEntry]:
        """Start a generation in a collection of its own."""
        made = self._generations.create(manifest, {}, **self._layout(manifest.dimension))
        try:
            for name, schema in payload_indexes().items():
                self._connection.write(
                    "create_payload_index", collection_name=made.collection, field_name=name, field_schema=schema
                )
        except BackendUnavailableError:
            self._generations.remove(made.collection)
            raise
        return ServerGeneration(self._generations, made, self._write, self._generations.remove)

    def switch(self, generation: Generation[VectorEntry]) -> None:
        """Make a sealed generation the live one; the one before is removed after a moment."""
        self._connection.require_open()
        if not isinstance(generation, ServerGeneration):
            message = "The generation is another index's."
            raise TypeError(message)
        generation.require_sealed()
        self._generations.switch(generation.made)
        generation.went_live()

    def inventory(self) -> Iterator[Listed]:
        """List the entries of the generation that is live when the first one is taken."""
        return self._reading.inventory()

    def count(self, *, reach: Reach | None = None) -> int:
        """Return the number of entries: those in *reach*, or all."""
        return self._reading.count(None if reach is None else filter_within(reach))

    def loose(self) -> int:
        """Return 0: the server packs what is written by itself."""
        self._connection.require_open()
        return 0

    def graph_pays(self) -> bool:
        """Return False: the server builds its graphs by itself."""
        self._connection.require_open()
        return False

    def storage_bytes(self) -> int:
        """Return about what the live generation takes; the server does not tell."""
        live = self._generations.live()
        if live is None:
            return 0
        return self._reading.count(None) * (live.manifest.dimension * _FLOAT_BYTES + _PAYLOAD_BYTES)

    def ping(self) -> None:
        """Return when the server answers, or raise BackendUnavailableError; then clear away what nobody wants."""
        self._connection.require_open()
        self._generations.refresh()
        self._generations.clear_away()

    def close(self) -> None:
        """Close the connections, and refuse every later use."""
        self._connection.close()

    def _asked(
        self, live: Live[VectorManifest], arguments: dict[str, Any], deadline: Deadline, limit: int
    ) -> list[tuple[int, float]]:
        found = self._connection.read(
            "query_points",
            deadline=deadline,
            collection_name=live.collection,
            limit=limit,
            with_payload=False,
            **arguments,
        )
        return [(int(point.id), float(point.score)) for point in found.points]

    def _write(self, live: Live[VectorManifest], changes: Mapping[int, Sequence[VectorEntry]]) -> None:
        for entries in changes.values():
            for entry in entries:
                require_dimension(entry.vector, live.manifest.dimension)
        for request in operations(changes, _point, size=self._settings.batch_points):
            try:
                self._connection.write(
                    "batch_update_points", collection_name=live.collection, update_operations=request, wait=True
                )
            except AbsentError as error:
                raise BackendUnavailableError(NAME) from error

    def _layout(self, dimension: int) -> dict[str, Any]:
        settings = self._settings
        return {
            "vectors_config": models.VectorParams(
                size=dimension, distance=models.Distance.COSINE, on_disk=settings.on_disk
            ),
            "hnsw_config": models.HnswConfigDiff(
                m=0,
                payload_m=settings.graph_links,
                ef_construct=settings.graph_build_width,
                full_scan_threshold=settings.full_scan_kilobytes,
            ),
            "quantization_config": _quantization(settings.quantization),
        }


def _point(entry: VectorEntry) -> models.PointStruct:
    payload = server_payload(entry.attributes, entry.view)
    return models.PointStruct(id=entry.entry_id, vector=entry.vector.tolist(), payload=payload)


def _quantization(chosen: Quantization) -> models.QuantizationConfig | None:
    if chosen is Quantization.INT8:
        scalar = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=True)
        return models.ScalarQuantization(scalar=scalar)
    if chosen is Quantization.BINARY:
        return models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True))
    return None


@contextmanager
def _open(settings: QdrantServerSettings, context: BackendContext) -> Iterator[VectorIndex]:
    index = QdrantServerIndex(connected(settings, NAME), settings, context)
    try:
        yield index
    finally:
        index.close()


SERVER: BackendSpec[VectorIndex] = BackendSpec(settings=QdrantServerSettings, open=_open)
"""A Qdrant server's vectors, as the entry point names it."""
