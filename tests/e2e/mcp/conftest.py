"""One bridge for a module, for a user of its own in a project."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.mcp.support import PROGRAM, SECONDS, Bridge, bridged, parameters
from tests.support.server_process import ServerProcess
from tests.support.warm_command import warm_command


@pytest.fixture(scope="session", autouse=True)
def _program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Bridges run in forks of the warm interpreter; the tests of configurations start the installed program."""
    installed = replace(PROGRAM)
    with warm_command(tmp_path_factory.mktemp("programs")) as folder:
        PROGRAM.command, PROGRAM.arguments = str(folder / "memsvc"), ()
        yield
        PROGRAM.command, PROGRAM.arguments = installed.command, installed.arguments


@pytest.fixture(scope="module")
def bridge(server: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bridge]:
    """A bridge to the session's server. It writes nothing to stderr."""
    errors: Path = tmp_path_factory.mktemp("bridge") / "stderr"
    options = ("--project", "web", "--time-zone", "Asia/Shanghai", "--patience", str(SECONDS))
    how = parameters(server.bound, f"bridge-{uuid.uuid4()}", *options)
    with errors.open("w") as file, bridged(how, file) as bridge:
        yield bridge
    assert errors.read_text() == ""
