"""Group commit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from memsvc.domain.errors import BackendClosedError, MemoryNotFoundError, WriteConflictError
from memsvc.domain.write_requests import Draft, WriteOptions
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.runtime import search_priority
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.ports.metadata import Record, Transaction, UniquenessRaceError
from memsvc.testing.factories import memory
from memsvc.text.ranking_cues import cached_cues
from tests.support.until import PATIENCE_SECONDS, until
from tests.unit.engine.memories.write_path import ADA, Desk


class _Blocked:
    """A work that holds the committer until it is released."""

    def __init__(self) -> None:
        self.is_running = threading.Event()
        self.release = threading.Event()

    def __call__(self, _transaction: Transaction) -> None:
        self.is_running.set()
        assert self.release.wait(20)


def _insert(content: str) -> Record:
    return Record(memory(content))


def _queue_up(committer: GroupCommitter, count: int) -> None:
    pause = threading.Event()
    while committer.queue_length < count:
        pause.wait(0.001)


def test_works_that_wait_together_are_committed_together(desk: Desk) -> None:
    """While one transaction runs, the works that arrive share the next one: one transaction, one commit."""
    committer, blocked = desk.writing.committer, _Blocked()
    commits: list[int] = []
    committer.on_commit(lambda: commits.append(desk.store.feed.head_position()))

    with ThreadPoolExecutor(21) as pool:
        first = pool.submit(committer.submit, blocked)
        assert blocked.is_running.wait(20)
        others = [
            pool.submit(committer.submit, lambda tx, n=n: (tx.insert([_insert(f"memory {n}")]), tx)[1])
            for n in range(20)
        ]
        _queue_up(committer, 20)
        blocked.release.set()
        first.result()
        answers = [other.result() for other in others]

    assert len({id(answer.value) for answer in answers}) == 1
    assert commits == [20]
    assert list(range(1, 21)) == sorted(answer.position for answer in answers)


def _queue_batches_and_a_write(committer: GroupCommitter, done: list[tuple[str, Transaction]]) -> list[Future[Any]]:
    """Queue two batches of each of three users, then a single write of another one."""

    def note(name: str) -> Callable[[Transaction], None]:
        return lambda transaction: done.append((name, transaction))

    batches = [
        committer.queue(note(f"{owner} {number}"), owner=owner, size=1_000)
        for number in range(2)
        for owner in ("eve", "mallory", "trudy")
    ]
    return [*batches, committer.queue(note("ada"), owner="ada"), committer.queue(note("eve 2"), owner="eve")]


def test_a_single_write_waits_for_no_batch_that_is_queued(desk: Desk) -> None:
    """Each batch has a transaction of its own; a single write of its user, put after it, stays behind it."""
    committer, blocked, done = desk.writing.committer, _Blocked(), list[tuple[str, Transaction]]()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(committer.submit, blocked)
        assert blocked.is_running.wait(20)
        queued = _queue_batches_and_a_write(committer, done)
        assert committer.queue_length == len(queued)
        blocked.release.set()
        for one in queued:
            one.result(20)

    assert [name for name, _ in done] == [
        "ada", "eve 0", "mallory 0", "trudy 0", "eve 1", "mallory 1", "trudy 1", "eve 2",
    ]  # fmt: skip
    assert len({id(transaction) for _, transaction in done}) == len(done)


@pytest.mark.parametrize(("size", "is_bulk", "yields"), [(1, False, True), (1, True, False), (100, False, False)])
def test_bulk_work_yields_to_a_single_write_until_it_is_durable(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, *, size: int, is_bulk: bool, yields: bool
) -> None:
    """Also while the write waits for the transaction of a batch; not to batches and parts of imports."""
    monkeypatch.setattr(search_priority, "LONGEST_WRITE_SECONDS", PATIENCE_SECONDS)
    priority, blocked = SearchPriority(), _Blocked()
    committer = GroupCommitter(desk.store, priority=priority)

    with closing(committer), ThreadPoolExecutor(2) as pool:
        batch: Future[Any] = committer.queue(blocked, size=100)
        assert blocked.is_running.wait(PATIENCE_SECONDS)
        write: Future[Any] = committer.queue(lambda _: None, size=size, is_bulk=is_bulk)
        bulk = pool.submit(priority.yield_to_searches)
        if yields:
            until(lambda: priority.waiting_count == 1)
        else:
            bulk.result(PATIENCE_SECONDS)
        blocked.release.set()
        for one in (batch, write, bulk):
            one.result(PATIENCE_SECONDS)
        assert priority.waiting_count == 0


def test_a_batch_is_read_for_the_ranking_before_its_transaction(desk: Desk) -> None:
    """Other writes wait for the transaction, not for what precedes it."""
    committer, blocked = desk.writing.committer, _Blocked()
    drafts = [Draft(f"Zebra number {number} walked by. 斑马走过。") for number in range(1_000)]
    cached_cues.cache_clear()

    with ThreadPoolExecutor(2) as pool:
        pool.submit(committer.submit, blocked)
        assert blocked.is_running.wait(20)
        stored = pool.submit(desk.writing.remember.create_batch, ADA, drafts, WriteOptions())
        _queue_up(committer, 1)
        before = cached_cues.cache_info().misses
        blocked.release.set()
        assert len(stored.result(20).results) == len(drafts)

    assert before == cached_cues.cache_info().misses == len(drafts)


def test_all_that_is_queued_is_done_before_the_committer_closes(desk: Desk) -> None:
    """Also what did not fit into the next transaction."""
    committer, blocked, done = desk.writing.committer, _Blocked(), list[tuple[str, Transaction]]()

    with ThreadPoolExecutor(2) as pool:
        pool.submit(committer.submit, blocked)
        assert blocked.is_running.wait(20)
        queued = _queue_batches_and_a_write(committer, done)
        closed = pool.submit(committer.close)
        blocked.release.set()
        closed.result(20)

    assert len(done) == len(queued)
    assert committer.queue_length == 0


def test_a_failing_work_fails_alone(desk: Desk) -> None:
    """What a failing work did is undone; the others of its group are committed."""
    committer, blocked = desk.writing.committer, _Blocked()

    def good(transaction: Transaction) -> str:
        return transaction.insert([_insert("good")])[0].id

    def bad(transaction: Transaction) -> str:
        transaction.insert([_insert("bad")])
        raise MemoryNotFoundError(desk.clock().isoformat())

    def broken(transaction: Transaction) -> str:
        transaction.insert([_insert("broken")])
        raise ZeroDivisionError

    with ThreadPoolExecutor(4) as pool:
        pool.submit(committer.submit, blocked)
        assert blocked.is_running.wait(20)
        answers = [pool.submit(committer.submit, work) for work in (good, bad, broken)]
        _queue_up(committer, 3)
        blocked.release.set()
        assert answers[0].result().value
        with pytest.raises(MemoryNotFoundError):
            answers[1].result()
        with pytest.raises(ZeroDivisionError):
            answers[2].result()

    assert desk.store.feed.head_position() == 1


def test_what_is_durable_is_not_repeated(desk: Desk) -> None:
    """Also when it cannot be told how far the store is: a caller hears of that, and nothing is done twice."""
    committer, blocked, runs = desk.writing.committer, _Blocked(), [0, 0]

    def work(transaction: Transaction, number: int) -> None:
        runs[number] += 1
        transaction.insert([_insert(f"memory {number}")])

    def fail() -> None:
        raise ZeroDivisionError

    with ThreadPoolExecutor(3) as pool:
        pool.submit(committer.submit, blocked)
        assert blocked.is_running.wait(20)
        committer.on_commit(fail)
        answers = [pool.submit(committer.submit, lambda tx, n=n: work(tx, n)) for n in range(2)]
        _queue_up(committer, 2)
        blocked.release.set()
        assert [type(answer.exception()) for answer in answers] == [ZeroDivisionError] * 2

    assert (runs, desk.store.feed.head_position()) == ([1, 1], 2)


def test_a_lost_race_is_repeated(desk: Desk) -> None:
    """A work that loses a race for uniqueness runs again in a fresh transaction."""
    seen: list[Transaction] = []

    def work(transaction: Transaction) -> int:
        seen.append(transaction)
        if len(seen) < 3:
            raise UniquenessRaceError
        return len(transaction.insert([_insert("third time lucky")]))

    assert desk.writing.committer.submit(work).value == 1
    assert len({id(transaction) for transaction in seen}) == 3


def test_a_work_that_always_loses_is_given_up(desk: Desk) -> None:
    """A work that never wins a race ends with an error of its own: the store is available, and its caller may retry."""

    def work(_transaction: Transaction) -> None:
        raise UniquenessRaceError

    with pytest.raises(WriteConflictError, match="Nothing was changed") as lost:
        desk.writing.committer.submit(work)
    assert (lost.value.reason, lost.value.metadata, lost.value.retry_seconds) == ("WRITE_CONFLICT", {}, 0.1)
    assert str(lost.value) == lost.value.message


def test_a_work_without_changes_has_the_position_of_the_store(desk: Desk) -> None:
    """The position of a work that only looked covers all that it saw."""
    created = desk.create("Anna lives in Lisbon.")

    assert created.position == desk.writing.committer.submit(lambda _transaction: None).position


def test_close_finishes_what_waits_and_refuses_the_rest(desk: Desk) -> None:
    """After close a submit is refused; closing again does nothing."""
    committer = desk.writing.committer
    blocked = _Blocked()
    with ThreadPoolExecutor(3) as pool:
        pool.submit(committer.submit, blocked)
        assert blocked.is_running.wait(20)
        last = pool.submit(committer.submit, lambda transaction: len(transaction.insert([_insert("last")])))
        _queue_up(committer, 1)
        closing = pool.submit(committer.close)
        blocked.release.set()
        closing.result()
        assert last.result().value == 1

    committer.close()
    with pytest.raises(BackendClosedError):
        committer.submit(lambda _transaction: None)
