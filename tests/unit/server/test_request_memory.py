"""A call that failed lets go of its request: a few hundred of the largest would fill the memory of a sidecar."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from memsvc.bootstrap.app import running
from memsvc.server.call_context import Call, CallNext
from memsvc.server.options import ServerOptions
from memsvc.settings import BackendChoice, Settings
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import memory_service_pb2_grpc, search_service_pb2_grpc
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.server_thread import ServerThread
from tests.support.sqlite_store import SQLITE
from tests.support.until import until

SCOPE = types_pb.Scope(user_id="ada")
OURS_ALONE = 2
"""The references to an object that a list holds, while they are counted."""


class Seen:
    """A layer that keeps every request."""

    def __init__(self) -> None:
        self.requests: list[Any] = []

    async def intercept(self, call: Call, call_next: CallNext) -> Any:
        """Go on, and keep the request that was decoded."""
        try:
            return await call_next(call)
        finally:
            self.requests.append(call.request)


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def channel(tmp_path: Path, seen: Seen) -> Iterator[grpc.Channel]:
    """Serve, without looking for garbage."""
    chosen = BackendChoice(backend="in-memory")
    settings = Settings(
        data_dir=tmp_path,
        metadata=BackendChoice.model_validate(SQLITE),
        vectors=chosen,
        lexical=chosen,
        embedder=chosen,
    )
    with running(settings) as application:
        served = ServerThread(application, ServerOptions(addresses=("127.0.0.1:0",)), layers=(seen,))
        served.start()
        gc.disable()
        try:
            with grpc.insecure_channel(served.addresses[0]) as channel:
                yield channel
        finally:
            gc.enable()
            served.stop()


def is_refused(channel: grpc.Channel) -> None:
    """Send what breaks a rule."""
    memory_service_pb2_grpc.MemoryServiceStub(channel).CreateMemory(
        memory_pb.CreateMemoryRequest(scope=SCOPE, memory=types_pb.Memory(content="x" * 3_000_000))
    )


def is_not_found(channel: grpc.Channel) -> None:
    """Ask for what is not there: the error comes from another thread."""
    memory_service_pb2_grpc.MemoryServiceStub(channel).DeleteMemory(
        memory_pb.DeleteMemoryRequest(scope=SCOPE, id="0" * 26)
    )


def is_searched_badly(channel: grpc.Channel) -> None:
    """Search for too much."""
    search_service_pb2_grpc.SearchServiceStub(channel).Search(
        search_pb.SearchRequest(scope=SCOPE, query="x" * 1_000_000)
    )


@pytest.mark.parametrize("fails", [is_refused, is_not_found, is_searched_badly])
def test_a_call_that_failed_lets_go_of_its_request(
    channel: grpc.Channel, seen: Seen, fails: Callable[[grpc.Channel], None]
) -> None:
    """Its error names the frames it went through, and these name the error and the request."""
    with pytest.raises(grpc.RpcError):
        fails(channel)

    until(lambda: seen.requests and sys.getrefcount(seen.requests[0]) == OURS_ALONE)
