"""Who waits for which change to be searchable."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future

from memsvc.domain.errors import MemsvcError


class Waiters:
    """Futures of callers that wait until the indexes have reached a position, or hold certain changes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until: list[tuple[int, Future[None]]] = []
        self._exact: list[tuple[set[int], Future[None]]] = []

    def until(self, position: int) -> Future[None]:
        """Return a future that is done once every change up to *position* is applied."""
        future: Future[None] = Future()
        with self._lock:
            self._until.append((position, future))
        return future

    def exactly(self, positions: Sequence[int]) -> Future[None]:
        """Return a future that is done once these changes are applied, whatever else waits."""
        future: Future[None] = Future()
        with self._lock:
            self._exact.append((set(positions), future))
        return future

    def wanted(self, *, limit: int) -> list[int]:
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
    def is_anybody_waiting(self) -> bool:
        """Return whether there is a future that is not done."""
        with self._lock:
            return any(not future.cancelled() for _, future in (*self._exact, *self._until))

    def settle(self, positions: Sequence[int], applied: int) -> None:
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
