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
from memsvc.engine.memories.lookup import KeyResolver, MemoryReader
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
    flush = ConversationFlusher(heard, writes.storing)
    return Services(
        remember=writes.remember,
        append=writes.append,
        ingest=DocumentIngester(writes.remember),
        capture=CaptureService(heard, writes.storing, store.memories),
        flush=flush,
        revise=writes.revise,
        importing=writes.importing,
        supersede=writes.supersede,
        promote=writes.promote,
        consolidate=merged.consolidate,
        undo_consolidation=merged.undo,
        summarize_period=merged.summarize,
        archive=writes.archive,
        maintenance=_maintenance(settings, backends, parts, stack),
        resolve=writes.resolve,
        recollect=MemoryReader(store.memories, writes.accesses),
        key_resolver=KeyResolver(store.memories, writes.committer),
        sessions=sessions(settings, backends, writes, flush, stack),
        files=kept,
        recall=reads.recall,
        global_search=GlobalSearch(reads.recall, store.files, backends.now),
        retrospect=AsOfReader(store.memories),
        checkpoints=writes.checkpoints,
        checkpoint_rollback=writes.checkpoint_rollback,
        core=reads.core,
        contexts=reads.contexts,
        indexer=index.indexer,
        reindex=index.reindex,
        statistics=looks.statistics,
        diagnose=looks.diagnose,
        integrity=looks.integrity,
        vitals=looks.vitals,
        step_counts=looks.step_counts,
        performance=index.performance,
        embedding=index.embedding,
        watching=writes.watching,
        reviewing=writes.reviewing,
        reminders=writes.reminders,
        exporting=forgets.exporting,
        user_importing=forgets.importing,
        erase=forgets.erase,
        backups=forgets.backups,
        migration=StoreMigration(store, writes.accesses.flush),
        access=access_of(settings, backends, writes.committer),
        vault=shown,
    )


def _maintenance(settings: Settings, backends: Backends, parts: _Parts, stack: ExitStack) -> MaintenanceRunner:
    measures = StepMetrics(parts.indexes.performance, parts.looks.step_counts)
    return upkeep(settings, backends, measures, parts.writes, parts.merged.steps, stack)
