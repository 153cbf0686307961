"""Memories that were read lately are read from memory, and only while they are what the database holds."""

from __future__ import annotations

from datetime import timedelta

from memsvc.testing.factories import NOW, memory
from memsvc.testing.store_harness import ADA, insert, purge, reach_of, revise
from memsvc_backends.sql.store import SqlMetadataStore


def test_a_memory_that_was_read_is_not_read_again(observed_store: SqlMetadataStore, statements: list[str]) -> None:
    """By its id, alone or among others, until it changes."""
    reads = observed_store.memories
    [tea, milk] = insert(observed_store, memory("tea", id="m1"), memory("milk", id="m2"))
    assert reads.get(["m1", "m1", "nothing"], reach=ADA) == {"m1": tea}
    del statements[:]

    assert reads.get(["m1"], reach=ADA) == {"m1": tea}
    assert reads.by_rows([tea.row], reach=ADA) == {tea.row: tea}
    assert statements == []
    assert reads.get(["m1", "m2"], reach=ADA) == {"m1": tea, "m2": milk}
    assert len(statements) == 1

    changed = revise(observed_store, tea, content="green tea")
    assert reads.get(["m1", "m2"], reach=ADA) == {"m1": changed, "m2": milk}


def test_a_kept_memory_is_no_more_visible_than_a_stored_one(store: SqlMetadataStore) -> None:
    """Not to another user, tenant or project, and to nobody once it is purged."""
    [tea] = insert(store, memory("tea", id="m1"))
    assert store.memories.get(["m1"], reach=ADA) == {"m1": tea}

    assert store.memories.get(["m1"], reach=reach_of("bob")) == {}
    assert store.memories.get(["m1"], reach=reach_of(tenant_id="other")) == {}
    assert store.memories.get(["m1"], reach=reach_of(projects=("elsewhere",))) == {}
    purge(store, tea)
    assert store.memories.get(["m1"], reach=ADA) == {}


def test_counted_accesses_are_seen(store: SqlMetadataStore) -> None:
    """A count is no revision, but belongs to the memory."""
    insert(store, memory("tea", id="m1"))
    before = store.memories.get(["m1"], reach=ADA)["m1"]
    with store.transaction() as transaction:
        transaction.add_accesses({"m1": (2, NOW + timedelta(days=1))})

    after = store.memories.get(["m1"], reach=ADA)["m1"]
    assert (before.access_count, after.access_count) == (0, 2)
    assert after.access_time == NOW + timedelta(days=1)
