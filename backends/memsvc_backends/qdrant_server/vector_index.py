"""The vector index over a Qdrant server, which several processes share.

One collection holds a generation: a point for each entry, with a payload index for each filtered field. All searches
are of one owner, so there is no graph over all points but one for each owner who has enough of them (`payload_m`): what
a filter leaves below `full_scan_kilobytes` is scanned, and nothing is missed there. The first generation of a store,
which has no means of its own and is replaced after the first import, has no graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from functools import partial
from typing import Any

from qdrant_client import models

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import DeadlineExceededError, MemsvcError
from memsvc.domain.filters import Filter
from memsvc.domain.index_entries import VectorManifest, View
from memsvc.domain.scope import Reach
from memsvc.ports.candidates import Hits
from memsvc.ports.indexes import DeferredSearch, PendingSearch, VectorEntry, VectorIndex
from memsvc.ports.models import Vector
from memsvc.ports.plugin import BackendContext, BackendSpec
from memsvc_backends.qdrant_common.points import require_dimension
from memsvc_backends.qdrant_server.collection_index import CollectionIndex, asked_for, best_hits
from memsvc_backends.qdrant_server.connection import AbsentError, Scored, ServerConnection, open_connection
from memsvc_backends.qdrant_server.generations import (
    CollectionGenerations,
    LiveCollection,
    vector_manifest,
    vector_text,
)
from memsvc_backends.qdrant_server.points import filter_within, server_payload
from memsvc_backends.qdrant_server.settings import QdrantServerSettings, Quantization

NAME = "qdrant"
_PAYLOAD_BYTES = 600
"""About what the payload of a point and its indexes take."""
_FLOAT_BYTES = 4


class QdrantServerIndex(CollectionIndex[VectorEntry, VectorManifest]):
    """`memsvc.ports.indexes.VectorIndex`."""

    def __init__(self, connection: ServerConnection, settings: QdrantServerSettings, context: BackendContext) -> None:
        codec = (vector_text, vector_manifest)
        generations = CollectionGenerations(connection, settings, f"{settings.prefix}-vectors", codec, context.now)
        super().__init__(connection, settings, generations)

    def search(
        self, vector: Vector, *, view: View, reach: Reach, where: Filter | None = None, limit: int, deadline: Deadline
    ) -> Hits:
        """Return the entries of the view nearest to the vector, best first, equal scores by entry id."""
        live = self._generations.live()
        if deadline.has_passed():
            raise DeadlineExceededError(NAME)
        if live is not None:
            require_dimension(vector, live.manifest.dimension)
        if live is None or limit <= 0:
            return Hits.of(())
        request = self._request(vector, filter_within(reach, view, where), limit)
        return self._reading.of_live(
            lambda found: self._search_live(found, _within_shards(request, found, reach), limit, deadline)
        )

    def begin_search(
        self, vector: Vector, *, view: View, reach: Reach, where: Filter | None = None, limit: int, deadline: Deadline
    ) -> PendingSearch:
        """Send the search, and return what waits for the hits."""
        again = partial(self.search, vector, view=view, reach=reach, where=where, limit=limit, deadline=deadline)
        try:
            live = self._generations.live()
            if live is None or limit <= 0 or deadline.has_passed():
                return DeferredSearch(again)
            require_dimension(vector, live.manifest.dimension)
        except MemsvcError:
            return DeferredSearch(again)
        request = _within_shards(self._request(vector, filter_within(reach, view, where), limit), live, reach)
        begun = self._connection.begin_queries(live.collection, [request], deadline)
        return DeferredSearch(partial(self._finish, live, begun, again, request, limit, deadline))

    def unsealed_count(self) -> int:
        """Return 0: the server packs new points in the background."""
        self._connection.require_open()
        return 0

    def wants_graph(self) -> bool:
        """Return False: the server builds its graphs by itself."""
        self._connection.require_open()
        return False

    def storage_bytes(self) -> int:
        """Return about what the live generation takes; the server does not tell."""
        live = self._generations.live()
        if live is None:
            return 0
        return self._reading.count(None) * (live.manifest.dimension * _FLOAT_BYTES + _PAYLOAD_BYTES)

    def _request(self, vector: Vector, where: models.Filter, limit: int) -> models.QueryRequest:
        settings = self._settings
        return models.QueryRequest(
            query=vector.tolist(),
            filter=where,
            params=models.SearchParams(
                hnsw_ef=max(settings.graph_search_width, min(limit, 1024)),
                quantization=models.QuantizationSearchParams(rescore=True, oversampling=settings.storage.oversampling),
            ),
            limit=asked_for(limit),
            with_payload=False,
        )

    def _search_live(
        self, live: LiveCollection[VectorManifest], request: models.QueryRequest, limit: int, deadline: Deadline
    ) -> Hits:
        [found] = self._connection.query(live.collection, [request], deadline)
        return best_hits(found, partial(self._ask, live.collection, request, deadline), limit)

    def _finish(
        self,
        live: LiveCollection[VectorManifest],
        begun: Callable[[], list[Scored]],
        again: Callable[[], Hits],
        request: models.QueryRequest,
        limit: int,
        deadline: Deadline,
    ) -> Hits:
        """Return the hits of a search that was sent; search again if its generation was removed."""
        try:
            [found] = begun()
            return best_hits(found, partial(self._ask, live.collection, request, deadline), limit)
        except AbsentError:
            self._generations.refresh()
            return again()

    def _ask(self, collection: str, request: models.QueryRequest, deadline: Deadline, asked: int) -> Scored:
        [found] = self._connection.query(collection, [request.model_copy(update={"limit": asked})], deadline)
        return found

    def _create(self, manifest: VectorManifest) -> LiveCollection[VectorManifest]:
        settings = self._settings
        return self._generations.create(
            manifest,
            {},
            vectors_config=models.VectorParams(
                size=manifest.dimension, distance=models.Distance.COSINE, on_disk=settings.on_disk
            ),
            hnsw_config=self._graph(),
            quantization_config=_quantization(settings),
            optimizers_config=self._optimizer(manifest),
        )

    def _optimizer(self, manifest: VectorManifest) -> models.OptimizersConfigDiff:
        """Return the optimizers of a generation: without means of its own it is replaced when there are more memories.

        Graphs of such a generation would be built during the import that outgrows it, and then once more.
        """
        config = self._settings.optimizer.config
        return config if manifest.mean_samples else config.model_copy(update={"indexing_threshold": 0})

    def _graph(self) -> models.HnswConfigDiff:
        settings = self._settings
        return models.HnswConfigDiff(
            m=0,
            payload_m=settings.graph_links,
            ef_construct=settings.graph_build_width,
            full_scan_threshold=settings.full_scan_kilobytes,
            on_disk=settings.storage.graph_on_disk,
        )

    def _layout_changes(self, manifest: VectorManifest) -> dict[str, Any]:
        quantization = _quantization(self._settings)
        return {
            "hnsw_config": self._graph(),
            "optimizers_config": self._optimizer(manifest),
            "quantization_config": models.Disabled.DISABLED if quantization is None else quantization,
            "vectors_config": {"": models.VectorParamsDiff(on_disk=self._settings.on_disk)},
        }

    def _put(self, live: LiveCollection[VectorManifest], changes: Mapping[int, Sequence[VectorEntry]]) -> None:
        for entries in changes.values():
            for entry in entries:
                require_dimension(entry.vector, live.manifest.dimension)
        self._send(live, changes, _point)


def _within_shards(
    request: models.QueryRequest, live: LiveCollection[VectorManifest], reach: Reach
) -> models.QueryRequest:
    """Return the request for the shards of the tenant, if it has some of its own."""
    key = live.shard_keys.of(reach.owner)
    return request if key is None else request.model_copy(update={"shard_key": key})


def _point(entry: VectorEntry) -> models.PointStruct:
    payload = server_payload(entry.attributes, entry.view)
    return models.PointStruct(id=entry.entry_id, vector=entry.vector.tolist(), payload=payload)


def _quantization(settings: QdrantServerSettings) -> models.QuantizationConfig | None:
    in_memory = not settings.storage.quantized_on_disk
    if settings.quantization is Quantization.INT8:
        scalar = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=in_memory)
        return models.ScalarQuantization(scalar=scalar)
    if settings.quantization is Quantization.BINARY:
        return models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=in_memory))
    return None


def _open(settings: QdrantServerSettings, context: BackendContext) -> AbstractContextManager[VectorIndex]:
    return closing(QdrantServerIndex(open_connection(settings, NAME, context.faults), settings, context))


SERVER: BackendSpec[VectorIndex] = BackendSpec(settings=QdrantServerSettings, open=_open)
"""A Qdrant server's vectors, as the entry point names it."""
