"""The embedded vector index: Qdrant Edge in a child process, exact unless a generation has graphs.

A graph is of one owner. It is searched for most of what the owner has; what a filter leaves of less is scanned.
"""

from __future__ import annotations

import logging
import marshal
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from memsvc.data_directory import NO_SPACE, is_full, obstacle_of
from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendClosedError, BackendUnavailableError, DeadlineExceededError
from memsvc.domain.filters import Filter, FilterMemo
from memsvc.domain.index_entries import VectorManifest, View
from memsvc.domain.scope import Reach
from memsvc.domain.visibility import split_default_visible
from memsvc.ports.candidates import Hits
from memsvc.ports.indexes import Generation, ListedEntry, VectorEntry, VectorIndex
from memsvc.ports.models import Vector
from memsvc.ports.plugin import BackendContext, BackendSpec
from memsvc_backends.qdrant_common.points import (
    FINGERPRINT,
    SEALED,
    Changes,
    Condition,
    filter_of,
    plain_filter_of,
    require_dimension,
    slices_of,
    vector_bytes,
)
from memsvc_backends.qdrant_edge.child_process import (
    NAME,
    NO_HURRY,
    ChildDiedError,
    EdgeFaultError,
    Exchange,
    RetiredError,
    Supervisor,
    problem_of,
    translate,
)
from memsvc_backends.qdrant_edge.generation import EdgeGeneration, writes
from memsvc_backends.qdrant_edge.ipc import Message
from memsvc_backends.qdrant_edge.manifest import (
    ManifestError,
    disk_bytes,
    generation_name,
    read_manifest,
    remove_leftovers,
    remove_manifest,
    write_manifest,
)
from memsvc_backends.qdrant_edge.settings import QdrantEdgeSettings

_log = logging.getLogger(__name__)
_PAGE = 250
"""Points of one page of the inventory: 2 ms, for which searches wait."""


class QdrantEdgeIndex:
    """A VectorIndex over a directory of generations, each in a child process of its own.

    So a switch is one assignment: what was asked before it is answered by the generation before, whose child ends
    after that. A call that comes too late for that child fails, and asks the next one.
    """

    is_shared = False

    def __init__(self, settings: QdrantEdgeSettings, context: BackendContext) -> None:
        self._settings = settings
        self._directory = context.directory
        self._faults = context.faults
        self._unfinished: list[EdgeGeneration] = []
        self._is_closed = False
        self._conditions: FilterMemo[list[Condition]] = FilterMemo()
        self._are_usual: FilterMemo[bool] = FilterMemo()
        self._directory.mkdir(parents=True, exist_ok=True)
        self._live = self._open_live()
        remove_leftovers(self._directory, self.manifest)

    @property
    def manifest(self) -> VectorManifest | None:
        """Return the manifest of the live generation, or None when there is none."""
        live = self.live()
        return None if live is None else live.manifest

    @property
    def child_pid(self) -> int | None:
        """Return the process id of the live generation's child, for diagnosis."""
        return None if self._live is None else self._live.shard.pid

    def live(self) -> LiveShard | None:
        """Return the live generation, or None when there is none, or raise BackendClosedError."""
        if self._is_closed:
            raise BackendClosedError(NAME)
        return self._live

    def replace(self, changes: Changes) -> None:
        """Make the entries of each memory exactly those given, in slices between searches."""
        live = self.live()
        if live is None:
            message = "The index has no generation yet."
            raise ValueError(message)
        slices = slices_of(changes, dimension=live.manifest.dimension, size=self._settings.slice_points)
        with translate():
            for request, blob in writes(slices):
                live.shard.call(request, blob)

    def search(
        self, vector: Vector, *, view: View, reach: Reach, where: Filter | None = None, limit: int, deadline: Deadline
    ) -> Hits:
        """Return the entries of the view nearest to the vector, best first, equal scores by entry id."""
        return EdgeSearch(self.live, vector, self._spec(view, reach, where), limit, deadline).result()

    def begin_search(
        self, vector: Vector, *, view: View, reach: Reach, where: Filter | None = None, limit: int, deadline: Deadline
    ) -> EdgeSearch:
        """Send the search to the child; its reply is read when the result is asked for."""
        search = EdgeSearch(self.live, vector, self._spec(view, reach, where), limit, deadline)
        search.begin(self._live)
        return search

    def _spec(self, view: View, reach: Reach, where: Filter | None) -> SearchSpec:
        is_usual = where is None or self._are_usual.get(where, _is_usual)
        return SearchSpec(reach, view, where, self._conditions, is_usual=is_usual)

    def begin(self, manifest: VectorManifest) -> Generation[VectorEntry]:
        """Start a generation in a builder process."""
        live = self.manifest
        if live is not None and manifest.generation <= live.generation:
            message = f"The generation {manifest.generation} is not newer than {live.generation}."
            raise ValueError(message)
        generation = EdgeGeneration(manifest, self._directory, self._settings, self._faults)
        self._unfinished = [*(each for each in self._unfinished if each.is_unfinished), generation]
        return generation

    def switch(self, generation: Generation[VectorEntry]) -> None:
        """Make a sealed generation the live one, and end and remove the one before when it has answered all."""
        before = self.live()
        if not isinstance(generation, EdgeGeneration):
            message = "The generation is another index's."
            raise TypeError(message)
        generation.require_sealed()
        write_manifest(self._directory, generation.manifest)
        self._live = self._searchable(generation.manifest, generation.shard)
        generation.went_live()
        if before is not None:
            before.shard.retire()
            remove_leftovers(self._directory, generation.manifest)

    def inventory(self) -> Iterator[ListedEntry]:
        """List the entries of the generation that is live when the first one is taken."""
        live = self.live()
        start: int | None = None if live is None else 0
        while start is not None and live is not None:
            with translate():
                ids, fingerprints, start = live.shard.call(("page", start, _PAGE, FINGERPRINT))
            yield from map(ListedEntry, ids, fingerprints)

    def count(self, *, reach: Reach | None = None) -> int:
        """Return the number of entries: those in *reach*, or all."""
        return self._count(None if reach is None else filter_of(reach))

    def unsealed_count(self) -> int:
        """Return how many entries were written since the live generation was sealed."""
        return self._count(None) - self._count({"must": [SEALED]})

    def wants_graph(self) -> bool:
        """Return whether one owner has so many entries that a graph answers quicker than a scan."""
        return bool((self._ask(("largest",)) or 0) >= self._settings.graph_threshold)

    def storage_bytes(self) -> int:
        """Return the bytes on disk of all generations."""
        self.live()
        return disk_bytes(self._directory)

    def ping(self) -> None:
        """Return when the child of the live generation answers, or raise BackendUnavailableError."""
        with translate():
            try:
                self._ask(("count", None), deadline=Deadline.after(self._settings.ping_seconds))
            except DeadlineExceededError as error:
                raise ChildDiedError from error

    def close(self) -> None:
        """End the builders and the child. Harmless when it is done."""
        self._is_closed = True
        for generation in self._unfinished:
            generation.abandon()
        if self._live is not None:
            self._live.shard.close()

    def _ask(self, message: Message, *, deadline: Deadline = NO_HURRY) -> Any:
        """Ask the live generation, and the next one if it was switched concurrently; None without any."""
        live = self.live()
        with translate():
            while live is not None:
                try:
                    return live.shard.call(message, deadline=deadline)
                except RetiredError:
                    live = self.live()
        return None

    def _count(self, where: Condition | None) -> int:
        return self._ask(("count", where)) or 0

    def _open_live(self) -> LiveShard | None:
        """Open the live generation; what is damaged is given up, since it can be built again.

        Raises:
            BackendUnavailableError: The disk is full, or something else keeps the files from being opened.
        """
        shard: Supervisor | None = None
        try:
            manifest = read_manifest(self._directory)
            if manifest is None:
                return None
            path = self._directory / generation_name(manifest.generation)
            shard = Supervisor(
                path,
                dimension=manifest.dimension,
                connections=self._settings.connections,
                limits=self._settings.limits(self._faults),
            )
            shard.open()
        except (ManifestError, EdgeFaultError, ChildDiedError) as error:
            if problem := self._obstacle(error):
                raise BackendUnavailableError(NAME, problem=problem) from error
            _log.warning("vector index given up, it has to be built again: %s", error)
            remove_manifest(self._directory)
            return None
        return self._searchable(manifest, shard)

    def _obstacle(self, error: Exception) -> str:
        """Return why the live generation cannot be opened although it may be whole; empty if it is damaged."""
        if isinstance(error, ChildDiedError):
            # Of a write to a file that is mapped into memory.
            return NO_SPACE if is_full(self._directory) else ""
        return obstacle_of(error.__cause__ or error)

    def _searchable(self, manifest: VectorManifest, shard: Supervisor) -> LiveShard:
        return LiveShard(manifest, shard, self._settings.graph_search_width if manifest.hnsw else None)


def _open(settings: QdrantEdgeSettings, context: BackendContext) -> AbstractContextManager[VectorIndex]:
    return closing(QdrantEdgeIndex(settings, context))


EDGE: BackendSpec[VectorIndex] = BackendSpec(settings=QdrantEdgeSettings, open=_open)
"""Qdrant Edge, as the entry point names it."""


# A search of the live generation in two halves: the request is sent, and later its reply is read.


@dataclass(frozen=True, slots=True)
class LiveShard:
    """The live generation.

    Attributes:
        manifest: What it is made of.
        shard: What keeps its child running.
        width: How many candidates its graph is searched for, or None when it has none.
    """

    manifest: VectorManifest
    shard: Supervisor
    width: int | None


@dataclass(frozen=True, slots=True)
class SearchSpec:
    """Selection of the entries to search.

    Attributes:
        known: The conditions of the last filters.
        is_usual: Every plain memory passes the filter.
    """

    reach: Reach
    view: View
    where: Filter | None
    known: FilterMemo[list[Condition]] | None = None
    is_usual: bool = False

    def within(self, views: Sequence[View]) -> Condition:
        """Return the filter for a generation of *views*: where all entries are of one view, none is asked for it."""
        return filter_of(self.reach, self._view_among(views), self.where, self.known)

    def least_within(self, views: Sequence[View]) -> Condition | None:
        """Return a filter that lets through nothing which `within` holds back, and most of the rest; None: unknown."""
        return plain_filter_of(self.reach, self._view_among(views)) if self.is_usual else None

    def _view_among(self, views: Sequence[View]) -> View | None:
        return None if views == (self.view,) else self.view


def _is_usual(where: Filter) -> bool:
    """Return whether every plain memory passes a filter."""
    return not split_default_visible(where)[1]


class EdgeSearch:
    """One search, for one thread at a time."""

    __slots__ = ("_blob", "_deadline", "_find_live", "_in_flight", "_limit", "_packed", "_sought", "_vector")

    def __init__(
        self,
        find_live: Callable[[], LiveShard | None],
        vector: Vector,
        sought: SearchSpec,
        limit: int,
        deadline: Deadline,
    ) -> None:
        self._find_live = find_live
        self._vector = vector
        self._blob = vector_bytes([vector])
        self._sought = sought
        self._packed: tuple[LiveShard, Message] | None = None
        self._limit = limit
        self._deadline = deadline
        self._in_flight: tuple[LiveShard, Exchange] | None = None

    def begin(self, live: LiveShard | None) -> None:
        """Send the request, if it can be sent; if not, `result` finds out why, and raises it or sends it then."""
        is_sound = live is not None and self._vector.shape == (live.manifest.dimension,) and self._limit > 0
        if live is None or not is_sound or self._deadline.has_passed():
            return
        exchange = live.shard.begin(self._request(live), self._blob, deadline=self._deadline)
        if exchange is not None:
            self._in_flight = live, exchange

    def result(self) -> Hits:
        """Return the hits of the generation that was asked, or of the next one when it was switched too early."""
        live = self._find_live()
        exchange: Exchange | None = None
        if self._in_flight is not None:
            live, exchange = self._in_flight
        elif self._deadline.has_passed():
            raise DeadlineExceededError(NAME)
        while live is not None:
            require_dimension(self._vector, live.manifest.dimension)
            if self._limit <= 0:
                break
            try:
                return self._ask_live(live, exchange)
            except RetiredError:
                live, exchange = self._find_live(), None
        return Hits.of(())

    def _ask_live(self, live: LiveShard, exchange: Exchange | None) -> Hits:
        try:
            ids, scores = live.shard.call(self._request(live), self._blob, deadline=self._deadline, begun=exchange)
        except (ChildDiedError, EdgeFaultError) as error:
            raise BackendUnavailableError(NAME, problem=problem_of(error)) from error
        return Hits(np.frombuffer(ids, np.int64), np.frombuffer(scores, np.float64))

    def _request(self, live: LiveShard) -> Message:
        if self._packed is None or self._packed[0] is not live:
            views = live.manifest.views
            within = marshal.dumps(self._sought.within(views))
            # Without a graph, all scans are exact.
            least = None if live.width is None else self._sought.least_within(views)
            packed = None if least is None else marshal.dumps(least)
            self._packed = live, ("search", within, self._limit, live.width, packed)
        return self._packed[1]
