"""RunMaintenance and ArchiveMemory: check, convert, call, convert back."""

# ruff: noqa: N802, ARG002 - names and arguments are gRPC's
from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, TypeAlias

import grpc

from memsvc.domain.maintenance import Area, MaintenancePlan, UpkeepProgress
from memsvc.domain.write_requests import Written
from memsvc.server import call_context
from memsvc.server.convert.drafts import write_options
from memsvc.server.convert.enums import WAIT_FOR
from memsvc.server.convert.maintenance import STEP, progress_to_proto, steps_from_proto
from memsvc.server.convert.memory import fill_memory
from memsvc.server.convert.scope import scope_from
from memsvc.server.convert.tokens import consistency_token
from memsvc.server.executors import iterate_in_thread
from memsvc.server.server_context import ServerContext
from memsvc.server.validate.scopes import check_request_id, check_scope
from memsvc.server.validate.values import check_enum, check_enums, check_revision, check_uuid
from memsvc.server.validate.violations import Violations
from memsvc.v1 import maintenance_pb2 as pb

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

PROGRESS_SECONDS = 1.0
STEPS = 16


class MaintenanceMethods:
    """What LifecycleService does to look after memories as time goes by."""

    _edge: ServerContext

    async def RunMaintenance(
        self, request: pb.RunMaintenanceRequest, context: Context
    ) -> AsyncGenerator[pb.RunMaintenanceResponse, None]:
        """Do what is due, or list it, and tell the progress."""
        check_run(request)
        scope = scope_from(request.scope, call_context.principal.get()) if request.HasField("scope") else None
        doing = MaintenancePlan.DRY_RUN if request.dry_run else MaintenancePlan.PERFORM
        steps = self._edge.application.maintenance.run(Area.of(scope), steps_from_proto(request.steps), doing)
        latest: UpkeepProgress | None = None
        async with aclosing(iterate_in_thread(steps, name="maintenance", at_least_every=PROGRESS_SECONDS)) as pump:
            async for progress in pump:
                # What is told again, since nothing new came in time, has told its changes.
                yield progress_to_proto(progress, () if progress is latest else progress.changes)
                latest = progress

    async def ArchiveMemory(self, request: pb.ArchiveMemoryRequest, context: Context) -> pb.ArchiveMemoryResponse:
        """Put a memory out of use."""
        check_archive(request)
        options = write_options(request.request_id, wait_for=request.wait_for)
        written = await self._edge.executors.write.run(
            self._edge.application.archive.archive,
            scope_from(request.scope, call_context.principal.get()),
            request.id.lower(),
            expected_revision=request.expected_revision,
            options=options,
        )
        await self._edge.waits.written(written, options.wait_for)
        return _archived_to_proto(written)


def check_run(request: pb.RunMaintenanceRequest) -> None:
    """Check a request for maintenance."""
    found = Violations()
    if request.HasField("scope"):
        check_scope(found, request.scope)
        for name in ("agent_id", "session_id"):
            if getattr(request.scope, name):
                found.add(f"scope.{name}", "must be empty: memories are looked after by user and project")
    check_enums(found, "steps", request.steps, STEP.from_proto, count=STEPS)
    found.finish()


def check_archive(request: pb.ArchiveMemoryRequest) -> None:
    """Check a request to archive a memory."""
    found = Violations()
    check_scope(found, request.scope)
    check_uuid(found, "id", request.id)
    check_revision(found, "expected_revision", request.expected_revision)
    check_request_id(found, request.request_id)
    check_enum(found, "wait_for", request.wait_for, WAIT_FOR.from_proto)
    found.finish()


def _archived_to_proto(written: Written) -> pb.ArchiveMemoryResponse:
    response = pb.ArchiveMemoryResponse(consistency_token=consistency_token(written.position))
    fill_memory(response.memory, written.memory)
    return response
