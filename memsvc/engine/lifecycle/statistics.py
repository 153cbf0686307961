"""The counts of one scope."""

from __future__ import annotations

from memsvc.domain.report import Notice, Stats
from memsvc.domain.scope import Reach, Scope
from memsvc.engine.index.indexer import Indexer
from memsvc.ports.lexical import LexicalIndex
from memsvc.ports.metadata import MetadataStore
from memsvc.ports.vectors import VectorIndex

LAGGING = 1_000
"""So many changes behind the store, an index is worth a warning."""


class Statistics:
    """Counts what a scope can see, in the store and in the indexes."""

    def __init__(self, store: MetadataStore, vectors: VectorIndex, lexical: LexicalIndex, indexer: Indexer) -> None:
        self._store = store
        self._vectors = vectors
        self._lexical = lexical
        self._indexer = indexer

    def of(self, scope: Scope) -> Stats:
        """Return the counts of what *scope* can see.

        Raises:
            BackendUnavailableError: The store or an index cannot be reached.
        """
        reach = Reach.from_scope(scope)
        pending = self._indexer.pending
        return Stats(
            counts=self._store.memories.counts(reach=reach),
            vector_count=self._vectors.count(reach=reach),
            lexical_count=self._lexical.count(reach=reach),
            storage_bytes=sum(part.storage_bytes() for part in (self._store, self._vectors, self._lexical)),
            pending_changes=pending,
            warnings=tuple(warnings(pending, replaying=self._indexer.replaying)),
        )


def warnings(pending: int, *, replaying: bool) -> list[Notice]:
    """Return what an operator should know of the indexer."""
    found = []
    if replaying:
        found.append(Notice("REPLAYING", "The indexes are being brought up to date after a start; searches wait."))
    if pending > LAGGING:
        found.append(
            Notice(
                "INDEX_LAGGING",
                f"{pending} changes are stored but not yet found by searches: an import is under way, "
                "or the embedder is too slow for the load.",
            )
        )
    return found
