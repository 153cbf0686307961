"""The service of a campaign: a server in a process of its own, its disk, its clock and its network."""

from __future__ import annotations

import contextlib
import mmap
import os
import shutil
import socket
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from tests.support.server_process import FAST, HTTP, ServerProcess, Stubs
from tests.support.tcp_proxy import Proxy, proxy

SOURCE = Path(__file__).with_name("preload.c")
DISK_MB = 768
"""Size of the file system of the data directory, if it has one of its own."""
SETTINGS = {
    **FAST,
    **HTTP,
    "MEMSVC_LEXICAL__OPTIONS__WRITE_TIMEOUT_SECONDS": "2",
    "MEMSVC_INDEXING__UPKEEP_SECONDS": "1",
    "MEMSVC_LOG__LEVEL": "INFO",
}
_CONTROL = struct.Struct("qqq256s")


class Control:
    """Switches of the disk and the clock of a server; see preload.c."""

    def __init__(self, folder: Path) -> None:
        """Compile the library. Without a compiler or a loader that can preload it, `is_available` is False."""
        self._file = folder / "control"
        self._file.write_bytes(_CONTROL.pack(0, 0, 0, b""))
        self._library = folder / "preload.so"
        compiler = shutil.which("cc")
        command = [compiler or "", "-shared", "-fPIC", "-O2", "-o", str(self._library), str(SOURCE), "-ldl"]
        self.is_available = compiler is not None and not subprocess.run(command, check=False).returncode
        with self._file.open("r+b") as file:
            self._mapped = mmap.mmap(file.fileno(), _CONTROL.size)

    @property
    def environment(self) -> dict[str, str]:
        """Return what a server needs to be switched."""
        if not self.is_available:
            return {}
        return {"LD_PRELOAD": str(self._library), "MEMSVC_CAMPAIGN_CONTROL": str(self._file)}

    def switch(
        self, *, clock_seconds: int = 0, sync_delay_ms: int = 0, hangs: bool = False, path: str = "/data/"
    ) -> None:
        """Move the clock, and delay or stop the writes to the disk of files whose path contains *path*."""
        self._mapped[:] = _CONTROL.pack(clock_seconds, sync_delay_ms, hangs, path.encode())


class CampaignServer(ServerProcess):
    """A server whose log is on another file system than its data: that one may be full."""

    @property
    def log(self) -> Path:
        """Return the file of the log."""
        return self.data_dir.parents[1] / "server.log"

    def ended(self) -> int | None:
        """Return the exit code if the process has ended."""
        return None if self.process is None else self.process.poll()


@dataclass(frozen=True)
class Environment:
    """A running service and the means to disturb it.

    Attributes:
        folder: Its folder; the data directory is on a file system of its own if `has_own_disk`.
        network: The proxy between clients and server.
        postgres: The address of the store on PostgreSQL; empty: it is SQLite.
    """

    folder: Path
    server: CampaignServer
    network: Proxy
    control: Control
    has_own_disk: bool
    postgres: str
    failed_starts: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def stubs(self) -> Iterator[Stubs]:
        """Open a channel through the network of the campaign."""
        options = [
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.max_receive_message_length", -1),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 500),
        ]
        with grpc.insecure_channel(f"127.0.0.1:{self.network.port}", options=options) as channel:
            yield Stubs(channel)

    def restart(self) -> None:
        """Start the server again, at the address where it was.

        Raises:
            RuntimeError: It ended before it was ready, twice.
        """
        try:
            self.server.start(until="readiness")
        except RuntimeError as error:
            # The port may have been lent to a connection of another process for a moment.
            self.failed_starts.append(str(error)[:80])
            self.server.start(until="readiness")


@contextlib.contextmanager
def running(folder: Path, *, postgres: str = "") -> Iterator[Environment]:
    """Run the service in *folder*; *postgres* is the address of its store, SQLite by default."""
    disk = folder / "disk"
    disk.mkdir()
    control = Control(folder)
    with _mounted(disk) as has_own_disk, _free_port() as port, proxy(port) as network:
        settings = {**SETTINGS, **control.environment}
        if postgres:
            settings["MEMSVC_METADATA__OPTIONS__URL"] = postgres
        # A new interpreter: a fork of a warm one would have its libraries already.
        server = CampaignServer(disk / "data", settings, f"127.0.0.1:{port}", module=("memsvc",))
        with server:
            yield Environment(folder, server, network, control, has_own_disk, postgres)


@contextlib.contextmanager
def _mounted(folder: Path) -> Iterator[bool]:
    """Mount a small file system in memory, if this user may."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", str(folder)]
    is_mounted = os.geteuid() == 0 and not subprocess.run(command, check=False, capture_output=True).returncode
    try:
        yield is_mounted
    finally:
        if is_mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=False)


@contextlib.contextmanager
def _free_port() -> Iterator[int]:
    """Lend a port that a server may listen at again and again."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        port = holder.getsockname()[1]
    yield port
