"""Who waits for which change."""

from __future__ import annotations

import gc
import weakref

import pytest

from memsvc.domain.errors import BackendClosedError
from memsvc.engine.indexing.indexer import ApplyWaiters


def test_a_waiter_for_a_position_is_done_when_all_before_it_is_applied() -> None:
    """Applied changes beyond a gap do not end the wait."""
    waiters = ApplyWaiters()
    future = waiters.add_position(5)

    waiters.resolve([5], applied=4)
    early = future.done()
    waiters.resolve([], applied=5)

    assert (early, future.done()) == (False, True)


def test_a_waiter_for_changes_is_done_when_just_those_are_applied() -> None:
    """A backlog before them does not matter."""
    waiters = ApplyWaiters()
    future = waiters.add_changes([7, 8])

    waiters.resolve([7], applied=0)
    early = future.done()
    waiters.resolve([8], applied=0)

    assert (early, future.done()) == (False, True)
    assert waiters.awaited_positions(limit=10) == []


def test_wanted_names_the_changes_that_somebody_waits_for_oldest_first() -> None:
    """Changes nobody waits for any more are left out."""
    waiters = ApplyWaiters()
    waiters.add_changes([9])
    waiters.add_changes([3, 4])
    waiters.add_changes([11]).cancel()

    assert waiters.awaited_positions(limit=10) == [9, 3, 4]
    assert waiters.awaited_positions(limit=1) == [9]


def test_those_who_wait_for_few_changes_can_be_asked_for_alone() -> None:
    """A batch counts by what is left of it."""
    waiters = ApplyWaiters()
    waiters.add_changes(range(1, 11))
    waiters.add_changes([20, 21])

    few = waiters.awaited_positions(limit=10, most=2)
    waiters.resolve(range(1, 9), applied=0)

    assert few == [20, 21]
    assert waiters.awaited_positions(limit=10, most=2) == [9, 10, 20, 21]


def test_fail_ends_every_wait_with_an_error() -> None:
    """Nobody waits for an indexer that has stopped."""
    waiters = ApplyWaiters()
    futures = [waiters.add_position(5), waiters.add_changes([7])]

    waiters.fail(BackendClosedError("indexer"))

    for future in futures:
        with pytest.raises(BackendClosedError):
            future.result(timeout=1)


def test_a_future_that_is_cancelled_is_not_kept() -> None:
    """While the indexes are away the time of many calls runs out."""
    waiters = ApplyWaiters()
    futures = [waiters.add_position(5), waiters.add_position(5, "owner"), waiters.add_changes([7])]
    left = [weakref.ref(future) for future in futures]

    for future in futures:
        future.cancel()
    del future, futures
    gc.collect()

    assert [one() for one in left] == [None] * 3
    assert not waiters.has_waiters
