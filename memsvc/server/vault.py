"""SyncVault: check, convert, call, convert back."""

# ruff: noqa: N802, ARG002 - names and arguments are gRPC's
from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, TypeAlias

import grpc

from memsvc.domain.errors import VaultOffError
from memsvc.domain.vault import Taken, VaultAction, VaultProgress
from memsvc.engine.vault.sync import QUIET, Event, SyncPlan
from memsvc.server import call_context
from memsvc.server.convert.scope import scope_from
from memsvc.server.executors import iterate_in_thread
from memsvc.server.server_context import ServerContext
from memsvc.server.validate.scopes import check_scope
from memsvc.server.validate.violations import Violations
from memsvc.v1 import vault_pb2 as pb

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

PROGRESS_SECONDS = 1.0
ACTION = {one: pb.VaultAction.Value(f"VAULT_ACTION_{one.value}") for one in VaultAction if one not in QUIET}


class VaultMethods:
    """What LifecycleService does about memories as files."""

    _edge: ServerContext

    async def SyncVault(
        self, request: pb.SyncVaultRequest, context: Context
    ) -> AsyncGenerator[pb.SyncVaultResponse, None]:
        """Compare files and memories, and bring them together."""
        check_sync(request)
        vault = self._edge.application.vault
        if vault is None:
            raise VaultOffError
        scope = scope_from(request.scope, call_context.principal.get()) if request.HasField("scope") else None
        steps = vault.sync(SyncPlan(scope, is_forced=request.force, is_dry=request.dry_run))
        latest: Event | None = None
        async with aclosing(iterate_in_thread(steps, name="vault-sync", at_least_every=PROGRESS_SECONDS)) as pump:
            async for event in pump:
                # The pump repeats the latest step while the next one takes long: only progress may come twice.
                if event is not latest or isinstance(event, VaultProgress):
                    yield _event_to_proto(event)
                elif latest is not None:
                    yield pb.SyncVaultResponse(progress=pb.VaultProgress(phase="working"))
                latest = event


def check_sync(request: pb.SyncVaultRequest) -> None:
    """Check a request to synchronise."""
    found = Violations()
    if request.HasField("scope"):
        check_scope(found, request.scope)
        for name in ("project_id", "agent_id", "session_id"):
            if getattr(request.scope, name):
                found.add(f"scope.{name}", "must be empty: the vault is synchronised by user")
    found.finish()


def _event_to_proto(event: Event) -> pb.SyncVaultResponse:
    if isinstance(event, Taken):
        return pb.SyncVaultResponse(
            change=pb.VaultChange(
                action=ACTION[event.action],
                path=event.path,
                memory_id=event.memory_id,
                line=event.line,
                detail=event.detail,
            )
        )
    if isinstance(event, VaultProgress):
        return pb.SyncVaultResponse(progress=pb.VaultProgress(phase=event.phase, done_count=event.done))
    return pb.SyncVaultResponse(
        summary=pb.VaultSummary(
            file_count=event.files,
            known_count=event.known,
            count_by_action={action.value: count for action, count in event.counts.items()},
            pending_count=event.behind,
        )
    )
