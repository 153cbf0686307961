"""A service on a real wire that answers by script, for what a real one does only on bad days."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc

from memsvc.v1 import lifecycle_service_pb2 as lifecycle
from memsvc.v1 import lifecycle_service_pb2_grpc, memory_service_pb2_grpc
from memsvc.v1 import memory_service_pb2 as memories
from memsvc.v1 import types_pb2 as types


class Memories(memory_service_pb2_grpc.MemoryServiceServicer):
    """Counts what it is sent. The first *failing* creates fail; an import breaks after *breaking* batches, once."""

    def __init__(self, *, failing: int = 0, breaking: int = 0) -> None:
        self.failing = failing
        self.breaking = breaking
        self.request_ids: list[str] = []
        self.streams: list[list[int]] = []
        self.stored = 0
        self.pages: list[str] = []

    def CreateMemory(
        self, request: memories.CreateMemoryRequest, context: grpc.ServicerContext
    ) -> memories.CreateMemoryResponse:
        self.request_ids.append(request.request_id)
        if len(self.request_ids) <= self.failing:
            context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
        return memories.CreateMemoryResponse(memory=request.memory, outcome=types.WRITE_OUTCOME_CREATED)

    def ListMemories(
        self, request: memories.ListMemoriesRequest, _: grpc.ServicerContext
    ) -> memories.ListMemoriesResponse:
        self.pages.append(request.page_token)
        page = int(request.page_token or "0")
        found = [types.Memory(id=f"{page}-{number}") for number in range(2)]
        return memories.ListMemoriesResponse(memories=found, next_page_token=str(page + 1) if page < 2 else "")

    def ImportMemories(
        self, request_iterator: Iterator[memories.ImportMemoriesRequest], context: grpc.ServicerContext
    ) -> Iterator[memories.ImportMemoriesResponse]:
        indexes: list[int] = []
        self.streams.append(indexes)
        self.request_ids.append(next(request_iterator).header.request_id)
        begin, received = self.stored, 0
        yield memories.ImportMemoriesResponse(next_index=begin)
        for request in request_iterator:
            indexes.append(request.batch.first_index)
            if self.breaking and len(indexes) > self.breaking:
                self.breaking = 0
                context.abort(grpc.StatusCode.UNAVAILABLE, "the connection broke")
            self.stored = max(self.stored, request.batch.first_index + len(request.batch.memories))
            received = self.stored - begin
            yield memories.ImportMemoriesResponse(received=received, created=received, next_index=self.stored)
        yield memories.ImportMemoriesResponse(received=received, created=received, next_index=self.stored, done=True)


class Lifecycle(lifecycle_service_pb2_grpc.LifecycleServiceServicer):
    """Reindexes without end."""

    def Reindex(
        self, request: lifecycle.ReindexRequest, context: grpc.ServicerContext
    ) -> Iterator[lifecycle.ReindexResponse]:
        done = 0
        while context.is_active():
            done += 1
            yield lifecycle.ReindexResponse(index=request.indexes[0], done=done)


@contextmanager
def scripted_service(service: Memories, directory: Path) -> Iterator[str]:
    """Serve on a unix socket and yield the address."""
    address = f"unix:{directory / 'memsvc.sock'}"
    server = grpc.server(ThreadPoolExecutor(4))
    memory_service_pb2_grpc.add_MemoryServiceServicer_to_server(service, server)
    lifecycle_service_pb2_grpc.add_LifecycleServiceServicer_to_server(Lifecycle(), server)  # type: ignore[abstract]  # the rest is UNIMPLEMENTED
    server.add_insecure_port(address)
    server.start()
    try:
        yield address
    finally:
        server.stop(None).wait()
