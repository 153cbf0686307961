"""Words written ahead where processes share a store: nothing that another process is applying, or has applied."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from pydantic import SecretStr

from memsvc.domain.clock import Deadline
from memsvc.domain.diagnostics import ReindexPhase
from memsvc.domain.index_entries import LexicalManifest
from memsvc.domain.scope import Reach, Scope
from memsvc.engine.indexing.cached_embedder import CachedEmbedder
from memsvc.engine.indexing.index_writers import LexicalIndexWriter
from memsvc.engine.indexing.indexer import ChangeApplier, LexicalCatchUp
from memsvc.engine.indexing.reindex import IndexRebuilder
from memsvc.engine.indexing.vector_entries import EmbeddingGranularity, VectorEntries
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.ports.indexes import LexicalIndex
from memsvc.ports.metadata import MetadataStore, Record
from memsvc.ports.plugin import BackendContext
from memsvc.testing import factories
from memsvc.testing.store_harness import ADA, OWNER, insert
from memsvc_backends.in_memory import EMBEDDER, LEXICAL
from memsvc_backends.sql import SQL, SqlSettings
from tests.support.postgres_server import emptied


class Bench:
    """One process whose model is away, with an index of words, and the store as another process has it."""

    def __init__(self, stack: ExitStack, url: str, context: BackendContext) -> None:
        settings = SqlSettings(url=SecretStr(url))
        self.store: MetadataStore = stack.enter_context(SQL.open(settings, context))
        self.other: MetadataStore = stack.enter_context(SQL.open(settings, context))
        self.index: LexicalIndex = stack.enter_context(LEXICAL.open(LEXICAL.settings(), context))
        embedder = stack.enter_context(EMBEDDER.open(EMBEDDER.settings(), context))
        made = self.index.begin(LexicalManifest(1, 0, "a"))
        made.seal()
        self.index.switch(made)
        self.side = side = LexicalIndexWriter(self.index, SearchPriority())
        entries = VectorEntries(
            CachedEmbedder(embedder, self.store.embeddings), EmbeddingGranularity.S, SearchPriority()
        )
        change_applier = ChangeApplier(self.store.feed, side, side, entries)
        stack.callback(change_applier.close)
        self.words = LexicalCatchUp(self.store.feed, change_applier)
        self.rebuild = IndexRebuilder(self.store.feed, change_applier)

    def found(self, reach: Reach = ADA) -> list[int]:
        """Return the rows of the memories that tell of tea."""
        hits = self.index.search(["tea"], reach=reach, limit=9, deadline=Deadline())
        return sorted(hit.entry_id >> 16 for hit in hits)


@pytest.fixture
def bench(context: BackendContext) -> Iterator[Bench]:
    """Open the same database twice, as two processes would."""
    with emptied("ahead") as url, ExitStack() as stack:
        yield Bench(stack, url, context)


def _never() -> bool:
    return False


def test_what_another_process_is_applying_is_left_to_it(bench: Bench) -> None:
    """What was read before it did may be older than what it wrote, and nothing would be pending to mend that."""
    insert(bench.store, factories.memory("tea one"))
    with bench.other.feed.claim((), limit=9) as lent:
        assert len(lent) == 1
        insert(bench.store, factories.memory("tea two"))
        assert bench.words.catch_up(0, should_stop=_never) == 2
        assert len(bench.found()) == 1
        bench.other.feed.mark_applied(lent)

    assert bench.store.feed.pending_count() == 1


def test_what_another_process_has_applied_is_not_written_again(bench: Bench) -> None:
    """Only what is pending is written ahead, however much of it there is."""
    insert(bench.store, *(factories.memory(f"tea {number}") for number in range(300)))
    with bench.other.feed.claim((), limit=10) as lent:
        bench.other.feed.mark_applied(lent)

    assert bench.words.catch_up(0, should_stop=_never) == 300
    assert bench.index.count() == 290


def test_a_change_that_is_committed_late_is_in_the_new_generation(bench: Bench) -> None:
    """Its position is before the newest one when the rebuild begins, and another process applies it before the end."""
    ben = Scope("ben")
    with bench.other.transaction(owners={ben.owner}) as late:
        late.insert([Record(factories.memory("tea late", user_id="ben"))])
        with bench.store.transaction(owners={OWNER}) as early:
            early.insert([Record(factories.memory("tea early"))])
        assert late.position < bench.store.feed.head_position()
        steps = bench.rebuild.run(bench.side)
        while next(steps).phase is not ReindexPhase.CATCHING_UP:
            pass
    with bench.other.feed.claim((), limit=9) as lent:
        assert len(lent) == 2
        bench.other.feed.mark_applied(lent)

    assert [step.phase for step in steps] == [ReindexPhase.SWITCHED]
    assert len(bench.found()) == len(bench.found(Reach.from_scope(ben))) == 1
