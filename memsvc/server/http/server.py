"""The HTTP server, in the event loop of the gRPC server: HTTP/1.1 and HTTP/2, with and without TLS."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, cast
from weakref import WeakKeyDictionary

import structlog
import uvicorn
from starlette.middleware.cors import CORSMiddleware

from memsvc.domain.errors import ReportedError
from memsvc.server.addresses import AddressError, bound_address, is_local, remove_stale_socket, socket_path
from memsvc.server.http.connect import Application, Receive, Scope, Send, send_error
from memsvc.server.options import HttpOptions
from memsvc.server.tls import Certificates

BACKLOG = 512
TICKS = 5
"""Looks for slow headers are so many tenths of a second apart."""
KEEP_ALIVE_SECONDS = 75
RETRY_SECONDS = 1
BUSY = "The service has as many open connections as http.max_connections allows. Try again later."
CERTIFICATE_SECONDS = 5.0
"""The interval of looks for changed files of the certificate."""

METHODS = ("GET", "POST", "DELETE", "OPTIONS")
REQUEST_HEADERS = (
    "authorization",
    "connect-protocol-version",
    "connect-timeout-ms",
    "content-type",
    "grpc-timeout",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "traceparent",
    "tracestate",
    "x-grpc-web",
    "x-memsvc-agent",
    "x-memsvc-locale",
    "x-memsvc-project",
    "x-memsvc-session",
    "x-memsvc-time-zone",
    "x-memsvc-user",
    "x-request-id",
    "x-user-agent",
)
RESPONSE_HEADERS = (
    "grpc-message",
    "grpc-status",
    "grpc-status-details-bin",
    "mcp-session-id",
    "retry-after",
    "trailer-x-memsvc-notice",
    "trailer-x-request-id",
    "www-authenticate",
    "x-request-id",
)
"""Headers that scripts of other origins may send and read: of Connect, gRPC-Web, MCP, tracing, key and request id."""
CORS_SECONDS = 7_200


class StartupError(Exception):
    """Uvicorn ended while it started; its log says why."""


class HttpEndedError(ReportedError):
    """The HTTP server has ended without a stop."""


class _Uvicorn(uvicorn.Server):
    """The server without its handlers of signals, which the gRPC server has, and with a limit for slow headers."""

    def __init__(self, config: uvicorn.Config, *, header_seconds: float) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()
        self._header_seconds = header_seconds
        self._since: WeakKeyDictionary[Any, float] = WeakKeyDictionary()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen."""
        try:
            await super().startup(sockets)
        except SystemExit as error:
            # In a task it would end the whole process, past all that has to be closed.
            message = "the log says why"
            raise StartupError(message) from error
        except OSError:
            await self.lifespan.shutdown()
            raise
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
        self._whole = _with_cors(self._answer, options.cors_origins)
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
        serving = asyncio.create_task(server.serve(sockets=[listening]), name="http")
        started = asyncio.create_task(server.listening.wait(), name="http start")
        await asyncio.wait((serving, started), return_when=asyncio.FIRST_COMPLETED)
        if not started.done():
            started.cancel()
            self._server = None
            listening.close()
            raise _refused(address, serving.exception())
        self._tasks.append(serving)
        if certificates is not None and context is not None:
            self._tasks.append(asyncio.create_task(_follow(certificates), name="certificates"))
        if is_unix:
            return f"http+{address}"
        scheme = "http" if context is None else "https"
        return f"{scheme}://{bound_address(address, listening.getsockname()[1])}"

    async def wait_ended(self) -> None:
        """Wait until the server has ended.

        Raises:
            HttpEndedError: By itself.
        """
        await asyncio.wait(self._tasks[:1])
        if self._server is not None and not self._server.should_exit:
            error = self._tasks[0].exception()
            message = (
                f"The HTTP server has ended ({type(error).__name__}: {error}), so the service stops. Start it again."
            )
            raise HttpEndedError(message) from error

    async def stop(self) -> None:
        """Refuse new requests, let those under way end within the grace, and stop listening."""
        if self._server is None:
            return
        self._server.should_exit = True
        for follower in self._tasks[1:]:
            follower.cancel()
        await asyncio.wait(self._tasks)
        # Closed by the server itself, unless it has ended by an error.
        for listener in self._server.servers:
            listener.close()
        if path := socket_path(self._options.address):
            path.unlink(missing_ok=True)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it while more connections or requests are open than the options allow.

        Uvicorn's own limit answers in plain text.
        """
        state = None if self._server is None else self._server.server_state
        is_full = state is not None and max(len(state.connections), len(state.tasks)) > self._options.max_connections
        if scope["type"] != "http" or not is_full:
            await self._application(scope, receive, send)
            return
        headers = [(b"retry-after", str(RETRY_SECONDS).encode())]
        if scope["http_version"].startswith("1"):
            headers.append((b"connection", b"close"))
        await send_error(send, 503, "unavailable", BUSY, headers)

    def _config(self, context: ssl.SSLContext | None) -> uvicorn.Config:
        return uvicorn.Config(
            self._whole,
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
        raise _refused(address, error) from error
    return listening


def _refused(address: str, error: BaseException | None) -> AddressError:
    if isinstance(error, OSError | ValueError):
        reason = "it is in use, or not an address of this machine"
    else:
        reason = f"the HTTP server ended while it started ({type(error).__name__}: {error})"
    refusal = AddressError(
        f"Cannot serve HTTP at {address!r}: {reason}. Choose another one by http.address, or set it to "
        '"" to serve gRPC alone.'
    )
    refusal.__cause__ = error
    return refusal


async def _follow(certificates: Certificates) -> None:
    """Load the certificate again when its files have changed; open connections keep the old one."""
    while True:
        await asyncio.sleep(CERTIFICATE_SECONDS)
        await asyncio.to_thread(certificates.fetch)


def _with_cors(application: Application, origins: Collection[str]) -> Application:
    """Return an application whose responses, errors included, pages of *origins* can read."""
    if not origins:
        return application
    shared = CORSMiddleware(
        application,
        allow_origins=origins,
        allow_methods=METHODS,
        allow_headers=REQUEST_HEADERS,
        expose_headers=RESPONSE_HEADERS,
        # A page that is named may come from the Internet, and the service be on this machine.
        allow_private_network=True,
        max_age=CORS_SECONDS,
    )
    return cast("Application", shared)
