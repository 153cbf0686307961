"""Upkeep as the wire tells it."""

from __future__ import annotations

from collections.abc import Sequence

from memsvc.domain.maintenance import Due, MaintenancePlan, Reason, Tally, UpkeepProgress, UpkeepStep
from memsvc.server.convert.enums import EnumTable
from memsvc.server.convert.times import seconds_to_proto
from memsvc.v1 import maintenance_pb2 as pb

STEP = EnumTable(UpkeepStep, pb.MaintenanceStep, "MAINTENANCE_STEP")
REASON = EnumTable(Reason, pb.MaintenanceReason, "MAINTENANCE_REASON")


def steps_from_proto(numbers: Sequence[int]) -> list[UpkeepStep]:
    """Return the steps that a request names."""
    return [STEP.from_proto[number] for number in numbers]


def progress_to_proto(progress: UpkeepProgress, changes: Sequence[Due]) -> pb.RunMaintenanceResponse:
    """Return the progress of a run with these of its *changes*, which are all, or none when they were told before."""
    return pb.RunMaintenanceResponse(
        step=pb.MAINTENANCE_STEP_UNSPECIFIED if progress.step is None else STEP.to_proto[progress.step],
        changes=[_change_to_proto(change) for change in changes],
        tallies=[_tally_to_proto(step, tally) for step, tally in progress.tallies.items()],
        dry_run=progress.doing is MaintenancePlan.DRY_RUN,
    )


def _change_to_proto(change: Due) -> pb.MaintenanceChange:
    return pb.MaintenanceChange(
        step=STEP.to_proto[change.step],
        reason=REASON.to_proto[change.reason],
        user_id=change.scope.user_id,
        project_id=change.scope.project_id,
        memory_id=change.memory_id,
        member_ids=change.member_ids,
    )


def _tally_to_proto(step: UpkeepStep, tally: Tally) -> pb.MaintenanceTally:
    return pb.MaintenanceTally(
        step=STEP.to_proto[step],
        due_count=tally.due,
        changed_count=tally.changed,
        skipped_count=tally.skipped,
        complete=tally.is_complete,
        duration=seconds_to_proto(tally.seconds),
        failure=tally.failure,
    )
