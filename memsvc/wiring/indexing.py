"""What keeps the indexes equal to the store."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from memsvc.data_directory import DataDirectory
from memsvc.domain.report import IndexKind
from memsvc.engine.index.applying import Applying
from memsvc.engine.index.embedding import Embedding
from memsvc.engine.index.indexer import Indexer
from memsvc.engine.index.rebuild import Rebuild
from memsvc.engine.index.reindex import Reindex, Upkeep
from memsvc.engine.index.repair import Repair
from memsvc.engine.index.sides import LexicalSide, VectorSide
from memsvc.engine.index.vector_entries import VectorEntries
from memsvc.engine.performance import Performance
from memsvc.settings import Settings
from memsvc.wiring.backends import Backends


@dataclass(frozen=True, slots=True)
class Indexing:
    """What follows the store."""

    indexer: Indexer
    reindex: Reindex
    embedding: Embedding
    performance: Performance


def indexing(settings: Settings, directory: DataDirectory, backends: Backends, stack: ExitStack) -> Indexing:
    """Start what follows the store; *stack* stops it."""
    performance = Performance(backends.now)
    embedding = Embedding(backends.embedder, backends.metadata.embeddings)
    feed = backends.metadata.feed
    tier = settings.ranking.tier
    entries = VectorEntries(embedding, tier)
    sides: dict[IndexKind, VectorSide | LexicalSide] = {
        IndexKind.VECTORS: VectorSide(backends.vectors, entries, embedding, tier),
        IndexKind.LEXICAL: LexicalSide(backends.lexical),
    }
    applying = Applying(feed, sides[IndexKind.VECTORS], sides[IndexKind.LEXICAL], entries)
    stack.callback(applying.close)
    reindex = Reindex(feed, sides, Rebuild(feed, applying), Repair(feed, applying))
    reindex.prepare()
    indexer = Indexer(feed, applying, performance)
    upkeep = Upkeep(
        reindex,
        interval_seconds=settings.indexing.upkeep_seconds,
        repair_first=not directory.was_closed_cleanly,
    )
    indexer.start()
    stack.callback(indexer.stop)
    upkeep.start()
    stack.callback(upkeep.stop)
    return Indexing(indexer, reindex, embedding, performance)
