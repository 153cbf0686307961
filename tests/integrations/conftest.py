"""One real server for the session; every test is a user of its own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from memsvc.client import Memsvc
from tests.support.server_process import FAST, ServerProcess

STEADY = {**FAST, "MEMSVC_INDEXING__UPKEEP_SECONDS": "3600", "MEMSVC_MAINTENANCE__INTERVAL_MINUTES": "0"}


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A running server with the real engines and the fast embedder."""
    with ServerProcess(tmp_path_factory.mktemp("server") / "data", STEADY) as running:
        yield running


@pytest.fixture
def user() -> str:
    """A user that nobody else is."""
    return f"user-{uuid.uuid4()}"


@pytest.fixture
def client(server: ServerProcess, user: str) -> Iterator[Memsvc]:
    """A blocking client of the test's user."""
    with Memsvc(server.bound, user_id=user, project_id="agents") as client:
        yield client
