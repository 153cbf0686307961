"""What is marked as applied beside a transaction: known at once, durable a little later."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from memsvc.domain.index_entries import Change
from memsvc.ports.plugin import BackendContext
from memsvc.testing import factories
from memsvc.testing.store_harness import insert
from memsvc_backends.sql import SQL, SqlMetadataStore, SqlSettings, index_feed


@pytest.fixture
def unmarked(tmp_path: Path) -> Callable[[], int]:
    """Return what counts the changes that the database itself holds as not applied."""

    def count() -> int:
        connection = sqlite3.connect(next(tmp_path.rglob("*.db")))
        try:
            return int(connection.execute("SELECT count(*) FROM outbox WHERE applied = 0").fetchone()[0])
        finally:
            connection.close()

    return count


def written(store: SqlMetadataStore, count: int) -> list[Change]:
    insert(store, *(factories.memory(f"{number}") for number in range(count)))
    return store.feed.pending_changes(limit=count)


def test_marks_are_known_before_they_are_written(store: SqlMetadataStore, unmarked: Callable[[], int]) -> None:
    """Also beside a transaction; the database knows of them after it was told to."""
    changes = written(store, 4)

    with store.transaction():
        store.feed.mark_applied(changes[:2])
        with store.feed.claim((1, 3), limit=9) as lent:
            assert [change.position for change in lent] == [3]
        with store.feed.claim((), limit=1) as lent:
            assert [change.position for change in lent] == [3]
        assert (store.feed.applied_position(), store.feed.pending_count()) == (2, 2)
        assert store.feed.applied_among([1, 2, 3]) == {1, 2}
    assert unmarked() == 4

    store.feed.settle()
    assert unmarked() == 2
    assert (store.feed.applied_position(), store.feed.pending_count()) == (2, 2)


def test_marks_do_not_grow_without_end(
    store: SqlMetadataStore, unmarked: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many of them are written together."""
    monkeypatch.setattr(index_feed, "MOST", 3)
    changes = written(store, 4)

    left = []
    for change in changes:
        store.feed.mark_applied([change])
        left.append(unmarked())

    assert left == [4, 4, 1, 1]


def test_a_crash_has_them_applied_again(store: SqlMetadataStore, context: BackendContext, tmp_path: Path) -> None:
    """What the database was not told is pending for whoever opens a copy of it as it is now."""
    changes = written(store, 2)
    store.feed.mark_applied(changes[:1])
    shutil.copytree(tmp_path, tmp_path / "copy")

    with SQL.open(SqlSettings(), BackendContext(tmp_path / "copy", context.now)) as copy:
        assert copy.feed.pending_changes(limit=9) == changes
