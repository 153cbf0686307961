"""Priority of queries over passages for the processors: queries run at once, passages on what queries leave free."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from memsvc.domain.errors import BackendClosedError

PATIENCE_SECONDS = 0.05
"""How long a passage yields to queries before it continues, so that a stream of queries starves no import."""
_QUOTA = Path("/sys/fs/cgroup/cpu.max")


class QueryPriority:
    """Counter of running calls that lets passages wait for queries.

    A query starts at once. A passage starts when fewer than *lanes* passages run and, for at most `PATIENCE_SECONDS`,
    when the queries under way leave it a lane.
    """

    def __init__(self, *, lanes: int, query_lanes: int | None = None, name: str) -> None:
        """Let *lanes* passages run at once, of which a query takes *query_lanes*, by default all.

        *name* is the backend's, for errors.
        """
        self._lanes = threading.Semaphore(lanes)
        self._lane_count = lanes
        self._query_lanes = lanes if query_lanes is None else query_lanes
        self._name = name
        self._changed = threading.Condition()
        self._queries = 0
        self._passages = 0
        self._paused = 0
        self._closed = False

    @contextmanager
    def query(self) -> Iterator[int]:
        """Be a query under way; the value is the number of queries under way, this one included.

        Raises:
            BackendClosedError: `close` was called.
        """
        with self._changed:
            self.check_open()
            self._queries += 1
            count = self._queries
        try:
            yield count
        finally:
            with self._changed:
                self._queries -= 1
                self._changed.notify_all()

    @contextmanager
    def passage(self) -> Iterator[Callable[[], None]]:
        """Be a passage under way, after yielding to queries; the value yields to them again, in between.

        Raises:
            BackendClosedError: `close` was called; also in between.
        """
        with self._lanes:
            with self._changed:
                self._await_lane()
                self._passages += 1
            try:
                yield self._pause
            finally:
                with self._changed:
                    self._passages -= 1
                    self._changed.notify_all()

    def _pause(self) -> None:
        with self._changed:
            self._paused += 1
            # Another passage that is paused may go on.
            self._changed.notify_all()
            try:
                self._await_lane()
            finally:
                self._paused -= 1

    def _await_lane(self) -> None:
        self._changed.wait_for(lambda: self._closed or self._has_lane(), PATIENCE_SECONDS)
        self.check_open()

    def _has_lane(self) -> bool:
        taken = self._queries * self._query_lanes + self._passages - self._paused
        return not self._queries or taken < self._lane_count

    def check_open(self) -> None:
        """Return, or raise BackendClosedError when `close` was called."""
        if self._closed:
            raise BackendClosedError(self._name)

    def close(self) -> None:
        """Refuse new calls, and return when the running ones have ended."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._queries and not self._passages)


# Turns: calls that embed many texts share the threads fairly, so that a short call does not wait for a long one.


Job: TypeAlias = Callable[[], None]


class FairBatch:
    """The jobs of one call on a pool that other calls use, too: at most *width* of them wait there at a time.

    A pool serves in the order of submission, so calls that submit one job for each that is done take turns.
    """

    def __init__(self, pool: Executor, jobs: Iterable[Job], *, width: int) -> None:
        self._pool = pool
        self._jobs = deque(jobs)
        self._width = width
        self._lock = threading.Lock()
        self._under_way = 0
        self._error: BaseException | None = None
        self._end: Future[None] = Future()

    def run(self) -> None:
        """Run every job; return when all are done.

        Raises:
            RuntimeError: The pool is shut down. Any error of a job, the first one, once none is under way; those
                not begun by then are dropped.
        """
        self._under_way = self._width
        for _ in range(self._width):
            self._go_on()
        self._end.result()

    def _go_on(self) -> None:
        """Give the next job to the pool, or be one less."""
        with self._lock:
            job = self._jobs.popleft() if self._jobs and not self._error else None
        try:
            if job is not None:
                self._pool.submit(job).add_done_callback(self._on_done)
                return
        except RuntimeError as error:
            self._note(error)
        with self._lock:
            self._under_way -= 1
            is_last = not self._under_way
        if is_last:
            self._finish()

    def _on_done(self, future: Future[None]) -> None:
        if error := future.exception():
            self._note(error)
        self._go_on()

    def _note(self, error: BaseException) -> None:
        with self._lock:
            self._error = self._error or error

    def _finish(self) -> None:
        if self._error is None:
            self._end.set_result(None)
        else:
            self._end.set_exception(self._error)


# How many processors this process may use.


def usable_processors() -> int:
    """Return the number of processors, by affinity and by the container's quota, at least 1.

    More threads than the quota allows would be stopped in the middle of a call, all at once.
    """
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(count, _quota(count)))


def _quota(unlimited: int) -> int:
    """Return the quota of the control group (version 2), rounded up, or *unlimited*."""
    try:
        allowed, period = _QUOTA.read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return unlimited
    return unlimited if allowed == "max" else -(-int(allowed) // int(period))
