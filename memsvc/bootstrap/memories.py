"""Wiring of the write path."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from zoneinfo import ZoneInfo

from memsvc.bootstrap.backends import Assembly, Backends
from memsvc.bootstrap.indexing import IndexParts
from memsvc.domain.errors import MaintenanceRunningError
from memsvc.domain.files import FileCategory, UrlTemplates, fold_text
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import Origin
from memsvc.domain.provenance import TrustPolicy
from memsvc.domain.scope import Scope
from memsvc.domain.secrets import Redactor
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.commit.idempotency import IdempotentExecutor, forget_old_requests
from memsvc.engine.conflicts.extraction_marks import ExtractionMarkReader, WithheldMessages
from memsvc.engine.conflicts.resolution import ConflictResolver
from memsvc.engine.conflicts.sweep import ConflictSweep
from memsvc.engine.files.blob_guard import BlobGuard
from memsvc.engine.files.garbage_collection import BlobGarbageCollector, FileSweep
from memsvc.engine.files.inline_images import InlineImageExtractor
from memsvc.engine.files.service import FileDeleter, FileReader, FileRefResolver
from memsvc.engine.files.text_indexer import FileSource, TextIndexer, TextRules
from memsvc.engine.files.upload import AttachmentLinker, FileRules, FileUploader
from memsvc.engine.history.as_of_reads import AsOfReader
from memsvc.engine.history.checkpoint_rollback import CheckpointRollback
from memsvc.engine.history.checkpoints import CheckpointService
from memsvc.engine.memories.append import MemoryAppender
from memsvc.engine.memories.bulk_import import BulkImporter
from memsvc.engine.memories.create import MemoryCreator
from memsvc.engine.memories.documents import DocumentIngester
from memsvc.engine.memories.lookup import AccessCounts, KeyResolver, MemoryReader
from memsvc.engine.memories.promote import MemoryPromoter
from memsvc.engine.memories.reminders import ReminderService
from memsvc.engine.memories.review import ReviewService
from memsvc.engine.memories.summaries import SummaryLengths, SummaryUpdater
from memsvc.engine.memories.supersede import MemorySuperseder
from memsvc.engine.memories.update import MemoryArchiver, MemoryUpdater, SelectionChanger
from memsvc.engine.memories.upsert import Upserter
from memsvc.engine.records.memory_builder import MemoryBuilder, RecordBuilder, ReminderDetector
from memsvc.engine.runtime.leader_lease import LeaderElection
from memsvc.engine.runtime.periodic_task import PeriodicTask
from memsvc.engine.services import FileService, MemoryServices
from memsvc.engine.watch.watch import ChangeNotifier, CommitPoller, ErasureBarrier, WatchService
from memsvc.engine.watch.webhooks import RetryPolicy, WebhookService
from memsvc.extraction.process import ExtractionLimits, TextExtractor
from memsvc.ports.operations import WebhookSelection
from memsvc.settings import Settings
from memsvc.settings.groups import WebhookEvent

TIDY_SECONDS = 600.0
"""Interval at which old requests and applied changes are removed."""
POLL_SECONDS = 0.2
"""Interval at which a shared store is polled for commits of other processes."""
_MINUTE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class WriteParts:
    """The parts of the write path that use cases share."""

    committer: GroupCommitter
    accesses: AccessCounts
    blob_guard: BlobGuard
    memory_builder: MemoryBuilder
    record_builder: RecordBuilder
    upserter: Upserter
    requests: IdempotentExecutor
    summary_updater: SummaryUpdater
    withheld_messages: WithheldMessages
    zone: ZoneInfo


def build_write_parts(assembly: Assembly, index: IndexParts) -> WriteParts:
    """Build the write path and start its periodic tasks."""
    settings, backends, stack = assembly.settings, assembly.backends, assembly.stack
    store, now = backends.metadata, backends.now
    # Threads are left for the writes of other users.
    committer = GroupCommitter(
        store,
        max_waiting=max(2, settings.server.write_threads * 3 // 4),
        priority=assembly.search_priority,
    )
    stack.callback(committer.close)
    committer.on_commit(index.indexer.notify)
    accesses = AccessCounts(committer, now)
    stack.callback(PeriodicTask("access-counts", settings.indexing.access_flush_seconds, accesses.flush).stop)
    stack.callback(PeriodicTask("tidying", TIDY_SECONDS, _cleanup(settings, backends, committer)).stop)
    # Reading the system's randomness for every id releases the interpreter lock, and an import waits to get it back.
    random = Random(os.urandom(32)).randbytes  # noqa: S311 - ids must be unique, not secret
    zone = ZoneInfo(settings.reminders.time_zone)
    blob_guard = BlobGuard(store.files, backends.blobs)
    memory_builder = MemoryBuilder(
        model=index.embedding.model,
        dimension=index.embedding.dimension,
        now=now,
        search_priority=assembly.search_priority,
        random=random,
        redactor=Redactor(is_on=settings.redaction.writes),
        policy=_trust_policy(settings),
        reminder_detector=ReminderDetector(zone, is_on=settings.reminders.detect),
        image_extractor=InlineImageExtractor(committer, backends.blobs, blob_guard, file_rules(settings).fault_of, now),
    )
    record_builder = RecordBuilder(memory_builder, store.feed, backends.tokenizer.count)
    return WriteParts(
        committer=committer,
        accesses=accesses,
        blob_guard=blob_guard,
        memory_builder=memory_builder,
        record_builder=record_builder,
        upserter=Upserter(memory_builder, record_builder),
        requests=IdempotentExecutor(committer, store.memories, store.conflicts),
        summary_updater=_summary_updater(assembly, memory_builder, record_builder),
        withheld_messages=WithheldMessages(
            ExtractionMarkReader(store.memories, store.sessions, store.statements, now), store.memories
        ),
        zone=zone,
    )


def _summary_updater(
    assembly: Assembly, memory_builder: MemoryBuilder, record_builder: RecordBuilder
) -> SummaryUpdater:
    settings = assembly.settings
    lengths = SummaryLengths(
        assembly.backends.tokenizer.count,
        messages=settings.sessions.summary_tokens,
        period=settings.consolidation.summary_tokens,
        log=settings.consolidation.log_tokens,
    )
    return SummaryUpdater(memory_builder, record_builder, Redactor(is_on=settings.redaction.capture), lengths)


def build_memory_services(assembly: Assembly, parts: WriteParts) -> MemoryServices:
    """Build the use cases that write and read memories."""
    store, now = assembly.backends.metadata, assembly.backends.now
    committer, memory_builder, record_builder = parts.committer, parts.memory_builder, parts.record_builder
    requests, accesses, reads = parts.requests, parts.accesses, store.memories
    creator = MemoryCreator(memory_builder, parts.upserter, requests, accesses)
    updater = MemoryUpdater(
        memory_builder,
        record_builder,
        requests,
        reads,
        summary_updater=parts.summary_updater,
        remove_bytes=parts.blob_guard.try_to_remove_unused,
    )
    return MemoryServices(
        memory_creator=creator,
        memory_appender=MemoryAppender(memory_builder, record_builder, requests, reads, now),
        document_ingester=DocumentIngester(creator),
        memory_updater=updater,
        selection_changer=SelectionChanger(updater, store, committer, assembly.search_priority),
        bulk_importer=BulkImporter(committer, memory_builder, parts.upserter, accesses, assembly.search_priority),
        memory_superseder=MemorySuperseder(memory_builder, record_builder, requests, reads),
        memory_promoter=MemoryPromoter(memory_builder, record_builder, requests, reads),
        memory_archiver=MemoryArchiver(memory_builder, record_builder, requests),
        memory_reader=MemoryReader(reads, accesses),
        key_resolver=KeyResolver(reads, committer),
        conflict_resolver=ConflictResolver(memory_builder, record_builder, requests, store),
        conflict_sweep=ConflictSweep(store, committer, memory_builder, record_builder, assembly.search_priority),
        as_of_reader=AsOfReader(reads),
        checkpoints=CheckpointService(store, committer, now, memory_builder.redactor),
        checkpoint_rollback=CheckpointRollback(store, committer, record_builder, now),
        review=ReviewService(memory_builder, record_builder, requests, parts.summary_updater),
        reminders=ReminderService(store, committer, now, parts.zone),
        watch=_watch_service(assembly, committer),
        webhooks=_webhook_service(assembly),
    )


def _cleanup(settings: Settings, backends: Backends, committer: GroupCommitter) -> Callable[[], None]:
    outbox = timedelta(days=settings.indexing.outbox_days)

    def tidy() -> None:
        now = backends.now()
        forget_old_requests(committer, now)
        backends.metadata.feed.trim(before=now - outbox)

    return tidy


def _trust_policy(settings: Settings) -> TrustPolicy:
    provenance = settings.provenance
    trust = {origin: float(getattr(provenance, f"trust_{origin.value.lower()}")) for origin in Origin}
    return TrustPolicy(trust, provenance.quarantine_below)


def _watch_service(assembly: Assembly, committer: GroupCommitter) -> WatchService:
    settings, store = assembly.settings, assembly.backends.metadata
    notifier = ChangeNotifier()
    committer.on_owners_changed(notifier.notify)
    if seconds := settings.watch.poll_seconds or (POLL_SECONDS if store.is_shared else 0):
        poller = CommitPoller(store.feed, notifier)
        assembly.stack.callback(PeriodicTask("watch-poll", seconds, poller.poll).stop)
    kept = timedelta(days=settings.indexing.outbox_days)
    return WatchService(
        store.changes, ErasureBarrier(store.erasures), notifier, max_lag=settings.watch.max_lag, kept=kept
    )


def _webhook_service(assembly: Assembly) -> WebhookService:
    settings, store = assembly.settings.webhooks, assembly.backends.metadata
    selections = [
        WebhookSelection(
            name,
            one.tenant_id,
            frozenset(Scope(user, tenant_id=one.tenant_id).owner for user in one.user_ids),
            frozenset(ChangeAction[event.name] for event in one.events or WebhookEvent),
        )
        for name, one in settings.endpoints.items()
    ]
    policy = RetryPolicy(
        timedelta(seconds=settings.retry_seconds),
        timedelta(seconds=settings.max_retry_seconds),
        settings.max_attempts,
        timedelta(hours=settings.max_hours),
    )
    stores = (store.webhooks, store.changes, ErasureBarrier(store.erasures))
    now = assembly.backends.now
    election = LeaderElection(store.leases, now, lambda: uuid.uuid4().hex, ("webhooks", MaintenanceRunningError))
    return WebhookService(stores, selections, policy, (now, Random()), election)  # noqa: S311 - no secret


def file_rules(settings: Settings) -> FileRules:
    """Return the limits of files from the settings."""
    chosen = settings.files
    hours = {FileCategory.TEMP: chosen.temp_hours, FileCategory.CACHE: chosen.cache_hours}
    lifetimes = {category: timedelta(hours=value) for category, value in hours.items() if value}
    extensions = tuple(fold_text(one).removeprefix(".") for one in chosen.extensions)
    return FileRules(chosen.max_bytes, chosen.media_types, extensions, lifetimes)


def build_file_service(assembly: Assembly, parts: WriteParts) -> FileService:
    """Build the use cases of files, and start the periodic sweep."""
    settings, backends = assembly.settings.files, assembly.backends
    files, blobs, now, blob_guard = backends.metadata.files, backends.blobs, backends.now, parts.blob_guard
    sweep = FileSweep(parts.committer, files, blobs, blob_guard, now, assembly.search_priority)
    if settings.sweep_minutes:
        assembly.stack.callback(BlobGarbageCollector(sweep, settings.sweep_minutes * _MINUTE_SECONDS).stop)
    linker = AttachmentLinker(parts.record_builder, now)
    texts = _text_indexer(assembly, parts)
    rules, redactor = file_rules(assembly.settings), parts.memory_builder.redactor
    uploader = FileUploader(parts.committer, blobs, blob_guard, rules, now, linker, redactor=redactor)
    uploader.on_upload(texts.notify)
    return FileService(
        uploader=uploader,
        reader=FileReader(files, blobs, now),
        deleter=FileDeleter(parts.committer, blob_guard, now),
        sweep=sweep,
        blob_guard=blob_guard,
        ref_resolver=FileRefResolver(files, UrlTemplates(settings.download_url, settings.preview_url), now),
        text_indexer=texts,
    )


def _text_indexer(assembly: Assembly, parts: WriteParts) -> TextIndexer:
    """Build and start the indexing of the texts of files."""
    settings, backends = assembly.settings.files.text, assembly.backends
    limits = ExtractionLimits(
        max_chars=settings.max_chars,
        max_expanded_bytes=settings.max_expanded_bytes,
        memory_bytes=settings.memory_bytes,
        cpu_seconds=settings.cpu_seconds,
        seconds=settings.seconds,
    )
    indexer = TextIndexer(
        parts.committer,
        FileSource(backends.metadata.files, backends.blobs, assembly.directory.path),
        TextExtractor(limits),
        TextRules(settings.enabled, settings.max_bytes, settings.seconds, settings.processes),
        backends.now,
        assembly.search_priority,
    )
    indexer.start(is_shared=backends.metadata.is_shared)
    assembly.stack.callback(indexer.stop)
    return indexer
