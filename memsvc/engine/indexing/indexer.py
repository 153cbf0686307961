"""The indexer: one thread that follows the outbox and applies changes to the indexes."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext

from memsvc.domain.errors import (
    BackendClosedError,
    BackendUnavailableError,
    InvalidRequestError,
    MemsvcError,
    StoreMovedError,
    Violation,
)
from memsvc.domain.index_entries import Change, Document
from memsvc.engine.commit.group_committer import FEW
from memsvc.engine.indexing.index_writers import IndexWriter
from memsvc.engine.indexing.passage_tokens import PassageTokenWriter
from memsvc.engine.indexing.vector_entries import (
    LONG_CHUNKS,
    EmbeddingBatch,
    EmbeddingPrefetcher,
    LongMemoryEmbedder,
    VectorEntries,
)
from memsvc.engine.runtime.latency_stats import LatencyStats
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.ports.change_feed import IndexFeed

GROUP = 512
"""Changes read from the outbox at a time."""
URGENT = 64
"""Awaited changes applied at a time, ahead of the backlog."""
URGENT_STEPS = 8
"""Urgent steps in a row before the backlog gets a turn, so that awaited writes cannot starve it."""
FAIR_SECONDS = 1.0
"""Time of a backlog between two turns of all users."""
FAIR_TURN = 64
"""Changes of such a turn."""
NEWEST = 20_000
"""Pending changes that are looked at for it: 20 ms."""
CONTENDED_SECONDS = 2.0
"""Time after a change that a caller waits for, during which another one is expected.

Long memories then leave it a lane of the embedder; after callers who wait for few changes a turn is short.
"""
BACKLOG_TURN = 64
"""Changes read in a short turn, after which it is looked for changes that a caller waits for."""
GATHER_SECONDS = 0.1
"""Time between two steps while changes come fast and no caller waits for one: each step has costs of its own."""
GATHERED = 4
"""Changes of a step from which on they come fast."""
IDLE_SECONDS = 1.0
"""Sleep without notifications; with several processes on a store, the maximum delay of a change."""
SHORT_IDLE_SECONDS = 0.02
"""Sleep while callers wait for changes that another process applies, and before the store settles applied marks.

A writer who returns sooner does not wait for the settling.
"""
MOVED_SECONDS = 1.0
"""Interval of checks whether a moved store is back."""
_NAME = "indexer"
_NEWER = (
    "Is newer than all that is stored: an earlier backup was restored since, or it is of another service. Leave it out."
)
BACKOFF_SECONDS = (0.1, 0.5, 1.0, 2.0)

log = logging.getLogger(__name__)
COSTLY = 32
"""Short passages to embed between two commits of the indexes; a long one counts as several."""
CHEAP = 512
"""Memories with given vectors between two commits of the indexes."""
PAGE = 128
"""Changes between two commits of the lexical index, and claimed at once where processes share a store."""


class Indexer:
    """Follower of the outbox. One commit of the indexes serves all waiting writers (group commit)."""

    def __init__(self, feed: IndexFeed, change_applier: ChangeApplier, performance: LatencyStats) -> None:
        self._feed = feed
        self._change_applier = change_applier
        self._lexical_catch_up = LexicalCatchUp(feed, change_applier)
        self._performance = performance
        self._waiters = ApplyWaiters()
        self._wake = threading.Event()
        self._is_awaited = threading.Event()
        self._stopping = threading.Event()
        self._caught_up = threading.Event()
        self._applied = feed.applied_position()
        self._urgent_steps = 0
        self._is_postponed = False
        self._replay_to = feed.head_position()
        self._urgent_time = -math.inf
        self._few_time = -math.inf
        self._fair_time = -math.inf
        self._thread = threading.Thread(target=self._run, name="indexer", daemon=True)
        change_applier.long_memories.connect(self.notify, self._is_contended)

    @property
    def is_replaying(self) -> bool:
        """Return whether changes of an earlier run of the process are pending."""
        return not self._caught_up.is_set()

    @property
    def applied_position(self) -> int:
        """Return the position up to which every change is applied, as last read."""
        return self._applied

    @property
    def pending_count(self) -> int:
        """Return the number of pending changes."""
        return self._feed.pending_count()

    @property
    def is_postponed(self) -> bool:
        """Return whether changes are pending because an index or the embedder is unavailable."""
        return self._is_postponed

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Finish the batch under way and stop; the rest is replayed at the next start."""
        self._stopping.set()
        self._wake.set()
        self._is_awaited.set()
        if self._thread.ident is not None:
            self._thread.join()
            self._settle()
        self._waiters.fail(BackendClosedError(_NAME))

    def _settle(self) -> None:
        try:
            self._feed.settle()
        except (BackendClosedError, BackendUnavailableError, StoreMovedError) as error:
            log.info(
                "applied marks were not stored; the changes are applied again at the next start: %s", error.message
            )

    def notify(self) -> None:
        """Wake the thread for new changes."""
        self._wake.set()

    def when_reached(self, position: int, owner: str = "") -> Future[None]:
        """Return a future that resolves once every change up to *position* is searchable, or each of *owner* is.

        Those of an owner are applied ahead of the backlog, unless they are many. It fails with BackendClosedError if
        the indexer stops first, with StoreMovedError if the store is moved; of an owner, with InvalidRequestError if
        *position* is beyond all changes of the store.
        """
        if position <= self._applied:
            return _done_future()
        return self._enqueue(self._waiters.add_position(position, owner))

    def when_applied(self, position: int, count: int = 1) -> Future[None]:
        """Return a future that resolves once the *count* changes that end at *position* are searchable.

        They are applied ahead of the backlog, so that a single write does not wait for an import.
        """
        if count <= 0 or position <= self._applied:
            return _done_future()
        return self._enqueue(self._waiters.add_changes(range(position - count + 1, position + 1)))

    def _enqueue(self, future: Future[None]) -> Future[None]:
        if self._stopping.is_set():
            self._waiters.fail(BackendClosedError(_NAME))
        self._waiters.resolve((), self._applied)
        self._wake.set()
        self._is_awaited.set()
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
                self._wait_for_store(moved)
                continue
            except BackendUnavailableError as error:
                self._apply_lexical_only(error, failures)
                failures += 1
                continue
            except Exception:
                log.exception("indexing failed and is retried")
                self._stopping.wait(_backoff(failures))
                failures += 1
                continue
            if failures:
                log.info("indexing resumed")
            failures = 0
            self._is_postponed = False

    def _idle(self) -> None:
        """Wait for a notification; if none comes soon, let the store settle applied marks."""
        if not self._wake.wait(SHORT_IDLE_SECONDS):
            self._feed.settle()
            if not self._waiters.has_waiters:
                self._wake.wait(IDLE_SECONDS)
        self._wake.clear()

    def _apply_lexical_only(self, error: BackendUnavailableError, failures: int) -> None:
        """Keep the lexical index up to date until the next attempt."""
        self._is_postponed = True
        level = logging.DEBUG if failures else logging.WARNING
        log.log(level, "indexing was postponed, the lexical index is updated alone: %s", error.message)
        until = time.monotonic() + _backoff(failures)
        while not self._stopping.is_set() and (left := until - time.monotonic()) > 0:
            try:
                self._catch_up_lexical()
            except Exception:
                # An error here would end the thread.
                log.exception("updating the lexical index alone failed and is retried")
                self._stopping.wait(left)
                return
            self._wake.wait(left)
            self._wake.clear()

    def _catch_up_lexical(self) -> None:
        try:
            reached = self._lexical_catch_up.catch_up(self._applied, should_stop=self._stopping.is_set)
        except MemsvcError as error:
            log.debug("the lexical index was not updated: %s", error.message)
            return
        if reached >= self._replay_to:
            # Searches can be answered, at least lexically; they report missing retrievers themselves.
            self._caught_up.set()

    def _wait_for_store(self, moved: StoreMovedError) -> None:
        """Fail waiting callers; the move may be undone, so check again later."""
        self._waiters.fail(moved)
        self._stopping.wait(MOVED_SECONDS)

    def _is_contended(self) -> bool:
        """Return whether callers waited for a change just now."""
        return time.monotonic() - self._urgent_time < CONTENDED_SECONDS

    def _awaited_positions(self, limit: int, *, most: int | None = None) -> list[int]:
        """Return positions that callers wait for, but for those of memories that are being embedded.

        They are those of callers who wait for at most *most* changes; None: of all callers.
        """
        without = self._change_applier.long_memories.positions
        return self._waiters.awaited_positions(limit=limit, without=without, most=most)

    def _narrow_waits(self) -> None:
        """Find the changes of callers who wait for those of one owner: others may wait for a long import."""
        for position, owner, future in self._waiters.owned():
            if position > self._feed.head_position():
                self._waiters.refuse(future, InvalidRequestError([Violation("consistency_token", _NEWER)]))
                continue
            pending = self._feed.pending_of(owner, up_to=position, limit=URGENT + 1)
            self._waiters.narrow(position, pending if len(pending) <= URGENT else None, future)
            self._waiters.resolve((), self._applied)

    def _gather(self, begun: float, count: int) -> None:
        """Wait for more changes after a step of *count* that *begun* at a time, until a caller waits for one."""
        if GATHERED <= count < GROUP and not self._waiters.has_waiters:
            self._is_awaited.wait(max(0.0, begun + GATHER_SECONDS - time.monotonic()))

    def _step(self) -> bool:
        begun = time.monotonic()
        self._is_awaited.clear()
        self._narrow_waits()
        few = self._awaited_positions(URGENT, most=FEW)
        if few:
            self._few_time = begun
        limit = BACKLOG_TURN if begun - self._few_time < CONTENDED_SECONDS else GROUP
        wanted = few or self._awaited_positions(limit)
        if wanted and self._urgent_steps >= URGENT_STEPS:
            return self._step_backlog()
        self._urgent_steps = self._urgent_steps + 1 if wanted else 0
        if wanted:
            self._urgent_time = time.monotonic()
        long = self._change_applier.long_memories.positions
        with self._feed.claim(wanted, limit=limit, without=long) as changes:
            self._resolve_applied(wanted, changes)
            if not changes:
                self._advance()
                self._caught_up.set()
                return False
            with self._change_applier.search_priority.write() if few else nullcontext():
                self._apply(changes, wanted, is_urgent=bool(few))
        if not few and len(changes) == limit:
            self._step_fairly()
        self._gather(begun, len(changes))
        return True

    def _step_backlog(self) -> bool:
        """Apply the oldest changes whose vectors are ready; embed the others in parallel."""
        self._urgent_steps = 0
        with self._feed.claim((), limit=BACKLOG_TURN, without=self._change_applier.long_memories.positions) as changes:
            self._apply(changes, (), is_urgent=False)
        return True

    def _step_fairly(self) -> None:
        """Apply new changes of every user, so that no user waits for the import of another."""
        if time.monotonic() - self._fair_time < FAIR_SECONDS:
            return
        long = self._change_applier.long_memories.positions
        if positions := self._feed.turns(newest=NEWEST, limit=FAIR_TURN):
            with self._feed.claim(positions, limit=FAIR_TURN, without=long) as changes:
                self._apply(changes, (), is_urgent=False)
        self._fair_time = time.monotonic()

    def _apply(self, changes: Sequence[Change], wanted: Sequence[int], *, is_urgent: bool) -> None:
        """Apply *changes* in parts; stop for callers who wait for more urgent ones, unless they are urgent.

        Args:
            changes: The changes.
            wanted: The positions that callers waited for when the step began; none: the changes are the backlog.
            is_urgent: The callers wait for few changes.
        """
        started = time.perf_counter()
        should_stop = None if is_urgent else lambda: self._has_new_waiters(wanted)
        for part in self._change_applier.apply(changes, should_stop=should_stop):
            self._resolve(part)
            self._feed.mark_applied(part)
            self._advance()
            self._performance.record("Apply", "engine", time.perf_counter() - started)
            started = time.perf_counter()
            is_turn_over = len(changes) == GROUP and time.monotonic() - self._fair_time > FAIR_SECONDS
            if self._stopping.is_set() or self._has_waiters(part, wanted) or is_turn_over:
                break

    def _resolve_applied(self, wanted: Sequence[int], changes: Sequence[Change]) -> None:
        """Resolve callers of changes that another process, or an earlier step, has applied."""
        taken = {change.position for change in changes}
        if missing := [position for position in wanted if position not in taken]:
            self._waiters.resolve(sorted(self._feed.applied_among(missing)), self._applied)

    def _has_new_waiters(self, wanted: Sequence[int]) -> bool:
        """Return whether to leave a step at once: a caller waits for more urgent changes than those of the step."""
        if self._stopping.is_set():
            return True
        most = FEW if wanted else None
        return any(position not in wanted for position in self._awaited_positions(URGENT, most=most))

    def _has_waiters(self, part: Sequence[Change], wanted: Sequence[int]) -> bool:
        """Return whether to leave a step after a part of it, for callers who wait for more urgent changes."""
        done = {change.position for change in part}
        return any(position not in done for position in self._awaited_positions(1, most=FEW if wanted else None))

    def _resolve(self, part: Sequence[Change]) -> None:
        """Resolve the callers of *part* before the store marks it; an unmarked change is only applied again."""
        positions = [change.position for change in part]
        if positions == list(range(self._applied + 1, self._applied + 1 + len(positions))):
            self._applied = positions[-1]
        self._waiters.resolve(positions, self._applied)

    def _advance(self) -> None:
        self._applied = self._feed.applied_position()
        if self._applied >= self._replay_to:
            self._caught_up.set()
        self._waiters.resolve((), self._applied)


def _backoff(failures: int) -> float:
    return BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS) - 1)]


def _done_future() -> Future[None]:
    future: Future[None] = Future()
    future.set_result(None)
    return future


class ChangeApplier:
    """Writes the current state of changed memories into the live indexes.

    Serialised: while a caller holds `exclusive`, the live indexes do not change.
    """

    def __init__(
        self,
        feed: IndexFeed,
        vectors: IndexWriter,
        lexical: IndexWriter,
        entries: VectorEntries,
        tokens: PassageTokenWriter | None = None,
    ) -> None:
        """Write to *vectors* and *lexical*, and the tokens of passages by *tokens* if searches compare them."""
        self._feed = feed
        self._tokens = tokens
        self._vectors = vectors
        self._lexical = lexical
        self._entries = entries
        self._prefetcher = EmbeddingPrefetcher(entries)
        self.long_memories = LongMemoryEmbedder(entries, feed)
        self._lock = threading.RLock()
        self._unmarked: list[Change] = []
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="lexical-writer")

    @property
    def search_priority(self) -> SearchPriority:
        """Return the priority to which writes of the indexes yield unless they are urgent."""
        return self._entries.search_priority

    @property
    def lexical_generation(self) -> int:
        """Return the number of the live generation of the lexical index."""
        return self._lexical.generation()

    @contextmanager
    def exclusive(self) -> Iterator[Sequence[Change]]:
        """Prevent changes of the live indexes while the context is open.

        The value are changes that were written to them by this process, and that the store may not have marked yet.
        """
        with self._lock:
            yield self._unmarked

    def close(self) -> None:
        """Shut down the threads."""
        self.long_memories.close()
        self._prefetcher.close()
        self._executor.shutdown()

    def apply(
        self, changes: Sequence[Change], *, should_stop: Callable[[], bool] | None = None
    ) -> Iterator[Sequence[Change]]:
        """Apply *changes* in batches; yield each batch once both indexes have committed it, for the store to mark.

        If *should_stop* returns True while a batch is being embedded, that batch and those after it are left pending.
        Without *should_stop* nothing is more urgent than these changes, and nothing is prefetched. Long memories are
        left pending until they are embedded; among the others those that are embedded soonest come first.

        Raises:
            BackendUnavailableError: An index or the embedder cannot be reached; batches yielded before are applied.
        """
        embeds = self._vectors.is_current()
        parts = list(self._parts(self._ready(changes) if embeds else changes))
        with closing(self._embed_parts(parts, should_stop)) if embeds else nullcontext(parts) as ready:
            for part in ready:
                with self._lock, self._claimed(part.changes):
                    self.write(part.rows, part.documents, is_urgent=should_stop is None)
                    self._unmarked = [*part.changes]
                self.long_memories.drop(part.rows)
                try:
                    yield part.changes
                finally:
                    with self._lock:
                        self._unmarked = []

    def _embed_parts(
        self, parts: Sequence[EmbeddingBatch], should_stop: Callable[[], bool] | None
    ) -> Generator[EmbeddingBatch, None, None]:
        if should_stop is not None:
            yield from self._prefetcher.iterate(parts, should_stop)
            return
        for part in parts:
            if part.costly > 1:
                self._entries.embed(part.documents)
            yield part

    def write(self, rows: Sequence[int], documents: Sequence[Document], *, is_urgent: bool = False) -> None:
        """Write into both live indexes in parallel; one that is not current is left to its rebuild.

        What is urgent yields to no search.
        """

        def write_lexical() -> None:
            with self.search_priority.without_yielding() if is_urgent else nullcontext():
                self._write(self._lexical, rows, documents)

        lexical_write = self._executor.submit(write_lexical)
        try:
            self._write(self._vectors, rows, documents)
            if self._tokens is not None:
                self._tokens.update(rows, documents)
        finally:
            lexical_write.result()

    def write_lexical(self, changes: Sequence[Change]) -> None:
        """Apply claimed *changes* to the live lexical index only.

        Raises:
            BackendUnavailableError: The lexical index cannot be reached.
        """
        rows = list(dict.fromkeys(change.row for change in changes))
        documents = self._feed.documents(rows)
        with self._lock, self._claimed(changes):
            self._write(self._lexical, rows, documents)

    @contextmanager
    def _claimed(self, changes: Sequence[Change]) -> Iterator[None]:
        """Require the claim of *changes* before a write of them, and confirm it after.

        Embedding may take longer than the claim lasts; and a process that is stopped before the write, or whose write
        is late, may replace the later state that another process has written since.
        """
        self._feed.require_claim()
        try:
            yield
        finally:
            self._feed.confirm_claim(changes)

    @staticmethod
    def _write(side: IndexWriter, rows: Sequence[int], documents: Sequence[Document]) -> None:
        if side.is_current():
            side.write(rows, documents)

    def _ready(self, changes: Sequence[Change]) -> list[Change]:
        """Return the changes whose memories are short, gone, or embedded; the others are embedded in the background."""
        rows = list(dict.fromkeys(change.row for change in changes))
        owners = self._feed.long_memories(rows, chunks=LONG_CHUNKS)
        self.long_memories.drop(row for row in rows if row not in owners)
        return [
            change
            for change in changes
            if change.row not in owners or self.long_memories.is_ready(change.row, owners[change.row], change)
        ]

    def _parts(self, changes: Sequence[Change]) -> Iterator[EmbeddingBatch]:
        rows = list(dict.fromkeys(change.row for change in changes))
        documents = {document.memory.row: document for document in self._feed.documents(rows)}
        costs = {row: self._entries.cost(document) for row, document in documents.items()}
        part: list[Change] = []
        weight = 0
        for change in sorted(changes, key=lambda change: costs.get(change.row, 0) > COSTLY):
            part.append(change)
            weight += max(1, costs.get(change.row, 0) * CHEAP // COSTLY)
            if weight >= CHEAP:
                yield _part(part, documents, costs)
                part, weight = [], 0
        if part:
            yield _part(part, documents, costs)


def _part(changes: Sequence[Change], documents: Mapping[int, Document], costs: Mapping[int, int]) -> EmbeddingBatch:
    rows = dict.fromkeys(change.row for change in changes)
    costly = sum(costs.get(row, 0) for row in rows)
    return EmbeddingBatch(changes, [documents[row] for row in rows if row in documents], costly)


class LexicalCatchUp:
    """Updates of the lexical index while the vector index or the model is unavailable.

    The changes stay pending. Once the model is back all are applied again from the first one on, to both indexes, so
    nothing depends on this catch-up. Where processes share a store, only changes claimed by this process are written: a
    change that another process has applied must not be replaced by an earlier state, because no process would write it
    again.
    """

    def __init__(self, feed: IndexFeed, change_applier: ChangeApplier) -> None:
        self._feed = feed
        self._change_applier = change_applier
        self._position = 0
        self._generation = 0

    def catch_up(self, applied: int, *, should_stop: Callable[[], bool]) -> int:
        """Write changes after *applied* that were not written here before; return the position that is searchable.

        Raises:
            BackendUnavailableError: The lexical index cannot be reached either.
        """
        generation = self._change_applier.lexical_generation
        if generation != self._generation:
            # It may have been built before some of the changes that were written here, which are pending.
            self._generation, self._position = generation, 0
        position = max(self._position, applied)
        while not should_stop() and (changes := self._feed.changes_after(position, limit=PAGE)):
            self._write(changes)
            position = self._position = changes[-1].position
        return position

    def _write(self, changes: Sequence[Change]) -> None:
        wanted = {change.position for change in changes}
        with self._feed.claim(sorted(wanted), limit=PAGE) as claimed:
            if own := [change for change in claimed if change.position in wanted]:
                self._change_applier.write_lexical(own)


class ApplyWaiters:
    """Futures of callers that wait until a position is applied, or certain changes are."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until: list[tuple[int, Future[None]]] = []
        self._owned: list[tuple[int, str, Future[None]]] = []
        self._exact: list[tuple[set[int], Future[None]]] = []

    def add_position(self, position: int, owner: str = "") -> Future[None]:
        """Return a future that resolves once every change up to *position* is applied, or each of *owner* is."""
        future = self._new_future()
        with self._lock:
            if owner:
                self._owned.append((position, owner, future))
            else:
                self._until.append((position, future))
        return future

    def owned(self) -> list[tuple[int, str, Future[None]]]:
        """Return the futures of those who wait for changes of an owner; `narrow` moves each of them on."""
        with self._lock:
            return list(self._owned)

    def narrow(self, position: int, changes: Sequence[int] | None, future: Future[None]) -> None:
        """Resolve *future* once *changes* are applied, or, if they are None, every change up to *position*."""
        with self._lock:
            others = [one for one in self._owned if one[2] is not future]
            if len(others) == len(self._owned):
                return  # It was resolved since.
            self._owned = others
            if changes is None:
                self._until.append((position, future))
            else:
                self._exact.append((set(changes), future))

    def refuse(self, future: Future[None], error: MemsvcError) -> None:
        """Fail one of the futures of those who wait for changes of an owner."""
        with self._lock:
            others = [one for one in self._owned if one[2] is not future]
            is_waiting = len(others) < len(self._owned)
            self._owned = others
        if is_waiting and future.set_running_or_notify_cancel():
            future.set_exception(error)

    def add_changes(self, positions: Sequence[int]) -> Future[None]:
        """Return a future that resolves once these changes are applied, whatever else is pending."""
        future = self._new_future()
        with self._lock:
            self._exact.append((set(positions), future))
        return future

    def _new_future(self) -> Future[None]:
        future: Future[None] = Future()
        future.add_done_callback(self._drop)
        return future

    def _drop(self, future: Future[None]) -> None:
        """Forget a future whose caller waits no more: while the indexes are away there is one for each call."""
        if future.cancelled():
            with self._lock:
                self._until = [one for one in self._until if one[1] is not future]
                self._owned = [one for one in self._owned if one[2] is not future]
                self._exact = [one for one in self._exact if one[1] is not future]

    def awaited_positions(
        self, *, limit: int, without: AbstractSet[int] = frozenset(), most: int | None = None
    ) -> list[int]:
        """Return positions that callers wait for, oldest caller first.

        Args:
            limit: The most positions.
            without: Positions to leave out.
            most: The most changes that a caller may still wait for, others are left out; None: any number.
        """
        with self._lock:
            found: dict[int, None] = {}
            for positions, future in self._exact:
                if not future.cancelled() and (most is None or len(positions) <= most):
                    found.update(dict.fromkeys(sorted(positions - without)))
                if len(found) >= limit:
                    break
        return list(found)[:limit]

    @property
    def has_waiters(self) -> bool:
        """Return whether any future is unresolved."""
        with self._lock:
            return bool(self._owned) or any(not future.cancelled() for _, future in (*self._exact, *self._until))

    def resolve(self, positions: Sequence[int], applied: int) -> None:
        """Resolve the futures of applied changes: *positions*, and all up to *applied*."""
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
            done.extend(future for position, _, future in self._owned if position <= applied)
            self._owned = [one for one in self._owned if one[0] > applied]
        for future in done:
            if future.set_running_or_notify_cancel():
                future.set_result(None)

    def fail(self, error: MemsvcError) -> None:
        """Fail all futures."""
        with self._lock:
            left = [future for _, future in (*self._exact, *self._until)] + [future for *_, future in self._owned]
            self._exact, self._until, self._owned = [], [], []
        for future in left:
            if future.set_running_or_notify_cancel():
                future.set_exception(error)
