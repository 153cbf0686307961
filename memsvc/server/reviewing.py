"""The methods of MemoryService that deal with quarantined memories."""

# ruff: noqa: N802, ARG002 - names and arguments are gRPC's
from __future__ import annotations

from datetime import datetime
from typing import Any, TypeAlias

import grpc

from memsvc.domain import limits
from memsvc.domain.scope import Scope
from memsvc.domain.search import Order
from memsvc.engine.services import Services
from memsvc.server import call_context
from memsvc.server.convert import tokens
from memsvc.server.convert.conflicts import fill_conflicts
from memsvc.server.convert.drafts import write_options
from memsvc.server.convert.enums import VERDICT
from memsvc.server.convert.memory import fill_memory, memory_to_proto
from memsvc.server.convert.scope import scope_from
from memsvc.server.convert.selections import selection_from_proto
from memsvc.server.server_context import ServerContext
from memsvc.server.services.listing import UNBOUND
from memsvc.server.validate.watches import check_list_quarantined, check_review
from memsvc.v1 import review_pb2 as pb
from memsvc.v1 import types_pb2 as types

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
EVERY_TIER = [number for number in types.MemoryTier.values() if number]


class ReviewMethods:
    """Shows what waits for a review, and takes the decisions."""

    _edge: ServerContext

    async def ListQuarantined(self, request: pb.ListQuarantinedRequest, context: Context) -> pb.ListQuarantinedResponse:
        """Return a page of the memories that wait."""
        check_list_quarantined(request)
        scope = scope_from(request.scope, call_context.principal.get())
        return await self._edge.executors.meta.run(
            _list_quarantined, self._edge.application, scope, request, self._edge.now()
        )

    async def ReviewMemory(self, request: pb.ReviewMemoryRequest, context: Context) -> pb.ReviewMemoryResponse:
        """Decide about one memory."""
        check_review(request)
        options = write_options(request.request_id, wait_for=request.wait_for)
        written = await self._edge.executors.write.run(
            self._edge.application.reviewing.decide,
            scope_from(request.scope, call_context.principal.get()),
            request.id.lower(),
            VERDICT.from_proto[request.verdict],
            expected_revision=request.expected_revision,
            options=options,
        )
        await self._edge.waits.written(written, options.wait_for)
        response = pb.ReviewMemoryResponse(consistency_token=tokens.consistency_token(written.position))
        fill_memory(response.memory, written.memory)
        fill_conflicts(response.conflicts, written.conflicts)
        return response


def _list_quarantined(
    application: Services, scope: Scope, request: pb.ListQuarantinedRequest, now: datetime
) -> pb.ListQuarantinedResponse:
    """Return one page, and the token of the next where there is one.

    Raises:
        InvalidRequestError: The page token is not of this list.
    """
    digest = tokens.digest(request, without=UNBOUND)
    chosen = types.Filter()
    chosen.CopyFrom(request.filter)
    chosen.statuses.append(types.MEMORY_STATUS_QUARANTINED)
    chosen.tiers.extend(() if chosen.tiers else EVERY_TIER)
    chosen.include_expired = True
    memories, following = application.recollect.page(
        scope,
        selection_from_proto(chosen, now=now),
        order=Order(),
        after=tokens.list_cursor(request.page_token, digest),
        limit=request.page_size or limits.PAGE_SIZE_DEFAULT,
    )
    return pb.ListQuarantinedResponse(
        memories=[memory_to_proto(memory) for memory in memories],
        next_page_token="" if following is None else tokens.list_token(following, digest),
    )
