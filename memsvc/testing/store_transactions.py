"""Transactions: all or nothing, one after the other, and keys and contents unique."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pytest

from memsvc.domain.indexing import ChangeAction
from memsvc.domain.memory import Kind, Memory, Status
from memsvc.domain.query import Order
from memsvc.ports.metadata import ContentName, MetadataStore, Record, UniquenessRaceError
from memsvc.testing import factories
from memsvc.testing.store_seams import ADA, OWNER, StoreSeams, insert, purge, revise


class _StopError(Exception):
    """Ends a block early."""


def _name(memory: Memory) -> ContentName:
    return ContentName(memory.scope.project_id, memory.kind.value, memory.content_hash)


class StoreTransactionsContract(StoreSeams):
    """What holds between the opening and the end of a transaction."""

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
        assert store.feed.head() == 2

    def test_positions_have_no_gaps_after_a_rollback(self, store: MetadataStore) -> None:
        """What was taken back has used up no position."""
        with suppress(_StopError), store.transaction() as transaction:
            transaction.insert([Record(factories.memory("lost"))])
            raise _StopError
        insert(store, factories.memory("kept"))

        assert [change.position for change in store.feed.since(0, limit=9)] == [1]

    def test_nothing_is_seen_before_the_commit(self, store: MetadataStore) -> None:
        """Reads see a transaction's changes when it has ended, not before; the transaction itself sees them."""
        memory = factories.memory(key="k")
        with store.transaction() as transaction:
            [written] = transaction.insert([Record(memory)])

            assert store.memories.get([memory.id], reach=ADA) == {}
            assert store.feed.head() == 0
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

        assert [change.row for change in store.feed.since(0, limit=9)] == [first.row, second.row]
        assert [change.position for change in store.feed.since(0, limit=9)] == [1, 2]

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
        """When a key is taken inside a savepoint, the rest of the transaction can go on."""
        insert(store, factories.memory("taken", key="k"))
        with store.transaction() as transaction:
            transaction.insert([Record(factories.memory("before"))])
            with pytest.raises(UniquenessRaceError), transaction.savepoint():
                transaction.insert([Record(factories.memory("half")), Record(factories.memory("other", key="k"))])
            transaction.insert([Record(factories.memory("after"))])

        found = store.memories.page(reach=ADA, where=None, order=Order(descending=False), after=None, limit=9)
        assert [memory.content for memory in found] == ["taken", "before", "after"]
        assert store.feed.head() == 3

    def test_lost_race_voids_the_transaction(self, store: MetadataStore) -> None:
        """Without a savepoint the transaction cannot be committed any more, even when the error is passed over."""
        insert(store, factories.memory("taken", key="k"))
        with pytest.raises(UniquenessRaceError), store.transaction() as transaction:  # noqa: PT012 - the end raises
            transaction.insert([Record(factories.memory("before"))])
            with suppress(UniquenessRaceError):
                transaction.insert([Record(factories.memory("half")), Record(factories.memory("other", key="k"))])

        assert store.feed.head() == 1
        assert store.memories.counts(reach=ADA).total == 1

    def test_position_is_that_of_the_last_change(self, store: MetadataStore) -> None:
        """The position follows every change, and is 0 in a transaction that made none."""
        with store.transaction() as transaction:
            assert transaction.position == 0
            [one, two] = transaction.insert([Record(factories.memory("1")), Record(factories.memory("2"))])
            assert transaction.position == 2
            transaction.update(one, Record(replace(one, revision=2)), ChangeAction.UPDATED)
            assert transaction.position == 3
            transaction.purge(two)
            assert transaction.position == 4
        with store.transaction() as transaction:
            transaction.add_accesses({one.id: (1, factories.NOW)})
            assert transaction.position == 0

        assert store.feed.head() == 4

    @pytest.mark.parametrize(
        "other",
        [
            {"project_id": "web"},
            {"user_id": "ada-2"},
            {"tenant_id": "t"},
            {"key": "K"},
            {"key": "k "},
            {"key": ""},
            {"status": Status.DELETED},
        ],
        ids=str,
    )
    def test_key_is_unique_within_owner_and_project(self, store: MetadataStore, other: dict[str, object]) -> None:
        """The same key in another place, another key, and a deleted memory's key are no conflict."""
        insert(store, factories.memory("one", key="k"))
        insert(store, factories.memory("two", **{"key": "k"} | other))

        with pytest.raises(UniquenessRaceError):
            insert(store, factories.memory("three", key="k"))

    def test_many_memories_need_no_key(self, store: MetadataStore) -> None:
        """The empty key is no key."""
        insert(store, factories.memory("one"), factories.memory("two"))

        assert store.memories.get_by_key("", reach=ADA) is None
        with store.transaction() as transaction:
            assert transaction.find_keys(OWNER, [("", "")]) == {}

    @pytest.mark.parametrize(
        ("fields", "is_unique"),
        [
            ({"project_id": "web"}, True),
            ({"user_id": "ada-2"}, True),
            ({"kind": Kind.NOTE}, True),
            ({"status": Status.DELETED}, True),
            ({}, False),
        ],
        ids=str,
    )
    def test_content_is_unique_within_owner_project_and_kind(
        self, store: MetadataStore, fields: dict[str, object], *, is_unique: bool
    ) -> None:
        """The same content elsewhere, of another kind, deleted or not kept as unique is no conflict."""
        insert(store, factories.memory("same"))
        insert(store, Record(factories.memory("same", **fields), is_unique=is_unique))

        with pytest.raises(UniquenessRaceError):
            insert(store, factories.memory("same"))

    def test_update_into_a_taken_key_or_content_is_a_race(self, store: MetadataStore) -> None:
        """An update may take a key or content that is free, and no other."""
        taken, other = insert(store, factories.memory("taken", key="k"), factories.memory("other"))

        with pytest.raises(UniquenessRaceError):
            revise(store, other, key="k")
        with pytest.raises(UniquenessRaceError):
            revise(store, other, content=taken.content, content_hash=taken.content_hash)
        assert revise(store, other, key="free").revision == 2

    def test_update_of_an_outdated_revision_is_a_race(self, store: MetadataStore) -> None:
        """Only the stored revision can be followed by the next one."""
        [one] = insert(store, factories.memory())
        revise(store, one, title="T")

        with pytest.raises(UniquenessRaceError):
            revise(store, one, title="other")
        purge(store, one)
        with pytest.raises(UniquenessRaceError):
            revise(store, one, title="other")

    def test_key_of_a_deleted_memory_is_free(self, store: MetadataStore) -> None:
        """Another memory can take the key, and then the deleted one cannot be restored with it."""
        [one] = insert(store, factories.memory("one", key="k"))
        gone = revise(store, one, ChangeAction.DELETED, status=Status.DELETED)
        [two] = insert(store, factories.memory("two", key="k"))

        assert store.memories.get_by_key("k", reach=ADA) == two
        with pytest.raises(UniquenessRaceError):
            revise(store, gone, ChangeAction.RESTORED, status=Status.ACTIVE)

    def test_keys_and_contents_are_found(self, store: MetadataStore) -> None:
        """Bearers are found by project and key, holders by project, kind and hash; the rest is left out."""
        here, there = insert(
            store, factories.memory("here", key="k"), factories.memory("there", key="k", project_id="web")
        )
        [copy] = insert(store, Record(factories.memory("here"), is_unique=False))
        insert(store, factories.memory("theirs", key="k", user_id="bob"), factories.memory("here", user_id="bob"))

        with store.transaction() as transaction:
            keys = transaction.find_keys(OWNER, [("", "k"), ("web", "k"), ("we", "k"), ("", "K"), ("", "k")])
            contents = transaction.find_contents(
                OWNER,
                [_name(here), _name(there), replace(_name(here), kind="NOTE"), replace(_name(there), project_id="")],
            )

            assert transaction.find_keys(OWNER, []) == {}
            assert transaction.find_contents(OWNER, []) == {}
        assert keys == {("", "k"): here, ("web", "k"): there}
        assert contents == {_name(here): here, _name(there): there}
        assert copy not in contents.values()

    def test_thousand_names_are_found_at_once(self, store: MetadataStore) -> None:
        """A whole batch is looked up in one call."""
        written = insert(store, *(factories.memory(f"内容 {n}", key=f"键/{n}") for n in range(1000)))

        with store.transaction() as transaction:
            keys = transaction.find_keys(OWNER, [("", memory.key) for memory in written])
            contents = transaction.find_contents(OWNER, [_name(memory) for memory in written])

        assert keys == {("", memory.key): memory for memory in written}
        assert contents == {_name(memory): memory for memory in written}

    def test_newest_row_of_a_session(self, store: MetadataStore) -> None:
        """The newest memory of exactly that session that is not deleted."""
        fields = {"project_id": "web", "session_id": "s1"}
        one, two = insert(store, factories.memory("1", **fields), factories.memory("2", **fields))
        insert(store, factories.memory("3", session_id="s1"), factories.memory("4", project_id="web", session_id="s10"))
        insert(store, factories.memory("5", user_id="bob", **fields), factories.memory("6", project_id="web"))

        def last(session: str = "s1", project: str = "web") -> int | None:
            with store.transaction() as transaction:
                return transaction.last_row(OWNER, project, session)

        assert last() == two.row
        revise(store, two, ChangeAction.DELETED, status=Status.DELETED)
        assert last() == one.row
        purge(store, one)
        assert [last(), last(""), last("s"), last(project="web-2")] == [None] * 4

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
        assert [change.position for change in store.feed.since(0, limit=99)] == list(range(1, 42))

    def test_one_of_many_takes_a_key(self, store: MetadataStore) -> None:
        """Of threads that insert the same key, one succeeds and the others are told."""
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
