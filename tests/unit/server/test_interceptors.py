"""What happens around every call, without a network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Never

import grpc
import pytest
import structlog
from google.rpc import error_details_pb2 as details
from google.rpc.status_pb2 import Status

from memsvc.domain.errors import BackendUnavailableError, MemoryNotFoundError
from memsvc.server import call_context
from memsvc.server.interceptors.access_log import AccessLog, RequestId
from memsvc.server.interceptors.chain import Interceptor, InterceptorChain
from memsvc.server.interceptors.errors import DeadlineLimit, ErrorStatus


@dataclass
class FakeContext:
    """As much of a call's context as the layers use; *remaining* is what the client left."""

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


def serve(kind: str, behaviour: Callable[..., Any], context: FakeContext, recorded: Recorded | None = None) -> Any:
    """Call a handler through all layers and return its response."""
    layers: list[Interceptor] = [RequestId(), AccessLog(recorded or Recorded()), ErrorStatus(), DeadlineLimit(5.0)]
    chain = InterceptorChain(layers)
    call_details = type("Details", (), {"method": "/memsvc.v1.MemoryService/GetMemory"})()

    async def find(_: Any) -> Any:
        return handler(kind, behaviour)

    async def run() -> Any:
        wrapped = await chain.intercept_service(find, call_details)
        again = await chain.intercept_service(find, call_details)
        assert wrapped is again
        request = _iterate("request") if kind.startswith("stream") else "request"
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
    """The layers change nothing of it."""
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
    layers: list[Interceptor] = [RequestId(), AccessLog(Recorded()), ErrorStatus(), DeadlineLimit(0.02)]

    async def run() -> None:
        wrapped = InterceptorChain(layers)._wrap(handler("unary_unary", behaviour), "GetMemory")
        behaviour_: Any = wrapped.unary_unary
        await behaviour_("request", context)

    with structlog.testing.capture_logs() as lines:
        layers[1] = AccessLog(Recorded())
        with pytest.raises((grpc.aio.AbortError, asyncio.CancelledError)):
            asyncio.run(run())
    return list(lines)


def test_the_client_does_not_wait_for_the_line_in_the_log() -> None:
    """It is written when the response is on its way, and bears the id of its call."""
    merged = [structlog.contextvars.merge_contextvars]

    async def run() -> int:
        layers: list[Interceptor] = [RequestId(), AccessLog(Recorded())]
        wrapped: Any = InterceptorChain(layers)._wrap(handler("unary_unary", unary), "GetMemory")
        await wrapped.unary_unary("request", FakeContext(metadata=(("x-request-id", "r-1"),)))
        return len(lines)

    with structlog.testing.capture_logs(processors=merged) as lines:
        before = asyncio.run(run())

    (line,) = lines
    assert before == 0
    assert (line["event"], line["code"], line["request_id"]) == ("call ended", "OK", "r-1")


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
    plain = handler("unary_unary", unary)

    async def found(_: Any) -> Any:
        return plain

    async def unknown(_: Any) -> None:
        return None

    health = type("Details", (), {"method": "/grpc.health.v1.Health/Check"})()
    ours = type("Details", (), {"method": "/memsvc.v1.MemoryService/Other"})()

    assert asyncio.run(InterceptorChain([ErrorStatus()]).intercept_service(found, health)) is plain
    assert asyncio.run(InterceptorChain([ErrorStatus()]).intercept_service(unknown, ours)) is None
