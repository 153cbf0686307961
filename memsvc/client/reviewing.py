"""Reviewing memories that were withheld."""
# ruff: noqa: ASYNC109 - the timeouts go to the service, too

from __future__ import annotations

from collections.abc import AsyncGenerator
from uuid import uuid4

from memsvc.client import to_proto
from memsvc.client.connection import Connected
from memsvc.client.request_types import Filters, Verdict, WaitFor
from memsvc.v1 import review_pb2
from memsvc.v1 import types_pb2 as types


class Reviews(Connected):
    """The calls about quarantined memories."""

    async def quarantined(
        self, filters: Filters | None = None, *, page_size: int = 0, timeout: float | None = None
    ) -> AsyncGenerator[types.Memory, None]:
        """Yield the memories that wait for a review, newest first, fetching page by page."""
        request = review_pb2.ListQuarantinedRequest(
            scope=self.scope,
            filter=to_proto.filter_to_proto(filters or {}),
            page_size=page_size,
        )
        async for page in self._remote.pages(self._remote.memories.ListQuarantined, request, timeout):
            for memory in page.memories:
                yield memory

    async def review(
        self,
        memory_id: str,
        verdict: Verdict,
        *,
        expected_revision: int = 0,
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> review_pb2.ReviewMemoryResponse:
        """Approve a quarantined memory, which makes it ACTIVE, or reject it, which deletes it softly.

        Raises:
            MemsvcCallError: FAILED_PRECONDITION, it does not wait for a review.
        """
        request = review_pb2.ReviewMemoryRequest(
            scope=self.scope,
            id=memory_id,
            verdict=to_proto.enum_to_proto("verdict", review_pb2.ReviewVerdict, "REVIEW_VERDICT_", verdict),
            expected_revision=expected_revision,
            request_id=request_id or str(uuid4()),
            wait_for=to_proto.named("wait_for", wait_for),
        )
        return await self._remote.unary(self._remote.memories.ReviewMemory, request, timeout)
