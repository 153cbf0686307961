"""Prometheus metrics of calls, of the engine and of the thread pools, and the HTTP port that serves them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import accumulate
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from memsvc.domain.api_keys import QuotaSubject
from memsvc.domain.diagnostics import OperationPerformance, Percentiles
from memsvc.domain.errors import BackendUnavailableError, LimitKind
from memsvc.domain.file_text import UNSUPPORTED, TextReason, TextState
from memsvc.engine.admin.api_keys import QuotaService
from memsvc.engine.admin.metrics import MetricsSnapshot
from memsvc.engine.files.text_indexer import TextIndexingCounts
from memsvc.engine.maintenance.runner import StepCount
from memsvc.engine.services import Services
from memsvc.engine.watch.webhooks import WebhookService
from memsvc.ports.faults import BreakerState, FaultCounts
from memsvc.server.addresses import AddressError
from memsvc.server.call_context import Call, CallNext
from memsvc.server.executors import Executors
from memsvc.server.slots import BUCKETS, AdmissionCounts, CallClass

READY, NOT_READY, NOT_FOUND = "200 OK", "503 Service Unavailable", "404 Not Found"
NOT_DEGRADED = {("DENSE", "DEADLINE_EXCEEDED"): 0, ("BM25", "DEADLINE_EXCEEDED"): 0}
NOT_REFUSED = {(kind, limit): 0 for kind in CallClass for limit in LimitKind}
NO_TEXTS = {
    (TextState.INDEXED, TextReason.NONE): 0,
    **{(TextState.FAILED, reason): 0 for reason in TextReason if reason not in {TextReason.NONE, *UNSUPPORTED}},
}
"""Counters that exist from the start, so that their first increase is seen as one."""
CALL_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
MAX_TENANTS = 1_000
"""Tenants that are named, by name."""
LAST_KEY = "g"
"""A text after the id of every key."""


class CallMetrics:
    """Metrics of calls, by method. It must be outside of the rules, which set the code of a call."""

    def __init__(self, registry: CollectorRegistry) -> None:
        names = ("grpc_service", "grpc_method")
        self._handled = Counter(
            "grpc_server_handled_total", "Calls that ended, by code.", (*names, "grpc_code"), registry=registry
        )
        self._seconds = Histogram(
            "grpc_server_handling_seconds", "How long calls took.", names, registry=registry, buckets=CALL_BUCKETS
        )
        self._in_flight = Gauge("grpc_server_in_flight", "Calls under way.", names, registry=registry)
        # Looked up once: the look-up of a label's child costs more than counting does.
        self._of_method: dict[tuple[str, str], tuple[Histogram, Gauge]] = {}
        self._of_code: dict[tuple[str, str, str], Counter] = {}

    async def intercept(self, call: Call, call_next: CallNext) -> Any:
        """Count the call."""
        name = (call.service, call.method)
        found = self._of_method.get(name)
        if found is None:
            found = self._of_method[name] = (self._seconds.labels(*name), self._in_flight.labels(*name))
        seconds, in_flight = found
        in_flight.inc()
        started = time.perf_counter()
        try:
            return await call_next(call)
        finally:
            seconds.observe(time.perf_counter() - started)
            in_flight.dec()
            self._ended((call.service, call.method, call.code.name))

    def _ended(self, labels: tuple[str, str, str]) -> None:
        counter = self._of_code.get(labels)
        if counter is None:
            counter = self._of_code[labels] = self._handled.labels(*labels)
        counter.inc()


class ServiceCollector(Collector):
    """Metrics of the engine and of the thread pools, read when they are scraped: calls pay nothing for them."""

    def __init__(
        self, application: Services, executors: Executors, counts: AdmissionCounts, *, names_tenants: bool = False
    ) -> None:
        """Read waits and refusals from *counts*; quotas are read if tenants may be named."""
        self._application = application
        self._executors = executors
        self._counts = counts
        self._names_tenants = names_tenants

    def collect(self) -> Iterator[Metric]:
        """Read every metric."""
        yield from _executors(self._executors)
        yield from _admission(self._counts)
        if self._names_tenants:
            yield from _quotas(self._application.api_keys.quotas)
        reading = self._application.metrics.read()
        yield from _sizes(reading)
        yield from _followers(reading)
        yield from _faults(reading.faults, [backend.name for backend in reading.backends])
        yield from _maintenance(reading.steps)
        yield from _webhooks(self._application.webhooks)
        yield from _file_texts(self._application.files.text_indexer.counts())
        yield from _performance(self._application.performance.report())


def _gauge(name: str, text: str, values: Mapping[str, float], label: str) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=(label,))
    for key, value in values.items():
        family.add_metric((key,), value)
    return family


def _executors(executors: Executors) -> Iterator[Metric]:
    each = {one.name: one for one in executors.each()}
    yield _gauge(
        "memsvc_executor_depth",
        "Calls at work or waiting in a thread pool.",
        {name: one.admitted for name, one in each.items()},
        "executor",
    )
    yield _gauge(
        "memsvc_executor_capacity",
        "Calls that a thread pool takes before it refuses.",
        {name: one.capacity for name, one in each.items()},
        "executor",
    )


def _admission(counts: AdmissionCounts) -> Iterator[Metric]:
    waits = HistogramMetricFamily("memsvc_wait_seconds", "How long calls waited for a thread.", labels=("class",))
    for kind, numbers in counts.waits.items():
        bounds = (*map(str, BUCKETS), "+Inf")
        buckets = list(zip(bounds, accumulate(numbers), strict=True))
        waits.add_metric((kind.value,), buckets, counts.seconds[kind])
    yield waits
    refusals = CounterMetricFamily("memsvc_refusals", "Calls refused for a limit.", labels=("class", "kind"))
    # A scrape runs in a thread of its own.
    for (of, limit), count in {**NOT_REFUSED, **counts.refusals}.items():
        refusals.add_metric((of.value, limit.value), count)
    yield refusals


def _quotas(quotas: QuotaService) -> Iterator[Metric]:
    labels = ("tenant", "amount")
    limits = GaugeMetricFamily("memsvc_quota_limit", "Limit of the quota of a tenant.", labels=labels)
    used = GaugeMetricFamily("memsvc_quota_used", "What a tenant with a quota has stored.", labels=labels)
    with suppress(BackendUnavailableError):
        # Those of keys come first, and are passed over.
        for one in quotas.page(after=(QuotaSubject.KEY, LAST_KEY), limit=MAX_TENANTS):
            for amount in ("memories", "content_bytes", "file_bytes"):
                used.add_metric((one.quota.id, amount), max(0, getattr(one.used, amount)))
                if limit := getattr(one.quota.limits, amount):
                    limits.add_metric((one.quota.id, amount), limit)
    yield from (limits, used)


def _sizes(reading: MetricsSnapshot) -> Iterator[Metric]:
    if reading.memories is not None:
        yield GaugeMetricFamily("memsvc_memories", "Memories that are not deleted.", value=reading.memories)
    yield _gauge("memsvc_storage_bytes", "Space taken up.", reading.storage_bytes, "part")
    yield _gauge("memsvc_index_entries", "Entries of an index.", reading.entries, "index")
    yield _gauge("memsvc_index_generation", "Number of the live generation.", reading.generations, "index")


def _followers(reading: MetricsSnapshot) -> Iterator[Metric]:
    up = GaugeMetricFamily("memsvc_backend_up", "Whether a backend answers.", labels=("port", "backend"))
    for backend in reading.backends:
        up.add_metric((backend.port, backend.name), backend.healthy)
    yield up
    if reading.pending is not None:
        yield GaugeMetricFamily(
            "memsvc_outbox_pending", "Changes that the indexes have not taken in.", value=reading.pending
        )
    if reading.position is not None:
        yield CounterMetricFamily("memsvc_outbox_position", "Changes ever made.", value=reading.position)
    yield GaugeMetricFamily("memsvc_replaying", "Whether a start is being caught up.", value=reading.is_replaying)
    yield GaugeMetricFamily("memsvc_writes_waiting", "Writes that wait for a commit.", value=reading.waiting_writes)
    step = reading.building
    done = dict.fromkeys(("vectors", "lexical"), 1.0)
    if step is not None:
        done[step.index.value.lower()] = step.done / step.total if step.total else 0.0
    yield _gauge("memsvc_index_build_progress", "Share of a rebuild that is done; 1 when there is none.", done, "index")


def _faults(faults: FaultCounts, names: Iterable[str]) -> Iterator[Metric]:
    replaced = CounterMetricFamily(
        "memsvc_backend_replacements", "Processes that died or hung and were replaced.", labels=("backend",)
    )
    for backend, count in {**dict.fromkeys(names, 0), **faults.replaced}.items():
        replaced.add_metric((backend,), count)
    breakers = GaugeMetricFamily(
        "memsvc_circuit_breaker", "1 for the state of a circuit breaker.", labels=("backend", "state")
    )
    for backend, state in faults.breakers.items():
        for each in BreakerState:
            breakers.add_metric((backend, each.value), state is each)
    degraded = CounterMetricFamily(
        "memsvc_degraded_searches", "Failures of a retriever in a search.", labels=("retriever", "reason")
    )
    for labels, count in {**NOT_DEGRADED, **faults.degraded}.items():
        degraded.add_metric(labels, count)
    yield from (replaced, breakers, degraded)


def _maintenance(steps: Iterable[StepCount]) -> Iterator[Metric]:
    labels = ("step",)
    runs = CounterMetricFamily("memsvc_maintenance_runs", "Runs of a step of maintenance.", labels=labels)
    failures = CounterMetricFamily("memsvc_maintenance_failures", "Runs of a step that failed.", labels=labels)
    changed = CounterMetricFamily("memsvc_maintenance_changes", "Memories that a step changed.", labels=labels)
    seconds = CounterMetricFamily("memsvc_maintenance_seconds", "Time that a step took.", labels=labels)
    for step in steps:
        runs.add_metric((step.step,), step.runs)
        failures.add_metric((step.step,), step.failures)
        changed.add_metric((step.step,), step.changed)
        seconds.add_metric((step.step,), step.seconds)
    yield from (runs, failures, changed, seconds)


def _webhooks(service: WebhookService) -> Iterator[Metric]:
    attempts = CounterMetricFamily(
        "memsvc_webhook_attempts", "Requests of webhooks by this process.", labels=("endpoint", "outcome")
    )
    counts = service.counts()
    for name in service.endpoints:
        for outcome in ("delivered", "failed", "dead"):
            attempts.add_metric((name, outcome), counts.get((name, outcome), 0))
    states, now = service.states(), service.now()
    lags = {name: (now - state.oldest).total_seconds() for name, state in states.items() if state.oldest is not None}
    yield attempts
    for name, text, values in (
        ("pending", "Events that wait to be delivered.", {key: state.pending for key, state in states.items()}),
        ("dead_letters", "Events that were given up.", {key: state.dead for key, state in states.items()}),
        ("lag_seconds", "Age of the oldest event that waits.", dict.fromkeys(states, 0.0) | lags),
        (
            "gone",
            "1 if the endpoint answered 410 and was turned off.",
            {k: float(s.is_gone) for k, s in states.items()},
        ),
    ):
        yield _gauge(f"memsvc_webhook_{name}", text, values, "endpoint")


def _file_texts(counts: TextIndexingCounts) -> Iterator[Metric]:
    texts = CounterMetricFamily("memsvc_file_texts", "Texts of files by this process.", labels=("state", "reason"))
    for (state, reason), count in {**NO_TEXTS, **counts.outcomes}.items():
        texts.add_metric((state.value, reason.value), count)
    yield texts
    yield CounterMetricFamily("memsvc_file_text_seconds", "Time that texts of files took.", value=counts.seconds)
    if counts.pending is not None:
        yield GaugeMetricFamily("memsvc_file_texts_pending", "Files whose text is pending.", value=counts.pending)


def _performance(operations: Iterable[OperationPerformance]) -> Iterator[Metric]:
    whole = Metric("memsvc_operation_seconds", "How long operations took; quantiles of the latest.", "summary")
    part = Metric("memsvc_stage_seconds", "How long the stages of operations took.", "summary")
    errors = CounterMetricFamily("memsvc_operation_errors", "Operations that failed.", labels=("operation", "layer"))
    for one in operations:
        labels = {"operation": one.operation, "layer": one.layer}
        _summarise(whole, labels, one.durations)
        errors.add_metric((one.operation, one.layer), one.durations.errors)
        for stage, durations in one.stages:
            _summarise(part, {**labels, "stage": stage}, durations)
    yield from (whole, part, errors)


def _summarise(metric: Metric, labels: dict[str, str], durations: Percentiles) -> None:
    quantiles = {"0.5": durations.p50, "0.9": durations.p90, "0.95": durations.p95, "0.99": durations.p99}
    for quantile, value in quantiles.items():
        metric.add_sample(metric.name, {**labels, "quantile": quantile}, value)
    metric.add_sample(f"{metric.name}_count", labels, durations.count)
    metric.add_sample(f"{metric.name}_sum", labels, durations.mean * durations.count)


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _SilentHandler(WSGIRequestHandler):
    timeout = 10.0

    def log_message(self, *_: object) -> None:
        """Log no line for each request."""


class MetricsServer:
    """HTTP port of /metrics, /healthz and /readyz, in threads of its own: it answers while the event loop is busy."""

    def __init__(self, registry: CollectorRegistry, is_ready: Callable[[], bool]) -> None:
        self._metrics = make_wsgi_app(registry)
        self._is_ready = is_ready
        self._server: WSGIServer | None = None
        self._thread: threading.Thread | None = None

    def start(self, address: str) -> str:
        """Listen at "HOST:PORT" (port 0: any free one) and return the URL of the metrics.

        Raises:
            AddressError: It cannot be listened at.
        """
        host, _, port = address.rpartition(":")
        try:
            self._server = make_server(host.strip("[]"), int(port), self._answer, _Server, _SilentHandler)
        except (OSError, ValueError, OverflowError) as error:
            message = f"Cannot serve metrics at {address!r}: it is in use, or not HOST:PORT of this machine."
            raise AddressError(message) from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="monitoring", daemon=True)
        self._thread.start()
        return f"http://{host}:{self._server.server_port}/metrics"

    def stop(self) -> None:
        """Stop listening."""
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()

    def _answer(self, environment: dict[str, Any], start: Any) -> Iterable[bytes]:
        path = environment.get("PATH_INFO", "")
        if path == "/metrics":
            answer: Iterable[bytes] = self._metrics(environment, start)
            return answer
        status = {"/healthz": READY, "/readyz": READY if self._is_ready() else NOT_READY}.get(path, NOT_FOUND)
        start(status, [("Content-Type", "text/plain; charset=utf-8")])
        return [status.partition(" ")[2].lower().encode() + b"\n"]
