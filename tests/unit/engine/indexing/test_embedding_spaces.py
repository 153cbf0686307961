"""Another model: the index of the one before answers and takes writes, until the new one is whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.index_entries import ORDINAL_BITS, VIEW_BITS, View, row_of
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.search import SearchQuery
from memsvc.engine.indexing.cached_embedder import CachedEmbedder
from memsvc.engine.indexing.index_writers import VectorIndexWriter
from memsvc.engine.indexing.indexer import ChangeApplier
from memsvc.engine.indexing.reindex import IndexRebuilder
from memsvc.engine.indexing.vector_entries import EmbeddingGranularity, EmbeddingSpace, EmbeddingSpaces, VectorEntries
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.engine.search.retrieval import DenseRetriever, RetrievalRequest
from memsvc.ports.indexes import VectorIndex
from memsvc.ports.metadata import MetadataStore, Record
from memsvc.ports.plugin import BackendContext
from memsvc.testing.factories import NOW, memory
from memsvc_backends.in_memory import EMBEDDER, VECTORS
from tests.support.sqlite_store import sqlite_store

SCOPE = Scope("ada")
REACH = Reach.from_scope(SCOPE)


@dataclass
class Bench:
    """A store, an index of an old model, and both models at hand."""

    store: MetadataStore
    index: VectorIndex
    old: EmbeddingSpace
    new: EmbeddingSpace

    def side(self, spaces: EmbeddingSpaces) -> VectorIndexWriter:
        return VectorIndexWriter(self.index, spaces, EmbeddingGranularity.S)

    def rebuild(self, spaces: EmbeddingSpaces) -> None:
        side = self.side(spaces)
        applying = ChangeApplier(self.store.feed, side, side, spaces.current.entries)
        list(IndexRebuilder(self.store.feed, applying).run(side))
        applying.close()

    def found(self, spaces: EmbeddingSpaces, text: str, **query: object) -> list[int]:
        dense = DenseRetriever(self.index, spaces, threads=1)
        try:
            asked = RetrievalRequest(SearchQuery(SCOPE, text, **query), REACH, None, 3, Deadline())  # type: ignore[arg-type]  # any
            return [row_of(hit.entry_id) for hit in dense.begin(asked, None)().hits[View.CHUNK]]
        finally:
            dense.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Three memories, indexed by the old model."""
    context = BackendContext(tmp_path, lambda: NOW)
    with ExitStack() as stack:
        store = stack.enter_context(sqlite_store(tmp_path))
        index = stack.enter_context(VECTORS.open(VECTORS.settings(), context))

        def space(dimension: int, *, is_current: bool) -> EmbeddingSpace:
            settings = EMBEDDER.settings.model_validate({"dimension": dimension})
            embedding = CachedEmbedder(stack.enter_context(EMBEDDER.open(settings, context)), store.embeddings)
            return EmbeddingSpace(
                embedding, VectorEntries(embedding, EmbeddingGranularity.S, SearchPriority()), is_current
            )

        with store.transaction() as transaction:
            transaction.insert([Record(memory(f"{name} swims")) for name in ("walrus", "gannet", "badger")])
        bench = Bench(store, index, space(64, is_current=False), space(32, is_current=True))
        bench.rebuild(EmbeddingSpaces(EmbeddingSpace(bench.old.embedding, bench.old.entries)))
        yield bench


def views_of(index: VectorIndex) -> set[View]:
    """Return the views that the entries of an index are of."""
    return {View(listed.entry_id >> ORDINAL_BITS & (1 << VIEW_BITS) - 1) for listed in index.inventory()}


def test_the_model_before_answers_and_takes_writes_until_the_switch(bench: Bench) -> None:
    """What is written meanwhile is found at once, and by the new model after it."""
    spaces = EmbeddingSpaces(bench.new, bench.old)
    side = bench.side(spaces)

    assert (True, True) == (side.is_current(), side.is_stale())
    assert bench.found(spaces, "gannet swims")[:1] == [2]
    with bench.store.transaction() as transaction:
        [written] = transaction.insert([Record(memory("marmot sleeps"))])
    side.write([written.row], bench.store.feed.documents([written.row]))
    assert bench.found(spaces, "marmot sleeps")[:1] == [written.row]

    bench.rebuild(spaces)

    assert (True, False) == (side.is_current(), side.is_stale())
    assert bench.index.manifest is not None
    assert (bench.new.embedding.model, 32) == (bench.index.manifest.model, bench.index.manifest.dimension)
    assert bench.found(spaces, "marmot sleeps")[:1] == [written.row]


def test_a_richer_tier_writes_what_the_live_generation_has_views_for(bench: Bench) -> None:
    """Entries of views that it does not have would be found in place of those that it has; the next one has them."""
    with bench.store.transaction() as transaction:
        content = (
            "The marmot sleeps in the winter. The walrus swims far out at sea. The gannet dives for herring all day."
        )
        [written] = transaction.insert([Record(memory(content))])
    spaces = EmbeddingSpaces(
        EmbeddingSpace(
            bench.old.embedding, VectorEntries(bench.old.embedding, EmbeddingGranularity.E, SearchPriority())
        )
    )
    side = VectorIndexWriter(bench.index, spaces, EmbeddingGranularity.E)

    side.write([written.row], bench.store.feed.documents([written.row]))

    assert views_of(bench.index) == {View.CHUNK}
    applying = ChangeApplier(bench.store.feed, side, side, spaces.current.entries)
    list(IndexRebuilder(bench.store.feed, applying).run(side))
    applying.close()
    assert views_of(bench.index) == set(View)


def test_a_search_begun_before_the_switch_ends_in_the_new_space(bench: Bench) -> None:
    """Its query is embedded anew, and it finds what one begun after the switch finds."""
    spaces = EmbeddingSpaces(bench.new, bench.old)
    dense = DenseRetriever(bench.index, spaces, threads=1)
    asked = RetrievalRequest(SearchQuery(SCOPE, "gannet swims"), REACH, None, 3, Deadline())
    bench.old.embedding.query("gannet swims")
    begun = dense.begin(asked, None)

    bench.rebuild(spaces)

    assert begun().hits == dense.begin(asked, None)().hits
    dense.close()


def test_without_the_model_before_searches_by_meaning_wait(bench: Bench) -> None:
    """They are unavailable, which leaves the answer to words; so are vectors of today's model alone."""
    alone, both = EmbeddingSpaces(bench.new), EmbeddingSpaces(bench.new, bench.old)
    vector = tuple(bench.new.embedding.query("gannet").vector)

    assert (False, True) == (bench.side(alone).is_current(), bench.side(alone).is_stale())
    with pytest.raises(BackendUnavailableError, match="being built"):
        bench.found(alone, "gannet swims")
    with pytest.raises(BackendUnavailableError, match="being built"):
        bench.found(both, "", vector=vector)
    assert bench.found(both, "gannet swims", vector=vector)[:1] == [2]
    bench.rebuild(both)
    assert bench.found(both, "", vector=vector)[:1] == [2]


def test_queries_of_both_models_are_cleared(bench: Bench) -> None:
    """The model before answers searches, too, so its cache holds texts."""
    for space in (bench.old, bench.new):
        space.embedding.query("gannet swims")

    EmbeddingSpaces(bench.new, bench.old).clear_text_caches()

    assert [space.embedding.cached_query("gannet swims") for space in (bench.old, bench.new)] == [None, None]
