"""What the service says of itself, on its way out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from memsvc.domain.diagnostics import (
    BackendHealth,
    Diagnosis,
    IndexKind,
    IndexReport,
    Notice,
    OperationPerformance,
    OutboxState,
    Percentiles,
    ReindexMode,
    ReindexPhase,
    ReindexProgress,
    Stats,
)
from memsvc.server.convert.enums import INDEX_KIND, REINDEX_MODE, REINDEX_PHASE, WARNING_SEVERITY
from memsvc.server.convert.times import seconds_to_proto, time_to_proto
from memsvc.v1 import lifecycle_service_pb2 as pb

SLOWEST = 10


def stats_to_proto(stats: Stats) -> pb.GetStatsResponse:
    """Return the counts; names that count 0 are left out."""
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


def diagnosis_to_proto(diagnosis: Diagnosis, *, version: str) -> pb.DiagnoseResponse:
    """Return what is well and what is not."""
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


def indexes_from_proto(numbers: Iterable[int]) -> list[IndexKind]:
    """Return the indexes that are meant, in the order of the enum; none given: all."""
    return [INDEX_KIND.from_proto[number] for number in sorted(set(numbers))] or list(IndexKind)


def mode_from_proto(number: int) -> ReindexMode:
    """Return how to put the indexes right."""
    return REINDEX_MODE.given(number, ReindexMode.REBUILD)


def progress_to_proto(progress: ReindexProgress) -> pb.ReindexResponse:
    """Return how far a reindex is; its last word is about no index."""
    over = progress.phase is ReindexPhase.DONE
    return pb.ReindexResponse(
        phase=REINDEX_PHASE.to_proto[progress.phase],
        index=pb.INDEX_KIND_UNSPECIFIED if over else INDEX_KIND.to_proto[progress.index],
        done=progress.done,
        total=progress.total,
        generation=0 if over else progress.generation,
        message=progress.message,
    )


def performance_to_proto(operations: Sequence[OperationPerformance], *, since: datetime) -> pb.GetPerformanceResponse:
    """Return what was measured, by operation, then layer."""
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


def _warnings(warnings: Sequence[Notice]) -> list[pb.Warning]:
    return [
        pb.Warning(code=warning.code, message=warning.message, severity=WARNING_SEVERITY.to_proto[warning.severity])
        for warning in warnings
    ]
