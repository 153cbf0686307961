"""What keeps the indexes equal to the store."""

from __future__ import annotations

import logging
import uuid
from contextlib import ExitStack
from dataclasses import dataclass

from memsvc.bootstrap.backends import Backends, Measured
from memsvc.bootstrap.index_comparison import comparison
from memsvc.data_directory import DataDirectory
from memsvc.domain.diagnostics import IndexKind
from memsvc.domain.errors import ReindexRunningError
from memsvc.engine.indexing.cached_embedder import CachedEmbedder
from memsvc.engine.indexing.index_writers import LexicalIndexWriter, VectorIndexWriter
from memsvc.engine.indexing.indexer import ChangeApplier, Indexer
from memsvc.engine.indexing.reindex import IndexMonitor, Rebuild, Reindex
from memsvc.engine.indexing.repair import Repair
from memsvc.engine.indexing.vector_entries import EmbeddingGranularity, EmbeddingSpace, EmbeddingSpaces, VectorEntries
from memsvc.engine.runtime.instrumentation import LastErrors
from memsvc.engine.runtime.latency_stats import LatencyStats
from memsvc.engine.runtime.leader_lease import LeaderElection
from memsvc.ports.models import Embedder
from memsvc.settings import Settings

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Indexing:
    """What follows the store."""

    indexer: Indexer
    reindex: Reindex
    embedding: CachedEmbedder
    spaces: EmbeddingSpaces
    troubles: LastErrors
    performance: LatencyStats


def indexing(
    settings: Settings, directory: DataDirectory, backends: Backends, measured: Measured, stack: ExitStack
) -> Indexing:
    """Start what follows the store; *stack* stops it."""
    performance, troubles = measured.performance, measured.troubles
    feed = backends.metadata.feed
    tier = settings.ranking.tier
    spaces = _spaces(backends, tier)
    embedding, entries = spaces.current.embedding, spaces.current.entries
    sides: dict[IndexKind, VectorIndexWriter | LexicalIndexWriter] = {
        IndexKind.VECTORS: VectorIndexWriter(backends.vectors, spaces, tier),
        IndexKind.LEXICAL: LexicalIndexWriter(backends.lexical),
    }
    _warn_of_own_indexes(backends)
    applying = ChangeApplier(feed, sides[IndexKind.VECTORS], sides[IndexKind.LEXICAL], entries)
    stack.callback(applying.close)
    leading = LeaderElection(
        backends.metadata.leases, backends.now, lambda: uuid.uuid4().hex, ("reindex", ReindexRunningError)
    )
    reindex = Reindex(feed, sides, Rebuild(feed, applying), Repair(feed, applying), troubles, leading)
    reindex.prepare()
    indexer = Indexer(feed, applying, performance)
    compared = comparison(settings, directory, backends.metadata, backends.embedder.model)
    upkeep = IndexMonitor(reindex, interval_seconds=settings.indexing.upkeep_seconds, comparison=compared)
    indexer.start()
    stack.callback(indexer.stop)
    upkeep.start()
    stack.callback(upkeep.stop)
    return Indexing(indexer, reindex, embedding, spaces, troubles, performance)


def _spaces(backends: Backends, tier: EmbeddingGranularity) -> EmbeddingSpaces:
    def space(embedder: Embedder, *, is_current: bool) -> EmbeddingSpace:
        embedding = CachedEmbedder(embedder, backends.metadata.embeddings)
        return EmbeddingSpace(embedding, VectorEntries(embedding, tier), is_current)

    previous = backends.previous_embedder
    return EmbeddingSpaces(
        space(backends.embedder, is_current=True),
        None if previous is None else space(previous, is_current=False),
    )


def _warn_of_own_indexes(backends: Backends) -> None:
    """Say what several processes on one store would trip over: each change is applied by one of them alone."""
    own = [port for port in ("vectors", "lexical") if not getattr(backends, port).is_shared]
    if backends.metadata.is_shared and own:
        log.warning(
            "the store may be shared, but these indexes are this process's own: %s; "
            "run one process on this database, or choose the profile cluster or postgres",
            ", ".join(own),
        )
