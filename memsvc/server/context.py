"""The methods of SearchService about contexts and about what is loaded at a start."""

# ruff: noqa: N802, ARG002 - names and arguments are gRPC's
from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, TypeAlias

import grpc

from memsvc.domain.context import ContextQuery
from memsvc.engine.context.service import Run
from memsvc.engine.runtime.search_priority import SEARCH_PRIORITY
from memsvc.server import call_context
from memsvc.server.convert import contexts as out
from memsvc.server.convert import tokens
from memsvc.server.convert.scope import scope_from
from memsvc.server.server_context import ServerContext
from memsvc.server.validate import contexts
from memsvc.server.validate.contexts import known_zone
from memsvc.v1 import context_pb2 as pb
from memsvc.v1 import search_service_pb2_grpc as pb_grpc

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class ContextMethods(pb_grpc.SearchServiceServicer):
    """BuildContext, RenderContext, LoadCore."""

    _edge: ServerContext

    async def BuildContext(
        self, request: pb.BuildContextRequest, context: Context
    ) -> AsyncGenerator[pb.BuildContextResponse, None]:
        """Stream what an agent should know, what needs no search first.

        A client that leaves ends the work after the step under way; the context can be resumed.
        """
        contexts.check_build(request, dimension=self._edge.application.dimension)
        search = self._edge.executors.search
        if request.cursor:
            scope = scope_from(request.scope, call_context.principal.get())
            run_id, index = tokens.context_place(request.cursor, field="cursor")
            run = self._edge.application.contexts.resume(run_id, index, scope)
        else:
            query = await self._wanted(request)
            run, index = await search.run(self._edge.application.contexts.begin, query), -1
        try:
            with SEARCH_PRIORITY.search():
                while (told := await search.proceed(self._told, run, index))[0]:
                    for response in told[0]:
                        yield response
                    index += told[1]
        finally:
            run.abandon()

    async def RenderContext(self, request: pb.RenderContextRequest, context: Context) -> pb.RenderContextResponse:
        """Return what an agent should know as one text."""
        contexts.check_render(request, dimension=self._edge.application.dimension)
        query = await self._wanted(request)
        with SEARCH_PRIORITY.search():
            return await self._edge.executors.search.run(self._rendered, query)

    async def LoadCore(self, request: pb.LoadCoreRequest, context: Context) -> pb.LoadCoreResponse:
        """Return what an agent loads at its start."""
        contexts.check_load_core(request)
        return await self._edge.executors.meta.run(self._loaded, request)

    async def _wanted(self, request: pb.BuildContextRequest | pb.RenderContextRequest) -> ContextQuery:
        query = out.context_query_from_proto(
            request, self._edge.options.context, now=self._edge.now(), principal=call_context.principal.get()
        )
        await self._edge.waits.reached(query.position)
        return query

    def _told(self, run: Run, index: int) -> tuple[list[pb.BuildContextResponse], int]:
        """Return what comes after an event, and how many events that are."""
        events = run.after(index, call_context.deadline.get())
        return out.responses_to_proto(run.id, events), len(events)

    def _rendered(self, query: ContextQuery) -> pb.RenderContextResponse:
        return out.rendered_to_proto(self._edge.application.contexts.render(query, call_context.deadline.get()))

    def _loaded(self, request: pb.LoadCoreRequest) -> pb.LoadCoreResponse:
        scope = scope_from(request.scope, call_context.principal.get())
        zone = known_zone(request.time_zone) if request.time_zone else None
        loaded = self._edge.application.core.load(scope, limit=request.limit or out.LOAD_LIMIT, zone=zone)
        return out.essentials_to_proto(loaded)
