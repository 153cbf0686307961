"""The running engine: every use case, wired."""

from __future__ import annotations

from dataclasses import dataclass

from memsvc.engine.conflicts.resolve import Resolve
from memsvc.engine.conflicts.supersede import Supersede
from memsvc.engine.index.embedding import Embedding
from memsvc.engine.index.indexer import Indexer
from memsvc.engine.index.reindex import Reindex
from memsvc.engine.lifecycle.diagnose import Diagnose
from memsvc.engine.lifecycle.statistics import Statistics
from memsvc.engine.performance import Performance
from memsvc.engine.read.recall import Recall
from memsvc.engine.read.recollect import Recollect
from memsvc.engine.write.importing import Importing
from memsvc.engine.write.remember import Remember
from memsvc.engine.write.revise import Revise


@dataclass(frozen=True, slots=True)
class Application:
    """All that the wire, or a program without a wire, may ask of memsvc."""

    remember: Remember
    revise: Revise
    importing: Importing
    supersede: Supersede
    resolve: Resolve
    recollect: Recollect
    recall: Recall
    indexer: Indexer
    reindex: Reindex
    statistics: Statistics
    diagnose: Diagnose
    performance: Performance
    embedding: Embedding

    @property
    def dimension(self) -> int:
        """Return the length that a given vector must have."""
        return self.embedding.dimension
