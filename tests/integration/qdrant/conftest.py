"""An open Qdrant Edge index of three dimensions, and what the tests of its machinery put into it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memsvc.domain.index_entries import VectorManifest
from memsvc.ports.plugin import BackendContext
from memsvc_backends.qdrant_edge.index import EDGE, QdrantEdgeIndex
from memsvc_backends.qdrant_edge.settings import QdrantEdgeSettings


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return the index's folder."""
    return tmp_path / "vectors"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Hold the open index."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def open_index(stack: ExitStack, directory: Path) -> Callable[[], QdrantEdgeIndex]:
    """Return what opens the index."""

    def opened() -> QdrantEdgeIndex:
        context = BackendContext(directory=directory, now=lambda: datetime.now(UTC))
        index = stack.enter_context(EDGE.open(QdrantEdgeSettings(), context))
        assert isinstance(index, QdrantEdgeIndex)
        return index

    return opened


@pytest.fixture
def index(open_index: Callable[[], QdrantEdgeIndex]) -> QdrantEdgeIndex:
    """Open the index with an empty first generation."""
    index = open_index()
    made = index.begin(VectorManifest(generation=1, model="m", dimension=3, position=1))
    made.seal()
    index.switch(made)
    return index
