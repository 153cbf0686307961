"""The SQL metadata store keeps the port's promises, on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pydantic import SecretStr

from backends.sql import SQL, SqlSettings
from memsvc.ports.backend import BackendContext
from memsvc.ports.metadata import MetadataStore
from memsvc.testing.metadata import MetadataStoreContract
from memsvc.testing.store_seams import Clock
from tests.postgres_server import emptied


class TestPostgresMetadata(MetadataStoreContract):
    """One schema for all tests, emptied before each."""

    @pytest.fixture
    def settings(self) -> Iterator[SqlSettings]:
        """Empty the schema."""
        with emptied("contract") as url:
            yield SqlSettings(url=SecretStr(url))

    @pytest.fixture
    def stack(self, settings: SqlSettings) -> Iterator[ExitStack]:
        """Hold the open store."""
        assert settings.url is not None
        with ExitStack() as stack:
            yield stack

    @pytest.fixture
    def context(self, tmp_path: Path, clock: Clock) -> BackendContext:
        """Give the clock; nothing is put into the folder."""
        return BackendContext(tmp_path / "data" / "metadata", clock)

    @pytest.fixture
    def store(self, stack: ExitStack, settings: SqlSettings, context: BackendContext) -> MetadataStore:
        """Open a fresh store."""
        return stack.enter_context(SQL.open(settings, context))

    @pytest.fixture
    def close(self, stack: ExitStack) -> Callable[[], None]:
        """Close the store."""
        return stack.close

    @pytest.fixture
    def reopen(self, stack: ExitStack, settings: SqlSettings, context: BackendContext) -> Callable[[], MetadataStore]:
        """Close the store and open another on the same schema."""

        def run() -> MetadataStore:
            stack.close()
            return stack.enter_context(SQL.open(settings, context))

        return run
