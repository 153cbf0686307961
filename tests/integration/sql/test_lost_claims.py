"""A process that lost what it was lent, while a model embedded it, writes nothing of it."""

from __future__ import annotations

from contextlib import ExitStack

import psycopg
import pytest
from pydantic import SecretStr

from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.index_entries import LexicalManifest
from memsvc.engine.indexing.cached_embedder import CachedEmbedder
from memsvc.engine.indexing.index_writers import LexicalIndexWriter
from memsvc.engine.indexing.indexer import ChangeApplier
from memsvc.engine.indexing.vector_entries import EmbeddingGranularity, VectorEntries
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.ports.plugin import BackendContext
from memsvc.testing import factories
from memsvc.testing.store_harness import insert
from memsvc_backends.in_memory import EMBEDDER, LEXICAL
from memsvc_backends.sql import SQL, SqlSettings
from tests.support.postgres_server import emptied

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
