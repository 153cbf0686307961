"""Servicer of LifecycleService."""

# ruff: noqa: N802, ARG002 - names and arguments are gRPC's
from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypeAlias

import grpc

from memsvc.domain.conflicts import CurrencyMark
from memsvc.domain.errors import LimitExceededError
from memsvc.domain.maintenance import UpkeepProgress
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Scope
from memsvc.domain.search import Selection
from memsvc.domain.write_requests import WaitFor
from memsvc.engine.conflicts.sweep import SweepProgress
from memsvc.server import call_context, tokens
from memsvc.server.executors import Answer, Pending, iterate_in_thread, runs_in, stream_progress
from memsvc.server.requests import lifecycle as requests
from memsvc.server.responses import lifecycle as responses
from memsvc.server.server_context import ServerContext
from memsvc.server.services.import_stream import UserImportStream
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import lifecycle_service_pb2_grpc as pb_grpc

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
NEVER_SECONDS = 86_400.0
"""A piece of an export must not be sent twice: no step takes so long."""


class LifecycleServicer(pb_grpc.LifecycleServiceServicer):
    """Maintains memories over time."""

    def __init__(self, server: ServerContext) -> None:
        self._server = server
        self._app = server.application
        self._waits = server.waits
        self._write = server.executors.write
        self._meta = server.executors.meta
        self._language = server.executors.language
        self._search = server.executors.search

    # Checkpoints.

    @runs_in("write")
    def CreateCheckpoint(
        self, request: lifecycle_pb.CreateCheckpointRequest, context: Context
    ) -> lifecycle_pb.CreateCheckpointResponse:
        """Name a moment of a project."""
        new = requests.create_checkpoint_request(request)
        checkpoint = self._app.checkpoints.create(
            new.scope, new.name, note=new.note, known_time=new.known_time, request_id=new.request_id
        )
        return responses.create_checkpoint_response(checkpoint)

    @runs_in("write")
    def DeleteCheckpoint(
        self, request: lifecycle_pb.DeleteCheckpointRequest, context: Context
    ) -> lifecycle_pb.DeleteCheckpointResponse:
        """Delete a checkpoint."""
        gone = requests.delete_checkpoint_request(request)
        checkpoint = self._app.checkpoints.delete(gone.scope, gone.checkpoint, request_id=gone.request_id)
        return responses.delete_checkpoint_response(checkpoint)

    @runs_in("meta")
    def ListCheckpoints(
        self, request: lifecycle_pb.ListCheckpointsRequest, context: Context
    ) -> lifecycle_pb.ListCheckpointsResponse:
        """Return a page of checkpoints."""
        page = requests.list_checkpoints_request(request)
        found, has_more = self._app.checkpoints.page(page.scope, after=page.after, limit=page.limit)
        token = tokens.checkpoint_token(found[-1], tokens.digest(request)) if has_more else ""
        return responses.list_checkpoints_response(found, token)

    @runs_in("meta")
    def DiffCheckpoint(
        self, request: lifecycle_pb.DiffCheckpointRequest, context: Context
    ) -> lifecycle_pb.DiffCheckpointResponse:
        """Return a page of the differences between a checkpoint and now."""
        page = requests.diff_checkpoint_request(request)

        found, following = self._app.checkpoints.differences(
            page.scope, page.checkpoint, after=page.after, limit=page.limit
        )
        token = "" if following is None else tokens.list_token(following, tokens.digest(request))
        return responses.diff_checkpoint_response(found, token)

    async def RollbackToCheckpoint(
        self, request: lifecycle_pb.RollbackToCheckpointRequest, context: Context
    ) -> lifecycle_pb.RollbackToCheckpointResponse:
        """Return a project to a checkpoint, or preview the changes."""
        target = requests.rollback_to_checkpoint_request(request)
        rollback, options = self._app.checkpoint_rollback, target.options
        if request.dry_run:
            report = await self._meta.run(rollback.preview, target.scope, target.checkpoint)
            return responses.rollback_to_checkpoint_response(report, dry_run=True)
        report = await self._write.run(
            rollback.run,
            target.scope,
            target.checkpoint,
            request_id=options.request_id,
            deadline=call_context.deadline.get(),
        )
        if options.wait_for is WaitFor.INDEXED:
            await self._waits.stored(report.position)
        return responses.rollback_to_checkpoint_response(report, dry_run=False)

    # Promotion, reminders, consolidation, summaries, maintenance.

    @runs_in("write")
    def PromoteMemory(
        self, request: lifecycle_pb.PromoteMemoryRequest, context: Context
    ) -> Answer[lifecycle_pb.PromoteMemoryResponse]:
        """Store a long-term memory made of a short-term one."""
        promotion = requests.promote_memory_request(request)
        new, source = self._server.write_named(
            "PromoteMemory",
            self._app.memory_promoter.promote,
            promotion,
            content=promotion.content,
            title=promotion.title,
            expected_revision=promotion.expected_revision,
            options=promotion.options,
        )
        return self._waits.after(responses.promote_memory_response(new, source), new, promotion.options.wait_for)

    @runs_in("meta")
    def ListDueReminders(
        self, request: lifecycle_pb.ListDueRemindersRequest, context: Context
    ) -> Answer[lifecycle_pb.ListDueRemindersResponse]:
        """Return a page of due reminders, and whether their memories still hold."""
        reminders = self._app.reminders
        page = requests.list_due_reminders_request(request, now=self._server.now(), zone=reminders.zone)
        found, following = reminders.due(page.scope, page.moment, after=page.after, limit=page.limit)
        token = ""
        if following is not None:
            token = tokens.reminders_token(page.moment.now, *following, tokens.digest(request))
        if not found:
            return responses.list_due_reminders_response(found, {}, token)
        memories = [one.memory for one in found]
        return Pending(
            lambda: self._marks(page.scope, memories, page.selection),
            lambda marks: responses.list_due_reminders_response(found, marks, token),
            self._meta,
        )

    async def _marks(
        self, scope: Scope, memories: Sequence[Memory], selection: Selection
    ) -> Mapping[str, CurrencyMark]:
        """Return whether memories still hold; nothing while too many searches wait or indexes are being caught up."""
        if self._app.indexer.is_replaying:
            return {}
        try:
            return await self._search.run(
                self._app.reminder_currency.marks, scope, memories, selection, call_context.deadline.get()
            )
        except LimitExceededError:
            return {}

    @runs_in("write")
    def AcknowledgeReminder(
        self, request: lifecycle_pb.AcknowledgeReminderRequest, context: Context
    ) -> lifecycle_pb.AcknowledgeReminderResponse:
        """Record that a reminder was given."""
        reminder = requests.acknowledge_reminder_request(request)

        scope, request_id = reminder.scope, reminder.request_id
        memory_id = self._app.key_resolver.id_of(
            scope, reminder.memory, method="AcknowledgeReminder", request_id=request_id
        )
        with reminder.memory.name_violations():
            memory, moment = self._app.reminders.acknowledge(
                scope, memory_id, day=reminder.day, slot=reminder.slot, request_id=request_id
            )
        return responses.acknowledge_reminder_response(memory, moment)

    async def ConsolidateMemories(
        self, request: lifecycle_pb.ConsolidateMemoriesRequest, context: Context
    ) -> lifecycle_pb.ConsolidateMemoriesResponse:
        """Merge memories with the same content, or preview the merges."""
        consolidation, wait_for = requests.consolidate_memories_request(request)
        consolidate = self._app.consolidation
        work = consolidate.preview if request.dry_run else consolidate.run
        # It takes long, and may ask a language model: writes do not wait for it.
        report, following = await self._language.run(work, consolidation, call_context.deadline.get())
        if report.position and wait_for is WaitFor.INDEXED:
            await self._waits.stored(report.position)
        token = ""
        if following is not None:
            token = tokens.list_token(following, requests.consolidation_digest(request))
        return responses.consolidate_memories_response(report, token)

    @runs_in("write")
    def UndoConsolidation(
        self, request: lifecycle_pb.UndoConsolidationRequest, context: Context
    ) -> Answer[lifecycle_pb.UndoConsolidationResponse]:
        """Restore the originals of a merged memory."""
        undo = requests.undo_consolidation_request(request)
        merged, originals = self._server.write_named(
            "UndoConsolidation",
            self._app.consolidation_undo.undo,
            undo,
            expected_revision=undo.expected_revision,
            options=undo.options,
        )
        return self._waits.after(
            responses.undo_consolidation_response(merged, originals), merged, undo.options.wait_for
        )

    @runs_in("language")
    def SummarizePeriod(
        self, request: lifecycle_pb.SummarizePeriodRequest, context: Context
    ) -> Answer[lifecycle_pb.SummarizePeriodResponse]:
        """Summarise a period or topic."""
        period, options = requests.summarize_period_request(request)
        summary = self._app.period_summarizer.summarize(period, options, call_context.deadline.get())
        return self._waits.after(responses.summarize_period_response(summary), summary.written, options.wait_for)

    async def RunMaintenance(
        self, request: lifecycle_pb.RunMaintenanceRequest, context: Context
    ) -> AsyncGenerator[lifecycle_pb.RunMaintenanceResponse, None]:
        """Run the steps that are due, or preview them, and stream the progress."""
        run = requests.run_maintenance_request(request)
        steps = self._app.maintenance.run(run.area, run.steps, run.plan)
        latest: UpkeepProgress | None = None
        async with aclosing(stream_progress(steps, "maintenance")) as pump:
            async for progress in pump:
                # The pump repeats the latest step while the next one takes long: its changes come only once.
                yield responses.run_maintenance_response(progress, () if progress is latest else progress.changes)
                latest = progress

    async def DetectConflicts(
        self, request: lifecycle_pb.DetectConflictsRequest, context: Context
    ) -> AsyncGenerator[lifecycle_pb.DetectConflictsResponse, None]:
        """Compare stored memories, or preview the conflicts, and stream the progress."""
        wanted = requests.detect_conflicts_request(request)
        steps = self._app.conflict_sweep.run(wanted.area, wanted.selection, wanted.policy, is_dry=wanted.is_dry)
        latest: SweepProgress | None = None
        async with aclosing(stream_progress(steps, "conflicts")) as pump:
            async for progress in pump:
                found = () if progress is latest else progress.found
                latest = progress
                if progress.is_done and wanted.wait_for is WaitFor.INDEXED and progress.position:
                    await self._waits.stored(progress.position)
                yield responses.detect_conflicts_response(progress, found, is_dry=wanted.is_dry)

    @runs_in("write")
    def ArchiveMemory(
        self, request: lifecycle_pb.ArchiveMemoryRequest, context: Context
    ) -> Answer[lifecycle_pb.ArchiveMemoryResponse]:
        """Archive a memory."""
        change = requests.archive_memory_request(request)
        written = self._server.write_named(
            "ArchiveMemory",
            self._app.memory_archiver.archive,
            change,
            expected_revision=change.expected_revision,
            options=change.options,
        )
        return self._waits.after(responses.archive_memory_response(written), written, change.options.wait_for)

    # User data.

    async def ExportUser(
        self, request: lifecycle_pb.ExportUserRequest, context: Context
    ) -> AsyncGenerator[lifecycle_pb.ExportUserResponse, None]:
        """Stream all data of a user."""
        scope = requests.export_user_request(request)
        service = self._server.options.service
        parts = self._app.user_exporter.run(scope, with_vectors=request.include_vectors, service=service)
        pieces = iterate_in_thread(parts, name="export", at_least_every=NEVER_SECONDS)
        with self._server.slots.exports.acquired(scope.owner):
            async with aclosing(pieces) as pump:
                async for part in pump:
                    yield lifecycle_pb.ExportUserResponse(
                        data=part.data, record_count=part.records, total_count=part.total
                    )

    async def ImportUser(
        self, request_iterator: AsyncIterator[lifecycle_pb.ImportUserRequest], context: Context
    ) -> AsyncGenerator[lifecycle_pb.ImportUserResponse, None]:
        """Store the data of a file that ExportUser made, and stream the progress."""
        async with aclosing(UserImportStream(self._server, request_iterator).responses()) as progress:
            async for response in progress:
                yield response

    async def EraseUser(
        self, request: lifecycle_pb.EraseUserRequest, context: Context
    ) -> lifecycle_pb.EraseUserResponse:
        """Erase all data of a user, or count it."""
        scope, request_id = requests.erase_user_request(request)
        if request.confirm:
            receipt = await self._write.run(self._app.user_eraser.run, scope, request_id=request_id)
        else:
            receipt = await self._meta.run(self._app.user_eraser.preview, scope)
        return responses.erase_user_response(receipt)
