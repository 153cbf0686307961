"""Wrapping handlers of all four kinds in layers, each a coroutine around the rest of the call."""

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
from memsvc.domain.errors import InvalidRequestError, Violation
from memsvc.engine.commit.group_committer import CALL_START

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"

END_SECONDS = 0.02
"""How long after the last message a stream is believed to be whole: gRPC ends a cancelled call's messages as if all had
come, and tells the cancel up to 2 ms later. So half a file, or half a document, is not taken for a whole one."""
OUR_PACKAGE = "/memsvc."
"""Health checks and reflection are left alone: they come often, and must not depend on anything."""


@dataclass(slots=True)
class Call:
    """One call under way, as its layers see it.

    Attributes:
        method: The name of the method, without package and service.
        service: The full name of the service, such as "memsvc.v1.SearchService".
        request: The message, or the messages to come.
        streams: Whether the client, the server or both send more than one message.
        code: What the client is told at the end.
        request_id: The id under which the call's log lines are found.
    """

    method: str
    request: Any
    context: Context
    streams: bool = False
    code: grpc.StatusCode = field(default=grpc.StatusCode.OK)
    request_id: str = ""
    service: str = ""


Following: TypeAlias = Callable[[Call], Awaitable[Any]]
"""The rest of a call; it returns the response of a unary method, and nothing of a streaming one."""


class Interceptor(Protocol):
    """Something to be done around every call."""

    async def around(self, call: Call, following: Following) -> Any:
        """Do it, await *following* once, and return what that returns."""
        ...


class Interception(grpc.aio.ServerInterceptor):
    """Puts layers around the handlers of our services, the first outermost."""

    def __init__(self, layers: Sequence[Interceptor]) -> None:
        self._layers = tuple(layers)
        self._wrapped: dict[str, Handler] = {}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        """Return the handler with the layers around it. Wrapped once: handlers do not change while a server runs."""
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
        innermost = _streaming if handler.response_streaming else _unary
        following: Following = partial(_read, partial(innermost, getattr(handler, kind)))
        for layer in reversed(self._layers):
            following = partial(layer.around, following=following)
        streams = bool(handler.request_streaming or handler.response_streaming)

        # A coroutine also for streams, not a generator: so a client's cancel always arrives in here, and the
        # servicer's generator is closed at once and in the task of the call.
        async def behaviour(request: Any, context: Context) -> Any:
            call, request = Call(method, request, context, streams, service=service), None
            try:
                return await following(call)
            finally:
                # A call that was aborted refers to itself by the error that gRPC keeps; not to what it was sent, too.
                call.request = None

        make = getattr(grpc, f"{kind}_rpc_method_handler")
        wrapped: Handler = make(behaviour, _tolerant(handler.request_deserializer), handler.response_serializer)
        return wrapped


class _Unreadable:
    """Stands for bytes that are no request: gRPC itself would answer UNKNOWN, with names of classes in the message."""


_UNREADABLE = _Unreadable()


def _tolerant(deserialize: Any) -> Callable[[bytes], Any]:
    def request_from(raw: bytes) -> Any:
        try:
            return deserialize(raw)
        except DecodeError:
            return _UNREADABLE

    return request_from


async def _read(following: Following, call: Call) -> Any:
    if call.request is _UNREADABLE:
        raise _no_request()
    if isinstance(call.request, AsyncIterator):
        call.request = _readable(call.request)
    return await following(call)


async def _readable(requests: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
    async for request in requests:
        if request is _UNREADABLE:
            raise _no_request()
        yield request
    await asyncio.sleep(END_SECONDS)


def _no_request() -> InvalidRequestError:
    return InvalidRequestError([Violation("request", "must be the bytes of a message that this method takes")])


async def _unary(behaviour: Callable[[Any, Context], Awaitable[Any]], call: Call) -> Any:
    return await behaviour(call.request, call.context)


async def _streaming(behaviour: Callable[[Any, Context], AsyncGenerator[Any, None]], call: Call) -> None:
    async with aclosing(behaviour(call.request, call.context)) as responses:
        async for response in responses:
            await call.context.write(response)


_KINDS = {
    (False, False): "unary_unary",
    (False, True): "unary_stream",
    (True, False): "stream_unary",
    (True, True): "stream_stream",
}


# When a call was begun, as the engine wants to know it.


class CallStart:
    """Notes the moment in a context variable, which goes along into every thread that works on the call."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        """Look at the clock *now*."""
        self._now = now

    async def around(self, call: Call, following: Following) -> Any:
        """Note the moment."""
        CALL_START.set(to_micros(self._now()))
        return await following(call)
