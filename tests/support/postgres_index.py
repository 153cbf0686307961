"""Indexes on PostgreSQL, as contracts are bound to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest

from memsvc.ports.plugin import BackendContext, BackendSpec
from memsvc.testing.derived_index import E, FullIndex, M
from tests.support.postgres_server import without_tables
from tests.support.shared_index import SharedIndex


class PostgresIndex(SharedIndex[E, M]):
    """Real tables in schemas of their own.

    Attributes:
        spec: The index.
        schema: What the names of its schemas begin with.
    """

    spec: ClassVar[BackendSpec[Any]]
    schema: ClassVar[str]

    @pytest.fixture(scope="class")
    @classmethod
    def shared(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FullIndex[E, M]]:
        """Open an index for all tests that leave its generations alone."""
        with cls._opened(without_tables(f"{cls.schema}_shared"), tmp_path_factory.mktemp("index")) as index:
            yield index

    @pytest.fixture
    def open_index(self, stack: ExitStack, tmp_path: Path) -> Callable[[], FullIndex[E, M]]:
        """Return what opens the index of this test."""
        url = without_tables(f"{self.schema}_contract")
        return lambda: stack.enter_context(self._opened(url, tmp_path))

    @classmethod
    def _opened(cls, url: str, directory: Path) -> AbstractContextManager[FullIndex[E, M]]:
        context = BackendContext(directory=directory, now=lambda: datetime.now(UTC))
        return cls.spec.open(cls.spec.settings.model_validate({"url": url}), context)
