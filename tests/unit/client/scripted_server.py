"""A service on a real wire that answers by script, for what a real one does only on bad days."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc import code_pb2, error_details_pb2
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import admin_service_pb2_grpc, memory_service_pb2_grpc
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb


class Memories(memory_service_pb2_grpc.MemoryServiceServicer):
    """Counts what it is sent.

    The first *failing* creates fail, and the first *limited* creates and deletions are refused by *limited_code* with a delay of
    *retry_seconds*, or none; an import breaks after *breaking* batches, once. Reads get no response, and watches end after
    *heartbeats* responses.
    """

    def __init__(self, *, failing: int = 0, breaking: int = 0) -> None:
        self.failing = failing
        self.failure = grpc.StatusCode.UNAVAILABLE
        self.limited = 0
        self.limited_code = code_pb2.RESOURCE_EXHAUSTED
        self.retry_seconds: float | None = 0.01
        self.breaking = breaking
        self.request_ids: list[str] = []
        self.streams: list[list[int]] = []
        self.stored = 0
        self.pages: list[str] = []
        self.heartbeats = 0
        self.watches = 0
        self.called = threading.Event()

    def CreateMemory(
        self, request: memory_pb.CreateMemoryRequest, context: grpc.ServicerContext
    ) -> memory_pb.CreateMemoryResponse:
        self.request_ids.append(request.request_id)
        if len(self.request_ids) <= self.failing:
            context.abort(self.failure, "not now")
        self._limit(context)
        return memory_pb.CreateMemoryResponse(memory=request.memory, outcome=types_pb.WRITE_OUTCOME_CREATED)

    def GetMemory(self, _: memory_pb.GetMemoryRequest, context: grpc.ServicerContext) -> memory_pb.GetMemoryResponse:
        ended = threading.Event()
        context.add_callback(ended.set)
        self.called.set()
        ended.wait()
        return memory_pb.GetMemoryResponse()

    def WatchMemories(
        self, _: memory_pb.WatchMemoriesRequest, __: grpc.ServicerContext
    ) -> Iterator[memory_pb.WatchMemoriesResponse]:
        self.watches += 1
        for _number in range(self.heartbeats):
            yield memory_pb.WatchMemoriesResponse(heartbeat=memory_pb.WatchHeartbeat())

    def _limit(self, context: grpc.ServicerContext) -> None:
        self.called.set()
        if self.limited:
            self.limited -= 1
            status = Status(code=self.limited_code, message="too many calls")
            if self.retry_seconds is not None:
                delay = Duration()
                delay.FromNanoseconds(round(self.retry_seconds * 1_000_000_000))
                status.details.add().Pack(error_details_pb2.RetryInfo(retry_delay=delay))
            context.abort_with_status(rpc_status.to_status(status))

    def DeleteMemories(
        self, request: memory_pb.DeleteMemoriesRequest, context: grpc.ServicerContext
    ) -> Iterator[memory_pb.DeleteMemoriesResponse]:
        self._limit(context)
        yield memory_pb.DeleteMemoriesResponse(preview=memory_pb.SelectionPreview(matched_count=3))

    def ListMemories(
        self, request: memory_pb.ListMemoriesRequest, _: grpc.ServicerContext
    ) -> memory_pb.ListMemoriesResponse:
        self.pages.append(request.page_token)
        page = int(request.page_token or "0")
        found = [types_pb.Memory(id=f"{page}-{number}") for number in range(2)]
        return memory_pb.ListMemoriesResponse(memories=found, next_page_token=str(page + 1) if page < 2 else "")

    def ImportMemories(
        self, request_iterator: Iterator[memory_pb.ImportMemoriesRequest], context: grpc.ServicerContext
    ) -> Iterator[memory_pb.ImportMemoriesResponse]:
        indexes: list[int] = []
        self.streams.append(indexes)
        self.request_ids.append(next(request_iterator).header.request_id)
        begin, received = self.stored, 0
        yield memory_pb.ImportMemoriesResponse(next_index=begin)
        for request in request_iterator:
            indexes.append(request.batch.first_index)
            if self.breaking and len(indexes) > self.breaking:
                self.breaking = 0
                context.abort(self.failure, "the connection broke")
            self.stored = max(self.stored, request.batch.first_index + len(request.batch.memories))
            received = self.stored - begin
            yield memory_pb.ImportMemoriesResponse(
                received_count=received, created_count=received, next_index=self.stored
            )
        yield memory_pb.ImportMemoriesResponse(
            received_count=received, created_count=received, next_index=self.stored, done=True
        )


class Admin(admin_service_pb2_grpc.AdminServiceServicer):
    """Reindexes without end."""

    def Reindex(
        self, request: admin_pb.ReindexRequest, context: grpc.ServicerContext
    ) -> Iterator[admin_pb.ReindexResponse]:
        done = 0
        while context.is_active():
            done += 1
            yield admin_pb.ReindexResponse(index=request.indexes[0], done_count=done)


@contextmanager
def scripted_service(service: Memories, directory: Path) -> Iterator[str]:
    """Serve on a unix socket and yield the address."""
    address = f"unix:{directory / 'memsvc.sock'}"
    server = grpc.server(ThreadPoolExecutor(4))
    memory_service_pb2_grpc.add_MemoryServiceServicer_to_server(service, server)
    admin_service_pb2_grpc.add_AdminServiceServicer_to_server(Admin(), server)  # type: ignore[abstract]  # the rest is UNIMPLEMENTED
    server.add_insecure_port(address)
    server.start()
    try:
        yield address
    finally:
        server.stop(None).wait()
