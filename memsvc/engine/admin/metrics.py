"""Metrics of the whole service, without user data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from memsvc.domain.diagnostics import BackendHealth, ReindexProgress
from memsvc.domain.errors import MemsvcError
from memsvc.engine.admin.diagnose import DiagnoseService
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.indexing.indexer import Indexer
from memsvc.engine.indexing.reindex import ReindexService
from memsvc.engine.maintenance.runner import StepCount, StepCounts
from memsvc.ports.faults import FaultCounts, FaultLog
from memsvc.ports.indexes import LexicalIndex, VectorIndex
from memsvc.ports.metadata import MetadataStore


@dataclass(frozen=True, slots=True)
class MetricsSnapshot:
    """The metrics at one moment. Values of an unhealthy backend are omitted."""

    backends: Sequence[BackendHealth]
    is_replaying: bool
    waiting_writes: int
    steps: Sequence[StepCount]
    building: ReindexProgress | None
    faults: FaultCounts
    memories: int | None = None
    pending: int | None = None
    position: int | None = None
    storage_bytes: Mapping[str, int] = field(default_factory=dict)
    entries: Mapping[str, int] = field(default_factory=dict)
    generations: Mapping[str, int] = field(default_factory=dict)


class ServiceMetrics:
    """A reader of the metrics. A read runs a few counts: suitable every few seconds, not on every call."""

    def __init__(
        self,
        store: MetadataStore,
        indexes: tuple[VectorIndex, LexicalIndex],
        upkeep: tuple[Indexer, ReindexService],
        diagnose: DiagnoseService,
        work: tuple[GroupCommitter, StepCounts],
        faults: FaultLog,
    ) -> None:
        self._store = store
        self._vectors, self._lexical = indexes
        self._indexer, self._reindex = upkeep
        self._diagnose = diagnose
        self._committer, self._steps = work
        self._faults = faults

    def read(self) -> MetricsSnapshot:
        """Return the current metrics."""
        indexes: dict[str, VectorIndex | LexicalIndex] = {"vectors": self._vectors, "lexical": self._lexical}
        feed = self._store.feed
        return MetricsSnapshot(
            backends=self._diagnose.health(),
            is_replaying=self._indexer.is_replaying,
            waiting_writes=self._committer.queue_length,
            steps=self._steps.report(),
            building=self._reindex.progress,
            faults=self._faults.read(),
            memories=_or_none(feed.indexable),
            pending=_or_none(feed.pending_count),
            position=_or_none(feed.head_position),
            storage_bytes=_all_known(
                {"store": self._store.storage_bytes} | {name: index.storage_bytes for name, index in indexes.items()}
            ),
            entries=_all_known({name: index.count for name, index in indexes.items()}),
            generations={
                name: number for name, index in indexes.items() if (number := _or_none(partial(_live, index)))
            },
        )


def _live(index: VectorIndex | LexicalIndex) -> int:
    return 0 if index.manifest is None else index.manifest.generation


def _or_none(ask: Callable[[], int]) -> int | None:
    try:
        return ask()
    except MemsvcError:
        return None


def _all_known(asked: Mapping[str, Callable[[], int]]) -> dict[str, int]:
    return {name: value for name, ask in asked.items() if (value := _or_none(ask)) is not None}
