"""The port for probes: health in plain text, nothing else, to the very end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from memsvc.bootstrap.app import running
from memsvc.server.addresses import AddressError
from memsvc.server.monitoring.health import MARK
from memsvc.server.options import ServerOptions
from memsvc.server.server import build
from memsvc.settings import BackendChoice, Settings
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import memory_service_pb2_grpc
from memsvc.v1 import types_pb2 as types_pb
from tests.support.server_thread import ServerThread
from tests.support.sqlite_store import SQLITE

SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
IN_PROCESS = BackendChoice(backend="in-memory")
STORE = BackendChoice.model_validate(SQLITE)


@pytest.fixture
def probed(tmp_path: Path) -> Iterator[ServerThread]:
    """Serve over TCP, with a port for probes on a socket; who needs it stopped stops it."""
    settings = Settings(
        data_dir=tmp_path / "data", metadata=STORE, vectors=IN_PROCESS, lexical=IN_PROCESS, embedder=IN_PROCESS
    )
    options = ServerOptions(
        addresses=("127.0.0.1:0",), health_address=f"unix:{tmp_path}/probes", grace_seconds=60, health_seconds=0.05
    )
    with running(settings) as application:
        served = ServerThread(application, options)
        served.start()
        try:
            yield served
        finally:
            if served._thread is not None and served._thread.is_alive():
                served.stop()


def probes(served: ServerThread) -> grpc.Channel:
    """Open a channel to the port for probes."""
    _, marked = served.addresses
    assert marked.startswith(MARK)
    return grpc.insecure_channel(marked.removeprefix(MARK))


def status(channel: grpc.Channel, service: str = "readiness") -> int:
    """Return what is told of a service."""
    stub = health_pb2_grpc.HealthStub(channel)
    answer: int = stub.Check(health_pb2.HealthCheckRequest(service=service)).status
    return answer


def test_it_tells_health_of_everything_and_knows_no_other_method(probed: ServerThread) -> None:
    """Neither ours nor reflection; where ours are, health is told too."""
    with probes(probed) as channel:
        told = {name: status(channel, name) for name in ("", "liveness", "readiness", "memsvc.v1.SearchService")}
        memories = memory_service_pb2_grpc.MemoryServiceStub(channel)
        with pytest.raises(grpc.RpcError) as refused:
            memories.ListMemories(memory_pb.ListMemoriesRequest(scope=types_pb.Scope(user_id="ann")))
        reflect: Any = channel.stream_stream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
        with pytest.raises(grpc.RpcError) as unreflected:
            next(reflect(iter([b""])))

    assert set(told.values()) == {SERVING}
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert unreflected.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_while_calls_end_it_tells_that_no_more_should_come(probed: ServerThread) -> None:
    """And when they have ended, its socket is gone."""
    more = threading.Event()

    def nothing_yet() -> Iterator[memory_pb.ImportMemoriesRequest]:
        yield memory_pb.ImportMemoriesRequest(header=memory_pb.ImportHeader(scope=types_pb.Scope(user_id="ann")))
        more.wait()

    with probes(probed) as channel, grpc.insecure_channel(probed.addresses[0]) as calls:
        answers = memory_service_pb2_grpc.MemoryServiceStub(calls).ImportMemories(nothing_yet())
        next(answers)
        stopping = threading.Thread(target=probed.stop)
        stopping.start()
        watched = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(service="readiness"))
        leaving = next(answer.status for answer in watched if answer.status != SERVING)
        watched.cancel()
        more.set()
        stopping.join()
    (socket,) = [probed.options.health_address.removeprefix("unix:")]

    assert leaving == NOT_SERVING
    assert not Path(socket).exists()


def test_an_address_that_is_taken_is_told(probed: ServerThread) -> None:
    """As with every address, and what listens already goes on."""
    taken = ServerOptions(addresses=("127.0.0.1:0",), health_address=probed.options.health_address)

    async def start() -> None:
        server = build(probed.application, taken)
        try:
            await server.start()
        finally:
            await server.stop()

    with pytest.raises(AddressError, match="another process does"):
        asyncio.run(start())
    with probes(probed) as channel:
        assert status(channel) == SERVING
