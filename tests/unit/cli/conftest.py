"""A service for the commands."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from memsvc.cli.app import app
from memsvc.client import Memsvc

PORTS = ("VECTORS", "LEXICAL", "EMBEDDER")
FIRST_LINE = "memsvc is serving on "


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    """A short path: the name of a socket is at most 107 bytes long."""
    with tempfile.TemporaryDirectory(prefix="memsvc-") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def address(directory: Path) -> Iterator[str]:
    address = f"unix:{directory / 's'}"
    environment = os.environ | {f"MEMSVC_{port}__BACKEND": "in-memory" for port in PORTS}
    command = [sys.executable, "-m", "memsvc", "serve", "--address", address, "--data-dir", str(directory / "data")]
    command += ["--ready-file", str(directory / "ready")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line == f"{FIRST_LINE}{address} (data in {directory / 'data'})\n"
        with Memsvc(address, user_id="u") as client:
            client.wait_ready()
        yield address
        process.terminate()
        assert process.wait(30) == 0


@pytest.fixture
def run(address: str, request: pytest.FixtureRequest) -> Any:
    """Run a command as a user of its own for each test."""

    def run(*words: str, given: str = "", user: str = request.node.name, code: int = 0) -> str:
        told = CliRunner().invoke(app, [*words, "--address", address, "--user", user], input=given)
        assert told.exit_code == code, told.stderr
        return told.stdout

    return run
