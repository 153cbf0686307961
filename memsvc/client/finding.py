"""Searches over memories and files at once, and what references to files lead to."""
# ruff: noqa: ASYNC109 - the timeouts go to the service, too

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from memsvc.client import to_proto
from memsvc.client.connection import Connected
from memsvc.client.request_types import Filters
from memsvc.v1 import file_service_pb2 as files
from memsvc.v1 import search_service_pb2 as searches
from memsvc.v1 import types_pb2 as types

SearchScope = Literal["ALL", "MEMORY", "FILES", "REPORTS", "CHARTS"]


class Finding(Connected):
    """The calls that find files beside memories."""

    async def search_all(  # noqa: PLR0913 - a field each
        self,
        query: str,
        *,
        scopes: Sequence[SearchScope] = (),
        limit: int = 0,
        filters: Filters | None = None,
        include_files: bool = False,
        consistency_token: str = "",
        timeout: float | None = None,
    ) -> searches.SearchAllResponse:
        """Return the memories and files that fit a query, by group, or only those of *scopes*.

        *filters* narrow the memories alone; each group has at most *limit*.
        """
        request = searches.SearchAllRequest(
            scope=self.scope,
            query=query,
            scopes=[
                to_proto.enum_to_proto("scopes", searches.SearchAllScope, "SEARCH_ALL_SCOPE_", one) for one in scopes
            ],
            limit=limit,
            filter=to_proto.filter_to_proto(filters or {}),
            include_files=include_files,
            consistency_token=consistency_token,
        )
        return await self._remote.unary(self._remote.searches.SearchAll, request, timeout)

    async def resolve_file_refs(
        self, refs: Sequence[tuple[str, str]], *, timeout: float | None = None
    ) -> list[files.ResolvedFileRef]:
        """Return what up to 256 references, pairs of category and id, lead to, in their order.

        One that leads to no file says so in its status.
        """
        named = [types.FileRef(category=category, id=file_id) for category, file_id in refs]
        request = files.ResolveFileRefsRequest(scope=self.scope, refs=named)
        return list((await self._remote.unary(self._remote.files.ResolveFileRefs, request, timeout)).resolved)
