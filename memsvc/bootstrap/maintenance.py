"""Wiring of maintenance, consolidation and summaries."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from random import Random

from memsvc.bootstrap.backends import Assembly, Backends
from memsvc.bootstrap.indexing import IndexParts
from memsvc.bootstrap.memories import WriteParts
from memsvc.domain.secrets import Redactor
from memsvc.engine.consolidation.candidates import CandidateFinder
from memsvc.engine.consolidation.maintenance_step import ConsolidateStep, IncrementalScan
from memsvc.engine.consolidation.merge import GroupMerger, MergedTextWriter
from memsvc.engine.consolidation.service import ConsolidationService
from memsvc.engine.consolidation.undo import ConsolidationUndo
from memsvc.engine.indexing.vector_entries import VectorEntries
from memsvc.engine.maintenance.archive_step import ArchiveRules, ArchiveStep
from memsvc.engine.maintenance.detect_conflicts_step import DetectConflictsStep
from memsvc.engine.maintenance.expire_step import ExpireStep
from memsvc.engine.maintenance.promote_step import PromoteStep
from memsvc.engine.maintenance.purge_step import PurgeStep
from memsvc.engine.maintenance.runner import MaintenanceRunner, RunLimits, StepMetrics
from memsvc.engine.maintenance.scheduler import MaintenanceScheduler, Timetable
from memsvc.engine.maintenance.step import MaintenanceStep
from memsvc.engine.runtime.leader_lease import LeaderElection
from memsvc.engine.services import ConsolidationServices, MemoryServices
from memsvc.engine.summaries.compact_logs import CompactionRules, CompactionWriters, LogCompactor
from memsvc.engine.summaries.periods import MonthRules, PeriodSummarizer, SummarizeStep, SummarySources
from memsvc.engine.summaries.summarizer import TextSummarizer
from memsvc.settings import MaintenanceSettings


@dataclass(frozen=True)
class ConsolidationParts(ConsolidationServices):
    """The use cases that merge and summarise, and the maintenance steps that do so periodically."""

    steps: tuple[MaintenanceStep, ...]


def build_maintenance(
    assembly: Assembly,
    parts: WriteParts,
    memories: MemoryServices,
    others: Sequence[MaintenanceStep],
    measures: StepMetrics,
) -> MaintenanceRunner:
    """Build the runner of all steps, *others* among them, and start its schedule."""
    settings, backends = assembly.settings.maintenance, assembly.backends
    now = backends.now
    election = LeaderElection(backends.metadata.leases, now, lambda: uuid.uuid4().hex)
    runner = MaintenanceRunner(
        [*_steps(settings, backends, parts, memories), *others],
        election,
        measures,
        now,
        RunLimits(settings.changes_per_step, settings.steps),
        assembly.search_priority,
        flush_accesses=parts.accesses.flush,
        head_position=backends.metadata.feed.head_position,
    )
    if settings.interval_minutes:
        interval, jitter = timedelta(minutes=settings.interval_minutes), timedelta(minutes=settings.jitter_minutes)
        timetable = Timetable(interval, jitter, settings.steps)
        scheduler = MaintenanceScheduler(runner, election, timetable, now, Random())  # noqa: S311 - no secret
        scheduler.start()
        assembly.stack.callback(scheduler.stop)
    return runner


def _steps(
    settings: MaintenanceSettings, backends: Backends, parts: WriteParts, memories: MemoryServices
) -> list[MaintenanceStep]:
    reads, now = backends.metadata.upkeep, backends.now
    committer, record_builder = parts.committer, parts.record_builder
    rules = ArchiveRules(
        timedelta(days=settings.archive_unread_days), settings.archive_max_importance, settings.storage_limit_bytes
    )
    return [
        ExpireStep(reads, committer, record_builder, parts.memory_builder.reminder_detector, now),
        PromoteStep(reads, committer, memories.memory_promoter, now, least_accesses=settings.promote_accesses),
        ArchiveStep(reads, committer, record_builder, now, rules),
        PurgeStep(
            reads,
            committer,
            memories.memory_updater,
            parts.blob_guard.try_to_remove_unused,
            now,
            age=timedelta(days=settings.purge_deleted_days) if settings.purge_deleted_days else None,
        ),
        DetectConflictsStep(memories.conflict_sweep, backends.metadata.statements),
    ]


def build_consolidation(assembly: Assembly, index: IndexParts, parts: WriteParts) -> ConsolidationParts:
    """Build the use cases and steps that merge and summarise memories. They have no threads of their own."""
    settings, backends, search_priority = assembly.settings, assembly.backends, assembly.search_priority
    store, model, options = backends.metadata, backends.language_model, settings.consolidation
    committer, memory_builder, record_builder = parts.committer, parts.memory_builder, parts.record_builder
    redactor = Redactor(is_on=settings.redaction.capture)
    entries = VectorEntries(index.embedding, settings.ranking.tier, search_priority)
    finder = CandidateFinder(store, backends.vectors, entries, search_priority)
    merger = GroupMerger(memory_builder, record_builder, MergedTextWriter(model, redactor))
    summarizer = TextSummarizer(model, backends.tokenizer.count, redactor)
    sources = SummarySources(store.memories, backends.lexical, search_priority)
    writers = CompactionWriters(committer, memory_builder, record_builder, parts.upserter)
    scan = IncrementalScan(store.feed, options.run_memories, search_priority)
    rules = CompactionRules(options.log_days, options.log_tokens)
    period_summarizer = PeriodSummarizer(
        memory_builder, parts.upserter, parts.requests, sources, summarizer, most_tokens=options.summary_tokens
    )
    month = MonthRules(options.month_topics, options.month_memories)
    return ConsolidationParts(
        consolidation=ConsolidationService(finder, merger, committer, store.memories, options.threshold),
        consolidation_undo=ConsolidationUndo(memory_builder, record_builder, parts.requests, store.memories),
        period_summarizer=period_summarizer,
        steps=(
            LogCompactor(store, writers, summarizer, rules),
            ConsolidateStep(store, finder, merger, committer, options.threshold, scan),
            SummarizeStep(period_summarizer, store.memories, store.integrity, month, backends.now),
        ),
    )
