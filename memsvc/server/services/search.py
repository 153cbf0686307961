"""Servicer of SearchService."""

# ruff: noqa: N802, ARG002 - names and arguments are gRPC's
from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

import grpc
import structlog
from google.protobuf.message import Message

from memsvc.domain.context import ContextQuery
from memsvc.domain.errors import NotReadyError
from memsvc.domain.scope import SessionVisibility
from memsvc.domain.search import GlobalQuery, SearchQuery, SearchReply
from memsvc.engine.context.service import ContextRun
from memsvc.engine.search.use_feedback import ContextCitations
from memsvc.server import call_context, tokens
from memsvc.server.error_status import Severity, error_rule, item_status_from_error
from memsvc.server.executors import Answer, Pending, runs_in
from memsvc.server.requests import search as requests
from memsvc.server.responses import search as responses
from memsvc.server.server_context import ServerContext
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import search_service_pb2_grpc as pb_grpc

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
M = TypeVar("M", bound=Message)


class SearchServicer(pb_grpc.SearchServiceServicer):
    """Finds memories by meaning and by words, and builds contexts of them."""

    def __init__(self, server: ServerContext) -> None:
        self._server = server
        self._app = server.application
        self._threads = server.executors.search
        self._priority = server.application.search_priority
        self._log = structlog.get_logger("memsvc.search")

    @runs_in("search")
    def Search(self, request: search_pb.SearchRequest, context: Context) -> Answer[search_pb.SearchResponse]:
        """Return the memories that match a query, best first."""
        query = self._query(request)

        def find(_: None = None) -> search_pb.SearchResponse:
            response = search_pb.SearchResponse()
            with self._priority.search():
                self._find(query, request, response)
            return response

        return self._when_reached(query, find)

    async def BatchSearch(
        self, request: search_pb.BatchSearchRequest, context: Context
    ) -> search_pb.BatchSearchResponse:
        """Run several searches concurrently; each succeeds or fails by itself."""
        requests.batch_search_request(request)
        # No more at a time than there are threads: a batch must not fill the queue that other calls wait in.
        slots = asyncio.Semaphore(self._threads.threads)
        response = search_pb.BatchSearchResponse()
        results = [response.results.add() for _ in request.searches]

        async def run(search: search_pb.SearchRequest, result: search_pb.BatchSearchResult) -> None:
            async with slots:
                await self._search(search, result.response)
                result.response.SetInParent()

        failures = await asyncio.gather(*map(run, request.searches, results), return_exceptions=True)
        for result, failure in zip(results, failures, strict=True):
            if failure is not None:
                if error_rule(failure).severity is Severity.ERROR:
                    self._log.error("search of a batch failed unexpectedly", exc_info=failure)
                result.status.CopyFrom(item_status_from_error(failure))
        return response

    async def StreamSearch(
        self, request: search_pb.StreamSearchRequest, context: Context
    ) -> AsyncGenerator[search_pb.StreamSearchResponse, None]:
        """Return the hits of the lexical index early, then those of the whole search."""
        search = request.search
        query = self._query(search, prefix="search.")
        await self._reached(query)
        loop, answers = asyncio.get_running_loop(), asyncio.Queue[search_pb.StreamSearchResponse | None]()

        def answer_early(reply: SearchReply) -> None:
            answer = search_pb.StreamSearchResponse()
            answer.early.SetInParent()
            self._fill(answer.early, reply, search, query)
            with suppress(RuntimeError):  # the loop was closed: the call is over
                loop.call_soon_threadsafe(answers.put_nowait, answer)

        def find() -> search_pb.StreamSearchResponse:
            self._require_replayed()
            reply = self._app.search.search(query, call_context.deadline.get(), answer_early)
            answer = search_pb.StreamSearchResponse()
            answer.fused.SetInParent()
            self._fill(answer.fused, reply, search, query)
            return answer

        with self._priority.search():
            running = asyncio.create_task(self._threads.run(find))
            running.add_done_callback(lambda _: answers.put_nowait(None))
            try:
                while (answer := await answers.get()) is not None:
                    yield answer
                yield await running
            finally:
                running.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await running

    @runs_in("search")
    def SearchAll(self, request: search_pb.SearchAllRequest, context: Context) -> Answer[search_pb.SearchAllResponse]:
        """Return the memories and files that match a query, by group."""
        query = requests.search_all_request(
            request,
            now=self._server.now(),
            weighting=self._server.options.default_weighting,
            use_feedback=self._server.options.use_feedback,
        )

        def find(_: None = None) -> search_pb.SearchAllResponse:
            with self._priority.search():
                return self._find_all(query, request)

        return find() if query.memories is None else self._when_reached(query.memories, find)

    def _find_all(self, query: GlobalQuery, request: search_pb.SearchAllRequest) -> search_pb.SearchAllResponse:
        if query.memories is not None:
            self._require_replayed()
        reply = self._app.global_search.search(query, call_context.deadline.get())
        resolver = self._app.files.ref_resolver
        return responses.search_all_response(reply, query.memories, resolver, request)

    async def BuildContext(
        self, request: search_pb.BuildContextRequest, context: Context
    ) -> AsyncGenerator[search_pb.BuildContextResponse, None]:
        """Stream what an agent should know; core memories and the session come first.

        When the client cancels, the work ends after the step under way; the context can be resumed.
        """
        query = requests.build_context_request(
            request, self._server.options.context, now=self._server.now(), dimension=self._app.dimension
        )
        if isinstance(query, requests.ContextResumption):
            run, index = self._app.contexts.resume(query.run_id, query.index, query.scope), query.index
        else:
            await self._reached(query)
            run, index = await self._threads.run(self._app.contexts.begin, query), -1
        try:
            with self._priority.search():
                while True:
                    answers, count = await self._threads.resume(self._next_events, run, index)
                    if not count:
                        return
                    for response in answers:
                        yield response
                    index += count
        finally:
            run.abandon()

    def _next_events(self, run: ContextRun, index: int) -> tuple[list[search_pb.BuildContextResponse], int]:
        """Return the messages that follow an event, and the number of events in them."""
        events, count = self._app.contexts.next_events(run, index, call_context.deadline.get())
        return responses.build_context_responses(run.id, events), count

    @runs_in("search")
    def RenderContext(
        self, request: search_pb.RenderContextRequest, context: Context
    ) -> Answer[search_pb.RenderContextResponse]:
        """Return what an agent should know as one text."""
        query = requests.render_context_request(
            request, self._server.options.context, now=self._server.now(), dimension=self._app.dimension
        )

        def render(_: None = None) -> search_pb.RenderContextResponse:
            with self._priority.search():
                return responses.render_context_response(self._app.contexts.render(query, call_context.deadline.get()))

        return self._when_reached(query, render)

    @runs_in("meta")
    def ResolveCitations(
        self, request: search_pb.ResolveCitationsRequest, context: Context
    ) -> search_pb.ResolveCitationsResponse:
        """Return the memories that a context cites."""
        cited = requests.resolve_citations_request(request)
        found = self._app.contexts.resolve(cited.run_id, cited.citations, cited.scope)
        # The context showed them in this scope, messages of other sessions among them.
        memories = self._app.memory_reader.get_many(cited.scope, [one for one, _ in found], SessionVisibility.ALL)
        return responses.resolve_citations_response(request, found, memories)

    @runs_in("meta")
    def LoadCore(self, request: search_pb.LoadCoreRequest, context: Context) -> search_pb.LoadCoreResponse:
        """Return the core memories that an agent loads at its start."""
        load = requests.load_core_request(request)
        loaded = self._app.core_memories.load(load.scope, limit=load.limit, zone=load.zone)
        memories = [*loaded.core, *loaded.active, *loaded.preferences, *loaded.reminders]
        return responses.load_core_response(loaded, self._app.currency.marks((), memories))

    # Reports of use.

    @runs_in("write")
    def ReportUse(self, request: search_pb.ReportUseRequest, context: Context) -> search_pb.ReportUseResponse:
        """Store what became of the hits of a search or the lines of a context."""
        asked = requests.report_use_request(request)
        new, contexts = asked.new, self._app.contexts

        def resolve() -> ContextCitations:
            fields = [f"reports[{place}].citation" for place in new.citations]
            cited = contexts.resolve(asked.run_id, [*new.citations.values()], new.scope, fields)
            return ContextCitations(contexts.query_of(asked.run_id, new.scope), cited)

        return responses.report_use_response(self._app.use_reporter.report(new, resolve))

    @runs_in("meta")
    def ListUseReports(
        self, request: search_pb.ListUseReportsRequest, context: Context
    ) -> search_pb.ListUseReportsResponse:
        """Return a page of reports."""
        page = requests.list_use_reports_request(request)
        found, following = self._app.use_reader.page(
            page.scope,
            outcome=page.outcome,
            memory_id=page.memory_id,
            sessions=page.sessions,
            after=page.after,
            limit=page.limit,
        )
        token = "" if following is None else tokens.list_token(following, tokens.digest(request))
        return responses.list_use_reports_response(found, token)

    @runs_in("meta")
    def GetUseFeedback(
        self, request: search_pb.GetUseFeedbackRequest, context: Context
    ) -> search_pb.GetUseFeedbackResponse:
        """Return whether reports are part of the ranking of a user, and why."""
        scope = requests.get_use_feedback_request(request)
        reader = self._app.use_reader
        return responses.get_use_feedback_response(reader.feedback(scope), reader.rules)

    async def _search(self, request: search_pb.SearchRequest, response: search_pb.SearchResponse) -> None:
        with self._priority.search():
            query = self._query(request)
            await self._reached(query)
            # The response is built in the thread: a page of a hundred hits would hold up the event loop.
            await self._threads.run(self._find, query, request, response)

    def _find(self, query: SearchQuery, request: search_pb.SearchRequest, response: search_pb.SearchResponse) -> None:
        self._require_replayed()
        self._fill(response, self._app.search.search(query, call_context.deadline.get()), request, query)

    def _query(self, request: search_pb.SearchRequest, prefix: str = "") -> SearchQuery:
        return requests.search_request(
            request,
            now=self._server.now(),
            dimension=self._app.dimension,
            weighting=self._server.options.default_weighting,
            use_feedback=self._server.options.use_feedback,
            prefix=prefix,
        )

    def _when_reached(self, query: SearchQuery | ContextQuery, find: Callable[..., M]) -> Answer[M]:
        """Return the result of *find*, or the rest of a call that waits for a consistency token first."""
        if not query.position:
            return find()
        return Pending(lambda: self._reached(query), find, self._threads)

    async def _reached(self, query: SearchQuery | ContextQuery) -> None:
        """Wait until the indexes have reached the position of a consistency token."""
        if query.position:
            await self._server.waits.reached(query.position, query.scope.owner)

    def _require_replayed(self) -> None:
        indexer = self._app.indexer
        if indexer.is_replaying:
            raise NotReadyError(indexer.pending_count)

    def _fill(
        self,
        response: search_pb.SearchResponse,
        reply: SearchReply,
        request: search_pb.SearchRequest,
        query: SearchQuery,
    ) -> None:
        is_judged, valid_time = request.judge_currency, query.valid_time
        marks = self._app.currency.marks(reply.hits, valid_time=valid_time) if is_judged else {}
        responses.fill_search_response(response, reply, request, query, self._app.files.ref_resolver, marks)
