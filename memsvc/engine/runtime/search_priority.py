"""Letting searches go first: one interpreter lock serves all threads, and bulk work can wait a little for it.

Measured with 25 searches a second beside an import at full speed, where one alone took 7 ms: as long as bulk work stood
aside only while a search was under way, half of them took 19 to 22 ms and the longest 56 to 92; since it rests between
them too, 9 to 10 and 27 to 32 ms. That import then takes a tenth to a fifth longer; one without searches is as quick.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE_SECONDS = 0.03
"""How long bulk work stands aside, or rests, at a time."""
LINGER_SECONDS = 0.1
"""How long after a search bulk work expects another one."""
REST = 2.0
"""How long bulk work rests while it expects a search, as a multiple of the processor time that it took."""
LEAST_REST_SECONDS = 0.001
"""A shorter rest is left owing: the system is not asked to wake a thread up thousands of times a second."""


class _Own(threading.local):
    """What a thread remembers of its bulk work.

    Attributes:
        busy_until: Until then it stands aside for nobody.
        asked: When it last asked while a search was expected.
        worked: What processor time it had taken by then.
        owed: How long it had to rest by then.
    """

    busy_until = 0.0
    asked = 0.0
    worked = 0.0
    owed = 0.0


class SearchPriority:
    """Counts the searches under way; bulk work asks before each memory whether to stand aside.

    While a search is under way bulk work waits, and then goes on for as long as it waited, whatever searches come: so
    searches that never end halve its speed and no more. For a moment after a search it expects another one, and rests
    `REST` times as long as it works, since what it has begun is in that one's way; whatever else it waits for meanwhile
    counts as rest.
    """

    def __init__(
        self,
        *,
        now: Callable[[], float] = time.perf_counter,
        worked: Callable[[], float] = time.thread_time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Take the time from *now*, and the processor time of the calling thread from *worked*, both in seconds."""
        self._now, self._worked, self._sleep = now, worked, sleep
        self._changed = threading.Condition()
        self._searches = 0
        self._latest = -math.inf
        self._own = _Own()

    @contextmanager
    def search(self) -> Iterator[None]:
        """Be under way while the context is open."""
        with self._changed:
            self._searches += 1
        try:
            yield
        finally:
            with self._changed:
                self._searches -= 1
                self._latest = self._now()
                if not self._searches:
                    self._changed.notify_all()

    def yield_to_searches(self) -> None:
        """Return at once when no search is under way or expected, or else after at most `PATIENCE_SECONDS`."""
        if self._searches:
            self._stand_aside()
            return
        now = self._now()
        if now - self._latest < LINGER_SECONDS and now >= self._own.busy_until:
            self._rest(now)

    def _stand_aside(self) -> None:
        started = self._now()
        if started < self._own.busy_until:
            return
        with self._changed:
            self._changed.wait_for(lambda: not self._searches, PATIENCE_SECONDS)
        ended = self._now()
        self._own.busy_until = ended + (ended - started)

    def _rest(self, now: float) -> None:
        own, worked = self._own, self._worked()
        spent, passed = worked - own.worked, now - own.asked
        # Who asks again only now was not at bulk work, or not in anybody's way.
        owed = own.owed + spent * REST - (passed - spent) if passed < LINGER_SECONDS else 0.0
        if owed >= LEAST_REST_SECONDS:
            self._sleep(min(owed, PATIENCE_SECONDS))
            now, owed = self._now(), 0.0
        own.asked, own.worked, own.owed = now, worked, max(0.0, owed)

    @contextmanager
    def without_yielding(self) -> Iterator[None]:
        """Do the work of a search in this thread: while the context is open it stands aside for nobody."""
        before = self._own.busy_until
        self._own.busy_until = math.inf
        try:
            yield
        finally:
            self._own.busy_until = before


SEARCH_PRIORITY = SearchPriority()
"""One for the process, as the interpreter lock is."""
