"""SearchService: each method checks and converts, calls the engine, and converts back."""

# ruff: noqa: N802, ARG002 - names and arguments are gRPC's
from __future__ import annotations

import asyncio
from typing import Any, TypeAlias

import grpc
import structlog

from memsvc.domain.errors import NotReadyError
from memsvc.domain.search import SearchQuery
from memsvc.engine.runtime.search_priority import SEARCH_PRIORITY
from memsvc.server import call_context
from memsvc.server.context import ContextMethods
from memsvc.server.convert.file_refs import add_files
from memsvc.server.convert.queries import SearchDefaults, query_from_proto
from memsvc.server.convert.replies import fill_response
from memsvc.server.error_status import Severity, item_status_from_error, row_of
from memsvc.server.search_all import SearchAllMethods
from memsvc.server.server_context import ServerContext
from memsvc.server.streaming import StreamMethods
from memsvc.server.validate import searches
from memsvc.v1 import search_service_pb2 as pb

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class SearchServicer(ContextMethods, StreamMethods, SearchAllMethods):
    """Finds memories by meaning and by words."""

    def __init__(self, edge: ServerContext) -> None:
        self._edge = edge
        self._app = edge.application
        self._log = structlog.get_logger("memsvc.search")

    async def Search(self, request: pb.SearchRequest, context: Context) -> pb.SearchResponse:
        """Return the memories that fit a query, best first."""
        response = pb.SearchResponse()
        await self._search(request, response)
        return response

    async def BatchSearch(self, request: pb.BatchSearchRequest, context: Context) -> pb.BatchSearchResponse:
        """Run several searches side by side; each succeeds or fails by itself."""
        searches.check_batch_search(request)
        # No more at a time than there are threads: a batch must not fill the queue that others wait in.
        turns = asyncio.Semaphore(self._edge.executors.search.threads)
        response = pb.BatchSearchResponse()
        results = [response.results.add() for _ in request.searches]
        failures = await asyncio.gather(
            *(self._in_turn(turns, *pair) for pair in zip(request.searches, results, strict=True)),
            return_exceptions=True,
        )
        for result, failure in zip(results, failures, strict=True):
            if failure is not None:
                self._fail(result, failure)
        return response

    async def _in_turn(self, turns: asyncio.Semaphore, request: pb.SearchRequest, result: pb.BatchSearchResult) -> None:
        async with turns:
            await self._search(request, result.response)
            result.response.SetInParent()

    async def _search(self, request: pb.SearchRequest, response: pb.SearchResponse) -> None:
        with SEARCH_PRIORITY.search():
            await self._answer(request, response)

    async def _answer(self, request: pb.SearchRequest, response: pb.SearchResponse) -> None:
        searches.check_search(request, dimension=self._app.dimension)
        defaults = SearchDefaults(self._edge.now(), self._edge.options.default_weighting, call_context.principal.get())
        query = query_from_proto(request, defaults)
        await self._edge.waits.reached(query.position)
        # The reply is converted where it was found: a page of a hundred hits would hold up the event loop.
        await self._edge.executors.search.run(self._recall, query, request, response)

    def _recall(self, query: SearchQuery, request: pb.SearchRequest, response: pb.SearchResponse) -> None:
        if self._app.indexer.replaying:
            raise NotReadyError(self._app.indexer.pending)
        reply = self._app.recall.search(query, call_context.deadline.get())
        fill_response(response, reply, request, query)
        if request.include_files:
            add_files(response, self._app.files.resolving, query.scope)

    def _fail(self, result: pb.BatchSearchResult, failure: BaseException) -> None:
        if row_of(failure).severity is Severity.ERROR:
            self._log.error("search of a batch failed unexpectedly", exc_info=failure)
        result.status.CopyFrom(item_status_from_error(failure))
