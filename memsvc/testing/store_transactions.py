"""Transactions: all or nothing, and one after the other."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pytest

from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.scope import Reach
from memsvc.domain.search import Order
from memsvc.ports.metadata import MetadataStore, Record, UniquenessRaceError
from memsvc.testing import factories
from memsvc.testing.store_harness import ADA, OWNER, StoreSeams, insert


class _StopError(Exception):
    """Ends a block early."""


class StoreTransactionsContract(StoreSeams):
    """Contract of an open transaction."""

    def test_exception_takes_everything_back(self, store: MetadataStore) -> None:
        """A transaction that is left by an exception has changed nothing."""
        [kept, changed] = insert(store, factories.memory("kept", key="k"), factories.memory("changed"))
        with suppress(_StopError), store.transaction() as transaction:
            transaction.insert([Record(factories.memory("new"))])
            transaction.update(changed, Record(replace(changed, title="T", revision=2)), ChangeAction.UPDATED)
            transaction.purge(kept)
            transaction.add_accesses({changed.id: (1, factories.NOW)})
            raise _StopError

        found = store.memories.page(reach=ADA, where=None, order=Order(descending=False), after=None, limit=9)
        assert found == [kept, changed]
        assert store.memories.get_by_key("k", reach=ADA) == kept
        assert store.feed.head_position() == 2

    def test_rolled_back_work_is_no_change(self, store: MetadataStore) -> None:
        """No feed returns it, though its position may stay unused."""
        with suppress(_StopError), store.transaction() as transaction:
            transaction.insert([Record(factories.memory("lost"))])
            raise _StopError
        insert(store, factories.memory("kept"))

        [change] = store.feed.changes_after(0, limit=9)
        assert change.position == store.feed.head_position() == store.feed.settled_position()
        assert store.feed.kept_after() == 0

    def test_nothing_is_seen_before_the_commit(self, store: MetadataStore) -> None:
        """Reads see a transaction's changes when it has ended, not before; the transaction itself sees them."""
        memory = factories.memory(key="k")
        with store.transaction() as transaction:
            [written] = transaction.insert([Record(memory)])

            assert store.memories.get([memory.id], reach=ADA) == {}
            assert store.feed.head_position() == 0
            assert transaction.get(memory.id, reach=ADA) == written
            assert transaction.find_keys(OWNER, [("", "k")]) == {("", "k"): written}

        assert store.memories.get([memory.id], reach=ADA) == {memory.id: written}

    def test_savepoint_takes_back_its_own_part(self, store: MetadataStore) -> None:
        """Leaving a savepoint by an exception takes back what was done in it, and no more."""
        with store.transaction() as transaction:
            [first] = transaction.insert([Record(factories.memory("first"))])
            with suppress(_StopError), transaction.savepoint():
                transaction.insert([Record(factories.memory("lost"))])
                raise _StopError
            assert transaction.position == 1
            with transaction.savepoint():
                [second] = transaction.insert([Record(factories.memory("second"))])

        assert [change.row for change in store.feed.changes_after(0, limit=9)] == [first.row, second.row]
        assert [change.position for change in store.feed.changes_after(0, limit=9)][:1] == [1]

    def test_savepoints_nest(self, store: MetadataStore) -> None:
        """An inner savepoint can fail alone, and an outer one takes the inner one with it."""
        with store.transaction() as transaction:
            with transaction.savepoint():
                transaction.insert([Record(factories.memory("a"))])
                with suppress(_StopError), transaction.savepoint():
                    transaction.insert([Record(factories.memory("lost"))])
                    raise _StopError
            with suppress(_StopError), transaction.savepoint():
                with transaction.savepoint():
                    transaction.insert([Record(factories.memory("lost too"))])
                raise _StopError
            transaction.insert([Record(factories.memory("b"))])

        found = store.memories.page(reach=ADA, where=None, order=Order(descending=False), after=None, limit=9)
        assert [memory.content for memory in found] == ["a", "b"]

    def test_lost_race_is_recoverable_in_a_savepoint(self, store: MetadataStore) -> None:
        """A key conflict inside a savepoint leaves the rest of the transaction usable."""
        insert(store, factories.memory("taken", key="k"))
        with store.transaction() as transaction:
            transaction.insert([Record(factories.memory("before"))])
            with pytest.raises(UniquenessRaceError), transaction.savepoint():
                transaction.insert([Record(factories.memory("half")), Record(factories.memory("other", key="k"))])
            transaction.insert([Record(factories.memory("after"))])

        found = store.memories.page(reach=ADA, where=None, order=Order(descending=False), after=None, limit=9)
        assert [memory.content for memory in found] == ["taken", "before", "after"]
        assert len(store.feed.changes_after(0, limit=9)) == 3

    def test_lost_race_voids_the_transaction(self, store: MetadataStore) -> None:
        """Without a savepoint the transaction cannot be committed any more, even when the error is passed over."""
        insert(store, factories.memory("taken", key="k"))
        with pytest.raises(UniquenessRaceError), store.transaction() as transaction:  # noqa: PT012 - the end raises
            transaction.insert([Record(factories.memory("before"))])
            with suppress(UniquenessRaceError):
                transaction.insert([Record(factories.memory("half")), Record(factories.memory("other", key="k"))])

        assert store.feed.head_position() == 1
        assert store.memories.counts(reach=ADA).total == 1

    def test_position_is_that_of_the_last_change(self, store: MetadataStore) -> None:
        """The position follows every change, and is 0 in a transaction that made none."""
        with store.transaction() as transaction:
            assert (transaction.position, transaction.changes) == (0, 0)
            [one, two] = transaction.insert([Record(factories.memory("1")), Record(factories.memory("2"))])
            assert transaction.position == 2
            transaction.update(one, Record(replace(one, revision=2)), ChangeAction.UPDATED)
            assert transaction.position == 3
            transaction.purge(two)
            assert (transaction.position, transaction.changes) == (4, 4)
            with suppress(_StopError), transaction.savepoint():
                transaction.insert([Record(factories.memory("lost"))])
                raise _StopError
            assert transaction.changes == 4
        with store.transaction() as transaction:
            transaction.add_accesses({one.id: (1, factories.NOW)})
            assert transaction.position == 0

        assert store.feed.head_position() == 4

    def test_concurrent_transactions_follow_each_other(self, store: MetadataStore) -> None:
        """Transactions from many threads lose no update: each reads what the one before has written."""
        [memory] = insert(store, factories.memory())

        def lengthen_title(_: int) -> None:
            with store.transaction() as transaction:
                before = transaction.get(memory.id, reach=ADA)
                assert before is not None
                after = replace(before, title=before.title + "x", revision=before.revision + 1)
                transaction.update(before, Record(after), ChangeAction.UPDATED)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lengthen_title, range(40)))

        assert store.memories.get([memory.id], reach=ADA)[memory.id].title == "x" * 40
        assert [change.position for change in store.feed.changes_after(0, limit=99)] == list(range(1, 42))

    def test_one_of_many_takes_a_key(self, store: MetadataStore) -> None:
        """Of threads that insert the same key, one succeeds and the others get an error."""
        barrier = threading.Barrier(4)

        def take(number: int) -> bool:
            barrier.wait()
            with suppress(UniquenessRaceError):
                insert(store, factories.memory(f"content {number}", key="k"))
                return True
            return False

        with ThreadPoolExecutor(4) as pool:
            assert sorted(pool.map(take, range(4))) == [False, False, False, True]

    def test_reads_go_on_beside_a_writer(self, store: MetadataStore) -> None:
        """A read beside a transaction sees all of it or nothing, and does not wait for it."""
        pairs: list[int] = []

        def read(_: int) -> None:
            pairs.append(store.memories.counts(reach=ADA).total)

        with ThreadPoolExecutor(4) as pool:
            for number in range(10):
                with store.transaction() as transaction:
                    transaction.insert([Record(factories.memory(f"{number} a"))])
                    list(pool.map(read, range(4)))
                    transaction.insert([Record(factories.memory(f"{number} b"))])

        assert all(count % 2 == 0 for count in pairs)

    def test_commit_is_seen_by_every_thread(self, store: MetadataStore) -> None:
        """A read that begins after the commit sees it, from whatever thread."""

        def read(_: int) -> int:
            return store.memories.counts(reach=ADA).total

        with ThreadPoolExecutor(4) as pool:
            for number in range(5):
                insert(store, factories.memory(f"{number}"))

                assert set(pool.map(read, range(8))) == {number + 1}

    def test_transactions_of_one_owner_see_each_other(self, store: MetadataStore) -> None:
        """Each adds to what it reads, and none is lost."""

        def add(_: int) -> None:
            with store.transaction(owners={OWNER}) as transaction:
                [before] = transaction.find_keys(OWNER, [("", "count")]).values()
                after = replace(before, revision=before.revision + 1, title=f"{int(before.title) + 1}")
                transaction.update(before, Record(after), ChangeAction.UPDATED)

        insert(store, factories.memory("counter", key="count", title="0"))
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(add, range(8)))

        counter = store.memories.get_by_key("count", reach=ADA)
        assert counter is not None
        assert counter.title == "8"

    def test_transaction_of_an_owner_writes_to_no_other(self, store: MetadataStore) -> None:
        """Another process may be writing to the other owner."""
        other = factories.memory("other", user_id="ben")
        with pytest.raises(RuntimeError), store.transaction(owners={OWNER}) as transaction:
            transaction.insert([Record(other)])
        assert store.memories.get([other.id], reach=Reach.from_scope(other.scope)) == {}

    def test_settled_position_follows_the_commits(self, store: MetadataStore) -> None:
        """Without a transaction under way no change is beyond it, and a reader goes on from the end."""
        insert(store, factories.memory("a"), factories.memory("b"))
        head = store.feed.head_position()

        assert store.feed.settled_position() >= head
        assert [change.position for change in store.feed.changes_after(0, limit=9)][-1] == head
        assert store.changes.end(reach=ADA) >= head
        assert store.feed.kept_after() == 0
