"""A real server in a process of its own, for tests: started, asked, stopped or killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from memsvc.v1 import (
    admin_service_pb2_grpc,
    file_service_pb2_grpc,
    lifecycle_service_pb2_grpc,
    memory_service_pb2_grpc,
    search_service_pb2_grpc,
    session_service_pb2_grpc,
)
from tests.support.forked_process import ROOT, ForkedProcess
from tests.support.until import until

START_SECONDS = 180.0
FAST = {
    "MEMSVC_EMBEDDER__BACKEND": "wordllama",
    "MEMSVC_LOG__LEVEL": "WARNING",
    # Tests of every method make keys, too; tests/e2e/access runs services that ask for them.
    "MEMSVC_ACCESS__KEYS": "off",
    "MEMSVC_INDEXING__ACCESS_FLUSH_SECONDS": "0.2",
}
"""The real engines with the fast embedder: what most tests run on."""
HTTP = {"MEMSVC_HTTP__ADDRESS": "127.0.0.1:0"}
"""The API also over HTTP."""


class Stubs:
    """The generated stubs of every service over one channel."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.memory = memory_service_pb2_grpc.MemoryServiceStub(channel)
        self.search = search_service_pb2_grpc.SearchServiceStub(channel)
        self.session = session_service_pb2_grpc.SessionServiceStub(channel)
        self.files = file_service_pb2_grpc.FileServiceStub(channel)
        self.lifecycle = lifecycle_service_pb2_grpc.LifecycleServiceStub(channel)
        self.admin = admin_service_pb2_grpc.AdminServiceStub(channel)
        self.health = health_pb2_grpc.HealthStub(channel)


@dataclass
class ServerProcess:
    """A memsvc server in a child process. Leaving the context stops it gracefully, if it still runs.

    Attributes:
        module: The module to run in a new interpreter; without one the process is forked from a warm one.
    """

    data_dir: Path
    environment: Mapping[str, str] = field(default_factory=lambda: FAST)
    address: str = "127.0.0.1:0"
    arguments: tuple[str, ...] = ()
    module: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | ForkedProcess | None = None

    def __enter__(self) -> ServerProcess:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def log(self) -> Path:
        return self.data_dir.with_name(self.data_dir.name + ".log")

    def start(self, *, until: str = "memsvc.v1.SearchService") -> None:
        """Start the process and wait until it serves *until*."""
        ready = self.data_dir.with_name(self.data_dir.name + ".ready")
        ready.unlink(missing_ok=True)
        arguments = [
            "serve", "--address", self.address, "--data-dir", str(self.data_dir), "--ready-file", str(ready),
            *self.arguments,
        ]  # fmt: skip
        environment = {**os.environ, **self.environment}
        if self.module:
            command = [sys.executable, "-m", *self.module, *arguments]
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        else:
            self.process = ForkedProcess(arguments, environment, self.log, self.log)
        self._await(ready.exists)
        self.bound, *others = ready.read_text().strip().splitlines()
        self.url = next((each for each in others if each.startswith("http") and not each.endswith("/metrics")), "")
        self._await(lambda: self.is_serving(until))

    def is_serving(self, service: str) -> bool:
        """Return whether the health service says SERVING for *service*."""
        with self.channel() as channel:
            try:
                answer = Stubs(channel).health.Check(health_pb2.HealthCheckRequest(service=service), timeout=5)
            except grpc.RpcError:
                return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

    @contextlib.contextmanager
    def channel(self) -> Iterator[grpc.Channel]:
        """Open a channel of one's own to the server."""
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
        with grpc.insecure_channel(self.bound, options=options) as channel:
            yield channel

    @contextlib.contextmanager
    def stubs(self) -> Iterator[Stubs]:
        """Open a channel and give its stubs."""
        with self.channel() as channel:
            yield Stubs(channel)

    def kill(self) -> None:
        """Kill the process as `kill -9` does."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """Ask the process to stop and return its exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(timeout=START_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def _await(self, condition: Callable[[], bool]) -> None:
        process = self.process
        assert process is not None
        until(lambda: condition() or process.poll() is not None, seconds=START_SECONDS)
        if process.poll() is not None:
            code, log = process.poll(), self.log.read_text()
            raise RuntimeError(f"The server did not start, it ended with the code {code}:\n{log[-4000:]}")
