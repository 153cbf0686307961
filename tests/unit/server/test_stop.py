"""A server that stops: calls under way end, new ones are refused with a reason."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest

from memsvc.bootstrap.app import running
from memsvc.server.call_context import Call, CallNext
from memsvc.server.options import ServerOptions
from memsvc.settings import load_settings
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import Refusal
from tests.support.server_process import Stubs
from tests.support.server_thread import ServerThread
from tests.support.sqlite_store import SQLITE
from tests.support.until import until

IN_MEMORY = {"backend": "in-memory"}
SCOPE = types_pb.Scope(user_id="ada")


class Hold:
    """Holds calls of CreateMemory until they are released."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.released = threading.Event()

    async def intercept(self, call: Call, call_next: CallNext) -> Any:
        """Hold a call."""
        if call.method == "CreateMemory":
            self.entered.set()
            await asyncio.to_thread(self.released.wait)
        return await call_next(call)


def test_a_stop_refuses_new_calls_while_others_end(tmp_path: Path) -> None:
    """On connections that are open: with SERVER_STOPPING and a delay; the call under way succeeds."""
    settings = load_settings(
        data_dir=tmp_path / "data", metadata=SQLITE, vectors=IN_MEMORY, lexical=IN_MEMORY, embedder=IN_MEMORY
    )
    hold = Hold()
    options = ServerOptions(addresses=("127.0.0.1:0",), health_seconds=0.05)
    with running(settings) as application:
        server = ServerThread(application, options, layers=(hold,))
        server.start()
        with grpc.insecure_channel(server.addresses[0]) as channel:
            stubs = Stubs(channel)
            memory = types_pb.Memory(content="An egret.")
            under_way = stubs.memory.CreateMemory.future(memory_pb.CreateMemoryRequest(scope=SCOPE, memory=memory))
            assert hold.entered.wait(60)
            stopping = threading.Thread(target=server.stop)
            stopping.start()

            def refusal() -> Refusal | None:
                try:
                    stubs.memory.ListMemories(memory_pb.ListMemoriesRequest(scope=SCOPE))
                except grpc.RpcError as error:
                    return Refusal.from_error(error)
                return None

            refused = until(refusal)
            again = until(refusal)
            hold.released.set()
            created = under_way.result()
            stopping.join()

    assert (refused.code, refused.reason) == (grpc.StatusCode.UNAVAILABLE, "SERVER_STOPPING")
    assert (again.code, again.reason, again.retry_seconds) == (grpc.StatusCode.UNAVAILABLE, "SERVER_STOPPING", 1.0)
    assert created.memory.content == "An egret."


def test_a_stop_says_why_it_ends_a_stream(tmp_path: Path) -> None:
    """After the grace, a stream whose client is silent ends with SERVER_STOPPING and a delay."""
    settings = load_settings(
        data_dir=tmp_path / "data", metadata=SQLITE, vectors=IN_MEMORY, lexical=IN_MEMORY, embedder=IN_MEMORY
    )
    options = ServerOptions(addresses=("127.0.0.1:0",), health_seconds=0.05, grace_seconds=0.2)
    silent = threading.Event()

    def requests() -> Iterator[memory_pb.ImportMemoriesRequest]:
        yield memory_pb.ImportMemoriesRequest(header=memory_pb.ImportHeader(scope=SCOPE))
        silent.wait()

    with running(settings) as application, ExitStack() as channels:
        with ServerThread(application, options).serving() as address:
            stubs = Stubs(channels.enter_context(grpc.insecure_channel(address)))
            responses = stubs.memory.ImportMemories(requests())
            # The service has received the call when it answers a later one of the same connection.
            stubs.memory.ListMemories(memory_pb.ListMemoriesRequest(scope=SCOPE))
        with pytest.raises(grpc.RpcError) as caught:
            list(responses)
        silent.set()
        ended = Refusal.from_error(caught.value)

    assert (ended.code, ended.reason, ended.retry_seconds) == (grpc.StatusCode.UNAVAILABLE, "SERVER_STOPPING", 1.0)
