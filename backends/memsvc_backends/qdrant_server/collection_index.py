"""Base of indexes whose generations are collections of a Qdrant server."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import gt
from typing import Generic, TypeVar

from qdrant_client import models

from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.index_entries import Hit
from memsvc.domain.scope import Reach
from memsvc.ports.candidates import Hits
from memsvc.ports.indexes import Generation, ListedEntry
from memsvc_backends.qdrant_common.points import FINGERPRINT
from memsvc_backends.qdrant_server.connection import AbsentError, ServerConnection
from memsvc_backends.qdrant_server.filters import filter_within, payload_indexes
from memsvc_backends.qdrant_server.generations import CollectionGenerations, LiveCollection, Manifest, ServerGeneration
from memsvc_backends.qdrant_server.points import E, operations
from memsvc_backends.qdrant_server.settings import QdrantServerSettings

T = TypeVar("T")
_PAGE = 1000
_FIRST = 1024
_GROWTH = 4
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
        self._batch_points = settings.batch_points

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
            self._prepare(made.collection)
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
        """Return when the server answers, or raise BackendUnavailableError; then remove unused collections."""
        self._connection.require_open()
        self._generations.refresh()
        self._generations.remove_leftovers()

    def close(self) -> None:
        """Close the connections, and refuse every later use."""
        self._connection.close()

    @abstractmethod
    def _create(self, manifest: Manifest) -> LiveCollection[Manifest]:
        """Make the collection of a generation."""

    @abstractmethod
    def _put(self, live: LiveCollection[Manifest], changes: Mapping[int, Sequence[E]]) -> None:
        """Write to a generation. An AbsentError says that it is gone."""

    def _prepare(self, collection: str) -> None:
        """Create the payload indexes of a new collection: one for each filtered field."""
        for name, schema in payload_indexes().items():
            self._connection.write(
                "create_payload_index", collection_name=collection, field_name=name, field_schema=schema
            )

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
        for request in operations(changes, point_of, size=self._batch_points):
            self._connection.write(
                "batch_update_points", collection_name=live.collection, update_operations=request, wait=True
            )

    def _write(self, live: LiveCollection[Manifest], changes: Mapping[int, Sequence[E]]) -> None:
        try:
            self._put(live, changes)
        except AbsentError as error:
            raise BackendUnavailableError(self._connection.name) from error


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

    def _count_points(self, live: LiveCollection[Manifest], where: models.Filter | None) -> int:
        found = self._connection.read("count", collection_name=live.collection, count_filter=where, exact=True)
        return int(found.count)


def best_hits(ask: Callable[[int], list[tuple[int, float]]], limit: int) -> Hits:
    """Return the best *limit* hits, equal scores by number.

    The server cuts off at its limit without regard to numbers, so it is asked for more as long as the cut goes through
    equal scores.

    Args:
        ask: Returns at most so many numbers and scores, best first.
        limit: How many are wanted at most; one or more.
    """
    asked = min(limit, _FIRST) + 1
    while True:
        found = ask(asked)
        if len(found) < asked or (asked > limit and found[-1][1] < found[limit - 1][1]):
            break
        asked *= _GROWTH
    scores = [score for _, score in found]
    if not all(map(gt, scores, scores[1:])):
        found = sorted(found, key=lambda hit: (-hit[1], hit[0]))
    best = found[:limit]
    return Hits.of([Hit(*found) for found in best])
