"""Processes that share an index and have different models, as while a new one is brought in: no change is left out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import SecretStr

from memsvc.domain.errors import BackendUnavailableError
from memsvc.engine.indexing.cached_embedder import CachedEmbedder
from memsvc.engine.indexing.index_writers import LexicalIndexWriter, VectorIndexWriter
from memsvc.engine.indexing.indexer import ChangeApplier
from memsvc.engine.indexing.reindex import IndexRebuilder
from memsvc.engine.indexing.vector_entries import EmbeddingGranularity, EmbeddingSpace, EmbeddingSpaces, VectorEntries
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.ports.metadata import MetadataStore, Record
from memsvc.ports.plugin import BackendContext
from memsvc.testing.factories import memory
from memsvc_backends.in_memory import EMBEDDER, LEXICAL
from memsvc_backends.postgres_index import PGVECTOR
from memsvc_backends.postgres_index.settings import PgvectorSettings
from tests.support.postgres_server import without_tables
from tests.support.sqlite_store import sqlite_store

CONTEXT = BackendContext(Path(), lambda: datetime.now(UTC))


class Process:
    """A process with one model, over the store and the database of all."""

    def __init__(self, stack: ExitStack, url: str, store: MetadataStore, dimension: int) -> None:
        settings = EMBEDDER.settings.model_validate({"dimension": dimension})
        embedding = CachedEmbedder(stack.enter_context(EMBEDDER.open(settings, CONTEXT)), store.embeddings)
        entries = VectorEntries(embedding, EmbeddingGranularity.S, SearchPriority())
        self.index = stack.enter_context(PGVECTOR.open(PgvectorSettings(url=SecretStr(url)), CONTEXT))
        self.side = VectorIndexWriter(
            self.index, EmbeddingSpaces(EmbeddingSpace(embedding, entries)), EmbeddingGranularity.S
        )
        self._store = store
        lexical = stack.enter_context(LEXICAL.open(LEXICAL.settings(), CONTEXT))
        self._change_applier = ChangeApplier(
            store.feed, self.side, LexicalIndexWriter(lexical, SearchPriority()), entries
        )
        stack.callback(self._change_applier.close)

    def build(self) -> None:
        """Build the index with this process's model."""
        list(IndexRebuilder(self._store.feed, self._change_applier).run(self.side))

    def apply(self) -> int:
        """Apply what is pending and note it; return how many changes that were."""
        done = 0
        for part in self._change_applier.apply(self._store.feed.pending_changes(limit=9)):
            self._store.feed.mark_applied(part)
            done += len(part)
        return done


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Hold what is open."""
    with ExitStack() as stack:
        yield stack


def test_a_process_left_behind_by_another_model_leaves_changes_to_those_who_have_it(
    stack: ExitStack, tmp_path: Path
) -> None:
    """It neither notes them as applied nor builds the index back; started anew, it would."""
    url = without_tables("models")
    store = stack.enter_context(sqlite_store(tmp_path))
    old, new = (Process(stack, url, store, dimension) for dimension in (32, 64))
    old.build()
    assert (old.side.is_current(), new.side.is_current(), new.side.is_stale()) == (True, False, True)
    new.build()
    assert new.side.is_current()
    old.index.ping()

    with store.transaction() as transaction:
        transaction.insert([Record(memory("walrus swims"))])
    with pytest.raises(BackendUnavailableError, match="another model"):
        old.apply()

    assert not old.side.is_stale()
    assert not old.side.needs_refresh(10_000)
    assert new.apply() == 1
    assert new.index.count() > 0
    assert Process(stack, url, store, 32).side.is_stale()
