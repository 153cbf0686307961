"""Counting reads without slowing them: noted in memory, written in batches."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from memsvc.engine.commit.group_committer import GroupCommitter

INTERVAL = timedelta(hours=1)
"""A memory's accesses count at most once within this time."""

_REMEMBERED = 100_000
"""How many memories' latest accesses are kept in mind; beyond, the oldest may count again too early."""


class AccessCounts:
    """Collects accesses until they are flushed. Safe to use from several threads.

    Nothing is lost but by a crash, if `flush` is called every few seconds, and once more before the committer closes.
    """

    def __init__(self, committer: GroupCommitter, now: Callable[[], datetime]) -> None:
        """Write through *committer*; *now* is the clock."""
        self._committer = committer
        self._now = now
        self._lock = threading.Lock()
        self._counted: OrderedDict[str, datetime] = OrderedDict()
        self._waiting: dict[str, tuple[int, datetime]] = {}

    def note(self, ids: Iterable[str]) -> None:
        """Count an access of each of these memories, unless one was counted within the last hour. Does no I/O."""
        now = self._now()
        with self._lock:
            for memory_id in ids:
                latest = self._counted.get(memory_id)
                if latest is None or now - latest >= INTERVAL:
                    self._counted[memory_id] = now
                    self._counted.move_to_end(memory_id)
                    self._add(memory_id, 1, now)
            while len(self._counted) > _REMEMBERED:
                self._counted.popitem(last=False)

    def flush(self) -> None:
        """Write what was noted; return once it is durable.

        Raises:
            BackendUnavailableError: The store cannot be reached; the counts are kept for the next time.
            BackendClosedError: The committer is closed; the counts are kept.
        """
        with self._lock:
            accesses, self._waiting = self._waiting, {}
        if not accesses:
            return
        is_written = False
        try:
            self._committer.submit(lambda transaction: transaction.add_accesses(accesses))
            is_written = True
        finally:
            if not is_written:
                with self._lock:
                    for memory_id, (count, time) in accesses.items():
                        self._add(memory_id, count, time)

    def _add(self, memory_id: str, count: int, time: datetime) -> None:
        before, latest = self._waiting.get(memory_id, (0, time))
        self._waiting[memory_id] = (before + count, max(latest, time))
