"""Servicer of LifecycleService."""

# ruff: noqa: N802, ARG002 - names and arguments are gRPC's
from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import aclosing
from typing import Any, TypeAlias, TypeVar

import grpc

from memsvc.domain.diagnostics import CheckProgress
from memsvc.domain.errors import VaultOffError
from memsvc.domain.maintenance import UpkeepProgress
from memsvc.domain.vault import VaultProgress
from memsvc.domain.write_requests import WaitFor
from memsvc.engine.admin.integrity import Event as IntegrityEvent
from memsvc.engine.vault.sync import SyncEvent as VaultEvent
from memsvc.server import call_context, tokens
from memsvc.server.executors import iterate_in_thread
from memsvc.server.requests import lifecycle as requests
from memsvc.server.responses import lifecycle as responses
from memsvc.server.server_context import ServerContext
from memsvc.server.services.import_stream import UserImportStream
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
from memsvc.v1 import lifecycle_service_pb2_grpc as pb_grpc

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Step = TypeVar("Step")

PROGRESS_SECONDS = 1.0
NEVER_SECONDS = 86_400.0
"""A piece of an export must not be sent twice: no step takes so long."""


class LifecycleServicer(pb_grpc.LifecycleServiceServicer):
    """Maintains memories over their life, and operates the service."""

    def __init__(self, server: ServerContext) -> None:
        self._server = server
        self._app = server.application
        self._waits = server.waits
        self._write = server.executors.write
        self._meta = server.executors.meta
        self._language = server.executors.language

    # Checkpoints.

    async def CreateCheckpoint(
        self, request: history_pb2.CreateCheckpointRequest, context: Context
    ) -> history_pb2.CreateCheckpointResponse:
        """Name a moment of a project."""
        new = requests.create_checkpoint_request(request)
        checkpoint = await self._write.run(
            self._app.checkpoints.create,
            new.scope,
            new.name,
            note=new.note,
            known_time=new.known_time,
            request_id=new.request_id,
        )
        return responses.create_checkpoint_response(checkpoint)

    async def ListCheckpoints(
        self, request: history_pb2.ListCheckpointsRequest, context: Context
    ) -> history_pb2.ListCheckpointsResponse:
        """Return a page of checkpoints."""
        page = requests.list_checkpoints_request(request)
        found, has_more = await self._meta.run(
            self._app.checkpoints.page, page.scope, after=page.after, limit=page.limit
        )
        token = tokens.checkpoint_token(found[-1], tokens.digest(request)) if has_more else ""
        return responses.list_checkpoints_response(found, token)

    async def DiffCheckpoint(
        self, request: history_pb2.DiffCheckpointRequest, context: Context
    ) -> history_pb2.DiffCheckpointResponse:
        """Return a page of the differences between a checkpoint and now."""
        page = requests.diff_checkpoint_request(request)

        def read() -> history_pb2.DiffCheckpointResponse:
            found, following = self._app.checkpoints.differences(
                page.scope, page.checkpoint, after=page.after, limit=page.limit
            )
            token = "" if following is None else tokens.list_token(following, tokens.digest(request))
            return responses.diff_checkpoint_response(found, token)

        return await self._meta.run(read)

    async def RollbackToCheckpoint(
        self, request: history_pb2.RollbackToCheckpointRequest, context: Context
    ) -> history_pb2.RollbackToCheckpointResponse:
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

    async def PromoteMemory(
        self, request: promotion_pb2.PromoteMemoryRequest, context: Context
    ) -> promotion_pb2.PromoteMemoryResponse:
        """Store a long-term memory made of a short-term one."""
        promotion = requests.promote_memory_request(request)
        new, source = await self._write.run(
            self._app.memory_promoter.promote,
            promotion.scope,
            promotion.memory_id,
            content=promotion.content,
            title=promotion.title,
            expected_revision=promotion.expected_revision,
            options=promotion.options,
        )
        await self._waits.written(new, promotion.options.wait_for)
        return responses.promote_memory_response(new, source)

    async def ListDueReminders(
        self, request: reminders_pb2.ListDueRemindersRequest, context: Context
    ) -> reminders_pb2.ListDueRemindersResponse:
        """Return a page of due reminders."""
        reminders = self._app.reminders
        page = requests.list_due_reminders_request(request, now=self._server.now(), zone=reminders.zone)
        found, following = await self._meta.run(
            reminders.due, page.scope, page.moment, after=page.after, limit=page.limit
        )
        token = ""
        if following is not None:
            token = tokens.reminders_token(page.moment.now, *following, tokens.digest(request))
        return responses.list_due_reminders_response(found, token)

    async def AcknowledgeReminder(
        self, request: reminders_pb2.AcknowledgeReminderRequest, context: Context
    ) -> reminders_pb2.AcknowledgeReminderResponse:
        """Record that a reminder was given."""
        reminder = requests.acknowledge_reminder_request(request)
        memory, moment = await self._write.run(
            self._app.reminders.acknowledge,
            reminder.scope,
            reminder.memory_id,
            day=reminder.day,
            slot=reminder.slot,
            request_id=reminder.request_id,
        )
        return responses.acknowledge_reminder_response(memory, moment)

    async def ConsolidateMemories(
        self, request: consolidation_pb2.ConsolidateMemoriesRequest, context: Context
    ) -> consolidation_pb2.ConsolidateMemoriesResponse:
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

    async def UndoConsolidation(
        self, request: consolidation_pb2.UndoConsolidationRequest, context: Context
    ) -> consolidation_pb2.UndoConsolidationResponse:
        """Restore the originals of a merged memory."""
        undo = requests.undo_consolidation_request(request)
        merged, originals = await self._write.run(
            self._app.consolidation_undo.undo,
            undo.scope,
            undo.memory_id,
            expected_revision=undo.expected_revision,
            options=undo.options,
        )
        await self._waits.written(merged, undo.options.wait_for)
        return responses.undo_consolidation_response(merged, originals)

    async def SummarizePeriod(
        self, request: summaries_pb2.SummarizePeriodRequest, context: Context
    ) -> summaries_pb2.SummarizePeriodResponse:
        """Summarise a period or topic."""
        period, options = requests.summarize_period_request(request)
        summary = await self._language.run(
            self._app.period_summarizer.summarize, period, options, call_context.deadline.get()
        )
        await self._waits.written(summary.written, options.wait_for)
        return responses.summarize_period_response(summary)

    async def RunMaintenance(
        self, request: maintenance_pb2.RunMaintenanceRequest, context: Context
    ) -> AsyncGenerator[maintenance_pb2.RunMaintenanceResponse, None]:
        """Run the steps that are due, or preview them, and stream the progress."""
        run = requests.run_maintenance_request(request)
        steps = self._app.maintenance.run(run.area, run.steps, run.plan)
        latest: UpkeepProgress | None = None
        async with aclosing(_progress(steps, "maintenance")) as pump:
            async for progress in pump:
                # The pump repeats the latest step while the next one takes long: its changes come only once.
                yield responses.run_maintenance_response(progress, () if progress is latest else progress.changes)
                latest = progress

    async def ArchiveMemory(
        self, request: maintenance_pb2.ArchiveMemoryRequest, context: Context
    ) -> maintenance_pb2.ArchiveMemoryResponse:
        """Archive a memory."""
        change = requests.archive_memory_request(request)
        written = await self._write.run(
            self._app.memory_archiver.archive,
            change.scope,
            change.memory_id,
            expected_revision=change.expected_revision,
            options=change.options,
        )
        await self._waits.written(written, change.options.wait_for)
        return responses.archive_memory_response(written)

    # User data.

    async def ExportUser(
        self, request: transfer_pb2.ExportUserRequest, context: Context
    ) -> AsyncGenerator[transfer_pb2.ExportUserResponse, None]:
        """Stream all data of a user."""
        scope = requests.export_user_request(request)
        service = f"memsvc {self._server.options.version}".strip()
        parts = self._app.user_exporter.run(scope, with_vectors=request.include_vectors, service=service)
        async with aclosing(iterate_in_thread(parts, name="export", at_least_every=NEVER_SECONDS)) as pump:
            async for part in pump:
                yield transfer_pb2.ExportUserResponse(data=part.data, record_count=part.records, total_count=part.total)

    async def ImportUser(
        self, request_iterator: AsyncIterator[transfer_pb2.ImportUserRequest], context: Context
    ) -> AsyncGenerator[transfer_pb2.ImportUserResponse, None]:
        """Store the data of a file that ExportUser made, and stream the progress."""
        async with aclosing(UserImportStream(self._server, request_iterator).responses()) as progress:
            async for response in progress:
                yield response

    async def EraseUser(self, request: erasure_pb2.EraseUserRequest, context: Context) -> erasure_pb2.EraseUserResponse:
        """Erase all data of a user, or count it."""
        scope, request_id = requests.erase_user_request(request)
        if request.confirm:
            receipt = await self._write.run(self._app.user_eraser.run, scope, request_id=request_id)
        else:
            receipt = await self._meta.run(self._app.user_eraser.preview, scope)
        return responses.erase_user_response(receipt)

    # Operation of the service: statistics, indexes, integrity, backup, migration, API keys, vault.

    async def GetStats(self, request: pb.GetStatsRequest, context: Context) -> pb.GetStatsResponse:
        """Count the memories of a scope."""
        scope = requests.get_stats_request(request)
        return responses.get_stats_response(await self._meta.run(self._app.statistics.of, scope))

    async def Diagnose(self, request: pb.DiagnoseRequest, context: Context) -> pb.DiagnoseResponse:
        """Inspect every backend and index, and return what is wrong."""
        diagnosis = await self._meta.run(self._app.diagnosis.run, verify=request.verify)
        return responses.diagnose_response(diagnosis, version=self._server.options.version)

    async def Reindex(self, request: pb.ReindexRequest, context: Context) -> AsyncGenerator[pb.ReindexResponse, None]:
        """Rebuild or repair indexes, and stream the progress."""
        indexes, mode = requests.reindex_request(request)
        async with aclosing(_progress(self._app.reindex.run(indexes, mode), "reindex")) as pump:
            async for progress in pump:
                yield responses.reindex_response(progress)

    async def GetPerformance(self, request: pb.GetPerformanceRequest, context: Context) -> pb.GetPerformanceResponse:
        """Return the latencies of operations since the process started."""
        operation = requests.get_performance_request(request)
        operations = await self._meta.run(self._app.performance.report, operation)
        return responses.get_performance_response(operations, since=self._app.performance.since)

    async def CheckIntegrity(
        self, request: integrity_pb2.CheckIntegrityRequest, context: Context
    ) -> AsyncGenerator[integrity_pb2.CheckIntegrityResponse, None]:
        """Search for inconsistencies, repair them on request, and stream the findings."""
        check = requests.check_integrity_request(request)
        steps = self._app.integrity.run(check.reach, repair=request.repair, cleaning=check.cleaning)
        latest: IntegrityEvent | None = None
        async with aclosing(_progress(steps, "integrity")) as pump:
            async for event in pump:
                # The pump repeats the latest step while the next one takes long: only progress may come twice.
                if event is not latest or isinstance(event, CheckProgress):
                    yield responses.check_integrity_response(event)
                latest = event

    async def CreateBackup(
        self, request: backup_pb2.CreateBackupRequest, context: Context
    ) -> AsyncGenerator[backup_pb2.CreateBackupResponse, None]:
        """Copy the store while it is in use, and stream the progress."""
        name = requests.create_backup_request(request)
        async with aclosing(_progress(self._app.backups.create(name), "backup")) as pump:
            async for step in pump:
                yield responses.create_backup_response(step)

    async def MigrateBackend(
        self, request: migration_pb2.MigrateBackendRequest, context: Context
    ) -> AsyncGenerator[migration_pb2.MigrateBackendResponse, None]:
        """Move the store to another database, and stream the progress."""
        target, action, changes = requests.migrate_backend_request(request)
        async with aclosing(_progress(self._app.migration.run(target, action, changes), "migration")) as pump:
            async for step in pump:
                yield responses.migrate_backend_response(step)

    async def CreateApiKey(
        self, request: keys_pb2.CreateApiKeyRequest, context: Context
    ) -> keys_pb2.CreateApiKeyResponse:
        """Create an API key."""
        new, request_id = requests.create_api_key_request(request)
        made = await self._write.run(self._app.api_keys.keys.create, new, request_id=request_id)
        key = responses.api_key_to_proto(made.key, self._server.now())
        return keys_pb2.CreateApiKeyResponse(api_key=key, secret=made.text)

    async def ListApiKeys(self, request: keys_pb2.ListApiKeysRequest, context: Context) -> keys_pb2.ListApiKeysResponse:
        """Return a page of API keys."""
        after, limit = requests.list_api_keys_request(request)
        found = await self._meta.run(
            self._app.api_keys.keys.page, after=after, limit=limit + 1, include_ended=request.include_ended
        )
        now, token = self._server.now(), ""
        if len(found) > limit:
            token = tokens.keys_token(found[limit - 1].id, tokens.digest(request))
        keys = [responses.api_key_to_proto(key, now) for key in found[:limit]]
        return keys_pb2.ListApiKeysResponse(api_keys=keys, next_page_token=token)

    async def RevokeApiKey(
        self, request: keys_pb2.RevokeApiKeyRequest, context: Context
    ) -> keys_pb2.RevokeApiKeyResponse:
        """Revoke an API key."""
        key_id, request_id = requests.revoke_api_key_request(request)
        key = await self._write.run(self._app.api_keys.keys.revoke, key_id, request_id=request_id)
        return keys_pb2.RevokeApiKeyResponse(api_key=responses.api_key_to_proto(key, self._server.now()))

    async def SyncVault(
        self, request: vault_pb2.SyncVaultRequest, context: Context
    ) -> AsyncGenerator[vault_pb2.SyncVaultResponse, None]:
        """Synchronise files and memories, and stream the changes."""
        plan = requests.sync_vault_request(request)
        vault = self._app.vault
        if vault is None:
            raise VaultOffError
        latest: VaultEvent | None = None
        async with aclosing(_progress(vault.sync(plan), "vault-sync")) as pump:
            async for event in pump:
                # The pump repeats the latest step while the next one takes long: only progress may come twice.
                if event is not latest or isinstance(event, VaultProgress):
                    yield responses.sync_vault_response(event)
                elif latest is not None:
                    yield vault_pb2.SyncVaultResponse(progress=vault_pb2.VaultProgress(phase="working"))
                latest = event


def _progress(steps: Generator[Step, None, None], name: str) -> AsyncGenerator[Step, None]:
    """Yield the steps of work in a thread; the latest one again while the next one takes long."""
    return iterate_in_thread(steps, name=name, at_least_every=PROGRESS_SECONDS)
