"""One bridge for a module, for a user of its own in a project."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.mcp.support import SECONDS, Bridge, bridged, parameters
from tests.support.server_process import ServerProcess


@pytest.fixture(scope="module")
def bridge(server: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bridge]:
    """A bridge to the session's server. It writes nothing to stderr."""
    errors: Path = tmp_path_factory.mktemp("bridge") / "stderr"
    options = ("--project", "web", "--time-zone", "Asia/Shanghai", "--patience", str(SECONDS))
    how = parameters(server.bound, f"bridge-{uuid.uuid4()}", *options)
    with errors.open("w") as file, bridged(how, file) as bridge:
        yield bridge
    assert errors.read_text() == ""
