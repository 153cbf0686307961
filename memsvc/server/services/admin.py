"""Servicer of AdminService."""

# ruff: noqa: N802, ARG002 - names and arguments are gRPC's
from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, TypeAlias

import grpc

from memsvc.domain.api_keys import ApiKeyRole
from memsvc.domain.diagnostics import CheckProgress
from memsvc.domain.errors import VaultOffError
from memsvc.domain.vault import VaultProgress
from memsvc.engine.admin.integrity import Event as IntegrityEvent
from memsvc.engine.admin.integrity import user_of
from memsvc.engine.vault.sync import SyncEvent as VaultEvent
from memsvc.server import call_context, tokens
from memsvc.server.executors import runs_in, stream_progress
from memsvc.server.requests import admin as requests
from memsvc.server.responses import admin as responses
from memsvc.server.server_context import ServerContext
from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import admin_service_pb2_grpc as pb_grpc

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class AdminServicer(pb_grpc.AdminServiceServicer):
    """Operates the service: statistics, health, indexes, backups, migration, vault and API keys."""

    def __init__(self, server: ServerContext) -> None:
        self._server = server
        self._app = server.application
        self._write = server.executors.write
        self._meta = server.executors.meta

    @runs_in("meta")
    def GetStats(self, request: admin_pb.GetStatsRequest, context: Context) -> admin_pb.GetStatsResponse:
        """Count the memories of a scope."""
        scope = requests.get_stats_request(request)
        is_operator = call_context.principal.get().role is ApiKeyRole.ADMIN
        return responses.get_stats_response(self._app.statistics.of(scope, is_operator=is_operator))

    @runs_in("meta")
    def Diagnose(self, request: admin_pb.DiagnoseRequest, context: Context) -> admin_pb.DiagnoseResponse:
        """Inspect every backend and index, and return what is wrong."""
        diagnosis = self._app.diagnosis.run(verify=request.verify)
        return responses.diagnose_response(diagnosis, version=self._server.options.version)

    async def Reindex(
        self, request: admin_pb.ReindexRequest, context: Context
    ) -> AsyncGenerator[admin_pb.ReindexResponse, None]:
        """Rebuild or repair indexes, and stream the progress."""
        indexes, mode = requests.reindex_request(request)
        async with aclosing(stream_progress(self._app.reindex.run(indexes, mode), "reindex")) as pump:
            async for progress in pump:
                yield responses.reindex_response(progress)

    @runs_in("meta")
    def GetPerformance(
        self, request: admin_pb.GetPerformanceRequest, context: Context
    ) -> admin_pb.GetPerformanceResponse:
        """Return the latencies of operations, all or those of a window that ends now."""
        operation, window = requests.get_performance_request(request)
        performance = self._app.performance
        if window is None:
            return responses.get_performance_response(performance.report(operation), since=performance.since)
        since, operations = performance.window(window, operation)
        return responses.get_performance_response(operations, since=since)

    async def CheckIntegrity(
        self, request: admin_pb.CheckIntegrityRequest, context: Context
    ) -> AsyncGenerator[admin_pb.CheckIntegrityResponse, None]:
        """Search for inconsistencies, repair them on request, and stream the findings."""
        check = requests.check_integrity_request(request)
        steps = self._app.integrity.run(check.reach, repair=request.repair, cleaning=check.cleaning)
        latest: IntegrityEvent | None = None
        async with aclosing(stream_progress(steps, "integrity")) as pump:
            async for event in pump:
                # The pump repeats the latest step while the next one takes long: only progress may come twice.
                if event is not latest or isinstance(event, CheckProgress):
                    yield responses.check_integrity_response(event)
                latest = event

    async def CreateBackup(
        self, request: admin_pb.CreateBackupRequest, context: Context
    ) -> AsyncGenerator[admin_pb.CreateBackupResponse, None]:
        """Copy the store while it is in use, and stream the progress."""
        name = requests.create_backup_request(request)
        async with aclosing(stream_progress(self._app.backups.create(name), "backup")) as pump:
            async for step in pump:
                yield responses.create_backup_response(step)

    async def MigrateBackend(
        self, request: admin_pb.MigrateBackendRequest, context: Context
    ) -> AsyncGenerator[admin_pb.MigrateBackendResponse, None]:
        """Move the store to another database, and stream the progress."""
        target, action, changes = requests.migrate_backend_request(request)
        async with aclosing(stream_progress(self._app.migration.run(target, action, changes), "migration")) as pump:
            async for step in pump:
                yield responses.migrate_backend_response(step)

    @runs_in("write")
    def CreateApiKey(self, request: admin_pb.CreateApiKeyRequest, context: Context) -> admin_pb.CreateApiKeyResponse:
        """Create an API key."""
        new, request_id = requests.create_api_key_request(request)
        made = self._app.api_keys.keys.create(new, request_id=request_id)
        key = responses.api_key_to_proto(made.key, self._server.now())
        return admin_pb.CreateApiKeyResponse(api_key=key, secret=made.text)

    @runs_in("meta")
    def ListApiKeys(self, request: admin_pb.ListApiKeysRequest, context: Context) -> admin_pb.ListApiKeysResponse:
        """Return a page of API keys."""
        after, limit = requests.list_api_keys_request(request)
        found = self._app.api_keys.keys.page(after=after, limit=limit + 1, include_ended=request.include_ended)
        now, token = self._server.now(), ""
        if len(found) > limit:
            token = tokens.keys_token(found[limit - 1].id, tokens.digest(request))
        keys = [responses.api_key_to_proto(key, now) for key in found[:limit]]
        return admin_pb.ListApiKeysResponse(api_keys=keys, next_page_token=token)

    @runs_in("write")
    def RevokeApiKey(self, request: admin_pb.RevokeApiKeyRequest, context: Context) -> admin_pb.RevokeApiKeyResponse:
        """Revoke an API key."""
        key_id, request_id = requests.revoke_api_key_request(request)
        key = self._app.api_keys.keys.revoke(key_id, request_id=request_id)
        return admin_pb.RevokeApiKeyResponse(api_key=responses.api_key_to_proto(key, self._server.now()))

    @runs_in("meta")
    def ListUsers(self, request: admin_pb.ListUsersRequest, context: Context) -> admin_pb.ListUsersResponse:
        """Return a page of users."""
        page = requests.list_users_request(request)
        found, is_more = self._app.usage.users(
            page.tenant_id, page.only, page.prefix, after=page.after, limit=page.limit
        )
        token = tokens.place_token([user_of(found[-1].place[0])], tokens.digest(request)) if is_more else ""
        return responses.list_users_response(found, token)

    @runs_in("meta")
    def ListProjects(self, request: admin_pb.ListProjectsRequest, context: Context) -> admin_pb.ListProjectsResponse:
        """Return a page of a user's projects."""
        page = requests.list_projects_request(request)
        found, is_more = self._app.usage.projects(
            page.owner, page.only, page.prefix, after=page.after, limit=page.limit
        )
        token = tokens.place_token(found[-1].place[1:], tokens.digest(request)) if is_more else ""
        return responses.list_projects_response(found, token)

    @runs_in("meta")
    def ListAgents(self, request: admin_pb.ListAgentsRequest, context: Context) -> admin_pb.ListAgentsResponse:
        """Return a page of a user's agents."""
        page = requests.list_agents_request(request)
        found, is_more = self._app.usage.agents(page.owner, page.only, page.prefix, after=page.after, limit=page.limit)
        token = tokens.place_token(found[-1].place[1:], tokens.digest(request)) if is_more else ""
        return responses.list_agents_response(found, token)

    @runs_in("write")
    def SetQuota(self, request: admin_pb.SetQuotaRequest, context: Context) -> admin_pb.SetQuotaResponse:
        """Replace the quota of a tenant or a key."""
        wanted = requests.set_quota_request(request)
        found = self._app.api_keys.quotas.set(wanted.quota, resets_use=wanted.resets_use)
        return admin_pb.SetQuotaResponse(quota=responses.quota_to_proto(found))

    @runs_in("meta")
    def GetQuota(self, request: admin_pb.GetQuotaRequest, context: Context) -> admin_pb.GetQuotaResponse:
        """Return the quota of a tenant or a key, and what it has stored."""
        found = self._app.api_keys.quotas.get(*requests.get_quota_request(request))
        return admin_pb.GetQuotaResponse(quota=responses.quota_to_proto(found))

    @runs_in("meta")
    def ListQuotas(self, request: admin_pb.ListQuotasRequest, context: Context) -> admin_pb.ListQuotasResponse:
        """Return a page of quotas."""
        after, limit = requests.list_quotas_request(request)
        found, token = self._app.api_keys.quotas.page(after=after, limit=limit + 1), ""
        if len(found) > limit:
            token = tokens.quotas_token(found[limit - 1].quota, tokens.digest(request))
        quotas = [responses.quota_to_proto(one) for one in found[:limit]]
        return admin_pb.ListQuotasResponse(quotas=quotas, next_page_token=token)

    @runs_in("meta")
    def ListDeadLetters(
        self, request: admin_pb.ListDeadLettersRequest, context: Context
    ) -> admin_pb.ListDeadLettersResponse:
        """Return a page of what webhooks gave up."""
        after, limit = requests.list_dead_letters_request(request)
        service, token = self._app.webhooks, ""
        found = service.dead_letters(request.endpoint, after=after, limit=limit + 1)
        if len(found) > limit:
            last = found[limit - 1]
            token = tokens.place_token([last.endpoint, str(last.change.position)], tokens.digest(request))
        letters = [responses.dead_letter_to_proto(one, service.event_id(one)) for one in found[:limit]]
        return admin_pb.ListDeadLettersResponse(dead_letters=letters, next_page_token=token)

    @runs_in("write")
    def RetryDeadLetters(
        self, request: admin_pb.RetryDeadLettersRequest, context: Context
    ) -> admin_pb.RetryDeadLettersResponse:
        """Deliver again what webhooks gave up."""
        requests.check_dead_letters(request)
        count = self._app.webhooks.retry(request.endpoint, request.event_ids)
        return admin_pb.RetryDeadLettersResponse(count=count)

    @runs_in("write")
    def DropDeadLetters(
        self, request: admin_pb.DropDeadLettersRequest, context: Context
    ) -> admin_pb.DropDeadLettersResponse:
        """Remove what webhooks gave up."""
        requests.check_dead_letters(request)
        count = self._app.webhooks.drop(request.endpoint, request.event_ids)
        return admin_pb.DropDeadLettersResponse(count=count)

    async def SyncVault(
        self, request: admin_pb.SyncVaultRequest, context: Context
    ) -> AsyncGenerator[admin_pb.SyncVaultResponse, None]:
        """Synchronise files and memories, and stream the changes."""
        plan = requests.sync_vault_request(request)
        vault = self._app.vault
        if vault is None:
            raise VaultOffError
        latest: VaultEvent | None = None
        async with aclosing(stream_progress(vault.sync(plan), "vault-sync")) as pump:
            async for event in pump:
                # The pump repeats the latest step while the next one takes long: only progress may come twice.
                if event is not latest or isinstance(event, VaultProgress):
                    yield responses.sync_vault_response(event)
                elif latest is not None:
                    yield admin_pb.SyncVaultResponse(progress=admin_pb.VaultProgress(phase="working"))
                latest = event
