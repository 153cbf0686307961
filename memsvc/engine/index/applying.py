"""Bringing changes from the store into both live indexes."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from memsvc.domain.indexing import Change, Document
from memsvc.engine.index.sides import Side
from memsvc.engine.index.vector_entries import VectorEntries
from memsvc.ports.metadata import IndexFeed

COSTLY = 32
"""Memories that the model has to embed, between two commits of the indexes."""
CHEAP = 512
"""Memories whose vectors are given, between two commits of the indexes."""


class Applying:
    """Writes the present state of memories into the live indexes.

    One thing at a time: who holds `exclusive` knows that the live indexes stand still.
    """

    def __init__(self, feed: IndexFeed, vectors: Side, lexical: Side, entries: VectorEntries) -> None:
        self._feed = feed
        self._vectors = vectors
        self._lexical = lexical
        self._entries = entries
        self._lock = threading.RLock()
        self._beside = ThreadPoolExecutor(1, thread_name_prefix="lexical-writer")

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Keep the live indexes as they are while the context is open."""
        with self._lock:
            yield

    def close(self) -> None:
        """Give the thread back."""
        self._beside.shutdown()

    def apply(self, changes: Sequence[Change]) -> Iterator[list[Change]]:
        """Apply *changes* part by part; yield each part once both indexes hold it for good and the store says so.

        Raises:
            BackendUnavailableError: An index or the embedder cannot be reached; what was yielded is applied.
        """
        for part, documents in self._parts(changes):
            with self._lock:
                self.write(_rows(part), documents)
                self._feed.mark_applied(part)
            yield part

    def write(self, rows: Sequence[int], documents: Sequence[Document]) -> None:
        """Write into both live indexes side by side; one that is not current is left to its rebuild."""
        beside = self._beside.submit(self._write, self._lexical, rows, documents)
        try:
            self._write(self._vectors, rows, documents)
        finally:
            beside.result()

    @staticmethod
    def _write(side: Side, rows: Sequence[int], documents: Sequence[Document]) -> None:
        if side.is_current():
            side.write(rows, documents)

    def _parts(self, changes: Sequence[Change]) -> Iterator[tuple[list[Change], list[Document]]]:
        documents = {document.memory.row: document for document in self._feed.documents(_rows(changes))}
        costly = {document.memory.row for document in self._entries.unknown(list(documents.values()))}
        part: list[Change] = []
        weight = 0
        for change in changes:
            part.append(change)
            weight += CHEAP // COSTLY if change.row in costly else 1
            if weight >= CHEAP:
                yield part, [documents[row] for row in _rows(part) if row in documents]
                part, weight = [], 0
        if part:
            yield part, [documents[row] for row in _rows(part) if row in documents]


def _rows(changes: Sequence[Change]) -> list[int]:
    return list(dict.fromkeys(change.row for change in changes))
