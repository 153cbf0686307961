"""Wiring of the indexer and of reindexing."""

from __future__ import annotations

import json
import logging
import uuid
from dataclasses import dataclass
from pathlib import Path

from memsvc.bootstrap.backends import Assembly, Backends
from memsvc.data_directory import STORE_RECORD, DataDirectory, store_record
from memsvc.domain.diagnostics import IndexKind
from memsvc.domain.errors import MaintenanceRunningError, MemsvcError, ReindexRunningError
from memsvc.engine.admin.backup import write_synced
from memsvc.engine.indexing.cached_embedder import CachedEmbedder
from memsvc.engine.indexing.index_writers import LexicalIndexWriter, VectorIndexWriter
from memsvc.engine.indexing.indexer import ChangeApplier, Indexer
from memsvc.engine.indexing.passage_tokens import PassageTokenWriter, TokenBackfill
from memsvc.engine.indexing.reindex import IndexMonitor, IndexRebuilder, ReindexService
from memsvc.engine.indexing.repair import IndexRepairer
from memsvc.engine.indexing.unused_embeddings import SWEEP_SECONDS, EmbeddingSweeper, UnusedEmbeddings
from memsvc.engine.indexing.vector_entries import EmbeddingGranularity, EmbeddingSpace, EmbeddingSpaces, VectorEntries
from memsvc.engine.runtime.latency_stats import LastErrors
from memsvc.engine.runtime.leader_lease import LeaderElection
from memsvc.engine.runtime.periodic_task import PeriodicTask
from memsvc.engine.services import IndexServices
from memsvc.ports.metadata import MetadataStore
from memsvc.ports.models import Embedder
from memsvc.settings import Settings

OWED = "indexes-to-compare"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class IndexParts(IndexServices):
    """The services that follow the store, and what they share with searches and diagnosis."""

    spaces: EmbeddingSpaces
    last_errors: LastErrors
    unused_embeddings: UnusedEmbeddings


def build_indexing(assembly: Assembly) -> IndexParts:
    """Build and start the indexer and the monitor of the indexes."""
    settings, backends, stack = assembly.settings, assembly.backends, assembly.stack
    performance, last_errors = assembly.instruments.performance, assembly.instruments.last_errors
    feed, tier = backends.metadata.feed, settings.ranking.tier
    spaces = _spaces(assembly, tier)
    vectors = VectorIndexWriter(backends.vectors, spaces, tier)
    lexical = LexicalIndexWriter(backends.lexical, assembly.search_priority)
    _warn_of_own_indexes(backends)
    tokens = PassageTokenWriter(spaces.current.embedding, backends.metadata.tokens)
    change_applier = ChangeApplier(feed, vectors, lexical, spaces.current.entries, tokens)
    stack.callback(change_applier.close)
    election = _election(backends, "reindex")
    reindex = ReindexService(
        feed,
        {IndexKind.VECTORS: vectors, IndexKind.LEXICAL: lexical},
        IndexRebuilder(feed, change_applier),
        IndexRepairer(feed, change_applier),
        last_errors,
        election,
    )
    reindex.prepare()
    indexer = Indexer(feed, change_applier, performance)
    pending = pending_comparison(settings, assembly.directory, backends.metadata, backends.embedder.model)
    monitor = IndexMonitor(reindex, interval_seconds=settings.indexing.upkeep_seconds, comparison=pending)
    indexer.start()
    stack.callback(indexer.stop)
    monitor.start()
    stack.callback(monitor.stop)
    backfill = TokenBackfill(tokens, feed, assembly.search_priority, _election(backends, "token-backfill"))
    backfill.start()
    stack.callback(backfill.stop)
    embedding, cache = spaces.current.embedding, backends.metadata.embeddings
    unused = UnusedEmbeddings(embedding, cache, feed, tier, assembly.search_priority)
    sweeper = EmbeddingSweeper(unused, feed, _election(backends, "embedding-sweep", MaintenanceRunningError))
    stack.callback(PeriodicTask("embedding-sweep", SWEEP_SECONDS, sweeper.run).stop)
    stack.callback(sweeper.stop)
    return IndexParts(indexer, reindex, embedding, backfill, performance, spaces, last_errors, unused)


def _election(backends: Backends, work: str, running_error: type[MemsvcError] = ReindexRunningError) -> LeaderElection:
    return LeaderElection(backends.metadata.leases, backends.now, lambda: uuid.uuid4().hex, (work, running_error))


def _spaces(assembly: Assembly, tier: EmbeddingGranularity) -> EmbeddingSpaces:
    backends = assembly.backends

    def space(embedder: Embedder, *, is_current: bool) -> EmbeddingSpace:
        embedding = CachedEmbedder(embedder, backends.metadata.embeddings)
        return EmbeddingSpace(embedding, VectorEntries(embedding, tier, assembly.search_priority), is_current)

    previous = backends.previous_embedder
    return EmbeddingSpaces(
        space(backends.embedder, is_current=True),
        None if previous is None else space(previous, is_current=False),
    )


def _warn_of_own_indexes(backends: Backends) -> None:
    """Warn if several processes may share the store but not the indexes: each change is applied by one of them only."""
    own = [port for port in ("vectors", "lexical") if not getattr(backends, port).is_shared]
    if backends.metadata.is_shared and own:
        log.warning(
            "the store may be shared, but these indexes are this process's own: %s; "
            "run one process on this database, or choose the profile cluster or postgres",
            ", ".join(own),
        )


# Comparison of the indexes of a data directory with the store.
#
# The store notes which changes are applied. When the store was elsewhere for a while, or other indexes or another model
# were in use, the indexes of this directory lack the changes applied in between, and the store does not report them
# again. After an unclean stop this cannot be known. So the indexes are compared with the store; the comparison stays
# pending until it is done once, however often the service stops before.


class Comparison:
    """The comparison of the indexes with the store, pending while a mark file exists."""

    def __init__(self, directory: Path) -> None:
        """Keep the mark file in *directory*."""
        self._mark = directory / OWED

    @property
    def is_pending(self) -> bool:
        """Return whether it is still to be done."""
        return self._mark.exists()

    def request(self) -> None:
        """Mark it as pending, for a later process if not for this one."""
        write_synced(self._mark, "")

    def mark_done(self) -> None:
        """Remove the mark."""
        self._mark.unlink(missing_ok=True)


def pending_comparison(settings: Settings, directory: DataDirectory, store: MetadataStore, model: str) -> Comparison:
    """Return the comparison; it is pending after an unclean stop, and when the last start used another store or index.

    Without a record of the last start only an empty directory has nothing to compare.
    """
    found = Comparison(directory.path)
    present = {
        "store": store.changes.identity,
        "arrival": store.moves.arrival,
        "shared": store.is_shared,
        "vectors": settings.vectors.backend,
        "lexical": settings.lexical.backend,
        "model": model,
    }
    before = store_record(directory.path)
    if not directory.was_closed_cleanly or (before != present and not (before is None and directory.is_new)):
        found.request()
    if before != present:
        write_synced(directory.path / STORE_RECORD, json.dumps(present))
    return found
