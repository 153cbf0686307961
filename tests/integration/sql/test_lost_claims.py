"""A process that lost its claims leaves no older state in an index than another process wrote."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg
import pytest
from pydantic import SecretStr

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.index_entries import LexicalManifest
from memsvc.engine.indexing.cached_embedder import CachedEmbedder
from memsvc.engine.indexing.index_writers import LexicalIndexWriter
from memsvc.engine.indexing.indexer import ChangeApplier, LexicalCatchUp
from memsvc.engine.indexing.reindex import IndexRebuilder
from memsvc.engine.indexing.vector_entries import EmbeddingGranularity, VectorEntries
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.ports.plugin import BackendContext
from memsvc.testing import factories
from memsvc.testing.store_harness import ADA, insert, revise
from memsvc_backends.in_memory import EMBEDDER, LEXICAL
from memsvc_backends.qdrant_server import SPARSE
from memsvc_backends.sql import SQL, SqlSettings
from tests.support.postgres_server import emptied
from tests.support.qdrant_fake import Fault, Keeper, served
from tests.support.until import until

END = (
    "SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE locktype = 'advisory' AND classid = 1835363701 "
    "AND pid <> pg_backend_pid()"
)


def test_nothing_is_written_of_what_another_process_may_have_been_lent(context: BackendContext) -> None:
    """The changes stay pending, for whoever is lent them next."""
    with ExitStack() as stack:
        url = stack.enter_context(emptied("lost_claims"))
        connection = stack.enter_context(psycopg.connect(url, autocommit=True))
        store = stack.enter_context(SQL.open(SqlSettings(url=SecretStr(url)), context))
        index = stack.enter_context(LEXICAL.open(LEXICAL.settings(), context))
        made = index.begin(LexicalManifest(1, 0, "a"))
        made.seal()
        index.switch(made)
        embedder = stack.enter_context(EMBEDDER.open(EMBEDDER.settings(), context))
        entries = VectorEntries(CachedEmbedder(embedder, store.embeddings), EmbeddingGranularity.S, SearchPriority())
        side = LexicalIndexWriter(index, SearchPriority())
        change_applier = ChangeApplier(store.feed, side, side, entries)
        stack.callback(change_applier.close)
        insert(store, factories.memory("tea"))

        with pytest.raises(BackendUnavailableError), store.feed.claim((), limit=9) as lent:
            connection.execute(END)
            list(change_applier.apply(lent))
        assert (index.count(), store.feed.pending_count()) == (0, 1)

        with store.feed.claim((), limit=9) as lent:
            list(change_applier.apply(lent))
        assert index.count() == 1


class Replica:
    """A process with a store and an index of words that others share."""

    def __init__(self, stack: ExitStack, url: str, port: int, context: BackendContext) -> None:
        self.store = stack.enter_context(SQL.open(SqlSettings(url=SecretStr(url)), context))
        settings = SPARSE.settings.model_validate({"url": f"http://127.0.0.1:{port}"})
        self.index = stack.enter_context(SPARSE.open(settings, context))
        embedder = stack.enter_context(EMBEDDER.open(EMBEDDER.settings(), context))
        entries = VectorEntries(
            CachedEmbedder(embedder, self.store.embeddings), EmbeddingGranularity.S, SearchPriority()
        )
        self.writer = LexicalIndexWriter(self.index, SearchPriority())
        self.applier = ChangeApplier(self.store.feed, self.writer, self.writer, entries)
        stack.callback(self.applier.close)
        self.rebuilder = IndexRebuilder(self.store.feed, self.applier)

    def rebuild(self) -> None:
        """Build a generation, and make it the live one."""
        for _ in self.rebuilder.run(self.writer):
            pass

    def apply(self) -> int:
        """Apply what is pending; return the number of changes."""
        with self.store.feed.claim((), limit=9) as claimed:
            for part in self.applier.apply(claimed):
                self.store.feed.mark_applied(part)
        return len(claimed)

    def apply_words(self) -> int:
        """Write the words of pending changes, as without a model."""
        return LexicalCatchUp(self.store.feed, self.applier).catch_up(0, should_stop=lambda: False)

    def finds(self, word: str) -> bool:
        """Return whether a memory is found by a word."""
        return bool(self.index.search([word], reach=ADA, limit=9, deadline=Deadline()))


class Shared:
    """Two processes over one PostgreSQL and one Qdrant."""

    def __init__(self, stack: ExitStack, context: BackendContext) -> None:
        url = stack.enter_context(emptied("lost_claims"))
        self.observer = stack.enter_context(psycopg.connect(url, autocommit=True))
        self.keeper = Keeper()
        port = stack.enter_context(served(self.keeper))
        self.one, self.other = (Replica(stack, url, port, context) for _ in range(2))

    @contextmanager
    def late(self, call: str, work: Callable[[], Any]) -> Iterator[None]:
        """Have *call* of *work* reach Qdrant after the context; *work* has lost its claims by then, and meets that."""
        release = threading.Event()
        self.keeper.calls.clear()
        self.keeper.faults[call] = Fault(release=release)
        with ThreadPoolExecutor(1) as pool:
            try:
                working = pool.submit(work)
                until(lambda: self.keeper.calls[call])
                del self.keeper.faults[call]
                self.observer.execute(END)
                yield
            finally:
                release.set()
            with pytest.raises(BackendUnavailableError):
                working.result()


@pytest.fixture
def shared(context: BackendContext) -> Iterator[Shared]:
    """Open the processes, with an empty index."""
    with ExitStack() as stack:
        made = Shared(stack, context)
        made.one.rebuild()
        yield made


@pytest.mark.parametrize("method", [Replica.apply, Replica.apply_words])
def test_an_older_state_that_is_written_late_is_replaced(shared: Shared, method: Callable[[Replica], int]) -> None:
    """The process that wrote it makes its changes pending again, and any process applies the present state."""
    one, other = shared.one, shared.other
    [memory] = insert(one.store, factories.memory("earlier"))
    with shared.late("UpdateBatch", lambda: method(one)):
        revise(other.store, memory, content="later")
        assert other.apply() == 2
        assert (other.finds("later"), other.finds("earlier")) == (True, False)

    assert (other.finds("later"), other.finds("earlier")) == (False, True)
    assert other.apply() == 1
    assert (other.finds("later"), other.finds("earlier")) == (True, False)
    assert other.apply() == 0


def test_changes_are_reopened_after_the_process_that_claimed_them_has_marked_them(shared: Shared) -> None:
    """Its mark would hide that the older state came after its own."""
    one, other = shared.one, shared.other
    [memory] = insert(one.store, factories.memory("earlier"))
    with ExitStack() as claims:
        with shared.late("UpdateBatch", one.apply):
            revise(other.store, memory, content="later")
            claimed = claims.enter_context(other.store.feed.claim((), limit=9))
            for _ in other.applier.apply(claimed):
                pass
        other.store.feed.mark_applied(claimed)
        assert one.apply() == 0

    assert one.apply() == 1
    assert (one.finds("later"), one.finds("earlier")) == (True, False)


def test_a_generation_that_goes_live_late_gets_what_was_applied_to_the_one_before(shared: Shared) -> None:
    """Its process had kept others from applying changes until it lost its connection."""
    one, other = shared.one, shared.other
    insert(one.store, factories.memory("earlier"))
    assert other.apply() == 1
    with shared.late("UpdateAliases", one.rebuild):
        insert(other.store, factories.memory("later"))
        assert other.apply() == 1
        assert other.finds("later")

    until(lambda: not other.finds("later"))
    assert other.apply() == 1
    assert other.finds("later")
