"""Wiring of the write path."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from zoneinfo import ZoneInfo

from memsvc.bootstrap.backends import Backends
from memsvc.bootstrap.indexing import Indexing
from memsvc.domain.files import FileCategory, UrlTemplates, fold_text
from memsvc.domain.memory import Origin
from memsvc.domain.provenance import TrustPolicy
from memsvc.domain.secrets import Redactor
from memsvc.engine.capture.capture import CaptureWriter
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.commit.idempotency import IdempotentExecutor, forget_old_requests
from memsvc.engine.conflicts.resolution import ConflictResolver
from memsvc.engine.files.blob_guard import BlobGuard
from memsvc.engine.files.garbage_collection import BlobGarbageCollector, FileSweep
from memsvc.engine.files.inline_images import InlineImageExtractor
from memsvc.engine.files.service import FileDeleter, FileReader, FileRefResolver
from memsvc.engine.files.upload import AttachmentLinker, FileRules, FileUploader
from memsvc.engine.history.checkpoint_rollback import CheckpointRollback
from memsvc.engine.history.checkpoints import CheckpointService
from memsvc.engine.memories.append import MemoryAppender
from memsvc.engine.memories.bulk_import import BulkImporter
from memsvc.engine.memories.create import MemoryCreator
from memsvc.engine.memories.lookup import AccessCounts
from memsvc.engine.memories.promote import MemoryPromoter
from memsvc.engine.memories.reminders import ReminderService
from memsvc.engine.memories.review import ReviewService
from memsvc.engine.memories.supersede import MemorySuperseder
from memsvc.engine.memories.update import MemoryArchiver, MemoryUpdater
from memsvc.engine.memories.upsert import Upserter
from memsvc.engine.records.memory_builder import MemoryBuilder, RecordBuilder, ReminderDetector
from memsvc.engine.runtime.periodic_task import PeriodicTask
from memsvc.engine.services import FileService
from memsvc.engine.watch.watch import ChangeNotifier, CommitPoller, ErasureBarrier, WatchService
from memsvc.ports.metadata import MetadataStore
from memsvc.settings import Settings

TIDY_SECONDS = 600.0
"""How often old requests and applied changes are thrown away."""
POLL_SECONDS = 0.2
"""How often to look for what other processes commit, where there may be some."""


@dataclass(frozen=True, slots=True)
class MemoryServices:
    """The use cases that write, and what they share."""

    memory_creator: MemoryCreator
    memory_updater: MemoryUpdater
    bulk_importer: BulkImporter
    memory_superseder: MemorySuperseder
    memory_promoter: MemoryPromoter
    memory_archiver: MemoryArchiver
    conflict_resolver: ConflictResolver
    memory_appender: MemoryAppender
    capture_writer: CaptureWriter
    accesses: AccessCounts
    committer: GroupCommitter
    blob_guard: BlobGuard
    memory_builder: MemoryBuilder
    record_builder: RecordBuilder
    upserter: Upserter
    requests: IdempotentExecutor
    watch: WatchService
    review: ReviewService
    checkpoints: CheckpointService
    checkpoint_rollback: CheckpointRollback
    reminders: ReminderService


def writing(settings: Settings, backends: Backends, index: Indexing, stack: ExitStack) -> MemoryServices:
    """Make what writes; *stack* stops its threads."""
    store, now = backends.metadata, backends.now
    committer = GroupCommitter(store)
    stack.callback(committer.close)
    committer.on_commit(index.indexer.notify)
    accesses = AccessCounts(committer, now)
    stack.callback(PeriodicTask("access-counts", settings.indexing.access_flush_seconds, accesses.flush).stop)
    stack.callback(PeriodicTask("tidying", TIDY_SECONDS, _tidying(settings, backends, committer)).stop)
    # Reading the system's randomness for every id lets the interpreter lock go, and an import waits to get it back.
    random = Random(os.urandom(32)).randbytes  # noqa: S311 - ids must be unique, not secret
    zone = ZoneInfo(settings.reminders.time_zone)
    keeping = BlobGuard(store.files, backends.blobs)
    memory_builder = MemoryBuilder(
        model=index.embedding.model,
        dimension=index.embedding.dimension,
        now=now,
        random=random,
        redactor=Redactor(is_on=settings.redaction.writes),
        policy=_policy(settings),
        reminder_detector=ReminderDetector(zone, is_on=settings.reminders.detect),
        image_extractor=InlineImageExtractor(committer, backends.blobs, keeping, file_rules(settings).fault_of, now),
    )
    record_builder = RecordBuilder(memory_builder, store.feed, backends.tokenizer.count)
    upserter = Upserter(memory_builder, record_builder)
    requests = IdempotentExecutor(committer, store.memories, store.conflicts)
    return MemoryServices(
        committer=committer,
        blob_guard=keeping,
        memory_creator=MemoryCreator(memory_builder, upserter, requests, accesses),
        memory_updater=MemoryUpdater(
            memory_builder, record_builder, requests, store.memories, now, keeping.try_to_remove_unused
        ),
        bulk_importer=BulkImporter(committer, memory_builder, upserter, accesses),
        memory_superseder=MemorySuperseder(memory_builder, record_builder, requests, store.memories),
        memory_promoter=MemoryPromoter(memory_builder, record_builder, requests, store.memories),
        memory_archiver=MemoryArchiver(memory_builder, record_builder, requests),
        conflict_resolver=ConflictResolver(memory_builder, record_builder, requests, store),
        memory_appender=MemoryAppender(memory_builder, record_builder, requests, store.memories, now),
        capture_writer=CaptureWriter(memory_builder, upserter, requests, accesses),
        accesses=accesses,
        memory_builder=memory_builder,
        record_builder=record_builder,
        upserter=upserter,
        requests=requests,
        watch=_watching(settings, store, committer, stack),
        review=ReviewService(memory_builder, record_builder, requests),
        checkpoints=CheckpointService(store, committer, now),
        checkpoint_rollback=CheckpointRollback(store, committer, record_builder, now),
        reminders=ReminderService(store, committer, now, zone),
    )


def _tidying(settings: Settings, backends: Backends, committer: GroupCommitter) -> Callable[[], None]:
    outbox = timedelta(days=settings.indexing.outbox_days)

    def tidy() -> None:
        now = backends.now()
        forget_old_requests(committer, now)
        backends.metadata.feed.trim(before=now - outbox)

    return tidy


def _policy(settings: Settings) -> TrustPolicy:
    provenance = settings.provenance
    trust = {origin: float(getattr(provenance, f"trust_{origin.value.lower()}")) for origin in Origin}
    return TrustPolicy(trust, provenance.quarantine_below)


def _watching(settings: Settings, store: MetadataStore, committer: GroupCommitter, stack: ExitStack) -> WatchService:
    bell = ChangeNotifier()
    committer.on_owners_changed(bell.notify)
    if seconds := settings.watch.poll_seconds or (POLL_SECONDS if store.is_shared else 0):
        stack.callback(PeriodicTask("watch-poll", seconds, CommitPoller(store.feed, bell).look).stop)
    kept = timedelta(days=settings.indexing.outbox_days)
    return WatchService(store.changes, ErasureBarrier(store.erasures), bell, max_lag=settings.watch.max_lag, kept=kept)


# Limits of files, from the settings.


def file_rules(settings: Settings) -> FileRules:
    """Return the rules."""
    chosen = settings.files
    hours = {FileCategory.TEMP: chosen.temp_hours, FileCategory.CACHE: chosen.cache_hours}
    lifetimes = {category: timedelta(hours=value) for category, value in hours.items() if value}
    extensions = tuple(fold_text(one).removeprefix(".") for one in chosen.extensions)
    return FileRules(chosen.max_bytes, chosen.media_types, extensions, lifetimes)


# Wiring of the file service.


_MINUTE_SECONDS = 60


def files(settings: Settings, backends: Backends, writes: MemoryServices, stack: ExitStack) -> FileService:
    """Make the use cases, and start what sweeps; *stack* stops it."""
    chosen, reads, blobs, now = settings.files, backends.metadata.files, backends.blobs, backends.now
    keeping = writes.blob_guard
    sweep = FileSweep(writes.committer, reads, blobs, keeping, now)
    if chosen.sweep_minutes:
        stack.callback(BlobGarbageCollector(sweep, chosen.sweep_minutes * _MINUTE_SECONDS).stop)
    attaching = AttachmentLinker(writes.record_builder, now)
    return FileService(
        uploader=FileUploader(writes.committer, blobs, keeping, file_rules(settings), now, attaching),
        reader=FileReader(reads, blobs, now),
        deleter=FileDeleter(writes.committer, keeping, now),
        sweep=sweep,
        blob_guard=keeping,
        ref_resolver=FileRefResolver(reads, UrlTemplates(chosen.download_url, chosen.preview_url), now),
    )
