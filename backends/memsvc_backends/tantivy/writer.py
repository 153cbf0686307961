"""The single writer of a generation."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock

from tantivy import Document, Index, IndexWriter, PreTokenizedString, Token

from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.index_entries import Attributes, LexicalEntry
from memsvc_backends.tantivy.schema import (
    BODY,
    CONFIDENCE,
    ENTRY,
    FINGERPRINT,
    NAME,
    OWNER,
    ROW,
    TERMS,
    filter_term,
    is_kept,
    owner_mark,
    place_term,
    term_key,
    translate,
)

NICENESS = 10
_TASKS = Path("/proc/self/task")
_MERGE = "merge_thread"
"""How Tantivy names these threads."""


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
        with self._lock, self._undo_on_failure() as writer:
            self._put(writer, changes)
            writer.commit()

    def apply(self, changes: Mapping[int, Sequence[LexicalEntry]]) -> None:
        """Make the documents of each memory those of the entries given, to be committed later."""
        with self._lock, self._undo_on_failure() as writer:
            self._put(writer, changes)
            self._has_pending = True

    def commit(self) -> None:
        """Write all that was applied to the disk."""
        with self._lock:
            if self._has_pending:
                with self._undo_on_failure() as writer:
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
    def _undo_on_failure(self) -> Iterator[IndexWriter]:
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


# Entries as Tantivy's documents.


def document_of(entry: LexicalEntry) -> Document:
    """Return the document of an entry."""
    document = Document()
    document.add_integer(ENTRY, entry.entry_id)
    _add_body(document, owner_mark(entry.attributes.owner), entry.terms)
    _add_strings(document, entry.attributes)
    _add_numbers(document, entry.attributes)
    return document


def _add_body(document: Document, mark: str, terms: Sequence[str]) -> None:
    keys = [term_key(mark, term) for term in terms]
    body = " ".join(keys)
    # Python splits at every character that Tantivy's tokenizer splits at, and at a few more.
    if is_kept(body) and body.split() == keys:
        document.add_text(BODY, body)
        return
    tokens = [Token(key, position, 0, 0) for position, key in enumerate(keys)]
    document.add_pre_tokenized_text(BODY, PreTokenizedString("", tokens))


def _add_strings(document: Document, attributes: Attributes) -> None:
    add = document.add_text
    add(TERMS, filter_term(OWNER, attributes.owner))
    add(TERMS, place_term(attributes.owner, attributes.project_id))
    add(TERMS, filter_term("agent_id", attributes.agent_id))
    add(TERMS, filter_term("session_id", attributes.session_id))
    add(TERMS, filter_term("layer", attributes.layer))
    add(TERMS, filter_term("kind", attributes.kind))
    add(TERMS, filter_term("category", attributes.category))
    add(TERMS, filter_term("tier", attributes.tier))
    add(TERMS, filter_term("status", attributes.status))
    add(TERMS, filter_term("speaker", attributes.speaker))
    add(TERMS, filter_term("importance", attributes.importance))
    for tag in attributes.tags:
        add(TERMS, filter_term("tags", tag))
    for term in attributes.metadata:
        add(TERMS, filter_term("metadata", term))


def _add_numbers(document: Document, attributes: Attributes) -> None:
    add = document.add_integer
    add(ROW, attributes.row)
    add(FINGERPRINT, attributes.fingerprint)
    add("importance", attributes.importance)
    add("create_time", attributes.create_time)
    add("update_time", attributes.update_time)
    if attributes.event_time is not None:
        add("event_time", attributes.event_time)
    if attributes.expire_time is not None:
        add("expire_time", attributes.expire_time)
    if attributes.valid_from is not None:
        add("valid_from", attributes.valid_from)
    if attributes.valid_to is not None:
        add("valid_to", attributes.valid_to)
    document.add_float(CONFIDENCE, attributes.confidence)


# The threads that merge segments step back for the rest of the service: no call waits for a merge.


def step_back() -> None:
    """Give the merge threads of this process a low priority, on Linux, where each thread has its own."""
    with suppress(OSError):
        for task in _TASKS.iterdir():
            # A thread may have ended.
            with suppress(OSError):
                if (task / "comm").read_text(encoding="utf-8").startswith(_MERGE):
                    os.setpriority(os.PRIO_PROCESS, int(task.name), NICENESS)
