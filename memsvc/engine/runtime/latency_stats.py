"""Latency statistics: recent durations by operation and layer, in memory."""

from __future__ import annotations

import heapq
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeAlias, TypeVar

from memsvc.domain.diagnostics import OperationPerformance, Percentiles, SlowOperation

RECENT = 2_048
"""Number of most recent calls of an operation from which percentiles are computed."""
SLOWEST = 10
ROOT_LAYERS = frozenset({"edge", "engine"})
"""Layers whose slow operations are listed; operations of other layers are part of these."""

Listener: TypeAlias = Callable[[str, str, float, Sequence[tuple[str, float]]], None]
"""Receives operation, layer, seconds and stages."""


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

    def copy(self) -> _Durations:
        """Return an independent copy."""
        return replace(self, recent=self.recent.copy())


K = TypeVar("K", bound=Hashable)


def _of(known: dict[K, _Durations], name: K) -> _Durations:
    found = known.get(name)
    if found is None:
        found = known[name] = _Durations()
    return found


class LatencyStats:
    """Cheap recording of durations, with exact percentiles over the most recent calls of each operation."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._operations: dict[tuple[str, str], _Durations] = {}
        self._stages: dict[tuple[str, str], dict[str, _Durations]] = {}
        self._slowest: list[tuple[float, int, SlowOperation]] = []
        self._order = 0
        self._listener: Listener | None = None
        self.since = now()

    def listen(self, listener: Listener) -> None:
        """Call *listener* for every call, in the calling thread; it must return at once and must not raise."""
        self._listener = listener

    def record(
        self,
        operation: str,
        layer: str,
        seconds: float,
        *,
        failed: bool = False,
        stages: Sequence[tuple[str, float]] = (),
        is_endless: bool = False,
    ) -> None:
        """Record one call and the durations of its stages.

        An endless call (a stream that lasts as long as its client likes), or one that is part of another recorded call,
        is never listed among the slowest.
        """
        name = (operation, layer)
        with self._lock:
            _of(self._operations, name).add(seconds, failed=failed)
            if stages:
                own = self._stages.setdefault(name, {})
                for stage, duration in stages:
                    _of(own, stage).add(duration, failed=False)
            is_slow = len(self._slowest) < SLOWEST or seconds > self._slowest[0][0]
            if is_slow and not is_endless and layer in ROOT_LAYERS:
                self._order += 1
                slow = SlowOperation(operation, seconds, self._now(), layer)
                heapq.heappush(self._slowest, (seconds, self._order, slow))
                if len(self._slowest) > SLOWEST:
                    heapq.heappop(self._slowest)
        if self._listener is not None:
            self._listener(operation, layer, seconds, stages)

    def report(self, operation: str = "") -> list[OperationPerformance]:
        """Return the statistics of every operation, or of one, ordered by operation and layer."""
        with self._lock:
            # Copy under the lock and sort outside of it: sorting takes longer, and calls wait for the lock.
            chosen = {
                name: (times.copy(), {stage: one.copy() for stage, one in self._stages.get(name, {}).items()})
                for name, times in self._operations.items()
                if operation in ("", name[0])
            }
        return [
            OperationPerformance(
                *name,
                _percentiles(times),
                tuple((stage, _percentiles(one)) for stage, one in stages.items()),
            )
            for name, (times, stages) in sorted(chosen.items(), key=lambda item: item[0])
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
