"""Latency statistics: recent durations by operation and layer, in memory and, between runs, in a file."""

from __future__ import annotations

import functools
import heapq
import json
import logging
import math
import threading
import time
from bisect import bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

from memsvc.domain.clock import from_micros, to_micros
from memsvc.domain.diagnostics import OperationPerformance, Percentiles, SlowOperation
from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.index_entries import Hit
from memsvc.ports.indexes import LexicalIndex, PendingSearch, VectorIndex
from memsvc.ports.metadata import MetadataStore, Transaction
from memsvc.ports.models import Embedder, token_embedder

KEPT = 128
"""Number of most recent calls of an operation that the file holds."""
MOST_KEPT = 500
"""Number of operations and stages that the file holds: at most some 600 KB."""
KEEP_SECONDS = 60.0
"""Interval of writes of the file. A crash loses what was measured since."""
RECENT = 2_048
"""Number of most recent calls of an operation from which percentiles are computed."""
WAITING = 256
"""Maximum number of recorded calls that are not counted yet: to count many at once takes a fraction of the time."""
SLOWEST = 10
ROOT_LAYERS = frozenset({"edge", "engine"})
"""Layers whose slow operations are listed; operations of other layers are part of these."""
Listener: TypeAlias = Callable[[str, str, float, Sequence[tuple[str, float]]], None]
"""Receives operation, layer, seconds and stages."""
log = logging.getLogger(__name__)
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
_READS = {
    "get": "Get",
    "get_by_key": "Get",
    "get_by_former_key": "Get",
    "by_rows": "ReadRows",
    "page": "ReadPage",
    "candidates": "ReadCandidates",
    "keyword_hits": "SearchKeywords",
    "rows_where": "FindRows",
    "chunks": "ReadChunks",
    "essentials": "ReadEssentials",
    "counts": "Count",
}
_INDEX = {"search": "Search", "replace": "Replace", "switch": "Switch"}
_EMBEDDER = {"embed_query": "EmbedQuery", "embed_passages": "EmbedPassages"}
_TOKEN_EMBEDDER = {"embed_query_with_tokens": "EmbedQuery", "embed_passages_with_tokens": "EmbedPassages"}


class LatencyStats:
    """Cheap recording of durations, with exact percentiles over the most recent calls of each operation."""

    def __init__(self, now: Callable[[], datetime], clock: Callable[[], float] | None = None) -> None:
        """Read the time from *now*; *clock*, by default the same one, gives it in seconds since 1970 for every call."""
        self._now = now
        self._clock = clock or (lambda: now().timestamp())
        self._series: dict[tuple[str, str], _Series] = {}
        self._lock = threading.Lock()
        self._waiting: deque[_Call] = deque()
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
        self._waiting.append(_Call(operation, layer, int(self._clock()) // 60, seconds, failed, stages))
        if len(self._waiting) >= WAITING:
            with self._lock:
                self._count_waiting()
        if layer in ROOT_LAYERS and not is_endless and (len(self._slowest) < SLOWEST or seconds > self._slowest[0][0]):
            with self._lock:
                self._order += 1
                slow = SlowOperation(operation, seconds, self._now(), layer)
                heapq.heappush(self._slowest, (seconds, self._order, slow))
                if len(self._slowest) > SLOWEST:
                    heapq.heappop(self._slowest)
        if self._listener is not None:
            self._listener(operation, layer, seconds, stages)

    def _count_waiting(self) -> None:
        """Count the recorded calls, those of an operation and a minute together. The caller holds the lock."""
        grouped: defaultdict[tuple[tuple[str, str], int], list[_Call]] = defaultdict(list)
        staged: defaultdict[tuple[tuple[str, str], str], list[float]] = defaultdict(list)
        for _ in range(len(self._waiting)):
            call = self._waiting.popleft()
            name = (call.operation, call.layer)
            grouped[name, call.minute].append(call)
            for stage, duration in call.stages:
                staged[name, stage].append(duration)
        for (name, minute), calls in grouped.items():
            durations, failures = [call.seconds for call in calls], sum(call.failed for call in calls)
            _of(self._operations, name).add(durations, failures)
            series = self._series.get(name)
            if series is None:
                series = self._series[name] = _Series()
            series.add(minute, durations, failures)
        for (name, stage), durations in staged.items():
            _of(self._stages.setdefault(name, {}), stage).add(durations)

    def report(self, operation: str = "") -> list[OperationPerformance]:
        """Return the statistics of every operation, or of one, ordered by operation and layer."""
        with self._lock:
            self._count_waiting()
            # Copy under the lock and sort outside of it: sorting takes longer, and calls wait for the lock.
            chosen = {
                name: (times.copy(), {stage: one.copy() for stage, one in self._stages.get(name, {}).items()})
                for name, times in self._operations.items()
                if operation in ("", name[0])
            }
        return [
            OperationPerformance(
                *name,
                times.percentiles(),
                tuple((stage, one.percentiles()) for stage, one in stages.items()),
            )
            for name, (times, stages) in sorted(chosen.items(), key=lambda item: item[0])
        ]

    def window(self, length: timedelta, operation: str = "") -> tuple[datetime, list[OperationPerformance]]:
        """Return the beginning of a window that ends now, and the statistics of the operations that ran in it.

        A window of up to `MINUTES` minutes begins with a whole minute, a longer one with a whole hour. Percentiles are
        exact to 5 percent, and stages are not known.
        """
        is_short = length <= timedelta(minutes=MINUTES)
        unit = 60 if is_short else 3600
        first = int(self._clock() - length.total_seconds()) // unit
        with self._lock:
            self._count_waiting()
            found = [
                (name, series.sum_since(first, is_short=is_short))
                for name, series in self._series.items()
                if operation in ("", name[0])
            ]
        begin = max(self.since, datetime.fromtimestamp(first * unit, UTC))
        return begin, [OperationPerformance(*name, one.percentiles()) for name, one in sorted(found) if one.count]

    def snapshot(self) -> dict[str, Any]:
        """Return the statistics as JSON: since when, and for each operation or stage its counts and last durations."""
        with self._lock:
            self._count_waiting()
            series = [[*name, *one.rows()] for name, one in list(self._series.items())[:MOST_KEPT]]
            named = [((*name, ""), times.copy()) for name, times in self._operations.items()]
            named += [
                ((*name, stage), times.copy()) for name, own in self._stages.items() for stage, times in own.items()
            ]
        rows = [
            [
                *name,
                one.count,
                one.errors,
                one.total,
                one.longest,
                [round(each, 6) for each in list(one.recent)[-KEPT:]],
            ]
            for name, one in named[:MOST_KEPT]
        ]
        return {"since": to_micros(self.since), "durations": rows, "series": series}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Continue with a snapshot of an earlier run, before anything was recorded.

        Raises:
            ValueError, TypeError, KeyError: It is no snapshot; nothing was changed.
        """
        operations: dict[tuple[str, str], _Durations] = {}
        stages: dict[tuple[str, str], dict[str, _Durations]] = {}
        for operation, layer, stage, count, errors, total, longest, recent in snapshot["durations"]:
            last = deque((float(one) for one in recent), maxlen=RECENT)
            if not last or int(count) < 1:
                continue
            times = _Durations(int(count), int(errors), float(total), float(longest), last)
            own = stages.setdefault((operation, layer), {}) if stage else operations
            own[stage or (operation, layer)] = times  # type: ignore[index] # the key of that mapping
        series = {
            (str(operation), str(layer)): _Series.of(minutes, hours)
            for operation, layer, minutes, hours in snapshot.get("series", ())
        }
        since = from_micros(int(snapshot["since"]))
        with self._lock:
            self.since, self._operations, self._stages = since, operations, stages
            self._series = series

    def slowest(self) -> list[SlowOperation]:
        """Return the slowest calls since the start, slowest first."""
        with self._lock:
            return [slow for _, _, slow in sorted(self._slowest, reverse=True)]


class DurationFile:
    """A file of the statistics, so that they continue after a restart."""

    def __init__(self, path: Path, stats: LatencyStats) -> None:
        """Keep *stats* at *path*."""
        self._path = path
        self._stats = stats
        self._written = ""

    def load(self) -> None:
        """Continue with the content of the file; an unreadable one is left out, and the log says so."""
        try:
            self._stats.restore(json.loads(self._path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return
        except (OSError, ValueError, TypeError, KeyError) as error:
            log.warning("the durations of earlier runs cannot be read from %s: %s", self._path, error)

    def save(self) -> None:
        """Replace the file if the statistics changed."""
        text = json.dumps(self._stats.snapshot(), separators=(",", ":"))
        if text == self._written:
            return
        passing = self._path.with_suffix(".new")
        try:
            passing.write_text(text, encoding="utf-8")
            passing.replace(self._path)
        except OSError as error:
            log.warning("the durations cannot be written to %s: %s", self._path, error)
            return
        self._written = text


class _Call(NamedTuple):
    """A recorded call; its minute counts from 1970."""

    operation: str
    layer: str
    minute: int
    seconds: float
    failed: bool
    stages: Sequence[tuple[str, float]]


@dataclass(slots=True)
class _Totals:
    """Counts and sums of a number of calls, which are exact."""

    count: int = 0
    errors: int = 0
    total: float = 0.0
    longest: float = 0.0

    def count_calls(self, durations: Sequence[float], failures: int) -> None:
        self.count += len(durations)
        self.errors += failures
        self.total += sum(durations)
        self.longest = max(self.longest, *durations)

    def statistics(self, at: Callable[[float], float]) -> Percentiles:
        """Return the statistics of at least one call; *at* returns the duration that a share of them do not exceed."""
        return Percentiles(
            count=self.count,
            errors=self.errors,
            mean=self.total / self.count,
            p50=at(0.50),
            p90=at(0.90),
            p95=at(0.95),
            p99=at(0.99),
            max=self.longest,
        )


@dataclass(slots=True)
class _Durations(_Totals):
    """The calls since the beginning, with the durations of the last ones."""

    recent: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))

    def add(self, durations: Sequence[float], failures: int = 0) -> None:
        self.count_calls(durations, failures)
        self.recent.extend(durations)

    def percentiles(self) -> Percentiles:
        recent = sorted(self.recent)
        return self.statistics(lambda share: recent[min(len(recent) - 1, int(share * len(recent)))])

    def copy(self) -> _Durations:
        """Return an independent copy."""
        return replace(self, recent=self.recent.copy())


MINUTES, HOURS = 60, 168
"""Minutes and hours whose calls are counted apart: an hour and a week."""
BUCKETS_PER_E = 10.5
"""Classes of durations for each factor of e: each is a tenth longer than the one before."""
_SHORTEST = 1e-7


@dataclass(slots=True)
class _Span(_Totals):
    """The calls of a minute or an hour: their durations by classes, numbered by the logarithm of a duration."""

    classes: dict[int, int] = field(default_factory=dict)

    def add(self, durations: Sequence[float], classes: Mapping[int, int], failures: int) -> None:
        self.count_calls(durations, failures)
        self._count_classes(classes)

    def include(self, other: _Span) -> None:
        self.count += other.count
        self.errors += other.errors
        self.total += other.total
        self.longest = max(self.longest, other.longest)
        self._count_classes(other.classes)

    def _count_classes(self, classes: Mapping[int, int]) -> None:
        for number, count in classes.items():
            self.classes[number] = self.classes.get(number, 0) + count

    def percentiles(self) -> Percentiles:
        """Return the statistics of at least one call; a percentile is the middle of its class."""
        ordered = sorted(self.classes.items())
        sums = list(accumulate(count for _, count in ordered))

        def at(share: float) -> float:
            number, _ = ordered[bisect_right(sums, int(share * self.count))]
            return min(self.longest, math.exp((number + 0.5) / BUCKETS_PER_E))

        return self.statistics(at)


class _Series:
    """The calls of an operation by minute and by hour, oldest first; spans without calls are left out."""

    __slots__ = ("_hours", "_minutes")

    def __init__(self) -> None:
        self._minutes: deque[tuple[int, _Span]] = deque(maxlen=MINUTES + 1)
        self._hours: deque[tuple[int, _Span]] = deque(maxlen=HOURS + 1)

    @classmethod
    def of(cls, minutes: Sequence[Sequence[Any]], hours: Sequence[Sequence[Any]]) -> _Series:
        """Return the series of `rows`."""
        series = cls()
        for kept, rows in ((series._minutes, minutes), (series._hours, hours)):
            for number, count, errors, total, longest, classes in rows:
                by_class = {int(one): int(calls) for one, calls in classes}
                kept.append((int(number), _Span(int(count), int(errors), float(total), float(longest), by_class)))
        return series

    def add(self, minute: int, durations: Sequence[float], failures: int) -> None:
        classes = Counter(math.floor(math.log(max(one, _SHORTEST)) * BUCKETS_PER_E) for one in durations)
        for spans, unit in ((self._minutes, minute), (self._hours, minute // 60)):
            if not spans or spans[-1][0] < unit:
                spans.append((unit, _Span()))
            spans[-1][1].add(durations, classes, failures)

    def sum_since(self, first: int, *, is_short: bool) -> _Span:
        """Return the sum of the minutes, or of the hours, from the one of that number on."""
        whole = _Span()
        for number, span in self._minutes if is_short else self._hours:
            if number >= first:
                whole.include(span)
        return whole

    def rows(self) -> list[list[Any]]:
        """Return minutes and hours as JSON."""
        return [
            [
                [number, one.count, one.errors, round(one.total, 6), round(one.longest, 6), [*one.classes.items()]]
                for number, one in spans
            ]
            for spans in (self._minutes, self._hours)
        ]


def _of(known: dict[K, _Durations], name: K) -> _Durations:
    found = known.get(name)
    if found is None:
        found = known[name] = _Durations()
    return found


# Instrumentation of backends: wrappers with the same interface that record every relevant call.


class _InstrumentedProxy:
    """A proxy for an object with some of its members replaced."""

    def __init__(self, inner: Any, members: Mapping[str, Any]) -> None:
        self._inner = inner
        for name, member in members.items():
            setattr(self, name, member)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Instrumentation:
    """Wrappers around backends that record durations and the last errors of indexes."""

    def __init__(self, performance: LatencyStats, last_errors: LastErrors) -> None:
        self._performance = performance
        self._last_errors = last_errors

    def embedder(self, inner: Embedder) -> Embedder:
        """Return an instrumented embedder."""
        named = _EMBEDDER | _TOKEN_EMBEDDER if token_embedder(inner) else _EMBEDDER
        return cast("Embedder", _InstrumentedProxy(inner, self._methods(inner, "embedder", named)))

    def store(self, inner: MetadataStore) -> MetadataStore:
        """Return an instrumented store: reads of memories, and whole transactions."""

        @contextmanager
        def transaction(**options: Any) -> Iterator[Transaction]:
            started = time.perf_counter()
            is_done = False
            try:
                with inner.transaction(**options) as opened:
                    yield opened
                is_done = True
            finally:
                self._performance.record("Transaction", "store", time.perf_counter() - started, failed=not is_done)

        memories = _InstrumentedProxy(inner.memories, self._methods(inner.memories, "store", _READS))
        return cast("MetadataStore", _InstrumentedProxy(inner, {"transaction": transaction, "memories": memories}))

    def vectors(self, inner: VectorIndex) -> VectorIndex:
        """Return an instrumented vector index; a search begun early ends with its result."""
        begin = inner.begin_search

        def begin_search(*args: Any, **kwargs: Any) -> PendingSearch:
            return _InstrumentedSearch(begin(*args, **kwargs), self._call, time.perf_counter())

        methods = self._methods(inner, "vectors", _INDEX) | {"begin_search": begin_search}
        return cast("VectorIndex", _InstrumentedProxy(inner, methods))

    def lexical(self, inner: LexicalIndex) -> LexicalIndex:
        """Return an instrumented lexical index."""
        return cast("LexicalIndex", _InstrumentedProxy(inner, self._methods(inner, "lexical", _INDEX)))

    def _methods(self, inner: Any, layer: str, named: Mapping[str, str]) -> dict[str, Callable[..., Any]]:
        return {name: self._instrument(getattr(inner, name), layer, operation) for name, operation in named.items()}

    def _instrument(self, method: Callable[..., Any], layer: str, operation: str) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            return self._call(layer, operation, time.perf_counter(), method, *args, **kwargs)

        return call

    def _call(
        self, layer: str, operation: str, started: float, method: Callable[..., V], *args: Any, **kwargs: Any
    ) -> V:
        """Return the result of *method*, and record its duration since *started*."""
        try:
            value = method(*args, **kwargs)
        except BaseException as error:
            self._performance.record(operation, layer, time.perf_counter() - started, failed=True)
            if isinstance(error, BackendUnavailableError):
                self._last_errors.note(layer, operation, error.message)
            raise
        self._performance.record(operation, layer, time.perf_counter() - started)
        self._last_errors.forget(layer, "" if operation == _INDEX["switch"] else operation)
        return value


class _InstrumentedSearch:
    """Instrumented `memsvc.ports.indexes.PendingSearch`."""

    __slots__ = ("_call", "_inner", "_started")

    def __init__(self, inner: PendingSearch, call: Callable[..., Any], started: float) -> None:
        self._inner = inner
        self._call = call
        self._started = started

    def result(self) -> Sequence[Hit]:
        """Return the hits."""
        hits: Sequence[Hit] = self._call("vectors", _INDEX["search"], self._started, self._inner.result)
        return hits


class LastErrors:
    """The last error of each operation of each index, until the operation succeeds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], str] = {}

    def note(self, port: str, operation: str, message: str) -> None:
        """Record that an operation failed."""
        with self._lock:
            self._known[port, operation] = message

    def forget(self, port: str, operation: str = "") -> None:
        """Record that an operation succeeded; without *operation*, that the index was replaced."""
        if not self._known:
            return
        with self._lock:
            for name in [one for one in self._known if one[0] == port and operation in {"", one[1]}]:
                del self._known[name]

    def of(self, port: str) -> dict[str, str]:
        """Return the messages of failing operations of an index, by operation."""
        with self._lock:
            return {operation: message for (name, operation), message in self._known.items() if name == port}
