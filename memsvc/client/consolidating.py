"""Saying the same once, and summing up."""
# ruff: noqa: ASYNC109 - the timeouts go to the service, too

from __future__ import annotations

from uuid import uuid4

from memsvc.client import to_proto
from memsvc.client.connection import Connected
from memsvc.client.request_types import TimeRange, WaitFor
from memsvc.v1 import consolidation_pb2
from memsvc.v1 import summaries_pb2 as summaries_pb


class Consolidations(Connected):
    """The calls that merge memories, part them again, and sum up."""

    async def consolidate(  # noqa: PLR0913 - an option each
        self,
        *,
        dry_run: bool = False,
        threshold: float | None = None,
        max_groups: int = 0,
        page_token: str = "",
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> consolidation_pb2.ConsolidateMemoriesResponse:
        """Merge memories of the project that say the same; with *dry_run* only tell which.

        A response with a `next_page_token` has not looked at all memories: send that to go on.
        """
        request = consolidation_pb2.ConsolidateMemoriesRequest(
            scope=self.scope,
            threshold=threshold,
            dry_run=dry_run,
            max_groups=max_groups,
            page_token=page_token,
            request_id=request_id or str(uuid4()),
            wait_for=to_proto.named("wait_for", wait_for),
        )
        return await self._remote.unary(self._remote.lifecycle.ConsolidateMemories, request, timeout)

    async def undo_consolidation(
        self,
        memory_id: str,
        *,
        expected_revision: int = 0,
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> consolidation_pb2.UndoConsolidationResponse:
        """Take a merged memory apart, which is named by its id or that of one of its originals.

        Raises:
            MemsvcCallError: ABORTED, the merged memory was changed since it was made: the error tells its revision,
                with which it can be undone all the same.
        """
        request = consolidation_pb2.UndoConsolidationRequest(
            scope=self.scope,
            id=memory_id,
            expected_revision=expected_revision,
            request_id=request_id or str(uuid4()),
            wait_for=to_proto.named("wait_for", wait_for),
        )
        return await self._remote.unary(self._remote.lifecycle.UndoConsolidation, request, timeout)

    async def summarize(  # noqa: PLR0913 - an option each
        self,
        month: str = "",
        *,
        topic: str = "",
        time_range: TimeRange | None = None,
        max_tokens: int = 0,
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> summaries_pb.SummarizePeriodResponse:
        """Sum up what the project's memories say of a month ("2026-02"), a span of time, a topic, or of both.

        Raises:
            MemsvcCallError: FAILED_PRECONDITION, there are no such memories.
        """
        request = summaries_pb.SummarizePeriodRequest(
            scope=self.scope,
            topic=topic,
            max_tokens=max_tokens,
            request_id=request_id or str(uuid4()),
            wait_for=to_proto.named("wait_for", wait_for),
        )
        if time_range is not None:
            request.time_range.CopyFrom(to_proto.time_range_to_proto("time_range", time_range))
        if month:
            request.month = month
        return await self._remote.unary(self._remote.lifecycle.SummarizePeriod, request, timeout)
