"""Keys and contents are unique, and found by their names."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import Kind, Memory, Status
from memsvc.ports.metadata import (
    ContentName,
    MetadataStore,
    Record,
    RequestRecord,
    Transaction,
    UniquenessRaceError,
)
from memsvc.testing import factories
from memsvc.testing.store_harness import ADA, OWNER, StoreSeams, insert, purge, revise


def _name(memory: Memory) -> ContentName:
    return ContentName(memory.scope.project_id, memory.kind.value, memory.content_hash, memory.speaker)


class StoreNamesContract(StoreSeams):
    """Contract of uniqueness within a transaction."""

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
            {"status": Status.QUARANTINED},
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
            ({"speaker": "Anna"}, True),
            ({"status": Status.DELETED}, True),
            ({"status": Status.QUARANTINED}, True),
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

    def test_names_of_a_transaction_are_known_to_it(self, store: MetadataStore) -> None:
        """Later savepoints find the names that an earlier one took; names of a failed savepoint are free."""
        with store.transaction() as transaction:
            assert transaction.find_keys(OWNER, [("", "k"), ("", "lost")]) == {}
            [one] = _taken(transaction, "k")
            with suppress(_AbortError), transaction.savepoint():
                _taken(transaction, "lost")
                raise _AbortError

            assert transaction.find_keys(OWNER, [("", "k"), ("", "lost")]) == {("", "k"): one}
            assert transaction.find_contents(OWNER, [_name(one)]) == {_name(one): one}
            assert transaction.last_row(OWNER, "", "s") == one.row
            assert transaction.recall_request(OWNER, "Create", "k") == RequestRecord("digest", one.id)
            assert transaction.recall_request(OWNER, "Create", "lost") is None
            with pytest.raises(UniquenessRaceError), transaction.savepoint():
                transaction.insert([Record(factories.memory("other", key="k"))])
            [two] = _taken(transaction, "lost")

        assert store.memories.by_rows([one.row, two.row], reach=ADA) == {one.row: one, two.row: two}
        with store.transaction() as transaction:
            assert transaction.recall_request(OWNER, "Create", "lost") == RequestRecord("digest", two.id)

    def test_a_free_name_is_taken_once(self, store: MetadataStore) -> None:
        """Also when it was looked for before, two at once cannot have it."""
        twice = [Record(factories.memory(content, key="k")) for content in ("one", "two")]
        with store.transaction() as transaction:
            assert transaction.find_keys(OWNER, [("", "k")]) == {}
            assert transaction.find_contents(OWNER, [_name(one.memory) for one in twice]) == {}
            with pytest.raises(UniquenessRaceError), transaction.savepoint():
                transaction.insert(twice)

        assert store.feed.head_position() == 0


class _AbortError(Exception):
    """Ends a part early."""


def _taken(transaction: Transaction, key: str) -> list[Memory]:
    """Look for a key, its content and the request that brings both, and take them."""
    memory = factories.memory(f"content of {key}", key=key, session_id="s")
    assert transaction.recall_request(OWNER, "Create", key) is None
    assert transaction.find_keys(OWNER, [("", key)]) == {}
    assert transaction.find_contents(OWNER, [_name(memory)]) == {}
    written = transaction.insert([Record(memory)])
    transaction.remember_request(OWNER, "Create", key, RequestRecord("digest", memory.id))
    return written
