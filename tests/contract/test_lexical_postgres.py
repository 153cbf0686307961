"""The full text on PostgreSQL keeps the port's promises."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import SecretStr

from backends.postgres import FULLTEXT
from backends.postgres.settings import FulltextSettings
from memsvc.ports.backend import BackendContext
from memsvc.ports.lexical import LexicalIndex
from memsvc.testing.lexical import LexicalIndexContract
from tests.postgres_server import without_tables


class TestPostgresFulltext(LexicalIndexContract):
    """One schema for all tests, cleared before each."""

    @pytest.fixture
    def stack(self) -> Iterator[ExitStack]:
        """Hold the open index."""
        with ExitStack() as stack:
            yield stack

    @pytest.fixture
    def open_index(self, stack: ExitStack, tmp_path: Path) -> Callable[[], LexicalIndex]:
        """Return what opens the index."""
        url = without_tables("words_contract")
        context = BackendContext(directory=tmp_path, now=lambda: datetime.now(UTC))
        return lambda: stack.enter_context(FULLTEXT.open(FulltextSettings(url=SecretStr(url)), context))

    @pytest.fixture
    def index(self, open_index: Callable[[], LexicalIndex]) -> LexicalIndex:
        """Open a fresh index."""
        return open_index()

    @pytest.fixture
    def close(self, stack: ExitStack) -> Callable[[], None]:
        """Close the index."""
        return stack.close

    @pytest.fixture
    def reopen(self, stack: ExitStack, open_index: Callable[[], LexicalIndex]) -> Callable[[], LexicalIndex]:
        """Close the index and open it again."""

        def reopened() -> LexicalIndex:
            stack.close()
            return open_index()

        return reopened
