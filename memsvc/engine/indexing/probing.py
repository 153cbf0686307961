"""Looking for some memories by what they say: what an inventory cannot show is whether searches find what is listed."""

from __future__ import annotations

from collections.abc import Iterator

from memsvc.domain.clock import Deadline
from memsvc.domain.diagnostics import IndexKind
from memsvc.domain.errors import BackendUnavailableError, DimensionMismatchError
from memsvc.domain.filters import AnyOf, Field
from memsvc.domain.index_entries import Document
from memsvc.domain.scope import Reach
from memsvc.engine.indexing.centring import means_of
from memsvc.engine.indexing.spaces import EmbeddingSpaces
from memsvc.engine.indexing.views import lexical_entries
from memsvc.ports.change_feed import IndexFeed
from memsvc.ports.lexical import LexicalIndex
from memsvc.ports.vectors import VectorIndex

SAMPLE = 64
"""Memories looked for at most, spread over all."""
PENDING = 100_000
ALIKE = 0.98
"""A vector that is searched for by itself is as good as found by less: indexes may store it in fewer bits."""
TERMS = 8
_NO_HURRY = Deadline()


class SearchProbe:
    """Searches each index for memories of all ages by their own words, or their own vector."""

    def __init__(self, feed: IndexFeed, indexes: tuple[VectorIndex, LexicalIndex], spaces: EmbeddingSpaces) -> None:
        self._feed = feed
        self._vectors, self._lexical = indexes
        self.spaces = spaces

    def run(self, kind: IndexKind) -> tuple[int, int]:
        """Return how many memories were not found, and how many were looked for.

        Those that the index does not know yet are left out. A search that fails finds nothing.
        """
        failed = asked = 0
        waiting = {change.row for change in self._feed.pending(limit=PENDING)}
        for document in self._sample():
            if document.memory.row in waiting:
                continue
            found = self._by_words(document) if kind is IndexKind.LEXICAL else self._by_meaning(document)
            failed += found is False
            asked += found is not None
        return failed, asked

    def _sample(self) -> Iterator[Document]:
        top = 1
        while self._feed.expected(after_row=top, limit=1):
            top *= 2
        seen = -1
        for place in range(SAMPLE):
            found = self._feed.scan(after_row=max(seen, place * top // SAMPLE - 1), limit=1)
            if not found:
                return
            seen = found[0].memory.row
            yield found[0]

    def _by_words(self, document: Document) -> bool | None:
        terms = lexical_entries(document)[0].terms[:TERMS]
        if not terms:
            return None
        try:
            hits = self._lexical.search(
                terms, reach=_reach(document), where=_itself(document), limit=1, deadline=_NO_HURRY
            )
        except BackendUnavailableError:
            return False
        return bool(hits)

    def _by_meaning(self, document: Document) -> bool | None:
        manifest = self._vectors.manifest
        space = self.spaces.of(manifest)
        if manifest is None or space is None:
            return None
        entry = space.entries.entries([document], means_of(manifest))[document.memory.row][0]
        if not entry.vector.any():
            return None
        try:
            hits = self._vectors.search(
                entry.vector,
                view=entry.view,
                reach=_reach(document),
                where=_itself(document),
                limit=1,
                deadline=_NO_HURRY,
            )
        except BackendUnavailableError:
            return False
        except DimensionMismatchError:
            return None
        if self._vectors.manifest != manifest:
            # Another generation, perhaps of another model, went live meanwhile.
            return None
        return bool(hits) and hits[0].score > ALIKE


def _reach(document: Document) -> Reach:
    scope = document.memory.scope
    return Reach(scope.owner, (scope.project_id,))


def _itself(document: Document) -> AnyOf:
    return AnyOf(Field.ROW, (document.memory.row,))
