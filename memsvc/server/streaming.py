"""StreamSearch: what words find at once, then what Search finds."""

# ruff: noqa: N802, ARG002 - names and arguments are gRPC's
from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

import grpc

from memsvc.domain.errors import InvalidRequestError, NotReadyError, Violation
from memsvc.domain.search import SearchQuery, SearchReply
from memsvc.engine.runtime.search_priority import SEARCH_PRIORITY
from memsvc.server import call_context
from memsvc.server.convert.file_refs import add_files
from memsvc.server.convert.queries import SearchDefaults, query_from_proto
from memsvc.server.convert.replies import fill_response
from memsvc.server.server_context import ServerContext
from memsvc.server.validate.searches import check_search
from memsvc.v1 import search_service_pb2 as pb
from memsvc.v1 import search_service_pb2_grpc as pb_grpc

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Answers: TypeAlias = "asyncio.Queue[pb.StreamSearchResponse | None]"


class StreamMethods(pb_grpc.SearchServiceServicer):
    """StreamSearch."""

    _edge: ServerContext

    async def StreamSearch(
        self, request: pb.StreamSearchRequest, context: Context
    ) -> AsyncGenerator[pb.StreamSearchResponse, None]:
        """Answer early with what words find, then with all."""
        app, search = self._edge.application, request.search
        with under("search"):
            check_search(search, dimension=app.dimension)
            defaults = SearchDefaults(
                self._edge.now(), self._edge.options.default_weighting, call_context.principal.get()
            )
            query = query_from_proto(search, defaults)
        await self._edge.waits.reached(query.position)
        answers: Answers = asyncio.Queue()
        with SEARCH_PRIORITY.search():
            finding = asyncio.create_task(self._edge.executors.search.run(self._find, query, search, _teller(answers)))
            finding.add_done_callback(lambda _: answers.put_nowait(None))
            try:
                while (answer := await answers.get()) is not None:
                    yield answer
                yield await finding
            finally:
                finding.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await finding

    def _find(self, query: SearchQuery, search: pb.SearchRequest, teller: _Teller) -> pb.StreamSearchResponse:
        if self._edge.application.indexer.replaying:
            raise NotReadyError(self._edge.application.indexer.pending)

        def early(reply: SearchReply) -> None:
            answer = pb.StreamSearchResponse()
            fill_response(answer.early, reply, search, query)
            self._add_files(answer.early, search, query)
            answer.early.SetInParent()
            teller.tell(answer)

        reply = self._edge.application.recall.search(query, call_context.deadline.get(), early)
        answer = pb.StreamSearchResponse()
        fill_response(answer.fused, reply, search, query)
        self._add_files(answer.fused, search, query)
        answer.fused.SetInParent()
        return answer

    def _add_files(self, response: pb.SearchResponse, search: pb.SearchRequest, query: SearchQuery) -> None:
        if search.include_files:
            add_files(response, self._edge.application.files.resolving, query.scope)


class _Teller:
    """Hands an answer from a thread to the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, answers: Answers) -> None:
        self._loop = loop
        self._answers = answers

    def tell(self, answer: pb.StreamSearchResponse) -> None:
        with suppress(RuntimeError):  # the loop has ended, and nobody listens
            self._loop.call_soon_threadsafe(self._answers.put_nowait, answer)


def _teller(answers: Answers) -> _Teller:
    return _Teller(asyncio.get_running_loop(), answers)


@contextmanager
def under(field: str) -> Iterator[None]:
    """Have violations named as those of a message within the request."""
    try:
        yield
    except InvalidRequestError as error:
        raise InvalidRequestError(
            [Violation(f"{field}.{one.field}", one.description) for one in error.violations]
        ) from None
