"""The lexical index on PostgreSQL: BM25 over our own terms. No parser of PostgreSQL ever sees a text."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from backends.postgres import lexical_tables as tables
from backends.postgres.bm25 import search as find
from backends.postgres.connections import Connection, Connections
from backends.postgres.errors import GONE, translate
from backends.postgres.filters import selection
from backends.postgres.generations import Generations, Kind, Making
from backends.postgres.inventory import asked, count, listed, storage_bytes
from backends.postgres.lexical_tables import Changes
from backends.postgres.settings import FulltextSettings
from memsvc.domain.clock import Deadline
from memsvc.domain.entries import Hit, LexicalEntry
from memsvc.domain.errors import BackendUnavailableError, DeadlineExceededError
from memsvc.domain.filters import Filter
from memsvc.domain.indexing import LexicalManifest
from memsvc.domain.scope import Reach
from memsvc.ports.backend import BackendContext, BackendSpec
from memsvc.ports.index import Generation, Listed
from memsvc.ports.lexical import LexicalIndex

NAME = "pg-fulltext"
_TRIES = 4
_SLICE = 256
"""Memories of one transaction while a generation is made."""


def _to_json(manifest: LexicalManifest) -> dict[str, Any]:
    return {"generation": manifest.generation, "position": manifest.position, "analysis": manifest.analysis}


def _from_json(content: dict[str, Any]) -> LexicalManifest:
    return LexicalManifest(**content)


KIND: Kind[LexicalManifest] = Kind("index_words", tables.PARTS, _to_json, _from_json)


class FulltextGeneration:
    """A generation that is being made."""

    def __init__(self, making: Making[LexicalManifest]) -> None:
        self.making = making
        self._lock = threading.Lock()

    def replace(self, changes: Changes) -> None:
        """Make the entries of each memory exactly those given."""
        coming = iter(changes.items())
        with self._lock, translate(NAME):
            while part := dict(islice(coming, _SLICE)):
                tables.replace(self.making.connection, self.making.made.base, part)

    def seal(self) -> None:
        """Bring the planner's knowledge up to date."""
        with self._lock, translate(NAME):
            tables.settle(self.making.connection, self.making.made.base)

    def discard(self) -> None:
        """Remove the generation, unless it went live."""
        self.making.discard()


class FulltextIndex:
    """A LexicalIndex whose generations are tables, shared by any number of processes."""

    is_shared = True

    def __init__(self, settings: FulltextSettings) -> None:
        self._connections = Connections(NAME, settings, lambda _connection: None)
        self._making: FulltextGeneration | None = None
        try:
            self._generations = Generations(self._connections, KIND)
        except BaseException:
            self._connections.close()
            raise

    @property
    def manifest(self) -> LexicalManifest | None:
        """Return the manifest of the live generation, or None when there is none."""
        live = self._generations.live()
        return None if live is None else live.manifest

    def replace(self, changes: Changes) -> None:
        """Make the entries of each memory exactly those given, in one transaction."""
        if self._generations.live() is None:
            message = "The index has no generation yet."
            raise ValueError(message)

        def write(connection: Connection, base: str) -> bool:
            tables.replace(connection, base, changes)
            return True

        if not asked(self._connections, self._generations, write, absent=False):
            raise BackendUnavailableError(NAME)

    def search(
        self, terms: Sequence[str], *, reach: Reach, where: Filter | None = None, limit: int, deadline: Deadline
    ) -> list[Hit]:
        """Return the entries that hold one of the terms or more, best first, equal scores by entry id."""
        live = self._generations.live()
        if deadline.passed():
            raise DeadlineExceededError(NAME)
        if not terms or limit <= 0 or not reach.project_ids:
            return []
        within = selection(reach, where)
        for _ in range(_TRIES):
            if live is None:
                return []
            with translate(NAME, deadline):
                try:
                    with self._connections.lent(deadline) as connection:
                        return [Hit(*hit) for hit in find(connection, live.base, terms, within, limit=limit)]
                except GONE:
                    live = self._generations.refresh()
        raise BackendUnavailableError(NAME)

    def begin(self, manifest: LexicalManifest) -> Generation[LexicalEntry]:
        """Start a generation; one that was begun here before and not switched to is discarded."""
        self._connections.require_open()
        if self._making is not None:
            self._making.discard()
        making = self._generations.begin(manifest)
        try:
            with translate(NAME):
                tables.create(making.connection, making.made.base)
        except BaseException:
            making.discard()
            raise
        self._making = FulltextGeneration(making)
        return self._making

    def switch(self, generation: Generation[LexicalEntry]) -> None:
        """Make a sealed generation the live one, and remove the one before."""
        self._connections.require_open()
        if not isinstance(generation, FulltextGeneration) or generation is not self._making:
            message = "The generation is not the one that was begun last."
            raise ValueError(message)
        generation.making.publish()
        self._making = None

    def inventory(self) -> Iterator[Listed]:
        """List every entry, ascending."""
        return listed(self._connections, self._generations, tables.ENTRIES)

    def count(self, *, reach: Reach | None = None) -> int:
        """Return the number of entries: those in *reach*, or all."""
        where = None if reach is None else selection(reach, None)
        return count(self._connections, self._generations, tables.ENTRIES, where)

    def storage_bytes(self) -> int:
        """Return the bytes of all tables and their indexes."""
        return storage_bytes(self._connections, self._generations)

    def ping(self) -> None:
        """Return when the database answers, or raise BackendUnavailableError."""
        self._connections.require_open()
        self._generations.refresh()

    def close(self) -> None:
        """Give the connections back, and refuse every later use."""
        self._connections.close()
        if self._making is not None:
            self._making.making.close()


@contextmanager
def _open(settings: FulltextSettings, _context: BackendContext) -> Iterator[LexicalIndex]:
    index = FulltextIndex(settings)
    try:
        yield index
    finally:
        index.close()


FULLTEXT: BackendSpec[LexicalIndex] = BackendSpec(settings=FulltextSettings, open=_open)
"""The lexical index on PostgreSQL, as the entry point names it."""
