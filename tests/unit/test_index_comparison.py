"""Indexes that may not have followed the present store all along are compared with it, once and at last."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from memsvc.bootstrap.app import running
from memsvc.bootstrap.indexing import OWED, Comparison, pending_comparison
from memsvc.bootstrap.offline import has_keys
from memsvc.data_directory import CLEAN, STORE_RECORD, DataDirectory, owned
from memsvc.domain.errors import StoreMissingError
from memsvc.ports.metadata import MetadataStore
from memsvc.ports.plugin import BackendContext
from memsvc.settings import BackendChoice, Settings, load_settings
from memsvc.testing import factories
from memsvc.testing.factories import NOW
from memsvc.testing.store_harness import insert
from memsvc_backends.sql import SQL
from tests.support.sqlite_store import SQLITE
from tests.support.until import until

IN_MEMORY = {"backend": "in-memory"}


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[MetadataStore, MetadataStore]]:
    """Two stores."""
    with ExitStack() as stack:
        contexts = [BackendContext(tmp_path / name, lambda: NOW) for name in ("here", "elsewhere")]
        here, elsewhere = (stack.enter_context(SQL.open(SQL.settings(), context)) for context in contexts)
        yield here, elsewhere


def test_indexes_of_another_store_kind_or_model_are_compared(
    tmp_path: Path, stores: tuple[MetadataStore, MetadataStore]
) -> None:
    """Of a new directory nothing is to be compared; without a record, or with a damaged one, everything is."""
    (here, elsewhere), plain = stores, Settings()
    other = plain.model_copy(update={"vectors": BackendChoice(backend="in-memory")})
    new = DataDirectory(tmp_path, was_closed_cleanly=True, is_new=True)
    directory = DataDirectory(tmp_path, was_closed_cleanly=True)

    def is_owed(settings: Settings, store: MetadataStore, model: str = "m", directory: DataDirectory = new) -> bool:
        found = pending_comparison(settings, directory, store, model)
        owed = found.is_pending
        found.mark_done()
        return owed

    found = [
        is_owed(plain, here),
        is_owed(plain, here),
        is_owed(plain, elsewhere),
        is_owed(plain, elsewhere),
        is_owed(other, elsewhere),
        is_owed(other, elsewhere, "n"),
        is_owed(other, elsewhere, "m"),
    ]
    assert found == [False, False, True, False, True, True, True]
    (tmp_path / STORE_RECORD).write_text("{")
    assert is_owed(plain, here)
    (tmp_path / STORE_RECORD).unlink()
    assert is_owed(plain, here, directory=directory)
    assert not is_owed(plain, here, directory=directory)


def test_it_is_owed_until_it_is_done(tmp_path: Path, stores: tuple[MetadataStore, MetadataStore]) -> None:
    """By the next process too, however cleanly this one ends."""
    store, settings = stores[0], Settings()
    unclean, clean = DataDirectory(tmp_path, was_closed_cleanly=False), DataDirectory(tmp_path, was_closed_cleanly=True)
    assert pending_comparison(settings, unclean, store, "m").is_pending
    assert pending_comparison(settings, clean, store, "m").is_pending

    Comparison(tmp_path).mark_done()

    assert not pending_comparison(settings, clean, store, "m").is_pending


def _settings(directory: Path, **others: Any) -> Settings:
    return load_settings(
        data_dir=directory, metadata=SQLITE, vectors=IN_MEMORY, lexical=IN_MEMORY, embedder=IN_MEMORY, **others
    )


@contextmanager
def _served(directory: Path) -> Iterator[None]:
    with running(_settings(directory)):
        yield


def _until_settled(directory: Path) -> None:
    until(lambda: not (directory / OWED).exists())


def test_a_service_settles_what_is_owed(tmp_path: Path) -> None:
    """After an unclean stop, and where the process before did not come to it."""
    with _served(tmp_path):
        assert not (tmp_path / OWED).exists()
    (tmp_path / CLEAN).unlink()
    with _served(tmp_path):
        _until_settled(tmp_path)
    with owned(tmp_path):
        Comparison(tmp_path).request()
    with _served(tmp_path):
        _until_settled(tmp_path)


def test_the_monitor_outlasts_a_comparison_that_cannot_be_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a disk that takes no writes for a while."""
    failures: list[int] = []
    unlink = Path.unlink

    def refuse_once(path: Path, missing_ok: bool = False) -> None:  # noqa: FBT001, FBT002 - as pathlib has it
        if path.name == OWED and not failures:
            failures.append(1)
            raise OSError
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse_once)
    tmp_path.joinpath(OWED).touch()
    with running(_settings(tmp_path, indexing={"upkeep_seconds": 0.05})):
        _until_settled(tmp_path)

    assert failures


def _lose_folder(directory: Path) -> None:
    shutil.rmtree(directory / "metadata")


def _lose_content(directory: Path) -> None:
    (directory / "metadata" / "memsvc.db").write_bytes(b"")


def _lose_record_and_content(directory: Path) -> None:
    _lose_content(directory)
    (directory / STORE_RECORD).write_text("{")


@pytest.mark.parametrize("lose", [_lose_folder, _lose_content, _lose_record_and_content])
def test_a_lost_store_is_not_replaced_by_an_empty_one(tmp_path: Path, lose: Callable[[Path], None]) -> None:
    """Neither by a service nor by offline commands, and nothing is created; without the record a new one begins."""
    with _served(tmp_path):
        pass
    lose(tmp_path)
    before = sorted(tmp_path.rglob("*"))

    with pytest.raises(StoreMissingError, match=STORE_RECORD), _served(tmp_path):
        pass
    with pytest.raises(StoreMissingError, match="Restore a backup, mount the volume"):
        has_keys(_settings(tmp_path))
    assert {path for path in before if path.name != CLEAN} == {p for p in tmp_path.rglob("*") if p.name != CLEAN}

    (tmp_path / STORE_RECORD).unlink()
    with _served(tmp_path):
        _until_settled(tmp_path)
    with _served(tmp_path):
        pass


def test_a_store_with_memories_may_take_the_place_of_another(tmp_path: Path) -> None:
    """As a restored one does, whatever its identity."""
    with _served(tmp_path / "here"):
        pass
    with SQL.open(SQL.settings(), BackendContext(tmp_path / "elsewhere" / "metadata", lambda: NOW)) as store:
        insert(store, factories.memory("An egret."))
    shutil.copytree(tmp_path / "elsewhere" / "metadata", tmp_path / "here" / "metadata", dirs_exist_ok=True)

    with _served(tmp_path / "here"):
        _until_settled(tmp_path / "here")
