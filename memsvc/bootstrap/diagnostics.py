"""Wiring of diagnosis, integrity checks, statistics and metrics."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

from memsvc.bootstrap.backends import Assembly
from memsvc.bootstrap.indexing import IndexParts
from memsvc.bootstrap.memories import WriteParts
from memsvc.engine.admin.diagnose import BackendPings, DiagnoseService
from memsvc.engine.admin.integrity import FileCheckComponents, FileChecker, IntegrityCheck, MemoryChecker
from memsvc.engine.admin.metrics import ServiceMetrics
from memsvc.engine.admin.stats import StatsService
from memsvc.engine.indexing.repair import SearchProbe
from memsvc.engine.maintenance.runner import StepCounts
from memsvc.engine.services import DiagnosticServices


def build_diagnostic_services(assembly: Assembly, index: IndexParts, parts: WriteParts) -> DiagnosticServices:
    """Build the use cases that report the state of the service."""
    backends = assembly.backends
    store, indexes = backends.metadata, (backends.vectors, backends.lexical)
    writers, measures = (index.indexer, index.reindex), (index.performance, index.last_errors)
    probe = SearchProbe(store.feed, indexes, index.spaces)
    diagnosis = DiagnoseService(
        BackendPings(backends.pingables()), store.feed, indexes, (*writers, index.token_backfill), measures, probe
    )
    memory_checker = MemoryChecker(store, parts.committer, parts.record_builder, backends.now)
    file_checker = FileChecker(
        FileCheckComponents(
            store.files,
            parts.committer,
            parts.record_builder,
            backends.now,
            lambda sha256: backends.blobs.find(sha256) is not None,
            parts.blob_guard.try_to_remove_unused,
        )
    )
    step_counts = StepCounts()
    return DiagnosticServices(
        statistics=StatsService(store, indexes, writers, partial(_disk_usage, assembly.directory.path)),
        diagnosis=diagnosis,
        integrity=IntegrityCheck(store, parts.committer, memory_checker, index.reindex, file_checker),
        metrics=ServiceMetrics(store, indexes, writers, diagnosis, (parts.committer, step_counts), backends.faults),
        step_counts=step_counts,
    )


def _disk_usage(directory: Path) -> tuple[int, int]:
    usage = shutil.disk_usage(directory)
    return usage.total, usage.free
