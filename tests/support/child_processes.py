"""The child processes of a server under test."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from tests.support.rpc import TIMEOUT
from tests.support.server_process import ServerProcess

EDGE = "memsvc_backends.qdrant_edge.worker"


def edge_pids(server: ServerProcess) -> list[int]:
    """Return the ids of the processes that hold the vectors: the live one, and builders while there are some."""
    assert server.process is not None
    found = []
    for task in Path(f"/proc/{server.process.pid}/task").iterdir():
        for child in _read(task / "children").split():
            if EDGE.encode() in _read(Path(f"/proc/{child.decode()}/cmdline")).split(b"\0"):
                found.append(int(child))
    return found


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def kill_edge(server: ServerProcess) -> None:
    """Kill every process that holds vectors, as a crash of the native engine would."""
    deadline = time.monotonic() + TIMEOUT
    while not (pids := edge_pids(server)):
        assert time.monotonic() < deadline
    for pid in pids:
        # One may be ending by itself.
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
