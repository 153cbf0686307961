"""Bringing changes from the store into both live indexes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext

from memsvc.domain.index_entries import Change, Document
from memsvc.engine.indexing.ahead import EmbeddingPrefetcher, Part
from memsvc.engine.indexing.index_writers import IndexWriter
from memsvc.engine.indexing.vector_entries import VectorEntries
from memsvc.ports.change_feed import IndexFeed

COSTLY = 32
"""Passages that the model has to embed, between two commits of the indexes."""
CHEAP = 512
"""Memories whose vectors are given, between two commits of the indexes."""


class ChangeApplier:
    """Writes the present state of memories into the live indexes.

    One thing at a time: who holds `exclusive` knows that the live indexes stand still.
    """

    def __init__(self, feed: IndexFeed, vectors: IndexWriter, lexical: IndexWriter, entries: VectorEntries) -> None:
        self._feed = feed
        self._vectors = vectors
        self._lexical = lexical
        self._entries = entries
        self._ahead = EmbeddingPrefetcher(entries)
        self._lock = threading.RLock()
        self._beside = ThreadPoolExecutor(1, thread_name_prefix="lexical-writer")

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Keep the live indexes as they are while the context is open."""
        with self._lock:
            yield

    def close(self) -> None:
        """Give the threads back."""
        self._ahead.close()
        self._beside.shutdown()

    def apply(
        self, changes: Sequence[Change], *, is_over: Callable[[], bool] | None = None
    ) -> Iterator[Sequence[Change]]:
        """Apply *changes* part by part; yield each part once both indexes hold it for good, for the store to note it.

        When *is_over* says so while a part is being embedded, that part and those after it are left to another time.
        Without it nothing can be more urgent than these changes, and nothing is done beside them.

        Raises:
            BackendUnavailableError: An index or the embedder cannot be reached; what was yielded is applied.
        """
        parts = list(self._parts(changes))
        with closing(self._embedded(parts, is_over)) if self._vectors.is_current() else nullcontext(parts) as ready:
            for part in ready:
                with self._lock:
                    # Embedding may have taken long.
                    self._feed.require_lent()
                    self.write(part.rows, part.documents)
                yield part.changes

    def _embedded(self, parts: Sequence[Part], is_over: Callable[[], bool] | None) -> Generator[Part, None, None]:
        if is_over is not None:
            yield from self._ahead.each(parts, is_over)
            return
        for part in parts:
            if part.costly > 1:
                self._entries.embed(part.documents)
            yield part

    def write(self, rows: Sequence[int], documents: Sequence[Document]) -> None:
        """Write into both live indexes side by side; one that is not current is left to its rebuild."""
        beside = self._beside.submit(self._write, self._lexical, rows, documents)
        try:
            self._write(self._vectors, rows, documents)
        finally:
            beside.result()

    def write_words(self, rows: Sequence[int], documents: Sequence[Document]) -> None:
        """Write into the live index of words alone.

        Raises:
            BackendUnavailableError: It cannot be reached.
        """
        with self._lock:
            self._feed.require_lent()
            self._write(self._lexical, rows, documents)

    @staticmethod
    def _write(side: IndexWriter, rows: Sequence[int], documents: Sequence[Document]) -> None:
        if side.is_current():
            side.write(rows, documents)

    def _parts(self, changes: Sequence[Change]) -> Iterator[Part]:
        rows = list(dict.fromkeys(change.row for change in changes))
        documents = {document.memory.row: document for document in self._feed.documents(rows)}
        costs = {row: self._entries.cost(document) for row, document in documents.items()}
        part: list[Change] = []
        weight = 0
        for change in changes:
            part.append(change)
            weight += max(1, costs.get(change.row, 0) * CHEAP // COSTLY)
            if weight >= CHEAP:
                yield _part(part, documents, costs)
                part, weight = [], 0
        if part:
            yield _part(part, documents, costs)


def _part(changes: Sequence[Change], documents: Mapping[int, Document], costs: Mapping[int, int]) -> Part:
    rows = dict.fromkeys(change.row for change in changes)
    costly = sum(costs.get(row, 0) for row in rows)
    return Part(changes, [documents[row] for row in rows if row in documents], costly)
