"""A server in a thread of the test's process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from memsvc.bootstrap.app import running
from memsvc.engine.services import Services
from memsvc.server.interceptors.chain import Interceptor
from memsvc.server.monitoring.health import READINESS
from memsvc.server.options import ServerOptions
from memsvc.server.server import Server, build, utc_now
from memsvc.settings import load_settings
from tests.support.server_process import Stubs
from tests.support.sqlite_store import SQLITE
from tests.support.until import PATIENCE_SECONDS, until

SERVING = health_pb2.HealthCheckResponse.SERVING


@dataclass(slots=True)
class ServerThread:
    """A server over an engine, with interceptors of the test."""

    application: Services
    options: ServerOptions
    addresses: tuple[str, ...] = ()
    layers: tuple[Interceptor, ...] = ()
    now: Callable[[], datetime] = utc_now
    _ready: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _stop: asyncio.Event | None = None
    _loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Serve in a thread; return when calls are answered and the readiness probe succeeds."""
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        assert self._ready.wait(PATIENCE_SECONDS)
        with grpc.insecure_channel(self.addresses[0]) as channel:
            asked = health_pb2.HealthCheckRequest(service=READINESS)
            until(lambda: health_pb2_grpc.HealthStub(channel).Check(asked).status == SERVING)

    def stop(self) -> None:
        """Stop gracefully and wait for it."""
        assert self._loop
        assert self._stop
        assert self._thread
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Serve while the context is open, and give the first address."""
        self.start()
        try:
            yield self.addresses[0]
        finally:
            self.stop()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server: Server = build(self.application, self.options, now=self.now, layers=self.layers)
        await server.start()
        self.addresses = tuple(server.addresses)
        self._ready.set()
        await self._stop.wait()
        await server.stop()


@contextmanager
def served(
    data_dir: Path,
    *,
    now: Callable[[], datetime] = utc_now,
    call_now: Callable[[], datetime] = utc_now,
    **settings: Any,
) -> Iterator[Stubs]:
    """Serve on SQLite, with the embedded indexes and the fast embedder, and give the stubs; *now* is the clock.

    Calls begin by *call_now*.

    Neither upkeep nor maintenance runs by itself: vectors that are built anew between two searches have other scores.
    """
    defaults: dict[str, Any] = {
        "metadata": SQLITE,
        "embedder": {"backend": "wordllama"},
        "access": {"keys": "off"},
        "indexing": {"access_flush_seconds": 0.2, "upkeep_seconds": 3600},
        "maintenance": {"interval_minutes": 0},
    }
    options = ServerOptions(addresses=("127.0.0.1:0",), version="test", health_seconds=0.1)
    with running(load_settings(data_dir=data_dir, **(defaults | settings)), now=now) as application:
        with ServerThread(application, options, now=call_now).serving() as address:
            with grpc.insecure_channel(address, options=[("grpc.max_receive_message_length", -1)]) as channel:
                yield Stubs(channel)
