"""A damaged database: backups and restores fail, and health reports it until the next start."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from memsvc.bootstrap.app import running
from memsvc.bootstrap.offline import restore
from memsvc.domain.errors import BackendUnavailableError
from memsvc.engine.admin.backup import BackupError
from memsvc.engine.services import Services
from memsvc.ports.plugin import BackendContext
from memsvc.settings import load_settings
from memsvc.testing import factories
from memsvc.testing.factories import NOW
from memsvc.testing.store_harness import ADA, insert
from memsvc_backends.sql import SQL
from tests.support.sqlite_store import SQLITE

IN_MEMORY = {"backend": "in-memory"}
STORE = "metadata/memsvc.db"
INTERIOR_PAGE = 5


@contextmanager
def _served(directory: Path) -> Iterator[Services]:
    settings = load_settings(
        data_dir=directory, metadata=SQLITE, vectors=IN_MEMORY, lexical=IN_MEMORY, embedder=IN_MEMORY
    )
    with running(settings) as services:
        yield services


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a data directory with memories on several pages."""
    directory = tmp_path / "data"
    with SQL.open(SQL.settings(), BackendContext(directory / "metadata", lambda: NOW)) as store:
        insert(store, *(factories.memory(f"{number} {'x' * 500}") for number in range(60)))
    return directory


def _damage(database: Path) -> None:
    """Overwrite the last page of the table of memories."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'memories'").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    content = bytearray(database.read_bytes())
    while content[(page - 1) * size] == INTERIOR_PAGE:
        start = (page - 1) * size + 8
        page = int.from_bytes(content[start : start + 4], "big")
    content[(page - 1) * size : page * size] = b"\xa5" * size
    database.write_bytes(content)


def test_a_backup_of_a_damaged_store_fails_and_earlier_ones_stay(data: Path) -> None:
    """Nothing is left of the failed one, and health reports the damage."""
    with _served(data) as services:
        list(services.backups.create("good"))
    _damage(data / STORE)

    with _served(data) as services, pytest.raises(BackendUnavailableError, match=r"is damaged.*restore a backup"):
        list(services.backups.create("bad"))
    assert [path.name for path in (data / "backups").iterdir()] == ["good"]
    assert restore(data / "backups" / "good", data.with_name("new"), lambda *_: None)["memories"] == 60


def test_a_damaged_store_is_not_restored(data: Path, tmp_path: Path) -> None:
    """Even if its digests are right, as in backups of earlier versions."""
    with _served(data) as services:
        list(services.backups.create("good"))
    backup = tmp_path / "backup"
    shutil.copytree(data / "backups" / "good", backup)
    _damage(backup / STORE)
    manifest = json.loads((backup / "manifest.json").read_text())
    content = (backup / STORE).read_bytes()
    for file in manifest["files"]:
        file |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (backup / "manifest.json").write_text(json.dumps(manifest))

    with pytest.raises(BackupError, match=r"is damaged.*restore an earlier backup"):
        restore(backup, tmp_path / "new", lambda *_: None)
    assert not (tmp_path / "new").exists()


def test_seen_damage_is_reported_until_the_next_start(data: Path) -> None:
    """By the diagnosis, health and metrics, although other pages can be read."""
    _damage(data / STORE)
    with SQL.open(SQL.settings(), BackendContext(data / "metadata", lambda: NOW)) as store:
        with pytest.raises(BackendUnavailableError, match="is damaged"):
            store.memories.by_rows(range(1, 61), reach=ADA)
        with pytest.raises(BackendUnavailableError, match="is damaged"):
            store.ping()
        assert store.storage_bytes()

    with _served(data) as services:
        with pytest.raises(BackendUnavailableError):
            list(services.backups.create("bad"))
        [health] = [one for one in services.diagnosis.health() if one.port == "metadata"]
        diagnosis = services.diagnosis.run(verify=False)
        [measured] = [one for one in services.metrics.read().backends if one.port == "metadata"]
    assert (health.healthy, measured.healthy, diagnosis.healthy) == (False, False, False)
    assert "is damaged: stop the service and restore a backup" in health.message
    assert [one.code for one in diagnosis.warnings if "is damaged" in one.message] == ["BACKEND_DOWN"]
