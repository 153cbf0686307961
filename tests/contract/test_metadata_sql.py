"""The SQL metadata store keeps the port's promises, on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from pydantic import SecretStr

from memsvc.ports.metadata import MetadataStore
from memsvc.ports.plugin import BackendContext
from memsvc.testing.metadata import MetadataStoreContract
from memsvc.testing.store_harness import Clock
from memsvc_backends.sql import SQL, SqlSettings
from tests.support.postgres_server import emptied


class SqlMetadata(MetadataStoreContract):
    """A database gives the fixture `settings`."""

    @pytest.fixture
    def stack(self) -> Iterator[ExitStack]:
        """Hold the open store."""
        with ExitStack() as stack:
            yield stack

    @pytest.fixture
    def open_store(
        self, settings: SqlSettings, stack: ExitStack, tmp_path: Path, clock: Clock
    ) -> Callable[[], MetadataStore]:
        """Return what opens the store; its folder is not there yet."""
        context = BackendContext(tmp_path / "data" / "metadata", clock)
        return lambda: stack.enter_context(SQL.open(settings, context))

    @pytest.fixture
    def store(self, open_store: Callable[[], MetadataStore]) -> MetadataStore:
        """Open a fresh store."""
        return open_store()

    @pytest.fixture
    def close(self, stack: ExitStack) -> Callable[[], None]:
        """Close the store."""
        return stack.close

    @pytest.fixture
    def reopen(self, stack: ExitStack, open_store: Callable[[], MetadataStore]) -> Callable[[], MetadataStore]:
        """Close the store and open another on the same database."""

        def run() -> MetadataStore:
            stack.close()
            return open_store()

        return run


class TestSqliteMetadata(SqlMetadata):
    """One database file for each test."""

    @pytest.fixture
    def settings(self) -> SqlSettings:
        """Leave the file where it is by default."""
        return SqlSettings()


@pytest.mark.needs_server
class TestPostgresMetadata(SqlMetadata):
    """One schema for all tests, emptied before each."""

    @pytest.fixture
    def settings(self) -> Iterator[SqlSettings]:
        """Empty the schema."""
        with emptied("contract") as url:
            yield SqlSettings(url=SecretStr(url))

    @pytest.fixture
    def let_pass(self, settings: SqlSettings) -> Callable[[timedelta], None]:
        """Make leases, claims of texts and what rates count older: the clock of the database goes on by itself."""

        def run(time: timedelta) -> None:
            assert settings.url is not None
            micros = time // timedelta(microseconds=1)
            with psycopg.connect(settings.url.get_secret_value(), autocommit=True) as connection:
                older = "UPDATE leases SET until = until - %s, last_end = last_end - %s"
                connection.execute(older, (micros, micros))
                connection.execute("UPDATE call_rates SET due = due - %s, time = time - %s", (micros, micros))
                connection.execute("UPDATE files SET text_time = text_time - %s", (micros,))

        return run
