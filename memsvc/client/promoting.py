"""Keeping short-term memories for good."""
# ruff: noqa: ASYNC109 - the timeouts go to the service, too

from __future__ import annotations

from uuid import uuid4

from memsvc.client import to_proto
from memsvc.client.connection import Connected
from memsvc.client.request_types import WaitFor
from memsvc.v1 import promotion_pb2


class Promotions(Connected):
    """The call that promotes."""

    async def promote(  # noqa: PLR0913 - an option each
        self,
        memory_id: str,
        content: str = "",
        *,
        title: str = "",
        expected_revision: int = 0,
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> promotion_pb2.PromoteMemoryResponse:
        """Keep what a SHORT_TERM memory says in a LONG_TERM one, in other words when *content* is given."""
        request = promotion_pb2.PromoteMemoryRequest(
            scope=self.scope,
            id=memory_id,
            content=content,
            title=title,
            expected_revision=expected_revision,
            request_id=request_id or str(uuid4()),
            wait_for=to_proto.named("wait_for", wait_for),
        )
        return await self._remote.unary(self._remote.lifecycle.PromoteMemory, request, timeout)
