"""Counting the calls: how many, how they ended, how long they took, how many are under way."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from memsvc.domain.diagnostics import OperationPerformance, Percentiles
from memsvc.engine.admin.metrics import MetricsSnapshot
from memsvc.engine.maintenance.runner import StepCount
from memsvc.engine.services import Services
from memsvc.server.executors import Executors
from memsvc.server.interceptors.chain import Call, Following

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class CallMetrics:
    """A layer that must lie outside of the one that settles the code. Labels are the names of our own methods."""

    def __init__(self, registry: CollectorRegistry) -> None:
        names = ("grpc_service", "grpc_method")
        self._handled = Counter(
            "grpc_server_handled_total", "Calls that ended, by code.", (*names, "grpc_code"), registry=registry
        )
        self._seconds = Histogram(
            "grpc_server_handling_seconds", "How long calls took.", names, registry=registry, buckets=BUCKETS
        )
        self._in_flight = Gauge("grpc_server_in_flight", "Calls under way.", names, registry=registry)
        # Found once: finding the child of a label each time costs more than counting does.
        self._of_method: dict[tuple[str, str], tuple[Histogram, Gauge]] = {}
        self._of_code: dict[tuple[str, str, str], Counter] = {}

    async def around(self, call: Call, following: Following) -> Any:
        """Count the call."""
        name = (call.service, call.method)
        found = self._of_method.get(name)
        if found is None:
            found = self._of_method[name] = (self._seconds.labels(*name), self._in_flight.labels(*name))
        seconds, in_flight = found
        in_flight.inc()
        started = time.perf_counter()
        try:
            return await following(call)
        finally:
            seconds.observe(time.perf_counter() - started)
            in_flight.dec()
            self._ended((call.service, call.method, call.code.name))

    def _ended(self, labels: tuple[str, str, str]) -> None:
        counter = self._of_code.get(labels)
        if counter is None:
            counter = self._of_code[labels] = self._handled.labels(*labels)
        counter.inc()


# The numbers that are read when somebody asks for them, and cost the calls nothing.


class ServiceCollector(Collector):
    """What is known of the engine and of the edge's threads."""

    def __init__(self, application: Services, executors: Executors) -> None:
        self._application = application
        self._executors = executors

    def collect(self) -> Iterator[Metric]:
        """Read everything."""
        yield from _executors(self._executors)
        reading = self._application.vitals.read()
        yield from _sizes(reading)
        yield from _followers(reading)
        yield from _maintenance(reading.steps)
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
