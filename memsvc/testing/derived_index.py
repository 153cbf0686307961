"""Base of both index contracts: the seams through which they drive an index."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

import pytest

from memsvc.domain.clock import Deadline
from memsvc.domain.filters import Filter
from memsvc.domain.index_entries import Attributes, Hit, View, attributes_of, entry_id
from memsvc.domain.scope import Reach
from memsvc.ports.indexes import DerivedIndex, Generation
from memsvc.testing import factories

E = TypeVar("E")
M = TypeVar("M")

NO_HURRY = Deadline()
REACH = Reach("\x1fada", ("",))
"""The reach that holds what `memsvc.testing.factories` makes by default."""


class FullIndex(DerivedIndex[E], Protocol[E, M]):
    """The part of VectorIndex and LexicalIndex that differs only in the types of entry and manifest."""

    @property
    def manifest(self) -> M | None:
        """Return the manifest of the live generation."""
        ...

    def begin(self, manifest: M) -> Generation[E]:
        """Start a generation."""
        ...

    def switch(self, generation: Generation[E]) -> None:
        """Make a generation the live one."""
        ...


class IndexSeams(ABC, Generic[E, M]):
    """Functions that a contract needs to drive an index.

    A binding gives the fixture `index`: a fresh index without a live generation. It gives `close` when leaving the
    context can be tested, and `reopen` when the index keeps its entries: it closes the index and returns another on
    the same directory.
    """

    @abstractmethod
    def manifest_of(self, generation: int) -> M:
        """Return a manifest with this number and something in every other field."""

    @abstractmethod
    def entry(self, attributes: Attributes, *, ordinal: int = 0, strength: float = 1.0) -> E:
        """Return an entry that `hits` finds; it ranks higher the larger *strength* (0 to 1) is."""

    @abstractmethod
    def hits(
        self,
        index: FullIndex[E, M],
        *,
        reach: Reach = REACH,
        where: Filter | None = None,
        limit: int = 100,
        deadline: Deadline = NO_HURRY,
    ) -> Sequence[Hit]:
        """Search for everything."""

    @pytest.fixture
    def close(self) -> Callable[[], None]:
        """Close the index that the fixture `index` gave."""
        pytest.skip("The binding gives no way to close the index.")

    @pytest.fixture
    def reopen(self) -> Callable[[], FullIndex[E, M]]:
        """Close the index and open it again on the same directory."""
        pytest.skip("The index keeps nothing when it is closed.")

    @pytest.fixture
    def live(self, index: FullIndex[E, M]) -> FullIndex[E, M]:
        """Return the index with an empty first generation."""
        self.renew(index, 1)
        return index

    def renew(self, index: FullIndex[E, M], generation: int, *memories: Attributes) -> None:
        """Begin, fill, seal and switch to a generation that holds one entry of each memory."""
        made = index.begin(self.manifest_of(generation))
        made.replace(self.changes(*memories))
        made.seal()
        index.switch(made)

    def changes(self, *memories: Attributes) -> dict[int, Sequence[E]]:
        """Return the change that gives each memory one entry."""
        return {memory.row: (self.entry(memory),) for memory in memories}

    def rows(self, index: FullIndex[E, M], *, reach: Reach = REACH, where: Filter | None = None) -> list[int]:
        """Return the rows of all memories that a search finds, ascending, as often as it finds them."""
        return sorted(hit.entry_id >> 16 for hit in self.hits(index, reach=reach, where=where))


def chunk(row: int, ordinal: int = 0) -> int:
    """Return the number of a memory's chunk entry."""
    return entry_id(row, View.CHUNK, ordinal)


def placed(row: int, owner: str, project_id: str = "") -> Attributes:
    """Return attributes of any owner; *owner* is tenant and user joined as in `Scope.owner`."""
    tenant, user = owner.split("\x1f")
    return attributes_of(factories.memory(row=row, tenant_id=tenant, user_id=user, project_id=project_id))
