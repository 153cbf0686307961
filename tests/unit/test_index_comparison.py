"""Indexes that may not have followed the present store all along are compared with it, once and at last."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from memsvc.bootstrap.app import running
from memsvc.bootstrap.indexing import FOLLOWED, OWED, Comparison, pending_comparison
from memsvc.data_directory import CLEAN, DataDirectory, owned
from memsvc.ports.metadata import MetadataStore
from memsvc.ports.plugin import BackendContext
from memsvc.settings import BackendChoice, Settings, load_settings
from memsvc.testing.factories import NOW
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
    """Of a new directory nothing is to be compared, nor of one whose record is damaged."""
    (here, elsewhere), plain = stores, Settings()
    other = plain.model_copy(update={"vectors": BackendChoice(backend="in-memory")})
    directory = DataDirectory(tmp_path, was_closed_cleanly=True)

    def is_owed(settings: Settings, store: MetadataStore, model: str = "m") -> bool:
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
    (tmp_path / FOLLOWED).write_text("{")

    assert found == [False, False, True, False, True, True, True]
    assert not is_owed(plain, here)


def test_it_is_owed_until_it_is_done(tmp_path: Path, stores: tuple[MetadataStore, MetadataStore]) -> None:
    """By the next process too, however cleanly this one ends."""
    store, settings = stores[0], Settings()
    unclean, clean = DataDirectory(tmp_path, was_closed_cleanly=False), DataDirectory(tmp_path, was_closed_cleanly=True)
    assert pending_comparison(settings, unclean, store, "m").is_pending
    assert pending_comparison(settings, clean, store, "m").is_pending

    Comparison(tmp_path).mark_done()

    assert not pending_comparison(settings, clean, store, "m").is_pending


@contextmanager
def _served(directory: Path) -> Iterator[None]:
    settings = load_settings(
        data_dir=directory, metadata=SQLITE, vectors=IN_MEMORY, lexical=IN_MEMORY, embedder=IN_MEMORY
    )
    with running(settings):
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
