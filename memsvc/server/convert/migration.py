"""Moves of the store, to and from the wire."""

from __future__ import annotations

from datetime import timedelta

from memsvc.engine.admin.store_migration import MoveAction
from memsvc.ports.operations import Changes, MovePhase, MoveProgress, MoveTarget
from memsvc.server.convert.enums import EnumTable
from memsvc.v1 import migration_pb2 as pb

ACTION = EnumTable(MoveAction, pb.MigrationAction, "MIGRATION_ACTION")
PHASE = EnumTable(MovePhase, pb.MigrationPhase, "MIGRATION_PHASE")


def target_from(request: pb.MigrateBackendRequest) -> MoveTarget:
    """Return where to move to."""
    return MoveTarget(request.target.postgresql_url)


def action_from(request: pb.MigrateBackendRequest) -> MoveAction:
    """Return what to do."""
    return ACTION.from_proto.get(request.action, MoveAction.RUN)


def changes_from(request: pb.MigrateBackendRequest) -> Changes:
    """Return what becomes of changes that are in the way of undoing."""
    return Changes.DISCARD if request.discard_changes else Changes.KEEP


def progress_to_proto(progress: MoveProgress) -> pb.MigrateBackendResponse:
    """Tell how far a move is."""
    response = pb.MigrateBackendResponse(
        phase=PHASE.to_proto[progress.phase],
        done_count=progress.done,
        total_count=progress.total,
        target=progress.place,
        message=progress.note,
        tables=[pb.MigratedTable(name=one.name, row_count=one.rows, digest=one.digest) for one in progress.tables],
        size_bytes=progress.bytes,
    )
    if progress.phase is MovePhase.DONE:
        response.sealed_duration.FromTimedelta(timedelta(seconds=progress.sealed_seconds))
    return response
