"""Repair: an index that differs from the store is found out, and mended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from memsvc.domain.index_entries import ChangeAction, LexicalEntry, View, entry_id
from memsvc.engine.indexing.cached_embedder import CachedEmbedder
from memsvc.engine.indexing.index_writers import LexicalIndexWriter
from memsvc.engine.indexing.indexer import ChangeApplier
from memsvc.engine.indexing.reindex import IndexRebuilder
from memsvc.engine.indexing.repair import IndexDifferences, IndexRepairer
from memsvc.engine.indexing.vector_entries import EmbeddingGranularity, VectorEntries
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.ports.indexes import LexicalIndex, ListedEntry
from memsvc.ports.metadata import MetadataStore, Record
from memsvc.ports.plugin import BackendContext
from memsvc.testing.factories import NOW, attributes, memory
from memsvc_backends.in_memory import EMBEDDER, LEXICAL
from tests.support.sqlite_store import sqlite_store


@dataclass
class Bench:
    """A store and an index with the means to compare and mend."""

    store: MetadataStore
    index: LexicalIndex
    side: LexicalIndexWriter
    repair: IndexRepairer

    def differences(self) -> IndexDifferences:
        return self.repair.compare(self.side)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Three memories, indexed."""
    context = BackendContext(tmp_path, lambda: NOW)
    with (
        sqlite_store(tmp_path) as store,
        LEXICAL.open(LEXICAL.settings(), context) as index,
        EMBEDDER.open(EMBEDDER.settings(), context) as embedder,
    ):
        side = LexicalIndexWriter(index, SearchPriority())
        entries = VectorEntries(CachedEmbedder(embedder, store.embeddings), EmbeddingGranularity.S, SearchPriority())
        applying = ChangeApplier(store.feed, side, side, entries)
        with store.transaction() as transaction:
            transaction.insert([Record(memory(f"Zebra number {number}")) for number in range(3)])
        list(IndexRebuilder(store.feed, applying).run(side))
        store.feed.mark_applied(store.feed.pending_changes(limit=10))
        yield Bench(store, index, side, IndexRepairer(store.feed, applying))
        applying.close()


def test_equal_index_and_store_do_not_differ(bench: Bench) -> None:
    """A sound index has no differences."""
    assert IndexDifferences(3, 3, (), (), ()) == bench.differences()


def test_missing_stale_and_orphaned_entries_are_told_apart_and_mended(bench: Bench) -> None:
    """Each sort of damage is named, and afterwards there is none."""
    orphan = LexicalEntry(entry_id(99, View.CHUNK, 0), ["zebra"], attributes(99))
    outdated = LexicalEntry(entry_id(2, View.CHUNK, 0), ["zebra"], attributes(2))
    bench.index.replace({1: [], 2: [outdated], 99: [orphan]})

    found = bench.differences()
    steps = list(bench.repair.repair(bench.side, found))

    assert (found.missing, found.stale, found.orphaned) == ((1,), (2,), (99,))
    assert steps[-1].done == 3
    assert IndexDifferences(3, 3, (), (), ()) == bench.differences()


def test_a_change_that_waits_for_the_indexer_is_no_difference(bench: Bench) -> None:
    """What the indexer is about to do is not reported as damage."""
    with bench.store.transaction() as transaction:
        before = bench.store.feed.documents([1])[0].memory
        after = replace(before, content="changed", revision=2, update_time=NOW + timedelta(1))
        transaction.update(before, Record(after), ChangeAction.UPDATED)

    assert IndexDifferences(3, 3, (), (), ()) == bench.differences()


def test_a_change_while_the_index_is_read_is_no_difference(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is stored and indexed after the index was listed, and before the store is read; damage is still found."""
    listed = bench.index.inventory

    def list_then_write() -> Iterator[ListedEntry]:
        yield from listed()
        with bench.store.transaction() as transaction:
            transaction.insert([Record(memory(f"Written meanwhile, {uuid4()}"))])
        changes = bench.store.feed.pending_changes(limit=10)
        rows = [change.row for change in changes]
        bench.side.write(rows, bench.store.feed.documents(rows))
        bench.store.feed.mark_applied(changes)
        monkeypatch.setattr(bench.index, "inventory", listed)

    monkeypatch.setattr(bench.index, "inventory", list_then_write)
    assert IndexDifferences(4, 4, (), (), ()) == bench.differences()

    bench.index.replace({1: []})
    monkeypatch.setattr(bench.index, "inventory", list_then_write)
    assert bench.differences().missing == (1,)
