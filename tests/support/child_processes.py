"""The child processes of a server under test."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from tests.support.server_process import ServerProcess
from tests.support.until import until

EDGE = "memsvc_backends.qdrant_edge.worker"


def edge_pids(server: ServerProcess) -> list[int]:
    """Return the ids of the processes that hold the vectors: the live one, and builders while there are some."""
    assert server.process is not None
    children = child_pids(server.process.pid)
    return [child for child in children if EDGE.encode() in _read(Path(f"/proc/{child}/cmdline")).split(b"\0")]


def child_pids(parent: int) -> list[int]:
    """Return the ids of the child processes of the process *parent*, a thread of which may end during the call."""
    return [int(child) for task in Path(f"/proc/{parent}/task").iterdir() for child in _read(task / "children").split()]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def kill_edge(server: ServerProcess) -> None:
    """Kill every process that holds vectors, as a crash of the native engine would."""
    for pid in until(lambda: edge_pids(server)):
        # One may be ending by itself.
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
