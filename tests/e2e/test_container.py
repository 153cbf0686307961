"""What of the container can be tested without one: its health check, and that the image gets what it needs."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.running import FAST, ROOT, ServerProcess

DOCKER = ROOT / "docker"


@pytest.fixture
def ready_server(tmp_path: Path) -> Iterator[tuple[ServerProcess, Path]]:
    """A server, and the file with its addresses."""
    ready = tmp_path / "ready"
    with ServerProcess(tmp_path / "data", {**FAST, "MEMSVC_EMBEDDER__BACKEND": "inproc"}) as server:
        ready.write_text(f"{server.bound}\n", encoding="utf-8")
        yield server, ready


def health(ready: Path) -> int:
    """Return the exit code of the health check."""
    return subprocess.run([sys.executable, str(DOCKER / "health.py"), str(ready)], check=False, timeout=60).returncode


def test_health_check_follows_the_service(ready_server: tuple[ServerProcess, Path]) -> None:
    """The check succeeds while the service serves, also on all addresses, and fails when it is gone."""
    server, ready = ready_server

    serving = health(ready)
    ready.write_text(f"0.0.0.0:{server.bound.rpartition(':')[2]}\n", encoding="utf-8")
    serving_everywhere = health(ready)
    server.stop()
    stopped = health(ready)

    assert (serving, serving_everywhere, stopped) == (0, 0, 1)


def test_health_check_fails_before_the_service_has_started(tmp_path: Path) -> None:
    """Without the file the check fails in good order."""
    assert health(tmp_path / "ready") == 1


def test_all_that_the_image_copies_is_sent_to_the_engine() -> None:
    """Every source of a COPY exists and is let through by the ignore file."""
    copies = re.findall(r"^COPY (?!--from)(.*) \S+$", (DOCKER / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    sources = {source for copy in copies for source in copy.split()}
    let_through = {
        line.removeprefix("!")
        for line in (DOCKER / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
        if line.startswith("!")
    }

    assert sources == let_through
    assert all((ROOT / source).exists() for source in sources)
