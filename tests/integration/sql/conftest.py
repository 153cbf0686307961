"""A SQLite database for the tests of the backend's own machinery."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

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
