"""The connection: where to, how large, and what is tried again."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import grpc

from memsvc.client.errors import MemsvcCallError, NamedArguments
from memsvc.v1 import types_pb2 as types_pb
from memsvc.v1.admin_service_pb2_grpc import AdminServiceStub
from memsvc.v1.file_service_pb2_grpc import FileServiceStub
from memsvc.v1.lifecycle_service_pb2_grpc import LifecycleServiceStub
from memsvc.v1.memory_service_pb2_grpc import MemoryServiceStub
from memsvc.v1.search_service_pb2_grpc import SearchServiceStub
from memsvc.v1.session_service_pb2_grpc import SessionServiceStub

if TYPE_CHECKING:
    from memsvc.v1.admin_service_pb2_grpc import AdminServiceAsyncStub
    from memsvc.v1.file_service_pb2_grpc import FileServiceAsyncStub
    from memsvc.v1.lifecycle_service_pb2_grpc import LifecycleServiceAsyncStub
    from memsvc.v1.memory_service_pb2_grpc import MemoryServiceAsyncStub
    from memsvc.v1.search_service_pb2_grpc import SearchServiceAsyncStub
    from memsvc.v1.session_service_pb2_grpc import SessionServiceAsyncStub


DEFAULT_ADDRESS = "127.0.0.1:50051"
MAX_MESSAGE_BYTES = 16 * 1024 * 1024

SERVICE_CONFIG: dict[str, list[dict[str, Any]]] = {
    "methodConfig": [
        {
            "name": [{}],
            "retryPolicy": {
                "maxAttempts": 5,
                "initialBackoff": "0.05s",
                "maxBackoff": "1s",
                "backoffMultiplier": 3,
                "retryableStatusCodes": ["UNAVAILABLE", "CANCELLED"],
            },
        }
    ]
}
"""Every call is tried up to five times. Mutations carry a request id, so that they still happen once.

CANCELLED is that of a call that arrives while the service stops; one that this client cancels is not repeated.

The pauses come to more than `MAX_REST_SECONDS`: a call that comes when the service is back finds it, also when gRPC
tried to connect right before that.
"""

MAX_REST_SECONDS = 1.0
"""How long gRPC waits at most until it tries to connect again; after a long outage it would be two minutes."""

CONNECTION_SECONDS = 5.0
"""How long a connection may take with its handshake; by default it would be 20 seconds for each attempt of a call."""

MAX_PORT = 65_535
REACH_SECONDS = 3.0
"""How long the first connection may take; a refused one fails at once. On a busy machine 0.8 s were too few."""

KEY_VARIABLE = "MEMSVC_API_KEY"
"""Where the key is when none is given."""


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS options; each file is PEM.

    Attributes:
        ca: Who vouches for the service; None: whom gRPC trusts by itself.
        certificate: What the client shows of itself, where the service asks for it, with its *key*.
    """

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


def endpoint_of(address: str) -> tuple[str, int]:
    """Return host and port of "HOST:PORT", or a socket's path and 0; the path of "unix-abstract:NAME" begins with NUL.

    Raises:
        ValueError: The address is neither.
    """
    if address.startswith("unix-abstract:"):
        return "\0" + address.removeprefix("unix-abstract:"), 0
    if address.startswith("unix:"):
        return address.removeprefix("unix:").removeprefix("//"), 0
    host, colon, port = address.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) <= MAX_PORT):
        message = f"The address {address!r} is neither HOST:PORT nor unix:PATH."
        raise ValueError(message)
    if "://" in host:
        message = (
            f"The address {address!r} is neither HOST:PORT nor unix:PATH: leave out {host.partition('://')[0]}://."
        )
        raise ValueError(message)
    return host.removeprefix("[").removesuffix("]"), int(port)


def checked_key(key: str) -> str:
    """Return an API key without spaces around it.

    Raises:
        ValueError: It has characters that no header can hold; the message does not have the key.
    """
    stripped = key.strip()
    if not (stripped.isascii() and (stripped.isprintable() or not stripped)):
        message = f"The API key ({KEY_VARIABLE}) has other characters than letters, digits and signs of ASCII."
        raise ValueError(message)
    return stripped


def open_channel(address: str, *, api_key: str | None = None, tls: Tls | None = None) -> grpc.aio.Channel:
    """Return a channel to "HOST:PORT" or "unix:PATH"; it connects with the first call. Needs a running event loop.

    Every call brings *api_key*; None means the one in MEMSVC_API_KEY, the empty text for none.

    Raises:
        OSError: A file of *tls* cannot be read.
        ValueError: The key has characters that no header can hold.
    """
    key = checked_key(os.environ.get(KEY_VARIABLE, "") if api_key is None else api_key)
    if tls is None:
        channel = grpc.aio.insecure_channel(address, options=_OPTIONS)
        return cast("grpc.aio.Channel", _Keyed(channel, key)) if key else channel
    credentials = _credentials(tls)
    if key:
        credentials = grpc.composite_channel_credentials(credentials, grpc.access_token_call_credentials(key))
    return grpc.aio.secure_channel(address, credentials, options=_OPTIONS)


class _Keyed:
    """A channel whose calls bring a key. Where nothing is encrypted, gRPC refuses call credentials."""

    def __init__(self, channel: grpc.aio.Channel, key: str) -> None:
        self._channel = channel
        self._metadata = (("authorization", f"Bearer {key}"),)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._channel, name)
        if name not in _KINDS:
            return found
        return lambda *args, **kwargs: partial(found(*args, **kwargs), metadata=self._metadata)


_KINDS = frozenset({"unary_unary", "unary_stream", "stream_unary", "stream_stream"})
_OPTIONS = [
    ("grpc.service_config", json.dumps(SERVICE_CONFIG)),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", 120_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.max_reconnect_backoff_ms", int(MAX_REST_SECONDS * 1_000)),
    ("grpc.min_reconnect_backoff_ms", int(CONNECTION_SECONDS * 1_000)),
    ("grpc.enable_http_proxy", 0),
]


def _credentials(tls: Tls) -> grpc.ChannelCredentials:
    ca, certificate, key = (None if path is None else path.read_bytes() for path in (tls.ca, tls.certificate, tls.key))
    return grpc.ssl_channel_credentials(ca, private_key=key, certificate_chain=certificate)


FIRST_PAUSE_SECONDS = 0.05
PAUSE_MULTIPLIER = 3
LONGEST_PAUSE_SECONDS = 1.0
"""Bounds of the pause before a call that the service refused with a delay is repeated; a longer delay is kept."""

CLIENT_CLOSED = "The client is closed."
NOTICE_HEADER = "x-memsvc-notice"
"""The trailing metadata that say that a change is stored and not yet found by searches."""
READY_PAUSE_SECONDS = 0.05
READY_SERVICE = "memsvc.v1.SearchService"

Q = TypeVar("Q")
R = TypeVar("R")


class _AsksForPage(Protocol):
    page_token: str


class _Page(Protocol):
    next_page_token: str


Asks = TypeVar("Asks", bound=_AsksForPage)
Page = TypeVar("Page", bound=_Page)


class Connection:
    """A channel to one service, to be made inside a running event loop."""

    def __init__(
        self,
        address: str,
        *,
        timeout_seconds: float,
        api_key: str | None = None,
        tls: Tls | None = None,
        on_notice: Callable[[str], None] | None = None,
        channel: grpc.aio.Channel | None = None,
    ) -> None:
        """Open the channel; it connects with the first call. *timeout_seconds* holds for calls that name none.

        *on_notice* gets the notices of calls, in their task. A given *channel* is used as it is, in place of one to the
        address.

        Raises:
            ValueError: The address is neither HOST:PORT nor unix:PATH, or the key can be none.
        """
        self._address = address
        self._host, self._port = endpoint_of(address)
        self._is_reached = channel is not None
        self._is_closed = False
        self.timeout_seconds = timeout_seconds
        self._on_notice = on_notice
        self._channel = channel or open_channel(address, api_key=api_key, tls=tls)
        self.memories: MemoryServiceAsyncStub = MemoryServiceStub(self._channel)
        self.searches: SearchServiceAsyncStub = SearchServiceStub(self._channel)
        self.sessions: SessionServiceAsyncStub = SessionServiceStub(self._channel)
        self.files: FileServiceAsyncStub = FileServiceStub(self._channel)
        self.lifecycle: LifecycleServiceAsyncStub = LifecycleServiceStub(self._channel)
        self.admin: AdminServiceAsyncStub = AdminServiceStub(self._channel)

    async def close(self) -> None:
        """Close the channel and end what is under way."""
        self._is_closed = True
        await self._channel.close()

    @contextmanager
    def errors_decoded(self) -> Iterator[None]:
        """Decode the errors of gRPC in a call.

        Raises:
            MemsvcCallError: The call failed.
            RuntimeError: The client is closed, or was closed during the call. For gRPC such a call is cancelled, as if
                its task were.
        """
        if self._is_closed:
            raise RuntimeError(CLIENT_CLOSED)
        try:
            yield
        except grpc.aio.AioRpcError as error:
            raise MemsvcCallError.from_rpc(error) from error
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if self._is_closed and task is not None and not task.cancelling():
                raise RuntimeError(CLIENT_CLOSED) from error
            raise

    async def reach(self) -> None:
        """Check once that something listens at the address; the retries of gRPC take seconds to find that out.

        Raises:
            MemsvcCallError: UNAVAILABLE, within `REACH_SECONDS`.
        """
        if self._is_reached:
            return
        try:
            async with asyncio.timeout(REACH_SECONDS):
                _, writer = await (
                    asyncio.open_connection(self._host, self._port)
                    if self._port
                    else asyncio.open_unix_connection(self._host)
                )
        except (OSError, TimeoutError) as error:
            refused = isinstance(error, ConnectionRefusedError)
            reason = "connection refused" if refused else getattr(error, "strerror", None) or "no answer"
            message = f"No service can be reached at {self._address}: {reason}."
            raise MemsvcCallError(grpc.StatusCode.UNAVAILABLE, message) from error
        writer.close()
        self._is_reached = True

    async def unary(self, method: grpc.aio.UnaryUnaryMultiCallable[Q, R], request: Q, timeout: float | None) -> R:  # noqa: ASYNC109 - goes to the service, too
        """Make one call; repeat it as long as the service asks for a delay that ends before the timeout.

        Raises:
            MemsvcCallError: It failed.
        """
        await self.reach()
        pauses = _Pauses(self.timeout_seconds if timeout is None else timeout)
        while True:
            try:
                return await self._unary_once(method, request, pauses.left())
            except MemsvcCallError as error:
                await pauses.wait_or_raise(error)

    async def _unary_once(
        self,
        method: grpc.aio.UnaryUnaryMultiCallable[Q, R],
        request: Q,
        timeout: float,  # noqa: ASYNC109
    ) -> R:
        with self.errors_decoded():
            call = method(request, timeout=timeout)
            reply = await call
            if self._on_notice is not None:
                for name, value in await call.trailing_metadata() or ():
                    if name == NOTICE_HEADER:
                        self._on_notice(str(value))
        return reply

    async def stream(
        self, method: grpc.aio.UnaryStreamMultiCallable[Q, R], request: Q, seconds: float | None = None
    ) -> AsyncGenerator[R, None]:
        """Yield the responses of a streaming call; closing the generator cancels it. It ends after *seconds*, if given.

        Before the first response it is repeated as `unary` does.

        Raises:
            MemsvcCallError: It failed.
        """
        await self.reach()
        pauses = _Pauses(self.timeout_seconds if seconds is None else seconds)
        is_started = False
        while True:
            try:
                with self.errors_decoded():
                    call = method(request, timeout=None if seconds is None else pauses.left())
                    try:
                        async for response in call:
                            is_started = True
                            yield response
                    finally:
                        call.cancel()
            except MemsvcCallError as error:
                if is_started:
                    raise
                await pauses.wait_or_raise(error)
            else:
                return

    async def pages(
        self,
        method: grpc.aio.UnaryUnaryMultiCallable[Asks, Page],
        request: Asks,
        timeout: float | None,  # noqa: ASYNC109 - goes to the service, too
    ) -> AsyncGenerator[Page, None]:
        """Yield a list page by page, beginning where *request* says; the timeout holds for each page.

        Raises:
            MemsvcCallError: A call failed.
        """
        while True:
            page = await self.unary(method, request, timeout)
            yield page
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def wait_ready(self, seconds: float) -> None:
        """Return as soon as the service answers searches.

        Raises:
            MemsvcCallError: DEADLINE_EXCEEDED, it did not within so many seconds.
        """
        try:
            async with asyncio.timeout(seconds):
                while not await self._serves():  # noqa: ASYNC110 - the event is in another process
                    await asyncio.sleep(READY_PAUSE_SECONDS)
        except TimeoutError as error:
            message = f"The service at {self._address} is not ready after {seconds:g} seconds."
            raise MemsvcCallError(grpc.StatusCode.DEADLINE_EXCEEDED, message) from error

    async def _serves(self) -> bool:
        from grpc_health.v1 import health_pb2, health_pb2_grpc  # noqa: PLC0415 - an optional package

        check = health_pb2_grpc.HealthStub(self._channel).Check
        try:
            reply = await check(health_pb2.HealthCheckRequest(service=READY_SERVICE), wait_for_ready=True)
        except grpc.aio.AioRpcError as error:
            if error.code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.NOT_FOUND}:
                return False
            raise MemsvcCallError.from_rpc(error) from error
        return bool(reply.status == health_pb2.HealthCheckResponse.SERVING)


_REFUSED = frozenset({grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.ABORTED})
"""Codes of calls that did nothing, and that pass when they are repeated if the service names a delay."""


class _Pauses:
    """The pauses between the attempts of one call. Nothing was changed by a call that was refused with a delay."""

    def __init__(self, seconds: float) -> None:
        self._clock = asyncio.get_running_loop().time
        self._end = self._clock() + seconds
        self._pause = FIRST_PAUSE_SECONDS

    def left(self) -> float:
        """Return the seconds until the deadline."""
        return self._end - self._clock()

    async def wait_or_raise(self, error: MemsvcCallError) -> None:
        """Return after the delay that the service asks for; raise *error* if there is none, or it ends too late."""
        seconds = max(error.retry_seconds or 0.0, self._pause)
        is_refused = error.code in _REFUSED and error.retry_seconds is not None
        if not is_refused or seconds > self.left():
            raise error
        self._pause = min(self._pause * PAUSE_MULTIPLIER, LONGEST_PAUSE_SECONDS)
        await asyncio.sleep(seconds)


class ScopedMethods(NamedArguments):
    """Base of the groups of calls: a scope, and a connection while the client is open."""

    def __init__(self, scope: types_pb.Scope) -> None:
        """Call in *scope*; the client is not connected yet."""
        self.scope = scope
        self._opened: Connection | None = None

    @property
    def _remote(self) -> Connection:
        if self._opened is None:
            message = "The client is not open; use it as a context manager, or call open() first."
            raise RuntimeError(message)
        return self._opened
