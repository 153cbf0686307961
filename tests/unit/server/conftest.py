"""A server over SQLite and in-process indexes, in a thread of its own; tests talk to it with the blocking client."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pytest
import structlog
from grpc_health.v1 import health_pb2, health_pb2_grpc

from memsvc.bootstrap.app import running
from memsvc.engine.services import Services
from memsvc.server.interceptors.chain import Interceptor
from memsvc.server.monitoring.health import READINESS
from memsvc.server.options import ServerOptions
from memsvc.server.server import Server, build
from memsvc.settings import BackendChoice, Settings
from memsvc.v1 import (
    admin_service_pb2_grpc,
    lifecycle_service_pb2_grpc,
    memory_service_pb2_grpc,
    search_service_pb2_grpc,
)
from tests.support.sqlite_store import SQLITE
from tests.support.until import PATIENCE_SECONDS, until

SERVING = health_pb2.HealthCheckResponse.SERVING


@dataclass(slots=True)
class Serving:
    """A running server, and clients of it."""

    application: Services
    options: ServerOptions
    addresses: tuple[str, ...] = ()
    layers: tuple[Interceptor, ...] = ()
    _ready: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _stop: asyncio.Event | None = None
    _loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Serve in a thread; return when calls are answered, and probes are told so."""
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        assert self._ready.wait(PATIENCE_SECONDS)
        with grpc.insecure_channel(self.addresses[0]) as channel:
            asked = health_pb2.HealthCheckRequest(service=READINESS)
            until(lambda: health_pb2_grpc.HealthStub(channel).Check(asked).status == SERVING)

    def stop(self) -> None:
        """Stop gracefully and wait for it."""
        assert self._loop
        assert self._stop
        assert self._thread
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server: Server = build(self.application, self.options, layers=self.layers)
        await server.start()
        self.addresses = tuple(server.addresses)
        self._ready.set()
        await self._stop.wait()
        await server.stop()


@dataclass(frozen=True, slots=True)
class Clients:
    """The stubs of all services on one channel."""

    channel: grpc.Channel
    memories: memory_service_pb2_grpc.MemoryServiceStub
    searches: search_service_pb2_grpc.SearchServiceStub
    lifecycle: lifecycle_service_pb2_grpc.LifecycleServiceStub
    admin: admin_service_pb2_grpc.AdminServiceStub


@pytest.fixture(scope="session", autouse=True)
def quiet() -> None:
    """Keep log lines out of the tests' output; they can still be captured."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())


@pytest.fixture(scope="session")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Serve over TCP and a unix socket."""
    directory: Path = tmp_path_factory.mktemp("server")
    chosen = BackendChoice(backend="in-memory")
    settings = Settings(
        data_dir=directory / "data",
        metadata=BackendChoice.model_validate(SQLITE),
        vectors=chosen,
        lexical=chosen,
        embedder=chosen,
    )
    addresses = ("127.0.0.1:0", f"unix:{directory}/memsvc.sock")
    options = ServerOptions(addresses=addresses, grace_seconds=1.0, health_seconds=0.05, version="1.2.3")
    with running(settings) as application:
        served = Serving(application, options)
        served.start()
        try:
            yield served
        finally:
            served.stop()


@pytest.fixture(scope="session")
def clients(serving: Serving) -> Iterator[Clients]:
    """Return stubs that talk to the server over TCP."""
    with grpc.insecure_channel(serving.addresses[0]) as channel:
        yield Clients(
            channel,
            memory_service_pb2_grpc.MemoryServiceStub(channel),
            search_service_pb2_grpc.SearchServiceStub(channel),
            lifecycle_service_pb2_grpc.LifecycleServiceStub(channel),
            admin_service_pb2_grpc.AdminServiceStub(channel),
        )
