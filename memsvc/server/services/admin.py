"""CheckIntegrity: check, convert, call, convert back."""

# ruff: noqa: N802, ARG002 - names and arguments are gRPC's
from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, TypeAlias

import grpc

from memsvc.domain.diagnostics import (
    ORPHAN_GRACE,
    REMEDIES,
    Checking,
    CheckSummary,
    Fault,
    FileCleaning,
    Finding,
)
from memsvc.domain.scope import Reach
from memsvc.engine.admin.integrity import Event
from memsvc.server import call_context
from memsvc.server.convert.enums import EnumTable
from memsvc.server.convert.scope import scope_from
from memsvc.server.executors import iterate_in_thread
from memsvc.server.server_context import ServerContext
from memsvc.server.validate.scopes import check_scope
from memsvc.server.validate.violations import Violations
from memsvc.v1 import integrity_pb2 as pb
from memsvc.v1 import types_pb2 as types

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

FAULT = EnumTable(Fault, pb.IntegrityFault, "INTEGRITY_FAULT")
PROGRESS_SECONDS = 1.0
MOST_GRACE_DAYS = 3_650
MOST_GRACE_SECONDS = MOST_GRACE_DAYS * 24 * 60 * 60
NANOS = 1_000_000_000


class IntegrityMethods:
    """What LifecycleService does to find and mend what is not as it should be."""

    _edge: ServerContext

    async def CheckIntegrity(
        self, request: pb.CheckIntegrityRequest, context: Context
    ) -> AsyncGenerator[pb.CheckIntegrityResponse, None]:
        """Look for what is not as it should be, and put it right on request."""
        check_integrity(request)
        reach = None if request.all else Reach.from_scope(scope_from(request.scope, call_context.principal.get()))
        cleaning = cleaning_from_proto(request)
        steps = self._edge.application.integrity.run(reach, repair=request.repair, cleaning=cleaning)
        latest: Event | None = None
        async with aclosing(iterate_in_thread(steps, name="integrity", at_least_every=PROGRESS_SECONDS)) as pump:
            async for event in pump:
                # The pump repeats the latest step while the next one takes long: only progress may come twice.
                if event is not latest or isinstance(event, Checking):
                    yield _event_to_proto(event)
                latest = event


def check_integrity(request: pb.CheckIntegrityRequest) -> None:
    """Check a request to look for faults."""
    found = Violations()
    if not request.all:
        check_scope(found, request.scope)
    elif request.HasField("scope"):
        found.add("scope", "must be unset when all is set: it would be ignored")
    if request.HasField("orphan_grace"):
        seconds, nanos = request.orphan_grace.seconds, request.orphan_grace.nanos
        if not (0 <= nanos < NANOS and (0, 0) <= (seconds, nanos) <= (MOST_GRACE_SECONDS, 0)):
            found.add("orphan_grace", f"must be a Duration of 0 to {MOST_GRACE_DAYS} days")
    if request.ignore_files:
        for name in ("remove_broken_refs", "remove_orphan_files"):
            if getattr(request, name):
                found.add(name, "must not be set together with ignore_files")
    found.finish()


def cleaning_from_proto(request: pb.CheckIntegrityRequest) -> FileCleaning:
    """Return what is to be done about files."""
    grace = request.orphan_grace.ToTimedelta() if request.HasField("orphan_grace") else ORPHAN_GRACE
    return FileCleaning(
        removes_broken_refs=request.remove_broken_refs,
        removes_orphan_files=request.remove_orphan_files,
        grace=grace,
        is_off=request.ignore_files,
    )


def _event_to_proto(event: Event) -> pb.CheckIntegrityResponse:
    if isinstance(event, Finding):
        return pb.CheckIntegrityResponse(finding=_finding_to_proto(event))
    if isinstance(event, Checking):
        return pb.CheckIntegrityResponse(progress=pb.IntegrityProgress(part=event.part, checked=event.checked))
    return pb.CheckIntegrityResponse(summary=_summary_to_proto(event))


def _finding_to_proto(finding: Finding) -> pb.IntegrityFinding:
    ref = finding.file_ref
    return pb.IntegrityFinding(
        file_ref=None if ref is None else types.FileRef(category=ref.category, id=ref.id),
        fault=FAULT.to_proto[finding.fault],
        memory_id=finding.memory_id,
        user_id=finding.user_id,
        project_id=finding.project_id,
        detail=finding.detail,
        remedy=REMEDIES[finding.fault],
        repaired=finding.is_repaired,
    )


def _summary_to_proto(summary: CheckSummary) -> pb.IntegritySummary:
    return pb.IntegritySummary(
        memory_count=summary.memories,
        findings=summary.findings,
        repaired=summary.repaired,
        count_by_fault=dict(summary.by_fault),
        unchecked=summary.unchecked,
    )
