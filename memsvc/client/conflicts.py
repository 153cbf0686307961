"""Superseding memories, and settling conflicts between them."""
# ruff: noqa: ASYNC109 - the timeouts go to the service, too

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Unpack
from uuid import uuid4

from memsvc.client import to_proto
from memsvc.client.connection import Connected
from memsvc.client.request_types import ConflictPolicy, ConflictState, MemoryFields, Resolution, WaitFor
from memsvc.v1 import conflicts_pb2
from memsvc.v1 import memory_service_pb2 as memories
from memsvc.v1 import types_pb2 as types


class Conflicts(Connected):
    """The calls about supersession and conflicts."""

    async def supersede(  # noqa: PLR0913 - an option each
        self,
        memory_id: str,
        content: str = "",
        *,
        by: str = "",
        vector: Sequence[float] = (),
        expected_revision: int = 0,
        conflict_policy: ConflictPolicy | None = None,
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
        **fields: Unpack[MemoryFields],
    ) -> conflicts_pb2.SupersedeMemoryResponse:
        """Put a new memory with this *content*, or the one whose id is *by*, in the place of an old one.

        The old one becomes DEPRECATED. A new one has its key, layer, kind, category, title, tags, importance and tier
        where it is given none.
        """
        new = types.Memory(id=by) if by else to_proto.memory_to_proto(fields, content=content)
        request = conflicts_pb2.SupersedeMemoryRequest(
            scope=self.scope,
            id=memory_id,
            memory=new,
            vector=vector,
            expected_revision=expected_revision,
            request_id=request_id or str(uuid4()),
            wait_for=to_proto.named("wait_for", wait_for),
            conflict_policy=to_proto.named("conflict_policy", conflict_policy),
        )
        return await self._remote.unary(self._remote.memories.SupersedeMemory, request, timeout)

    async def chain(self, memory_id: str, *, timeout: float | None = None) -> list[types.Memory]:
        """Return the memory with those it superseded before it and those that superseded it after it."""
        request = memories.GetMemoryRequest(scope=self.scope, id=memory_id, include_chain=True)
        response = await self._remote.unary(self._remote.memories.GetMemory, request, timeout)
        return list(response.chain)

    async def conflicts(
        self,
        *,
        states: Sequence[ConflictState] = ("OPEN",),
        memory_id: str = "",
        page_size: int = 0,
        timeout: float | None = None,
    ) -> AsyncGenerator[conflicts_pb2.Conflict, None]:
        """Yield the conflicts in one of *states*, the newest first, page by page; of one memory when named.

        The timeout holds for each page.
        """
        request = conflicts_pb2.ListConflictsRequest(
            scope=self.scope,
            states=[to_proto.named("states", state) for state in states],
            memory_id=memory_id,
            page_size=page_size,
        )
        async for page in self._remote.pages(self._remote.memories.ListConflicts, request, timeout):
            for conflict in page.conflicts:
                yield conflict

    async def resolve(
        self,
        conflict_id: str,
        resolution: Resolution,
        *,
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> conflicts_pb2.ResolveConflictResponse:
        """Settle an open conflict: CONFIRM the newer memory, REJECT it, or KEEP_BOTH."""
        request = conflicts_pb2.ResolveConflictRequest(
            scope=self.scope,
            conflict_id=conflict_id,
            resolution=to_proto.named("resolution", resolution),
            request_id=request_id or str(uuid4()),
            wait_for=to_proto.named("wait_for", wait_for),
        )
        return await self._remote.unary(self._remote.memories.ResolveConflict, request, timeout)
