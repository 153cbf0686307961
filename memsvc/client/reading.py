"""Reading memories and searching them."""
# ruff: noqa: ASYNC109 - the timeouts go to the service, too

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Unpack, cast

from memsvc.client import to_proto
from memsvc.client.connection import Connected
from memsvc.client.request_types import AsOf, Filters, Search, SearchOptions
from memsvc.v1 import memory_service_pb2 as memories
from memsvc.v1 import search_service_pb2 as searches
from memsvc.v1 import types_pb2 as types


class Reads(Connected):
    """The calls that find memories."""

    async def get(
        self,
        memory_id: str = "",
        *,
        key: str = "",
        revision: int = 0,
        as_of: AsOf | None = None,
        timeout: float | None = None,
    ) -> types.Memory:
        """Return one memory by its id, or without an id by its key in the client's project.

        With *revision* or *as_of* it is returned as it was.

        Raises:
            MemsvcCallError: NOT_FOUND, the scope sees no such memory, or it has no such revision.
        """
        moment = to_proto.as_of_to_proto(as_of)
        by_id = memories.GetMemoryRequest(scope=self.scope, id=memory_id, revision=revision, as_of=moment)
        by_key = memories.GetMemoryRequest(scope=self.scope, key=key, revision=revision, as_of=moment)
        reply = await self._remote.unary(self._remote.memories.GetMemory, by_id if memory_id else by_key, timeout)
        return reply.memory

    async def get_many(
        self,
        memory_ids: Sequence[str],
        *,
        timeout: float | None = None,
    ) -> memories.BatchGetMemoriesResponse:
        """Return up to 1 000 memories in the order of their ids, and the ids that the scope does not see."""
        request = memories.BatchGetMemoriesRequest(scope=self.scope, ids=memory_ids)
        return await self._remote.unary(self._remote.memories.BatchGetMemories, request, timeout)

    async def search(
        self,
        query: str = "",
        *,
        timeout: float | None = None,
        **options: Unpack[SearchOptions],
    ) -> searches.SearchResponse:
        """Return the memories that fit a query, best first."""
        request = to_proto.search_to_proto(self.scope, query, options)
        return await self._remote.unary(self._remote.searches.Search, request, timeout)

    async def search_many(
        self,
        requested: Iterable[Search],
        *,
        timeout: float | None = None,
    ) -> searches.BatchSearchResponse:
        """Run 1 to 32 searches side by side; each of the results is a reply or a failure."""
        requests = []
        for each in requested:
            options = dict(each)
            query = str(options.pop("query", ""))
            requests.append(to_proto.search_to_proto(self.scope, query, cast("SearchOptions", options)))
        return await self._remote.unary(
            self._remote.searches.BatchSearch, searches.BatchSearchRequest(searches=requests), timeout
        )

    async def list(
        self,
        filters: Filters | None = None,
        *,
        order_by: str = "",
        page_size: int = 0,
        as_of: AsOf | None = None,
        timeout: float | None = None,
    ) -> AsyncGenerator[types.Memory, None]:
        """Yield the memories that match, newest first unless *order_by* says otherwise, fetching page by page.

        With *as_of* they are those of another moment, as they were.
        """
        request = memories.ListMemoriesRequest(
            scope=self.scope,
            filter=to_proto.filter_to_proto(filters or {}),
            order_by=order_by,
            page_size=page_size,
            as_of=to_proto.as_of_to_proto(as_of),
        )
        async for page in self._remote.pages(self._remote.memories.ListMemories, request, timeout):
            for memory in page.memories:
                yield memory
