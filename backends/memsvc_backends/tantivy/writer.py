"""The single writer of a generation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock

from tantivy import Index, IndexWriter

from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.index_entries import LexicalEntry
from memsvc_backends.tantivy.documents import document_of
from memsvc_backends.tantivy.errors import NAME, translate
from memsvc_backends.tantivy.merging import step_back
from memsvc_backends.tantivy.schema import ROW


class TantivyWriter:
    """Adds and removes documents by memory; one call at a time.

    Either `write`, or `apply` many times and then `commit`. A failure takes back all that was not committed; when
    that is more than the failed call, the writer refuses every later one.
    """

    def __init__(self, index: Index, *, heap_bytes: int, highest_row: int) -> None:
        self._index = index
        self._heap_bytes = heap_bytes
        self._highest_row = highest_row
        self._writer: IndexWriter | None = None
        self._has_pending = False
        self._is_unusable = False
        self._lock = Lock()

    def write(self, changes: Mapping[int, Sequence[LexicalEntry]]) -> None:
        """Make the documents of each memory those of the entries given, all or none, with one commit."""
        with self._lock, self._undone_on_failure() as writer:
            self._put(writer, changes)
            writer.commit()

    def apply(self, changes: Mapping[int, Sequence[LexicalEntry]]) -> None:
        """Make the documents of each memory those of the entries given, to be committed later."""
        with self._lock, self._undone_on_failure() as writer:
            self._put(writer, changes)
            self._has_pending = True

    def commit(self) -> None:
        """Write all that was applied to the disk."""
        with self._lock:
            if self._has_pending:
                with self._undone_on_failure() as writer:
                    writer.commit()
                self._has_pending = False

    def settle(self) -> None:
        """Wait until no segments are being merged, and give the threads back. What is not committed is lost."""
        with self._lock, translate():
            writer, self._writer = self._writer, None
            if writer is not None:
                # It uses the writer up; the next change opens another.
                writer.wait_merging_threads()

    def close(self) -> None:
        """Give the threads back for good."""
        self._is_unusable = True
        self.settle()

    def _put(self, writer: IndexWriter, changes: Mapping[int, Sequence[LexicalEntry]]) -> None:
        for row, entries in changes.items():
            # Rows grow, so most are new: a deletion is looked up in every segment and is worth avoiding.
            if row <= self._highest_row:
                writer.delete_documents_by_term(ROW, row)
            for entry in entries:
                writer.add_document(document_of(entry))
            if entries:
                self._highest_row = max(self._highest_row, row)

    @contextmanager
    def _undone_on_failure(self) -> Iterator[IndexWriter]:
        if self._is_unusable:
            raise BackendUnavailableError(NAME)
        with translate():
            if self._writer is None:
                self._writer = self._index.writer(self._heap_bytes, 1)
                step_back()
            try:
                yield self._writer
            except BaseException:
                self._is_unusable = self._has_pending
                self._undo()
                raise

    def _undo(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.rollback()
            self._writer = writer
