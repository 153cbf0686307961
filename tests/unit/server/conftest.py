"""A server over SQLite and in-process indexes, in a thread of its own; tests talk to it with the blocking client."""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
import structlog
from grpc_health.v1 import health_pb2

from memsvc.bootstrap.app import running
from memsvc.server import call_context
from memsvc.server.options import ServerOptions
from memsvc.settings import BackendChoice, Settings
from memsvc.v1 import (
    admin_service_pb2_grpc,
    lifecycle_service_pb2_grpc,
    memory_service_pb2_grpc,
    search_service_pb2_grpc,
)
from tests.support.server_thread import ServerThread
from tests.support.sqlite_store import SQLITE

SERVING = health_pb2.HealthCheckResponse.SERVING


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


@pytest.fixture(autouse=True)
def _outside_of_calls() -> Iterator[None]:
    """Fail a test that leaves a call set in the context of the process, in which all later tests would run."""
    variables = [value for value in vars(call_context).values() if isinstance(value, ContextVar)]
    before = {variable.name: variable.get() for variable in variables}
    yield
    assert {variable.name: variable.get() for variable in variables} == before


@pytest.fixture(scope="session")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerThread]:
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
        served = ServerThread(application, options)
        served.start()
        try:
            yield served
        finally:
            served.stop()


@pytest.fixture(scope="session")
def clients(serving: ServerThread) -> Iterator[Clients]:
    """Return stubs that talk to the server over TCP."""
    with grpc.insecure_channel(serving.addresses[0]) as channel:
        yield Clients(
            channel,
            memory_service_pb2_grpc.MemoryServiceStub(channel),
            search_service_pb2_grpc.SearchServiceStub(channel),
            lifecycle_service_pb2_grpc.LifecycleServiceStub(channel),
            admin_service_pb2_grpc.AdminServiceStub(channel),
        )
