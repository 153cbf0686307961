"""While the model is away: what is stored is found by words, searches say so, and nothing is lost when it is back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from memsvc.bootstrap.app import running
from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.scope import Scope
from memsvc.domain.search import Mode, Retriever, SearchQuery, SearchReply
from memsvc.domain.write_requests import Draft, OnDuplicate, WaitFor, WriteOptions
from memsvc.engine.indexing import indexer
from memsvc.engine.services import Services
from memsvc.settings import load_settings
from tests.support.http_stub import Endpoint, failed
from tests.support.openai_embeddings_stub import DIMENSION, answered
from tests.support.sqlite_store import SQLITE
from tests.support.until import until
from tests.unit.engine.support import newest_position

ADA = Scope("ada")
STORED = WriteOptions(wait_for=WaitFor.STORED)
IN_MEMORY = {"backend": "in-memory"}
PATIENCE = 60.0


@pytest.fixture(autouse=True)
def short_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the indexer try again soon."""
    monkeypatch.setattr(indexer, "BACKOFF_SECONDS", (0.1,))


@contextmanager
def served(directory: Path, endpoint: Endpoint, **options: Any) -> Iterator[Services]:
    """Run an engine whose model is at the endpoint, and whose store is kept."""
    told = {"base_url": endpoint.url, "model": "m", "dimensions": DIMENSION, "retries": 0} | options
    settings = load_settings(
        data_dir=directory,
        metadata=SQLITE,
        vectors=IN_MEMORY,
        lexical=IN_MEMORY,
        embedder={"backend": "openai", "options": told},
        indexing={"upkeep_seconds": 0.05},
    )
    with running(settings) as application:
        yield application


def fail(endpoint: Endpoint) -> None:
    endpoint.otherwise = lambda _: failed(503, retry_after_ms="200")


def search(application: Services, text: str, mode: Mode, deadline: Deadline | None = None) -> SearchReply:
    return application.search.search(SearchQuery(scope=ADA, text=text, mode=mode), deadline or Deadline())


def contents(reply: SearchReply) -> list[str]:
    return [hit.memory.content for hit in reply.hits]


def remember(application: Services, content: str) -> int:
    return application.memory_creator.create(ADA, Draft(content=content), STORED).position


@pytest.mark.parametrize(
    ("content", "query"), [("Anna works as a nurse in Lisbon.", "nurse"), ("小明最喜欢的电影是《流浪地球》。", "电影")]
)
def test_words_go_ahead_and_meaning_follows(tmp_path: Path, endpoint: Endpoint, content: str, query: str) -> None:
    """In English and in Chinese; the notice names the backend, and the model's return is noticed by itself."""
    with served(tmp_path, endpoint) as application:
        application.indexer.when_reached(remember(application, "The kettle is in the shed.")).result(PATIENCE)
        fail(endpoint)
        position = remember(application, content)
        # The keyword table has it at once; the index of words when it went ahead.
        until(lambda: contents(search(application, query, Mode.HYBRID)) == [content])

        hybrid = search(application, query, Mode.HYBRID)
        (lost,) = hybrid.degraded
        with pytest.raises(BackendUnavailableError) as caught:
            search(application, query, Mode.SEMANTIC)
        pending = application.indexer.pending_count
        notices = {notice.code: notice.message for notice in application.diagnosis.run(verify=False).warnings}

        endpoint.otherwise = answered
        application.indexer.when_reached(position).result(PATIENCE)
        until(lambda: not search(application, query, Mode.HYBRID).degraded)
        found = contents(search(application, query, Mode.SEMANTIC))

    assert contents(hybrid) == [content]
    assert (lost.retriever, lost.reason) == (Retriever.DENSE, "UNAVAILABLE")
    assert "'openai'" in lost.message
    assert caught.value.retry_seconds > 0
    assert pending == 1
    # While the circuit breaker is open the embedder itself is down; before that its last operation failed.
    assert notices.keys() & {"BACKEND_DOWN", "EMBEDDER_FAILING"}
    assert sorted(found) == sorted([content, "The kettle is in the shed."])


def test_words_go_ahead_of_a_long_backlog(tmp_path: Path, endpoint: Endpoint) -> None:
    """All of it, however much it is, in the order in which it was written; afterwards both indexes hold everything."""
    with served(tmp_path, endpoint) as application:
        fail(endpoint)
        run = application.bulk_importer.begin(ADA, request_id="", on_duplicate=OnDuplicate.RETURN_EXISTING)
        for start in range(0, 1200, 300):
            progress = run.add(start, [Draft(content=f"Zebra{start + number}x walked.") for number in range(300)])
        until(lambda: contents(search(application, "zebra1199x", Mode.KEYWORD))[:1] == ["Zebra1199x walked."])
        pending = application.indexer.pending_count

        endpoint.otherwise = answered
        application.indexer.when_reached(progress.position).result(PATIENCE)
        indexes = application.diagnosis.run(verify=True).indexes

    assert pending == 1200
    assert [(one.present, one.missing, one.stale, one.orphaned) for one in indexes] == [(1200, 0, 0, 0)] * 2


def test_what_is_deleted_meanwhile_is_not_found(tmp_path: Path, endpoint: Endpoint) -> None:
    """Words follow deletions as they follow writes."""
    with served(tmp_path, endpoint) as application:
        written = application.memory_creator.create(ADA, Draft(content="Zebras walk."), STORED)
        application.indexer.when_reached(written.position).result(PATIENCE)
        fail(endpoint)
        remember(application, "Gannets fly.")
        application.memory_updater.delete(ADA, written.memory.id, hard=False, expected_revision=0, options=STORED)
        until(lambda: contents(search(application, "gannets", Mode.KEYWORD)) == ["Gannets fly."])

        assert contents(search(application, "zebras", Mode.KEYWORD)) == []


def test_a_start_without_the_model(tmp_path: Path, endpoint: Endpoint) -> None:
    """It serves: writes are indexed by words, and the index of meanings is built when the model comes."""
    fail(endpoint)
    with served(tmp_path, endpoint) as application:
        position = remember(application, "Anna works as a nurse.")
        application.indexer.when_reached(position).result(PATIENCE)
        alone = search(application, "nurse", Mode.HYBRID)
        endpoint.otherwise = answered
        until(lambda: not search(application, "nurse", Mode.HYBRID).degraded)
        found = contents(search(application, "nurse", Mode.SEMANTIC))

    assert contents(alone) == found == ["Anna works as a nurse."]
    assert alone.degraded


def test_a_start_without_the_model_and_with_changes_to_apply(tmp_path: Path, endpoint: Endpoint) -> None:
    """The replay of an earlier run holds up no search by words for longer than it takes to index the words."""
    with served(tmp_path, endpoint) as application:
        application.indexer.when_reached(remember(application, "The kettle is in the shed.")).result(PATIENCE)
        fail(endpoint)
        remember(application, "Anna works as a nurse.")
    with served(tmp_path, endpoint) as application:
        until(lambda: not application.indexer.is_replaying)
        assert contents(search(application, "nurse", Mode.KEYWORD)) == ["Anna works as a nurse."]
        endpoint.otherwise = answered
        until(lambda: not search(application, "nurse", Mode.HYBRID).degraded)
        application.indexer.when_reached(newest_position(application)).result(PATIENCE)
        assert len(search(application, "nurse", Mode.SEMANTIC).hits) == 2


def test_a_slow_model_leaves_a_search_time_for_words(tmp_path: Path, endpoint: Endpoint) -> None:
    """Also when its own patience is longer than the caller's."""
    with served(tmp_path, endpoint, query_patience_seconds=60, timeout_seconds=60) as application:
        application.indexer.when_reached(remember(application, "Zebras walk.")).result(PATIENCE)
        endpoint.held.clear()

        reply = search(application, "zebras", Mode.HYBRID, Deadline.after(1))
        endpoint.held.set()

    assert contents(reply) == ["Zebras walk."]
    assert [(one.retriever, one.reason) for one in reply.degraded] == [(Retriever.DENSE, "DEADLINE_EXCEEDED")]


def test_other_vectors_than_before_are_refused_and_told(tmp_path: Path, endpoint: Endpoint) -> None:
    """A model that was exchanged behind its name does not get into the index; diagnose says what to do."""
    with served(tmp_path, endpoint) as application:
        endpoint.otherwise = lambda body: answered(body | {"dimensions": 4})
        remember(application, "Anna works as a nurse.")
        until(lambda: contents(search(application, "nurse", Mode.KEYWORD)) == ["Anna works as a nurse."])
        until(lambda: "EMBEDDER_FAILING" in {one.code for one in application.diagnosis.run(verify=False).warnings})
        messages = [one.message for one in application.diagnosis.run(verify=False).warnings]

    assert [message for message in messages if "4 dimensions instead of 8" in message]


def test_another_model_has_its_index_made_anew(tmp_path: Path, endpoint: Endpoint) -> None:
    """What was written by the first one is found by the second, without being written again."""
    with served(tmp_path, endpoint) as application:
        application.indexer.when_reached(remember(application, "Anna works as a nurse.")).result(PATIENCE)
        first = application.diagnosis.run(verify=False).indexes[0]
    with served(tmp_path, endpoint, model="n", dimensions=4, send_dimensions=True) as application:
        until(lambda: application.diagnosis.run(verify=False).indexes[0].dimension == 4)
        second = application.diagnosis.run(verify=False).indexes[0]
        found = contents(search(application, "nurse", Mode.SEMANTIC))

    assert (first.model, first.dimension) == ("openai/m@8", 8)
    assert second.model.startswith("openai/n#")
    assert found == ["Anna works as a nurse."]


def test_an_error_of_the_index_of_words_does_not_end_the_indexer(
    tmp_path: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of any sort, while the model is away; what was stored is found when both are back."""
    with served(tmp_path, endpoint) as application:
        application.indexer.when_reached(remember(application, "The kettle is in the shed.")).result(PATIENCE)
        failures = []

        def refuse(*_: object) -> None:
            failures.append(1)
            raise ValueError

        lexical = application.indexer._change_applier._lexical
        with monkeypatch.context() as patched:
            patched.setattr(type(lexical), "write", refuse)
            fail(endpoint)
            # Several at once are embedded before the index of words is written.
            run = application.bulk_importer.begin(ADA, request_id="", on_duplicate=OnDuplicate.RETURN_EXISTING)
            progress = run.add(0, [Draft(content=f"Zebra{number}x walked.") for number in range(3)])
            until(lambda: len(failures) > 1)
        endpoint.otherwise = answered
        application.indexer.when_reached(progress.position).result(PATIENCE)

        assert contents(search(application, "zebra1x", Mode.KEYWORD))[:1] == ["Zebra1x walked."]
