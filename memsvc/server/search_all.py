"""SearchAll: check, convert, search memories and files, convert back."""

# ruff: noqa: N802, ARG002 - names and arguments are gRPC's
from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any, TypeAlias

import grpc

from memsvc.domain.errors import NotReadyError
from memsvc.domain.search import GlobalQuery, GlobalReply, Group, SearchQuery
from memsvc.engine.files.service import FileRefResolver
from memsvc.engine.runtime.search_priority import SEARCH_PRIORITY
from memsvc.server import call_context
from memsvc.server.convert.enums import EnumTable
from memsvc.server.convert.file_refs import add_files, fill_resolved
from memsvc.server.convert.queries import SearchDefaults, query_from_proto
from memsvc.server.convert.replies import fill_response
from memsvc.server.server_context import ServerContext
from memsvc.server.validate.file_refs import check_search_all
from memsvc.v1 import search_service_pb2 as pb
from memsvc.v1 import search_service_pb2_grpc as pb_grpc

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

GROUP = EnumTable(Group, pb.SearchAllScope, "SEARCH_ALL_SCOPE")


class SearchAllMethods(pb_grpc.SearchServiceServicer):
    """SearchAll."""

    _edge: ServerContext

    async def SearchAll(self, request: pb.SearchAllRequest, context: Context) -> pb.SearchAllResponse:
        """Return what fits a query, by group."""
        search = search_of(request)
        check_search_all(request, search, dimension=self._edge.application.dimension)
        defaults = SearchDefaults(self._edge.now(), self._edge.options.default_weighting, call_context.principal.get())
        query = query_from_proto(search, defaults)
        groups = groups_of(request)
        if Group.MEMORY in groups:
            await self._edge.waits.reached(query.position)
        with SEARCH_PRIORITY.search():
            return await self._edge.executors.search.run(self._find_all, query, search, groups)

    def _find_all(
        self, query: SearchQuery, search: pb.SearchRequest, groups: AbstractSet[Group]
    ) -> pb.SearchAllResponse:
        app = self._edge.application
        if Group.MEMORY in groups and app.indexer.replaying:
            raise NotReadyError(app.indexer.pending)
        wanted = GlobalQuery(
            scope=query.scope,
            text=query.text,
            visibility=query.selection.visibility,
            groups=groups,
            limit=query.limit,
            memories=query if Group.MEMORY in groups else None,
        )
        reply = app.global_search.search(wanted, call_context.deadline.get())
        return _reply_to_proto(reply, search, query, app.files.resolving)


def search_of(request: pb.SearchAllRequest) -> pb.SearchRequest:
    """Return the search for memories that is meant."""
    search = pb.SearchRequest(
        query=request.query,
        limit=request.limit,
        include_files=request.include_files,
        consistency_token=request.consistency_token,
        snippet_chars=request.snippet_chars,
    )
    if request.HasField("scope"):
        search.scope.CopyFrom(request.scope)
    if request.HasField("filter"):
        search.filter.CopyFrom(request.filter)
    return search


def groups_of(request: pb.SearchAllRequest) -> AbstractSet[Group]:
    """Return where to look: nothing said is everything."""
    if not request.scopes or pb.SEARCH_ALL_SCOPE_ALL in request.scopes:
        return frozenset(Group)
    return frozenset(GROUP.from_proto[number] for number in request.scopes)


def _reply_to_proto(
    reply: GlobalReply, search: pb.SearchRequest, query: SearchQuery, resolving: FileRefResolver
) -> pb.SearchAllResponse:
    response = pb.SearchAllResponse()
    if reply.memories is not None:
        page = pb.SearchResponse()
        fill_response(page, reply.memories, search, query)
        if search.include_files:
            add_files(page, resolving, query.scope)
        response.memories.extend(page.hits)
        response.degraded.extend(page.degraded)
    lists = {Group.FILES: response.files, Group.REPORTS: response.reports, Group.CHARTS: response.charts}
    for group, hits in lists.items():
        for found in reply.files.get(group, ()):
            message = hits.add(score=found.score)
            fill_resolved(message.file, resolving.of(found.file))
    return response
