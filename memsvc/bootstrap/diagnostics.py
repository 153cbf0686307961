"""Wiring of diagnosis, integrity checks and statistics."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from memsvc.bootstrap.backends import Backends
from memsvc.bootstrap.indexing import Indexing
from memsvc.bootstrap.memories import MemoryServices
from memsvc.engine.admin.diagnose import DiagnoseService
from memsvc.engine.admin.integrity import FileCheckComponents, FileChecker, IntegrityCheck, MemoryChecker
from memsvc.engine.admin.metrics import ServiceMetrics
from memsvc.engine.admin.stats import StatsService
from memsvc.engine.indexing.repair import SearchProbe
from memsvc.engine.maintenance.runner import StepCounts


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """The use cases that look, and what maintenance counts its steps by."""

    statistics: StatsService
    diagnosis: DiagnoseService
    integrity: IntegrityCheck
    metrics: ServiceMetrics
    step_counts: StepCounts


def watchfulness(directory: Path, backends: Backends, index: Indexing, writes: MemoryServices) -> Diagnostics:
    """Make what looks."""
    store, indexes, upkeep = backends.metadata, (backends.vectors, backends.lexical), (index.indexer, index.reindex)
    measured, step_counts = (index.performance, index.last_errors), StepCounts()
    probing = SearchProbe(store.feed, indexes, index.spaces)
    diagnose = DiagnoseService(backends.pinged(), store.feed, indexes, upkeep, measured, probing)
    faults = MemoryChecker(store, writes.committer, writes.record_builder, backends.now)

    looked = FileCheckComponents(
        store.files,
        writes.committer,
        writes.record_builder,
        backends.now,
        lambda sha256: backends.blobs.find(sha256) is not None,
        writes.blob_guard.try_to_remove_unused,
    )

    def disk() -> tuple[int, int]:
        usage = shutil.disk_usage(directory)
        return usage.total, usage.free

    return Diagnostics(
        statistics=StatsService(store, indexes, upkeep, disk),
        diagnosis=diagnose,
        integrity=IntegrityCheck(store, writes.committer, faults, index.reindex, FileChecker(looked)),
        metrics=ServiceMetrics(store, indexes, upkeep, diagnose, (writes.committer, step_counts)),
        step_counts=step_counts,
    )
