"""The queue of queries that wait to be embedded: turns of users, and a thread that long queries do not take."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from memsvc.domain.errors import LimitExceededError
from memsvc.engine.search.retrieval import QUEUED_QUERIES, QueryQueue
from tests.support.thread_limit import no_new_threads
from tests.support.until import PATIENCE_SECONDS, until

ADA, BEN, EVE = "ada", "ben", "eve"


class Bench:
    """Queries that wait for a gate, and the order in which they were embedded."""

    def __init__(self, threads: int) -> None:
        self.queue = QueryQueue(threads)
        self.gate = threading.Event()
        self.order: list[str] = []

    def embedding(self, name: str, *, waits: bool = True) -> Callable[[], object]:
        """Return the embedding of a query, which waits for the gate."""

        def embed() -> object:
            self.order.append(name)
            if waits:
                assert self.gate.wait(PATIENCE_SECONDS)
            return np.zeros(1), time.perf_counter()

        return embed

    def submit(self, user: str, name: str, *, is_long: bool = False, waits: bool = True):  # type: ignore[no-untyped-def] # noqa: ANN201
        return self.queue.submit(user, self.embedding(name, waits=waits), is_long=is_long)  # type: ignore[arg-type]


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench(2)
    yield bench
    bench.gate.set()
    bench.queue.close()


def test_long_queries_leave_a_thread_to_short_ones(bench: Bench) -> None:
    """Eight long queries of one user are under way or wait, and a question of another is embedded at once."""
    futures = [bench.submit(EVE, f"long {number}", is_long=True) for number in range(8)]

    bench.submit(ADA, "short", waits=False).result(PATIENCE_SECONDS)

    assert bench.order == ["long 0", "short"]
    assert not any(future.done() for future in futures)
    bench.gate.set()
    assert all(future.result(PATIENCE_SECONDS) for future in futures)


def test_users_take_turns(bench: Bench) -> None:
    """A user with many waiting queries has one embedded for each of another user."""
    for thread in range(2):
        bench.submit(EVE, f"under way {thread}")
    waiting = [bench.submit(EVE, f"eve {number}") for number in range(6)]
    waiting += [bench.submit(ADA, f"ada {number}") for number in range(2)]
    waiting += [bench.submit(BEN, "ben 0")]

    bench.gate.set()

    assert all(future.result(PATIENCE_SECONDS) for future in waiting)
    places = {name: place for place, name in enumerate(bench.order)}
    assert max(places["ada 0"], places["ben 0"]) < places["eve 2"]
    assert places["ada 1"] < places["eve 4"]


def test_one_user_fills_its_own_queue_only(bench: Bench) -> None:
    """Beyond the number that may wait a query is refused; those of other users are taken."""
    for number in range(2 + QUEUED_QUERIES):
        bench.submit(EVE, f"eve {number}")

    with pytest.raises(LimitExceededError):
        bench.submit(EVE, "one too many")
    assert not bench.submit(ADA, "ada").done()


def test_a_cancelled_query_is_not_embedded(bench: Bench) -> None:
    """A caller who stops waiting costs nothing."""
    for thread in range(2):
        bench.submit(EVE, f"under way {thread}")
    given_up, kept = bench.submit(ADA, "given up"), bench.submit(ADA, "kept")

    assert given_up.cancel()
    bench.gate.set()

    assert kept.result(PATIENCE_SECONDS)
    assert "given up" not in bench.order


def test_an_error_reaches_its_caller(bench: Bench) -> None:
    """A failure of one query is that of its caller, and frees its thread."""

    def fail() -> object:
        raise LimitExceededError(EVE)

    bench.gate.set()
    for _ in range(3):
        with pytest.raises(LimitExceededError):
            bench.queue.submit(EVE, fail, is_long=True).result(PATIENCE_SECONDS)  # type: ignore[arg-type]
    assert bench.submit(ADA, "after", is_long=True).result(PATIENCE_SECONDS)


def test_no_thread_is_started_for_a_query(bench: Bench) -> None:
    """One that cannot be started is missed when the service starts, and keeps no place of the queue later."""
    bench.gate.set()
    with no_new_threads("embed"):
        for number in range(8):
            bench.submit(ADA, str(number)).result(PATIENCE_SECONDS)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            QueryQueue(1)


def test_a_queue_that_cannot_be_made_leaves_no_thread() -> None:
    """One would wait for the others without an end, and the process with it."""
    before = threading.active_count()
    with no_new_threads("embed_1"), pytest.raises(RuntimeError, match="can't start new thread"):
        QueryQueue(2)

    until(lambda: threading.active_count() <= before)
