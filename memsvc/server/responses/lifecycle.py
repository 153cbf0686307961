"""Responses of LifecycleService."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from memsvc.domain.api_keys import ApiKey
from memsvc.domain.consolidation import ConsolidationReport
from memsvc.domain.diagnostics import (
    REMEDIES,
    BackendHealth,
    CheckProgress,
    CheckSummary,
    Diagnosis,
    Finding,
    HealthWarning,
    IndexReport,
    OperationPerformance,
    OutboxState,
    Percentiles,
    ReindexPhase,
    ReindexProgress,
    Stats,
)
from memsvc.domain.history import Checkpoint, Difference, DifferenceKind, RollbackReport, changed_fields
from memsvc.domain.maintenance import DueChange, MaintenancePlan, StepTally, UpkeepProgress, UpkeepStep
from memsvc.domain.memory import Memory
from memsvc.domain.reminders import DueReminder
from memsvc.domain.user_data import ImportIssue, Receipt, TransferProgress
from memsvc.domain.vault import FileResult, VaultProgress
from memsvc.domain.write_requests import WriteResult
from memsvc.engine.admin.backup import BackupProgress
from memsvc.engine.admin.integrity import Event as IntegrityEvent
from memsvc.engine.summaries.periods import PeriodSummary
from memsvc.engine.vault.sync import SyncEvent as VaultEvent
from memsvc.ports.operations import MovePhase, MoveProgress
from memsvc.server.enums import (
    API_KEY_ROLE,
    API_KEY_STATE,
    BACKUP_PHASE,
    DIFFERENCE_KIND,
    IMPORT_ISSUE_REASON,
    INDEX_KIND,
    INTEGRITY_FAULT,
    MAINTENANCE_REASON,
    MAINTENANCE_STEP,
    MIGRATION_PHASE,
    OUTCOME,
    REINDEX_PHASE,
    VAULT_ACTIONS,
    WARNING_SEVERITY,
)
from memsvc.server.responses.memories import (
    fill_memory,
    fill_occurrence,
    fill_time,
    redactions_to_proto,
    seconds_to_proto,
    time_to_proto,
)
from memsvc.server.tokens import consistency_token
from memsvc.v1 import (
    backup_pb2,
    consolidation_pb2,
    erasure_pb2,
    history_pb2,
    integrity_pb2,
    keys_pb2,
    maintenance_pb2,
    migration_pb2,
    promotion_pb2,
    reminders_pb2,
    summaries_pb2,
    transfer_pb2,
    vault_pb2,
)
from memsvc.v1 import lifecycle_service_pb2 as pb
from memsvc.v1 import types_pb2 as types

SLOWEST = 10

# Checkpoints.


def create_checkpoint_response(checkpoint: Checkpoint) -> history_pb2.CreateCheckpointResponse:
    """Return a new checkpoint."""
    response = history_pb2.CreateCheckpointResponse()
    _fill_checkpoint(response.checkpoint, checkpoint)
    return response


def list_checkpoints_response(
    checkpoints: Sequence[Checkpoint], next_page_token: str
) -> history_pb2.ListCheckpointsResponse:
    """Return one page of checkpoints."""
    response = history_pb2.ListCheckpointsResponse(next_page_token=next_page_token)
    for checkpoint in checkpoints:
        _fill_checkpoint(response.checkpoints.add(), checkpoint)
    return response


def diff_checkpoint_response(
    differences: Sequence[Difference], next_page_token: str
) -> history_pb2.DiffCheckpointResponse:
    """Return one page of differences between a checkpoint and now."""
    response = history_pb2.DiffCheckpointResponse(next_page_token=next_page_token)
    for difference in differences:
        message = response.differences.add(id=difference.memory_id, kind=DIFFERENCE_KIND.to_proto[difference.kind])
        if difference.before is not None:
            fill_memory(message.before, difference.before)
        if difference.after is not None:
            fill_memory(message.after, difference.after)
        if difference.before is not None and difference.after is not None:
            message.changed_fields.extend(changed_fields(difference.before, difference.after))
    return response


def rollback_to_checkpoint_response(
    report: RollbackReport, *, dry_run: bool
) -> history_pb2.RollbackToCheckpointResponse:
    """Return the changes that a rollback made, or would make."""
    counts = report.counts
    response = history_pb2.RollbackToCheckpointResponse(
        changed_count=counts.get(DifferenceKind.CHANGED, 0),
        deleted_count=counts.get(DifferenceKind.DELETED, 0),
        restored_count=counts.get(DifferenceKind.RESTORED, 0) + counts.get(DifferenceKind.CREATED, 0),
        unreturned_count=report.unreturned_count,
        unreturned=[
            history_pb2.UnreturnedMemory(id=one.memory_id, reason=one.reason.value, in_the_way=one.in_the_way)
            for one in report.unreturned
        ],
        undo_checkpoint=report.undo,
        consistency_token="" if dry_run else consistency_token(report.position),
    )
    _fill_checkpoint(response.checkpoint, report.checkpoint)
    return response


def _fill_checkpoint(message: history_pb2.Checkpoint, checkpoint: Checkpoint) -> None:
    message.name = checkpoint.name
    message.note = checkpoint.note
    fill_time(message.known_time, checkpoint.known_time)
    fill_time(message.create_time, checkpoint.create_time)


# Promotion, reminders, consolidation, summaries, maintenance.


def promote_memory_response(new: WriteResult, source: WriteResult) -> promotion_pb2.PromoteMemoryResponse:
    """Return a long-term memory and the short-term one that it was made of."""
    position = max(new.position, source.position)
    response = promotion_pb2.PromoteMemoryResponse(consistency_token=consistency_token(position))
    fill_memory(response.memory, new.memory)
    fill_memory(response.source, source.memory)
    response.redactions.extend(redactions_to_proto(new.redactions))
    return response


def list_due_reminders_response(
    reminders: Sequence[DueReminder], next_page_token: str
) -> reminders_pb2.ListDueRemindersResponse:
    """Return one page of due reminders."""
    response = reminders_pb2.ListDueRemindersResponse(next_page_token=next_page_token)
    for due in reminders:
        message = response.reminders.add()
        fill_memory(message.memory, due.memory)
        fill_occurrence(message.occurrence, due)
    return response


def acknowledge_reminder_response(memory: Memory, moment: datetime) -> reminders_pb2.AcknowledgeReminderResponse:
    """Return a memory and the moment at which its reminder was acknowledged."""
    response = reminders_pb2.AcknowledgeReminderResponse()
    fill_memory(response.memory, memory)
    fill_time(response.acknowledge_time, moment)
    return response


def consolidate_memories_response(
    report: ConsolidationReport, next_page_token: str
) -> consolidation_pb2.ConsolidateMemoriesResponse:
    """Return the groups that were merged, or would be."""
    response = consolidation_pb2.ConsolidateMemoriesResponse(
        examined_count=report.examined,
        skipped_count=report.skipped,
        next_page_token=next_page_token,
        consistency_token=consistency_token(report.position) if report.position else "",
    )
    for group in report.groups:
        message = response.groups.add(similarity=min(1.0, group.similarity), notice=group.notice)
        fill_memory(message.merged, group.merged)
        for original in group.originals:
            fill_memory(message.originals.add(), original)
    return response


def undo_consolidation_response(
    merged: WriteResult, originals: Sequence[WriteResult]
) -> consolidation_pb2.UndoConsolidationResponse:
    """Return a merged memory and its originals, which are in force again."""
    response = consolidation_pb2.UndoConsolidationResponse(consistency_token=consistency_token(merged.position))
    fill_memory(response.merged, merged.memory)
    for original in originals:
        fill_memory(response.originals.add(), original.memory)
    return response


def summarize_period_response(summary: PeriodSummary) -> summaries_pb2.SummarizePeriodResponse:
    """Return a summary as it was stored."""
    written = summary.written
    response = summaries_pb2.SummarizePeriodResponse(
        outcome=OUTCOME.to_proto[written.outcome],
        source_count=summary.source_count,
        notice=summary.notice,
        consistency_token=consistency_token(written.position),
    )
    fill_memory(response.memory, written.memory)
    response.redactions.extend(redactions_to_proto(written.redactions))
    return response


def run_maintenance_response(
    progress: UpkeepProgress, changes: Sequence[DueChange]
) -> maintenance_pb2.RunMaintenanceResponse:
    """Return the progress of a run with *changes*: all of its changes, or none when they were reported before."""
    return maintenance_pb2.RunMaintenanceResponse(
        step=maintenance_pb2.MAINTENANCE_STEP_UNSPECIFIED
        if progress.step is None
        else MAINTENANCE_STEP.to_proto[progress.step],
        changes=[_maintenance_change(change) for change in changes],
        tallies=[_tally(step, tally) for step, tally in progress.tallies.items()],
        dry_run=progress.doing is MaintenancePlan.DRY_RUN,
    )


def _maintenance_change(change: DueChange) -> maintenance_pb2.MaintenanceChange:
    return maintenance_pb2.MaintenanceChange(
        step=MAINTENANCE_STEP.to_proto[change.step],
        reason=MAINTENANCE_REASON.to_proto[change.reason],
        user_id=change.scope.user_id,
        project_id=change.scope.project_id,
        memory_id=change.memory_id,
        member_ids=change.member_ids,
    )


def _tally(step: UpkeepStep, tally: StepTally) -> maintenance_pb2.MaintenanceTally:
    return maintenance_pb2.MaintenanceTally(
        step=MAINTENANCE_STEP.to_proto[step],
        due_count=tally.due,
        changed_count=tally.changed,
        skipped_count=tally.skipped,
        complete=tally.is_complete,
        duration=seconds_to_proto(tally.seconds),
        failure=tally.failure,
    )


def archive_memory_response(written: WriteResult) -> maintenance_pb2.ArchiveMemoryResponse:
    """Return an archived memory."""
    response = maintenance_pb2.ArchiveMemoryResponse(consistency_token=consistency_token(written.position))
    fill_memory(response.memory, written.memory)
    return response


# User data.


def import_user_response(
    progress: TransferProgress, issues: Sequence[ImportIssue], *, seconds: float, done: bool
) -> transfer_pb2.ImportUserResponse:
    """Return the progress of an import *seconds* after its header; *issues* were not reported before."""
    known = sum(progress.stored.values()) + progress.unchanged + progress.skipped
    return transfer_pb2.ImportUserResponse(
        line_count=progress.lines,
        total_count=progress.total,
        stored_counts={kind.value: count for kind, count in progress.stored.items() if count},
        unchanged_count=progress.unchanged,
        skipped_count=progress.skipped,
        vector_count=progress.vectors,
        issues=[_import_issue(issue) for issue in issues],
        records_per_second=known / seconds if known and seconds else 0.0,
        done=done,
        consistency_token=consistency_token(progress.position) if progress.position else "",
    )


def _import_issue(issue: ImportIssue) -> transfer_pb2.ImportIssue:
    return transfer_pb2.ImportIssue(
        line=issue.line,
        kind=issue.kind,
        id=issue.id,
        reason=IMPORT_ISSUE_REASON.to_proto[issue.trouble],
        message=issue.message,
        in_the_way=issue.in_the_way,
    )


def erase_user_response(receipt: Receipt) -> erasure_pb2.EraseUserResponse:
    """Return the receipt of an erasure, or of its preview."""
    response = erasure_pb2.EraseUserResponse()
    message = response.receipt
    message.dry_run = not receipt.is_done
    message.clean = receipt.is_clean
    fill_time(message.begin_time, receipt.begin_time)
    fill_time(message.end_time, receipt.end_time)
    for store in receipt.stores:
        message.stores.add(store=store.name, removed_counts=store.removed, remaining_count=store.remaining)
    message.backups.extend(receipt.backups)
    message.files_searched = receipt.files_searched
    return response


# Operation of the service: statistics, indexes, integrity, backup, migration, API keys, vault.


def get_stats_response(stats: Stats) -> pb.GetStatsResponse:
    """Return counts of memories; names with a count of 0 are left out."""
    counts = stats.counts
    return pb.GetStatsResponse(
        total_count=counts.total,
        count_by_layer=_counted(counts.by_layer),
        count_by_kind=_counted(counts.by_kind),
        count_by_tier=_counted(counts.by_tier),
        count_by_status=_counted(counts.by_status),
        core_tokens=counts.core_tokens,
        session_tokens=counts.session_tokens,
        chunk_count=counts.chunks,
        content_bytes=counts.content_bytes,
        vector_count=stats.vector_count,
        lexical_count=stats.lexical_count,
        storage_bytes=stats.storage_bytes,
        pending_index_changes=stats.pending_changes,
        warnings=_warnings(stats.warnings),
        sessions=[
            pb.SessionFill(
                session_id=fill.session_id,
                project_id=fill.project_id,
                live_tokens=fill.live_tokens,
                token_limit=fill.token_limit,
                usage=fill.usage,
            )
            for fill in stats.sessions
        ],
    )


def diagnose_response(diagnosis: Diagnosis, *, version: str) -> pb.DiagnoseResponse:
    """Return the health of backends and indexes, and warnings."""
    return pb.DiagnoseResponse(
        healthy=diagnosis.healthy,
        backends=[_backend(health) for health in diagnosis.backends],
        indexes=[
            _index(report) for report in sorted(diagnosis.indexes, key=lambda one: INDEX_KIND.to_proto[one.index])
        ],
        outbox=None if diagnosis.outbox is None else _outbox(diagnosis.outbox),
        slowest=[
            pb.SlowOperation(
                operation=slow.operation,
                duration=seconds_to_proto(slow.seconds),
                time=time_to_proto(slow.time),
                layer=slow.layer,
            )
            for slow in diagnosis.slowest[:SLOWEST]
        ],
        warnings=_warnings(diagnosis.warnings),
        version=version,
    )


def _outbox(state: OutboxState) -> pb.OutboxReport:
    return pb.OutboxReport(
        head_position=state.head_position, applied_position=state.applied_position, pending=state.pending
    )


def reindex_response(progress: ReindexProgress) -> pb.ReindexResponse:
    """Return the progress of a reindex; the last one names no index."""
    over = progress.phase is ReindexPhase.DONE
    return pb.ReindexResponse(
        phase=REINDEX_PHASE.to_proto[progress.phase],
        index=pb.INDEX_KIND_UNSPECIFIED if over else INDEX_KIND.to_proto[progress.index],
        done=progress.done,
        total=progress.total,
        generation=0 if over else progress.generation,
        message=progress.message,
    )


def get_performance_response(
    operations: Sequence[OperationPerformance], *, since: datetime
) -> pb.GetPerformanceResponse:
    """Return the latencies of operations, ordered by operation and layer."""
    ordered = sorted(operations, key=lambda one: (one.operation, one.layer))
    return pb.GetPerformanceResponse(
        operations=[_operation(one) for one in ordered if one.durations.count], since=time_to_proto(since)
    )


def _operation(one: OperationPerformance) -> pb.OperationPerformance:
    durations = one.durations
    return pb.OperationPerformance(
        operation=one.operation,
        layer=one.layer,
        count=durations.count,
        errors=durations.errors,
        p50=seconds_to_proto(durations.p50),
        p90=seconds_to_proto(durations.p90),
        p95=seconds_to_proto(durations.p95),
        p99=seconds_to_proto(durations.p99),
        max=seconds_to_proto(durations.max),
        mean=seconds_to_proto(durations.mean),
        stages=[_stage(name, percentiles) for name, percentiles in one.stages],
    )


def _stage(name: str, durations: Percentiles) -> pb.StagePerformance:
    return pb.StagePerformance(
        stage=name,
        count=durations.count,
        p50=seconds_to_proto(durations.p50),
        p90=seconds_to_proto(durations.p90),
        p95=seconds_to_proto(durations.p95),
        p99=seconds_to_proto(durations.p99),
        max=seconds_to_proto(durations.max),
        mean=seconds_to_proto(durations.mean),
    )


def _backend(health: BackendHealth) -> pb.BackendHealth:
    return pb.BackendHealth(
        port=health.port,
        name=health.name,
        healthy=health.healthy,
        message=health.message,
        ping=seconds_to_proto(health.ping_seconds) if health.healthy else None,
    )


def _index(report: IndexReport) -> pb.IndexReport:
    return pb.IndexReport(
        index=INDEX_KIND.to_proto[report.index],
        expected=report.expected,
        present=report.present,
        missing=report.missing,
        stale=report.stale,
        orphaned=report.orphaned,
        generation=report.generation,
        model=report.model,
        dimension=report.dimension,
        hnsw=report.hnsw,
        position=report.position,
        building=_building(report),
    )


def _building(report: IndexReport) -> pb.IndexBuild | None:
    step = report.building
    if step is None:
        return None
    return pb.IndexBuild(
        phase=REINDEX_PHASE.to_proto[step.phase],
        done=step.done,
        total=step.total,
        generation=step.generation,
        model=report.building_model,
    )


def _counted(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


def _warnings(warnings: Sequence[HealthWarning]) -> list[pb.Warning]:
    return [
        pb.Warning(code=warning.code, message=warning.message, severity=WARNING_SEVERITY.to_proto[warning.severity])
        for warning in warnings
    ]


def check_integrity_response(event: IntegrityEvent) -> integrity_pb2.CheckIntegrityResponse:
    """Return a finding, the progress, or the summary of an integrity check."""
    if isinstance(event, Finding):
        return integrity_pb2.CheckIntegrityResponse(finding=_finding(event))
    if isinstance(event, CheckProgress):
        progress = integrity_pb2.IntegrityProgress(part=event.part, checked=event.checked)
        return integrity_pb2.CheckIntegrityResponse(progress=progress)
    return integrity_pb2.CheckIntegrityResponse(summary=_integrity_summary(event))


def _finding(finding: Finding) -> integrity_pb2.IntegrityFinding:
    ref = finding.file_ref
    return integrity_pb2.IntegrityFinding(
        file_ref=None if ref is None else types.FileRef(category=ref.category, id=ref.id),
        fault=INTEGRITY_FAULT.to_proto[finding.fault],
        memory_id=finding.memory_id,
        user_id=finding.user_id,
        project_id=finding.project_id,
        detail=finding.detail,
        remedy=REMEDIES[finding.fault],
        repaired=finding.is_repaired,
    )


def _integrity_summary(summary: CheckSummary) -> integrity_pb2.IntegritySummary:
    return integrity_pb2.IntegritySummary(
        memory_count=summary.memories,
        findings=summary.findings,
        repaired=summary.repaired,
        count_by_fault=dict(summary.by_fault),
        unchecked=summary.unchecked,
    )


def create_backup_response(step: BackupProgress) -> backup_pb2.CreateBackupResponse:
    """Return the progress of a backup."""
    return backup_pb2.CreateBackupResponse(
        phase=BACKUP_PHASE.to_proto[step.phase],
        name=step.name,
        done_count=step.done,
        total_count=step.total,
        size_bytes=step.bytes,
        row_counts=step.counts,
        manifest_sha256=step.digest,
    )


def migrate_backend_response(progress: MoveProgress) -> migration_pb2.MigrateBackendResponse:
    """Return the progress of a migration of the store."""
    response = migration_pb2.MigrateBackendResponse(
        phase=MIGRATION_PHASE.to_proto[progress.phase],
        done_count=progress.done,
        total_count=progress.total,
        target=progress.place,
        message=progress.note,
        tables=[
            migration_pb2.MigratedTable(name=one.name, row_count=one.rows, digest=one.digest) for one in progress.tables
        ],
        size_bytes=progress.bytes,
    )
    if progress.phase is MovePhase.DONE:
        response.sealed_duration.FromTimedelta(timedelta(seconds=progress.sealed_seconds))
    return response


def api_key_to_proto(key: ApiKey, now: datetime) -> keys_pb2.ApiKey:
    """Return an API key without its secret."""
    message = keys_pb2.ApiKey(
        id=key.id,
        name=key.name,
        role=API_KEY_ROLE.to_proto[key.role],
        tenant_id=key.tenant_id,
        user_ids=key.user_ids,
        project_ids=key.project_ids,
        calls_per_second=key.calls_per_second,
        concurrent_calls=key.concurrent_calls,
        state=API_KEY_STATE.to_proto[key.state(now)],
    )
    fill_time(message.create_time, key.create_time)
    if key.expire_time is not None:
        fill_time(message.expire_time, key.expire_time)
    if key.revoke_time is not None:
        fill_time(message.revoke_time, key.revoke_time)
    return message


def sync_vault_response(event: VaultEvent) -> vault_pb2.SyncVaultResponse:
    """Return a change, the progress, or the summary of a synchronisation."""
    if isinstance(event, FileResult):
        return vault_pb2.SyncVaultResponse(
            change=vault_pb2.VaultChange(
                action=VAULT_ACTIONS[event.action],
                path=event.path,
                memory_id=event.memory_id,
                line=event.line,
                detail=event.detail,
            )
        )
    if isinstance(event, VaultProgress):
        progress = vault_pb2.VaultProgress(phase=event.phase, done_count=event.done)
        return vault_pb2.SyncVaultResponse(progress=progress)
    return vault_pb2.SyncVaultResponse(
        summary=vault_pb2.VaultSummary(
            file_count=event.files,
            known_count=event.known,
            count_by_action={action.value: count for action, count in event.counts.items()},
            pending_count=event.behind,
        )
    )
