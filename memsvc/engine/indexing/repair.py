"""Holding an index against the store, entry by entry, and mending what differs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from memsvc.domain.diagnostics import ReindexPhase, ReindexProgress
from memsvc.domain.index_entries import Expected, View, entry_id, ordinal_of, row_of
from memsvc.engine.indexing.applying import ChangeApplier
from memsvc.engine.indexing.index_writers import IndexWriter
from memsvc.ports.change_feed import IndexFeed

PAGE = 1_000
MEND = 256
"""Memories mended while the live indexes stand still for writes."""
MAX_CHUNKS = 1 << 14


@dataclass(frozen=True, slots=True)
class Differences:
    """The rows of memories whose entries are not what they should be, by what is wrong, and how many were compared."""

    expected: int
    present: int
    missing: tuple[int, ...]
    stale: tuple[int, ...]
    orphaned: tuple[int, ...]

    @property
    def rows(self) -> list[int]:
        """Return all rows that need mending."""
        return [*self.missing, *self.stale, *self.orphaned]


class Repair:
    """Compares by row, chunk count and fingerprint, and writes again what differs."""

    def __init__(self, feed: IndexFeed, applying: ChangeApplier) -> None:
        self._feed = feed
        self._applying = applying

    def compare(self, side: IndexWriter) -> Differences:
        """Return how the index differs from the store, changes that still wait to be applied left out."""
        chunks: dict[int, int] = {}
        prints: dict[int, set[int]] = {}
        present = 0
        for listed in side.inventory():
            present += 1
            row = row_of(listed.entry_id)
            prints.setdefault(row, set()).add(listed.fingerprint)
            if listed.entry_id == entry_id(row, View.CHUNK, ordinal_of(listed.entry_id)):
                chunks[row] = chunks.get(row, 0) + 1
        return self._differences(chunks, prints, present)

    def _differences(self, chunks: dict[int, int], prints: dict[int, set[int]], present: int) -> Differences:
        missing, stale, expected = [], [], 0
        waiting = {change.row for change in self._feed.pending(limit=100_000)}
        for memory in self._expected():
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
        return Differences(expected, present, tuple(missing), tuple(stale), tuple(orphaned))

    def mend(self, side: IndexWriter, differences: Differences) -> Iterator[ReindexProgress]:
        """Write the entries of the differing memories again, a few at a time."""
        rows = differences.rows
        for start in range(0, len(rows), MEND):
            part = rows[start : start + MEND]
            with self._feed.standing_still(), self._applying.exclusive():
                documents = self._feed.documents(part)
                self._feed.require_lent()
                side.write(part, documents)
            yield ReindexProgress(ReindexPhase.REPAIRED, side.kind, start + len(part), len(rows), side.generation())

    def _expected(self) -> Iterator[Expected]:
        after = -1
        while page := self._feed.expected(after_row=after, limit=PAGE):
            yield from page
            after = page[-1].row
