"""Base of indexes whose generations are PostgreSQL tables, shared by any number of processes."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.scope import Reach
from memsvc.ports.indexes import Generation, ListedEntry
from memsvc_backends.postgres_index.connections import GONE, Connection, ConnectionPool, translate
from memsvc_backends.postgres_index.filters import Condition, selection
from memsvc_backends.postgres_index.generations import GenerationBuild, IndexTables, LiveTables, M, TableGenerations

# A generation that is being made in tables of its own, whatever its entries are.


E = TypeVar("E")
_SLICE = 256
"""Memories of one transaction while a generation is made."""
_PAGE = 5_000
_TRIES = 4
_SIZE = (
    "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c "
    "JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = current_schema() AND c.relkind = 'r' AND starts_with(c.relname, %s)"
)
R = TypeVar("R")


class TableGeneration(ABC, Generic[E, M]):
    """`memsvc.ports.indexes.Generation`. One thread at a time uses its connection; others wait."""

    def __init__(self, making: GenerationBuild[M]) -> None:
        """Create the tables.

        Raises:
            BackendUnavailableError: The database cannot be reached; the generation is given up.
        """
        self.making = making
        self._lock = threading.Lock()
        try:
            with translate(making.name):
                self._create(making.connection, making.made.base)
        except BaseException:
            making.discard()
            raise

    def replace(self, changes: Mapping[int, Sequence[E]]) -> None:
        """Replace the entries of each memory."""
        coming = iter(changes.items())
        with self._lock, translate(self.making.name):
            while part := dict(islice(coming, _SLICE)):
                self._put(self.making.connection, self.making.made.base, part)

    def seal(self) -> None:
        """Build what the manifest asks for, and bring the planner's knowledge up to date."""
        with self._lock, translate(self.making.name):
            self._settle(self.making.connection, self.making.made.base)

    def discard(self) -> None:
        """Remove the generation, unless it went live."""
        self.making.discard()

    @abstractmethod
    def _create(self, connection: Connection, base: str) -> None:
        """Create the tables."""

    @abstractmethod
    def _put(self, connection: Connection, base: str, changes: Mapping[int, Sequence[E]]) -> None:
        """Replace the entries of each memory, in one transaction."""

    @abstractmethod
    def _settle(self, connection: Connection, base: str) -> None:
        """Finish the bulk."""


class TableIndex(Generic[E, M]):
    """`memsvc.ports.indexes.DerivedIndex` without writes and searches."""

    is_shared = True

    def __init__(
        self,
        connections: ConnectionPool,
        kind: IndexTables[M],
        make: Callable[[GenerationBuild[M]], TableGeneration[E, M]],
    ) -> None:
        self._connections = connections
        self._make = make
        self._making: TableGeneration[E, M] | None = None
        try:
            self._generations = TableGenerations(connections, kind)
        except BaseException:
            connections.close()
            raise
        self._reading = TableReader(connections, self._generations)

    @property
    def manifest(self) -> M | None:
        """Return the manifest of the live generation, or None when there is none."""
        live = self._generations.live()
        return None if live is None else live.manifest

    def begin(self, manifest: M) -> Generation[E]:
        """Start a generation; discard an unfinished one of this process."""
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

    def inventory(self) -> Iterator[ListedEntry]:
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

    def _require_live(self) -> LiveTables[M]:
        """Return the live generation, or raise ValueError when there is none."""
        live = self._generations.live()
        if live is None:
            message = "The index has no generation yet."
            raise ValueError(message)
        return live


# Reads that both indexes share: of the live generation, or of the next one if that was dropped concurrently.


class TableReader(Generic[M]):
    """Reader of the live generation: queries, counts and inventory."""

    def __init__(self, connections: ConnectionPool, generations: TableGenerations[M]) -> None:
        self._connections = connections
        self._generations = generations

    def query(
        self,
        live: LiveTables[M] | None,
        ask: Callable[[Connection, LiveTables[M]], R],
        absent: R,
        deadline: Deadline | None = None,
    ) -> R:
        """Run *ask* on *live*, or on the next generation if it was dropped; return *absent* without a generation.

        Raises:
            DeadlineExceededError: The deadline passed first.
            BackendUnavailableError: The database cannot be reached.
        """
        for _ in range(_TRIES):
            if live is None:
                return absent
            with translate(self._connections.name, deadline):
                try:
                    with self._connections.borrow(deadline) as connection:
                        return ask(connection, live)
                except GONE:
                    live = self._generations.refresh()
        raise BackendUnavailableError(self._connections.name)

    def inventory(self) -> Iterator[ListedEntry]:
        """List every entry, ascending, page by page."""
        after = -1
        while True:

            def page(connection: Connection, live: LiveTables[M], after: int = after) -> list[tuple[Any, ...]]:
                table = self._entries(live)
                words = f'SELECT entry, fingerprint FROM "{table}" WHERE entry > %s ORDER BY entry LIMIT {_PAGE}'
                return connection.execute(words.encode(), (after,), binary=True).fetchall()

            nothing: list[tuple[Any, ...]] = []
            found = self.query(self._generations.live(), page, nothing)
            for entry, fingerprint in found:
                yield ListedEntry(entry, fingerprint)
            if len(found) < _PAGE:
                return
            after = found[-1][0]

    def count(self, where: Condition | None) -> int:
        """Return the number of entries that meet a condition, or of all."""
        words, parameters = where or Condition("true")

        def counted(connection: Connection, live: LiveTables[M]) -> int:
            return _number(connection, f'SELECT count(*) FROM "{self._entries(live)}" WHERE {words}', parameters)

        return self.query(self._generations.live(), counted, 0)

    def largest_owner(self) -> int:
        """Return the largest number of entries of one view of an owner."""

        def most(connection: Connection, live: LiveTables[M]) -> int:
            counts = f'SELECT count(*) AS held FROM "{self._entries(live)}" GROUP BY owner_key, view'
            return _number(connection, f"SELECT coalesce(max(held), 0)::bigint FROM ({counts}) AS counts", ())

        return self.query(self._generations.live(), most, 0)

    def storage_bytes(self) -> int:
        """Return the bytes of all tables of the index, those of a generation being made too."""
        self._connections.require_open()
        with translate(self._connections.name), self._connections.borrow() as connection:
            return _number(connection, _SIZE, (f"{self._generations.kind.name}_",))

    def _entries(self, live: LiveTables[M]) -> str:
        return f"{live.base}{self._generations.kind.entries}"


def _number(connection: Connection, words: str, parameters: tuple[Any, ...]) -> int:
    found = connection.execute(words.encode(), parameters).fetchone()
    return 0 if found is None else int(found[0])
