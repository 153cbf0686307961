"""Building a new generation of an index beside the live one, while searches and writes go on."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from memsvc.domain.diagnostics import ReindexPhase, ReindexProgress
from memsvc.domain.index_entries import Document
from memsvc.engine.indexing.applying import ChangeApplier
from memsvc.engine.indexing.index_writers import Draft, IndexWriter
from memsvc.ports.change_feed import IndexFeed

BATCH = 256
"""Memories read, embedded and written at a time."""
CATCH_UP = 1_000
"""Changes taken over at a time once the bulk is done."""
NEARLY = 64
"""So few changes are left for the moment in which the live indexes stand still."""


class Rebuild:
    """Makes generations from the store as of an outbox position, then takes over what changed meanwhile."""

    def __init__(self, feed: IndexFeed, applying: ChangeApplier) -> None:
        self._feed = feed
        self._applying = applying

    def run(self, side: IndexWriter) -> Generator[ReindexProgress, None, None]:
        """Build a generation of *side* and switch to it; leaving the iteration early discards it.

        Raises:
            BackendUnavailableError: The index or the embedder cannot be reached; the live generation stays.
        """
        position = self._feed.head()
        total = self._feed.indexable()
        draft = side.draft(position=position, sample=self._documents, total=total)
        try:
            yield from self._bulk(side, draft, total)
            yield ReindexProgress(ReindexPhase.BUILDING, side.kind, total, total, draft.number)
            draft.seal()
            yield ReindexProgress(ReindexPhase.CATCHING_UP, side.kind, 0, self._feed.head() - position, draft.number)
            self._switch(draft, position)
            yield ReindexProgress(ReindexPhase.SWITCHED, side.kind, total, total, draft.number)
        finally:
            draft.discard()

    def _bulk(self, side: IndexWriter, draft: Draft, total: int) -> Iterator[ReindexProgress]:
        done = 0
        yield ReindexProgress(ReindexPhase.READING, side.kind, 0, total, draft.number)
        for batch in self._batches():
            draft.write([document.memory.row for document in batch], batch)
            done += len(batch)
            yield ReindexProgress(ReindexPhase.READING, side.kind, done, max(total, done), draft.number)

    def _switch(self, draft: Draft, position: int) -> None:
        while self._feed.head() - position > NEARLY:
            position = self._take_over(draft, position)
        # Once more: while the indexes stand still nothing should be left that the model has to embed.
        position = self._take_over(draft, position)
        with self._feed.standing_still(), self._applying.exclusive():
            while (reached := self._take_over(draft, position)) != position:
                position = reached
            self._feed.require_lent()
            draft.switch()

    def _take_over(self, draft: Draft, position: int) -> int:
        changes = self._feed.since(position, limit=CATCH_UP)
        if changes:
            rows = list(dict.fromkeys(change.row for change in changes))
            draft.write(rows, self._feed.documents(rows))
            position = changes[-1].position
        return position

    def _documents(self) -> Iterator[Document]:
        for batch in self._batches():
            yield from batch

    def _batches(self) -> Iterator[list[Document]]:
        after = -1
        while batch := self._feed.scan(after_row=after, limit=BATCH):
            yield batch
            after = batch[-1].memory.row
