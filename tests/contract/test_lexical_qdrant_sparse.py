"""The words of a Qdrant server keep the port's promises: in the local mode, over gRPC, and on a real server."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from backends.qdrant.connection import Connection
from backends.qdrant.server_settings import QdrantSparseSettings
from backends.qdrant.sparse import NAME, QdrantSparseIndex
from memsvc.domain.entries import row_of
from memsvc.ports.lexical import LexicalIndex
from memsvc.testing import generations
from memsvc.testing.lexical import LexicalIndexContract
from tests.qdrant_places import PLACES, context, place, skip_most_filters, sparse_settings


@pytest.fixture(scope="module", params=PLACES)
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[..., Connection]]:
    """What connects to each place in turn."""
    with place(request.param) as connecting:
        yield connecting


@pytest.fixture(scope="module")
def shared(connect: Callable[..., Connection]) -> Iterator[LexicalIndex]:
    """An index for all tests that leave its generations alone: making one takes fifty calls."""
    settings = sparse_settings()
    index = QdrantSparseIndex(connect(settings, NAME), settings, context())
    yield index
    index.close()


class TestQdrantSparse(LexicalIndexContract):
    """Each test has collections of its own."""

    @pytest.fixture
    def settings(self) -> QdrantSparseSettings:
        """Settings that nobody else has."""
        return sparse_settings()

    @pytest.fixture
    def opened(self) -> Iterator[list[LexicalIndex]]:
        """The indexes of a test, closed in the end."""
        opened: list[LexicalIndex] = []
        yield opened
        for index in opened:
            index.close()  # type: ignore[attr-defined]  # The port leaves closing to the context.

    @pytest.fixture
    def open_index(
        self, connect: Callable[..., Connection], settings: QdrantSparseSettings, opened: list[LexicalIndex]
    ) -> Callable[[], LexicalIndex]:
        """What opens the index of this test."""

        def opening() -> LexicalIndex:
            opened.append(QdrantSparseIndex(connect(settings, NAME), settings, context()))
            return opened[-1]

        return opening

    @pytest.fixture
    def index(self, open_index: Callable[[], LexicalIndex]) -> LexicalIndex:
        """Open a fresh index."""
        return open_index()

    @pytest.fixture
    def live(self, request: pytest.FixtureRequest, connect: Callable[..., Connection]) -> LexicalIndex:
        """Give the shared index, emptied; to tests that close an index or make generations, one of their own."""
        name = request.function.__name__
        skip_most_filters(request)
        own = "close" in request.fixturenames or request.function.__module__ == generations.__name__
        own = own or "generation" in name or "switch" in name or "removed" in name
        index: LexicalIndex = request.getfixturevalue("index" if own else "shared")
        if own or index.manifest is None:
            self.renew(index, 1)
        else:
            index.replace({row_of(entry.entry_id): () for entry in index.inventory()})
        return index

    @pytest.fixture
    def close(self, opened: list[LexicalIndex]) -> Callable[[], None]:
        """Close the index."""

        def closing() -> None:
            for index in opened:
                index.close()  # type: ignore[attr-defined]

        return closing

    @pytest.fixture
    def reopen(self, open_index: Callable[[], LexicalIndex], close: Callable[[], None]) -> Callable[[], LexicalIndex]:
        """Close the index and open it again."""

        def reopened() -> LexicalIndex:
            close()
            return open_index()

        return reopened
