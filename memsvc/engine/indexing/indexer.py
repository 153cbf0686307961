"""The indexer: one thread that follows the outbox, so that what is stored is found."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future

from memsvc.domain.errors import BackendClosedError, BackendUnavailableError, StoreMovedError
from memsvc.domain.index_entries import Change
from memsvc.engine.indexing.applying import ChangeApplier
from memsvc.engine.indexing.progress import Waiters
from memsvc.engine.indexing.words_ahead import LexicalCatchUp
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

    def __init__(self, feed: IndexFeed, applying: ChangeApplier, performance: LatencyStats) -> None:
        self._feed = feed
        self._applying = applying
        self._words = LexicalCatchUp(feed, applying)
        self._performance = performance
        self._waiters = Waiters()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._caught_up = threading.Event()
        self._applied = feed.applied()
        self._urgent_steps = 0
        self._replay_to = feed.head()
        self._thread = threading.Thread(target=self._run, name="indexer", daemon=True)

    @property
    def replaying(self) -> bool:
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

    def nudge(self) -> None:
        """Say that there are new changes."""
        self._wake.set()

    def reached(self, position: int) -> Future[None]:
        """Return a future that is done once every change up to *position* can be found.

        It fails with BackendClosedError when the indexer stops first, with StoreMovedError when the store is moved.
        """
        if position <= self._applied:
            return _done()
        return self._queued(self._waiters.until(position))

    def written(self, position: int, count: int = 1) -> Future[None]:
        """Return a future that is done once the *count* changes that end at *position* can be found.

        They are taken ahead of a backlog, so that a single write does not wait for an import.
        """
        if count <= 0 or position <= self._applied:
            return _done()
        return self._queued(self._waiters.exactly(range(position - count + 1, position + 1)))

    def _queued(self, future: Future[None]) -> Future[None]:
        if self._stopping.is_set():
            self._waiters.fail(BackendClosedError(_NAME))
        self._waiters.settle((), self._applied)
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
            if not self._waiters.is_anybody_waiting:
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
            reached = self._words.catch_up(self._applied, is_over=self._stopping.is_set)
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
        wanted = self._waiters.wanted(limit=URGENT)
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
        is_over = None if is_urgent else lambda: self._somebody_came(wanted)
        for part in self._applying.apply(changes, is_over=is_over):
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
            self._waiters.settle(sorted(self._feed.applied_among(missing)), self._applied)

    def _somebody_came(self, wanted: Sequence[int]) -> bool:
        """Return whether to leave the backlog at once: somebody waits by name that did not when it was begun."""
        return self._stopping.is_set() or any(position not in wanted for position in self._waiters.wanted(limit=URGENT))

    def _somebody_waits(self, part: Sequence[Change]) -> bool:
        """Return whether to leave the backlog for those who wait by name."""
        done = {change.position for change in part}
        return any(position not in done for position in self._waiters.wanted(limit=1))

    def _answer(self, part: Sequence[Change]) -> None:
        """Tell those who wait for *part*, before the store notes it: what is not noted is only applied again."""
        positions = [change.position for change in part]
        if positions == list(range(self._applied + 1, self._applied + 1 + len(positions))):
            self._applied = positions[-1]
        self._waiters.settle(positions, self._applied)

    def _advance(self) -> None:
        self._applied = self._feed.applied()
        if self._applied >= self._replay_to:
            self._caught_up.set()
        self._waiters.settle((), self._applied)


def _backoff(failures: int) -> float:
    return BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS) - 1)]


def _done() -> Future[None]:
    future: Future[None] = Future()
    future.set_result(None)
    return future
