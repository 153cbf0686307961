"""The vectors on PostgreSQL keep the port's promises."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import SecretStr

from backends.postgres import PGVECTOR
from backends.postgres.settings import PgvectorSettings
from memsvc.ports.backend import BackendContext
from memsvc.ports.vectors import VectorIndex
from memsvc.testing.vectors import VectorIndexContract
from tests.postgres_server import without_tables


class TestPgvector(VectorIndexContract):
    """One schema for all tests, cleared before each."""

    @pytest.fixture
    def stack(self) -> Iterator[ExitStack]:
        """Hold the open index."""
        with ExitStack() as stack:
            yield stack

    @pytest.fixture
    def open_index(self, stack: ExitStack, tmp_path: Path) -> Callable[[], VectorIndex]:
        """Return what opens the index."""
        url = without_tables("vectors_contract")
        context = BackendContext(directory=tmp_path, now=lambda: datetime.now(UTC))
        return lambda: stack.enter_context(PGVECTOR.open(PgvectorSettings(url=SecretStr(url)), context))

    @pytest.fixture
    def index(self, open_index: Callable[[], VectorIndex]) -> VectorIndex:
        """Open a fresh index."""
        return open_index()

    @pytest.fixture
    def close(self, stack: ExitStack) -> Callable[[], None]:
        """Close the index."""
        return stack.close

    @pytest.fixture
    def reopen(self, stack: ExitStack, open_index: Callable[[], VectorIndex]) -> Callable[[], VectorIndex]:
        """Close the index and open it again."""

        def reopened() -> VectorIndex:
            stack.close()
            return open_index()

        return reopened
