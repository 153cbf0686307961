"""MemoryService: each method checks and converts, calls the engine, and converts back."""

# ruff: noqa: N802, ARG002 - names and arguments are gRPC's
from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, TypeAlias

import grpc

from memsvc.domain.write_requests import Written
from memsvc.server import call_context
from memsvc.server.capturing import CapturingMethods
from memsvc.server.conflicts import ConflictCalls, with_chain
from memsvc.server.convert import writes as out
from memsvc.server.convert.drafts import draft_from_proto, write_options
from memsvc.server.convert.memory import fill_memory
from memsvc.server.convert.patches import patch_from_proto
from memsvc.server.convert.scope import scope_from
from memsvc.server.convert.vectors import numbers_from_proto
from memsvc.server.reviewing import ReviewMethods
from memsvc.server.server_context import ServerContext
from memsvc.server.services.history import RevisionMethods, get_memory
from memsvc.server.services.listing import batch_get_memories, batch_written, list_memories
from memsvc.server.streams.memory_import import ImportStream
from memsvc.server.validate import reads, writes
from memsvc.server.watching_methods import WatchingMethods
from memsvc.v1 import memory_service_pb2 as pb
from memsvc.v1 import memory_service_pb2_grpc as pb_grpc

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class MemoryServicer(
    CapturingMethods, RevisionMethods, WatchingMethods, ReviewMethods, ConflictCalls, pb_grpc.MemoryServiceServicer
):
    """Writes memories and reads them by id, by key or as a list."""

    def __init__(self, edge: ServerContext) -> None:
        self._edge = edge
        self._app = edge.application
        self._write = edge.executors.write
        self._meta = edge.executors.meta

    async def CreateMemory(self, request: pb.CreateMemoryRequest, context: Context) -> pb.CreateMemoryResponse:
        """Store one memory."""
        numbers = numbers_from_proto(request)
        writes.check_create(request, numbers, dimension=self._app.dimension)
        scope = scope_from(request.scope, call_context.principal.get())
        draft = draft_from_proto(request.memory, numbers)
        options = write_options(
            request.request_id,
            on_duplicate=request.on_duplicate,
            wait_for=request.wait_for,
            conflict_policy=request.conflict_policy,
        )
        written = await self._write.run(self._app.remember.create, scope, draft, options)
        await self._edge.waits.written(written, options.wait_for)
        return out.created_to_proto(written)

    async def BatchCreateMemories(
        self, request: pb.BatchCreateMemoriesRequest, context: Context
    ) -> pb.BatchCreateMemoriesResponse:
        """Store several memories in one transaction. Converting so many is work for a thread, too."""
        writes.check_batch_create(request)
        scope = scope_from(request.scope, call_context.principal.get())
        options = write_options(
            request.request_id,
            on_duplicate=request.on_duplicate,
            wait_for=request.wait_for,
            conflict_policy=request.conflict_policy,
        )
        batch, response = await self._write.run(batch_written, self._app, scope, request, options)
        await self._edge.waits.batch_written(batch, options.wait_for)
        return response

    async def ImportMemories(
        self, request_iterator: AsyncIterator[pb.ImportMemoriesRequest], context: Context
    ) -> AsyncGenerator[pb.ImportMemoriesResponse, None]:
        """Store any number of memories and tell the progress."""
        async with aclosing(ImportStream(self._edge, request_iterator).responses()) as responses:
            async for response in responses:
                yield response

    async def GetMemory(self, request: pb.GetMemoryRequest, context: Context) -> pb.GetMemoryResponse:
        """Return one memory by id or key."""
        reads.check_get(request)
        scope = scope_from(request.scope, call_context.principal.get())
        memory = await self._meta.run(get_memory, self._edge, scope, request)
        response = pb.GetMemoryResponse()
        fill_memory(response.memory, memory)
        if request.include_chain:
            await self._meta.run(with_chain, self._app, scope, memory, response)
        return response

    async def BatchGetMemories(
        self, request: pb.BatchGetMemoriesRequest, context: Context
    ) -> pb.BatchGetMemoriesResponse:
        """Return several memories by id."""
        reads.check_batch_get(request)
        scope = scope_from(request.scope, call_context.principal.get())
        return await self._meta.run(batch_get_memories, self._app, scope, request)

    async def ListMemories(self, request: pb.ListMemoriesRequest, context: Context) -> pb.ListMemoriesResponse:
        """Return a page of the memories that match a filter."""
        reads.check_list(request)
        scope = scope_from(request.scope, call_context.principal.get())
        return await self._meta.run(list_memories, self._app, scope, request, self._edge.now())

    async def UpdateMemory(self, request: pb.UpdateMemoryRequest, context: Context) -> pb.UpdateMemoryResponse:
        """Change fields of one memory."""
        writes.check_update(request, dimension=self._app.dimension)
        options = write_options(request.request_id, wait_for=request.wait_for, conflict_policy=request.conflict_policy)
        written = await self._write.run(
            self._app.revise.update,
            scope_from(request.scope, call_context.principal.get()),
            memory_id=request.memory.id.lower(),
            key="" if request.memory.id else request.memory.key,
            patch=patch_from_proto(request),
            expected_revision=request.expected_revision,
            options=options,
        )
        await self._edge.waits.written(written, options.wait_for)
        return out.updated_to_proto(written)

    async def DeleteMemory(self, request: pb.DeleteMemoryRequest, context: Context) -> pb.DeleteMemoryResponse:
        """Delete one memory, softly or for good."""
        writes.check_one(request)
        options = write_options(request.request_id, wait_for=request.wait_for)
        written: Written = await self._write.run(
            self._app.revise.delete,
            scope_from(request.scope, call_context.principal.get()),
            request.id.lower(),
            hard=request.hard,
            expected_revision=request.expected_revision,
            options=options,
        )
        await self._edge.waits.written(written, options.wait_for)
        return out.deleted_to_proto(written, hard=request.hard)

    async def RestoreMemory(self, request: pb.RestoreMemoryRequest, context: Context) -> pb.RestoreMemoryResponse:
        """Make a memory ACTIVE again."""
        writes.check_one(request)
        options = write_options(request.request_id, wait_for=request.wait_for)
        written = await self._write.run(
            self._app.revise.restore,
            scope_from(request.scope, call_context.principal.get()),
            request.id.lower(),
            expected_revision=request.expected_revision,
            options=options,
        )
        await self._edge.waits.written(written, options.wait_for)
        return out.restored_to_proto(written)
