"""Who waits for which change."""

from __future__ import annotations

import pytest

from memsvc.domain.errors import BackendClosedError
from memsvc.engine.indexing.indexer import Waiters


def test_a_waiter_for_a_position_is_done_when_all_before_it_is_applied() -> None:
    """Applied changes beyond a gap do not end the wait."""
    waiters = Waiters()
    future = waiters.until(5)

    waiters.settle([5], applied=4)
    early = future.done()
    waiters.settle([], applied=5)

    assert (early, future.done()) == (False, True)


def test_a_waiter_for_changes_is_done_when_just_those_are_applied() -> None:
    """A backlog before them does not matter."""
    waiters = Waiters()
    future = waiters.exactly([7, 8])

    waiters.settle([7], applied=0)
    early = future.done()
    waiters.settle([8], applied=0)

    assert (early, future.done()) == (False, True)
    assert waiters.wanted(limit=10) == []


def test_wanted_names_the_changes_that_somebody_waits_for_oldest_first() -> None:
    """Changes nobody waits for any more are left out."""
    waiters = Waiters()
    waiters.exactly([9])
    waiters.exactly([3, 4])
    waiters.exactly([11]).cancel()

    assert waiters.wanted(limit=10) == [9, 3, 4]
    assert waiters.wanted(limit=1) == [9]


def test_fail_ends_every_wait_with_an_error() -> None:
    """Nobody waits for an indexer that has stopped."""
    waiters = Waiters()
    futures = [waiters.until(5), waiters.exactly([7])]

    waiters.fail(BackendClosedError("indexer"))

    for future in futures:
        with pytest.raises(BackendClosedError):
            future.result(timeout=1)
