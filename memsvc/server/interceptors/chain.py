"""Chain of interceptors around the handlers of all four kinds, each a coroutine around the rest of the call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Protocol, TypeAlias

import grpc
from google.protobuf.message import DecodeError

from memsvc.domain.clock import to_micros
from memsvc.domain.errors import DeadlineExceededError, InvalidRequestError, Violation
from memsvc.engine.commit.group_committer import CALL_START
from memsvc.server.slots import SlotOptions

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"

SILENT_WRITER = "the next message of the client"
SILENT_READER = "the client to read the next message"
END_SECONDS = 0.02
"""The delay after the last message until a stream counts as whole: gRPC ends the messages of a cancelled call as if all
had arrived, and reports the cancellation up to 2 ms later. Without it half a document could be stored as whole."""
OUR_PACKAGE = "/memsvc."
"""Health checks and reflection are not intercepted: they are frequent, and must not depend on anything."""


@dataclass(slots=True)
class Call:
    """One call under way, as its interceptors see it.

    Attributes:
        method: The name of the method, without package and service.
        service: The full name of the service, such as "memsvc.v1.SearchService".
        request: The message, or the iterator of messages.
        streams: True when the client, the server or both send more than one message.
        code: The status code that the call ends with.
        request_id: The id in the log lines of the call.
    """

    method: str
    request: Any
    context: Context
    streams: bool = False
    code: grpc.StatusCode = field(default=grpc.StatusCode.OK)
    request_id: str = ""
    service: str = ""


CallNext: TypeAlias = Callable[[Call], Awaitable[Any]]
"""The rest of a call; it returns the response of a unary method, and None for a streaming one."""


class Interceptor(Protocol):
    """Code around every call."""

    async def intercept(self, call: Call, call_next: CallNext) -> Any:
        """Await *call_next* once, and return its result."""
        ...


class InterceptorChain(grpc.aio.ServerInterceptor):
    """Interceptors around the handlers of our services, the first outermost."""

    def __init__(self, interceptors: Sequence[Interceptor], limits: SlotOptions | None = None) -> None:
        """Call *interceptors*; clients whose streams are silent for longer than *limits* lose them."""
        self._interceptors = tuple(interceptors)
        self._limits = limits or SlotOptions()
        self._wrapped: dict[str, Handler] = {}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        """Return the handler with the interceptors around it, which are wrapped once for each method."""
        method = handler_call_details.method
        if wrapped := self._wrapped.get(method):
            return wrapped
        handler = await continuation(handler_call_details)
        if handler is not None and method.startswith(OUR_PACKAGE):
            handler = self._wrapped[method] = self._wrap(handler, method)
        return handler

    def _wrap(self, handler: Handler, path: str) -> Handler:
        service, _, method = path.removeprefix("/").partition("/")
        kind = _KINDS[bool(handler.request_streaming), bool(handler.response_streaming)]
        innermost = partial(_streaming, self._limits) if handler.response_streaming else _unary
        call_next: CallNext = partial(_read, self._limits, partial(innermost, getattr(handler, kind)))
        for interceptor in reversed(self._interceptors):
            call_next = partial(interceptor.intercept, call_next=call_next)
        streams = bool(handler.request_streaming or handler.response_streaming)

        # A coroutine also for streams, not a generator: so a cancellation by the client always arrives in here, and
        # the servicer's generator is closed at once and in the task of the call.
        async def handle(request: Any, context: Context) -> Any:
            call, request = Call(method, request, context, streams, service=service), None
            try:
                return await call_next(call)
            finally:
                # An aborted call is kept alive by the error that gRPC keeps; its request must not be.
                call.request = None

        make = getattr(grpc, f"{kind}_rpc_method_handler")
        wrapped: Handler = make(handle, _deserializer(handler.request_deserializer), handler.response_serializer)
        return wrapped


class _Unreadable:
    """Placeholder for bytes that are no request: gRPC itself would answer UNKNOWN, with class names in the message."""


_UNREADABLE = _Unreadable()


def _deserializer(deserialize: Any) -> Callable[[bytes], Any]:
    def request_from(raw: bytes) -> Any:
        try:
            return deserialize(raw)
        except DecodeError:
            return _UNREADABLE

    return request_from


async def _read(limits: SlotOptions, call_next: CallNext, call: Call) -> Any:
    if call.request is _UNREADABLE:
        raise _no_request()
    if isinstance(call.request, AsyncIterator):
        call.request = _readable(call.request, limits)
    return await call_next(call)


async def _readable(requests: AsyncIterator[Any], limits: SlotOptions) -> AsyncGenerator[Any, None]:
    async for request in _in_time(requests, limits):
        if request is _UNREADABLE:
            raise _no_request()
        yield request
    await asyncio.sleep(END_SECONDS)


async def _in_time(requests: AsyncIterator[Any], limits: SlotOptions) -> AsyncGenerator[Any, None]:
    seconds = limits.first_message_seconds
    while True:
        try:
            async with asyncio.timeout(seconds):
                request = await anext(requests)
        except StopAsyncIteration:
            return
        except TimeoutError as error:
            raise DeadlineExceededError(SILENT_WRITER) from error
        yield request
        seconds = limits.next_message_seconds


def _no_request() -> InvalidRequestError:
    return InvalidRequestError([Violation("request", "must be the bytes of a message that this method takes")])


async def _unary(behaviour: Callable[[Any, Context], Awaitable[Any]], call: Call) -> Any:
    return await behaviour(call.request, call.context)


async def _streaming(
    limits: SlotOptions, behaviour: Callable[[Any, Context], AsyncGenerator[Any, None]], call: Call
) -> None:
    async with aclosing(behaviour(call.request, call.context)) as responses:
        async for response in responses:
            try:
                async with asyncio.timeout(limits.reader_seconds) as reading:
                    await call.context.write(response)
            except TimeoutError as error:
                if not reading.expired():
                    raise
                raise DeadlineExceededError(SILENT_READER) from error


_KINDS = {
    (False, False): "unary_unary",
    (False, True): "unary_stream",
    (True, False): "stream_unary",
    (True, True): "stream_stream",
}


class CallStart:
    """Sets the start of the call in a context variable, which is copied into every thread that works on the call."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        """Read the time from *now*."""
        self._now = now

    async def intercept(self, call: Call, call_next: CallNext) -> Any:
        """Set the start of the call."""
        CALL_START.set(to_micros(self._now()))
        return await call_next(call)
