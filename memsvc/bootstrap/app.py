"""The composition root: settings in, a running engine out. The only place that wires."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import NamedTuple

from memsvc.bootstrap.backends import Backends, Measured, open_backends
from memsvc.bootstrap.diagnostics import Diagnostics, watchfulness
from memsvc.bootstrap.indexing import Indexing, indexing
from memsvc.bootstrap.maintenance import Consolidations, consolidating, upkeep
from memsvc.bootstrap.memories import MemoryServices, files, writing
from memsvc.bootstrap.offline import access_of
from memsvc.bootstrap.search import SearchServices, reading
from memsvc.bootstrap.sessions import listening, sessions
from memsvc.bootstrap.user_data import UserDataServices, forgetting
from memsvc.bootstrap.vault import vault
from memsvc.data_directory import DataDirectory, owned
from memsvc.domain.clock import utc_now
from memsvc.engine.admin.store_migration import StoreMigration
from memsvc.engine.capture.capture import CaptureService
from memsvc.engine.capture.flush import ConversationFlusher
from memsvc.engine.history.as_of_reads import AsOfReader
from memsvc.engine.maintenance.runner import MaintenanceRunner, StepMetrics
from memsvc.engine.memories.documents import DocumentIngester
from memsvc.engine.memories.lookup import MemoryReader
from memsvc.engine.runtime.latency_stats import LatencyStats
from memsvc.engine.search.search import GlobalSearch
from memsvc.engine.services import FileService, Services
from memsvc.engine.vault.vault import Vault
from memsvc.settings import Settings


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
        open_backends(settings, directory.path, now) as backends,
        ExitStack() as stack,
    ):
        yield _wired(settings, directory, backends, stack)


class _Parts(NamedTuple):
    """The parts of the use cases, in the order in which they are made."""

    indexes: Indexing
    writes: MemoryServices
    reads: SearchServices
    looks: Diagnostics
    merged: Consolidations
    files: FileService
    forgets: UserDataServices
    vault: Vault | None


def _wired(settings: Settings, directory: DataDirectory, backends: Backends, stack: ExitStack) -> Services:
    """Make every use case and start the threads; *stack* stops them, the last one first."""
    measured = Measured(LatencyStats(backends.now))
    backends = measured.around(backends)
    index = indexing(settings, directory, backends, measured, stack)
    writes = writing(settings, backends, index, stack)
    reads = reading(settings, backends, index, writes, stack)
    looks = watchfulness(directory.path, backends, index, writes)
    merged = consolidating(settings, backends, index, writes)
    kept = files(settings, backends, writes, stack)
    shown = vault(settings, backends, writes, looks, stack)
    forgets = forgetting(settings, directory, backends, (index, writes, reads, kept), shown, stack)
    parts = _Parts(index, writes, reads, looks, merged, kept, forgets, shown)
    return _application(settings, backends, parts, stack)


def _application(settings: Settings, backends: Backends, parts: _Parts, stack: ExitStack) -> Services:
    index, writes, reads, looks, merged, kept, forgets, shown = parts
    store, heard = backends.metadata, listening(settings, backends)
    flush = ConversationFlusher(heard, writes.capture_writer)
    return Services(
        memory_creator=writes.memory_creator,
        memory_appender=writes.memory_appender,
        document_ingester=DocumentIngester(writes.memory_creator),
        capture=CaptureService(heard, writes.capture_writer, store.memories),
        conversation_flusher=flush,
        memory_updater=writes.memory_updater,
        bulk_importer=writes.bulk_importer,
        memory_superseder=writes.memory_superseder,
        memory_promoter=writes.memory_promoter,
        consolidation=merged.consolidation,
        consolidation_undo=merged.consolidation_undo,
        period_summarizer=merged.period_summarizer,
        memory_archiver=writes.memory_archiver,
        maintenance=_maintenance(settings, backends, parts, stack),
        conflict_resolver=writes.conflict_resolver,
        memory_reader=MemoryReader(store.memories, writes.accesses),
        sessions=sessions(settings, backends, writes, flush, stack),
        files=kept,
        search=reads.search,
        global_search=GlobalSearch(reads.search, store.files, backends.now),
        as_of_reader=AsOfReader(store.memories),
        checkpoints=writes.checkpoints,
        checkpoint_rollback=writes.checkpoint_rollback,
        core_memories=reads.core_memories,
        contexts=reads.contexts,
        indexer=index.indexer,
        reindex=index.reindex,
        statistics=looks.statistics,
        diagnosis=looks.diagnosis,
        integrity=looks.integrity,
        metrics=looks.metrics,
        step_counts=looks.step_counts,
        performance=index.performance,
        embedding=index.embedding,
        watch=writes.watch,
        review=writes.review,
        reminders=writes.reminders,
        user_exporter=forgets.user_exporter,
        user_importer=forgets.user_importer,
        user_eraser=forgets.user_eraser,
        backups=forgets.backups,
        migration=StoreMigration(store, writes.accesses.flush),
        api_keys=access_of(settings, backends, writes.committer),
        vault=shown,
    )


def _maintenance(settings: Settings, backends: Backends, parts: _Parts, stack: ExitStack) -> MaintenanceRunner:
    measures = StepMetrics(parts.indexes.performance, parts.looks.step_counts)
    return upkeep(settings, backends, measures, parts.writes, parts.merged.steps, stack)
