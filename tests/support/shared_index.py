"""One index for most tests of a contract, where making an index takes longer than these tests do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import ClassVar

import pytest

from memsvc.domain.index_entries import row_of
from memsvc.testing import index_generations
from memsvc.testing.derived_index import E, FullIndex, IndexSeams, M


class SharedIndex(IndexSeams[E, M]):
    """Binds a contract to an index that keeps its entries. Put it before the contract among the bases.

    A binding gives the fixtures `shared`, an index for the whole class, and `open_index`, which opens an index of the
    test's own, again the same one, and enters it into `stack`.

    Attributes:
        alone: What is in the names of tests that get an index of their own, beside those that close or reopen theirs.
    """

    alone: ClassVar[tuple[str, ...]] = ("generation", "switch")

    @pytest.fixture
    def open_index(self) -> Callable[[], FullIndex[E, M]]:
        """Return what opens the index of this test."""
        raise NotImplementedError

    @pytest.fixture
    def stack(self) -> Iterator[ExitStack]:
        """Hold the open index."""
        with ExitStack() as stack:
            yield stack

    @pytest.fixture
    def index(self, open_index: Callable[[], FullIndex[E, M]]) -> FullIndex[E, M]:
        """Open a fresh index."""
        return open_index()

    @pytest.fixture
    def live(self, request: pytest.FixtureRequest) -> FullIndex[E, M]:
        """Give the shared index, emptied; to tests that close an index or make generations, one of their own."""
        return self.shared_or_own(request)

    @pytest.fixture
    def close(self, stack: ExitStack) -> Callable[[], None]:
        """Close the index."""
        return stack.close

    @pytest.fixture
    def reopen(
        self, close: Callable[[], None], open_index: Callable[[], FullIndex[E, M]]
    ) -> Callable[[], FullIndex[E, M]]:
        """Close the index and open it again."""

        def reopened() -> FullIndex[E, M]:
            close()
            return open_index()

        return reopened

    def shared_or_own(self, request: pytest.FixtureRequest) -> FullIndex[E, M]:
        """Return the index that a test gets, with an empty generation that is live."""
        name = request.function.__name__
        own = "close" in request.fixturenames or request.function.__module__ == index_generations.__name__
        own = own or any(word in name for word in self.alone)
        index: FullIndex[E, M] = request.getfixturevalue("index" if own else "shared")
        if own or index.manifest is None:
            self.renew(index, 1)
        else:
            index.replace({row_of(entry.entry_id): () for entry in index.inventory()})
        return index
