"""The calls of MemoryService about conflicts and supersession."""

# ruff: noqa: N802, ARG002 - names and arguments are gRPC's
from __future__ import annotations

from typing import Any, TypeAlias

import grpc

from memsvc.domain import limits
from memsvc.domain.conflicts import ConflictState
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Scope
from memsvc.domain.write_requests import WriteOptions, Written
from memsvc.engine.services import Services
from memsvc.server import call_context
from memsvc.server.convert import conflicts as out
from memsvc.server.convert import tokens
from memsvc.server.convert.drafts import draft_from_proto, write_options
from memsvc.server.convert.enums import CONFLICT_STATE, RESOLUTION
from memsvc.server.convert.memory import fill_memory
from memsvc.server.convert.scope import scope_from
from memsvc.server.convert.vectors import numbers_from_proto
from memsvc.server.executors import NamedExecutor
from memsvc.server.server_context import ServerContext
from memsvc.server.validate import conflicts as checks
from memsvc.v1 import conflicts_pb2 as pb
from memsvc.v1 import memory_service_pb2 as memory_pb

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
UNBOUND = ("page_size", "page_token")
"""The fields that may differ between the pages of one list."""


class ConflictCalls:
    """Supersedes memories, lists conflicts and settles them."""

    _edge: ServerContext
    _app: Services
    _write: NamedExecutor
    _meta: NamedExecutor

    async def SupersedeMemory(self, request: pb.SupersedeMemoryRequest, context: Context) -> pb.SupersedeMemoryResponse:
        """Put a memory in the place of another."""
        checks.check_supersede(request, dimension=self._app.dimension)
        options = write_options(request.request_id, wait_for=request.wait_for, conflict_policy=request.conflict_policy)
        new, old = await self._write.run(
            superseded, self._app, scope_from(request.scope, call_context.principal.get()), request, options
        )
        await self._edge.waits.written(new, options.wait_for)
        return out.superseded_to_proto(new, old)

    async def ListConflicts(self, request: pb.ListConflictsRequest, context: Context) -> pb.ListConflictsResponse:
        """Return a page of conflicts."""
        checks.check_list_conflicts(request)
        scope = scope_from(request.scope, call_context.principal.get())
        return await self._meta.run(list_conflicts, self._app, scope, request)

    async def ResolveConflict(self, request: pb.ResolveConflictRequest, context: Context) -> pb.ResolveConflictResponse:
        """Settle a conflict."""
        checks.check_resolve(request)
        options = write_options(request.request_id, wait_for=request.wait_for)
        contradiction, written = await self._write.run(
            self._app.resolve.resolve,
            scope_from(request.scope, call_context.principal.get()),
            request.conflict_id.lower(),
            RESOLUTION.from_proto[request.resolution],
            options,
        )
        await self._edge.waits.written(written, options.wait_for)
        return out.resolved_to_proto(contradiction, written.position)


def superseded(
    application: Services, scope: Scope, request: pb.SupersedeMemoryRequest, options: WriteOptions
) -> tuple[Written, Written]:
    """Supersede by a memory that is there, when its id is given, or by a new one."""
    revision = request.expected_revision
    if request.memory.id:
        return application.supersede.by_existing(
            scope, request.id.lower(), request.memory.id.lower(), expected_revision=revision, options=options
        )
    draft = draft_from_proto(request.memory, numbers_from_proto(request))
    return application.supersede.by_new(scope, request.id.lower(), draft, expected_revision=revision, options=options)


def list_conflicts(application: Services, scope: Scope, request: pb.ListConflictsRequest) -> pb.ListConflictsResponse:
    """Return one page of conflicts, and the token of the next where there is one.

    Raises:
        InvalidRequestError: The page token is not of this list.
    """
    digest = tokens.digest(request, without=UNBOUND)
    states = sorted({CONFLICT_STATE.from_proto[number] for number in request.states}) or [ConflictState.OPEN]
    found, following = application.resolve.page(
        scope,
        states=states,
        memory_id=request.memory_id.lower(),
        before=tokens.conflicts_before(request.page_token, digest),
        limit=request.page_size or limits.PAGE_SIZE_DEFAULT,
    )
    response = pb.ListConflictsResponse()
    out.fill_conflicts(response.conflicts, found)
    if following:
        response.next_page_token = tokens.conflicts_token(following, digest)
    return response


def with_chain(application: Services, scope: Scope, memory: Memory, response: memory_pb.GetMemoryResponse) -> None:
    """Add the chain of supersession that *memory* is part of."""
    for one in application.recollect.chain(scope, memory):
        fill_memory(response.chain.add(), one)
