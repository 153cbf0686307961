"""Writing memories."""
# ruff: noqa: ASYNC109 - the timeouts go to the service, too

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Sequence
from typing import Unpack, cast
from uuid import uuid4

from google.protobuf.field_mask_pb2 import FieldMask

from memsvc.client import to_proto
from memsvc.client.connection import Connected
from memsvc.client.import_stream import Upload
from memsvc.client.request_types import Changes, ConflictPolicy, Draft, MemoryFields, NewMemory, OnDuplicate, WaitFor
from memsvc.v1 import memory_service_pb2 as memories
from memsvc.v1 import types_pb2 as types


class Writes(Connected):
    """The calls that change memories."""

    async def create(  # noqa: PLR0913 - an option each
        self,
        content: str,
        *,
        vector: Sequence[float] = (),
        on_duplicate: OnDuplicate | None = None,
        conflict_policy: ConflictPolicy | None = None,
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
        **fields: Unpack[NewMemory],
    ) -> memories.CreateMemoryResponse:
        """Store one memory; under an existing key, update that one.

        Returns when searches see it, or when *wait_for* says. Equal content that is stored already is returned with
        the outcome DUPLICATE, or treated as *on_duplicate* says. An older memory that the new one contradicts is in
        `conflicts` of the reply, and treated as *conflict_policy* says: without one it becomes CONFLICTED. With the
        status QUARANTINED the memory waits for a review, and contradicts nothing until it is approved.
        """
        request = memories.CreateMemoryRequest(
            scope=self.scope,
            memory=to_proto.memory_to_proto(fields, content=content),
            vector=vector,
            request_id=request_id or str(uuid4()),
            on_duplicate=to_proto.named("on_duplicate", on_duplicate),
            conflict_policy=to_proto.named("conflict_policy", conflict_policy),
            wait_for=to_proto.named("wait_for", wait_for),
        )
        return await self._remote.unary(self._remote.memories.CreateMemory, request, timeout)

    async def create_many(
        self,
        drafts: Iterable[Draft | types.Memory],
        *,
        on_duplicate: OnDuplicate | None = None,
        conflict_policy: ConflictPolicy | None = None,
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> memories.BatchCreateMemoriesResponse:
        """Store 1 to 1 000 memories in one transaction. A bad one fails alone: see the status of its result."""
        request = memories.BatchCreateMemoriesRequest(
            scope=self.scope,
            memories=[to_proto.batch_memory_to_proto(draft) for draft in drafts],
            request_id=request_id or str(uuid4()),
            on_duplicate=to_proto.named("on_duplicate", on_duplicate),
            conflict_policy=to_proto.named("conflict_policy", conflict_policy),
            wait_for=to_proto.named("wait_for", wait_for),
        )
        return await self._remote.unary(self._remote.memories.BatchCreateMemories, request, timeout)

    async def import_memories(
        self,
        drafts: Iterable[Draft | types.Memory] | AsyncIterable[Draft | types.Memory],
        *,
        on_duplicate: OnDuplicate | None = None,
        conflict_policy: ConflictPolicy | None = None,
        wait_for: WaitFor | None = None,
        request_id: str = "",
    ) -> AsyncGenerator[memories.ImportMemoriesResponse, None]:
        """Store any number of memories and yield the progress; the last response is `done`.

        A broken connection is taken up again where the service says. The counts are of the whole call; what was stored
        just before a break may be missing in them, never in `next_index`. To go on with an import of another process,
        call again with its *request_id* and the same drafts from the first on. Plain iterables are read in a thread of
        their own.
        """
        header = memories.ImportHeader(
            scope=self.scope,
            request_id=request_id or str(uuid4()),
            on_duplicate=to_proto.named("on_duplicate", on_duplicate),
            conflict_policy=to_proto.named("conflict_policy", conflict_policy),
            wait_for=to_proto.named("wait_for", wait_for),
        )
        async for progress in Upload(self._remote.memories.ImportMemories, header, drafts).run():
            yield progress

    async def update(  # noqa: PLR0913 - an option each
        self,
        memory_id: str = "",
        *,
        expected_revision: int = 0,
        clear: Sequence[str] = (),
        conflict_policy: ConflictPolicy | None = None,
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
        **changes: Unpack[Changes],
    ) -> memories.UpdateMemoryResponse:
        """Change the given fields of a memory, and clear those that *clear* names.

        Without an id, the memory is the one with the given `key`. With a revision, the change is made only to that one.

        Raises:
            MemsvcCallError: ABORTED, the memory is at another revision; `metadata["revision"]` says at which.
        """
        given = dict(changes)
        vector = cast("Sequence[float]", given.pop("vector", ()))
        mask = [*(name for name in given if memory_id or name != "key"), *clear]
        request = memories.UpdateMemoryRequest(
            scope=self.scope,
            memory=to_proto.memory_to_proto(MemoryFields(), id=memory_id, **given),
            update_mask=FieldMask(paths=mask),
            vector=vector,
            expected_revision=expected_revision,
            request_id=request_id or str(uuid4()),
            wait_for=to_proto.named("wait_for", wait_for),
            conflict_policy=to_proto.named("conflict_policy", conflict_policy),
        )
        return await self._remote.unary(self._remote.memories.UpdateMemory, request, timeout)

    async def delete(
        self,
        memory_id: str,
        *,
        hard: bool = False,
        expected_revision: int = 0,
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> memories.DeleteMemoryResponse:
        """Delete a memory so that it can be restored, or when *hard* for good."""
        request = memories.DeleteMemoryRequest(
            scope=self.scope,
            id=memory_id,
            hard=hard,
            expected_revision=expected_revision,
            request_id=request_id or str(uuid4()),
            wait_for=to_proto.named("wait_for", wait_for),
        )
        return await self._remote.unary(self._remote.memories.DeleteMemory, request, timeout)

    async def restore(
        self,
        memory_id: str,
        *,
        expected_revision: int = 0,
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> memories.RestoreMemoryResponse:
        """Make a memory that was deleted or put aside ACTIVE again."""
        request = memories.RestoreMemoryRequest(
            scope=self.scope,
            id=memory_id,
            expected_revision=expected_revision,
            request_id=request_id or str(uuid4()),
            wait_for=to_proto.named("wait_for", wait_for),
        )
        return await self._remote.unary(self._remote.memories.RestoreMemory, request, timeout)
