"""OpenTelemetry tracing: on when its own variables say where to, off otherwise; the packages are the extra `otel`."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

    from memsvc.server.interceptors.chain import Interceptor

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
SECOND = 1_000_000_000
EDGE = "edge"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tracing:
    """Tracing hooks: an interceptor for calls, a callback for engine stages, and a shutdown function."""

    layer: Interceptor
    told: Callable[[str, str, float, Sequence[tuple[str, float]]], None]
    close: Callable[[], None]


def configured(version: str, environment: Mapping[str, str] = os.environ) -> Tracing | None:
    """Return tracing as OpenTelemetry's variables ask for, or None when they do not, or the packages are missing."""
    is_off = environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if is_off or not any(environment.get(name) for name in ENDPOINTS):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - an extra
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

        from memsvc.server.interceptors.tracing import Spans  # noqa: PLC0415
    except ImportError as error:
        log.warning("no traces are sent: %s; install memsvc[otel], or unset %s", error, ENDPOINTS[0])
        return None
    name = environment.get("OTEL_SERVICE_NAME") or "memsvc"
    provider = TracerProvider(resource=Resource.create({"service.name": name, "service.version": version}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    tracer = provider.get_tracer("memsvc", version)
    return Tracing(Spans(tracer), _teller(tracer), provider.shutdown)


def _teller(tracer: Tracer) -> Callable[[str, str, float, Sequence[tuple[str, float]]], None]:
    from opentelemetry.trace import get_current_span  # noqa: PLC0415 - an extra

    def told(operation: str, layer: str, seconds: float, stages: Sequence[tuple[str, float]]) -> None:
        # Work in the background is part of no call, and would make a trace for each of its steps.
        if layer == EDGE or not get_current_span().is_recording():
            return
        ended = time.time_ns()
        attributes = {f"memsvc.stage.{stage}.seconds": duration for stage, duration in stages}
        began = ended - int(seconds * SECOND)
        tracer.start_span(f"{layer} {operation}", start_time=began, attributes=attributes).end(ended)

    return told
