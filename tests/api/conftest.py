"""One server for the whole session, in the process of the tests; every test is a user of its own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
import structlog

from memsvc.v1 import types_pb2 as types_pb
from tests.support.server_process import Stubs
from tests.support.server_thread import served


@pytest.fixture(scope="session", autouse=True)
def quiet() -> None:
    """Keep log lines out of the tests' output; they can still be captured."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())


@pytest.fixture(scope="session")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stubs]:
    """The stubs of the session's server."""
    with served(tmp_path_factory.mktemp("api") / "data") as stubs:
        yield stubs


@pytest.fixture
def user() -> str:
    """A user that no other test has."""
    return f"user-{uuid.uuid4()}"


@pytest.fixture
def scope(user: str) -> types_pb.Scope:
    """The global scope of the test's user."""
    return types_pb.Scope(user_id=user)
