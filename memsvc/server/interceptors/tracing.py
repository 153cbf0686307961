"""Spans of calls, as part of the caller's trace. Imported only when tracing is on: see `memsvc.tracing`."""

from __future__ import annotations

from typing import Any

import grpc
from opentelemetry.propagate import extract
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer

from memsvc.server.call_context import Call, CallNext

SERVER_FAULTS = frozenset(
    {
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DATA_LOSS,
    }
)
"""The codes of failed server spans, by the semantic conventions: others are errors of the caller."""


class Spans:
    """Spans of calls. It must be outside of the rules, which set the code of a call.

    The interceptor of opentelemetry-instrumentation-grpc does not fit: it expects a streaming handler to be a
    generator, which ours is not, and between our chain and the servicer it sees neither codes nor cancellations.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    async def intercept(self, call: Call, call_next: CallNext) -> Any:
        """Open a span for the call. It has names, and no content."""
        given = {name: value for name, value in call.context.invocation_metadata() or () if isinstance(value, str)}
        with self._tracer.start_as_current_span(
            f"{call.service}/{call.method}",
            context=extract(given),
            kind=SpanKind.SERVER,
            attributes={"rpc.system": "grpc", "rpc.service": call.service, "rpc.method": call.method},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                return await call_next(call)
            finally:
                span.set_attribute("rpc.grpc.status_code", call.code.value[0])
                span.set_attribute("memsvc.request_id", call.request_id)
                if call.code in SERVER_FAULTS:
                    span.set_status(Status(StatusCode.ERROR))
