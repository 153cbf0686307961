"""Connect, gRPC-Web and JSON over HTTP, as an ASGI application: the methods of the call chain behind connectrpc."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Never, TypeAlias

import grpc
from connectrpc.code import Code
from connectrpc.errors import ConnectError
from connectrpc.method import IdempotencyLevel, MethodInfo, StreamType
from connectrpc.request import RequestContext
from connectrpc.server import ConnectASGIApplication, Endpoint
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import MethodDescriptor

from memsvc.server.call_context import MessageFormat
from memsvc.server.http.messages import (
    JSON,
    PROTO,
    BinaryForm,
    BoundedGzip,
    JsonForm,
    PassedOn,
    compiled_messages,
    connect_error,
)
from memsvc.server.in_process import Handover
from memsvc.server.interceptors.chain import Method, aside, encode_bounded
from memsvc.server.interceptors.rules import DETAILS_HEADER, HEADER
from memsvc.server.slots import SlotOptions

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

FORWARDED = frozenset({"forwarded", "x-forwarded-for"})


def peer_of(client: Sequence[object] | None, headers: Iterable[str]) -> str:
    """Return the address of a caller as gRPC writes it, from its host and port and the names of its headers.

    Calls that a proxy forwards are never from this machine.
    """
    is_forwarded = not FORWARDED.isdisjoint(headers)
    if not client:
        return "proxy:" if is_forwarded else "unix:"
    host, port = str(client[0]).strip("[]"), client[1]
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if is_forwarded:
        return f"proxy:{address}"
    return f"ipv6:{address}" if ":" in host else f"ipv4:{address}"


class _HttpAbort(grpc.aio.AbortError):
    """End of a call with an error."""

    def __init__(self, error: ConnectError) -> None:
        super().__init__()
        self.error = error


class HttpContext:
    """A call over HTTP, as the chain sees it. Messages of a stream are handed over one by one, when they are read."""

    def __init__(self, request: RequestContext[Any, Any], form: MessageFormat, max_bytes: int) -> None:
        """Encode messages of a stream in *form*, each to at most *max_bytes*."""
        self._request = request
        self._encode = partial(encode_bounded, form.encode, max_bytes)
        self._headers = [(name.lower(), value) for name, value in request.request_headers.allitems()]
        self.responses: Handover[bytes] = Handover()

    def invocation_metadata(self) -> Iterable[tuple[str, str | bytes]] | None:
        """Return the headers of the request."""
        return self._headers

    def time_remaining(self) -> float | None:
        """Return the seconds until the deadline in the headers, None without one."""
        remaining = self._request.timeout_ms
        return None if remaining is None else max(0.0, remaining / 1000)

    def peer(self) -> str:
        """Return the address of the caller."""
        address = self._request.client_address
        return peer_of(address and address.rpartition(":")[::2], (name for name, _ in self._headers))

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """Return nothing: the server does not hand certificates of clients on."""
        return {}

    def set_trailing_metadata(self, trailing_metadata: Iterable[tuple[str, Any]]) -> None:
        """Set the trailers; the id of the request is also a header, for those who read no trailers."""
        for name, value in trailing_metadata:
            if name != DETAILS_HEADER:
                self._request.response_trailers.add(name, value)
                if name == HEADER:
                    self._request.response_headers[name] = value

    async def write(self, message: Any) -> None:
        """Hand a message over; return when it was sent.

        Raises:
            ResponseTooLargeError: It is larger than a message may be.
        """
        await self.responses.write(await aside(message.ByteSize(), self._encode, message))

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Any = ()) -> Never:
        """End the call with an error."""
        self.set_trailing_metadata(trailing_metadata)
        status = next((value for name, value in trailing_metadata if name == DETAILS_HEADER), b"")
        raise _HttpAbort(connect_error(code, details, status))


class ConnectApplication(ConnectASGIApplication[None]):
    """The methods of the chain as an ASGI application."""

    def __init__(self, methods: Mapping[str, Method], *, max_bytes: int, max_json_bytes: int) -> None:
        """Serve *methods* by their paths; a message has at most *max_bytes*, a request in JSON *max_json_bytes*."""
        services = [descriptor_pool.Default().FindServiceByName(method.service) for method in methods.values()]
        # Here, since it takes too long for the event loop of a running server.
        compiled = compiled_messages(service.file for service in services)
        json_form = partial(JsonForm, max_bytes=max_json_bytes, compiled=compiled)
        endpoints: dict[str, Any] = {
            path: _endpoint(method, service.methods_by_name[method.name], json_form, max_bytes)
            for (path, method), service in zip(methods.items(), services, strict=True)
        }
        super().__init__(
            service=None,
            endpoints=lambda _: endpoints,
            read_max_bytes=max_bytes,
            compressions=[BoundedGzip()],
            codecs=[PassedOn(PROTO), PassedOn(JSON)],
        )
        self.paths = frozenset(endpoints)

    @property
    def path(self) -> str:
        """Return the prefix of the paths of all methods."""
        return "/memsvc.v1."


def _endpoint(
    method: Method, described: MethodDescriptor, json_form: Callable[[type[Any]], MessageFormat], max_bytes: int
) -> Endpoint[Any, Any]:
    """Return the endpoint of a method."""
    request = message_factory.GetMessageClass(described.input_type)
    forms: dict[str, MessageFormat] = {PROTO: BinaryForm(request), JSON: json_form(request)}
    kind = _KINDS[described.client_streaming, described.server_streaming]
    info: MethodInfo[Any, Any] = MethodInfo(
        name=method.name,
        service_name=method.service,
        # The chain decodes and encodes; what it gets and gives are bytes.
        input=bytes,
        output=bytes,
        idempotency_level=IdempotencyLevel.UNKNOWN,
        stream_type=kind,
    )
    make: Any = getattr(Endpoint, kind.name.lower())
    run: Any = partial(_stream if described.server_streaming else _single, method, forms, max_bytes)
    endpoint: Endpoint[Any, Any] = make(info, run)
    return endpoint


_KINDS = {
    (False, False): StreamType.UNARY,
    (True, False): StreamType.CLIENT_STREAM,
    (False, True): StreamType.SERVER_STREAM,
    (True, True): StreamType.BIDI_STREAM,
}


def _form_of(forms: Mapping[str, MessageFormat], context: RequestContext[Any, Any]) -> MessageFormat:
    content_type = context.request_headers.get("content-type", "").partition(";")[0].strip().lower()
    return forms[JSON if content_type.endswith(JSON) else PROTO]


async def _single(
    method: Method,
    forms: Mapping[str, MessageFormat],
    max_bytes: int,
    request: bytes | AsyncIterator[bytes],
    context: RequestContext[Any, Any],
) -> bytes:
    """Run a call with one response."""
    form = _form_of(forms, context)
    try:
        response: bytes = await method.handle(request, HttpContext(context, form, max_bytes), form)
    except _HttpAbort as aborted:
        raise aborted.error from None
    return response


async def _stream(
    method: Method,
    forms: Mapping[str, MessageFormat],
    max_bytes: int,
    request: bytes | AsyncIterator[bytes],
    context: RequestContext[Any, Any],
) -> AsyncIterator[bytes]:
    """Run a call with a stream of responses."""
    form = _form_of(forms, context)
    call = HttpContext(context, form, max_bytes)
    running = asyncio.create_task(method.handle(request, call, form), name=method.name)
    try:
        async for message in call.responses.read(running):
            yield message
        await running
    except _HttpAbort as aborted:
        raise aborted.error from None
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await running


async def send_error(
    send: Send, status: int, code: str, message: str, headers: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    """Send an error in the form of Connect."""
    body = json.dumps({"code": code, "message": message}).encode()
    size = (b"content-length", str(len(body)).encode())
    kind = (b"content-type", b"application/json")
    await send({"type": "http.response.start", "status": status, "headers": [kind, size, *headers]})
    await send({"type": "http.response.body", "body": body})


def in_time(receive: Receive, limits: SlotOptions) -> Receive:
    """Return *receive* with limits on the silence of the client while it sends the body of a request.

    Raises:
        ConnectError: The client was silent for too long.
    """
    seconds: float | None = limits.first_message_seconds

    async def receive_in_time() -> Message:
        nonlocal seconds
        try:
            async with asyncio.timeout(seconds):
                message = await receive()
        except TimeoutError:
            waited = "The deadline was exceeded while the service was waiting for the body of the request."
            raise ConnectError(Code.DEADLINE_EXCEEDED, waited) from None
        seconds = limits.next_message_seconds if message.get("more_body", False) else None
        return message

    return receive_in_time
