"""The SQL metadata store keeps the port's promises, on SQLite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from backends.sql import SQL, SqlSettings
from memsvc.ports.backend import BackendContext
from memsvc.ports.metadata import MetadataStore
from memsvc.testing.metadata import MetadataStoreContract
from memsvc.testing.store_seams import Clock


class TestSqliteMetadata(MetadataStoreContract):
    """One database file for each test."""

    @pytest.fixture
    def stack(self) -> Iterator[ExitStack]:
        """Hold the open store."""
        with ExitStack() as stack:
            yield stack

    @pytest.fixture
    def context(self, tmp_path: Path, clock: Clock) -> BackendContext:
        """Put the database into a folder that is not there yet."""
        return BackendContext(tmp_path / "data" / "metadata", clock)

    @pytest.fixture
    def store(self, stack: ExitStack, context: BackendContext) -> MetadataStore:
        """Open a fresh store."""
        return stack.enter_context(SQL.open(SqlSettings(), context))

    @pytest.fixture
    def close(self, stack: ExitStack) -> Callable[[], None]:
        """Close the store."""
        return stack.close

    @pytest.fixture
    def reopen(self, stack: ExitStack, context: BackendContext) -> Callable[[], MetadataStore]:
        """Close the store and open another on the same file."""

        def run() -> MetadataStore:
            stack.close()
            return stack.enter_context(SQL.open(SqlSettings(), context))

        return run
