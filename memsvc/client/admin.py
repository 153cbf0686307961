"""Calls that operate the service and that maintain memories."""

# ruff: noqa: ASYNC109 - the timeouts go to the service, too

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable, Sequence
from contextlib import aclosing
from datetime import date as calendar_date
from datetime import datetime, timedelta
from typing import Literal, TypeAlias, TypedDict, Unpack
from uuid import uuid4

import grpc

from memsvc.client import to_proto
from memsvc.client.channel import ScopedMethods
from memsvc.client.request_types import (
    ConflictPolicy,
    Index,
    Layer,
    MaintenanceStep,
    ReindexMode,
    Slot,
    TimeRange,
    WaitFor,
)
from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import types_pb2 as types_pb


class IntegrityFields(TypedDict, total=False):
    """File options of a check: fields of CheckIntegrityRequest."""

    remove_broken_refs: bool
    remove_orphan_files: bool
    orphan_grace: timedelta
    ignore_files: bool


class AdminMethods(ScopedMethods):
    """Calls that operate the service, and that look after memories over time."""

    async def wait_ready(self, timeout: float = 30.0) -> None:
        """Return as soon as the service answers searches.

        Raises:
            MemsvcCallError: DEADLINE_EXCEEDED, it did not within *timeout* seconds.
        """
        await self._remote.wait_ready(timeout)

    async def stats(self, *, timeout: float | None = None) -> admin_pb.GetStatsResponse:
        """Return counts of the memories that the scope sees."""
        return await self._remote.unary(
            self._remote.admin.GetStats, admin_pb.GetStatsRequest(scope=self.scope), timeout
        )

    async def list_users(
        self, id_prefix: str = "", *, page_size: int = 0, timeout: float | None = None
    ) -> AsyncGenerator[admin_pb.UserUsage, None]:
        """Yield the users who have memories, by id, with counts, fetching page by page. Needs the role ADMIN.

        A key that is restricted to users may call it in any role, and gets these.
        """
        request = admin_pb.ListUsersRequest(id_prefix=id_prefix, page_size=page_size)
        async for page in self._remote.pages(self._remote.admin.ListUsers, request, timeout):
            for usage in page.users:
                yield usage

    async def list_projects(
        self, id_prefix: str = "", *, page_size: int = 0, timeout: float | None = None
    ) -> AsyncGenerator[admin_pb.ProjectUsage, None]:
        """Yield the projects of the user's memories, by id, with counts, fetching page by page."""
        request = admin_pb.ListProjectsRequest(user_id=self.scope.user_id, id_prefix=id_prefix, page_size=page_size)
        async for page in self._remote.pages(self._remote.admin.ListProjects, request, timeout):
            for usage in page.projects:
                yield usage

    async def list_agents(
        self,
        id_prefix: str = "",
        *,
        project_id: str | None = None,
        page_size: int = 0,
        timeout: float | None = None,
    ) -> AsyncGenerator[admin_pb.AgentUsage, None]:
        """Yield the agents that wrote the user's memories, by project and id, with counts, fetching page by page."""
        request = admin_pb.ListAgentsRequest(
            user_id=self.scope.user_id, project_id=project_id, id_prefix=id_prefix, page_size=page_size
        )
        async for page in self._remote.pages(self._remote.admin.ListAgents, request, timeout):
            for usage in page.agents:
                yield usage

    async def diagnose(
        self,
        *,
        verify: bool = False,
        timeout: float | None = None,
    ) -> admin_pb.DiagnoseResponse:
        """Return how backends and indexes are; with *verify* every index entry is compared with the store."""
        return await self._remote.unary(self._remote.admin.Diagnose, admin_pb.DiagnoseRequest(verify=verify), timeout)

    async def performance(
        self,
        operation: str = "",
        *,
        window: timedelta | None = None,
        timeout: float | None = None,
    ) -> admin_pb.GetPerformanceResponse:
        """Return how long operations took, all of them or the one that is named, in all or within *window*."""
        request = admin_pb.GetPerformanceRequest(operation=operation)
        if window is not None:
            request.window.CopyFrom(to_proto.duration_to_proto(window))
        return await self._remote.unary(self._remote.admin.GetPerformance, request, timeout)

    async def reindex(
        self, indexes: Sequence[Index] = (), *, mode: ReindexMode = "REBUILD"
    ) -> AsyncGenerator[admin_pb.ReindexResponse, None]:
        """Make indexes equal to the store again and yield the progress; the last response is of the phase DONE.

        Leaving the loop early stops it.
        """
        request = admin_pb.ReindexRequest(
            indexes=[to_proto.enum_to_proto("indexes", admin_pb.IndexKind, "INDEX_KIND_", name) for name in indexes],
            mode=to_proto.enum_to_proto("mode", admin_pb.ReindexMode, "REINDEX_MODE_", mode),
        )
        async with aclosing(self._remote.stream(self._remote.admin.Reindex, request)) as responses:
            async for progress in responses:
                yield progress

    async def check_integrity(
        self, *, all_users: bool = False, repair: bool = False, **fields: Unpack[IntegrityFields]
    ) -> AsyncGenerator[admin_pb.CheckIntegrityResponse, None]:
        """Look for broken links and the like in what the scope sees, or of *all_users*; *repair* puts it right.

        Of files only what the *fields* say is removed, which are those of CheckIntegrityRequest.

        Yields findings, progress, and the summary at the end. Leaving the loop early stops it.
        """
        request = admin_pb.CheckIntegrityRequest(
            scope=None if all_users else self.scope,
            all=all_users,
            repair=repair,
            remove_broken_refs=fields.get("remove_broken_refs", False),
            remove_orphan_files=fields.get("remove_orphan_files", False),
            ignore_files=fields.get("ignore_files", False),
        )
        if "orphan_grace" in fields:
            request.orphan_grace.FromTimedelta(fields["orphan_grace"])
        async with aclosing(self._remote.stream(self._remote.admin.CheckIntegrity, request)) as responses:
            async for event in responses:
                yield event

    async def maintain(
        self, steps: Sequence[MaintenanceStep] = (), *, dry_run: bool = False, all_users: bool = False
    ) -> AsyncGenerator[lifecycle_pb.RunMaintenanceResponse, None]:
        """Do what is due by *steps* (none: those of the settings), or only list it, and yield the progress.

        It is about the client's project, or without one about all memories of its user; with *all_users* about those
        of all users of the service. The last response has no step. Leaving the loop early ends the run.
        """
        scope = None if all_users else types_pb.Scope(user_id=self.scope.user_id, project_id=self.scope.project_id)
        numbers = [
            to_proto.enum_to_proto("steps", lifecycle_pb.MaintenanceStep, "MAINTENANCE_STEP_", name) for name in steps
        ]
        request = lifecycle_pb.RunMaintenanceRequest(scope=scope, all=all_users, steps=numbers, dry_run=dry_run)
        async with aclosing(self._remote.stream(self._remote.lifecycle.RunMaintenance, request)) as responses:
            async for progress in responses:
                yield progress

    async def detect_conflicts(
        self,
        *,
        layers: Sequence[Layer] = (),
        since: datetime | None = None,
        conflict_policy: ConflictPolicy | None = None,
        dry_run: bool = False,
        wait_for: WaitFor | None = None,
    ) -> AsyncGenerator[lifecycle_pb.DetectConflictsResponse, None]:
        """Compare the stored memories of the client's project, or of all projects without one; yield the progress.

        Only memories of *layers* (none: all) and created *since* then are compared with earlier ones. With *dry_run*
        the conflicts are only listed. The last response has `done`. Leaving the loop early ends the run.
        """
        request = lifecycle_pb.DetectConflictsRequest(
            scope=types_pb.Scope(user_id=self.scope.user_id, project_id=self.scope.project_id),
            layers=[to_proto.enum_to_proto("layers", types_pb.MemoryLayer, "MEMORY_LAYER_", name) for name in layers],
            conflict_policy=to_proto.named("conflict_policy", conflict_policy),
            dry_run=dry_run,
            wait_for=to_proto.named("wait_for", wait_for),
        )
        if since is not None:
            request.since.FromDatetime(since)
        async with aclosing(self._remote.stream(self._remote.lifecycle.DetectConflicts, request)) as responses:
            async for progress in responses:
                yield progress

    async def archive(
        self,
        memory_id: str = "",
        *,
        key: str = "",
        expected_revision: int = 0,
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> lifecycle_pb.ArchiveMemoryResponse:
        """Put a memory out of use; `restore` puts it into use again."""
        request = lifecycle_pb.ArchiveMemoryRequest(
            scope=self.scope,
            **to_proto.memory_name(memory_id, key),
            expected_revision=expected_revision,
            request_id=request_id or str(uuid4()),
            wait_for=to_proto.named("wait_for", wait_for),
        )
        return await self._remote.unary(self._remote.lifecycle.ArchiveMemory, request, timeout)

    async def consolidate(  # noqa: PLR0913 - an option each
        self,
        *,
        dry_run: bool = False,
        threshold: float | None = None,
        page_size: int = 0,
        page_token: str = "",
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> lifecycle_pb.ConsolidateMemoriesResponse:
        """Merge memories of the project that say the same; with *dry_run* only tell which.

        A response with a `next_page_token` has not looked at all memories: send that to go on.
        """
        request = lifecycle_pb.ConsolidateMemoriesRequest(
            scope=self.scope,
            threshold=threshold,
            dry_run=dry_run,
            page_size=page_size,
            page_token=page_token,
            request_id=request_id or str(uuid4()),
            wait_for=to_proto.named("wait_for", wait_for),
        )
        return await self._remote.unary(self._remote.lifecycle.ConsolidateMemories, request, timeout)

    async def undo_consolidation(
        self,
        memory_id: str = "",
        *,
        key: str = "",
        expected_revision: int = 0,
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> lifecycle_pb.UndoConsolidationResponse:
        """Take a merged memory apart, which is named by its id or that of one of its originals.

        Raises:
            MemsvcCallError: ABORTED, the merged memory was changed since it was made: the error tells its revision,
                with which it can be undone all the same.
        """
        request = lifecycle_pb.UndoConsolidationRequest(
            scope=self.scope,
            **to_proto.memory_name(memory_id, key),
            expected_revision=expected_revision,
            request_id=request_id or str(uuid4()),
            wait_for=to_proto.named("wait_for", wait_for),
        )
        return await self._remote.unary(self._remote.lifecycle.UndoConsolidation, request, timeout)

    async def summarize(  # noqa: PLR0913 - an option each
        self,
        month: str = "",
        *,
        topic: str = "",
        time_range: TimeRange | None = None,
        max_tokens: int = 0,
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> lifecycle_pb.SummarizePeriodResponse:
        """Sum up what the project's memories say of a month ("2026-02"), a span of time, a topic, or of both.

        Raises:
            MemsvcCallError: FAILED_PRECONDITION, there are no such memories.
        """
        request = lifecycle_pb.SummarizePeriodRequest(
            scope=self.scope,
            topic=topic,
            max_tokens=max_tokens,
            request_id=request_id or str(uuid4()),
            wait_for=to_proto.named("wait_for", wait_for),
        )
        if time_range is not None:
            request.time_range.CopyFrom(to_proto.time_range_to_proto("time_range", time_range))
        if month:
            request.month = month
        return await self._remote.unary(self._remote.lifecycle.SummarizePeriod, request, timeout)

    async def due_reminders(  # noqa: PLR0913 - a field of the request each
        self,
        *,
        time: datetime | None = None,
        time_zone: str = "",
        slot: Slot | None = None,
        overdue_days: int | None = None,
        days_ahead: int = 0,
        page_size: int = 0,
        timeout: float | None = None,
    ) -> AsyncGenerator[lifecycle_pb.DueReminder, None]:
        """Yield the memories that are due now, or at *time*, in the user's *time_zone*, page by page.

        With *days_ahead* also those that come due within so many days, the earliest first. They come again until they
        are acknowledged. `currency_of` tells which are probably outdated. The timeout holds for each page.
        """
        request = lifecycle_pb.ListDueRemindersRequest(
            scope=self.scope,
            time=None if time is None else to_proto.timestamp_to_proto("time", time),
            time_zone=time_zone,
            slot=to_proto.named("slot", slot),
            overdue_days=overdue_days,
            days_ahead=days_ahead,
            page_size=page_size,
        )
        while True:
            page = await self._remote.unary(self._remote.lifecycle.ListDueReminders, request, timeout)
            for reminder in page.reminders:
                yield reminder
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def acknowledge_reminder(
        self,
        memory_id: str,
        date: calendar_date,
        *,
        key: str = "",
        slot: Slot | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> lifecycle_pb.AcknowledgeReminderResponse:
        """Say that the reminder of a memory was given on that day, in that slot or in all of them."""
        request = lifecycle_pb.AcknowledgeReminderRequest(
            scope=self.scope,
            **to_proto.memory_name(memory_id, key),
            date=to_proto.date_to_proto(date),
            slot=to_proto.named("slot", slot),
            request_id=request_id or str(uuid4()),
        )
        return await self._remote.unary(self._remote.lifecycle.AcknowledgeReminder, request, timeout)

    async def export_user(
        self, *, include_vectors: bool = False
    ) -> AsyncGenerator[lifecycle_pb.ExportUserResponse, None]:
        """Yield the pieces of a file of everything of the user: JSON Lines. Leaving the loop early ends the export."""
        request = lifecycle_pb.ExportUserRequest(scope=self._user, include_vectors=include_vectors)
        async with aclosing(self._remote.stream(self._remote.lifecycle.ExportUser, request)) as responses:
            async for piece in responses:
                yield piece

    async def import_user(
        self, pieces: Pieces, *, wait_for: WaitFor | None = None
    ) -> AsyncGenerator[lifecycle_pb.ImportUserResponse, None]:
        """Take in a file that an export made, whosever it is, and yield the progress; the last response is `done`.

        *pieces* are its bytes, such as an open file read in parts, of any size; an empty one ends it. The same file may
        be sent again.
        """
        header = lifecycle_pb.ImportUserHeader(scope=self._user, wait_for=to_proto.named("wait_for", wait_for))
        sending = _Sending(header, pieces)
        await self._remote.reach()
        with self._remote.errors_decoded():
            call = self._remote.lifecycle.ImportUser(sending.requests())
            try:
                async for progress in call:
                    yield progress
            except grpc.aio.AioRpcError as error:
                if sending.failure is not None:
                    raise sending.failure from error
                raise
            finally:
                call.cancel()
        if sending.failure is not None:
            raise sending.failure

    async def erase_user(
        self, *, confirm: bool = False, request_id: str = "", timeout: float | None = None
    ) -> lifecycle_pb.ErasureReceipt:
        """Forget the user for good, and return the receipt; without *confirm* only say what would be removed.

        Refused (INVALID_ARGUMENT) from a client of a project: a user is forgotten whole, with all projects.
        """
        scope = types_pb.Scope(user_id=self.scope.user_id, project_id=self.scope.project_id)
        request = lifecycle_pb.EraseUserRequest(
            scope=scope, confirm=confirm, request_id=request_id or (str(uuid4()) if confirm else "")
        )
        patience = timeout or (ERASE_SECONDS if confirm else None)
        return (await self._remote.unary(self._remote.lifecycle.EraseUser, request, patience)).receipt

    async def create_backup(self, name: str = "") -> AsyncGenerator[admin_pb.CreateBackupResponse, None]:
        """Copy all that the service stores into a folder of its own, and yield the progress; the last is of phase DONE.

        Leaving the loop early ends the backup, and nothing is left of it.
        """
        request = admin_pb.CreateBackupRequest(name=name)
        async with aclosing(self._remote.stream(self._remote.admin.CreateBackup, request)) as responses:
            async for progress in responses:
                yield progress

    @property
    def _user(self) -> types_pb.Scope:
        return types_pb.Scope(user_id=self.scope.user_id)

    async def create_api_key(  # noqa: PLR0913 - an option each
        self,
        name: str = "",
        *,
        role: KeyRole = "READ_WRITE",
        tenant_id: str = "",
        user_ids: Sequence[str] = (),
        project_ids: Sequence[str] = (),
        expire_time: datetime | None = None,
        ttl: timedelta | None = None,
        calls_per_second: float = 0.0,
        concurrent_calls: int = 0,
        request_id: str = "",
        timeout: float | None = None,
    ) -> admin_pb.CreateApiKeyResponse:
        """Make a key. Its secret is in the answer this once.

        Raises:
            ValueError: Both an expire_time and a ttl are given.
        """
        if expire_time is not None and ttl is not None:
            message = "Give expire_time or ttl, not both."
            raise ValueError(message)
        request = admin_pb.CreateApiKeyRequest(
            name=name,
            role=admin_pb.ApiKeyRole.Value(f"API_KEY_ROLE_{role}"),
            tenant_id=tenant_id,
            user_ids=user_ids,
            project_ids=project_ids,
            calls_per_second=calls_per_second,
            concurrent_calls=concurrent_calls,
            request_id=request_id or str(uuid4()),
        )
        if expire_time is not None:
            request.expire_time.CopyFrom(to_proto.timestamp_to_proto("expire_time", expire_time))
        if ttl is not None:
            request.ttl.CopyFrom(to_proto.duration_to_proto(ttl))
        return await self._remote.unary(self._remote.admin.CreateApiKey, request, timeout)

    async def api_keys(
        self, *, include_ended: bool = False, page_size: int = 0, timeout: float | None = None
    ) -> AsyncGenerator[admin_pb.ApiKey, None]:
        """Yield the keys of all tenants, oldest first, those expired or revoked too when *include_ended*."""
        request = admin_pb.ListApiKeysRequest(include_ended=include_ended, page_size=page_size)
        async for page in self._remote.pages(self._remote.admin.ListApiKeys, request, timeout):
            for key in page.api_keys:
                yield key

    async def revoke_api_key(
        self, key_id: str, *, request_id: str = "", timeout: float | None = None
    ) -> admin_pb.RevokeApiKeyResponse:
        """Make a key open nothing any more."""
        request = admin_pb.RevokeApiKeyRequest(id=key_id, request_id=request_id or str(uuid4()))
        return await self._remote.unary(self._remote.admin.RevokeApiKey, request, timeout)

    async def set_quota(  # noqa: PLR0913 - a field each
        self,
        *,
        tenant_id: str | None = None,
        api_key_id: str = "",
        calls_per_second: float = 0.0,
        memory_count: int = 0,
        content_bytes: int = 0,
        file_bytes: int = 0,
        reset_use: bool = False,
        timeout: float | None = None,
    ) -> admin_pb.Quota:
        """Replace the quota of a tenant or a key; 0: no limit. Without any limit it is removed."""
        quota = _quota_of(tenant_id, api_key_id)
        quota.calls_per_second = calls_per_second
        quota.memory_count = memory_count
        quota.content_bytes = content_bytes
        quota.file_bytes = file_bytes
        request = admin_pb.SetQuotaRequest(quota=quota, reset_use=reset_use)
        reply = await self._remote.unary(self._remote.admin.SetQuota, request, timeout)
        return reply.quota

    async def quota(
        self, *, tenant_id: str | None = None, api_key_id: str = "", timeout: float | None = None
    ) -> admin_pb.Quota:
        """Return the quota of a tenant or a key, with what is stored."""
        named = _quota_of(tenant_id, api_key_id)
        request = admin_pb.GetQuotaRequest()
        if api_key_id:
            request.api_key_id = named.api_key_id
        else:
            request.tenant_id = named.tenant_id
        reply = await self._remote.unary(self._remote.admin.GetQuota, request, timeout)
        return reply.quota

    async def dead_letters(
        self, endpoint: str = "", *, page_size: int = 0, timeout: float | None = None
    ) -> AsyncGenerator[admin_pb.DeadLetter, None]:
        """Yield the events that webhooks gave up, of one endpoint or of all."""
        request = admin_pb.ListDeadLettersRequest(endpoint=endpoint, page_size=page_size)
        async for page in self._remote.pages(self._remote.admin.ListDeadLetters, request, timeout):
            for letter in page.dead_letters:
                yield letter

    async def retry_dead_letters(
        self, endpoint: str, event_ids: Sequence[str] = (), *, timeout: float | None = None
    ) -> int:
        """Deliver events again that were given up, all without *event_ids*; return how many."""
        request = admin_pb.RetryDeadLettersRequest(endpoint=endpoint, event_ids=event_ids)
        reply = await self._remote.unary(self._remote.admin.RetryDeadLetters, request, timeout)
        return reply.count

    async def drop_dead_letters(
        self, endpoint: str, event_ids: Sequence[str] = (), *, timeout: float | None = None
    ) -> int:
        """Remove events that were given up, all without *event_ids*; return how many."""
        request = admin_pb.DropDeadLettersRequest(endpoint=endpoint, event_ids=event_ids)
        reply = await self._remote.unary(self._remote.admin.DropDeadLetters, request, timeout)
        return reply.count

    async def quotas(self, *, page_size: int = 0, timeout: float | None = None) -> AsyncGenerator[admin_pb.Quota, None]:
        """Yield the quotas of keys, then those of tenants."""
        request = admin_pb.ListQuotasRequest(page_size=page_size)
        async for page in self._remote.pages(self._remote.admin.ListQuotas, request, timeout):
            for quota in page.quotas:
                yield quota

    async def migrate_backend(
        self, postgresql_url: str | None, *, action: MigrationAction = "RUN", discard_changes: bool = False
    ) -> AsyncGenerator[admin_pb.MigrateBackendResponse, None]:
        """Move the store to a PostgreSQL database, or with None to the embedded one, and yield the progress.

        The last response to RUN is of the phase DONE: the service takes no writes from then on, until it is started
        with the new store. Leaving the loop early breaks the move off; another call goes on with it. The other actions
        are as in MigrationAction.
        """
        target = admin_pb.MigrationTarget()
        if postgresql_url is None:
            target.embedded.SetInParent()
        else:
            target.postgresql_url = postgresql_url
        request = admin_pb.MigrateBackendRequest(
            target=target,
            action=to_proto.enum_to_proto("action", admin_pb.MigrationAction, "MIGRATION_ACTION_", action),
            discard_changes=discard_changes,
        )
        async with aclosing(self._remote.stream(self._remote.admin.MigrateBackend, request)) as responses:
            async for progress in responses:
                yield progress

    async def sync_vault(
        self, *, all_users: bool = False, rewrite_all: bool = False, dry_run: bool = False
    ) -> AsyncGenerator[admin_pb.SyncVaultResponse, None]:
        """Compare the files and the memories of the user, or of *all_users*, and bring them together.

        Yields changes, progress, and the summary at the end. With *dry_run* nothing is changed; with *rewrite_all*
        all files are written again, including missing ones. Leaving the loop early stops it; what was done stays done.
        """
        scope = None if all_users else types_pb.Scope(user_id=self.scope.user_id)
        request = admin_pb.SyncVaultRequest(scope=scope, all=all_users, rewrite_all=rewrite_all, dry_run=dry_run)
        async with aclosing(self._remote.stream(self._remote.admin.SyncVault, request)) as responses:
            async for event in responses:
                yield event


KeyRole: TypeAlias = Literal["READ_ONLY", "READ_WRITE", "ADMIN"]


MigrationAction = Literal["RUN", "CHECK", "ABORT", "UNDO"]


PIECE_BYTES = 256 * 1024
ERASE_SECONDS = 3600.0

Pieces = Iterable[bytes] | AsyncIterable[bytes]


class _Sending:
    """The requests of an import, and why they ended early: gRPC would not say."""

    def __init__(self, header: lifecycle_pb.ImportUserHeader, pieces: Pieces) -> None:
        self._header = header
        self._pieces = pieces
        self.failure: Exception | None = None

    async def requests(self) -> AsyncGenerator[lifecycle_pb.ImportUserRequest, None]:
        yield lifecycle_pb.ImportUserRequest(header=self._header)
        try:
            async for piece in _each(self._pieces):
                for start in range(0, len(piece), PIECE_BYTES):
                    yield lifecycle_pb.ImportUserRequest(data=piece[start : start + PIECE_BYTES])
        except Exception as error:
            self.failure = error
            raise


async def _each(pieces: Pieces) -> AsyncIterator[bytes]:
    if isinstance(pieces, AsyncIterable):
        async for piece in pieces:
            yield piece
        return
    source = iter(pieces)
    while piece := await asyncio.to_thread(lambda: next(source, b"")):
        yield piece


def _quota_of(tenant_id: str | None, api_key_id: str) -> admin_pb.Quota:
    """Return a quota without limits of a tenant or a key.

    Raises:
        ValueError: Both are given, or neither.
    """
    if (tenant_id is None) == (not api_key_id):
        message = "Give tenant_id or api_key_id."
        raise ValueError(message)
    return admin_pb.Quota(api_key_id=api_key_id) if tenant_id is None else admin_pb.Quota(tenant_id=tenant_id)
