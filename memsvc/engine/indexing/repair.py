"""Comparison of an index with the store, entry by entry, and repair of differences."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from memsvc.domain.clock import Deadline
from memsvc.domain.diagnostics import IndexKind, ReindexPhase, ReindexProgress
from memsvc.domain.errors import BackendUnavailableError, DimensionMismatchError
from memsvc.domain.filters import AnyOf, Field
from memsvc.domain.index_entries import Document, ExpectedEntries, View, entry_id, ordinal_of, row_of
from memsvc.domain.scope import Reach
from memsvc.engine.indexing.index_writers import IndexWriter
from memsvc.engine.indexing.indexer import ChangeApplier
from memsvc.engine.indexing.vector_entries import EmbeddingSpaces, Means, lexical_entries
from memsvc.ports.change_feed import IndexFeed
from memsvc.ports.indexes import LexicalIndex, VectorIndex

PAGE = 1_000
REPAIR_BATCH = 256
"""Memories repaired while the live indexes are frozen."""
MAX_CHUNKS = 1 << 14
SAMPLE = 64
"""Maximum number of probed memories, spread over all rows."""
PENDING = 100_000
LEAST_SIMILARITY = 0.98
"""Similarity of a vector with itself that counts as found: indexes may store vectors in fewer bits."""
TERMS = 8
_NO_DEADLINE = Deadline()


@dataclass(frozen=True, slots=True)
class IndexDifferences:
    """Rows of memories with wrong entries, by kind of difference, and the numbers of compared entries."""

    expected: int
    present: int
    missing: tuple[int, ...]
    stale: tuple[int, ...]
    orphaned: tuple[int, ...]

    @property
    def rows(self) -> list[int]:
        """Return all rows to repair."""
        return [*self.missing, *self.stale, *self.orphaned]


class IndexRepairer:
    """Compares by row, chunk count and fingerprint, and rewrites what differs."""

    def __init__(self, feed: IndexFeed, change_applier: ChangeApplier) -> None:
        self._feed = feed
        self._change_applier = change_applier

    def compare(self, writer: IndexWriter) -> IndexDifferences:
        """Return the differences between index and store, without changes that are pending.

        A change may be stored and applied while the index is read: what differs is compared a second time.
        """
        first = self._compare_once(writer)
        if not first.rows:
            return first
        second = self._compare_once(writer)
        differing = set(first.rows)
        missing, stale, orphaned = (
            tuple(row for row in rows if row in differing) for rows in (second.missing, second.stale, second.orphaned)
        )
        return replace(second, missing=missing, stale=stale, orphaned=orphaned)

    def _compare_once(self, writer: IndexWriter) -> IndexDifferences:
        waiting = self._pending_rows()
        chunks: dict[int, int] = {}
        prints: dict[int, set[int]] = {}
        present = 0
        for listed in writer.inventory():
            present += 1
            row = row_of(listed.entry_id)
            prints.setdefault(row, set()).add(listed.fingerprint)
            if listed.entry_id == entry_id(row, View.CHUNK, ordinal_of(listed.entry_id)):
                chunks[row] = chunks.get(row, 0) + 1
        return self._differences(chunks, prints, present, waiting | self._pending_rows())

    def _pending_rows(self) -> set[int]:
        return {change.row for change in self._feed.pending_changes(limit=PENDING)}

    def _differences(
        self, chunks: dict[int, int], prints: dict[int, set[int]], present: int, waiting: AbstractSet[int]
    ) -> IndexDifferences:
        missing, stale, expected = [], [], 0
        for memory in self._expected_entries():
            expected += min(memory.chunk_count, MAX_CHUNKS)
            count = chunks.pop(memory.row, 0)
            found = prints.pop(memory.row, set())
            if memory.row in waiting:
                continue
            if count < min(memory.chunk_count, MAX_CHUNKS):
                missing.append(memory.row)
            elif found != {memory.fingerprint} or count > memory.chunk_count:
                stale.append(memory.row)
        orphaned = [row for row in prints if row not in waiting]
        return IndexDifferences(expected, present, tuple(missing), tuple(stale), tuple(orphaned))

    def repair(self, writer: IndexWriter, differences: IndexDifferences) -> Iterator[ReindexProgress]:
        """Rewrite the entries of differing memories, a batch at a time."""
        rows = differences.rows
        for start in range(0, len(rows), REPAIR_BATCH):
            part = rows[start : start + REPAIR_BATCH]
            with self._feed.pause(), self._change_applier.exclusive():
                documents = self._feed.documents(part)
                self._feed.require_claim()
                writer.write(part, documents)
                # Lost, another process may have written a later state before: the next verification shows it.
                self._feed.require_claim()
            yield ReindexProgress(ReindexPhase.REPAIRED, writer.kind, start + len(part), len(rows), writer.generation())

    def _expected_entries(self) -> Iterator[ExpectedEntries]:
        after = -1
        while page := self._feed.expected_entries(after_row=after, limit=PAGE):
            yield from page
            after = page[-1].row


# A search probe checks that listed entries are found, which an inventory cannot show.


class SearchProbe:
    """Searches each index for memories of all ages by their own words or their own vector."""

    def __init__(self, feed: IndexFeed, indexes: tuple[VectorIndex, LexicalIndex], spaces: EmbeddingSpaces) -> None:
        self._feed = feed
        self._vectors, self._lexical = indexes
        self.spaces = spaces

    def run(self, kind: IndexKind) -> tuple[int, int]:
        """Return the number of memories that were not found, and of those searched for.

        Memories with pending changes are skipped. A failing search finds nothing.
        """
        failed = asked = 0
        waiting = {change.row for change in self._feed.pending_changes(limit=PENDING)}
        for document in self._sample():
            if document.memory.row in waiting:
                continue
            found = self._probe_lexical(document) if kind is IndexKind.LEXICAL else self._probe_vectors(document)
            failed += found is False
            asked += found is not None
        return failed, asked

    def _sample(self) -> Iterator[Document]:
        top = 1
        while self._feed.expected_entries(after_row=top, limit=1):
            top *= 2
        seen = -1
        for place in range(SAMPLE):
            found = self._feed.scan(after_row=max(seen, place * top // SAMPLE - 1), limit=1)
            if not found:
                return
            seen = found[0].memory.row
            yield found[0]

    def _probe_lexical(self, document: Document) -> bool | None:
        terms = lexical_entries(document)[0].terms[:TERMS]
        if not terms:
            return None
        try:
            hits = self._lexical.search(
                terms, reach=_reach_of(document), where=_row_filter(document), limit=1, deadline=_NO_DEADLINE
            )
        except BackendUnavailableError:
            return False
        return bool(hits)

    def _probe_vectors(self, document: Document) -> bool | None:
        manifest = self._vectors.manifest
        space = self.spaces.of(manifest)
        if manifest is None or space is None:
            return None
        entry = space.entries.entries([document], Means.from_manifest(manifest))[document.memory.row][0]
        if not entry.vector.any():
            return None
        try:
            hits = self._vectors.search(
                entry.vector,
                view=entry.view,
                reach=_reach_of(document),
                where=_row_filter(document),
                limit=1,
                deadline=_NO_DEADLINE,
            )
        except BackendUnavailableError:
            return False
        except DimensionMismatchError:
            return None
        if self._vectors.manifest != manifest:
            # The generation was switched during the search, perhaps to another model.
            return None
        return bool(hits) and hits[0].score > LEAST_SIMILARITY


def _reach_of(document: Document) -> Reach:
    scope = document.memory.scope
    return Reach(scope.owner, (scope.project_id,))


def _row_filter(document: Document) -> AnyOf:
    return AnyOf(Field.ROW, (document.memory.row,))
