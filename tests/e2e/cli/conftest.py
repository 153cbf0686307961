"""A service for the commands."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import invoke
from tests.support.server_process import ServerProcess

ENVIRONMENT = {f"MEMSVC_{port}__BACKEND": "in-memory" for port in ("VECTORS", "LEXICAL", "EMBEDDER")}


@pytest.fixture(scope="module")
def service() -> Iterator[ServerProcess]:
    """A service at a socket with a short path: the name of a socket is at most 107 bytes long."""
    with tempfile.TemporaryDirectory(prefix="memsvc-") as name:
        with ServerProcess(Path(name, "data"), ENVIRONMENT, f"unix:{name}/s") as server:
            yield server


@pytest.fixture(scope="module")
def address(service: ServerProcess) -> str:
    return service.bound


@pytest.fixture
def run(address: str, request: pytest.FixtureRequest) -> Any:
    """Run a command as a user of its own for each test."""

    def run(*words: str, given: str = "", user: str = request.node.name, code: int = 0) -> str:
        told = invoke(*words, "--address", address, "--user", user, given=given)
        assert told.exit_code == code, told.stderr
        return told.stdout

    return run
