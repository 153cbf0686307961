"""Instrumentation of backends: wrappers with the same interface that record every relevant call."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.index_entries import Hit
from memsvc.engine.runtime.latency_stats import LatencyStats
from memsvc.ports.indexes import LexicalIndex, PendingSearch, VectorIndex
from memsvc.ports.metadata import MetadataStore, Transaction
from memsvc.ports.models import Embedder

_READS = {
    "get": "Get",
    "get_by_key": "Get",
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


class _Timed:
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
        return cast("Embedder", _Timed(inner, self._methods(inner, "embedder", _EMBEDDER)))

    def store(self, inner: MetadataStore) -> MetadataStore:
        """Return an instrumented store: reads of memories, and whole transactions."""

        @contextmanager
        def transaction() -> Iterator[Transaction]:
            started = time.perf_counter()
            is_done = False
            try:
                with inner.transaction() as opened:
                    yield opened
                is_done = True
            finally:
                self._performance.record("Transaction", "store", time.perf_counter() - started, failed=not is_done)

        memories = _Timed(inner.memories, self._methods(inner.memories, "store", _READS))
        return cast("MetadataStore", _Timed(inner, {"transaction": transaction, "memories": memories}))

    def vectors(self, inner: VectorIndex) -> VectorIndex:
        """Return an instrumented vector index; a search begun early ends with its result."""
        begin = inner.begin_search

        def begin_search(*args: Any, **kwargs: Any) -> PendingSearch:
            return _Pending(begin(*args, **kwargs), self._watched(_result, "vectors", "Search", time.perf_counter()))

        methods = self._methods(inner, "vectors", _INDEX) | {"begin_search": begin_search}
        return cast("VectorIndex", _Timed(inner, methods))

    def lexical(self, inner: LexicalIndex) -> LexicalIndex:
        """Return an instrumented lexical index."""
        return cast("LexicalIndex", _Timed(inner, self._methods(inner, "lexical", _INDEX)))

    def _methods(self, inner: Any, layer: str, named: Mapping[str, str]) -> dict[str, Callable[..., Any]]:
        return {name: self._watched(getattr(inner, name), layer, operation) for name, operation in named.items()}

    def _watched(
        self, method: Callable[..., Any], layer: str, operation: str, begun: float | None = None
    ) -> Callable[..., Any]:
        record, last_errors = self._performance.record, self._last_errors

        @functools.wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            started = time.perf_counter() if begun is None else begun
            try:
                value = method(*args, **kwargs)
            except BaseException as error:
                record(operation, layer, time.perf_counter() - started, failed=True)
                if isinstance(error, BackendUnavailableError):
                    last_errors.note(layer, operation, error.message)
                raise
            record(operation, layer, time.perf_counter() - started)
            last_errors.forget(layer, "" if operation == _INDEX["switch"] else operation)
            return value

        return call


class _Pending:
    """Instrumented `memsvc.ports.indexes.PendingSearch`."""

    __slots__ = ("_inner", "_take")

    def __init__(self, inner: PendingSearch, take: Callable[[PendingSearch], Sequence[Hit]]) -> None:
        self._inner = inner
        self._take = take

    def result(self) -> Sequence[Hit]:
        """Return the hits."""
        return self._take(self._inner)


def _result(pending: PendingSearch) -> Sequence[Hit]:
    return pending.result()


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
