"""What the Dockerfile installs, run as the image runs it: read-only, by a user without a home, into one volume."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from memsvc.client import Memsvc
from tests.e2e.deployment.dockerfile import Image, instructions
from tests.support.server_process import ROOT

# One install for all of them.
pytestmark = [pytest.mark.xdist_group("image"), pytest.mark.timeout(600)]

NOBODY = 10001
SECONDS = 120
VARIABLES = {
    "MEMSVC_HTTP__ADDRESS": "127.0.0.1:0",
    "MEMSVC_SERVER__ADDRESS": "127.0.0.1:0",
    # Shown to everybody although no key was ever made: it tells nothing but health.
    "MEMSVC_SERVER__HEALTH_ADDRESS": "0.0.0.0:0",
    "MEMSVC_LOG__LEVEL": "WARNING",
}


def other_user(image: Image) -> dict[str, Any]:
    """Return how to run a process as the image's user, where we may and its Python is not hidden from others."""
    as_nobody: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    try:
        subprocess.run([image.root / "opt/memsvc/bin/python", "-c", ""], env={}, check=True, **as_nobody)
    except (PermissionError, subprocess.CalledProcessError):
        return {}
    return as_nobody


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    """Return every file with its size and when it was written."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    """Build it, and take away the right to write to it. Not in pytest's folder, which is hidden from other users."""
    root = Path(tempfile.mkdtemp(prefix="memsvc-image-"))
    root.chmod(0o755)
    image = Image(root)
    try:
        image.build("postgres,otel")
        for path in (root / "opt").rglob("*"):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
        volume = root / "var/lib/memsvc"
        volume.mkdir(parents=True, mode=0o700)
        if user := other_user(image):
            os.chown(volume, user["user"], user["group"])
        yield image
    finally:
        for path in (root / "opt").rglob("*"):
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o755)
        shutil.rmtree(root)


def run(image: Image, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the image."""
    return subprocess.run(
        command, cwd=image.root / "var/lib/memsvc", env=image.environment(VARIABLES | variables), timeout=SECONDS + 60,
        check=False, capture_output=True, text=True, **other_user(image),
    )  # fmt: skip


def test_the_image_holds_the_extras_asked_for_and_no_tool(image: Image) -> None:
    """What only another extra needs, and what only building needs, is not in it."""
    script = (
        "import importlib.util as u; names = ('memsvc', 'psycopg', 'opentelemetry', 's3fs', 'openai', 'hatchling', 'pip')\n"
        "print([name for name in names if u.find_spec(name)])"
    )
    done = run(image, f"{image.root}/opt/memsvc/bin/python", "-c", script)

    assert done.stdout.strip() == "['memsvc', 'psycopg', 'opentelemetry']", done.stderr


def test_it_serves_tells_its_health_and_stops_in_good_order(image: Image) -> None:
    """As the image does by itself: its command, its health check, its variables. Nothing but the volume is written to."""
    before, ready = listing(image.root / "opt"), image.root / "var/lib/memsvc/ready"
    not_started = run(image, *image.healthcheck())
    process = subprocess.Popen(
        image.command(), cwd=image.root / "var/lib/memsvc", env=image.environment(VARIABLES), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **other_user(image),
    )  # fmt: skip
    try:
        started = run(image, *image.healthcheck(), "--wait", str(SECONDS))
        address, probed, web = ready.read_text().split()
        with Memsvc(address, user_id="ann") as client:
            made = client.create("The lighthouse is painted red.")
            found = client.search("What colour is the lighthouse?").hits[0].memory.id
        process.terminate()
        said, _ = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    stopped = run(image, *image.healthcheck())

    assert (not_started.returncode, started.returncode, stopped.returncode) == (1, 0, 1), started.stderr + said
    assert made.memory.id == found
    assert web.startswith("http://127.0.0.1:")
    assert probed.startswith("health://0.0.0.0:")
    assert process.returncode == 0, said
    assert listing(image.root / "opt") == before
    assert sorted(path.name for path in image.root.iterdir()) == ["opt", "var"]


def test_commands_of_the_image_say_who_they_are(image: Image) -> None:
    """Without a home, without a data directory."""
    done = run(image, f"{image.root}/opt/memsvc/bin/memsvc", "--version")

    assert done.stdout.strip() == version("memsvc"), done.stderr


def test_all_that_the_image_copies_is_sent_to_the_engine() -> None:
    """Every source of a COPY exists and is let through by the ignore file, and nothing else is."""
    copies = [rest for word, rest in instructions(0) if word == "COPY"]
    sources = {source for copy in copies for source in copy.split()[:-1]}
    ignored = (ROOT / "docker" / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()

    assert sources == {line.removeprefix("!") for line in ignored if line.startswith("!")}
    assert all((ROOT / source).exists() for source in sources)
