"""Wiring of diagnosis, integrity checks, statistics and metrics."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from memsvc.bootstrap.backends import Assembly
from memsvc.bootstrap.indexing import IndexParts
from memsvc.bootstrap.memories import WriteParts
from memsvc.engine.admin.diagnose import BackendPings, DiagnoseService
from memsvc.engine.admin.integrity import (
    CheckReferencesStep,
    CompareIndexesStep,
    FileCheckComponents,
    FileChecker,
    IntegrityCheck,
    MemoryChecker,
)
from memsvc.engine.admin.metrics import ServiceMetrics
from memsvc.engine.admin.stats import StatsService, UsageReader
from memsvc.engine.admin.store_migration import StoreLocation
from memsvc.engine.indexing.repair import SearchProbe
from memsvc.engine.maintenance.runner import StepCounts
from memsvc.engine.maintenance.step import MaintenanceStep
from memsvc.engine.services import DiagnosticServices


@dataclass(frozen=True)
class DiagnosticParts(DiagnosticServices):
    """The use cases of diagnosis, and the maintenance steps that check the data."""

    steps: tuple[MaintenanceStep, ...]


def build_diagnostic_services(assembly: Assembly, index: IndexParts, parts: WriteParts) -> DiagnosticParts:
    """Build the use cases that report the state of the service."""
    backends = assembly.backends
    store, indexes = backends.metadata, (backends.vectors, backends.lexical)
    writers, measures = (index.indexer, index.reindex), (index.performance, index.last_errors)
    probe = SearchProbe(store.feed, indexes, index.spaces)
    pings = BackendPings(backends.pingables(), faults=backends.faults, location=StoreLocation(store))
    diagnosis = DiagnoseService(pings, store.feed, indexes, (*writers, index.token_backfill), measures, probe)
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
    steps = (CheckReferencesStep(store, memory_checker, file_checker), CompareIndexesStep(store.feed, index.reindex))
    return DiagnosticParts(
        steps=steps,
        statistics=StatsService(
            store,
            indexes,
            writers,
            partial(_disk_usage, assembly.directory.path),
            assembly.settings.context.short_term_limit,
        ),
        usage=UsageReader(store.memories),
        diagnosis=diagnosis,
        integrity=IntegrityCheck(store, parts.committer, memory_checker, index.reindex, file_checker),
        metrics=ServiceMetrics(store, indexes, writers, diagnosis, (parts.committer, step_counts), backends.faults),
        step_counts=step_counts,
    )


def _disk_usage(directory: Path) -> tuple[int, int]:
    usage = shutil.disk_usage(directory)
    return usage.total, usage.free
