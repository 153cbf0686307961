"""What happens around every call, without a network."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Never, cast

import grpc
import pytest
import structlog
from google.protobuf.message import Message
from google.rpc import error_details_pb2 as details
from google.rpc.status_pb2 import Status

from memsvc.domain.errors import BackendUnavailableError, MemoryNotFoundError
from memsvc.logging_config import AccessLog
from memsvc.server import call_context
from memsvc.server.executors import NamedExecutor, Pending, runs_in
from memsvc.server.http.messages import JsonForm
from memsvc.server.interceptors.chain import ASIDE_BYTES, CallChain
from memsvc.server.interceptors.rules import EndedCall, ServerRules
from memsvc.settings import LogFormat, LogSettings
from memsvc.testing.factories import NOW
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb


@dataclass
class FakeContext:
    """As much of a call's context as the chain uses; *remaining* is what the client left."""

    metadata: tuple[tuple[str, str], ...] = ()
    remaining: float | None = None
    trailers: dict[str, Any] = field(default_factory=dict)
    code: grpc.StatusCode | None = None
    message: str = ""
    written: list[Any] = field(default_factory=list)

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        """Return what the client sent."""
        return self.metadata

    def set_trailing_metadata(self, pairs: tuple[tuple[str, Any], ...]) -> None:
        """Note what the client will get."""
        self.trailers = dict(pairs)

    def time_remaining(self) -> float | None:
        """Return what the client left."""
        return self.remaining

    def peer(self) -> str:
        """Return who calls."""
        return "ipv4:127.0.0.1:1"

    async def write(self, message: Any) -> None:
        """Note a response of a stream."""
        self.written.append(message)

    async def abort(self, code: grpc.StatusCode, message: str, trailers: tuple[tuple[str, Any], ...]) -> Never:
        """End the call as gRPC does."""
        self.code, self.message, self.trailers = code, message, dict(trailers)
        raise grpc.aio.AbortError


class Recorded:
    """Notes measurements."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, bool]] = []

    def record(
        self, operation: str, layer: str, seconds: float, *, failed: bool = False, is_endless: bool = False
    ) -> None:
        """Note one."""
        assert seconds >= 0
        self.calls.append((operation, layer, failed))


def handler(kind: str, behaviour: Callable[..., Any]) -> Any:
    """Return a handler of one of the four kinds."""
    return getattr(grpc, f"{kind}_rpc_method_handler")(behaviour)


def chain_of(recorded: Recorded | None = None, seconds: float = 5.0, **options: Any) -> CallChain:
    """Return the chain of a server without keys, whose default deadline is *seconds*."""
    rules = ServerRules(recorded or Recorded(), now=lambda: NOW, default_seconds=seconds, **options)
    return CallChain(rules, (), {"meta": EXECUTOR}, max_response_bytes=16 * ASIDE_BYTES)


EXECUTOR = NamedExecutor("meta", threads=2, queue_factor=4)


def serve(kind: str, behaviour: Callable[..., Any], context: FakeContext, recorded: Recorded | None = None) -> Any:
    """Call a handler through the chain and return its response."""
    wrapped = chain_of(recorded).wrap(handler(kind, behaviour), "/memsvc.v1.MemoryService/GetMemory")
    request = _iterate("request") if kind.startswith("stream") else "request"

    async def run() -> Any:
        return await getattr(wrapped, kind)(request, context)

    with structlog.testing.capture_logs():
        return asyncio.run(run())


async def _iterate(*messages: str) -> AsyncIterator[str]:
    for message in messages:
        yield message


async def _read(request: Any) -> str:
    return request if isinstance(request, str) else "".join([message async for message in request])


async def unary(request: Any, context: Any) -> str:
    """Answer once."""
    return f"{await _read(request)} of {call_context.request_id.get()}"


async def stream(request: Any, context: Any) -> AsyncGenerator[str, None]:
    """Answer twice."""
    yield await _read(request)
    yield f"of {call_context.request_id.get()}"


async def failing(request: Any, context: Any) -> str:
    """Fail with an error of the domain."""
    raise MemoryNotFoundError("m")


async def failing_stream(request: Any, context: Any) -> AsyncGenerator[str, None]:
    """Fail after a response."""
    yield "first"
    raise MemoryNotFoundError("m")


@pytest.mark.parametrize("kind", ["unary_unary", "stream_unary"])
def test_a_handler_with_one_response_returns_it(kind: str) -> None:
    """The chain changes nothing of it."""
    context = FakeContext(metadata=(("x-request-id", "r-1"),))
    recorded = Recorded()

    assert serve(kind, unary, context, recorded) == "request of r-1"
    assert recorded.calls == [("GetMemory", "edge", False)]
    assert context.trailers == {"x-request-id": "r-1"}


@pytest.mark.parametrize("kind", ["unary_stream", "stream_stream"])
def test_a_handler_with_several_responses_writes_them(kind: str) -> None:
    """In order."""
    context = FakeContext(metadata=(("x-request-id", "r-1"),))

    serve(kind, stream, context)

    assert context.written == ["request", "of r-1"]


@pytest.mark.parametrize(
    ("kind", "behaviour"),
    [
        ("unary_unary", failing),
        ("stream_unary", failing),
        ("unary_stream", failing_stream),
        ("stream_stream", failing_stream),
    ],
)
def test_an_error_of_the_domain_becomes_a_status(kind: str, behaviour: Callable[..., Any]) -> None:
    """With its details and the request's id, whatever the kind of handler; it counts as failed."""
    context = FakeContext(metadata=(("x-request-id", "r-1"),))
    recorded = Recorded()

    with pytest.raises(grpc.aio.AbortError):
        serve(kind, behaviour, context, recorded)

    assert context.code is grpc.StatusCode.NOT_FOUND
    info = details.ErrorInfo()
    assert Status.FromString(context.trailers["grpc-status-details-bin"]).details[0].Unpack(info)
    assert info.reason == "ERROR_REASON_MEMORY_NOT_FOUND"
    assert context.trailers["x-request-id"] == "r-1"
    assert recorded.calls[0][2]


def logs_of(behaviour: Callable[..., Awaitable[Any]], context: FakeContext) -> list[Any]:
    """Return the log lines of a call."""

    async def run() -> None:
        wrapped: Any = chain_of(seconds=0.02).wrap(handler("unary_unary", behaviour), "GetMemory")
        await wrapped.unary_unary("request", context)

    with structlog.testing.capture_logs() as lines, pytest.raises((grpc.aio.AbortError, asyncio.CancelledError)):
        asyncio.run(run())
    return list(lines)


def test_the_line_in_the_log_bears_the_id_of_its_call() -> None:
    """A line that is written at once has it from the context of the call."""
    merged = [structlog.contextvars.merge_contextvars]

    async def run() -> None:
        wrapped: Any = chain_of().wrap(handler("unary_unary", unary), "GetMemory")
        await wrapped.unary_unary("request", FakeContext(metadata=(("x-request-id", "r-1"),)))

    with structlog.testing.capture_logs(processors=merged) as lines:
        asyncio.run(run())

    (line,) = lines
    assert (line["event"], line["code"], line["request_id"]) == ("call ended", "OK", "r-1")


def test_the_access_log_writes_every_line_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    """A thread writes them together, and closing writes what is left."""
    log = AccessLog(LogSettings(format=LogFormat.JSON))
    for number in range(3):
        log.note(EndedCall(1_800_000_000.25, "Search", f"r-{number}", "OK", 0.0012345678, "ipv4:1.2.3.4:5"))
    log.close()

    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]

    assert [line["request_id"] for line in lines] == ["r-0", "r-1", "r-2"]
    assert lines[0] == {
        "event": "call ended",
        "method": "Search",
        "request_id": "r-0",
        "code": "OK",
        "seconds": 0.001235,
        "peer": "ipv4:1.2.3.4:5",
        "timestamp": "2027-01-15T08:00:00.250000Z",
        "logger": "memsvc.access",
        "level": "info",
    }


def test_the_access_log_is_silent_above_its_level(capsys: pytest.CaptureFixture[str]) -> None:
    """Warnings alone were asked for."""
    log = AccessLog(LogSettings(format=LogFormat.JSON, level="WARNING"))
    log.note(EndedCall(1.0, "Search", "r", "OK", 0.1, "peer"))
    log.close()

    assert capsys.readouterr().err == ""


def test_a_function_runs_in_a_thread_of_its_executor() -> None:
    """With the id of its call, and its error becomes a status as any other."""

    @runs_in("meta")
    def work(request: Any, context: Any) -> str:
        return f"{request} of {call_context.request_id.get()} in {threading.current_thread().name}"

    @runs_in("meta")
    def broken(request: Any, context: Any) -> str:
        raise MemoryNotFoundError("m")

    context = FakeContext(metadata=(("x-request-id", "r-1"),))

    assert serve("unary_unary", work, context).startswith("request of r-1 in meta_")
    with pytest.raises(grpc.aio.AbortError):
        serve("unary_unary", broken, context)
    assert context.code is grpc.StatusCode.NOT_FOUND


def test_a_function_may_wait_without_its_thread() -> None:
    """The rest of the call runs on the event loop, or in the threads again."""
    names: list[str] = []

    async def ready() -> str:
        await asyncio.sleep(0)
        return "ready"

    def finish(found: str) -> str:
        names.append(threading.current_thread().name)
        return found

    def behaviour(executor: NamedExecutor | None) -> Callable[[Any, Any], Pending[str]]:
        @runs_in("meta")
        def work(request: Any, context: Any) -> Pending[str]:
            return Pending(ready, finish, executor)

        return work

    assert serve("unary_unary", behaviour(None), FakeContext()) == "ready"
    assert serve("unary_unary", behaviour(EXECUTOR), FakeContext()) == "ready"
    assert [name.partition("_")[0] for name in names] == ["MainThread", "meta"]


class ThreadedForm(JsonForm):
    """JSON that notes the threads in which it is decoded and encoded."""

    def __init__(self) -> None:
        super().__init__(memory_pb.CreateMemoryRequest, 4 * 1024 * 1024)
        self.threads: list[bool] = []

    def decode(self, data: bytes) -> Any:
        """Note the thread."""
        self.threads.append(threading.current_thread() is threading.main_thread())
        return super().decode(data)

    def encode(self, message: Any) -> bytes:
        """Note the thread."""
        self.threads.append(threading.current_thread() is threading.main_thread())
        return super().encode(message)


async def same(request: Any, context: Any) -> Any:
    """Answer with the request."""
    return request


async def each_same(request: Any, context: Any) -> AsyncGenerator[Any, None]:
    """Answer with the request, or with each."""
    if isinstance(request, Message):
        yield request
        return
    async for one in request:
        yield one


@runs_in("meta")
def same_later(request: Any, context: Any) -> Any:
    """Answer with the request, as a write does that waits for its group."""
    return Pending(partial(same, request, context), lambda found: found)


@pytest.mark.parametrize("kind", ["unary_unary", "unary_stream", "stream_stream"])
@pytest.mark.parametrize("size", [100, ASIDE_BYTES])
def test_large_json_is_read_and_written_beside_the_event_loop(kind: str, size: int) -> None:
    """Megabytes of it take a second, in which no other call would go on; a small one is not worth a thread."""
    form, context = ThreadedForm(), cast("Any", FakeContext())
    chain = chain_of()
    chain.wrap(handler(kind, same if kind == "unary_unary" else each_same), "/memsvc.v1.MemoryService/CreateMemory")
    [method] = chain.methods.values()
    data = form.encode(memory_pb.CreateMemoryRequest(memory=types_pb.Memory(content="x" * size)))
    form.threads.clear()

    async def messages() -> AsyncIterator[bytes]:
        yield data

    async def run() -> Any:
        return await method.handle(messages() if kind == "stream_stream" else data, context, form)

    response = asyncio.run(run())
    assert {size < ASIDE_BYTES} == set(form.threads)
    if kind == "unary_unary":
        assert json.loads(data) == json.loads(response)


def test_large_json_of_a_call_that_waits_is_written_beside_the_event_loop() -> None:
    """The wait ends in the event loop."""
    form, context = ThreadedForm(), cast("Any", FakeContext())
    chain = chain_of()
    chain.wrap(handler("unary_unary", same_later), "/memsvc.v1.MemoryService/CreateMemory")
    [method] = chain.methods.values()
    data = form.encode(memory_pb.CreateMemoryRequest(memory=types_pb.Memory(content="x" * ASIDE_BYTES)))
    form.threads.clear()

    async def run() -> Any:
        return await method.handle(data, context, form)

    assert json.loads(data) == json.loads(asyncio.run(run()))
    assert [False, False] == form.threads


def test_an_unforeseen_error_is_logged_and_not_told() -> None:
    """The client learns an id, the log everything."""

    async def broken(request: Any, context: Any) -> None:
        message = "secret"
        raise ValueError(message)

    context = FakeContext()
    lines = logs_of(broken, context)

    assert (context.code, context.message) == (grpc.StatusCode.INTERNAL, "internal error")
    assert b"secret" not in context.trailers["grpc-status-details-bin"]
    assert [line["log_level"] for line in lines] == ["error", "info"]
    assert isinstance(lines[0]["exc_info"], ValueError)
    assert lines[1]["code"] == "INTERNAL"


def test_a_sick_backend_is_logged_with_its_cause() -> None:
    """As a warning."""

    async def sick(request: Any, context: Any) -> None:
        raise BackendUnavailableError("vectors") from OSError("refused")

    lines = logs_of(sick, FakeContext())

    assert (lines[0]["log_level"], lines[0]["cause"]) == ("warning", "OSError('refused')")


def test_a_unary_call_without_a_deadline_gets_the_servers() -> None:
    """A handler that takes longer is ended, and the client is told why."""

    async def slow(request: Any, context: Any) -> None:
        assert call_context.deadline.get().remaining_seconds() is not None
        await asyncio.Event().wait()

    context = FakeContext()
    lines = logs_of(slow, context)

    assert context.code is grpc.StatusCode.DEADLINE_EXCEEDED
    assert lines[-1]["code"] == "DEADLINE_EXCEEDED"


def test_a_clients_deadline_takes_the_place_of_the_servers() -> None:
    """What is below knows how much is left."""

    async def left(request: Any, context: Any) -> float | None:
        return call_context.deadline.get().remaining_seconds()

    remaining = serve("unary_unary", left, FakeContext(remaining=1000.0))

    assert 990 < remaining <= 1000


def test_a_stream_without_a_deadline_may_last() -> None:
    """An import has none of the server's making."""

    async def left(request: Any, context: Any) -> AsyncGenerator[float | None, None]:
        yield call_context.deadline.get().remaining_seconds()

    context = FakeContext()
    serve("unary_stream", left, context)

    assert context.written == [None]


@pytest.mark.parametrize(("remaining", "code"), [(3.0, "CANCELLED"), (0.0, "DEADLINE_EXCEEDED")])
def test_a_cancelled_call_is_logged_as_what_it_was(remaining: float, code: str) -> None:
    """The client went away, or its time was over."""

    async def cancelled(request: Any, context: Any) -> None:
        raise asyncio.CancelledError

    assert code == logs_of(cancelled, FakeContext(remaining=remaining))[-1]["code"]


def test_a_streams_generator_is_closed_when_writing_is_cancelled() -> None:
    """At once and in the task of the call, so that it gives back what it holds."""
    closed: list[str] = []

    async def holding(request: Any, context: Any) -> AsyncGenerator[str, None]:
        try:
            yield "first"
        finally:
            closed.append("closed")

    class Gone(FakeContext):
        """A client that goes away at the first response."""

        async def write(self, message: Any) -> None:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        serve("unary_stream", holding, Gone())

    assert closed == ["closed"]


def test_other_services_are_left_alone() -> None:
    """Health checks pass as they are, and an unknown method stays unknown."""
    chain = chain_of()
    chain.add(lambda _, server: server.add_registered_method_handlers("s", {"m": handler("unary_unary", unary)}), None)
    dispatcher = chain.generic_handler()

    def found(method: str) -> Any:
        return dispatcher.service(type("Details", (), {"method": method})())

    assert found("/s/m") is not None
    assert found("/grpc.health.v1.Health/Check") is None
    assert found("/s/Other") is None


def test_a_chain_that_is_drained_refuses_new_calls_and_waits_for_the_others() -> None:
    """With the reason and a delay, streams included; without calls under way it waits for nothing."""
    chain = chain_of()
    entered, release = asyncio.Event(), asyncio.Event()

    async def blocked(request: Any, context: Any) -> str:
        entered.set()
        await release.wait()
        return "done"

    path = "/memsvc.v1.MemoryService/GetMemory"
    first: Any = chain.wrap(handler("unary_unary", blocked), path)
    others = {kind: chain.wrap(handler(kind, stream), path) for kind in ("unary_stream", "stream_stream")}

    async def run() -> tuple[str, list[FakeContext], float, float]:
        under_way = asyncio.create_task(first.unary_unary("request", FakeContext()))
        await entered.wait()
        chain.refuse()
        refused = []
        for kind, wrapped in others.items():
            refused.append(FakeContext())
            with pytest.raises(grpc.aio.AbortError):
                await getattr(wrapped, kind)(_iterate("a") if kind.startswith("stream") else "a", refused[-1])
        late = await chain.drain(0.0)
        draining = asyncio.create_task(chain.drain(60.0))
        release.set()
        return await under_way, refused, late, await draining

    with structlog.testing.capture_logs():
        result, refused, late, left = asyncio.run(run())

    assert (result, late) == ("done", 0.0)
    assert left > 0
    assert {one.code for one in refused} == {grpc.StatusCode.UNAVAILABLE}
    status = Status.FromString(refused[0].trailers["grpc-status-details-bin"])
    info, retry = details.ErrorInfo(), details.RetryInfo()
    assert status.details[0].Unpack(info)
    assert any(one.Unpack(retry) for one in status.details)
    assert (info.reason, retry.retry_delay.seconds) == ("ERROR_REASON_SERVER_STOPPING", 1)
    assert asyncio.run(chain_of().drain(5.0)) == 5.0
