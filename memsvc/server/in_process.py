"""Calls from within the process: a channel of gRPC that leads to the call chain, for MCP over HTTP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable, Mapping
from contextvars import Context as Variables
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Never, TypeVar

import grpc
from google.protobuf.message import Message

from memsvc.domain.api_keys import ApiKey
from memsvc.server.interceptors.chain import Method

T = TypeVar("T")


class Handover(Generic[T]):
    """Messages of a stream of responses, handed from a call to its reader one by one."""

    def __init__(self) -> None:
        self._written: asyncio.Queue[T] = asyncio.Queue(1)

    async def write(self, message: T) -> None:
        """Hand a message over; return when the reader asks for the next one."""
        await self._written.put(message)
        await self._written.join()

    async def read(self, call: asyncio.Task[Any]) -> AsyncGenerator[T, None]:
        """Yield what is written until the call has ended."""
        while not call.done():
            reading = asyncio.ensure_future(self._written.get())
            try:
                await asyncio.wait((reading, call), return_when=asyncio.FIRST_COMPLETED)
            finally:
                reading.cancel()
            if reading.done() and not reading.cancelled():
                yield reading.result()
                self._written.task_done()


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller on whose behalf calls are made.

    Attributes:
        peer: The address of the client, as gRPC writes it.
        authorization: The header of that name in the client's request.
        verified_key: The rights of a caller that was authenticated without an API key; None: the header decides.
    """

    peer: str
    authorization: str = ""
    verified_key: ApiKey | None = None


class InProcessChannel:
    """A channel to the methods of a call chain, as the stubs for asyncio use one.

    Attributes:
        caller: The caller of the next calls; a caller renews its token, and comes from another port each time.
    """

    def __init__(self, methods: Mapping[str, Method], caller: Caller) -> None:
        """Call *methods*, by their paths, for *caller*."""
        self._methods = methods
        self.caller = caller

    def unary_unary(self, path: str, _: Any = None, response_deserializer: Any = None, *__: Any, **___: Any) -> Any:
        """Return a method with one request and one response."""
        return partial(_Response, self._methods[path], self, response_deserializer)

    def unary_stream(self, path: str, *_: Any, **__: Any) -> Any:
        """Return a method with a stream of responses."""
        return partial(_Responses, self._methods[path], self)

    def stream_unary(self, path: str, *_: Any, **__: Any) -> Any:
        """Return a method with a stream of requests."""
        return partial(self._refused, path)

    stream_stream = stream_unary

    async def close(self) -> None:
        """Return: nothing was opened."""

    def _refused(self, path: str, *_: Any, **__: Any) -> Never:
        message = f"{path} is not called from within the process."
        raise NotImplementedError(message)


async def _run(method: Method, request: Message, context: _Context) -> Any:
    """Run a call; its errors are those that a client of gRPC gets."""
    try:
        async with asyncio.timeout(context.time_remaining()):
            return await method.handle(request.SerializeToString(), context)
    except _Aborted as aborted:
        raise aborted.error from None
    except TimeoutError:
        none = grpc.aio.Metadata()
        late = grpc.aio.AioRpcError(grpc.StatusCode.DEADLINE_EXCEEDED, none, none, "Deadline Exceeded")
        raise late from None


class _Context:
    """A call as the chain sees it."""

    def __init__(self, caller: Caller, seconds: float | None) -> None:
        self.verified_key = caller.verified_key
        self._caller = caller
        self._end = None if seconds is None else time.monotonic() + seconds
        self.responses: Handover[Message] = Handover()
        self.trailers: tuple[tuple[str, Any], ...] = ()

    def invocation_metadata(self) -> Iterable[tuple[str, str | bytes]] | None:
        """Return the headers that the caller is authenticated by."""
        return (("authorization", self._caller.authorization),) if self._caller.authorization else ()

    def time_remaining(self) -> float | None:
        """Return the seconds until the deadline, None without one."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    def peer(self) -> str:
        """Return the address of the client."""
        return self._caller.peer

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """Return nothing: no certificate is handed on."""
        return {}

    def set_trailing_metadata(self, trailing_metadata: Iterable[tuple[str, Any]]) -> None:
        """Keep the trailers for the caller."""
        self.trailers = tuple(trailing_metadata)

    async def write(self, message: Any) -> None:
        """Hand a response over; return when it was read."""
        await self.responses.write(message)

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Any = ()) -> Never:
        """End the call with an error as a client of gRPC gets it."""
        trailers = grpc.aio.Metadata(*trailing_metadata)
        raise _Aborted(grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailers, details))


class _Aborted(grpc.aio.AbortError):
    """End of a call with an error."""

    def __init__(self, error: grpc.aio.AioRpcError) -> None:
        super().__init__()
        self.error = error


class _Response:
    """A single response that is under way."""

    def __init__(
        self,
        method: Method,
        channel: InProcessChannel,
        deserialize: Callable[[bytes], Message],
        request: Message,
        timeout: float | None = None,
        **_: Any,
    ) -> None:
        self._context = _Context(channel.caller, timeout)
        self._deserialize = deserialize
        # Each call has context variables of its own, as those of gRPC have.
        self._call = asyncio.create_task(_run(method, request, self._context), name=method.name, context=Variables())

    def __await__(self) -> Generator[Any, None, Message]:
        return self._read().__await__()

    async def _read(self) -> Message:
        return self._deserialize(await self._call)

    async def trailing_metadata(self) -> tuple[tuple[str, Any], ...]:
        """Return what was sent at the end of the call."""
        return self._context.trailers


class _Responses:
    """A stream of responses that is under way."""

    def __init__(
        self, method: Method, channel: InProcessChannel, request: Message, timeout: float | None = None, **_: Any
    ) -> None:
        self._context = _Context(channel.caller, timeout)
        self._call = asyncio.create_task(_run(method, request, self._context), name=method.name, context=Variables())
        self._messages = self._read()

    def __aiter__(self) -> AsyncIterator[Message]:
        return self._messages

    async def read(self) -> Any:
        """Return the next response, or `grpc.aio.EOF` after the last one; raise the error that the call ended with."""
        return await anext(self._messages, grpc.aio.EOF)

    async def code(self) -> grpc.StatusCode:
        """Return OK: `read` raises any other status."""
        return grpc.StatusCode.OK

    async def _read(self) -> AsyncGenerator[Message, None]:
        async for message in self._context.responses.read(self._call):
            yield message
        await self._call

    def cancel(self) -> bool:
        """End the call."""
        return self._call.cancel()
