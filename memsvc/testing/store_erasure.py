"""Erasure removes everything of an owner, and no writer restores it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta

import pytest

from memsvc.domain.clock import to_micros
from memsvc.domain.errors import ErasureRunningError
from memsvc.domain.history import Checkpoint
from memsvc.domain.index_entries import ChangeAction, View, entry_id
from memsvc.domain.memory import Status
from memsvc.domain.scope import Scope
from memsvc.domain.sessions import Session
from memsvc.domain.user_data import Erasure, owner_digest
from memsvc.ports.change_feed import PassageTokens
from memsvc.ports.metadata import MetadataStore, Record, RequestRecord, Transaction
from memsvc.testing import factories
from memsvc.testing.factories import NOW
from memsvc.testing.store_conflicts import conflict
from memsvc.testing.store_harness import OWNER, Clock, StoreSeams, insert, reach_of
from memsvc.testing.store_user_data import furnished

BEGUN = Erasure(owner_digest(OWNER), OWNER, "r", NOW, projects=("", "web"))
DONE = replace(BEGUN, owner="", projects=(), receipt='{"收据":1}')


def erase(store: MetadataStore, owner: str = OWNER) -> dict[str, int]:
    """Remove all of an owner, a few rows at a time; return how much was removed."""
    removed: dict[str, int] = {}
    with store.users.snapshot(owner) as snapshot:
        rows = [stored.memory.row for stored in snapshot.memories()]
    with store.transaction() as transaction:
        removed.update(transaction.erase_memories(owner, rows))
    while True:
        with store.transaction() as transaction:
            part = transaction.erase_rest(owner, limit=1)
        if not part:
            return removed
        for name, count in part.items():
            removed[name] = removed.get(name, 0) + count


@contextmanager
def _late(store: MetadataStore) -> Iterator[Transaction]:
    """Open a transaction for work that was begun long ago."""
    with store.transaction() as transaction:
        transaction.set_began(to_micros(NOW))
        yield transaction


def _writes() -> dict[str, Callable[[Transaction], object]]:
    memory = factories.memory("new", user_id="ada")
    return {
        "insert": lambda transaction: transaction.insert([Record(memory)]),
        "request": lambda transaction: transaction.remember_request(OWNER, "M", "r", RequestRecord("d", "a")),
        "session": lambda transaction: transaction.sessions.insert(Session(Scope("ada", "", "", "n"), NOW, NOW, 9)),
        "checkpoint": lambda transaction: transaction.add_checkpoint(Checkpoint(OWNER, "", "n", NOW, NOW)),
        "conflict": lambda transaction: transaction.add_conflicts([conflict(memory, memory)]),
    }


class StoreErasureContract(StoreSeams):
    """Contract of erasure."""

    def test_nothing_of_the_user_is_left(self, store: MetadataStore) -> None:
        """Of no table; what others have stays as it is."""
        mine = furnished(store)
        others = furnished(store, "ada2")
        own = [stored.row for stored in mine]
        rows = [*own, *(stored.row for stored in others)]
        passages = [
            PassageTokens(entry_id(row, View.CHUNK, place), b"d" * 16, b"t") for row in rows for place in (0, 1)
        ]
        store.tokens.replace("m", rows, passages)
        with store.transaction() as transaction:
            for owner in (OWNER, Scope("ada2").owner):
                transaction.remember_request(owner, "M", "r", RequestRecord("d", "a"))
        before = store.erasures.traces(Scope("ada2").owner)
        assert store.erasures.projects(OWNER) == ["", "web"]

        removed = erase(store)
        assert {0} == set(store.erasures.traces(OWNER).values())
        assert tuple(removed[name] for name in ("memories", "sessions", "tombstones", "requests")) == (3, 1, 1, 1)
        assert (before, []) == (store.erasures.traces(Scope("ada2").owner), store.erasures.projects(OWNER))
        assert len(store.memories.get([memory.id for memory in others], reach=reach_of("ada2"))) == 3
        assert removed["passage_tokens"] == 2 * len(own)
        assert store.tokens.digests("m", own) == {}
        assert len(store.tokens.digests("m", rows)) == store.tokens.count("m") == 2 * len(others)

    def test_indexes_are_told_without_a_name(self, store: MetadataStore) -> None:
        """The changes of others stay in their places, and those of the user say no more whose they were."""
        [memory] = insert(store, factories.memory("x"))
        [other] = insert(store, factories.memory("y", user_id="bob"))
        erase(store)

        first, second, third = store.feed.changes_after(0, limit=9)
        assert [("", memory.row), (other.id, other.row), ("", memory.row)] == [
            (change.memory_id, change.row) for change in (first, second, third)
        ]
        assert ChangeAction.PURGED is third.action
        assert store.feed.documents([memory.row]) == []
        assert store.feed.indexable() == 1
        assert store.changes.after(0, reach=reach_of(), limit=9).changes == ()

    def test_rows_of_others_are_not_removed(self, store: MetadataStore) -> None:
        """Although they are named."""
        [memory] = insert(store, factories.memory("y", user_id="bob"))
        with store.transaction() as transaction:
            transaction.erase_memories(OWNER, [memory.row, 77])
        assert memory == store.memories.get([memory.id], reach=reach_of("bob"))[memory.id]

    @pytest.mark.parametrize("name", sorted(_writes()))
    def test_nothing_is_written_back(self, store: MetadataStore, clock: Clock, name: str) -> None:
        """Neither while an erasure runs nor later by what began before its end; after the end other writers may."""
        write = _writes()[name]
        with store.transaction() as transaction:
            transaction.begin_erasure(BEGUN)
        with pytest.raises(ErasureRunningError), store.transaction() as transaction:
            write(transaction)
        clock.moment = NOW + timedelta(minutes=1)
        with store.transaction() as transaction:
            transaction.end_erasure(replace(DONE, end_time=clock.moment))
        clock.moment = NOW + timedelta(minutes=2)
        with pytest.raises(ErasureRunningError), _late(store) as transaction:
            write(transaction)
        assert {0} == set(store.erasures.traces(OWNER).values())

        insert(store, factories.memory("of another", user_id="ada2"))
        with store.transaction() as transaction:
            write(transaction)
        assert {0} != set(store.erasures.traces(OWNER).values())

    def test_an_erasure_that_was_taken_back_stops_nobody(self, store: MetadataStore) -> None:
        """A writer that is refused while an erasure runs is admitted after it."""
        new = [Record(factories.memory("x"))]
        with store.transaction() as transaction:
            with suppress(ErasureRunningError), transaction.savepoint():
                transaction.begin_erasure(BEGUN)
                transaction.insert(new)
            assert len(transaction.insert(new)) == 1

    def test_nothing_is_changed_while_an_erasure_runs(self, store: MetadataStore) -> None:
        """A text that comes now would not be looked for; an archived memory says nothing new, and is allowed."""
        [memory, other] = insert(store, factories.memory("old"), factories.memory("y", user_id="bob"))
        with store.transaction() as transaction:
            transaction.begin_erasure(BEGUN)
        with pytest.raises(ErasureRunningError), store.transaction() as transaction:
            transaction.update(memory, Record(replace(memory, content="new", revision=2)), ChangeAction.UPDATED)
        with store.transaction() as transaction:
            transaction.update(other, Record(replace(other, title="T", revision=2)), ChangeAction.UPDATED)

        assert store.memories.get([memory.id], reach=reach_of())[memory.id] == memory
        with store.transaction() as transaction:
            [put] = transaction.set_status([memory], Status.EXPIRED)
        assert (put.content, put.status) == ("old", Status.EXPIRED)

    def test_an_erasure_is_remembered(self, store: MetadataStore, clock: Clock) -> None:
        """While it runs with the owner, afterwards with the receipt alone, and then for a while."""
        with store.transaction() as transaction:
            transaction.begin_erasure(BEGUN)
        assert store.erasures.unfinished_erasures() == [BEGUN]
        assert store.erasures.find(OWNER) == BEGUN

        done = replace(DONE, end_time=NOW)
        with store.transaction() as transaction:
            transaction.end_erasure(done)
        found = store.erasures.find(OWNER)
        assert found is not None
        # A shared store notes the end by a clock of its own.
        assert found.end_time is not None
        assert ([], done, None) == (
            store.erasures.unfinished_erasures(),
            replace(found, end_time=NOW) if store.is_shared else found,
            store.erasures.find("\x1fad"),
        )
        clock.moment = NOW + timedelta(days=1)
        with store.transaction() as transaction:
            transaction.forget_requests(before=NOW + timedelta(hours=1))
        assert None is store.erasures.find(OWNER)

    def test_names_within_others_are_known(self, store: MetadataStore) -> None:
        """Of whatever the other has anything; not those of whom alone something is stored."""
        assert not store.erasures.is_ambiguous(OWNER)
        insert(store, factories.memory("own"))
        assert not store.erasures.is_ambiguous(OWNER)
        with store.transaction() as transaction:
            transaction.remember_request(Scope("ada2", tenant_id="t").owner, "M", "r", RequestRecord("d", "a"))
        assert store.erasures.is_ambiguous(OWNER)
        assert not store.erasures.is_ambiguous(Scope("da2", tenant_id="t").owner)

    def test_names_that_begin_with_others_are_known(self, store: MetadataStore) -> None:
        """Of whatever the other has anything; not those that begin with the tenant alone."""
        longer = Scope("ada-12", tenant_id="t").owner
        insert(store, factories.memory("other", user_id="bo", tenant_id="t"))
        assert not store.erasures.is_ambiguous(longer)
        with store.transaction() as transaction:
            transaction.remember_request(Scope("ada-1", tenant_id="t").owner, "M", "r", RequestRecord("d", "a"))
        assert store.erasures.is_ambiguous(longer)

    def test_files_can_be_cleared(self, store: MetadataStore) -> None:
        """Of what was removed, while the store is open."""
        furnished(store)
        erase(store)

        assert store.erasures.settle()
        store.erasures.rewrite()
        assert store.feed.indexable() == 0
        store.ping()
