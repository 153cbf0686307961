"""Qdrant Edge keeps the port's promises."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memsvc.domain.index_entries import VectorManifest
from memsvc.ports.indexes import VectorEntry, VectorIndex
from memsvc.ports.plugin import BackendContext
from memsvc.testing.vectors import VectorIndexContract
from memsvc_backends.qdrant_edge import EDGE
from memsvc_backends.qdrant_edge.settings import QdrantEdgeSettings
from tests.support.shared_index import SharedIndex


def opened(directory: Path) -> AbstractContextManager[VectorIndex]:
    return EDGE.open(QdrantEdgeSettings(), BackendContext(directory=directory, now=lambda: datetime.now(UTC)))


class TestQdrantEdge(SharedIndex[VectorEntry, VectorManifest], VectorIndexContract):
    """The embedded index, with its child process: each index takes two processes and a directory of 90 MB."""

    @pytest.fixture(scope="class")
    @classmethod
    def shared(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VectorIndex]:
        """Open an index for all tests that leave its generations alone."""
        with opened(tmp_path_factory.mktemp("vectors")) as index:
            yield index

    @pytest.fixture
    def open_index(self, stack: ExitStack, tmp_path: Path) -> Callable[[], VectorIndex]:
        """Return what opens the index of this test's directory."""
        return lambda: stack.enter_context(opened(tmp_path / "vectors"))
