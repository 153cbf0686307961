"""Works that follow each other, queued ahead of what they follow."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from memsvc.engine.commit.group_committer import CommitPipeline, CommitResult, GroupCommitter
from memsvc.ports.metadata import Transaction, UniquenessRaceError
from tests.unit.engine.memories.write_path import Desk

Work = Callable[[Transaction, list[int] | None], list[int]]


def adding(number: int) -> Work:
    """Return a work that adds a number to those of the works before."""
    return lambda _, before: [*(before or ()), number]


def failing(_transaction: Transaction, _before: list[int] | None) -> list[int]:
    raise LookupError


def put_together(
    committer: GroupCommitter, works: CommitPipeline[list[int]], *both: Work
) -> Future[CommitResult[list[int]] | None]:
    """Put two works while the committer is at another one, so that they become one transaction.

    Return what the second call of `put` comes to.
    """
    begun, let = threading.Event(), threading.Event()

    def blocked(_: Transaction) -> None:
        begun.set()
        assert let.wait(30)

    committer.queue(blocked)
    assert begun.wait(30)
    works.put(both[0])
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(works.put, both[1])
        while committer.queue_length < 2:
            assert not second.done()
        let.set()
    return second


@pytest.fixture
def works(desk: Desk) -> CommitPipeline[list[int]]:
    """Works at a real store."""
    return CommitPipeline(desk.writing.committer, "owner")


def test_each_goes_on_from_the_one_before(works: CommitPipeline[list[int]]) -> None:
    """A call tells what the work before came to, once; the last is told at the end."""
    assert works.settle() is None
    assert works.put(adding(1)) is None
    told = works.put(adding(2))
    assert told is not None
    assert [1] == told.value
    last = works.settle()
    assert last is not None
    assert [1, 2] == last.value
    assert works.settle() is None
    assert works.put(adding(3)) is None
    again = works.settle()
    assert again is not None
    assert [1, 2, 3] == again.value


@pytest.mark.parametrize("is_one_transaction", [True, False], ids=["one transaction", "one after the other"])
def test_nothing_is_done_after_a_failure(
    desk: Desk,
    works: CommitPipeline[list[int]],
    is_one_transaction: bool,  # noqa: FBT001 - a case
) -> None:
    """Those that were queued already fail as the one before did, whether it is over by then or not."""
    done: list[int] = []

    def noting(transaction: Transaction, before: list[int] | None) -> list[int]:
        done.append(len(before or ()))
        return adding(2)(transaction, before)

    if is_one_transaction:
        second = put_together(desk.writing.committer, works, failing, noting)
        with pytest.raises(LookupError):
            second.result(30)
    else:
        works.put(failing)
        with pytest.raises(LookupError):
            works.put(noting)
    with pytest.raises(LookupError):
        works.settle()
    assert not done

    works.put(adding(5))
    begun_anew = works.settle()
    assert begun_anew is not None
    assert [5] == begun_anew.value


def test_a_transaction_that_is_repeated_repeats_them_in_order(desk: Desk, works: CommitPipeline[list[int]]) -> None:
    """A lost race voids all works of a transaction; each is run again after the one that it follows."""
    runs: list[int] = []

    def racing(transaction: Transaction, before: list[int] | None) -> list[int]:
        runs.append(1)
        if len(runs) == 1:
            raise UniquenessRaceError
        return adding(2)(transaction, before)

    first = put_together(desk.writing.committer, works, adding(1), racing).result(30)

    assert first is not None
    assert [1] == first.value
    told = works.settle()
    assert told is not None
    assert ([1, 2], 2) == (told.value, len(runs))
