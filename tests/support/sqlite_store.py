"""SQLite metadata stores for tests: real ones, opened quickly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from memsvc.ports.metadata import MetadataStore
from memsvc.ports.plugin import BackendContext
from memsvc.testing.factories import NOW
from memsvc_backends.sql import SQL, SqlSettings
from memsvc_backends.sql.settings import Durability
from memsvc_backends.sql.store import DEFAULT_NAME

SQLITE: dict[str, Any] = {"backend": "sql", "options": {"durability": "normal"}}
"""The setting `metadata` of a service that does not wait for the disk at each commit."""


@contextmanager
def sqlite_store(directory: Path, now: Callable[[], datetime] = lambda: NOW) -> Iterator[MetadataStore]:
    """Open the store in a directory, which is empty when the directory holds none.

    Its tables are copied from a template: creating them takes 10 ms, five times as long. All copies have the same
    `store_id`.
    """
    file = directory / DEFAULT_NAME
    if not file.exists():
        directory.mkdir(parents=True, exist_ok=True)
        file.write_bytes(_template())
    with _opened(directory, now) as store:
        yield store


@cache
def _template() -> bytes:
    with TemporaryDirectory() as name:
        with _opened(Path(name), lambda: NOW):
            pass
        return (Path(name) / DEFAULT_NAME).read_bytes()


@contextmanager
def _opened(directory: Path, now: Callable[[], datetime]) -> Iterator[MetadataStore]:
    with SQL.open(SqlSettings(durability=Durability.NORMAL), BackendContext(directory, now)) as store:
        yield store
