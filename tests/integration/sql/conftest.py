"""A SQLite database for the tests of the backend's own machinery."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from memsvc.ports.plugin import BackendContext
from memsvc_backends.sql import SQL, SqlMetadataStore, SqlSettings


@pytest.fixture
def context(tmp_path: Path) -> BackendContext:
    """Return what the process gives to the backend."""
    return BackendContext(tmp_path, lambda: datetime.now(UTC))


@pytest.fixture
def store(context: BackendContext) -> Iterator[SqlMetadataStore]:
    """Open a fresh store."""
    with SQL.open(SqlSettings(), context) as store:
        assert isinstance(store, SqlMetadataStore)
        yield store


@pytest.fixture
def statements() -> Iterator[list[str]]:
    """List what every connection that is opened later says to the database."""
    said: list[str] = []

    def listen(connection: Any, _: object) -> None:
        connection.set_trace_callback(said.append)

    sa.event.listen(sa.Engine, "connect", listen)
    yield said
    sa.event.remove(sa.Engine, "connect", listen)


@pytest.fixture
def observed_store(statements: list[str], store: SqlMetadataStore) -> SqlMetadataStore:
    """Return the fresh store once its own statements are over; later ones are in *statements*."""
    store.preloader.join()
    return store
