"""A real server as a subprocess, a client for it, and the resources of its processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from memsvc.v1.admin_service_pb2_grpc import AdminServiceStub
from memsvc.v1.lifecycle_service_pb2_grpc import LifecycleServiceStub
from memsvc.v1.memory_service_pb2_grpc import MemoryServiceStub
from memsvc.v1.search_service_pb2_grpc import SearchServiceStub
from memsvc.v1.session_service_pb2_grpc import SessionServiceStub

if TYPE_CHECKING:
    # The stubs for asyncio exist for the type checker alone.
    from memsvc.v1.admin_service_pb2_grpc import AdminServiceAsyncStub
    from memsvc.v1.lifecycle_service_pb2_grpc import LifecycleServiceAsyncStub
    from memsvc.v1.memory_service_pb2_grpc import MemoryServiceAsyncStub
    from memsvc.v1.search_service_pb2_grpc import SearchServiceAsyncStub
    from memsvc.v1.session_service_pb2_grpc import SessionServiceAsyncStub

ROOT = Path(__file__).resolve().parents[2]
SEARCH_SERVICE = "memsvc.v1.SearchService"
START_SECONDS = 120.0
STOP_SECONDS = 60.0
_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_UNLIMITED = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


class ServerError(Exception):
    """The server did not start, or ended by itself; the message holds the end of its log."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs, and the calls to it."""

    process: subprocess.Popen[bytes]
    address: str
    started: float
    channel: aio.Channel
    memories: MemoryServiceAsyncStub
    searches: SearchServiceAsyncStub
    sessions: SessionServiceAsyncStub
    lifecycle: LifecycleServiceAsyncStub
    admin: AdminServiceAsyncStub
    health: health_pb2_grpc.HealthStub

    async def serving(self) -> float:
        """Wait until searches are served, and return how many seconds after the start of the process that was."""
        request = health_pb2.HealthCheckRequest(service=SEARCH_SERVICE)
        while time.perf_counter() - self.started < START_SECONDS:
            try:
                reply = await self.health.Check(request)
            except aio.AioRpcError as error:
                if error.code() not in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.NOT_FOUND}:
                    raise
            else:
                if reply.status == health_pb2.HealthCheckResponse.SERVING:
                    return time.perf_counter() - self.started
            await asyncio.sleep(0.01)
        message = f"Searches are not served after {START_SECONDS} s."
        raise ServerError(message)


@asynccontextmanager
async def running_server(directory: Path, settings: Mapping[str, str], *, root: Path = ROOT) -> AsyncIterator[Server]:
    """Start a server on the data directory, wait until searches are served, stop it by SIGTERM on leaving.

    Args:
        directory: The data directory; its log lies beside it.
        settings: Settings by their path, such as "ranking.tier".
        root: The checkout whose code is run.
    """
    async with started_server(directory, settings, root=root) as server:
        await server.serving()
        yield server


@asynccontextmanager
async def started_server(directory: Path, settings: Mapping[str, str], *, root: Path = ROOT) -> AsyncIterator[Server]:
    """Start a server and wait until it listens; searches may not be served yet."""
    log = directory.with_suffix(".log")
    started = time.perf_counter()
    process = _launch(directory, settings, log, root)
    try:
        address = await _address(process, directory.with_suffix(".ready"), log, started)
        async with aio.insecure_channel(address, options=_UNLIMITED) as channel:
            yield Server(
                process,
                address,
                started,
                channel,
                MemoryServiceStub(channel),
                SearchServiceStub(channel),
                SessionServiceStub(channel),
                LifecycleServiceStub(channel),
                AdminServiceStub(channel),
                health_pb2_grpc.HealthStub(channel),
            )
    finally:
        await _stop(process)


def environment(settings: Mapping[str, str], root: Path = ROOT) -> dict[str, str]:
    """Return the environment of a server of a checkout: ours, without what it has of memsvc's settings."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MEMSVC_")}
    paths = [str(root), str(root / "backends"), *filter(None, [inherited.get("PYTHONPATH")])]
    # Several servers at once cannot have the default address of HTTP; a checkout of before knows no such setting.
    settings = {"http.address": "", **settings} if root == ROOT else settings
    named = {f"MEMSVC_{path.upper().replace('.', '__')}": value for path, value in settings.items()}
    return {**inherited, **named, "PYTHONPATH": os.pathsep.join(paths)}


def _launch(directory: Path, settings: Mapping[str, str], log: Path, root: Path) -> subprocess.Popen[bytes]:
    ready = directory.with_suffix(".ready")
    ready.unlink(missing_ok=True)
    command = [sys.executable, "-m", "memsvc", "serve", "--address", "127.0.0.1:0"]
    command += ["--data-dir", str(directory), "--ready-file", str(ready)]
    with log.open("ab") as output:
        # Away from the project's folder, so that no memsvc.toml has a say.
        return subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=environment(settings, root), cwd=directory.parent
        )


async def _address(process: subprocess.Popen[bytes], ready: Path, log: Path, started: float) -> str:
    while time.perf_counter() - started < START_SECONDS:
        if address := _text(ready).strip():
            return address.split(",")[0].split()[0]
        if process.poll() is not None:
            break
        await asyncio.sleep(0.005)
    message = f"The server did not start. Its log ends:\n{_text(log)[-3000:]}"
    raise ServerError(message)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


async def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        await asyncio.to_thread(process.wait, STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@dataclass(frozen=True, slots=True)
class Usage:
    """What a tree of processes takes; *resident_bytes* counts pages that several of them share several times."""

    processes: int
    resident_bytes: int
    anonymous_bytes: int
    cpu_seconds: float


def usage(pid: int) -> Usage:
    """Return what the process and all its descendants take; those that end meanwhile count nothing."""
    pids = _descendants(pid)
    resident = anonymous = 0
    cpu = 0.0
    for one in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            status = _status(one)
            resident += status.get("VmRSS", 0)
            anonymous += status.get("RssAnon", 0)
            fields = _stat(one)
            cpu += (int(fields[11]) + int(fields[12])) / _TICKS
    return Usage(len(pids), resident, anonymous, cpu)


def _descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = defaultdict(list)
    for path in _PROC.iterdir():
        if path.name.isdigit():
            with suppress(FileNotFoundError, ProcessLookupError):
                children[int(_stat(int(path.name))[1])].append(int(path.name))
    found = [pid]
    for one in found:
        found.extend(children[one])
    return found


def _stat(pid: int) -> list[str]:
    """Return the fields after the command's name, which may hold anything: state, parent and so on."""
    return (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


def _status(pid: int) -> dict[str, int]:
    lines = (_PROC / str(pid) / "status").read_text(encoding="utf-8", errors="replace").splitlines()
    return {
        name: int(rest.split()[0]) * 1024
        for name, _, rest in (line.partition(":") for line in lines)
        if rest.strip().endswith("kB")
    }
