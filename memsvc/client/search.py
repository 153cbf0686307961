"""Contexts, what is loaded at a start, and searches that answer early."""

# ruff: noqa: ASYNC109 - the timeouts go to the service, too

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Literal, Unpack
from uuid import uuid4

from google.protobuf.field_mask_pb2 import FieldMask

from memsvc.client import to_proto
from memsvc.client.channel import ScopedMethods
from memsvc.client.request_types import ContextOptions, Filters, SearchOptions, SessionVisibility, UseOutcome
from memsvc.v1 import file_service_pb2 as file_pb
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb

SearchScope = Literal["ALL", "MEMORY", "FILES", "REPORTS", "CHARTS"]


class SearchMethods(ScopedMethods):
    """Calls of SearchService."""

    async def build_context(
        self,
        query: str = "",
        *,
        cursor: str = "",
        timeout: float | None = None,
        **options: Unpack[ContextOptions],
    ) -> AsyncGenerator[search_pb.BuildContextResponse, None]:
        """Yield the events of a context: one plan, items and warnings, one summary; their texts make up the context.

        A stream that broke off is resumed by the *cursor* of its last event; all else is ignored then.
        """
        fields = {"cursor": cursor} if cursor else to_proto.context_fields(query, options)
        request = search_pb.BuildContextRequest(scope=self.scope, **fields)
        async with aclosing(self._remote.stream(self._remote.searches.BuildContext, request, timeout)) as events:
            async for event in events:
                yield event

    async def render_context(
        self,
        query: str = "",
        *,
        timeout: float | None = None,
        **options: Unpack[ContextOptions],
    ) -> search_pb.RenderContextResponse:
        """Return a context as one Markdown text, ready for a prompt."""
        request = search_pb.RenderContextRequest(scope=self.scope, **to_proto.context_fields(query, options))
        return await self._remote.unary(self._remote.searches.RenderContext, request, timeout)

    async def resolve_citations(
        self,
        context_cursor: str,
        citations: Sequence[str],
        *,
        fields: Sequence[str] = (),
        timeout: float | None = None,
    ) -> search_pb.ResolveCitationsResponse:
        """Return the memories that a context cites by handles such as "[m3]"."""
        request = search_pb.ResolveCitationsRequest(
            scope=self.scope,
            context_cursor=context_cursor,
            citations=citations,
            read_mask=FieldMask(paths=fields),
        )
        return await self._remote.unary(self._remote.searches.ResolveCitations, request, timeout)

    async def report_use(  # noqa: PLR0913 - a field each
        self,
        *,
        used: Sequence[str] = (),
        ignored: Sequence[str] = (),
        wrong: Sequence[str] = (),
        query: str = "",
        context_cursor: str = "",
        request_id: str = "",
        timeout: float | None = None,
    ) -> search_pb.ReportUseResponse:
        """Report which memories of one search or context were used, ignored or found wrong.

        Each is named by its id, or by a handle such as "[m3]" of the context that *context_cursor* identifies. A
        repeated call needs the same *request_id* to count once; retries of this client have one.
        """
        outcomes: list[tuple[UseOutcome, Sequence[str]]] = [("USED", used), ("IGNORED", ignored), ("WRONG", wrong)]
        request = search_pb.ReportUseRequest(
            scope=self.scope,
            query=query,
            context_cursor=context_cursor,
            reports=[to_proto.use_report(name, outcome) for outcome, names in outcomes for name in names],
            request_id=request_id or str(uuid4()),
        )
        return await self._remote.unary(self._remote.searches.ReportUse, request, timeout)

    async def use_reports(
        self,
        *,
        outcome: UseOutcome | None = None,
        memory_id: str = "",
        session_visibility: SessionVisibility = "CURRENT",
        page_size: int = 0,
        timeout: float | None = None,
    ) -> AsyncGenerator[search_pb.StoredUseReport, None]:
        """Yield reports of use, newest first, page by page; the timeout holds for each page."""
        request = search_pb.ListUseReportsRequest(
            scope=self.scope,
            outcome=to_proto.named("outcome", outcome),
            memory_id=memory_id,
            session_visibility=to_proto.named("session_visibility", session_visibility),
            page_size=page_size,
        )
        while True:
            page = await self._remote.unary(self._remote.searches.ListUseReports, request, timeout)
            for report in page.reports:
                yield report
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def use_feedback(self, *, timeout: float | None = None) -> search_pb.GetUseFeedbackResponse:
        """Return whether reports of use are part of the ranking of the client's user, and why."""
        request = search_pb.GetUseFeedbackRequest(scope=self.scope)
        return await self._remote.unary(self._remote.searches.GetUseFeedback, request, timeout)

    async def load_core(
        self, *, limit: int = 0, time_zone: str = "", timeout: float | None = None
    ) -> search_pb.LoadCoreResponse:
        """Return core and active memories, preferences and what is due: what an agent loads at its start."""
        request = search_pb.LoadCoreRequest(scope=self.scope, limit=limit, time_zone=time_zone)
        return await self._remote.unary(self._remote.searches.LoadCore, request, timeout)

    async def stream_search(
        self,
        query: str = "",
        *,
        timeout: float | None = None,
        **options: Unpack[SearchOptions],
    ) -> AsyncGenerator[search_pb.StreamSearchResponse, None]:
        """Yield what words find as soon as it is known, where they find something, and then what `search` returns."""
        request = search_pb.StreamSearchRequest(search=to_proto.search_to_proto(self.scope, query, options))
        async with aclosing(self._remote.stream(self._remote.searches.StreamSearch, request, timeout)) as answers:
            async for answer in answers:
                yield answer

    async def search_all(  # noqa: PLR0913 - a field each
        self,
        query: str,
        *,
        groups: Sequence[SearchScope] = (),
        limit: int = 0,
        filters: Filters | None = None,
        include_files: bool = False,
        consistency_token: str = "",
        timeout: float | None = None,
    ) -> search_pb.SearchAllResponse:
        """Return the memories and files that fit a query, by group, or only those of *groups*.

        *filters* narrow the memories alone; each group has at most *limit*. `nothing_relevant` says that the memories
        are only the nearest.
        """
        request = search_pb.SearchAllRequest(
            scope=self.scope,
            query=query,
            groups=[to_proto.enum_to_proto("groups", search_pb.SearchGroup, "SEARCH_GROUP_", one) for one in groups],
            limit=limit,
            filter=to_proto.filter_to_proto(filters or {}),
            include_files=include_files,
            consistency_token=consistency_token,
        )
        return await self._remote.unary(self._remote.searches.SearchAll, request, timeout)

    async def resolve_file_refs(
        self, refs: Sequence[tuple[str, str]], *, timeout: float | None = None
    ) -> list[file_pb.ResolvedFileRef]:
        """Return what up to 256 references, pairs of category and id, lead to, in their order.

        One that leads to no file says so in its status.
        """
        request = file_pb.ResolveFileRefsRequest(scope=self.scope, refs=to_proto.file_refs_to_proto(refs))
        return list((await self._remote.unary(self._remote.files.ResolveFileRefs, request, timeout)).resolved)


def currency_of(hit: search_pb.Hit | lifecycle_pb.DueReminder | search_pb.MemoryCurrency) -> str:
    """Return what is known of a hit, a reminder or a core memory against newer memories.

    One of "outdated", "possibly outdated" and "conflicted". Empty: nothing newer is known, or nothing was judged, as in
    a search without `judge_currency`.
    """
    name = types_pb.Currency.Name(hit.currency).removeprefix("CURRENCY_")
    return "" if name in {"UNSPECIFIED", "CURRENT"} else name.replace("_", " ").lower()
