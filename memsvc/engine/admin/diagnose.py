"""Diagnosis of every backend and index."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from memsvc.domain.context import NoticeSeverity
from memsvc.domain.diagnostics import (
    BackendHealth,
    Diagnosis,
    HealthWarning,
    IndexKind,
    IndexReport,
    OutboxState,
    TokenState,
)
from memsvc.domain.errors import BackendUnavailableError, MemsvcError
from memsvc.engine.admin.stats import indexer_warnings
from memsvc.engine.admin.store_migration import StoreLocation
from memsvc.engine.indexing.index_writers import is_newer_analysis
from memsvc.engine.indexing.indexer import Indexer
from memsvc.engine.indexing.passage_tokens import TokenBackfill
from memsvc.engine.indexing.reindex import ReindexService
from memsvc.engine.indexing.repair import SearchProbe
from memsvc.engine.runtime.latency_stats import LastErrors, LatencyStats
from memsvc.ports.change_feed import IndexFeed
from memsvc.ports.faults import BreakerState, FaultLog
from memsvc.ports.indexes import LexicalIndex, VectorIndex, state_reporter
from memsvc.text.passages import ANALYSIS_VERSION


class DiagnoseService:
    """Read-only diagnosis: pings backends, counts entries, and on request compares every entry with the store."""

    def __init__(
        self,
        pings: BackendPings,
        feed: IndexFeed,
        indexes: tuple[VectorIndex, LexicalIndex],
        upkeep: tuple[Indexer, ReindexService, TokenBackfill],
        measured: tuple[LatencyStats, LastErrors],
        probing: SearchProbe,
    ) -> None:
        self._pings = pings
        self._feed = feed
        self._vectors, self._lexical = indexes
        self._indexer, self._reindex, self._token_backfill = upkeep
        self._performance, self._last_errors = measured
        self._probing = probing
        self._spaces = probing.spaces
        self._others: list[Callable[[], Sequence[HealthWarning]]] = []

    def add_notice_source(self, notices: Callable[[], Sequence[HealthWarning]]) -> None:
        """Add a source of warnings; to be called before the first request."""
        self._others.append(notices)

    def health(self) -> tuple[BackendHealth, ...]:
        """Ping every backend, without further checks; one that does not answer in time is unhealthy."""
        return self._pings.health()

    @property
    def move_notice(self) -> str:
        """Return where the data of the store were moved, as of the last ping; empty when they are here."""
        return self._pings.move_notice

    def run(self, *, verify: bool) -> Diagnosis:
        """Return the state of the service; an unhealthy backend is part of the result, not an error."""
        health = self.health()
        broken = {backend.port for backend in health if not backend.healthy}
        outbox, tokens, reports, found = self._load_outbox(broken, verify=verify)
        found.extend(self._backend_errors(broken))
        found.extend(self._not_embedding(broken))
        found.extend(self._other_model())
        if self.move_notice:
            found.append(HealthWarning("STORE_MOVED", self.move_notice, NoticeSeverity.CRITICAL))
        found.extend(
            HealthWarning("BACKEND_DOWN", f"{b.port} ({b.name}): {b.message}") for b in health if not b.healthy
        )
        return Diagnosis(
            healthy=not broken and not any(one.severity is not NoticeSeverity.INFO for one in found),
            backends=health,
            indexes=tuple(reports),
            outbox=outbox,
            slowest=tuple(self._performance.slowest()),
            warnings=tuple(found),
            tokens=tokens,
        )

    def _load_outbox(
        self, broken: set[str], *, verify: bool
    ) -> tuple[OutboxState | None, TokenState | None, Sequence[IndexReport], list[HealthWarning]]:
        """Return the results that need the store: empty while it is down."""
        if "metadata" in broken:
            return None, None, (), []
        try:
            reports, found = self._indexes(broken, verify=verify)
            tokens = self._token_backfill.state()
            outbox = OutboxState(self._feed.head_position(), self._feed.applied_position(), self._feed.pending_count())
            found.extend(
                indexer_warnings(outbox.pending, replaying=self._indexer.is_replaying, building=self._reindex.progress)
            )
            found.extend(notice for notices in self._others for notice in notices())
        except BackendUnavailableError as error:
            # The store went down after the ping.
            return None, None, (), [HealthWarning("BACKEND_DOWN", error.message)]
        return outbox, tokens, reports, found

    def _indexes(self, broken: set[str], *, verify: bool) -> tuple[list[IndexReport], list[HealthWarning]]:
        readers: Mapping[str, Callable[..., IndexReport]] = {"vectors": self._vector_report, "lexical": self._words}
        reports, found = [], []
        for port, read in readers.items():
            if port in broken:
                continue
            settled = self._settled_head()
            try:
                report = read(verify=verify)
            except MemsvcError as error:
                found.append(HealthWarning("INDEX_UNREADABLE", f"{port}: {error}"))
                continue
            reports.append(self._with_progress(report))
            found.extend(_index_warnings(report))
            if not verify:
                found.extend(self._short(report, settled))
            found.extend(self._states(port))
            if verify and report.generation:
                found.extend(self._probe_index(report.index))
        return reports, found

    def _settled_head(self) -> int | None:
        """Return the newest position of the outbox if all changes up to it are applied, otherwise None."""
        head = self._feed.head_position()
        return None if self._feed.pending_count() else head

    def _short(self, report: IndexReport, settled: int | None) -> Iterator[HealthWarning]:
        """Report an index with fewer entries than memories, unless changes were pending or stored since *settled*.

        Every memory that is indexed has an entry of its own or more. What is being rebuilt, or has another model, is
        reported as such.
        """
        is_short = report.generation and report.present < report.expected and self._reindex.progress is None
        if is_short and settled is not None and settled == self._settled_head() and self._accepts_writes(report.index):
            yield HealthWarning(
                "INDEX_DIFFERS",
                f"{report.index}: {report.expected} memories have only {report.present} entries although no change is "
                "pending; Diagnose with verify counts what is missing, Reindex in mode REPAIR writes it.",
            )

    def _accepts_writes(self, kind: IndexKind) -> bool:
        try:
            return self._reindex.accepts_writes(kind)
        except BackendUnavailableError:
            return False

    def _newer_analysis(self) -> Iterator[HealthWarning]:
        manifest = self._lexical.manifest
        if manifest is not None and is_newer_analysis(manifest, self._lexical):
            yield HealthWarning(
                "INDEX_STATE",
                f"lexical: a newer version of memsvc made it (analysis {manifest.analysis}, here {ANALYSIS_VERSION}). "
                "Searches use it as it is. Upgrade this process; if no newer one is to run again, run Reindex.",
                NoticeSeverity.INFO,
            )

    def _states(self, port: str) -> Iterator[HealthWarning]:
        """Report the state of an index on a server."""
        if port == "lexical":
            yield from self._newer_analysis()
        reporter = state_reporter(self._vectors if port == "vectors" else self._lexical)
        state = None if reporter is None else reporter.state()
        if state is None:
            return
        yield HealthWarning("INDEX_STATE", f"{port}: {state.summary}", NoticeSeverity.INFO)
        for problem in state.problems:
            yield HealthWarning("INDEX_IMPAIRED", f"{port}: {problem}")

    def _probe_index(self, kind: IndexKind) -> Iterator[HealthWarning]:
        failed, asked = self._probing.run(kind)
        if failed:
            yield HealthWarning(
                "INDEX_DAMAGED",
                f"{kind}: {failed} of {asked} memories searched by their own content were not found, although "
                "their entries exist: files are damaged; run Reindex in mode REBUILD.",
            )

    def _backend_errors(self, broken: set[str]) -> Iterator[HealthWarning]:
        for port in ("vectors", "lexical"):
            for operation, message in self._last_errors.of(port).items() if port not in broken else ():
                yield HealthWarning(
                    "INDEX_FAILING",
                    f"{port}: the last {operation} failed ({message}); searches run without the index. It is "
                    "rebuilt automatically if that persists; Reindex in mode REBUILD does so at once.",
                )

    def _not_embedding(self, broken: set[str]) -> Iterator[HealthWarning]:
        """Report errors of an embedder that answers pings: a wrong model name, or unexpected vectors."""
        for operation, message in self._last_errors.of("embedder").items() if "embedder" not in broken else ():
            yield HealthWarning(
                "EMBEDDER_FAILING",
                f"embedder: the last {operation} failed ({message}); until it succeeds, new memories are found "
                "by words alone, and searches report that.",
            )

    def _other_model(self) -> Iterator[HealthWarning]:
        try:
            manifest = self._vectors.manifest
        except BackendUnavailableError:
            return
        space = self._spaces.of(manifest)
        if manifest is None or (space is not None and space.is_current):
            return
        change = f"vectors: they are of the model {manifest.model}, and {self._spaces.current.embedding.model} is set"
        if space is not None:
            answered = "searches by meaning are answered by them until the new index is whole"
            yield HealthWarning("MODEL_CHANGED", f"{change}; {answered}.", NoticeSeverity.INFO)
        else:
            missing = "until the new index is whole words alone answer; previous_embedder can name the model before"
            yield HealthWarning("MODEL_CHANGED", f"{change}; {missing}.")

    def _vector_report(self, *, verify: bool) -> IndexReport:
        manifest = self._vectors.manifest
        if manifest is None:
            return self._count_entries(IndexKind.VECTORS, 0, 0, verify=False)
        report = self._count_entries(IndexKind.VECTORS, manifest.generation, manifest.position, verify=verify)
        return replace(report, model=manifest.model, dimension=manifest.dimension, hnsw=manifest.hnsw)

    def _with_progress(self, report: IndexReport) -> IndexReport:
        step = self._reindex.progress
        if step is None or step.index is not report.index:
            return report
        model = self._spaces.current.embedding.model if step.index is IndexKind.VECTORS else ""
        return replace(report, building=step, building_model=model)

    def _words(self, *, verify: bool) -> IndexReport:
        manifest = self._lexical.manifest
        if manifest is None:
            return self._count_entries(IndexKind.LEXICAL, 0, 0, verify=False)
        return self._count_entries(IndexKind.LEXICAL, manifest.generation, manifest.position, verify=verify)

    def _count_entries(self, kind: IndexKind, generation: int, position: int, *, verify: bool) -> IndexReport:
        if not verify or not generation:
            index = self._vectors if kind is IndexKind.VECTORS else self._lexical
            present = index.count() if generation else 0
            return IndexReport(kind, generation, position, self._feed.indexable(), present)
        seen = self._reindex.compare(kind)
        return IndexReport(
            kind,
            generation,
            position,
            seen.expected,
            seen.present,
            missing=len(seen.missing),
            stale=len(seen.stale),
            orphaned=len(seen.orphaned),
        )


def _index_warnings(report: IndexReport) -> list[HealthWarning]:
    found = []
    if not report.generation:
        found.append(
            HealthWarning(
                "INDEX_ABSENT", f"{report.index}: there is no usable index; it is being built, or run Reindex."
            )
        )
    if report.missing or report.stale or report.orphaned:
        found.append(
            HealthWarning(
                "INDEX_DIFFERS",
                f"{report.index}: {report.missing} memories are missing, {report.stale} stale and {report.orphaned} "
                "orphaned; run Reindex in mode REPAIR.",
            )
        )
    return found


# Pings of the backends, in parallel and within a bounded time.


STORE = "metadata"
PING_SECONDS = 3.0
"""A backend that does not answer a ping within this time is unhealthy."""


@dataclass(frozen=True, slots=True)
class Pingable:
    """A backend that can be pinged: the port it serves, its name, and the ping function."""

    port: str
    name: str
    ping: Callable[[], None]


class BackendPings:
    """Pings every backend in a thread of its own. Thread-safe.

    A ping that hangs keeps one thread, and no second ping of that backend begins until it ends. A backend whose circuit
    breaker is not closed is unhealthy, even if it answers the ping.
    """

    def __init__(
        self,
        backends: Sequence[Pingable],
        seconds: float = PING_SECONDS,
        faults: FaultLog | None = None,
        location: StoreLocation | None = None,
    ) -> None:
        """Wait *seconds* for an answer; *faults* knows the circuit breakers. *location* pings the store."""
        if location is not None:
            backends = [replace(one, ping=location.ping) if one.port == STORE else one for one in backends]
        self._location = location
        self._backends = backends
        self._faults = faults or FaultLog()
        self._seconds = seconds
        self._lock = threading.Lock()
        self._running: dict[str, _Probe] = {}

    @property
    def move_notice(self) -> str:
        """Return where the data of the store were moved, as of the last ping; empty when they are here."""
        return "" if self._location is None else self._location.move_notice

    def health(self) -> tuple[BackendHealth, ...]:
        """Return the health of every backend, in at most the time for one ping."""
        with self._lock:
            for backend in self._backends:
                running = self._running.get(backend.port)
                if running is None or running.is_done:
                    self._running[backend.port] = _Probe(backend)
            pings = [self._running[backend.port] for backend in self._backends]
        until = time.monotonic() + self._seconds
        pinged = [ping.health(until) for ping in pings]
        not_closed = self._faults.open_breakers()
        return tuple(_with_breaker(one, *not_closed[one.port]) if one.port in not_closed else one for one in pinged)


def _with_breaker(health: BackendHealth, backend: str, state: BreakerState) -> BackendHealth:
    """Return the health of a backend whose circuit breaker is not closed."""
    state_text = state.value.replace("_", "-")
    note = f"The circuit breaker of {backend!r} is {state_text}: calls fail at once until a probe is answered."
    return replace(health, healthy=False, message=f"{health.message} {note}".strip())


class _Probe:
    """One ping under way, in a daemon thread: a hung backend must not keep the process from ending."""

    def __init__(self, backend: Pingable) -> None:
        self._backend = backend
        self._started = time.monotonic()
        self._seconds = 0.0
        self._trouble = f"The ping of {backend.name!r} failed unexpectedly."
        self._thread = threading.Thread(target=self._run, name=f"ping-{backend.port}", daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def health(self, until: float) -> BackendHealth:
        self._thread.join(max(0.0, until - time.monotonic()))
        if not self.is_done:
            seconds = time.monotonic() - self._started
            trouble = f"The backend {self._backend.name!r} has not answered for {seconds:.1f} s."
            return BackendHealth(
                self._backend.port, self._backend.name, healthy=False, message=trouble, ping_seconds=seconds
            )
        return BackendHealth(
            self._backend.port,
            self._backend.name,
            healthy=not self._trouble,
            message=self._trouble,
            ping_seconds=self._seconds,
        )

    def _run(self) -> None:
        try:
            self._backend.ping()
        except MemsvcError as error:
            self._trouble = error.message
        else:
            self._trouble = ""
        self._seconds = time.monotonic() - self._started
