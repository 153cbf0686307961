"""The running engine: every use case, wired."""

from __future__ import annotations

from dataclasses import dataclass

from memsvc.domain.scope import Reach, Scope
from memsvc.domain.write_requests import WriteOptions, Written
from memsvc.engine.access.keys import Access
from memsvc.engine.capture.capture import Capture
from memsvc.engine.capture.flush import Flush
from memsvc.engine.conflicts.resolve import Resolve
from memsvc.engine.conflicts.supersede import Supersede
from memsvc.engine.consolidation.consolidate import Consolidate
from memsvc.engine.consolidation.undoing import UndoConsolidation
from memsvc.engine.context.contexts import Contexts
from memsvc.engine.context.core import Core
from memsvc.engine.erasing.erase import Erase
from memsvc.engine.files.shelf import Files
from memsvc.engine.history.checkpoints import Checkpoints
from memsvc.engine.history.retrospect import Retrospect
from memsvc.engine.history.rollback import CheckpointRollback
from memsvc.engine.index.embedding import Embedding
from memsvc.engine.index.indexer import Indexer
from memsvc.engine.index.reindex import Reindex
from memsvc.engine.lifecycle.archive import ArchiveOne
from memsvc.engine.lifecycle.backup import Backups
from memsvc.engine.lifecycle.diagnose import Diagnose
from memsvc.engine.lifecycle.integrity import Integrity
from memsvc.engine.lifecycle.migrating import Migration
from memsvc.engine.lifecycle.promote import Promote
from memsvc.engine.lifecycle.reminders import Reminders
from memsvc.engine.lifecycle.statistics import Statistics
from memsvc.engine.lifecycle.vitals import Vitals
from memsvc.engine.performance import Performance
from memsvc.engine.read.global_search import GlobalSearch
from memsvc.engine.read.recall import Recall
from memsvc.engine.read.recollect import Recollect
from memsvc.engine.sessions.desk import Sessions
from memsvc.engine.summaries.periods import SummarizePeriod
from memsvc.engine.transfer.exporting import Exporting
from memsvc.engine.transfer.importing import UserImporting
from memsvc.engine.upkeep.run import Maintenance
from memsvc.engine.upkeep.step_counts import StepCounts
from memsvc.engine.vault.vault import Vault
from memsvc.engine.watch.watching import Watching
from memsvc.engine.write.append import Append
from memsvc.engine.write.importing import Importing
from memsvc.engine.write.ingest import Ingest
from memsvc.engine.write.remember import Remember
from memsvc.engine.write.review import Reviewing
from memsvc.engine.write.revise import Revise


@dataclass(frozen=True, slots=True)
class Application:
    """All that the wire, or a program without a wire, may ask of memsvc."""

    remember: Remember
    append: Append
    ingest: Ingest
    capture: Capture
    flush: Flush
    revise: Revise
    importing: Importing
    supersede: Supersede
    promote: Promote
    consolidate: Consolidate
    undo_consolidation: UndoConsolidation
    summarize_period: SummarizePeriod
    archive: ArchiveOne
    maintenance: Maintenance
    resolve: Resolve
    recollect: Recollect
    recall: Recall
    global_search: GlobalSearch
    sessions: Sessions
    files: Files
    retrospect: Retrospect
    checkpoints: Checkpoints
    checkpoint_rollback: CheckpointRollback
    core: Core
    contexts: Contexts
    indexer: Indexer
    reindex: Reindex
    statistics: Statistics
    diagnose: Diagnose
    integrity: Integrity
    vitals: Vitals
    step_counts: StepCounts
    performance: Performance
    embedding: Embedding
    watching: Watching
    reviewing: Reviewing
    reminders: Reminders
    exporting: Exporting
    user_importing: UserImporting
    erase: Erase
    backups: Backups
    migration: Migration
    access: Access
    vault: Vault | None

    @property
    def dimension(self) -> int:
        """Return the length that a given vector must have."""
        return self.embedding.dimension

    def rollback_memory(
        self, scope: Scope, memory_id: str, *, revision: int, expected_revision: int, options: WriteOptions
    ) -> Written:
        """Make a memory say again what it said at *revision*; raises as `Revise.rollback` does."""
        # What was does not change, so it may be read before the transaction.
        target = self.retrospect.reads.revision(memory_id, revision, reach=Reach.from_scope(scope))
        return self.revise.rollback(
            scope, memory_id, target, revision=revision, expected_revision=expected_revision, options=options
        )
