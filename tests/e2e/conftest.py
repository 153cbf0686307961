"""One real server for the whole session; every test is a user of its own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from memsvc.v1 import types_pb2 as types_pb
from tests.support.connect_channel import ConnectChannel
from tests.support.server_process import FAST, HTTP, ServerProcess, Stubs

STEADY = {**FAST, "MEMSVC_INDEXING__UPKEEP_SECONDS": "3600", "MEMSVC_MAINTENANCE__INTERVAL_MINUTES": "0"}
"""Nothing is rebuilt or put away by itself: what all tests together store would have the vectors made anew now and then,
with other means and so other scores, between two searches of a test that compares them."""


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A running server with the real engines and the fast embedder."""
    with ServerProcess(tmp_path_factory.mktemp("server") / "data", {**STEADY, **HTTP}) as running:
        yield running


@pytest.fixture(scope="session")
def stubs(server: ServerProcess) -> Iterator[Stubs]:
    """The stubs of the session's server."""
    with server.stubs() as stubs:
        yield stubs


@pytest.fixture(scope="module")
def stubs_over_http(server: ServerProcess) -> Iterator[Stubs]:
    """Stubs that call the session's server by the Connect protocol with JSON."""
    with ConnectChannel(server.url) as channel:
        yield Stubs(channel)


@pytest.fixture(scope="module")
def binary_stubs_over_http(server: ServerProcess) -> Iterator[Stubs]:
    """Stubs that call it likewise, with binary messages: JSON cannot say everything that is wrong."""
    with ConnectChannel(server.url, form="proto") as channel:
        yield Stubs(channel)


@pytest.fixture
def user() -> str:
    """A user that nobody else is."""
    return f"user-{uuid.uuid4()}"


@pytest.fixture
def scope(user: str) -> types_pb.Scope:
    """The global scope of the test's user."""
    return types_pb.Scope(user_id=user)
