"""How long things take: recent durations by operation and layer, kept in memory."""

from __future__ import annotations

import heapq
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from memsvc.domain.report import OperationPerformance, Percentiles, SlowOperation

RECENT = 2_048
"""Calls of one operation that the percentiles are taken from."""
SLOWEST = 10


@dataclass(slots=True)
class _Durations:
    count: int = 0
    errors: int = 0
    total: float = 0.0
    longest: float = 0.0
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))

    def add(self, seconds: float, *, failed: bool) -> None:
        self.count += 1
        self.errors += failed
        self.total += seconds
        self.longest = max(self.longest, seconds)
        self.recent.append(seconds)


class Performance:
    """Records durations cheaply and gives exact percentiles over the most recent calls of each operation."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._operations: dict[tuple[str, str], _Durations] = {}
        self._stages: dict[tuple[str, str], dict[str, _Durations]] = {}
        self._slowest: list[tuple[float, int, SlowOperation]] = []
        self._order = 0
        self.since = now()

    def record(
        self,
        operation: str,
        layer: str,
        seconds: float,
        *,
        failed: bool = False,
        stages: Sequence[tuple[str, float]] = (),
    ) -> None:
        """Note one call, and how long its stages took."""
        name = (operation, layer)
        with self._lock:
            self._operations.setdefault(name, _Durations()).add(seconds, failed=failed)
            for stage, duration in stages:
                self._stages.setdefault(name, {}).setdefault(stage, _Durations()).add(duration, failed=False)
            if len(self._slowest) < SLOWEST or seconds > self._slowest[0][0]:
                self._order += 1
                slow = SlowOperation(operation, seconds, self._now())
                heapq.heappush(self._slowest, (seconds, self._order, slow))
                if len(self._slowest) > SLOWEST:
                    heapq.heappop(self._slowest)

    def report(self, operation: str = "") -> list[OperationPerformance]:
        """Return every operation, or the one named, by operation and layer."""
        with self._lock:
            chosen = sorted(name for name in self._operations if operation in ("", name[0]))
            return [
                OperationPerformance(
                    name[0],
                    name[1],
                    _percentiles(self._operations[name]),
                    tuple((stage, _percentiles(times)) for stage, times in sorted(self._stages.get(name, {}).items())),
                )
                for name in chosen
            ]

    def slowest(self) -> list[SlowOperation]:
        """Return the slowest calls since the start, slowest first."""
        with self._lock:
            return [slow for _, _, slow in sorted(self._slowest, reverse=True)]


def _percentiles(durations: _Durations) -> Percentiles:
    recent = sorted(durations.recent)

    def at(share: float) -> float:
        return recent[min(len(recent) - 1, int(share * len(recent)))]

    return Percentiles(
        count=durations.count,
        errors=durations.errors,
        mean=durations.total / durations.count,
        p50=at(0.50),
        p90=at(0.90),
        p95=at(0.95),
        p99=at(0.99),
        max=durations.longest,
    )
