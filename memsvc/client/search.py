"""Contexts, what is loaded at a start, and searches that answer early."""
# ruff: noqa: ASYNC109 - the timeouts go to the service, too

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, TypeVar, Unpack

import grpc

from memsvc.client import to_proto
from memsvc.client.connection import Connected
from memsvc.client.errors import MemsvcCallError
from memsvc.client.request_types import ContextOptions, SearchOptions
from memsvc.v1 import context_pb2 as contexts
from memsvc.v1 import search_service_pb2 as searches

R = TypeVar("R")


class Contexts(Connected):
    """The calls that gather what an agent should know."""

    async def build_context(
        self,
        query: str = "",
        *,
        cursor: str = "",
        timeout: float | None = None,
        **options: Unpack[ContextOptions],
    ) -> AsyncGenerator[contexts.BuildContextResponse, None]:
        """Yield the events of a context: one plan, items and warnings, one summary; their texts make up the context.

        A stream that broke off is resumed by the *cursor* of its last event; all else is ignored then.
        """
        fields = {"cursor": cursor} if cursor else to_proto.context_fields(query, options)
        request = contexts.BuildContextRequest(scope=self.scope, **fields)
        async for event in _events(self._remote.searches.BuildContext(request, timeout=timeout)):
            yield event

    async def render_context(
        self,
        query: str = "",
        *,
        timeout: float | None = None,
        **options: Unpack[ContextOptions],
    ) -> contexts.RenderContextResponse:
        """Return a context as one Markdown text, ready for a prompt."""
        request = contexts.RenderContextRequest(scope=self.scope, **to_proto.context_fields(query, options))
        return await self._remote.unary(self._remote.searches.RenderContext, request, timeout)

    async def load_core(
        self, *, limit: int = 0, time_zone: str = "", timeout: float | None = None
    ) -> contexts.LoadCoreResponse:
        """Return core and active memories, preferences and what is due: what an agent loads at its start."""
        request = contexts.LoadCoreRequest(scope=self.scope, limit=limit, time_zone=time_zone)
        return await self._remote.unary(self._remote.searches.LoadCore, request, timeout)

    async def stream_search(
        self,
        query: str = "",
        *,
        timeout: float | None = None,
        **options: Unpack[SearchOptions],
    ) -> AsyncGenerator[searches.StreamSearchResponse, None]:
        """Yield what words find as soon as it is known, where they find something, and then what `search` returns."""
        request = searches.StreamSearchRequest(search=to_proto.search_to_proto(self.scope, query, options))
        async for answer in _events(self._remote.searches.StreamSearch(request, timeout=timeout)):
            yield answer


async def _events(call: grpc.aio.UnaryStreamCall[Any, R]) -> AsyncGenerator[R, None]:
    try:
        async for event in call:
            yield event
    except grpc.aio.AioRpcError as error:
        raise MemsvcCallError.from_rpc(error) from error
    finally:
        call.cancel()
