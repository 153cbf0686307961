"""The lexical index on PostgreSQL: BM25 over our own terms. No parser of PostgreSQL ever sees a text."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, closing
from typing import Any

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendUnavailableError, DeadlineExceededError
from memsvc.domain.filters import Filter
from memsvc.domain.index_entries import Hit, LexicalEntry, LexicalManifest
from memsvc.domain.scope import Reach
from memsvc.ports.faults import FaultLog
from memsvc.ports.indexes import LexicalIndex
from memsvc.ports.plugin import BackendContext, BackendSpec
from memsvc_backends.postgres_index import postings as tables
from memsvc_backends.postgres_index.bm25 import search as find
from memsvc_backends.postgres_index.connections import Connection, ConnectionPool, end_stuck_writers
from memsvc_backends.postgres_index.filters import selection
from memsvc_backends.postgres_index.generations import IndexTables, LiveTables
from memsvc_backends.postgres_index.postings import Changes
from memsvc_backends.postgres_index.settings import FulltextSettings
from memsvc_backends.postgres_index.table_index import TableGeneration, TableIndex

NAME = "pg-fulltext"


def _to_json(manifest: LexicalManifest) -> dict[str, Any]:
    return {"generation": manifest.generation, "position": manifest.position, "analysis": manifest.analysis}


def _from_json(content: dict[str, Any]) -> LexicalManifest:
    return LexicalManifest(int(content["generation"]), int(content["position"]), str(content["analysis"]))


KIND: IndexTables[LexicalManifest] = IndexTables(
    "index_terms", tables.PARTS, tables.ENTRIES, _to_json, _from_json, earlier=("index_words",)
)


class FulltextGeneration(TableGeneration[LexicalEntry, LexicalManifest]):
    """A generation of the lexical index."""

    def _create(self, connection: Connection, base: str) -> None:
        tables.create(connection, base)

    def _put(self, connection: Connection, base: str, changes: Changes) -> None:
        tables.replace(connection, base, changes)

    def _settle(self, connection: Connection, base: str) -> None:
        tables.settle(connection, base)


class FulltextIndex(TableIndex[LexicalEntry, LexicalManifest]):
    """`memsvc.ports.indexes.LexicalIndex`."""

    def __init__(self, settings: FulltextSettings, faults: FaultLog | None = None) -> None:
        connections = ConnectionPool(NAME, settings, lambda _connection: None, faults)
        super().__init__(connections, KIND, FulltextGeneration)

    def replace(self, changes: Changes) -> None:
        """Replace the entries of each memory, in one transaction."""

        def write(connection: Connection, live: LiveTables[LexicalManifest]) -> bool:
            with end_stuck_writers(connection, live.base):
                tables.replace(connection, live.base, changes)
            return True

        if not self._reading.query(self._require_live(), write, absent=False):
            raise BackendUnavailableError(NAME)

    def search(
        self, terms: Sequence[str], *, reach: Reach, where: Filter | None = None, limit: int, deadline: Deadline
    ) -> list[Hit]:
        """Return the entries that hold one of the terms or more, best first, equal scores by entry id."""
        live = self._generations.live()
        if deadline.has_passed():
            raise DeadlineExceededError(NAME)
        if not terms or limit <= 0 or not reach.project_ids:
            return []
        within = selection(reach, where)

        def best(connection: Connection, live: LiveTables[LexicalManifest]) -> list[Hit]:
            return [Hit(*hit) for hit in find(connection, live.base, terms, within, limit=limit)]

        return self._reading.query(live, best, [], deadline)


def _open(settings: FulltextSettings, context: BackendContext) -> AbstractContextManager[LexicalIndex]:
    return closing(FulltextIndex(settings, context.faults))


FULLTEXT: BackendSpec[LexicalIndex] = BackendSpec(settings=FulltextSettings, open=_open)
"""The lexical index on PostgreSQL, as the entry point names it."""
