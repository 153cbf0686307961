"""Responses of AdminService."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from memsvc.domain.api_keys import ApiKey, QuotaSubject, QuotaUse
from memsvc.domain.clock import from_micros
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
    PlaceUsage,
    ReindexPhase,
    ReindexProgress,
    Stats,
    TokenState,
)
from memsvc.domain.vault import FileResult, VaultProgress
from memsvc.engine.admin.backup import BackupProgress
from memsvc.engine.admin.integrity import Event as IntegrityEvent
from memsvc.engine.admin.integrity import user_of
from memsvc.engine.vault.sync import SyncEvent as VaultEvent
from memsvc.engine.watch.webhooks import scope_of
from memsvc.ports.operations import MovePhase, MoveProgress, WebhookDelivery
from memsvc.server.enums import (
    API_KEY_ROLE,
    API_KEY_STATE,
    BACKUP_PHASE,
    INDEX_KIND,
    INTEGRITY_FAULT,
    MEASUREMENT_POINTS,
    MIGRATION_PHASE,
    REINDEX_PHASE,
    SEVERITY,
    VAULT_ACTIONS,
    WARNING_CODES,
)
from memsvc.server.responses.memories import (
    file_ref_to_proto,
    fill_time,
    seconds_to_proto,
    time_to_proto,
)
from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import types_pb2 as types_pb

SLOWEST = 10


def get_stats_response(stats: Stats) -> admin_pb.GetStatsResponse:
    """Return counts of memories; names with a count of 0 are left out."""
    counts = stats.counts
    return admin_pb.GetStatsResponse(
        memory_count=counts.total,
        count_by_layer=_counted(counts.by_layer),
        count_by_kind=_counted(counts.by_kind),
        count_by_tier=_counted(counts.by_tier),
        count_by_status=_counted(counts.by_status),
        core_token_count=counts.core_tokens,
        session_token_count=counts.session_tokens,
        chunk_count=counts.chunks,
        content_bytes=counts.content_bytes,
        vector_count=stats.vector_count,
        lexical_count=stats.lexical_count,
        storage_bytes=stats.storage_bytes,
        pending_change_count=stats.pending_changes,
        warnings=_warnings(stats.warnings),
        sessions=[
            admin_pb.SessionFill(
                session_id=fill.session_id,
                project_id=fill.project_id,
                token_count=fill.live_tokens,
                token_limit=fill.token_limit,
                usage_ratio=fill.usage,
            )
            for fill in stats.sessions
        ],
    )


def diagnose_response(diagnosis: Diagnosis, *, version: str) -> admin_pb.DiagnoseResponse:
    """Return the health of backends and indexes, and warnings."""
    return admin_pb.DiagnoseResponse(
        healthy=diagnosis.healthy,
        backends=[_backend(health) for health in diagnosis.backends],
        indexes=[
            _index(report) for report in sorted(diagnosis.indexes, key=lambda one: INDEX_KIND.to_proto[one.index])
        ],
        outbox=None if diagnosis.outbox is None else _outbox(diagnosis.outbox),
        slowest=[
            admin_pb.SlowOperation(
                operation=slow.operation,
                duration=seconds_to_proto(slow.seconds),
                time=time_to_proto(slow.time),
                point=MEASUREMENT_POINTS[slow.layer.upper()],
            )
            for slow in diagnosis.slowest[:SLOWEST]
        ],
        warnings=_warnings(diagnosis.warnings),
        version=version,
        tokens=None if diagnosis.tokens is None else _tokens(diagnosis.tokens),
    )


def _tokens(state: TokenState) -> admin_pb.TokenReport:
    return admin_pb.TokenReport(
        model=state.model,
        passage_count=state.passages,
        backfilling=state.is_backfilling,
        backfilled_count=state.backfilled,
    )


def _outbox(state: OutboxState) -> admin_pb.OutboxReport:
    return admin_pb.OutboxReport(
        head_position=state.head_position, applied_position=state.applied_position, pending_count=state.pending
    )


def reindex_response(progress: ReindexProgress) -> admin_pb.ReindexResponse:
    """Return the progress of a reindex; the last one names no index."""
    over = progress.phase is ReindexPhase.DONE
    return admin_pb.ReindexResponse(
        phase=REINDEX_PHASE.to_proto[progress.phase],
        index=admin_pb.INDEX_KIND_UNSPECIFIED if over else INDEX_KIND.to_proto[progress.index],
        done_count=progress.done,
        total_count=progress.total,
        generation=0 if over else progress.generation,
        message=progress.message,
    )


def get_performance_response(
    operations: Sequence[OperationPerformance], *, since: datetime
) -> admin_pb.GetPerformanceResponse:
    """Return the latencies of operations, ordered by operation and point."""
    ordered = sorted(operations, key=lambda one: (one.operation, MEASUREMENT_POINTS[one.layer.upper()]))
    return admin_pb.GetPerformanceResponse(
        operations=[_operation(one) for one in ordered if one.durations.count], since=time_to_proto(since)
    )


def _operation(one: OperationPerformance) -> admin_pb.OperationPerformance:
    durations = one.durations
    return admin_pb.OperationPerformance(
        operation=one.operation,
        point=MEASUREMENT_POINTS[one.layer.upper()],
        call_count=durations.count,
        error_count=durations.errors,
        p50=seconds_to_proto(durations.p50),
        p90=seconds_to_proto(durations.p90),
        p95=seconds_to_proto(durations.p95),
        p99=seconds_to_proto(durations.p99),
        max=seconds_to_proto(durations.max),
        mean=seconds_to_proto(durations.mean),
        stages=[_stage(name, percentiles) for name, percentiles in one.stages],
    )


def _stage(name: str, durations: Percentiles) -> admin_pb.StagePerformance:
    return admin_pb.StagePerformance(
        stage=name,
        call_count=durations.count,
        p50=seconds_to_proto(durations.p50),
        p90=seconds_to_proto(durations.p90),
        p95=seconds_to_proto(durations.p95),
        p99=seconds_to_proto(durations.p99),
        max=seconds_to_proto(durations.max),
        mean=seconds_to_proto(durations.mean),
    )


def _backend(health: BackendHealth) -> admin_pb.BackendHealth:
    return admin_pb.BackendHealth(
        port=health.port,
        name=health.name,
        healthy=health.healthy,
        message=health.message,
        ping=seconds_to_proto(health.ping_seconds) if health.healthy else None,
    )


def _index(report: IndexReport) -> admin_pb.IndexReport:
    return admin_pb.IndexReport(
        index=INDEX_KIND.to_proto[report.index],
        expected_count=report.expected,
        present_count=report.present,
        missing_count=report.missing,
        stale_count=report.stale,
        orphaned_count=report.orphaned,
        generation=report.generation,
        model=report.model,
        dimension=report.dimension,
        hnsw=report.hnsw,
        position=report.position,
        build=_building(report),
    )


def _building(report: IndexReport) -> admin_pb.IndexBuild | None:
    step = report.building
    if step is None:
        return None
    return admin_pb.IndexBuild(
        phase=REINDEX_PHASE.to_proto[step.phase],
        done_count=step.done,
        total_count=step.total,
        generation=step.generation,
        model=report.building_model,
    )


def _counted(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


def _warnings(warnings: Sequence[HealthWarning]) -> list[types_pb.Warning]:
    return [
        types_pb.Warning(
            code=WARNING_CODES[warning.code], message=warning.message, severity=SEVERITY.to_proto[warning.severity]
        )
        for warning in warnings
    ]


def memory_usage(usage: PlaceUsage) -> admin_pb.MemoryUsage:
    """Return the number of memories of a place, and the time of the last write."""
    message = admin_pb.MemoryUsage(memory_count=usage.count, count_by_status=usage.by_status)
    fill_time(message.last_write_time, usage.last_write)
    return message


def list_users_response(found: Sequence[PlaceUsage], token: str) -> admin_pb.ListUsersResponse:
    """Return a page of users."""
    users = [admin_pb.UserUsage(user_id=user_of(one.place[0]), usage=memory_usage(one)) for one in found]
    return admin_pb.ListUsersResponse(users=users, next_page_token=token)


def list_projects_response(found: Sequence[PlaceUsage], token: str) -> admin_pb.ListProjectsResponse:
    """Return a page of projects."""
    projects = [admin_pb.ProjectUsage(project_id=one.place[1], usage=memory_usage(one)) for one in found]
    return admin_pb.ListProjectsResponse(projects=projects, next_page_token=token)


def list_agents_response(found: Sequence[PlaceUsage], token: str) -> admin_pb.ListAgentsResponse:
    """Return a page of agents."""
    agents = [
        admin_pb.AgentUsage(project_id=one.place[1], agent_id=one.place[2], usage=memory_usage(one)) for one in found
    ]
    return admin_pb.ListAgentsResponse(agents=agents, next_page_token=token)


def check_integrity_response(event: IntegrityEvent) -> admin_pb.CheckIntegrityResponse:
    """Return a finding, the progress, or the summary of an integrity check."""
    if isinstance(event, Finding):
        return admin_pb.CheckIntegrityResponse(finding=_finding(event))
    if isinstance(event, CheckProgress):
        progress = admin_pb.IntegrityProgress(part=event.part, checked_count=event.checked)
        return admin_pb.CheckIntegrityResponse(progress=progress)
    return admin_pb.CheckIntegrityResponse(summary=_integrity_summary(event))


def _finding(finding: Finding) -> admin_pb.IntegrityFinding:
    ref = finding.file_ref
    return admin_pb.IntegrityFinding(
        file_ref=None if ref is None else file_ref_to_proto(ref),
        fault=INTEGRITY_FAULT.to_proto[finding.fault],
        memory_id=finding.memory_id,
        user_id=finding.user_id,
        project_id=finding.project_id,
        detail=finding.detail,
        remedy=REMEDIES[finding.fault],
        repaired=finding.is_repaired,
    )


def _integrity_summary(summary: CheckSummary) -> admin_pb.IntegritySummary:
    return admin_pb.IntegritySummary(
        memory_count=summary.memories,
        finding_count=summary.findings,
        repaired_count=summary.repaired,
        count_by_fault=dict(summary.by_fault),
        unchecked=summary.unchecked,
    )


def create_backup_response(step: BackupProgress) -> admin_pb.CreateBackupResponse:
    """Return the progress of a backup."""
    return admin_pb.CreateBackupResponse(
        phase=BACKUP_PHASE.to_proto[step.phase],
        name=step.name,
        done_count=step.done,
        total_count=step.total,
        size_bytes=step.bytes,
        row_counts=step.counts,
        manifest_sha256=step.digest,
    )


def migrate_backend_response(progress: MoveProgress) -> admin_pb.MigrateBackendResponse:
    """Return the progress of a migration of the store."""
    response = admin_pb.MigrateBackendResponse(
        phase=MIGRATION_PHASE.to_proto[progress.phase],
        done_count=progress.done,
        total_count=progress.total,
        target=progress.place,
        message=progress.note,
        tables=[
            admin_pb.MigratedTable(name=one.name, row_count=one.rows, digest=one.digest) for one in progress.tables
        ],
        size_bytes=progress.bytes,
    )
    if progress.phase is MovePhase.DONE:
        response.sealed_duration.FromTimedelta(timedelta(seconds=progress.sealed_seconds))
    return response


def api_key_to_proto(key: ApiKey, now: datetime) -> admin_pb.ApiKey:
    """Return an API key without its secret."""
    message = admin_pb.ApiKey(
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


def quota_to_proto(found: QuotaUse) -> admin_pb.Quota:
    """Return a quota with what is stored."""
    quota, used = found.quota, found.used
    message = admin_pb.Quota(
        calls_per_second=quota.calls_per_second,
        memory_count=quota.limits.memories,
        content_bytes=quota.limits.content_bytes,
        file_bytes=quota.limits.file_bytes,
        use=admin_pb.QuotaUse(
            memory_count=max(0, used.memories),
            content_bytes=max(0, used.content_bytes),
            file_bytes=max(0, used.file_bytes),
        ),
    )
    if quota.subject is QuotaSubject.TENANT:
        message.tenant_id = quota.id
    else:
        message.api_key_id = quota.id
    if quota.update_time is not None:
        fill_time(message.update_time, quota.update_time)
    return message


def sync_vault_response(event: VaultEvent) -> admin_pb.SyncVaultResponse:
    """Return a change, the progress, or the summary of a synchronisation."""
    if isinstance(event, FileResult):
        return admin_pb.SyncVaultResponse(
            change=admin_pb.VaultChange(
                action=VAULT_ACTIONS[event.action],
                path=event.path,
                memory_id=event.memory_id,
                line=event.line,
                detail=event.detail,
            )
        )
    if isinstance(event, VaultProgress):
        progress = admin_pb.VaultProgress(phase=event.phase, done_count=event.done)
        return admin_pb.SyncVaultResponse(progress=progress)
    return admin_pb.SyncVaultResponse(
        summary=admin_pb.VaultSummary(
            file_count=event.files,
            known_count=event.known,
            count_by_action={action.value: count for action, count in event.counts.items()},
            pending_count=event.behind,
        )
    )


def dead_letter_to_proto(found: WebhookDelivery, event_id: str) -> admin_pb.DeadLetter:
    """Return a dead letter."""
    scope, change = scope_of(found), found.change
    message = admin_pb.DeadLetter(
        endpoint=found.endpoint,
        event_id=event_id,
        tenant_id=scope.tenant_id,
        user_id=scope.user_id,
        project_id=scope.project_id,
        memory_id=change.memory_id,
        revision=change.revision,
        type=f"memory.{change.action.value.lower()}",
        attempt_count=found.attempts,
        status=found.status,
        error=found.error,
    )
    fill_time(message.time, from_micros(change.time))
    if found.first_time is not None:
        fill_time(message.first_attempt_time, found.first_time)
    return message
