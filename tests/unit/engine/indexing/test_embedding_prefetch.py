"""Embedding ahead: what comes next is embedded while what comes first is written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memsvc.domain.errors import BackendClosedError
from memsvc.domain.index_entries import Change, ChangeAction, Chunk, Document
from memsvc.engine.indexing.cached_embedder import CachedEmbedder
from memsvc.engine.indexing.vector_entries import (
    EmbeddingBatch,
    EmbeddingGranularity,
    EmbeddingPrefetcher,
    VectorEntries,
)
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.ports.metadata import MetadataStore
from memsvc.ports.models import Embedder
from memsvc.ports.plugin import BackendContext
from memsvc.testing.factories import NOW, memory
from memsvc_backends.in_memory import EMBEDDER
from tests.support.sqlite_store import sqlite_store


@contextmanager
def ahead_of(store: MetadataStore, embedder: Embedder) -> Iterator[EmbeddingPrefetcher]:
    """Open what is tested."""
    ahead = EmbeddingPrefetcher(
        VectorEntries(CachedEmbedder(embedder, store.embeddings), EmbeddingGranularity.S, SearchPriority())
    )
    try:
        yield ahead
    finally:
        ahead.close()


@pytest.fixture
def context(tmp_path: Path) -> BackendContext:
    return BackendContext(tmp_path, lambda: NOW)


def part(first: int, *, costly: int = 3) -> EmbeddingBatch:
    """Return a part of three memories of their own."""
    documents = [
        Document(one, (Chunk(0, one.content, (), 1, 1),))
        for one in (memory(f"Zebra number {row}", row=row) for row in range(first, first + 3))
    ]
    changes = [Change(one.memory.row, one.memory.row, one.memory.id, ChangeAction.CREATED, 1, 0) for one in documents]
    return EmbeddingBatch(changes, documents, costly)


def never() -> bool:
    return False


def test_a_part_comes_in_its_turn_and_embedded(context: BackendContext) -> None:
    """However many there are: when one comes, its vectors are stored, and all are when the last has come."""
    with sqlite_store(context.directory) as store, EMBEDDER.open(EMBEDDER.settings(), context) as embedder:
        parts = [part(first) for first in range(1, 31, 3)]
        counts = []
        with ahead_of(store, embedder) as ahead:
            for number, one in enumerate(ahead.iterate(parts, never)):
                assert one is parts[number]
                counts.append(store.embeddings.count(embedder.model))

        assert all(count >= 3 * (number + 1) for number, count in enumerate(counts))
        assert store.embeddings.count(embedder.model) == 30


def test_what_need_not_be_embedded_is_not(context: BackendContext) -> None:
    """Nor is a memory alone, which is embedded where it is written."""
    with sqlite_store(context.directory) as store, EMBEDDER.open(EMBEDDER.settings(), context) as embedder:
        parts = [part(1, costly=0), part(4, costly=1)]
        with ahead_of(store, embedder) as ahead:
            assert list(ahead.iterate(parts, never)) == parts

        assert store.embeddings.count(embedder.model) == 0


def test_who_leaves_early_leaves_the_rest_alone(context: BackendContext) -> None:
    """Only what was begun is finished."""
    with sqlite_store(context.directory) as store, EMBEDDER.open(EMBEDDER.settings(), context) as embedder:
        with ahead_of(store, embedder) as ahead:
            steps = ahead.iterate([part(first) for first in range(1, 301, 3)], never)
            next(steps)
            steps.close()

        assert 3 <= store.embeddings.count(embedder.model) <= 9


def test_what_is_embedded_comes_whatever_is_more_urgent(
    context: BackendContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else an import would stand still beside single writes that never end, though its vectors are made."""
    monkeypatch.setattr("memsvc.engine.indexing.vector_entries.POLL_SECONDS", 30.0)
    with sqlite_store(context.directory) as store, EMBEDDER.open(EMBEDDER.settings(), context) as embedder:
        parts = [part(first) for first in range(1, 31, 3)]
        with ahead_of(store, embedder) as ahead:
            assert list(ahead.iterate(parts, lambda: True)) == parts


def test_an_embedder_that_is_gone_is_told_of_in_its_turn(context: BackendContext) -> None:
    """The error comes when the part is asked for."""
    with sqlite_store(context.directory) as store, EMBEDDER.open(EMBEDDER.settings(), context) as embedder:
        known, unknown = part(1), part(4)
        with ahead_of(store, embedder) as ahead:
            assert list(ahead.iterate([known], never)) == [known]
    with sqlite_store(context.directory) as store, ahead_of(store, embedder) as ahead:
        steps = ahead.iterate([part(1, costly=0), unknown], never)
        next(steps)

        with pytest.raises(BackendClosedError):
            next(steps)
