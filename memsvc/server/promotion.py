"""PromoteMemory: check, convert, call, convert back."""

# ruff: noqa: N802, ARG002 - names and arguments are gRPC's
from __future__ import annotations

from typing import Any, TypeAlias

import grpc

from memsvc.domain import limits
from memsvc.domain.write_requests import Written
from memsvc.server import call_context
from memsvc.server.convert.drafts import write_options
from memsvc.server.convert.enums import WAIT_FOR
from memsvc.server.convert.memory import fill_memory
from memsvc.server.convert.redactions import redactions_to_proto
from memsvc.server.convert.scope import scope_from
from memsvc.server.convert.tokens import consistency_token
from memsvc.server.server_context import ServerContext
from memsvc.server.validate.scopes import check_request_id, check_scope
from memsvc.server.validate.values import check_enum, check_revision, check_text, check_uuid
from memsvc.server.validate.violations import Violations
from memsvc.v1 import promotion_pb2 as pb

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class PromotionMethods:
    """What LifecycleService does to keep short-term memories for good."""

    _edge: ServerContext

    async def PromoteMemory(self, request: pb.PromoteMemoryRequest, context: Context) -> pb.PromoteMemoryResponse:
        """Store a long-term memory made of a short-term one."""
        check_promote(request)
        options = write_options(request.request_id, wait_for=request.wait_for)
        scope = scope_from(request.scope, call_context.principal.get())
        new, source = await self._edge.executors.write.run(
            self._edge.application.promote.promote,
            scope,
            request.id.lower(),
            content=request.content,
            title=request.title,
            expected_revision=request.expected_revision,
            options=options,
        )
        await self._edge.waits.written(new, options.wait_for)
        return _promoted_to_proto(new, source)


def check_promote(request: pb.PromoteMemoryRequest) -> None:
    """Check a request to promote a memory."""
    found = Violations()
    check_scope(found, request.scope)
    check_uuid(found, "id", request.id)
    check_text(found, "content", request.content, most=limits.CONTENT)
    if request.content and not request.content.strip():
        found.add("content", "must not be blank; leave it empty for the content of the source")
    check_text(found, "title", request.title, most=limits.TITLE)
    check_revision(found, "expected_revision", request.expected_revision)
    check_request_id(found, request.request_id)
    check_enum(found, "wait_for", request.wait_for, WAIT_FOR.from_proto)
    found.finish()


def _promoted_to_proto(new: Written, source: Written) -> pb.PromoteMemoryResponse:
    response = pb.PromoteMemoryResponse(consistency_token=consistency_token(max(new.position, source.position)))
    fill_memory(response.memory, new.memory)
    fill_memory(response.source, source.memory)
    response.redactions.extend(redactions_to_proto(new.redactions))
    return response
