"""Base of indexes whose generations are collections of a Qdrant server."""

from __future__ import annotations

import hashlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import gt
from typing import Any, Generic, TypeVar

from qdrant_client import models

from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.index_entries import Hit
from memsvc.domain.scope import Reach
from memsvc.ports.candidates import Hits
from memsvc.ports.indexes import Generation, IndexState, ListedEntry
from memsvc_backends.qdrant_common.points import FINGERPRINT, PLAIN
from memsvc_backends.qdrant_server.connection import AbsentError, Scored, ServerConnection
from memsvc_backends.qdrant_server.generations import CollectionGenerations, LiveCollection, Manifest, ServerGeneration
from memsvc_backends.qdrant_server.points import PLAIN_POINTS, E, ShardKeys, filter_within, operations, payload_indexes
from memsvc_backends.qdrant_server.settings import QdrantServerSettings

_log = logging.getLogger(__name__)
T = TypeVar("T")
_PAGE = 1000
_FIRST = 1024
_SPARE = 64
"""Hits asked for beyond the limit at least: seldom do more have the score of the last one."""
_GROWTH = 4
_MOST_WORDS = 200
_LAYOUT = "memsvc_layout"
"""Metadata of a collection: a digest of the parameters that can be changed while it is live."""
_PARAMETERS = {"is_tenant": False, "on_disk": False, "lookup": False, "range": False, "enable_hnsw": True}
"""Parameters of a payload index where the server names none."""
_SWITCHES = 5
"""More switches in a row do not happen during one search."""


class CollectionIndex(ABC, Generic[E, Manifest]):
    """`memsvc.ports.indexes.DerivedIndex`. While the server is down calls fail; it may come back."""

    is_shared = True

    def __init__(
        self, connection: ServerConnection, settings: QdrantServerSettings, generations: CollectionGenerations[Manifest]
    ) -> None:
        self._connection = connection
        self._generations = generations
        self._reading = CollectionReader(connection, generations)
        self._settings = settings
        self._layout = CollectionLayout(connection, settings)
        generations.on_found(self._update_layout)

    @property
    def manifest(self) -> Manifest | None:
        """Return the manifest of the live generation, or None when there is none.

        Raises:
            BackendUnavailableError: The server cannot be reached, and never was since the index was opened.
        """
        live = self._generations.live()
        return None if live is None else live.manifest

    def replace(self, changes: Mapping[int, Sequence[E]]) -> None:
        """Replace the entries of each memory, in the generation whose manifest this thread read."""
        live = self._generations.live_for_write()
        if live is None:
            message = "The index has no generation yet."
            raise ValueError(message)
        self._write(live, changes)
        self._generations.confirm(live)

    def begin(self, manifest: Manifest) -> Generation[E]:
        """Start a generation in a collection of its own, with its vocabulary."""
        made = self._create(manifest)
        try:
            self._prepare(made)
        except BackendUnavailableError:
            self._remove(made.collection)
            raise
        return ServerGeneration(self._generations, made, self._write, self._remove)

    def switch(self, generation: Generation[E]) -> None:
        """Make a sealed generation the live one; the one before is removed after a moment."""
        self._connection.require_open()
        if not isinstance(generation, ServerGeneration):
            message = "The generation is another index's."
            raise TypeError(message)
        generation.require_sealed()
        self._generations.switch(generation.made)
        generation.went_live()

    def inventory(self) -> Iterator[ListedEntry]:
        """List the entries of the generation that is live when the first one is taken."""
        return self._reading.inventory()

    def count(self, *, reach: Reach | None = None) -> int:
        """Return the number of entries: those in *reach*, or all."""
        return self._reading.count(None if reach is None else filter_within(reach))

    def ping(self) -> None:
        """Return when the server answers, or raise BackendUnavailableError; then update and remove collections."""
        self._connection.require_open()
        self._generations.refresh()
        self._generations.keep_house()

    def state(self) -> IndexState | None:
        """Return the status of the live collection, of its optimizers and of its replicas."""
        live = self._generations.live()
        return None if live is None else self._reading.of_live(self._reading.state)

    def close(self) -> None:
        """Close the connections, and refuse every later use."""
        self._connection.close()

    @abstractmethod
    def _create(self, manifest: Manifest) -> LiveCollection[Manifest]:
        """Make the collection of a generation."""

    @abstractmethod
    def _put(self, live: LiveCollection[Manifest], changes: Mapping[int, Sequence[E]]) -> None:
        """Write to a generation. An AbsentError says that it is gone."""

    def _prepare(self, made: LiveCollection[Manifest]) -> None:
        """Create the payload indexes of a new collection: one for each filtered field."""
        self._layout.complete(made.collection, self._layout_changes(made.manifest))

    def _update_layout(self, live: LiveCollection[Manifest]) -> None:
        """Bring the live collection, which an earlier version or another configuration made, up to date."""
        self._layout.update(live.collection, self._layout_changes(live.manifest), live.shard_keys)

    @abstractmethod
    def _layout_changes(self, manifest: Manifest) -> dict[str, Any]:
        """Return what the settings say of the parts of a collection that can be changed while it is live."""

    def _remove(self, collection: str) -> None:
        """Remove a generation, with its vocabulary."""
        self._generations.remove(collection)

    def _send(
        self,
        live: LiveCollection[Manifest],
        changes: Mapping[int, Sequence[E]],
        point_of: Callable[[E], models.PointStruct],
    ) -> None:
        """Write the points of a change, batch by batch."""
        for request in operations(changes, point_of, size=self._settings.batch_points, keys=live.shard_keys):
            self._connection.update(live.collection, request)

    def _write(self, live: LiveCollection[Manifest], changes: Mapping[int, Sequence[E]]) -> None:
        try:
            self._put(live, changes)
        except AbsentError as error:
            raise BackendUnavailableError(self._connection.name) from error


# Payload indexes and parameters of collections.


class CollectionLayout:
    """Creates the payload indexes of collections, and brings collections up to date without a new generation."""

    def __init__(self, connection: ServerConnection, settings: QdrantServerSettings) -> None:
        self._connection = connection
        self._settings = settings
        self._indexes = payload_indexes(on_disk=settings.storage.payload_indexes_on_disk)

    def complete(self, collection: str, own: Mapping[str, Any]) -> None:
        """Create every payload index of a new collection, and set what cannot be set when it is created."""
        for name in self._indexes:
            self._index(collection, name, wait=True)
        arguments = self._arguments(own)
        chosen = arguments if self._settings.reads.fan_out is not None else {"metadata": arguments["metadata"]}
        self._connection.settle(lambda: True, "update_collection", collection_name=collection, **chosen)

    def update(self, collection: str, own: Mapping[str, Any], keys: ShardKeys) -> None:
        """Correct payload indexes and parameters that differ; the server does the work in the background.

        Points are neither moved nor removed. An index that was made with graphs is replaced by one without.

        Args:
            collection: The live collection.
            own: Arguments of the client's `update_collection` for the parameters that only this index has.
            keys: The shards by tenant.
        """
        found = self._connection.ask("get_collection", collection_name=collection)
        changes = self._arguments(own)
        known: Mapping[str, Any] = found.payload_schema or {}
        wrong = [name for name, wanted in self._indexes.items() if not _is_as(known.get(name), wanted)]
        for name in wrong:
            self._index(collection, name, wait=False)
        if PLAIN in wrong and known and PLAIN not in known:
            flag = models.SetPayload(payload={PLAIN: 1}, filter=PLAIN_POINTS, shard_key=keys.all)
            self._connection.write(
                "batch_update_points",
                collection_name=collection,
                update_operations=[models.SetPayloadOperation(set_payload=flag)],
                wait=False,
            )
        if (found.config.metadata or {}).get(_LAYOUT) != changes["metadata"][_LAYOUT]:
            _log.info("parameters of %s are brought up to date", collection)
            self._connection.settle(lambda: True, "update_collection", collection_name=collection, **changes)
        if wrong:
            _log.info("payload indexes of %s are brought up to date: %s", collection, ", ".join(wrong))

    def _arguments(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of `update_collection`, with a digest of them for the metadata."""
        settings = self._settings
        found = {
            "collection_params": models.CollectionParamsDiff(
                write_consistency_factor=settings.write_consistency,
                read_fan_out_factor=settings.reads.fan_out,
                on_disk_payload=settings.storage.payload_on_disk,
            ),
            "optimizers_config": settings.optimizer.config,
            "strict_mode_config": settings.strict_mode.config,
            **own,
        }
        digest = hashlib.sha256(repr(sorted(found.items())).encode()).hexdigest()[:16]
        return {**found, "metadata": {_LAYOUT: digest}}

    def _index(self, collection: str, name: str, *, wait: bool) -> None:
        self._connection.write(
            "create_payload_index",
            collection_name=collection,
            field_name=name,
            field_schema=self._indexes[name],
            wait=wait,
        )


def _is_as(found: models.PayloadIndexInfo | None, wanted: models.PayloadSchemaParams) -> bool:
    """Return whether a payload index has every parameter that is wanted."""
    if found is None or found.params is None:
        return False
    present = _PARAMETERS | found.params.model_dump(exclude_none=True, mode="json")
    return all(present[name] == value for name, value in wanted.model_dump(exclude_none=True, mode="json").items())


# What both indexes over a server read alike: the best hits, counts and inventories of the live generation.


class CollectionReader(Generic[Manifest]):
    """Reads the live generation, and the next one if it was removed concurrently."""

    def __init__(self, connection: ServerConnection, generations: CollectionGenerations[Manifest]) -> None:
        self._connection = connection
        self._generations = generations

    def of_live(self, ask: Callable[[LiveCollection[Manifest]], T], absent: T | None = None) -> T:
        """Return what the live generation answers, or *absent* when there is none.

        Raises:
            BackendUnavailableError: The server cannot be reached, or there is no generation and nothing for that.
        """
        live = self._generations.live()
        for _ in range(_SWITCHES):
            if live is None:
                break
            try:
                return ask(live)
            except AbsentError:
                live = self._generations.refresh()
        if absent is None:
            raise BackendUnavailableError(self._connection.name)
        return absent

    def count(self, where: models.Filter | None) -> int:
        """Return how many points meet the filter, or how many there are."""
        return self.of_live(lambda live: self._count_points(live, where), 0)

    def inventory(self) -> Iterator[ListedEntry]:
        """List the points of the generation that is live at the first step, ascending."""
        live = self._generations.live()
        after: object = None
        while live is not None:
            try:
                points, after = self._connection.read(
                    "scroll",
                    collection_name=live.collection,
                    limit=_PAGE,
                    offset=after,
                    with_payload=[FINGERPRINT],
                    with_vectors=False,
                )
            except AbsentError as error:
                raise BackendUnavailableError(self._connection.name) from error
            yield from (ListedEntry(int(point.id), int(point.payload[FINGERPRINT])) for point in points)
            if after is None:
                return

    def state(self, live: LiveCollection[Manifest]) -> IndexState:
        """Return the state of a collection."""
        found = self._connection.ask("get_collection", collection_name=live.collection)
        cluster = self._connection.ask("collection_cluster_info", collection_name=live.collection)
        replicas = [(one.shard_id, cluster.peer_id, one.state) for one in cluster.local_shards]
        replicas += [(one.shard_id, one.peer_id, one.state) for one in cluster.remote_shards]
        active = sum(state == models.ReplicaState.ACTIVE for _, _, state in replicas)
        summary = (
            f"collection {live.collection} is {found.status.value}, {found.points_count} points in "
            f"{found.segments_count} segments, {active} of {len(replicas)} replicas are active"
        )
        return IndexState(summary, (*_troubles(found), *_replica_troubles(replicas)))

    def _count_points(self, live: LiveCollection[Manifest], where: models.Filter | None) -> int:
        found = self._connection.read("count", collection_name=live.collection, count_filter=where, exact=True)
        return int(found.count)


def _troubles(found: models.CollectionInfo) -> Iterator[str]:
    error = getattr(found.optimizer_status, "error", None)
    if error:
        yield f"an optimizer failed ({str(error)[:_MOST_WORDS]}); Qdrant tries again after a restart"
    if found.status is models.CollectionStatus.RED:
        yield "the collection is red: a part of it cannot be read or written; see Qdrant's log"
    if found.status is models.CollectionStatus.GREY:
        yield "optimizations are pending since a restart; the next change of the collection starts them"


def _replica_troubles(replicas: Sequence[tuple[int, int, models.ReplicaState]]) -> Iterator[str]:
    for shard, peer, state in replicas:
        if state is models.ReplicaState.DEAD:
            yield f"the replica of shard {shard} on peer {peer} is dead; Qdrant copies it anew when the peer is back"
        elif state is not models.ReplicaState.ACTIVE:
            yield f"the replica of shard {shard} on peer {peer} is not active yet ({state.value})"


def asked_for(limit: int) -> int:
    """Return how many hits a search with this limit asks for.

    The server cuts off without regard to numbers, so equal scores at the cut are asked for as well.
    """
    return min(limit, _FIRST) + max(_SPARE, min(limit, _FIRST) // 2)


def best_hits(found: Scored, ask: Callable[[int], Scored], limit: int) -> Hits:
    """Return the best *limit* hits, equal scores by number; ask for more while the cut goes through equal scores.

    Args:
        found: At most `asked_for(limit)` hits, best first.
        ask: Returns at most so many hits, best first.
        limit: How many are wanted at most; one or more.
    """
    asked = asked_for(limit)
    while len(found) >= asked and not (asked > limit and found[-1][1] < found[limit - 1][1]):
        asked *= _GROWTH
        found = ask(asked)
    scores = [score for _, score in found]
    if not all(map(gt, scores, scores[1:])):
        found = sorted(found, key=lambda hit: (-hit[1], hit[0]))
    return Hits.of([Hit(*one) for one in found[:limit]])
