"""The composition root: settings in, a running engine out. The only place that wires."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from memsvc.data_directory import DataDirectory, owned
from memsvc.engine.application import Application
from memsvc.engine.capture.capture import Capture
from memsvc.engine.capture.flush import Flush
from memsvc.engine.history.retrospect import Retrospect
from memsvc.engine.lifecycle.diagnose import Diagnose
from memsvc.engine.lifecycle.statistics import Statistics
from memsvc.engine.read.recollect import Recollect
from memsvc.engine.transfer.exporting import Exporting
from memsvc.engine.transfer.importing import UserImporting
from memsvc.engine.write.ingest import Ingest
from memsvc.settings import Settings
from memsvc.wiring.backends import Backends, opened, utc_now
from memsvc.wiring.conversations import listening, sessions
from memsvc.wiring.forgetting import forgetting
from memsvc.wiring.indexing import indexing
from memsvc.wiring.reading import reading
from memsvc.wiring.writing import writing


@contextmanager
def running(settings: Settings) -> Iterator[Application]:
    """Own the data directory, open everything, run the engine's threads; on leaving, stop and close in order.

    Raises:
        DataDirectoryLockedError: Another process owns the data directory.
        PluginError: A backend cannot be chosen.
        StartError: A backend's options are wrong.
        BackendUnavailableError: A backend cannot be opened.
    """
    with (
        owned(settings.data_dir) as directory,
        opened(settings, directory.path) as backends,
        ExitStack() as stack,
    ):
        yield _wired(settings, directory, backends, stack)


def _wired(settings: Settings, directory: DataDirectory, backends: Backends, stack: ExitStack) -> Application:
    """Make every use case and start the threads; *stack* stops them, the last one first."""
    store = backends.metadata
    index = indexing(settings, directory, backends, stack)
    writes = writing(settings, backends, index, stack)
    reads = reading(settings, backends, index, writes, stack)
    forgets = forgetting(settings, directory, backends, (index, writes, reads), stack)
    heard = listening(settings, backends)
    flush = Flush(heard, writes.storing)
    return Application(
        remember=writes.remember,
        append=writes.append,
        ingest=Ingest(writes.remember),
        capture=Capture(heard, writes.storing, store.memories),
        flush=flush,
        revise=writes.revise,
        importing=writes.importing,
        supersede=writes.supersede,
        promote=writes.promote,
        resolve=writes.resolve,
        recollect=Recollect(store.memories, writes.accesses),
        sessions=sessions(settings, backends, writes, flush, stack),
        recall=reads.recall,
        retrospect=Retrospect(store.memories),
        checkpoints=writes.checkpoints,
        checkpoint_rollback=writes.checkpoint_rollback,
        core=reads.core,
        contexts=reads.contexts,
        indexer=index.indexer,
        reindex=index.reindex,
        statistics=Statistics(store, backends.vectors, backends.lexical, index.indexer),
        diagnose=Diagnose(
            backends.pinged(),
            store.feed,
            (backends.vectors, backends.lexical),
            (index.indexer, index.reindex),
            index.performance,
        ),
        performance=index.performance,
        embedding=index.embedding,
        watching=writes.watching,
        reviewing=writes.reviewing,
        exporting=Exporting(store, writes.accesses, index.embedding, settings.ranking.tier, utc_now),
        user_importing=UserImporting(writes.committer, index.embedding, settings.ranking.tier),
        erase=forgets.erase,
        backups=forgets.backups,
    )
