"""Wiring of maintenance."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from random import Random

from memsvc.bootstrap.backends import Backends
from memsvc.bootstrap.indexing import Indexing
from memsvc.bootstrap.memories import MemoryServices
from memsvc.domain.secrets import Redactor
from memsvc.engine.consolidation.candidates import CandidateFinder
from memsvc.engine.consolidation.maintenance_step import ConsolidateStep, IncrementalScan
from memsvc.engine.consolidation.merge import GroupMerger, MergedTextWriter
from memsvc.engine.consolidation.service import ConsolidationService
from memsvc.engine.consolidation.undo import ConsolidationUndo
from memsvc.engine.maintenance.archive_step import ArchiveRules, ArchiveStep
from memsvc.engine.maintenance.expire_step import ExpireStep
from memsvc.engine.maintenance.promote_step import PromoteStep
from memsvc.engine.maintenance.runner import MaintenanceRunner, RunLimits, StepMetrics
from memsvc.engine.maintenance.scheduler import MaintenanceScheduler, Timetable
from memsvc.engine.maintenance.step import MaintenanceStep
from memsvc.engine.runtime.leader_lease import LeaderElection
from memsvc.engine.summaries.compact_logs import CompactionRules, CompactionWriters, LogCompactor
from memsvc.engine.summaries.periods import PeriodSummarizer, SummarySources
from memsvc.engine.summaries.summarizer import TextSummarizer
from memsvc.settings import MaintenanceSettings, Settings


def upkeep(
    settings: Settings,
    backends: Backends,
    measures: StepMetrics,
    writes: MemoryServices,
    others: Sequence[MaintenanceStep],
    stack: ExitStack,
) -> MaintenanceRunner:
    """Make what runs the steps, *others* too, and start the clock that runs them; *stack* stops it."""
    chosen, now = settings.maintenance, backends.now
    election = LeaderElection(backends.metadata.leases, now, lambda: uuid.uuid4().hex)
    maintenance = MaintenanceRunner(
        [*_steps(chosen, backends, writes), *others],
        election,
        measures,
        now,
        RunLimits(chosen.changes_per_step, chosen.steps),
        flush_accesses=writes.accesses.flush,
    )
    if chosen.interval_minutes:
        interval, jitter = timedelta(minutes=chosen.interval_minutes), timedelta(minutes=chosen.jitter_minutes)
        timetable = Timetable(interval, jitter, chosen.steps)
        schedule = MaintenanceScheduler(maintenance, election, timetable, now, Random())  # noqa: S311 - no secret
        schedule.start()
        stack.callback(schedule.stop)
    return maintenance


def _steps(chosen: MaintenanceSettings, backends: Backends, writes: MemoryServices) -> list[MaintenanceStep]:
    reads, now = backends.metadata.upkeep, backends.now
    committer, record_builder = writes.committer, writes.record_builder
    rules = ArchiveRules(timedelta(days=chosen.archive_unread_days), chosen.storage_limit_bytes)
    return [
        ExpireStep(reads, committer, record_builder, writes.memory_builder.reminder_detector, now),
        PromoteStep(reads, committer, writes.memory_promoter, now, least_accesses=chosen.promote_accesses),
        ArchiveStep(reads, committer, record_builder, now, rules),
    ]


# Wiring of consolidation and summaries.


@dataclass(frozen=True, slots=True)
class Consolidations:
    """The use cases that merge and sum up, and the steps of upkeep that do so by themselves."""

    consolidation: ConsolidationService
    consolidation_undo: ConsolidationUndo
    period_summarizer: PeriodSummarizer
    steps: tuple[MaintenanceStep, ...]


def consolidating(settings: Settings, backends: Backends, index: Indexing, writes: MemoryServices) -> Consolidations:
    """Make what merges and sums up. It has no threads of its own."""
    store, model, chosen = backends.metadata, backends.language_model, settings.consolidation
    committer, memory_builder, record_builder = writes.committer, writes.memory_builder, writes.record_builder
    redactor = Redactor(is_on=settings.redaction.capture)
    finding = CandidateFinder(store, backends.vectors, index.embedding, settings.ranking.tier)
    merging = GroupMerger(memory_builder, record_builder, MergedTextWriter(model, redactor))
    summing = TextSummarizer(model, backends.tokenizer.count, redactor)
    material = SummarySources(store.memories, backends.lexical)
    writers = CompactionWriters(committer, memory_builder, record_builder, writes.upserter)
    walking = IncrementalScan(store.feed, chosen.run_memories)
    rules = CompactionRules(chosen.log_days, chosen.log_tokens)
    return Consolidations(
        consolidation=ConsolidationService(finding, merging, committer, store.memories, chosen.threshold),
        consolidation_undo=ConsolidationUndo(memory_builder, record_builder, writes.requests, store.memories),
        period_summarizer=PeriodSummarizer(
            memory_builder, writes.upserter, writes.requests, material, summing, most_tokens=chosen.summary_tokens
        ),
        steps=(
            LogCompactor(store, writers, summing, rules),
            ConsolidateStep(store, finding, merging, committer, chosen.threshold, walking),
        ),
    )
