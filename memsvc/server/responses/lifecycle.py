"""Responses of LifecycleService."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from memsvc.domain.conflicts import Contradiction, CurrencyMark
from memsvc.domain.consolidation import ConsolidationReport
from memsvc.domain.history import Checkpoint, Difference, DifferenceKind, RollbackReport, changed_fields
from memsvc.domain.maintenance import DueChange, MaintenancePlan, StepTally, UpkeepProgress, UpkeepStep
from memsvc.domain.memory import Memory
from memsvc.domain.reminders import DueReminder
from memsvc.domain.user_data import ImportIssue, Receipt, TransferProgress
from memsvc.domain.write_requests import WriteResult
from memsvc.engine.conflicts.sweep import SweepProgress
from memsvc.engine.summaries.periods import PeriodSummary
from memsvc.server.enums import (
    CURRENCY,
    DIFFERENCE_KIND,
    IMPORT_ISSUE_REASON,
    MAINTENANCE_REASON,
    MAINTENANCE_STEP,
    OUTCOME,
    UNRESTORED_REASON,
)
from memsvc.server.responses.memories import (
    fill_conflicts,
    fill_memory,
    fill_occurrence,
    fill_time,
    redactions_to_proto,
    seconds_to_proto,
)
from memsvc.server.tokens import consistency_token
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb

# Checkpoints.


def create_checkpoint_response(checkpoint: Checkpoint) -> lifecycle_pb.CreateCheckpointResponse:
    """Return a new checkpoint."""
    response = lifecycle_pb.CreateCheckpointResponse()
    _fill_checkpoint(response.checkpoint, checkpoint)
    return response


def delete_checkpoint_response(checkpoint: Checkpoint) -> lifecycle_pb.DeleteCheckpointResponse:
    """Return a deleted checkpoint."""
    response = lifecycle_pb.DeleteCheckpointResponse()
    _fill_checkpoint(response.checkpoint, checkpoint)
    return response


def list_checkpoints_response(
    checkpoints: Sequence[Checkpoint], next_page_token: str
) -> lifecycle_pb.ListCheckpointsResponse:
    """Return one page of checkpoints."""
    response = lifecycle_pb.ListCheckpointsResponse(next_page_token=next_page_token)
    for checkpoint in checkpoints:
        _fill_checkpoint(response.checkpoints.add(), checkpoint)
    return response


def diff_checkpoint_response(
    differences: Sequence[Difference], next_page_token: str
) -> lifecycle_pb.DiffCheckpointResponse:
    """Return one page of differences between a checkpoint and now."""
    response = lifecycle_pb.DiffCheckpointResponse(next_page_token=next_page_token)
    for difference in differences:
        message = response.differences.add(
            memory_id=difference.memory_id, kind=DIFFERENCE_KIND.to_proto[difference.kind]
        )
        if difference.before is not None:
            fill_memory(message.before, difference.before)
        if difference.after is not None:
            fill_memory(message.after, difference.after)
        if difference.before is not None and difference.after is not None:
            message.changed_fields.extend(changed_fields(difference.before, difference.after))
    return response


def rollback_to_checkpoint_response(
    report: RollbackReport, *, dry_run: bool
) -> lifecycle_pb.RollbackToCheckpointResponse:
    """Return the changes that a rollback made, or would make."""
    counts = report.counts
    response = lifecycle_pb.RollbackToCheckpointResponse(
        changed_count=counts.get(DifferenceKind.CHANGED, 0),
        deleted_count=counts.get(DifferenceKind.DELETED, 0),
        restored_count=counts.get(DifferenceKind.RESTORED, 0) + counts.get(DifferenceKind.CREATED, 0),
        unrestored_count=report.unreturned_count,
        unrestored=[
            lifecycle_pb.UnrestoredMemory(
                memory_id=one.memory_id,
                reason=UNRESTORED_REASON.to_proto[one.reason],
                blocking_memory_id=one.in_the_way,
            )
            for one in report.unreturned
        ],
        undo_checkpoint=report.undo,
        consistency_token="" if dry_run else consistency_token(report.position),
    )
    _fill_checkpoint(response.checkpoint, report.checkpoint)
    return response


def _fill_checkpoint(message: lifecycle_pb.Checkpoint, checkpoint: Checkpoint) -> None:
    message.name = checkpoint.name
    message.note = checkpoint.note
    fill_time(message.known_time, checkpoint.known_time)
    fill_time(message.create_time, checkpoint.create_time)


# Promotion, reminders, consolidation, summaries, maintenance.


def promote_memory_response(new: WriteResult, source: WriteResult) -> lifecycle_pb.PromoteMemoryResponse:
    """Return a long-term memory and the short-term one that it was made of."""
    position = max(new.position, source.position)
    response = lifecycle_pb.PromoteMemoryResponse(consistency_token=consistency_token(position))
    fill_memory(response.memory, new.memory)
    fill_memory(response.source, source.memory)
    response.redactions.extend(redactions_to_proto(new.redactions))
    fill_conflicts(response.conflicts, new.conflicts)
    return response


def list_due_reminders_response(
    reminders: Sequence[DueReminder], marks: Mapping[str, CurrencyMark], next_page_token: str
) -> lifecycle_pb.ListDueRemindersResponse:
    """Return one page of due reminders, with the *marks* of their memories that were judged, by id."""
    response = lifecycle_pb.ListDueRemindersResponse(next_page_token=next_page_token)
    for due in reminders:
        message = response.reminders.add()
        fill_memory(message.memory, due.memory)
        fill_occurrence(message.occurrence, due)
        if (mark := marks.get(due.memory.id)) is not None:
            message.currency, message.newer_memory_id = CURRENCY.to_proto[mark.currency], mark.newer_id
    return response


def acknowledge_reminder_response(memory: Memory, moment: datetime) -> lifecycle_pb.AcknowledgeReminderResponse:
    """Return a memory and the moment at which its reminder was acknowledged."""
    response = lifecycle_pb.AcknowledgeReminderResponse()
    fill_memory(response.memory, memory)
    fill_time(response.acknowledge_time, moment)
    return response


def consolidate_memories_response(
    report: ConsolidationReport, next_page_token: str
) -> lifecycle_pb.ConsolidateMemoriesResponse:
    """Return the groups that were merged, or would be."""
    response = lifecycle_pb.ConsolidateMemoriesResponse(
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
) -> lifecycle_pb.UndoConsolidationResponse:
    """Return a merged memory and its originals, which are in force again."""
    response = lifecycle_pb.UndoConsolidationResponse(consistency_token=consistency_token(merged.position))
    fill_memory(response.merged, merged.memory)
    for original in originals:
        fill_memory(response.originals.add(), original.memory)
    return response


def summarize_period_response(summary: PeriodSummary) -> lifecycle_pb.SummarizePeriodResponse:
    """Return a summary as it was stored."""
    written = summary.written
    response = lifecycle_pb.SummarizePeriodResponse(
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
) -> lifecycle_pb.RunMaintenanceResponse:
    """Return the progress of a run with *changes*: all of its changes, or none when they were reported before."""
    return lifecycle_pb.RunMaintenanceResponse(
        step=lifecycle_pb.MAINTENANCE_STEP_UNSPECIFIED
        if progress.step is None
        else MAINTENANCE_STEP.to_proto[progress.step],
        changes=[_maintenance_change(change) for change in changes],
        tallies=[_tally(step, tally) for step, tally in progress.tallies.items()],
        dry_run=progress.doing is MaintenancePlan.DRY_RUN,
        consistency_token=consistency_token(progress.position) if progress.position else "",
    )


def _maintenance_change(change: DueChange) -> lifecycle_pb.MaintenanceChange:
    return lifecycle_pb.MaintenanceChange(
        step=MAINTENANCE_STEP.to_proto[change.step],
        reason=MAINTENANCE_REASON.to_proto[change.reason],
        user_id=change.scope.user_id,
        project_id=change.scope.project_id,
        memory_id=change.memory_id,
        member_ids=change.member_ids,
    )


def _tally(step: UpkeepStep, tally: StepTally) -> lifecycle_pb.MaintenanceTally:
    return lifecycle_pb.MaintenanceTally(
        step=MAINTENANCE_STEP.to_proto[step],
        due_count=tally.due,
        changed_count=tally.changed,
        skipped_count=tally.skipped,
        complete=tally.is_complete,
        duration=seconds_to_proto(tally.seconds),
        failure=tally.failure,
    )


def detect_conflicts_response(
    progress: SweepProgress, found: Sequence[Contradiction], *, is_dry: bool
) -> lifecycle_pb.DetectConflictsResponse:
    """Return the progress of a sweep with *found*: all of its conflicts, or none when they were reported before."""
    response = lifecycle_pb.DetectConflictsResponse(
        examined_count=progress.examined,
        conflict_count=progress.count,
        done=progress.is_done,
        dry_run=is_dry,
        consistency_token=consistency_token(progress.position) if progress.position else "",
    )
    fill_conflicts(response.conflicts, found)
    return response


def archive_memory_response(written: WriteResult) -> lifecycle_pb.ArchiveMemoryResponse:
    """Return an archived memory."""
    response = lifecycle_pb.ArchiveMemoryResponse(consistency_token=consistency_token(written.position))
    fill_memory(response.memory, written.memory)
    return response


# User data.


def import_user_response(
    progress: TransferProgress, issues: Sequence[ImportIssue], *, seconds: float, done: bool
) -> lifecycle_pb.ImportUserResponse:
    """Return the progress of an import *seconds* after its header; *issues* were not reported before."""
    known = sum(progress.stored.values()) + progress.unchanged + progress.skipped
    return lifecycle_pb.ImportUserResponse(
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


def _import_issue(issue: ImportIssue) -> lifecycle_pb.ImportIssue:
    return lifecycle_pb.ImportIssue(
        line=issue.line,
        kind=issue.kind,
        id=issue.id,
        reason=IMPORT_ISSUE_REASON.to_proto[issue.trouble],
        message=issue.message,
        blocking_id=issue.in_the_way,
    )


def erase_user_response(receipt: Receipt) -> lifecycle_pb.EraseUserResponse:
    """Return the receipt of an erasure, or of its preview."""
    response = lifecycle_pb.EraseUserResponse()
    message = response.receipt
    message.dry_run = not receipt.is_done
    message.clean = receipt.is_clean
    fill_time(message.start_time, receipt.begin_time)
    fill_time(message.end_time, receipt.end_time)
    for store in receipt.stores:
        message.stores.add(store=store.name, removed_counts=store.removed, remaining_count=store.remaining)
    message.backups.extend(receipt.backups)
    message.searched_file_count = receipt.files_searched
    return response
