"""SearchService: each method checks and converts, calls the engine, and converts back."""

# ruff: noqa: N802, ARG002 - names and arguments are gRPC's
from __future__ import annotations

import asyncio
from typing import Any, TypeAlias

import grpc
import structlog

from memsvc.domain.errors import NotReadyError
from memsvc.domain.query import SearchQuery, SearchReply
from memsvc.engine.courtesy import COURTESY
from memsvc.server import calls
from memsvc.server.convert.queries import SearchDefaults, query_from_proto
from memsvc.server.convert.replies import reply_to_proto
from memsvc.server.edge import Edge
from memsvc.server.status import Severity, item_status_from_error, row_of
from memsvc.server.validate import searches
from memsvc.v1 import search_service_pb2 as pb
from memsvc.v1 import search_service_pb2_grpc as pb_grpc

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class SearchServicer(pb_grpc.SearchServiceServicer):
    """Finds memories by meaning and by words."""

    def __init__(self, edge: Edge) -> None:
        self._edge = edge
        self._app = edge.application
        self._log = structlog.get_logger("memsvc.search")

    async def Search(self, request: pb.SearchRequest, context: Context) -> pb.SearchResponse:
        """Return the memories that fit a query, best first."""
        return await self._search(request)

    async def BatchSearch(self, request: pb.BatchSearchRequest, context: Context) -> pb.BatchSearchResponse:
        """Run several searches side by side; each succeeds or fails by itself."""
        searches.check_batch_search(request)
        # No more at a time than there are threads: a batch must not fill the queue that others wait in.
        turns = asyncio.Semaphore(self._edge.executors.search.threads)
        answers = await asyncio.gather(
            *(self._in_turn(turns, search) for search in request.searches), return_exceptions=True
        )
        return pb.BatchSearchResponse(results=[self._result(answer) for answer in answers])

    async def _in_turn(self, turns: asyncio.Semaphore, request: pb.SearchRequest) -> pb.SearchResponse:
        async with turns:
            return await self._search(request)

    async def _search(self, request: pb.SearchRequest) -> pb.SearchResponse:
        with COURTESY.search():
            return await self._answer(request)

    async def _answer(self, request: pb.SearchRequest) -> pb.SearchResponse:
        searches.check_search(request, dimension=self._app.dimension)
        defaults = SearchDefaults(self._edge.now(), self._edge.options.default_weighting, calls.principal.get())
        query = query_from_proto(request, defaults)
        await self._edge.waits.reached(query.position)
        reply = await self._edge.executors.search.run(self._recall, query)
        return reply_to_proto(reply, request, query)

    def _recall(self, query: SearchQuery) -> SearchReply:
        if self._app.indexer.replaying:
            raise NotReadyError(self._app.indexer.pending)
        return self._app.recall.search(query, calls.deadline.get())

    def _result(self, answer: pb.SearchResponse | BaseException) -> pb.BatchSearchResult:
        if isinstance(answer, pb.SearchResponse):
            return pb.BatchSearchResult(response=answer)
        if row_of(answer).severity is Severity.ERROR:
            self._log.error("search of a batch failed unexpectedly", exc_info=answer)
        return pb.BatchSearchResult(status=item_status_from_error(answer))
