"""Several threads and one model: no passage is embedded twice, and a single write does not wait for an import."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memsvc.bootstrap.app import running
from memsvc.domain.clock import Deadline
from memsvc.domain.diagnostics import IndexKind, ReindexMode, ReindexPhase
from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.scope import Scope
from memsvc.domain.search import Mode, SearchQuery
from memsvc.domain.write_requests import Draft, OnDuplicate, WaitFor, WriteOptions
from memsvc.engine.indexing.cached_embedder import CachedEmbedder
from memsvc.engine.services import Services
from memsvc.ports.plugin import BackendContext
from memsvc.settings import load_settings
from memsvc.testing.factories import NOW
from memsvc_backends.openai import EMBEDDER, OpenAiEmbedderSettings
from tests.support.http_stub import Endpoint, Reply, failed
from tests.support.openai_embeddings_stub import DIMENSION, answered, vector_of
from tests.support.sqlite_store import SQLITE, sqlite_store
from tests.support.until import until

ADA = Scope("ada")
STORED = WriteOptions(wait_for=WaitFor.STORED)
IN_MEMORY = {"backend": "in-memory"}
PATIENCE = 60.0


def told(endpoint: Endpoint) -> dict[str, Any]:
    """Return the options of a model at the endpoint."""
    return {"base_url": endpoint.url, "model": "m", "dimensions": DIMENSION, "retries": 0}


@pytest.fixture
def embedding(endpoint: Endpoint, tmp_path: Path) -> Iterator[CachedEmbedder]:
    """A model at the endpoint, behind its cache."""
    context = BackendContext(tmp_path, lambda: NOW)
    settings = OpenAiEmbedderSettings(**told(endpoint))
    with sqlite_store(tmp_path) as store, EMBEDDER.open(settings, context) as embedder:
        yield CachedEmbedder(embedder, store.embeddings)


def asked(endpoint: Endpoint) -> list[str]:
    """Return every text that the model was asked for."""
    return [text for body in endpoint.asked for text in body["input"]]


def test_what_another_thread_embeds_is_waited_for(endpoint: Endpoint, embedding: CachedEmbedder) -> None:
    """Both get the vectors, and the model is asked for each text once."""
    endpoint.held.clear()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(embedding.passages, ["tea", "harbour"])
        until(lambda: len(endpoint.asked) == 1)
        second = pool.submit(embedding.passages, ["harbour", "kettle", "tea"])
        until(lambda: len(endpoint.asked) == 2)
        endpoint.held.set()

        lengths = [np.linalg.norm(vector_of(text)) for text in ("tea", "harbour")]
        expected = np.array([vector_of(text) for text in ("tea", "harbour")]) / np.array(lengths)[:, None]
        assert np.allclose(first.result(), expected, atol=1e-6)
        assert np.array_equal(second.result()[[2, 0]], first.result())
    assert sorted(asked(endpoint)) == ["harbour", "kettle", "tea"]


def test_what_the_model_has_in_hand_is_stored_before_it_is_removed(
    endpoint: Endpoint, embedding: CachedEmbedder
) -> None:
    """Else the vector of an erased text would be stored after the others were removed."""
    digest = hashlib.sha256(b"tea").digest()
    endpoint.held.clear()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(embedding.passages, ["tea"])
        until(lambda: len(endpoint.asked) == 1)
        watching = threading.Event()

        def look() -> tuple[bool, set[bytes]]:
            watching.set()
            with embedding.track_requests() as others:
                return digest in embedding.stored_vectors([digest]), set(others)

        second = pool.submit(look)
        assert watching.wait(PATIENCE)
        assert not wait([second], 0.2).done
        endpoint.held.set()

        assert second.result(PATIENCE) == (True, set())
        first.result(PATIENCE)


def test_what_another_thread_failed_to_embed_is_embedded(endpoint: Endpoint, embedding: CachedEmbedder) -> None:
    """The failure is told to the one that met it, and to nobody else."""
    refused = [["tea"]]

    def once_refused(body: dict[str, Any]) -> Reply:
        if body["input"] in refused:
            refused.clear()
            return failed(422)
        return answered(body)

    endpoint.otherwise = once_refused
    endpoint.held.clear()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(embedding.passages, ["tea"])
        until(lambda: len(endpoint.asked) == 1)
        second = pool.submit(embedding.passages, ["kettle", "tea"])
        until(lambda: len(endpoint.asked) == 2)
        endpoint.held.set()

        with pytest.raises(BackendUnavailableError):
            first.result()
        assert second.result().shape == (2, DIMENSION)
    assert asked(endpoint) == ["tea", "kettle", "tea"]


@contextmanager
def served(directory: Path, endpoint: Endpoint) -> Iterator[Services]:
    """Run an engine whose model is at the endpoint."""
    settings = load_settings(
        data_dir=directory,
        metadata=SQLITE,
        vectors=IN_MEMORY,
        lexical=IN_MEMORY,
        embedder={"backend": "openai", "options": told(endpoint)},
        indexing={"upkeep_seconds": 3600},
    )
    with running(settings) as application:
        yield application


@contextmanager
def holding(endpoint: Endpoint, word: str) -> Iterator[threading.Event]:
    """Have the model not answer for texts with *word* while the context is open; the event says that it was asked."""
    reached, released = threading.Event(), threading.Event()

    def otherwise(body: dict[str, Any]) -> Reply:
        if any(word in text for text in body["input"]):
            reached.set()
            released.wait(PATIENCE)
        return answered(body)

    endpoint.otherwise = otherwise
    try:
        yield reached
    finally:
        released.set()


def add(application: Services, contents: list[str]) -> int:
    """Import, and return the position of the last one."""
    run = application.bulk_importer.begin(ADA, request_id="", on_duplicate=OnDuplicate.RETURN_EXISTING)
    return run.add(0, [Draft(content=content) for content in contents]).position


def found(application: Services, text: str, mode: Mode) -> list[str]:
    reply = application.search.search(SearchQuery(scope=ADA, text=text, mode=mode, limit=1), Deadline())
    return [hit.memory.content for hit in reply.hits]


@pytest.mark.parametrize(
    ("content", "query"), [("Anna works as a nurse in Lisbon.", "nurse"), ("小明最喜欢的电影是《流浪地球》。", "电影")]
)
def test_a_single_write_does_not_wait_for_an_import(
    endpoint: Endpoint, tmp_path: Path, content: str, query: str
) -> None:
    """While the model is at the passages of an import, a write that is waited for is embedded and found."""
    with served(tmp_path, endpoint) as application:
        with holding(endpoint, "harbour") as reached:
            position = add(application, [f"The harbour, part {number}." for number in range(100)])
            assert reached.wait(PATIENCE)

            written = application.memory_creator.create(ADA, Draft(content=content), STORED)
            application.indexer.when_applied(written.position).result(PATIENCE)

            assert found(application, query, Mode.KEYWORD) == [content]
            assert found(application, content, Mode.SEMANTIC) == [content]
            assert application.indexer.applied_position < position
        application.indexer.when_reached(position).result(PATIENCE)
        assert len(harbours(endpoint)) == 100


def test_an_import_goes_on_beside_writes_that_never_end(endpoint: Endpoint, tmp_path: Path) -> None:
    """However many wait by name at any moment, what came before them is indexed too."""
    over = threading.Event()

    def write(application: Services, name: int) -> int:
        count = 0
        while not over.is_set():
            written = application.memory_creator.create(ADA, Draft(content=f"Kettle {count} of {name}."), STORED)
            application.indexer.when_applied(written.position).result(PATIENCE)
            count += 1
        return count

    with served(tmp_path, endpoint) as application, ThreadPoolExecutor(6) as pool:
        writers = [pool.submit(write, application, number) for number in range(6)]
        try:
            until(lambda: len(endpoint.asked) > 20)
            position = add(application, [f"The harbour, part {number}." for number in range(200)])
            application.indexer.when_reached(position).result(PATIENCE)
        finally:
            over.set()
        assert all(writer.result() for writer in writers)


def test_a_rebuild_beside_an_import_embeds_nothing_twice(endpoint: Endpoint, tmp_path: Path) -> None:
    """Both need the same vectors, and have the model make them once."""
    with served(tmp_path, endpoint) as application, ThreadPoolExecutor(1) as pool:
        with holding(endpoint, "harbour") as reached:
            position = add(application, [f"The harbour, part {number}." for number in range(100)])
            assert reached.wait(PATIENCE)
            until(lambda: len(harbours(endpoint)) == 64)
            run = pool.submit(lambda: list(application.reindex.run([IndexKind.VECTORS], ReindexMode.REBUILD)))
            until(lambda: len(harbours(endpoint)) > 64)
        application.indexer.when_reached(position).result(PATIENCE)

        assert run.result()[-1].phase is ReindexPhase.DONE
        assert sorted(harbours(endpoint)) == sorted(set(harbours(endpoint)))
        assert len(harbours(endpoint)) == 100


def harbours(endpoint: Endpoint) -> list[str]:
    """Return the texts of the import that the model was asked for."""
    return [text for text in asked(endpoint) if "harbour" in text]
