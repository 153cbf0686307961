"""The methods of the services that look back and go back; the servicers inherit them."""

# ruff: noqa: N802, ARG002 - names and arguments are gRPC's
from __future__ import annotations

from typing import Any, TypeAlias

import grpc

from memsvc.domain import limits
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Scope
from memsvc.domain.search import PageCursor
from memsvc.domain.write_requests import WaitFor
from memsvc.engine.services import Services
from memsvc.server import call_context
from memsvc.server.convert import history as convert
from memsvc.server.convert import tokens
from memsvc.server.convert.drafts import write_options
from memsvc.server.convert.enums import WAIT_FOR
from memsvc.server.convert.scope import scope_from
from memsvc.server.convert.times import time_from_proto
from memsvc.server.server_context import ServerContext
from memsvc.server.validate import history as validate
from memsvc.v1 import history_pb2 as pb
from memsvc.v1 import memory_service_pb2 as memory_pb

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
UNBOUND = ("page_size", "page_token")
"""The fields that may differ between the pages of one list."""


class RevisionMethods:
    """What MemoryService does with revisions."""

    _edge: ServerContext

    async def ListRevisions(self, request: pb.ListRevisionsRequest, context: Context) -> pb.ListRevisionsResponse:
        """Return a page of the revisions of a memory."""
        validate.check_list_revisions(request)
        scope = scope_from(request.scope, call_context.principal.get())
        return await self._edge.executors.meta.run(_list_revisions, self._edge.application, scope, request)

    async def RollbackMemory(self, request: pb.RollbackMemoryRequest, context: Context) -> pb.RollbackMemoryResponse:
        """Make a memory say again what it said before."""
        validate.check_rollback(request)
        options = write_options(request.request_id, wait_for=request.wait_for)
        application = self._edge.application
        written = await self._edge.executors.write.run(
            application.rollback_memory,
            scope_from(request.scope, call_context.principal.get()),
            request.id.lower(),
            revision=request.revision,
            expected_revision=request.expected_revision,
            options=options,
        )
        await self._edge.waits.written(written, options.wait_for)
        return convert.rolled_back_to_proto(written)


class CheckpointMethods:
    """What LifecycleService does with checkpoints."""

    _edge: ServerContext

    async def CreateCheckpoint(
        self, request: pb.CreateCheckpointRequest, context: Context
    ) -> pb.CreateCheckpointResponse:
        """Name a moment."""
        validate.check_create_checkpoint(request)
        made = await self._edge.executors.write.run(
            self._edge.application.checkpoints.create,
            scope_from(request.scope, call_context.principal.get()),
            request.name,
            note=request.note,
            known_time=time_from_proto(request.known_time) if request.HasField("known_time") else None,
            request_id=request.request_id,
        )
        response = pb.CreateCheckpointResponse()
        convert.fill_checkpoint(response.checkpoint, made)
        return response

    async def ListCheckpoints(self, request: pb.ListCheckpointsRequest, context: Context) -> pb.ListCheckpointsResponse:
        """Return a page of checkpoints."""
        validate.check_list_checkpoints(request)
        digest = tokens.digest(request, without=UNBOUND)
        found, has_more = await self._edge.executors.meta.run(
            self._edge.application.checkpoints.page,
            scope_from(request.scope, call_context.principal.get()),
            after=convert.checkpoint_place(request.page_token, digest),
            limit=request.page_size or limits.PAGE_SIZE_DEFAULT,
        )
        response = pb.ListCheckpointsResponse()
        for checkpoint in found:
            convert.fill_checkpoint(response.checkpoints.add(), checkpoint)
        response.next_page_token = convert.checkpoint_token(found[-1], digest) if has_more else ""
        return response

    async def DiffCheckpoint(self, request: pb.DiffCheckpointRequest, context: Context) -> pb.DiffCheckpointResponse:
        """Return a page of what is otherwise since a checkpoint."""
        validate.check_diff(request)
        scope = scope_from(request.scope, call_context.principal.get())
        return await self._edge.executors.meta.run(_diff, self._edge.application, scope, request)

    async def RollbackToCheckpoint(
        self, request: pb.RollbackToCheckpointRequest, context: Context
    ) -> pb.RollbackToCheckpointResponse:
        """Bring a project back to a checkpoint."""
        validate.check_rollback_to(request)
        scope = scope_from(request.scope, call_context.principal.get())
        rollback = self._edge.application.checkpoint_rollback
        if request.dry_run:
            report = await self._edge.executors.meta.run(rollback.preview, scope, request.checkpoint)
            return convert.report_to_proto(report, dry_run=True)
        report = await self._edge.executors.write.run(
            rollback.run, scope, request.checkpoint, request_id=request.request_id, deadline=call_context.deadline.get()
        )
        if WAIT_FOR.given(request.wait_for, WaitFor.INDEXED) is WaitFor.INDEXED:
            await self._edge.waits.stored(report.position)
        return convert.report_to_proto(report, dry_run=False)


def get_memory(edge: ServerContext, scope: Scope, request: memory_pb.GetMemoryRequest) -> Memory:
    """Return one memory, as it is, as it was at a moment, or at a revision."""
    application, by_key = edge.application, request.WhichOneof("by") == "key"
    as_of = convert.as_of_from_proto(request.as_of, edge.now())
    if request.revision:
        return application.retrospect.revision(scope, request.id.lower(), request.revision)
    if as_of is not None and by_key:
        return application.retrospect.get_by_key(scope, request.key, as_of)
    if as_of is not None:
        return application.retrospect.get(scope, request.id.lower(), as_of)
    if by_key:
        return application.recollect.get_by_key(scope, request.key)
    return application.recollect.get(scope, request.id.lower())


def _list_revisions(application: Services, scope: Scope, request: pb.ListRevisionsRequest) -> pb.ListRevisionsResponse:
    digest = tokens.digest(request, without=UNBOUND)
    after = tokens.list_cursor(request.page_token, digest)
    limit = request.page_size or limits.HISTORY_PAGE_DEFAULT
    name = request.id.lower()
    before = None if after is None else after.row
    found, following = application.retrospect.revisions(scope, name, before=before, limit=limit)
    older = application.retrospect.revisions(scope, name, before=following, limit=1)[0] if following else []
    response = pb.ListRevisionsResponse()
    convert.fill_revisions(response, found, older[0] if older else None)
    if following is not None:
        response.next_page_token = tokens.list_token(PageCursor(None, following), digest)
    return response


def _diff(application: Services, scope: Scope, request: pb.DiffCheckpointRequest) -> pb.DiffCheckpointResponse:
    digest = tokens.digest(request, without=UNBOUND)
    found, following = application.checkpoints.differences(
        scope,
        request.checkpoint,
        after=tokens.list_cursor(request.page_token, digest),
        limit=request.page_size or limits.HISTORY_PAGE_DEFAULT,
    )
    response = pb.DiffCheckpointResponse()
    for difference in found:
        convert.fill_difference(response.differences.add(), difference)
    if following is not None:
        response.next_page_token = tokens.list_token(following, digest)
    return response
