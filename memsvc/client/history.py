"""Looking back and going back."""
# ruff: noqa: ASYNC109 - the timeouts go to the service, too

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import datetime
from uuid import uuid4

from memsvc.client import to_proto
from memsvc.client.connection import Connected
from memsvc.client.request_types import WaitFor
from memsvc.v1 import history_pb2 as history


class History(Connected):
    """The calls about revisions and checkpoints."""

    async def revisions(
        self, memory_id: str, *, page_size: int = 0, timeout: float | None = None
    ) -> AsyncGenerator[history.Revision, None]:
        """Yield the revisions of a memory, newest first, fetching page by page."""
        request = history.ListRevisionsRequest(scope=self.scope, id=memory_id, page_size=page_size)
        async for page in self._remote.pages(self._remote.memories.ListRevisions, request, timeout):
            for revision in page.revisions:
                yield revision

    async def rollback(
        self,
        memory_id: str,
        revision: int,
        *,
        expected_revision: int = 0,
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> history.RollbackMemoryResponse:
        """Make a memory say again what it said at an earlier revision, by a new revision.

        Raises:
            MemsvcCallError: NOT_FOUND, it has no such revision; ALREADY_EXISTS, its key or content of then is
                another memory's by now.
        """
        request = history.RollbackMemoryRequest(
            scope=self.scope,
            id=memory_id,
            revision=revision,
            expected_revision=expected_revision,
            request_id=request_id or str(uuid4()),
            wait_for=to_proto.named("wait_for", wait_for),
        )
        return await self._remote.unary(self._remote.memories.RollbackMemory, request, timeout)

    async def create_checkpoint(
        self,
        name: str,
        *,
        note: str = "",
        known_time: datetime | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> history.Checkpoint:
        """Name the present moment of the client's project, or an earlier one."""
        request = history.CreateCheckpointRequest(
            scope=self.scope,
            name=name,
            note=note,
            known_time=None if known_time is None else to_proto.timestamp_to_proto("known_time", known_time),
            request_id=request_id or str(uuid4()),
        )
        reply = await self._remote.unary(self._remote.lifecycle.CreateCheckpoint, request, timeout)
        return reply.checkpoint

    async def checkpoints(self, *, timeout: float | None = None) -> AsyncGenerator[history.Checkpoint, None]:
        """Yield the checkpoints of the client's project, newest first, fetching page by page."""
        request = history.ListCheckpointsRequest(scope=self.scope)
        async for page in self._remote.pages(self._remote.lifecycle.ListCheckpoints, request, timeout):
            for checkpoint in page.checkpoints:
                yield checkpoint

    async def diff_checkpoint(
        self, checkpoint: str, *, page_size: int = 0, timeout: float | None = None
    ) -> AsyncGenerator[history.Difference, None]:
        """Yield what is otherwise now than at a checkpoint, fetching page by page."""
        request = history.DiffCheckpointRequest(scope=self.scope, checkpoint=checkpoint, page_size=page_size)
        async for page in self._remote.pages(self._remote.lifecycle.DiffCheckpoint, request, timeout):
            for difference in page.differences:
                yield difference

    async def rollback_to_checkpoint(
        self,
        checkpoint: str,
        *,
        dry_run: bool = False,
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> history.RollbackToCheckpointResponse:
        """Bring all memories of the client's project back to what they said at a checkpoint.

        The reply names the checkpoint of the moment before: rolling back to that undoes it. When it fails with
        DEADLINE_EXCEEDED, call again with the same *request_id*: it goes on.
        """
        request = history.RollbackToCheckpointRequest(
            scope=self.scope,
            checkpoint=checkpoint,
            dry_run=dry_run,
            request_id=request_id or str(uuid4()),
            wait_for=to_proto.named("wait_for", wait_for),
        )
        return await self._remote.unary(self._remote.lifecycle.RollbackToCheckpoint, request, timeout)
