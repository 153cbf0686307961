"""Traces reach an OTLP receiver when OpenTelemetry's variables name one, and cost nothing when they do not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from memsvc import tracing
from memsvc.bootstrap.app import running
from memsvc.server.options import ServerOptions
from memsvc.settings import BackendChoice, Settings
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import memory_service_pb2_grpc, search_service_pb2_grpc
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.server_thread import ServerThread

pytest.importorskip("opentelemetry.exporter.otlp.proto.grpc", reason="the extra otel is not installed")
from opentelemetry.proto.collector.trace.v1 import (
    trace_service_pb2,
    trace_service_pb2_grpc,
)

from tests.support.sqlite_store import SQLITE

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SECRET = "walrus"  # noqa: S105 - what must not be seen


class Receiver(trace_service_pb2_grpc.TraceServiceServicer):
    """Keeps the spans that it is sent."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.arrived = threading.Event()

    def Export(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Take spans."""
        self.requests.append(request)
        self.arrived.set()
        return trace_service_pb2.ExportTraceServiceResponse()

    @property
    def spans(self) -> dict[str, Any]:
        """Return the spans by name."""
        scopes = [scope for request in self.requests for each in request.resource_spans for scope in each.scope_spans]
        return {span.name: span for scope in scopes for span in scope.spans}


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """A real receiver on a port of its own, named by OpenTelemetry's variables."""
    receiver = Receiver()
    with ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool)
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(receiver, server)  # type: ignore[no-untyped-call]  # generated
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
        try:
            yield receiver
        finally:
            server.stop(None).wait()


def attributes(span: Any) -> dict[str, Any]:
    """Return a span's attributes."""
    kinds = ("string_value", "int_value", "double_value")
    return {one.key: next(getattr(one.value, kind) for kind in kinds if one.value.HasField(kind))
            for one in span.attributes}  # fmt: skip


def test_a_search_is_a_span_with_its_stages_in_the_callers_trace(receiver: Receiver, tmp_path: Path) -> None:
    """The call is the caller's child, the engine's work the call's; failures have their code; no content is told."""
    chosen = BackendChoice(backend="in-memory")
    settings = Settings(
        data_dir=tmp_path,
        metadata=BackendChoice.model_validate(SQLITE),
        vectors=chosen,
        lexical=chosen,
        embedder=chosen,
    )
    options = ServerOptions(addresses=("127.0.0.1:0",), grace_seconds=1.0)
    traced = tracing.configured("1.2.3")
    assert traced is not None
    with running(settings) as application:
        application.performance.listen(traced.told)
        served = ServerThread(application, options, layers=(traced.layer,))
        served.start()
        with grpc.insecure_channel(served.addresses[0]) as channel:
            scope = types_pb.Scope(user_id="u")
            memory = types_pb.Memory(content=f"The {SECRET} sings.")
            memories = memory_service_pb2_grpc.MemoryServiceStub(channel)
            memories.CreateMemory(memory_pb.CreateMemoryRequest(scope=scope, memory=memory))
            request = search_pb.SearchRequest(scope=scope, query=SECRET)
            metadata = (("traceparent", f"00-{TRACE}-{PARENT}-01"),)
            search_service_pb2_grpc.SearchServiceStub(channel).Search(request, metadata=metadata)
            stream = search_pb.StreamSearchRequest(search=request)
            list(search_service_pb2_grpc.SearchServiceStub(channel).StreamSearch(stream))
            with pytest.raises(grpc.RpcError):
                memories.GetMemory(memory_pb.GetMemoryRequest(scope=scope, key="k"))
        served.stop()
    traced.close()

    assert receiver.arrived.is_set()
    spans = receiver.spans
    call, engine = spans["memsvc.v1.SearchService/Search"], spans["engine Search"]
    assert (TRACE, PARENT) == (call.trace_id.hex(), call.parent_span_id.hex())
    assert ("grpc", "Search", 0) == tuple(
        attributes(call)[name] for name in ("rpc.system", "rpc.method", "rpc.grpc.status_code")
    )
    assert "memsvc.stage.dense.seconds" in attributes(engine)
    assert engine.start_time_unix_nano <= engine.end_time_unix_nano
    assert {"store ReadCandidates", "vectors Search", "lexical Search"} <= spans.keys()
    assert "memsvc.v1.SearchService/StreamSearch" in spans
    failed = spans["memsvc.v1.MemoryService/GetMemory"]
    assert (5, 0) == (attributes(failed)["rpc.grpc.status_code"], failed.status.code)
    resource = receiver.requests[0].resource_spans[0].resource
    assert {"service.name": "memsvc", "service.version": "1.2.3"}.items() <= attributes(resource).items()
    assert SECRET.encode() not in b"".join(request.SerializeToString() for request in receiver.requests)


@pytest.mark.parametrize(
    "environment", [{}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}]
)
def test_without_the_variables_nothing_is_traced(environment: dict[str, str]) -> None:
    """Nor when OpenTelemetry is told to be off."""
    assert tracing.configured("1", environment) is None
