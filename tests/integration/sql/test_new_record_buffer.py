"""New memories go to the indexer without being read from the database, and are what is in it all the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memsvc.domain.index_entries import ChangeAction, Chunk, Document
from memsvc.ports.metadata import Record
from memsvc.testing import factories
from memsvc.testing.store_harness import insert, purge, revise
from memsvc.testing.store_writes import full_memory
from memsvc_backends.sql import SqlMetadataStore
from memsvc_backends.sql.index_feed import NewRecordBuffer


def fresh_record(row: int) -> Record:
    """Return a record as `NewRecordBuffer` gets it."""
    return Record(factories.memory(row=row))


def test_what_is_fresh_is_what_is_stored(store: SqlMetadataStore) -> None:
    """The first time documents come from memory, the second time from the database: both times they are the same."""
    talk = [Record(factories.memory(f"line {n}\nof it", session_id="s"), given_vector=b"\x01" * 8) for n in range(3)]
    long = Record(factories.memory("long"), chunks=(Chunk(0, "lo", (), 1, 1), Chunk(1, "ng", ("h",), 1, 1)))
    written = [memory.row for memory in insert(store, *talk, long, full_memory())]

    first, second = ({d.memory.row: d for d in store.feed.documents(written)} for _ in range(2))

    assert sorted(first) == written
    assert first == second


def test_a_line_before_is_found_wherever_it_is(store: SqlMetadataStore) -> None:
    """It may have been taken already, or be asked for in the same breath."""
    one, two, three = insert(store, *(factories.memory(f"{n}", session_id="s") for n in range(3)))
    store.feed.documents([one.row])

    assert [document.previous for document in store.feed.documents([three.row, two.row])] == [two, one]


def test_changes_are_seen_at_once(store: SqlMetadataStore) -> None:
    """Whatever happens to a memory before the indexer asks for it, it gets the state that is stored."""
    changed, purged, counted = insert(store, *(factories.memory(f"{n}") for n in range(3)))
    after = revise(store, changed, title="T")
    purge(store, purged)
    with store.transaction() as transaction:
        transaction.add_accesses({counted.id: (2, factories.NOW)})

    found = {d.memory.row: d.memory for d in store.feed.documents([changed.row, purged.row, counted.row])}

    assert found == {
        changed.row: after,
        counted.row: replace(counted, access_count=2, access_time=factories.NOW),
    }


def test_a_memory_changed_where_it_was_inserted_is_the_changed_one(store: SqlMetadataStore) -> None:
    """One transaction may do both."""
    with store.transaction() as transaction:
        [memory] = transaction.insert([Record(factories.memory("x"))])
        after = replace(memory, title="T", revision=2)
        transaction.update(memory, Record(after), ChangeAction.UPDATED)

    assert [document.memory for document in store.feed.documents([memory.row])] == [after]


def test_what_was_taken_back_is_gone(store: SqlMetadataStore) -> None:
    """A row number that a part had which failed goes to another memory; one of a failed transaction to none yet."""
    with store.transaction() as transaction:
        with pytest.raises(LookupError), transaction.savepoint():
            transaction.insert([Record(factories.memory("first")), Record(factories.memory("second"))])
            raise LookupError
        [memory] = transaction.insert([Record(factories.memory("third"))])
    with pytest.raises(LookupError), store.transaction() as transaction:
        transaction.insert([Record(factories.memory("fourth"))])
        raise LookupError

    found = store.feed.documents(range(1, 9))

    assert found == [Document(memory, (Chunk(0, "third", (), 1, 1),))]


def test_only_so_many_are_kept() -> None:
    """Those that are asked for next stay; whoever wants the newer ones reads the database."""
    fresh = NewRecordBuffer(capacity=3)

    fresh.keep(map(fresh_record, (1, 2)))
    fresh.keep(map(fresh_record, (3, 4)))

    assert list(fresh.take([1, 2, 4])) == [1, 2]
    fresh.keep(map(fresh_record, (5,)))
    assert list(fresh.take([5, 4, 3])) == [5, 3]
