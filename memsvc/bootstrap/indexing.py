"""Wiring of the indexer and of reindexing."""

from __future__ import annotations

import json
import logging
import uuid
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from memsvc.bootstrap.backends import Backends, Measured
from memsvc.data_directory import DataDirectory
from memsvc.domain.diagnostics import IndexKind
from memsvc.domain.errors import ReindexRunningError
from memsvc.engine.admin.backup import write_synced
from memsvc.engine.indexing.cached_embedder import CachedEmbedder
from memsvc.engine.indexing.index_writers import LexicalIndexWriter, VectorIndexWriter
from memsvc.engine.indexing.indexer import ChangeApplier, Indexer
from memsvc.engine.indexing.reindex import IndexMonitor, IndexRebuilder, ReindexService
from memsvc.engine.indexing.repair import IndexRepairer
from memsvc.engine.indexing.vector_entries import EmbeddingGranularity, EmbeddingSpace, EmbeddingSpaces, VectorEntries
from memsvc.engine.runtime.latency_stats import LastErrors, LatencyStats
from memsvc.engine.runtime.leader_lease import LeaderElection
from memsvc.ports.metadata import MetadataStore
from memsvc.ports.models import Embedder
from memsvc.settings import Settings

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Indexing:
    """The services that follow the store."""

    indexer: Indexer
    reindex: ReindexService
    embedding: CachedEmbedder
    spaces: EmbeddingSpaces
    last_errors: LastErrors
    performance: LatencyStats


def indexing(
    settings: Settings, directory: DataDirectory, backends: Backends, measured: Measured, stack: ExitStack
) -> Indexing:
    """Start what follows the store; *stack* stops it."""
    performance, last_errors = measured.performance, measured.last_errors
    feed = backends.metadata.feed
    tier = settings.ranking.tier
    spaces = _spaces(backends, tier)
    embedding, entries = spaces.current.embedding, spaces.current.entries
    sides: dict[IndexKind, VectorIndexWriter | LexicalIndexWriter] = {
        IndexKind.VECTORS: VectorIndexWriter(backends.vectors, spaces, tier),
        IndexKind.LEXICAL: LexicalIndexWriter(backends.lexical),
    }
    _warn_of_own_indexes(backends)
    change_applier = ChangeApplier(feed, sides[IndexKind.VECTORS], sides[IndexKind.LEXICAL], entries)
    stack.callback(change_applier.close)
    election = LeaderElection(
        backends.metadata.leases, backends.now, lambda: uuid.uuid4().hex, ("reindex", ReindexRunningError)
    )
    reindex = ReindexService(
        feed, sides, IndexRebuilder(feed, change_applier), IndexRepairer(feed, change_applier), last_errors, election
    )
    reindex.prepare()
    indexer = Indexer(feed, change_applier, performance)
    compared = comparison(settings, directory, backends.metadata, backends.embedder.model)
    upkeep = IndexMonitor(reindex, interval_seconds=settings.indexing.upkeep_seconds, comparison=compared)
    indexer.start()
    stack.callback(indexer.stop)
    upkeep.start()
    stack.callback(upkeep.stop)
    return Indexing(indexer, reindex, embedding, spaces, last_errors, performance)


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


# Whether the indexes of a data directory have followed the present store without a gap, and the comparison due if not.
#
# Which changes are applied is noted in the store. When the store was elsewhere for a while, or other indexes or
# another model were in use, the ones in the directory lack what was applied meanwhile, and the store would not tell
# them. After an unclean stop nobody can tell. So they are compared with the store; that is owed until it was done
# once, however often the service is stopped before.


FOLLOWED = "indexed-store.json"
OWED = "indexes-to-compare"


class Comparison:
    """The comparison of the indexes with the store, which may be owed."""

    def __init__(self, directory: Path) -> None:
        """Keep in *directory* whether it is."""
        self._mark = directory / OWED

    @property
    def is_pending(self) -> bool:
        """Return whether it has yet to be done."""
        return self._mark.exists()

    def owe(self) -> None:
        """Have it done, by a later process if not by this one."""
        write_synced(self._mark, "")

    def mark_done(self) -> None:
        """Note that it was done."""
        self._mark.unlink(missing_ok=True)


def comparison(settings: Settings, directory: DataDirectory, store: MetadataStore, model: str) -> Comparison:
    """Return the comparison; it is owed when the last stop was unclean or the last start with something else.

    Of a directory without a record nothing more is known: it may be new.
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
    path = directory.path / FOLLOWED
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        before = None
    if not directory.was_closed_cleanly or before not in (None, present):
        found.owe()
    if before != present:
        write_synced(path, json.dumps(present))
    return found
