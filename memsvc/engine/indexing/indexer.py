"""The indexer: one thread that follows the outbox, so that what is stored is found."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext

from memsvc.domain.errors import BackendClosedError, BackendUnavailableError, MemsvcError, StoreMovedError
from memsvc.domain.index_entries import Change, Document
from memsvc.engine.indexing.index_writers import IndexWriter
from memsvc.engine.indexing.vector_entries import ChangeBatch, EmbeddingPrefetcher, VectorEntries
from memsvc.engine.runtime.latency_stats import LatencyStats
from memsvc.ports.change_feed import IndexFeed

GROUP = 512
"""Changes read from the outbox at a time."""
URGENT = 64
"""Changes that somebody waits for by name, taken ahead of the rest in one go."""
URGENT_STEPS = 8
"""After so many of them in a row a backlog has its turn: who always waits by name must not stop it."""
TURN = 64
"""Changes of a backlog that are looked at while somebody waits."""
IDLE_SECONDS = 1.0
"""How long the thread sleeps when nobody nudges it; with several processes on a store, how late it may be."""
OTHERS_SECONDS = 0.02
"""How long it sleeps while somebody waits for changes that another process is applying, and before it has the store
note what was applied: a writer who comes back sooner does not have to wait for that."""
MOVED_SECONDS = 1.0
"""How often to look whether a store that was moved elsewhere is here again."""
_NAME = "indexer"
BACKOFF_SECONDS = (0.1, 0.5, 1.0, 2.0, 5.0)

log = logging.getLogger(__name__)


class Indexer:
    """Follows the outbox. Every waiting writer is served by the same commit of the indexes (group commit)."""

    def __init__(self, feed: IndexFeed, change_applier: ChangeApplier, performance: LatencyStats) -> None:
        self._feed = feed
        self._change_applier = change_applier
        self._words = LexicalCatchUp(feed, change_applier)
        self._performance = performance
        self._waiters = ApplyWaiters()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._caught_up = threading.Event()
        self._applied = feed.applied()
        self._urgent_steps = 0
        self._replay_to = feed.head()
        self._thread = threading.Thread(target=self._run, name="indexer", daemon=True)

    @property
    def is_replaying(self) -> bool:
        """Return whether changes of an earlier run of the process still wait."""
        return not self._caught_up.is_set()

    @property
    def applied(self) -> int:
        """Return the position up to which every change is applied, as last seen."""
        return self._applied

    @property
    def pending(self) -> int:
        """Return how many changes wait."""
        return self._feed.pending_count()

    def start(self) -> None:
        """Start following."""
        self._thread.start()

    def stop(self) -> None:
        """Finish the part under way and stop; what is left is replayed at the next start."""
        self._stopping.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join()
            self._settle()
        self._waiters.fail(BackendClosedError(_NAME))

    def _settle(self) -> None:
        try:
            self._feed.settle()
        except (BackendClosedError, BackendUnavailableError, StoreMovedError) as error:
            log.info("what was indexed last will be indexed again at the next start: %s", error.message)

    def notify(self) -> None:
        """Say that there are new changes."""
        self._wake.set()

    def when_reached(self, position: int) -> Future[None]:
        """Return a future that is done once every change up to *position* can be found.

        It fails with BackendClosedError when the indexer stops first, with StoreMovedError when the store is moved.
        """
        if position <= self._applied:
            return _done()
        return self._queued(self._waiters.add_position(position))

    def when_applied(self, position: int, count: int = 1) -> Future[None]:
        """Return a future that is done once the *count* changes that end at *position* can be found.

        They are taken ahead of a backlog, so that a single write does not wait for an import.
        """
        if count <= 0 or position <= self._applied:
            return _done()
        return self._queued(self._waiters.add_changes(range(position - count + 1, position + 1)))

    def _queued(self, future: Future[None]) -> Future[None]:
        if self._stopping.is_set():
            self._waiters.fail(BackendClosedError(_NAME))
        self._waiters.resolve((), self._applied)
        self._wake.set()
        return future

    def _run(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            try:
                if not self._step():
                    self._idle()
            except BackendClosedError:
                return
            except StoreMovedError as moved:
                self._rest(moved)
                continue
            except BackendUnavailableError as error:
                self._fall_back(error, failures)
                failures += 1
                continue
            except Exception:
                log.exception("indexing failed and will be tried again")
                self._stopping.wait(_backoff(failures))
                failures += 1
                continue
            if failures:
                log.info("indexing goes on")
            failures = 0

    def _idle(self) -> None:
        """Wait for a nudge; when none comes soon, use the time to have the store note what was applied."""
        if not self._wake.wait(OTHERS_SECONDS):
            self._feed.settle()
            if not self._waiters.has_waiters:
                self._wake.wait(IDLE_SECONDS)
        self._wake.clear()

    def _fall_back(self, error: BackendUnavailableError, failures: int) -> None:
        """Wait for the next try; meanwhile keep at least words up to date."""
        level = logging.DEBUG if failures else logging.WARNING
        log.log(level, "indexing waits, words go ahead: %s", error.message)
        until = time.monotonic() + _backoff(failures)
        while not self._stopping.is_set() and (left := until - time.monotonic()) > 0:
            self._go_ahead_with_words()
            self._wake.wait(left)
            self._wake.clear()

    def _go_ahead_with_words(self) -> None:
        try:
            reached = self._words.catch_up(self._applied, should_stop=self._stopping.is_set)
        except BackendUnavailableError as error:
            log.debug("words cannot go ahead: %s", error.message)
            return
        if reached >= self._replay_to:
            # Searches can be answered, by words at least; they say themselves what they do without.
            self._caught_up.set()

    def _rest(self, moved: StoreMovedError) -> None:
        """Tell those who wait that it will not be here; the move may be undone, so look again."""
        self._waiters.fail(moved)
        self._stopping.wait(MOVED_SECONDS)

    def _step(self) -> bool:
        wanted = self._waiters.awaited_positions(limit=URGENT)
        if wanted and self._urgent_steps >= URGENT_STEPS:
            return self._turn_of_backlog()
        self._urgent_steps = self._urgent_steps + 1 if wanted else 0
        with self._feed.claim(wanted, limit=GROUP) as changes:
            self._answer_for_others(wanted, changes)
            if not changes:
                self._advance()
                self._caught_up.set()
                return False
            self._apply(changes, wanted)
        return True

    def _turn_of_backlog(self) -> bool:
        """Apply the oldest changes, as far as their vectors are there; those that are not are made meanwhile."""
        self._urgent_steps = 0
        with self._feed.claim((), limit=TURN) as changes:
            self._apply(changes, ())
        return True

    def _apply(self, changes: Sequence[Change], wanted: Sequence[int]) -> None:
        started = time.perf_counter()
        is_urgent = not {change.position for change in changes}.isdisjoint(wanted)
        should_stop = None if is_urgent else lambda: self._somebody_came(wanted)
        for part in self._change_applier.apply(changes, should_stop=should_stop):
            self._answer(part)
            self._feed.mark_applied(part)
            self._advance()
            self._performance.record("Apply", "engine", time.perf_counter() - started)
            started = time.perf_counter()
            if self._stopping.is_set() or self._somebody_waits(part):
                break

    def _answer_for_others(self, wanted: Sequence[int], changes: Sequence[Change]) -> None:
        """Tell those who wait for changes that are applied already, by another process or in an earlier step."""
        taken = {change.position for change in changes}
        if missing := [position for position in wanted if position not in taken]:
            self._waiters.resolve(sorted(self._feed.applied_among(missing)), self._applied)

    def _somebody_came(self, wanted: Sequence[int]) -> bool:
        """Return whether to leave the backlog at once: somebody waits by name that did not when it was begun."""
        return self._stopping.is_set() or any(
            position not in wanted for position in self._waiters.awaited_positions(limit=URGENT)
        )

    def _somebody_waits(self, part: Sequence[Change]) -> bool:
        """Return whether to leave the backlog for those who wait by name."""
        done = {change.position for change in part}
        return any(position not in done for position in self._waiters.awaited_positions(limit=1))

    def _answer(self, part: Sequence[Change]) -> None:
        """Tell those who wait for *part*, before the store notes it: what is not noted is only applied again."""
        positions = [change.position for change in part]
        if positions == list(range(self._applied + 1, self._applied + 1 + len(positions))):
            self._applied = positions[-1]
        self._waiters.resolve(positions, self._applied)

    def _advance(self) -> None:
        self._applied = self._feed.applied()
        if self._applied >= self._replay_to:
            self._caught_up.set()
        self._waiters.resolve((), self._applied)


def _backoff(failures: int) -> float:
    return BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS) - 1)]


def _done() -> Future[None]:
    future: Future[None] = Future()
    future.set_result(None)
    return future


# Bringing changes from the store into both live indexes.


COSTLY = 32
"""Passages that the model has to embed, between two commits of the indexes."""
CHEAP = 512
"""Memories whose vectors are given, between two commits of the indexes."""


class ChangeApplier:
    """Writes the present state of memories into the live indexes.

    One thing at a time: who holds `exclusive` knows that the live indexes stand still.
    """

    def __init__(self, feed: IndexFeed, vectors: IndexWriter, lexical: IndexWriter, entries: VectorEntries) -> None:
        self._feed = feed
        self._vectors = vectors
        self._lexical = lexical
        self._entries = entries
        self._ahead = EmbeddingPrefetcher(entries)
        self._lock = threading.RLock()
        self._beside = ThreadPoolExecutor(1, thread_name_prefix="lexical-writer")

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Keep the live indexes as they are while the context is open."""
        with self._lock:
            yield

    def close(self) -> None:
        """Give the threads back."""
        self._ahead.close()
        self._beside.shutdown()

    def apply(
        self, changes: Sequence[Change], *, should_stop: Callable[[], bool] | None = None
    ) -> Iterator[Sequence[Change]]:
        """Apply *changes* in batches; yield each batch once both indexes have committed it, for the store to mark.

        If *should_stop* returns True while a batch is being embedded, that batch and those after it are left pending.
        Without *should_stop* nothing is more urgent than these changes, and nothing is prefetched.

        Raises:
            BackendUnavailableError: An index or the embedder cannot be reached; batches yielded before are applied.
        """
        parts = list(self._parts(changes))
        with closing(self._embedded(parts, should_stop)) if self._vectors.is_current() else nullcontext(parts) as ready:
            for part in ready:
                with self._lock:
                    # Embedding may have taken long.
                    self._feed.require_lent()
                    self.write(part.rows, part.documents)
                yield part.changes

    def _embedded(
        self, parts: Sequence[ChangeBatch], should_stop: Callable[[], bool] | None
    ) -> Generator[ChangeBatch, None, None]:
        if should_stop is not None:
            yield from self._ahead.iterate(parts, should_stop)
            return
        for part in parts:
            if part.costly > 1:
                self._entries.embed(part.documents)
            yield part

    def write(self, rows: Sequence[int], documents: Sequence[Document]) -> None:
        """Write into both live indexes side by side; one that is not current is left to its rebuild."""
        beside = self._beside.submit(self._write, self._lexical, rows, documents)
        try:
            self._write(self._vectors, rows, documents)
        finally:
            beside.result()

    def write_words(self, rows: Sequence[int], documents: Sequence[Document]) -> None:
        """Write into the live index of words alone.

        Raises:
            BackendUnavailableError: It cannot be reached.
        """
        with self._lock:
            self._feed.require_lent()
            self._write(self._lexical, rows, documents)

    @staticmethod
    def _write(side: IndexWriter, rows: Sequence[int], documents: Sequence[Document]) -> None:
        if side.is_current():
            side.write(rows, documents)

    def _parts(self, changes: Sequence[Change]) -> Iterator[ChangeBatch]:
        rows = list(dict.fromkeys(change.row for change in changes))
        documents = {document.memory.row: document for document in self._feed.documents(rows)}
        costs = {row: self._entries.cost(document) for row, document in documents.items()}
        part: list[Change] = []
        weight = 0
        for change in changes:
            part.append(change)
            weight += max(1, costs.get(change.row, 0) * CHEAP // COSTLY)
            if weight >= CHEAP:
                yield _part(part, documents, costs)
                part, weight = [], 0
        if part:
            yield _part(part, documents, costs)


def _part(changes: Sequence[Change], documents: Mapping[int, Document], costs: Mapping[int, int]) -> ChangeBatch:
    rows = dict.fromkeys(change.row for change in changes)
    costly = sum(costs.get(row, 0) for row in rows)
    return ChangeBatch(changes, [documents[row] for row in rows if row in documents], costly)


# Bringing changes into the index of words alone, while that of meanings, or the model, is away.


PAGE = 128
"""Changes written between two commits of the index; so many are lent at once also where processes share a store."""


class LexicalCatchUp:
    """Keeps searches by words fresh when the changes cannot be applied whole.

    The changes stay pending: once the model is back they are applied from the first one on, words too, so that nothing
    depends on what was written ahead. Between processes on one store, only what is lent to this one is written: what
    another one has, it applies itself, and what it has applied whole must not be replaced by an earlier state, for
    nobody would write it again.
    """

    def __init__(self, feed: IndexFeed, change_applier: ChangeApplier) -> None:
        self._feed = feed
        self._change_applier = change_applier
        self._position = 0

    def catch_up(self, applied: int, *, should_stop: Callable[[], bool]) -> int:
        """Write what was changed after *applied*, and not here before; return up to which position words are found.

        Raises:
            BackendUnavailableError: The index of words is away, too.
        """
        position = max(self._position, applied)
        while not should_stop() and (changes := self._feed.since(position, limit=PAGE)):
            self._write(changes)
            position = self._position = changes[-1].position
        return position

    def _write(self, changes: Sequence[Change]) -> None:
        wanted = {change.position for change in changes}
        with self._feed.claim(sorted(wanted), limit=PAGE) as lent:
            rows = list(dict.fromkeys(change.row for change in lent if change.position in wanted))
            if rows:
                self._change_applier.write_words(rows, self._feed.documents(rows))


# Who waits for which change to be searchable.


class ApplyWaiters:
    """Futures of callers that wait until the indexes have reached a position, or hold certain changes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until: list[tuple[int, Future[None]]] = []
        self._exact: list[tuple[set[int], Future[None]]] = []

    def add_position(self, position: int) -> Future[None]:
        """Return a future that is done once every change up to *position* is applied."""
        future: Future[None] = Future()
        with self._lock:
            self._until.append((position, future))
        return future

    def add_changes(self, positions: Sequence[int]) -> Future[None]:
        """Return a future that is done once these changes are applied, whatever else waits."""
        future: Future[None] = Future()
        with self._lock:
            self._exact.append((set(positions), future))
        return future

    def awaited_positions(self, *, limit: int) -> list[int]:
        """Return positions that somebody waits for by name, oldest caller first, at most *limit*."""
        with self._lock:
            found: dict[int, None] = {}
            for positions, future in self._exact:
                if not future.cancelled():
                    found.update(dict.fromkeys(sorted(positions)))
                if len(found) >= limit:
                    break
        return list(found)[:limit]

    @property
    def has_waiters(self) -> bool:
        """Return whether there is a future that is not done."""
        with self._lock:
            return any(not future.cancelled() for _, future in (*self._exact, *self._until))

    def resolve(self, positions: Sequence[int], applied: int) -> None:
        """Answer everybody whose wait is over: *positions* were applied, and all up to *applied*."""
        done: list[Future[None]] = []
        with self._lock:
            for waiting, future in self._exact:
                waiting.difference_update(positions)
                if not waiting or max(waiting) <= applied:
                    waiting.clear()
                    done.append(future)
            self._exact = [pair for pair in self._exact if pair[0]]
            done.extend(future for position, future in self._until if position <= applied)
            self._until = [pair for pair in self._until if pair[0] > applied]
        for future in done:
            if future.set_running_or_notify_cancel():
                future.set_result(None)

    def fail(self, error: MemsvcError) -> None:
        """Tell everybody that what they wait for will not be."""
        with self._lock:
            left = [future for _, future in self._exact] + [future for _, future in self._until]
            self._exact, self._until = [], []
        for future in left:
            if future.set_running_or_notify_cancel():
                future.set_exception(error)
