"""The vector index by pgvector: exact search for owners of few entries, HNSW for those of many."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from functools import partial

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendUnavailableError, DeadlineExceededError
from memsvc.domain.filters import Filter
from memsvc.domain.index_entries import Hit, VectorManifest, View, content_of, manifest_of
from memsvc.domain.scope import Reach
from memsvc.domain.visibility import split_default_visible
from memsvc.ports.faults import FaultLog
from memsvc.ports.indexes import DeferredSearch, PendingSearch, VectorEntry, VectorIndex
from memsvc.ports.models import Vector
from memsvc.ports.plugin import BackendContext, BackendSpec
from memsvc_backends.postgres_index import vector_table as tables
from memsvc_backends.postgres_index.connections import (
    GONE,
    Connection,
    ConnectionPool,
    end_stuck_writers,
    ensure_extension,
    extend_search_path,
    searches_iteratively,
    translate,
)
from memsvc_backends.postgres_index.filters import Condition, owner_selection, selection
from memsvc_backends.postgres_index.generations import GenerationBuild, IndexTables, LiveTables
from memsvc_backends.postgres_index.settings import PgvectorSettings
from memsvc_backends.postgres_index.table_index import TableGeneration, TableIndex
from memsvc_backends.postgres_index.vector_table import Changes

GRAPH_SHARE = 0.75
"""Least share of an owner's entries that a search by the graph must be allowed to return.

The graph leads from topic to topic by entries of all of them. Of 20 000 entries in 64 topics, half of them in one
project, searches of that project for any topic had a recall of 0.89 for the nearest 100, and searches of all 0.995.
"""
SCANNED_ENTRIES = 50_000
"""Entries that a search compares rather than miss some by the graph; each takes about 3 µs."""
_REMEMBERED_SECONDS = 60.0
_REMEMBERED_OWNERS = 10_000
_COUNT = 'SELECT count(*) FROM (SELECT 1 FROM "{table}" WHERE {where} AND view = %s LIMIT %s) AS found'
NAME = "pgvector"
KIND: IndexTables[VectorManifest] = IndexTables("index_vectors", ("",), "", content_of, manifest_of)


@dataclass(frozen=True, slots=True)
class _VectorSearch:
    """Parameters of a search."""

    vector: Vector
    view: View
    reach: Reach
    where: Filter | None
    limit: int
    deadline: Deadline


@dataclass(frozen=True, slots=True)
class _ThreadSearch:
    """A search that runs in a thread."""

    hits: Future[list[Hit]]
    deadline: Deadline

    def result(self) -> list[Hit]:
        """Wait for the hits, no longer than the deadline allows."""
        try:
            return self.hits.result(self.deadline.remaining_seconds())
        except FutureTimeoutError as error:
            raise DeadlineExceededError(NAME) from error


class PgvectorIndex(TableIndex[VectorEntry, VectorManifest]):
    """`memsvc.ports.indexes.VectorIndex`."""

    def __init__(self, settings: PgvectorSettings, faults: FaultLog | None = None) -> None:
        self._settings = settings
        self._version: tuple[int, ...] = ()
        self._by_graph: dict[tuple[Reach, View, bool], tuple[float, bool]] = {}
        self._graph_pays: tuple[str, float, bool] = ("", 0.0, False)
        connections = ConnectionPool(NAME, settings, self._prepare, faults)
        super().__init__(connections, KIND, partial(PgvectorGeneration, settings=settings))
        self._threads = ThreadPoolExecutor(settings.connections, thread_name_prefix="pgvector")

    def replace(self, changes: Changes) -> None:
        """Replace the entries of each memory, in one transaction.

        Entries are centred by the means of one generation; so if another went live concurrently, nothing is written,
        and the index counts as unavailable until the caller has created them again.
        """
        live = self._require_live()
        require_dimensions(changes, live.manifest.dimension)
        with translate(NAME):
            try:
                with self._connections.borrow() as connection, end_stuck_writers(connection, live.base):
                    tables.replace(connection, live.base, changes)
            except GONE as error:
                self._generations.refresh()
                raise BackendUnavailableError(NAME) from error

    def search(
        self, vector: Vector, *, view: View, reach: Reach, where: Filter | None = None, limit: int, deadline: Deadline
    ) -> list[Hit]:
        """Return the entries of the view nearest to the vector, best first, equal scores by entry id."""
        return self._search_live(_VectorSearch(vector, view, reach, where, limit, deadline))

    def begin_search(
        self, vector: Vector, *, view: View, reach: Reach, where: Filter | None = None, limit: int, deadline: Deadline
    ) -> PendingSearch:
        """Start the search in a thread."""
        search = partial(self._search_live, _VectorSearch(vector, view, reach, where, limit, deadline))
        try:
            return _ThreadSearch(self._threads.submit(search), deadline)
        except RuntimeError:
            # The index was closed, which the result is to say.
            return DeferredSearch(search)

    def unsealed_count(self) -> int:
        """Return 0: what is written later is compared, or joins the graph, as the rest."""
        self._connections.require_open()
        return 0

    def wants_graph(self) -> bool:
        """Return whether one owner has so many entries that a graph answers quicker than comparing them all."""
        live = self._generations.live()
        if live is None or not searches_iteratively(self._version) or live.manifest.dimension > tables.GRAPH_DIMENSIONS:
            return False
        base, looked, pays = self._graph_pays
        if base != live.base or time.monotonic() - looked > _REMEMBERED_SECONDS:
            pays = self._reading.largest_owner() >= self._settings.graph_threshold
            self._graph_pays = (live.base, time.monotonic(), pays)
        return pays

    def close(self) -> None:
        """Give connections and threads back, and refuse every later use."""
        super().close()
        self._threads.shutdown(cancel_futures=True)

    def _search_live(self, search: _VectorSearch) -> list[Hit]:
        live = self._generations.live()
        if search.deadline.has_passed():
            raise DeadlineExceededError(NAME)
        if live is not None:
            tables.require_dimension(search.vector, live.manifest.dimension)
        if search.limit <= 0:
            return []
        return self._reading.query(live, partial(self._nearest, search), [], search.deadline)

    def _nearest(self, search: _VectorSearch, connection: Connection, live: LiveTables[VectorManifest]) -> list[Hit]:
        # Another generation than was asked at first may be of another length.
        tables.require_dimension(search.vector, live.manifest.dimension)
        within = selection(search.reach, search.where), int(search.view)
        target = tables.normalise(search.vector)
        find = partial(tables.search, connection, live.base, within, target, limit=search.limit)
        if live.manifest.hnsw and self._takes_graph(search, connection, live):
            found = find(by_graph=True)
            if len(found) >= search.limit:
                return [Hit(*hit) for hit in found]
        # Also when a graph gave less than was asked for: it may have stopped before the filter was met often enough.
        return [Hit(*hit) for hit in find(by_graph=False)]

    def _takes_graph(self, search: _VectorSearch, connection: Connection, live: LiveTables[VectorManifest]) -> bool:
        """Return whether the graph finds what is nearest, or what a search may return is too much to be compared.

        Looked up once a minute.
        """
        where = search.where
        is_usual = where is None or not split_default_visible(where)[1]
        key = search.reach, search.view, is_usual
        known = self._by_graph.get(key)
        if known is not None and time.monotonic() - known[0] < _REMEMBERED_SECONDS:
            return known[1]
        count = partial(_count_entries, connection, live.base, search.view)
        is_large = count(owner_selection(search.reach.owner), self._settings.graph_threshold) >= (
            self._settings.graph_threshold
        )
        decided = is_large and self._is_most(search, count, is_usual=is_usual)
        if len(self._by_graph) >= _REMEMBERED_OWNERS:
            self._by_graph.clear()
        self._by_graph[key] = (time.monotonic(), decided)
        return decided

    def _is_most(self, search: _VectorSearch, count: Callable[[Condition, int], int], *, is_usual: bool) -> bool:
        """Return whether a search passes most entries of a large owner, or more than are compared.

        Of a filter by more than validity and status it is not known what it passes: less than the reach has.
        """
        passing = count(selection(search.reach, search.where if is_usual else None), SCANNED_ENTRIES + 1)
        if passing > SCANNED_ENTRIES:
            return True
        most = math.ceil(SCANNED_ENTRIES / GRAPH_SHARE) + 1
        return is_usual and passing >= GRAPH_SHARE * count(owner_selection(search.reach.owner), most)

    def _prepare(self, connection: Connection) -> None:
        if not self._version:
            self._version = ensure_extension(connection)
        extend_search_path(connection)
        tables.register_vector_type(connection)
        if searches_iteratively(self._version):
            # Loads the extension's settings, which are not known before.
            connection.execute("SELECT '[1]'::vector")
            connection.execute("SELECT set_config('hnsw.iterative_scan', 'relaxed_order', false)")
            connection.execute(
                "SELECT set_config('hnsw.ef_search', %s, false)", (str(self._settings.graph_search_width),)
            )


def _count_entries(connection: Connection, table: str, view: View, where: Condition, most: int) -> int:
    """Return the number of entries of a view that meet a condition, at most *most*."""
    words = _COUNT.format(table=table, where=where.words)
    ((found,),) = connection.execute(words.encode(), (*where.parameters, int(view), most)).fetchall()
    return int(found)


def _open(settings: PgvectorSettings, context: BackendContext) -> AbstractContextManager[VectorIndex]:
    return closing(PgvectorIndex(settings, context.faults))


PGVECTOR: BackendSpec[VectorIndex] = BackendSpec(settings=PgvectorSettings, open=_open)
"""The vector index by pgvector, as the entry point names it."""


# A generation of vectors: how its manifest is written, and how it is made.


class PgvectorGeneration(TableGeneration[VectorEntry, VectorManifest]):
    """A generation of vectors, with a graph if the manifest requests one."""

    def __init__(self, making: GenerationBuild[VectorManifest], settings: PgvectorSettings) -> None:
        self._settings = settings
        self._manifest = making.made.manifest
        super().__init__(making)

    def replace(self, changes: Changes) -> None:
        """Make the entries of each memory exactly those given, once every vector has the right length."""
        require_dimensions(changes, self._manifest.dimension)
        super().replace(changes)

    def _create(self, connection: Connection, base: str) -> None:
        tables.create(connection, base, self._manifest.dimension)

    def _put(self, connection: Connection, base: str, changes: Changes) -> None:
        tables.replace(connection, base, changes)

    def _settle(self, connection: Connection, base: str) -> None:
        if self._manifest.hnsw:
            tables.build_graph(connection, base, self._settings)
        connection.execute(f'VACUUM ANALYZE "{base}"'.encode())


def require_dimensions(changes: Changes, dimension: int) -> None:
    """Raise DimensionMismatchError unless every vector has this length."""
    for entries in changes.values():
        for entry in entries:
            tables.require_dimension(entry.vector, dimension)
