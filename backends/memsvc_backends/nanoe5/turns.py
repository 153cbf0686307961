"""Turns: calls that embed many texts share the threads fairly, so that a short call does not wait for a long one."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from typing import TypeAlias

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
                self._pool.submit(job).add_done_callback(self._done)
                return
        except RuntimeError as error:
            self._note(error)
        with self._lock:
            self._under_way -= 1
            is_last = not self._under_way
        if is_last:
            self._finish()

    def _done(self, future: Future[None]) -> None:
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
