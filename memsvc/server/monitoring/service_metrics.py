"""Counting the calls: how many, how they ended, how long they took, how many are under way."""

from __future__ import annotations

import time
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

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
