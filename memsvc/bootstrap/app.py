"""The composition root: settings in, a running engine out. Only this package constructs use cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from memsvc.bootstrap.backends import Assembly, Instruments, open_backends
from memsvc.bootstrap.diagnostics import build_diagnostic_services
from memsvc.bootstrap.indexing import build_indexing
from memsvc.bootstrap.maintenance import build_consolidation, build_maintenance
from memsvc.bootstrap.memories import build_file_service, build_memory_services, build_write_parts
from memsvc.bootstrap.offline import build_key_access
from memsvc.bootstrap.search import build_search_services
from memsvc.bootstrap.sessions import build_capture_services
from memsvc.bootstrap.user_data import ErasureScope, build_user_data_services
from memsvc.bootstrap.vault import build_vault
from memsvc.data_directory import owned
from memsvc.domain.clock import utc_now
from memsvc.domain.errors import start_wording
from memsvc.engine.admin.store_migration import StoreMigration
from memsvc.engine.maintenance.runner import StepMetrics
from memsvc.engine.runtime.latency_stats import KEEP_SECONDS, DurationFile, LatencyStats
from memsvc.engine.runtime.periodic_task import PeriodicTask
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.engine.services import Services
from memsvc.settings import Settings

_NAMES = {field.name for field in fields(Services)}


@contextmanager
def running(settings: Settings, *, now: Callable[[], datetime] = utc_now) -> Iterator[Services]:
    """Own the data directory, open everything, run the engine's threads; on leaving, stop and close in order.

    *now* is the clock of all of it.

    Raises:
        DataDirectoryLockedError: Another process owns the data directory.
        PluginError: A backend cannot be chosen.
        StartError: A backend's options are wrong.
        BackendUnavailableError: A backend cannot be opened.
    """
    with (
        owned(settings.data_dir) as directory,
        # Of numpy's matrix products, which are small: its threads wait for each other in a loop, which on two busy
        # processors made the token vectors of a passage take 80 ms of processor time instead of 5.
        threadpool_limits(limits=1, user_api="blas"),
        open_backends(settings, directory.path, now) as backends,
        ExitStack() as stack,
    ):
        instruments = Instruments(_kept_statistics(LatencyStats(backends.now), directory.path, stack))
        assembly = Assembly(settings, directory, instruments.instrument(backends), instruments, SearchPriority(), stack)
        with start_wording():
            services = _build_services(assembly)
        yield services


def _kept_statistics(statistics: LatencyStats, directory: Path, stack: ExitStack) -> LatencyStats:
    """Return *statistics* with those of earlier runs, and keep them in the data directory until *stack* is closed."""
    durations = DurationFile(directory / "durations.json", statistics)
    durations.load()
    stack.callback(PeriodicTask("durations", KEEP_SECONDS, durations.save).stop)
    return statistics


def _build_services(assembly: Assembly) -> Services:
    """Build all use cases and start the threads."""
    index = build_indexing(assembly)
    parts = build_write_parts(assembly, index)
    memories = build_memory_services(assembly, parts)
    search = build_search_services(assembly, index, parts, memories.reminders)
    diagnostics = build_diagnostic_services(assembly, index, parts)
    consolidation = build_consolidation(assembly, index, parts)
    files = build_file_service(assembly, parts)
    vault = build_vault(assembly, parts, memories, diagnostics)
    user_data = build_user_data_services(assembly, parts, ErasureScope(index, search, files, vault))
    capture = build_capture_services(assembly, parts)
    measures = StepMetrics(index.performance, diagnostics.step_counts)
    return Services(
        **_merge(memories, capture, consolidation, search, index, diagnostics, user_data),
        files=files,
        maintenance=build_maintenance(
            assembly, parts, memories, (*consolidation.steps, *diagnostics.steps, *search.steps), measures
        ),
        migration=StoreMigration(assembly.backends.metadata, parts.accesses.flush, assembly.search_priority),
        api_keys=build_key_access(assembly, parts.committer),
        vault=vault,
        search_priority=assembly.search_priority,
    )


def _merge(*groups: Any) -> dict[str, Any]:
    """Return the fields of *groups* that `Services` has too, each declared once, in its group."""
    return {
        field.name: getattr(group, field.name) for group in groups for field in fields(group) if field.name in _NAMES
    }
