"""The running engine: every use case, wired."""

from __future__ import annotations

from dataclasses import dataclass

from memsvc.domain.scope import Reach, Scope
from memsvc.domain.write_requests import WriteOptions, Written
from memsvc.engine.admin.api_keys import ApiKeyAccess
from memsvc.engine.admin.backup import BackupService
from memsvc.engine.admin.diagnose import Diagnose
from memsvc.engine.admin.integrity import IntegrityCheck
from memsvc.engine.admin.metrics import ServiceMetrics
from memsvc.engine.admin.stats import Statistics
from memsvc.engine.admin.store_migration import StoreMigration
from memsvc.engine.capture.capture import CaptureService
from memsvc.engine.capture.flush import ConversationFlusher
from memsvc.engine.conflicts.resolution import ConflictResolver
from memsvc.engine.consolidation.service import ConsolidationService
from memsvc.engine.consolidation.undo import ConsolidationUndo
from memsvc.engine.context.core_memories import CoreMemoryCache
from memsvc.engine.context.service import ContextService
from memsvc.engine.files.blob_guard import BlobGuard
from memsvc.engine.files.garbage_collection import FileSweep
from memsvc.engine.files.service import FileDeleter, FileReader, FileRefResolver
from memsvc.engine.files.upload import FileUploader
from memsvc.engine.history.as_of_reads import AsOfReader
from memsvc.engine.history.checkpoint_rollback import CheckpointRollback
from memsvc.engine.history.checkpoints import CheckpointService
from memsvc.engine.indexing.cached_embedder import CachedEmbedder
from memsvc.engine.indexing.indexer import Indexer
from memsvc.engine.indexing.reindex import ReindexService
from memsvc.engine.maintenance.runner import MaintenanceRunner, StepCounts
from memsvc.engine.memories.append import MemoryAppender
from memsvc.engine.memories.bulk_import import BulkImporter
from memsvc.engine.memories.create import MemoryCreator
from memsvc.engine.memories.documents import DocumentIngester
from memsvc.engine.memories.lookup import KeyResolver, MemoryReader
from memsvc.engine.memories.promote import MemoryPromoter
from memsvc.engine.memories.reminders import ReminderService
from memsvc.engine.memories.review import ReviewService
from memsvc.engine.memories.supersede import MemorySuperseder
from memsvc.engine.memories.update import MemoryArchiver, MemoryUpdater
from memsvc.engine.runtime.latency_stats import LatencyStats
from memsvc.engine.runtime.search_priority import SEARCH_PRIORITY, SearchPriority
from memsvc.engine.search.search import GlobalSearch, SearchService
from memsvc.engine.sessions.append import MessageAppender
from memsvc.engine.sessions.flush import SessionFlusher
from memsvc.engine.sessions.service import SessionLifecycle, SessionReader
from memsvc.engine.sessions.trim import SessionTrimmer
from memsvc.engine.summaries.periods import PeriodSummarizer
from memsvc.engine.user_data.erasure import UserEraser
from memsvc.engine.user_data.export import UserExporter
from memsvc.engine.user_data.import_user import UserImporter
from memsvc.engine.vault.vault import Vault
from memsvc.engine.watch.watch import WatchService


@dataclass(frozen=True, slots=True)
class Services:
    """All that the wire, or a program without a wire, may ask of memsvc."""

    remember: MemoryCreator
    append: MemoryAppender
    ingest: DocumentIngester
    capture: CaptureService
    flush: ConversationFlusher
    revise: MemoryUpdater
    importing: BulkImporter
    supersede: MemorySuperseder
    promote: MemoryPromoter
    consolidate: ConsolidationService
    undo_consolidation: ConsolidationUndo
    summarize_period: PeriodSummarizer
    archive: MemoryArchiver
    maintenance: MaintenanceRunner
    resolve: ConflictResolver
    recollect: MemoryReader
    key_resolver: KeyResolver
    recall: SearchService
    global_search: GlobalSearch
    sessions: SessionService
    files: FileService
    retrospect: AsOfReader
    checkpoints: CheckpointService
    checkpoint_rollback: CheckpointRollback
    core: CoreMemoryCache
    contexts: ContextService
    indexer: Indexer
    reindex: ReindexService
    statistics: Statistics
    diagnose: Diagnose
    integrity: IntegrityCheck
    vitals: ServiceMetrics
    step_counts: StepCounts
    performance: LatencyStats
    embedding: CachedEmbedder
    watching: WatchService
    reviewing: ReviewService
    reminders: ReminderService
    exporting: UserExporter
    user_importing: UserImporter
    erase: UserEraser
    backups: BackupService
    migration: StoreMigration
    access: ApiKeyAccess
    vault: Vault | None

    @property
    def dimension(self) -> int:
        """Return the length that a given vector must have."""
        return self.embedding.dimension

    @property
    def search_priority(self) -> SearchPriority:
        """Return the priority of searches over bulk work."""
        return SEARCH_PRIORITY

    def rollback_memory(
        self, scope: Scope, memory_id: str, *, revision: int, expected_revision: int, options: WriteOptions
    ) -> Written:
        """Make a memory say again what it said at *revision*; raises as `MemoryUpdater.rollback` does."""
        # What was does not change, so it may be read before the transaction.
        target = self.retrospect.reads.revision(memory_id, revision, reach=Reach.from_scope(scope))
        return self.revise.rollback(
            scope, memory_id, target, revision=revision, expected_revision=expected_revision, options=options
        )


# All that can be done with sessions, in one place.


@dataclass(frozen=True, slots=True)
class SessionService:
    """The use cases of sessions."""

    lifecycle: SessionLifecycle
    appender: MessageAppender
    reader: SessionReader
    trimmer: SessionTrimmer
    flusher: SessionFlusher


# All that is done with files, in one place.


@dataclass(frozen=True, slots=True)
class FileService:
    """The use cases of files."""

    uploads: FileUploader
    reading: FileReader
    deleting: FileDeleter
    sweep: FileSweep
    keeping: BlobGuard
    resolving: FileRefResolver
