"""Search priority: bulk work yields to searches and single writes, because one interpreter lock serves all threads.

Measured with 25 searches a second during an import at full speed, where a search alone took 7 ms: when bulk work paused
only during a search, the median was 19 to 22 ms and the maximum 56 to 92 ms. With pauses between searches too they are
9 to 10 ms and 27 to 32 ms. That import takes a tenth to a fifth longer; an import without searches is as fast.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LONGEST_PAUSE_SECONDS = 0.03
"""Longest single pause of bulk work."""
LONGEST_WRITE_SECONDS = 0.3
"""Longest single pause of bulk work beside writes: about as long as they wait for a batch of 1 000 memories."""
SEARCH_SHARE, WRITE_SHARE = 1.0, 0.25
"""Time for which bulk work goes on after a pause, whatever is active then, as a share of the pause."""
LINGER_SECONDS = 0.1
"""Time after a search during which bulk work expects another one."""
PAUSE_RATIO = 2.0
"""Pause of bulk work while it expects a search, as a multiple of the processor time that it used."""
SHORTEST_PAUSE_SECONDS = 0.001
"""Shorter pauses accumulate, to avoid thousands of thread wake-ups a second."""


class SearchPriority:
    """Counts active searches and single writes; bulk work checks before each memory whether to yield.

    While a search is active bulk work waits, and then continues for as long as it waited, whatever searches arrive:
    endless searches halve its speed and no more. While a single write is under way it waits likewise, and then
    continues for a quarter of that time. For `LINGER_SECONDS` after a search it pauses `PAUSE_RATIO` times as long as
    it works; time that it waits for anything else counts as pause.
    """

    def __init__(
        self,
        *,
        now: Callable[[], float] = time.perf_counter,
        worked: Callable[[], float] = time.thread_time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Read the time from *now*, and the processor time of the calling thread from *worked*, both in seconds."""
        self._now, self._worked, self._sleep = now, worked, sleep
        self._changed = threading.Condition()
        self._searches = 0
        self._writes = 0
        self.waiting_count = 0
        """Number of threads that yield to searches or writes under way."""
        self._latest = -math.inf
        self._state = _ThreadState()

    @contextmanager
    def search(self) -> Iterator[None]:
        """Count a search as active while the context is open, and expect another one after it."""
        with self.call():
            try:
                yield
            finally:
                self._latest = self._now()

    @contextmanager
    def call(self) -> Iterator[None]:
        """Count a call that is no bulk work as a search while the context is open; none is expected after it."""
        with self._changed:
            self._searches += 1
        try:
            yield
        finally:
            with self._changed:
                self._searches -= 1
                if not self._searches:
                    self._changed.notify_all()

    def begin_write(self) -> None:
        """Count a write of few memories as under way, until `end_write`.

        Each statement of a transaction gives up the interpreter lock, and waits for it beside a busy thread: that of a
        batch, for which single writes waited, took 5 s instead of 0.4 s beside the reading of other batches.
        """
        with self._changed:
            self._writes += 1

    def end_write(self) -> None:
        """Count a write as done."""
        with self._changed:
            self._writes -= 1
            if not self._writes:
                self._changed.notify_all()

    @contextmanager
    def write(self) -> Iterator[None]:
        """Count a write as under way while the context is open, in a thread that does not yield."""
        self.begin_write()
        try:
            with self.without_yielding():
                yield
        finally:
            self.end_write()

    def yield_to_searches(self) -> None:
        """Return at once if no search or write is under way and no search is expected, otherwise after a pause.

        It takes at most `LONGEST_PAUSE_SECONDS`, beside writes `LONGEST_WRITE_SECONDS`.
        """
        if self._writes:
            self._wait(lambda: not self._writes, LONGEST_WRITE_SECONDS, WRITE_SHARE)
        if self._searches:
            self._wait(lambda: not self._searches, LONGEST_PAUSE_SECONDS, SEARCH_SHARE)
            return
        now = self._now()
        if now - self._latest < LINGER_SECONDS and now >= self._state.busy_until:
            self._pause(now)

    def _wait(self, is_over: Callable[[], bool], seconds: float, share: float) -> None:
        """Wait until *is_over* returns True, at most *seconds*; then do not yield for that *share* of the wait."""
        started = self._now()
        if started < self._state.busy_until:
            return
        with self._changed:
            self.waiting_count += 1
            self._changed.wait_for(is_over, seconds)
            self.waiting_count -= 1
        ended = self._now()
        self._state.busy_until = ended + share * (ended - started)

    def _pause(self, now: float) -> None:
        state, worked = self._state, self._worked()
        spent, passed = worked - state.worked, now - state.asked
        # A thread that did not check for longer was not at bulk work, or did not block a search.
        owed = state.owed + spent * PAUSE_RATIO - (passed - spent) if passed < LINGER_SECONDS else 0.0
        if owed >= SHORTEST_PAUSE_SECONDS:
            self._sleep(min(owed, LONGEST_PAUSE_SECONDS))
            now, owed = self._now(), 0.0
        state.asked, state.worked, state.owed = now, worked, max(0.0, owed)

    @contextmanager
    def without_yielding(self) -> Iterator[None]:
        """Do the work of a search in this thread: it does not yield while the context is open."""
        before = self._state.busy_until
        self._state.busy_until = math.inf
        try:
            yield
        finally:
            self._state.busy_until = before


class _ThreadState(threading.local):
    """The bulk work of one thread.

    Attributes:
        busy_until: Until then the thread does not yield.
        asked: The time of its last check while a search was expected.
        worked: The processor time used by then.
        owed: The pause owed by then.
    """

    busy_until = 0.0
    asked = 0.0
    worked = 0.0
    owed = 0.0
