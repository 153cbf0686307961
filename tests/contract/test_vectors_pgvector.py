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
from memsvc.domain.entries import View, entry_id
from memsvc.ports.backend import BackendContext
from memsvc.ports.vectors import VectorIndex
from memsvc.testing import generations
from memsvc.testing.vectors import VectorIndexContract
from tests.postgres_server import without_tables

ROW_SHIFT = entry_id(1, View.CHUNK, 0).bit_length() - 1


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VectorIndex]:
    """Open an index for all tests that leave its generations alone: making tables takes longer than these tests."""
    url = SecretStr(without_tables("vectors_shared"))
    context = BackendContext(directory=tmp_path_factory.mktemp("index"), now=lambda: datetime.now(UTC))
    with PGVECTOR.open(PgvectorSettings(url=url), context) as index:
        yield index


class TestPgvector(VectorIndexContract):
    """Real tables in schemas of their own."""

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
    def live(self, request: pytest.FixtureRequest) -> VectorIndex:
        """Give the shared index, emptied; to tests that close an index or make generations, one of their own."""
        name = request.function.__name__
        own = "close" in request.fixturenames or request.function.__module__ == generations.__name__
        own = own or "generation" in name or "switch" in name or "ping" in name
        index: VectorIndex = request.getfixturevalue("index" if own else "shared")
        if own or index.manifest is None:
            self.renew(index, 1)
        else:
            index.replace({entry.entry_id >> ROW_SHIFT: () for entry in index.inventory()})
        return index

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
