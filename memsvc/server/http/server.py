"""The HTTP server, in the event loop of the gRPC server: HTTP/1.1 and HTTP/2, with and without TLS."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import structlog
import uvicorn

from memsvc.server.addresses import AddressError, bound_address, is_local, remove_stale_socket, socket_path
from memsvc.server.http.connect import Application
from memsvc.server.options import HttpOptions
from memsvc.server.tls import Certificates

BACKLOG = 512
TICKS = 5
"""Looks for slow headers are so many tenths of a second apart."""
KEEP_ALIVE_SECONDS = 75
CERTIFICATE_SECONDS = 5.0
"""The interval of looks for changed files of the certificate."""


class _Uvicorn(uvicorn.Server):
    """The server without its handlers of signals, which the gRPC server has, and with a limit for slow headers."""

    def __init__(self, config: uvicorn.Config, *, header_seconds: float) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()
        self._header_seconds = header_seconds
        self._since: WeakKeyDictionary[Any, float] = WeakKeyDictionary()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen."""
        await super().startup(sockets)
        self.listening.set()

    async def on_tick(self, counter: int) -> bool:
        """Close connections whose next request is not whole after the limit; return whether to stop."""
        if counter % TICKS == 0:
            self._close_slow(time.monotonic())
        return await super().on_tick(counter)

    def _close_slow(self, now: float) -> None:
        for one in tuple(self.server_state.connections):
            if not _is_between_requests(one):
                self._since.pop(one, None)
            elif now - self._since.setdefault(one, now) > self._header_seconds:
                one.transport.close()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield


def _is_between_requests(connection: Any) -> bool:
    """Return whether the header of a request is awaited; idle connections have a timer of their own."""
    cycle = getattr(connection, "cycle", None)
    has_timer = getattr(connection, "timeout_keep_alive_task", None) or getattr(connection, "timeout_task", None)
    is_http_1 = hasattr(connection, "cycle")
    return is_http_1 and not has_timer and (cycle is None or cycle.response_complete)


class HttpServer:
    """A server of an ASGI application that is started once and stopped once."""

    def __init__(
        self, application: Application, options: HttpOptions, *, grace_seconds: float, header_seconds: float
    ) -> None:
        """Serve *application*. A header may take *header_seconds*, the requests under way at a stop *grace_seconds*."""
        self._options = options
        self._header_seconds = header_seconds
        self._grace_seconds = grace_seconds
        self._application = application
        self._server: _Uvicorn | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, certificates: Certificates | None) -> str:
        """Listen; return the URL with the port that was bound, "http+unix:PATH" for a socket, which stays unencrypted.

        Raises:
            AddressError: It cannot be listened at.
        """
        address = self._options.address
        await asyncio.to_thread(remove_stale_socket, address)
        is_unix = socket_path(address) is not None
        context = None if certificates is None or is_unix else certificates.context(["h2", "http/1.1"])
        if context is None and not is_local(address):
            structlog.get_logger("memsvc.server").warning(
                "listening without encryption beyond this machine", address=address
            )
        listening = await asyncio.to_thread(_bound, address)
        server = self._server = _Uvicorn(self._config(context), header_seconds=self._header_seconds)
        self._tasks.append(asyncio.create_task(server.serve(sockets=[listening]), name="http"))
        await server.listening.wait()
        if certificates is not None and context is not None:
            self._tasks.append(asyncio.create_task(_follow(certificates, context), name="certificates"))
        if is_unix:
            return f"http+{address}"
        scheme = "http" if context is None else "https"
        return f"{scheme}://{bound_address(address, listening.getsockname()[1])}"

    async def stop(self) -> None:
        """Refuse new requests, let those under way end within the grace, and stop listening."""
        if self._server is None:
            return
        self._server.should_exit = True
        for follower in self._tasks[1:]:
            follower.cancel()
        await asyncio.wait(self._tasks)
        if path := socket_path(self._options.address):
            path.unlink(missing_ok=True)

    def _config(self, context: ssl.SSLContext | None) -> uvicorn.Config:
        return uvicorn.Config(
            self._application,
            # HTTP/1.1 and HTTP/2 at one address: zttp has both.
            http="zttp",
            http2=True,
            ws="none",
            interface="asgi3",
            lifespan="on",
            log_config=None,
            log_level="warning",
            access_log=False,
            # The addresses of callers are never what a header says.
            proxy_headers=False,
            server_header=False,
            limit_concurrency=self._options.max_connections,
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=max(1, round(self._grace_seconds)),
            ssl_context_factory=None if context is None else lambda *_: context,
            reset_contextvars=True,
        )


def _bound(address: str) -> socket.socket:
    """Return a socket that is bound to an address."""
    path = socket_path(address)
    host, _, port = address.rpartition(":")
    try:
        if path is not None:
            listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listening.bind(str(path))
            return listening
        family, *_, place = socket.getaddrinfo(
            host.strip("[]") or None, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
    except (OSError, ValueError) as error:
        message = (
            f"Cannot serve HTTP at {address!r}: it is in use, or not an address of this machine. Choose another one by "
            'http.address, or set it to "" to serve gRPC alone.'
        )
        raise AddressError(message) from error
    return listening


async def _follow(certificates: Certificates, context: ssl.SSLContext) -> None:
    """Load the certificate again when its files have changed; open connections keep the old one."""
    while True:
        await asyncio.sleep(CERTIFICATE_SECONDS)
        await asyncio.to_thread(certificates.refresh, context)
