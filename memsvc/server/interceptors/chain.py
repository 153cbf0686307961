"""Chain around the handlers of all four kinds: one coroutine for each call, and one hop to a thread for most calls.

gRPC takes more than 512 KiB of a request from a client only when the message is asked for. Received before the key was
checked, 13 MB from each of 100 callers with forged keys took 1.5 GiB.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from contextvars import Context as Variables
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar, cast

import grpc
from google.protobuf.message import DecodeError

from memsvc.domain.errors import (
    DeadlineExceededError,
    InvalidRequestError,
    LimitExceededError,
    LimitKind,
    ResponseTooLargeError,
    ServerStoppingError,
    Violation,
)
from memsvc.server.call_context import Call, CallNext, Context, MessageFormat, Read, deadline, principal
from memsvc.server.executors import NamedExecutor, Pending, worker_of
from memsvc.server.interceptors.authentication import body_limit
from memsvc.server.interceptors.encoded_requests import BYTES_PER_SECOND, LARGE_BYTES, ParseTurns, is_chunk, parse
from memsvc.server.interceptors.rules import ServerRules
from memsvc.server.slots import SlotOptions

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"

SILENT_CALLER = "the request of the client"
SILENT_WRITER = "the next message of the client"
SILENT_READER = "the client to read the next message"
STATUS_SECONDS = 1.0
"""The longest wait of a stop for clients to receive how their calls ended."""
END_SECONDS = 0.02
"""The delay after the last message until a stream counts as whole: gRPC ends the messages of a cancelled call as if all
had arrived, and reports the cancellation up to 2 ms later. Without it half a document could be stored as whole."""
MOST_RECEIVED = 16
"""Requests of a tenant that are received at a time: those that need no content, and others. Each has up to
`max_message_bytes`."""
WAIT_SECONDS = 5.0
"""The longest wait of a request for others to be received; it is not in memory. Then it is refused."""
RETRY_SECONDS = 1.0
ASIDE_BYTES = 64 * 1024
"""The size of a message above which a thread decodes or encodes it: 4 MiB of JSON take over a second."""
STEP_BYTES = 16 * 1024
"""The size as which a shorter message of a stream counts in the rate of several streams: receiving takes as long."""
_Group: TypeAlias = tuple[str, bool]
"""A tenant, and whether its requests need no content: these do not wait for uploads of others."""
R = TypeVar("R")


class Interceptor(Protocol):
    """Code around every call."""

    async def intercept(self, call: Call, call_next: CallNext) -> Any:
        """Await *call_next* once, and return its result."""
        ...


class Handle(Protocol):
    """Function that runs the calls of one method."""

    async def __call__(
        self, request: Any, context: Context, form: MessageFormat | None = None, *, read: Read | None = None
    ) -> Any:
        """Run a call.

        *request* is its bytes, or an iterator of them, in *form* (None: gRPC's), decoded once the key is known. With
        *read* it is empty, and received by it then. The result is the bytes of a single response; several are written
        to the context.
        """
        ...


@dataclass(frozen=True, slots=True)
class Method:
    """A method with the chain around it, for any transport.

    Attributes:
        service: The full name of its service.
        name: Its name.
        handle: The function that runs its calls.
    """

    service: str
    name: str
    handle: Handle


@dataclass(slots=True, eq=False)
class _Receipts:
    """Requests of a group: a free place for each that may be received, and the count of all of them."""

    places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_RECEIVED))
    count: int = 0


class RequestReceiver:
    """Receiver of single requests. To be used in one thread: that of the event loop."""

    def __init__(self, seconds: float) -> None:
        """Give a client *seconds* to send a request, unless its deadline is earlier."""
        self._seconds = seconds
        self._groups: dict[_Group, _Receipts] = {}

    async def receive(self, method: str, read: Read) -> bytes:
        """Return the request of a call that is authenticated, which *read* receives.

        Raises:
            InvalidRequestError: There is none.
            LimitExceededError: Others of the tenant are received for too long.
            DeadlineExceededError: The client does not send it in time.
        """
        group = principal.get().tenant_id, body_limit(method) is not None
        receipts = self._groups.get(group)
        if receipts is None:
            receipts = self._groups[group] = _Receipts()
        receipts.count += 1
        try:
            await _take_place(receipts.places)
        except BaseException:
            self._leave(group, receipts)
            raise
        release, seconds = partial(self._release, group, receipts), 0.0
        try:
            body = await self._read(read)
            seconds = _held_seconds(len(body))
        finally:
            if seconds:
                asyncio.get_running_loop().call_later(seconds, release, context=Variables())
            else:
                release()
        return body

    def _release(self, group: _Group, receipts: _Receipts) -> None:
        receipts.places.release()
        self._leave(group, receipts)

    def _leave(self, group: _Group, receipts: _Receipts) -> None:
        receipts.count -= 1
        if not receipts.count:
            del self._groups[group]

    async def _read(self, read: Read) -> bytes:
        remaining = deadline.get().remaining_seconds()
        if remaining is not None and remaining <= self._seconds:
            body = await read()
        else:
            try:
                async with asyncio.timeout(self._seconds):
                    body = await read()
            except TimeoutError as error:
                raise DeadlineExceededError(SILENT_CALLER) from error
        if isinstance(body, bytes):
            return body
        await asyncio.sleep(END_SECONDS)
        raise _no_request()


def _held_seconds(size: int) -> float:
    """Return the time for which a received request keeps its place: a large one so long that the rate is not exceeded.

    gRPC copies what is received in the event loop.
    """
    return 0.0 if size <= LARGE_BYTES else MOST_RECEIVED * size / BYTES_PER_SECOND


async def _take_place(places: asyncio.Semaphore) -> None:
    if not places.locked():
        await places.acquire()
        return
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            await places.acquire()
    except TimeoutError as error:
        limit = f"{MOST_RECEIVED} requests of a tenant that are received at a time"
        raise LimitExceededError(limit, retry_seconds=RETRY_SECONDS, kind=LimitKind.CONCURRENCY) from error


class CallChain:
    """The handlers of our services with the rules around them. Other services are not intercepted."""

    def __init__(
        self,
        rules: ServerRules,
        layers: Sequence[Interceptor],
        executors: Mapping[str, NamedExecutor],
        *,
        max_response_bytes: int,
        limits: SlotOptions | None = None,
    ) -> None:
        """Wrap handlers in *rules*; *layers* are between the request id and the others, the first outermost.

        A handler that `runs_in` names is a function: it is decoded, called and encoded in a thread of that executor.
        Clients whose streams are silent for longer than *limits* lose them. A response has at most
        *max_response_bytes*: gRPC itself refuses a larger one without a reason, when the call has ended with OK.
        """
        self._max_response_bytes = max_response_bytes
        self._limits = limits or SlotOptions()
        self._rules = rules
        self._layers = tuple(layers)
        self._executors = executors
        self._turns = ParseTurns()
        self._receiver = RequestReceiver(self._limits.next_message_seconds)
        self._handlers: dict[str, Handler] = {}
        self._running: dict[asyncio.Task[Any], Call] = {}
        self._is_refusing = False
        self._all_ended = asyncio.Event()
        self.methods: dict[str, Method] = {}
        """The methods by path, such as "/memsvc.v1.SearchService/Search"."""

    def add(self, add_servicer: Callable[[Any, Any], None], servicer: object) -> None:
        """Wrap every method of a servicer; *add_servicer* is the generated function that adds it to a server."""
        add_servicer(servicer, _Registry(self))

    def generic_handler(self) -> grpc.GenericRpcHandler:
        """Return one handler for all methods."""
        return _Dispatcher(self._handlers)

    def refuse(self) -> None:
        """Refuse new calls with `ServerStoppingError`; those under way go on.

        gRPC itself would end a call that arrives during its stop with CANCELLED.
        """
        self._is_refusing = True

    async def drain(self, seconds: float) -> float:
        """Return when the calls under way have ended, or after *seconds*, with the time that is left."""
        if not self._running:
            return seconds
        clock = asyncio.get_running_loop().time
        end = clock() + seconds
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._all_ended.wait()
        return max(0.0, end - clock())

    async def end_calls(self) -> None:
        """End the calls that are still under way with `ServerStoppingError`; gRPC would end them without a reason.

        A client that does not read its stream receives no error: it is waited for `STATUS_SECONDS`.
        """
        for task, call in self._running.items():
            call.is_stopped = True
            task.cancel()
        await self.drain(STATUS_SECONDS)

    def wrap(self, handler: Handler, path: str) -> Handler:
        """Return the handler of the method at *path* with the chain around it."""
        service, _, name = path.removeprefix("/").partition("/")
        kind = _KINDS[bool(handler.request_streaming), bool(handler.response_streaming)]
        method = self.methods[path] = Method(service, name, self._handle(handler, kind, service, name))
        serialize = handler.response_serializer if handler.response_streaming else None
        if serialize is not None:
            serialize = partial(self._bounded, serialize)
        wrapped: Handler = getattr(grpc, f"{kind}_rpc_method_handler")(method.handle, None, serialize)
        return wrapped

    def wrap_unread(self, handler: Handler, path: str) -> Handler:
        """Return the handler as `wrap` does, but with a single request that is received when the key is known.

        To gRPC it is that of a stream of requests: only those are called before a message was received.
        """
        wrapped = self.wrap(handler, path)
        if handler.request_streaming:
            return wrapped
        handle = self.methods[path].handle

        async def handle_unread(_: object, context: Any) -> Any:
            return await handle(b"", context, read=context.read)

        kind = _KINDS[True, bool(handler.response_streaming)]
        unread: Handler = getattr(grpc, f"{kind}_rpc_method_handler")(handle_unread, None, wrapped.response_serializer)
        return unread

    def _handle(self, handler: Handler, kind: str, service: str, name: str) -> Handle:
        streams = bool(handler.request_streaming or handler.response_streaming)
        whole = partial(self._run, self._body(handler, kind))
        for layer in reversed(self._layers):
            whole = partial(layer.intercept, call_next=whole)
        begin = self._rules.begin

        # A coroutine also for streams, not a generator: so a cancellation by the client always arrives in here, and
        # the servicer's generator is closed at once and in the task of the call.
        async def handle(
            request: Any, context: Context, form: MessageFormat | None = None, *, read: Read | None = None
        ) -> Any:
            call, request = Call(name, request, context, streams, service=service, form=form, read=read), None
            call.is_refused = self._is_refusing
            begin(call)
            task = cast("asyncio.Task[Any]", asyncio.current_task())
            self._running[task] = call
            try:
                return await whole(call)
            finally:
                del self._running[task]
                if self._is_refusing and not self._running:
                    self._all_ended.set()
                # An aborted call is kept alive by the error that gRPC keeps; its request must not be.
                call.request = None

        return handle

    async def _run(self, body: CallNext, call: Call) -> Any:
        """Run the body of a call by the rules."""
        started = time.perf_counter()
        rules = self._rules
        try:
            if call.is_refused:
                raise ServerStoppingError  # noqa: TRY301 - reported as any other error
            seconds = rules.limit(call)
            if seconds is None:
                return await self._admitted(body, call)
            try:
                async with asyncio.timeout(seconds) as clock:
                    return await self._admitted(body, call)
            except TimeoutError as error:
                if not clock.expired():
                    raise
                raise rules.expired() from error
        except grpc.aio.AbortError:
            raise
        except asyncio.CancelledError:
            if call.is_stopped:
                # From here on a cancellation is that of gRPC or of the client again.
                call.is_stopped = False
                cast("asyncio.Task[Any]", asyncio.current_task()).uncancel()
                await rules.fail(call, ServerStoppingError())
            is_late = call.context.time_remaining() == 0
            call.code = grpc.StatusCode.DEADLINE_EXCEEDED if is_late else grpc.StatusCode.CANCELLED
            raise
        except Exception as error:  # noqa: BLE001 - no exception may pass
            await rules.fail(call, error)
        finally:
            rules.end(call, started)

    async def _admitted(self, body: CallNext, call: Call) -> Any:
        release = await self._rules.admit(call)
        try:
            if call.read is not None:
                call.request = await self._receiver.receive(call.method, call.read)
                self._rules.check_size(call)
            if release is not None and call.streams:
                body = self._rules.watched(call, body)
            return await body(call)
        finally:
            if release is not None:
                release()

    def _body(self, handler: Handler, kind: str) -> CallNext:
        behaviour = getattr(handler, kind)
        decode: _Decode = partial(_decoded, handler.request_deserializer)
        if handler.request_streaming:
            decode = partial(_readable, self._limits, self._turns, handler.request_deserializer)
        if handler.response_streaming:
            return partial(_streaming, self._limits, self._turns, behaviour, decode)
        encode = partial(self._encoded, handler.response_serializer)
        name = worker_of(behaviour)
        if name is None:
            return partial(_unary, self._turns, behaviour, decode, encode)
        return partial(_threaded, self._executors[name], self._turns, behaviour, decode, encode)

    def _encoded(self, serialize: Callable[[Any], bytes] | None, call: Call, response: Any) -> Any:
        call.response = response
        if call.form is not None:
            serialize = call.form.encode
        return response if serialize is None else self._bounded(serialize, response)

    def _bounded(self, serialize: Callable[[Any], bytes], response: Any) -> bytes:
        return encode_bounded(serialize, self._max_response_bytes, response)


class _Registry:
    """The part of a server that the generated functions use."""

    def __init__(self, chain: CallChain) -> None:
        self._chain = chain

    def add_generic_rpc_handlers(self, handlers: Sequence[object]) -> None:
        """Leave out what `add_registered_method_handlers` adds."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Handler]) -> None:
        """Wrap the handlers of a service."""
        for method, handler in handlers.items():
            path = f"/{service}/{method}"
            self._chain._handlers[path] = self._chain.wrap_unread(handler, path)  # noqa: SLF001 - its own helper


class _Dispatcher(grpc.GenericRpcHandler):
    """Handlers by the path of the method."""

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = handlers

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Handler | None:
        """Return the handler of a method, None for an unknown one."""
        return self._handlers.get(handler_call_details.method)


def _decoded(deserialize: Callable[[bytes], Any] | None, call: Call) -> Any:
    """Decode the request of a call, and check the role that depends on it."""
    request = call.request = _message(deserialize, call, call.request)
    if call.authorize is not None:
        call.authorize(request)
    return request


def _decoded_before(call: Call) -> Any:
    return call.request


def _message(deserialize: Callable[[bytes], Any] | None, call: Call, body: bytes) -> Any:
    try:
        if call.form is not None:
            return call.form.decode(body)
        if deserialize is None:
            return body
        return deserialize(body) if len(body) <= ASIDE_BYTES else parse(body, deserialize)
    except DecodeError:
        raise _no_request() from None


def encode_bounded(serialize: Callable[[Any], bytes], limit: int, response: Any) -> bytes:
    """Return the bytes of a response.

    Raises:
        ResponseTooLargeError: They are more than *limit*.
    """
    encoded = serialize(response)
    if len(encoded) > limit:
        raise ResponseTooLargeError(size=len(encoded), limit=limit)
    return encoded


async def aside(size: int, work: Callable[..., R], *given: Any) -> R:
    """Return the result of *work*, which takes long for a message of a large *size*: in a thread then."""
    return work(*given) if size <= ASIDE_BYTES else await asyncio.to_thread(work, *given)


def _sent(call: Call, response: Any) -> int:
    return response.ByteSize() if call.form is not None else 0


async def _readable(
    limits: SlotOptions, turns: ParseTurns, deserialize: Callable[[bytes], Any] | None, call: Call
) -> AsyncGenerator[Any, None]:
    async for body in _in_time(call.request, limits):
        decode = partial(_message, deserialize, call, body)
        weight = _weight(call, body)
        if weight > LARGE_BYTES:
            yield await turns.run(principal.get().tenant_id, len(body), decode)
            continue
        await turns.step(principal.get().tenant_id, max(len(body), STEP_BYTES))
        yield await aside(0 if _is_chunk(deserialize, call, body) else weight, decode)
    await asyncio.sleep(END_SECONDS)


def _is_chunk(deserialize: Any, call: Call, body: Any) -> bool:
    return call.form is None and deserialize is not None and is_chunk(body, deserialize)


def _weight(call: Call, body: Any) -> int:
    """Return the size of a request in the form of gRPC that takes as long to decode."""
    if not isinstance(body, bytes):
        return 0
    return len(body) if call.form is None else call.form.weight(body)


async def _in_turn(turns: ParseTurns, decode: _Decode, call: Call) -> Any:
    return await turns.run(principal.get().tenant_id, call.size, partial(decode, call))


async def _received(turns: ParseTurns, decode: _Decode, call: Call) -> Any:
    """Decode a single request: a large one when it is its turn, one that takes long in a thread."""
    weight = _weight(call, call.request)
    call.is_heavy = weight > ASIDE_BYTES
    if weight > LARGE_BYTES:
        return await _in_turn(turns, decode, call)
    await _paced(turns, weight)
    return await aside(weight, decode, call)


async def _paced(turns: ParseTurns, weight: int) -> None:
    """Delay a request of medium weight for the rate of its tenant."""
    if weight > ASIDE_BYTES:
        await turns.pace(principal.get().tenant_id, weight)


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
    """Return the error of bytes that are no request of the method."""
    return InvalidRequestError([Violation("request", "must be the bytes of a message that this method takes")])


_Decode: TypeAlias = Callable[[Call], Any]
_Encode: TypeAlias = Callable[[Call, Any], Any]


async def _unary(
    turns: ParseTurns,
    behaviour: Callable[[Any, Context], Awaitable[Any]],
    decode: _Decode,
    encode: _Encode,
    call: Call,
) -> Any:
    response = await behaviour(await _received(turns, decode, call), call.context)
    return await aside(_sent(call, response), encode, call, response)


async def _streaming(
    limits: SlotOptions,
    turns: ParseTurns,
    behaviour: Callable[[Any, Context], AsyncGenerator[Any, None]],
    decode: _Decode,
    call: Call,
) -> None:
    request = await _received(turns, decode, call)
    async with aclosing(behaviour(request, call.context)) as responses:
        async for response in responses:
            try:
                async with asyncio.timeout(limits.reader_seconds) as reading:
                    await call.context.write(response)
            except TimeoutError as error:
                if not reading.expired():
                    raise
                raise DeadlineExceededError(SILENT_READER) from error


async def _threaded(
    executor: NamedExecutor,
    turns: ParseTurns,
    behaviour: Callable[[Any, Context], Any],
    decode: _Decode,
    encode: _Encode,
    call: Call,
) -> Any:
    """Run a call in a thread of the executor; what waits for something goes on when that has come."""
    weight = _weight(call, call.request)
    call.is_heavy = weight > ASIDE_BYTES
    if weight > LARGE_BYTES:
        await _in_turn(turns, decode, call)
        decode = _decoded_before
    else:
        await _paced(turns, weight)
    result = await executor.run(_work, behaviour, decode, encode, call)
    if not isinstance(result, Pending):
        return result
    response = await result
    return await aside(_sent(call, response), encode, call, response)


def _work(behaviour: Callable[[Any, Context], Any], decode: _Decode, encode: _Encode, call: Call) -> Any:
    result = behaviour(decode(call), call.context)
    return result if isinstance(result, Pending) else encode(call, result)


_KINDS = {
    (False, False): "unary_unary",
    (False, True): "unary_stream",
    (True, False): "stream_unary",
    (True, True): "stream_stream",
}
