"""Wrapping handlers of all four kinds in layers, each an asynchronous context manager around the call."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import grpc

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"

OUR_PACKAGE = "/memsvc."
"""Health checks and reflection are left alone: they come often, and must not depend on anything."""


@dataclass(slots=True)
class Call:
    """One call under way, as its layers see it.

    Attributes:
        method: The name of the method, without package and service.
        streams: Whether the client, the server or both send more than one message.
        code: What the client is told at the end.
        request_id: The id under which the call's log lines are found.
    """

    method: str
    context: Context
    streams: bool = False
    code: grpc.StatusCode = field(default=grpc.StatusCode.OK)
    request_id: str = ""


class Layer(Protocol):
    """Something to be done around every call."""

    def around(self, call: Call) -> AbstractAsyncContextManager[None]:
        """Return what is entered before the handler, and left after it."""
        ...


class Interception(grpc.aio.ServerInterceptor):
    """Puts layers around the handlers of our services, the first outermost."""

    def __init__(self, layers: Sequence[Layer]) -> None:
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
            handler = self._wrapped[method] = self._wrap(handler, method.rpartition("/")[2])
        return handler

    def _wrap(self, handler: Handler, method: str) -> Handler:
        wrap = self._streaming if handler.response_streaming else self._unary
        kind = _KINDS[handler.request_streaming, handler.response_streaming]
        behaviour = getattr(handler, kind)
        streams = handler.request_streaming or handler.response_streaming
        make = getattr(grpc, f"{kind}_rpc_method_handler")
        wrapped: Handler = make(
            wrap(behaviour, method, streams=streams), handler.request_deserializer, handler.response_serializer
        )
        return wrapped

    def _unary(
        self, behaviour: Callable[[Any, Context], Awaitable[Any]], method: str, *, streams: bool
    ) -> Callable[[Any, Context], Awaitable[Any]]:
        async def unary(request: Any, context: Context) -> Any:
            async with AsyncExitStack() as stack:
                await self._enter(stack, Call(method, context, streams))
                return await behaviour(request, context)

        return unary

    def _streaming(
        self, behaviour: Callable[[Any, Context], AsyncGenerator[Any, None]], method: str, *, streams: bool
    ) -> Callable[[Any, Context], Awaitable[None]]:
        # A coroutine that writes, not a generator: so a client's cancel always arrives in here, and the handler's
        # generator is closed at once and in the task of the call.
        async def streaming(request: Any | AsyncIterator[Any], context: Context) -> None:
            async with AsyncExitStack() as stack:
                await self._enter(stack, Call(method, context, streams))
                responses = await stack.enter_async_context(aclosing(behaviour(request, context)))
                async for response in responses:
                    await context.write(response)

        return streaming

    async def _enter(self, stack: AsyncExitStack, call: Call) -> None:
        for layer in self._layers:
            await stack.enter_async_context(layer.around(call))


_KINDS = {
    (False, False): "unary_unary",
    (False, True): "unary_stream",
    (True, False): "stream_unary",
    (True, True): "stream_stream",
}
