"""A server of its own for the demo: a real process on a free port, stopped gracefully at the end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import memsvc
from memsvc.cli.errors import CommandError

START_SECONDS = 120.0
STOP_SECONDS = 30.0
LOOK_SECONDS = 0.05
SHOWN_LOG_CHARS = 2_000


@contextmanager
def demo_server(directory: Path, *, embedder: str = "") -> Iterator[str]:
    """Run `memsvc serve` with its data in *directory* and yield its address.

    The machine's own settings do not take part: the demo shows the defaults.

    Raises:
        CommandError: The server did not start; the message has the end of its log.
    """
    log = directory / "server.log"
    ready = directory / "ready"
    ready.unlink(missing_ok=True)
    command = [sys.executable, "-m", "memsvc", "serve", "--address", "127.0.0.1:0"]
    command += ["--data-dir", str(directory / "data"), "--ready-file", str(ready)]
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own command
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=directory, env=_environment(embedder)
        )
        try:
            yield _address(process, ready, log)
        finally:
            _stop(process)


def _environment(embedder: str) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MEMSVC_")}
    here = str(Path(memsvc.__file__).parents[1])
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [here, environment.get("PYTHONPATH", "")]))
    if embedder:
        environment["MEMSVC_EMBEDDER__BACKEND"] = embedder
    return environment


def _address(process: subprocess.Popen[bytes], ready: Path, log: Path) -> str:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        if ready.exists():
            return ready.read_text(encoding="utf-8").split()[0]
        time.sleep(LOOK_SECONDS)
    said = log.read_text(encoding="utf-8", errors="replace")[-SHOWN_LOG_CHARS:].strip()
    message = f"The demo's server did not start. It said:\n{said}"
    raise CommandError(message)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
