"""The use cases of the running engine, in groups that the bootstrap builds one by one."""

from __future__ import annotations

from dataclasses import dataclass

from memsvc.domain.scope import Reach, Scope
from memsvc.domain.write_requests import WriteOptions, WriteResult
from memsvc.engine.admin.api_keys import ApiKeyAccess
from memsvc.engine.admin.backup import BackupService
from memsvc.engine.admin.diagnose import DiagnoseService
from memsvc.engine.admin.integrity import IntegrityCheck
from memsvc.engine.admin.metrics import ServiceMetrics
from memsvc.engine.admin.stats import StatsService, UsageReader
from memsvc.engine.admin.store_migration import StoreMigration
from memsvc.engine.capture.capture import CaptureService
from memsvc.engine.capture.flush import ConversationFlusher
from memsvc.engine.conflicts.currency import CurrencyJudge
from memsvc.engine.conflicts.resolution import ConflictResolver
from memsvc.engine.conflicts.sweep import ConflictSweep
from memsvc.engine.consolidation.service import ConsolidationService
from memsvc.engine.consolidation.undo import ConsolidationUndo
from memsvc.engine.context.core_memories import CoreMemoryCache
from memsvc.engine.context.reminder_currency import ReminderCurrencyReader
from memsvc.engine.context.service import ContextService
from memsvc.engine.files.blob_guard import BlobGuard
from memsvc.engine.files.garbage_collection import FileSweep
from memsvc.engine.files.service import FileDeleter, FileReader, FileRefResolver
from memsvc.engine.files.text_indexer import TextIndexer
from memsvc.engine.files.upload import FileUploader
from memsvc.engine.history.as_of_reads import AsOfReader
from memsvc.engine.history.checkpoint_rollback import CheckpointRollback
from memsvc.engine.history.checkpoints import CheckpointService
from memsvc.engine.indexing.cached_embedder import CachedEmbedder
from memsvc.engine.indexing.indexer import Indexer
from memsvc.engine.indexing.passage_tokens import TokenBackfill
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
from memsvc.engine.memories.update import MemoryArchiver, MemoryUpdater, SelectionChanger
from memsvc.engine.runtime.latency_stats import LatencyStats
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.engine.search.search import GlobalSearch, SearchService
from memsvc.engine.search.use_feedback import UseReader, UseReporter
from memsvc.engine.sessions.append import MessageAppender, MessageRemover
from memsvc.engine.sessions.flush import SessionFlusher
from memsvc.engine.sessions.service import SessionLifecycle, SessionReader
from memsvc.engine.sessions.trim import SessionTrimmer
from memsvc.engine.summaries.periods import PeriodSummarizer
from memsvc.engine.user_data.erasure import UserEraser
from memsvc.engine.user_data.export import UserExporter
from memsvc.engine.user_data.import_user import UserImporter
from memsvc.engine.vault.vault import Vault
from memsvc.engine.watch.watch import WatchService
from memsvc.engine.watch.webhooks import WebhookService


@dataclass(frozen=True, slots=True)
class SessionService:
    """The use cases of sessions."""

    lifecycle: SessionLifecycle
    appender: MessageAppender
    remover: MessageRemover
    reader: SessionReader
    trimmer: SessionTrimmer
    flusher: SessionFlusher


@dataclass(frozen=True, slots=True)
class FileService:
    """The use cases of files."""

    uploader: FileUploader
    reader: FileReader
    deleter: FileDeleter
    sweep: FileSweep
    blob_guard: BlobGuard
    ref_resolver: FileRefResolver
    text_indexer: TextIndexer


@dataclass(frozen=True)
class MemoryServices:
    """The use cases that write memories, and those that read what was written."""

    memory_creator: MemoryCreator
    memory_appender: MemoryAppender
    document_ingester: DocumentIngester
    memory_updater: MemoryUpdater
    selection_changer: SelectionChanger
    bulk_importer: BulkImporter
    memory_superseder: MemorySuperseder
    memory_promoter: MemoryPromoter
    memory_archiver: MemoryArchiver
    memory_reader: MemoryReader
    key_resolver: KeyResolver
    conflict_resolver: ConflictResolver
    conflict_sweep: ConflictSweep
    as_of_reader: AsOfReader
    checkpoints: CheckpointService
    checkpoint_rollback: CheckpointRollback
    review: ReviewService
    reminders: ReminderService
    watch: WatchService
    webhooks: WebhookService


@dataclass(frozen=True)
class CaptureServices:
    """The use cases that find out what is worth remembering, and those of sessions."""

    capture: CaptureService
    conversation_flusher: ConversationFlusher
    sessions: SessionService


@dataclass(frozen=True)
class ConsolidationServices:
    """The use cases that merge and summarise memories."""

    consolidation: ConsolidationService
    consolidation_undo: ConsolidationUndo
    period_summarizer: PeriodSummarizer


@dataclass(frozen=True)
class SearchServices:
    """The use cases that search and build contexts."""

    search: SearchService
    global_search: GlobalSearch
    core_memories: CoreMemoryCache
    contexts: ContextService
    currency: CurrencyJudge
    reminder_currency: ReminderCurrencyReader
    use_reporter: UseReporter
    use_reader: UseReader


@dataclass(frozen=True)
class IndexServices:
    """The indexer, the rebuilds of indexes, and what they measure."""

    indexer: Indexer
    reindex: ReindexService
    embedding: CachedEmbedder
    token_backfill: TokenBackfill
    performance: LatencyStats


@dataclass(frozen=True)
class DiagnosticServices:
    """Statistics, diagnosis, integrity checks and metrics."""

    statistics: StatsService
    usage: UsageReader
    diagnosis: DiagnoseService
    integrity: IntegrityCheck
    metrics: ServiceMetrics
    step_counts: StepCounts


@dataclass(frozen=True)
class UserDataServices:
    """Export, import and erasure of users, and backups."""

    user_exporter: UserExporter
    user_importer: UserImporter
    user_eraser: UserEraser
    backups: BackupService


@dataclass(frozen=True)
class Services(
    MemoryServices,
    CaptureServices,
    ConsolidationServices,
    SearchServices,
    IndexServices,
    DiagnosticServices,
    UserDataServices,
):
    """All use cases, for the gRPC server or for a program that embeds the engine."""

    files: FileService
    maintenance: MaintenanceRunner
    migration: StoreMigration
    api_keys: ApiKeyAccess
    vault: Vault | None
    search_priority: SearchPriority

    @property
    def dimension(self) -> int:
        """Return the required length of a given vector."""
        return self.embedding.dimension

    def rollback_memory(
        self, scope: Scope, memory_id: str, *, revision: int, expected_revision: int, options: WriteOptions
    ) -> WriteResult:
        """Restore the state of *revision* as a new revision; raises as `MemoryUpdater.rollback` does."""
        # Earlier revisions do not change, so the target may be read before the transaction.
        target = self.as_of_reader.reads.revision(memory_id, revision, reach=Reach.from_scope(scope))
        return self.memory_updater.rollback(
            scope, memory_id, target, revision=revision, expected_revision=expected_revision, options=options
        )
