"""The counts of one scope."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from memsvc.domain.context import Severity
from memsvc.domain.diagnostics import Notice, ReindexProgress, Stats
from memsvc.domain.scope import Reach, Scope
from memsvc.engine.admin.cautions import FULLEST, about_counts, about_disk, about_sessions, fullest
from memsvc.engine.indexing.indexer import Indexer
from memsvc.engine.indexing.reindex import Reindex
from memsvc.ports.lexical import LexicalIndex
from memsvc.ports.metadata import MetadataStore
from memsvc.ports.vectors import VectorIndex

LAGGING = 1_000
"""So many changes behind the store, an index is worth a warning."""


class Statistics:
    """Counts what a scope can see, in the store and in the indexes."""

    def __init__(
        self,
        store: MetadataStore,
        indexes: tuple[VectorIndex, LexicalIndex],
        upkeep: tuple[Indexer, Reindex],
        disk: Callable[[], tuple[int, int]],
    ) -> None:
        """Count in these; *disk* tells how many bytes the data directory's disk has, and how many are free."""
        self._store = store
        self._vectors, self._lexical = indexes
        self._indexer, self._reindex = upkeep
        self._disk = disk
        self._others: list[Callable[[Scope], Sequence[Notice]]] = []

    def also_tell(self, notices: Callable[[Scope], Sequence[Notice]]) -> None:
        """Tell these among the warnings, too; to be called before anybody asks."""
        self._others.append(notices)

    def of(self, scope: Scope) -> Stats:
        """Return the counts of what *scope* can see.

        Raises:
            BackendUnavailableError: The store or an index cannot be reached.
        """
        reach = Reach.from_scope(scope)
        pending = self._indexer.pending
        counts = self._store.memories.counts(reach=reach)
        sessions = fullest(self._store.sessions, reach)
        found = [
            *about_sessions(sessions),
            *about_counts(counts),
            *about_disk(*self._disk()),
            *(notice for notices in self._others for notice in notices(scope)),
            *warnings(pending, replaying=self._indexer.replaying, building=self._reindex.progress),
        ]
        return Stats(
            counts=counts,
            vector_count=self._vectors.count(reach=reach),
            lexical_count=self._lexical.count(reach=reach),
            storage_bytes=sum(part.storage_bytes() for part in (self._store, self._vectors, self._lexical)),
            pending_changes=pending,
            warnings=tuple(found),
            sessions=tuple(sessions[:FULLEST]),
        )


def warnings(pending: int, *, replaying: bool, building: ReindexProgress | None) -> list[Notice]:
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
                Severity.INFO,
            )
        )
    if building is not None:
        name, phase = building.index.value.lower(), building.phase.value.lower()
        progress = f"{phase}, {building.done} of {building.total}"
        message = f"{name}: generation {building.generation} is being made or mended: {progress}."
        found.append(Notice("INDEX_BUILDING", message, Severity.INFO))
    return found
