"""The port to the nearest-neighbour index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from memsvc.domain.clock import Deadline
from memsvc.domain.filters import Filter
from memsvc.domain.index_entries import Attributes, Hit, VectorManifest, View
from memsvc.domain.scope import Reach
from memsvc.ports.indexes import DerivedIndex, Generation
from memsvc.ports.models import Vector


@dataclass(frozen=True, slots=True)
class VectorEntry:
    """One vector of a memory: unit length, already centred by the manifest's mean of its view."""

    entry_id: int
    view: View
    vector: Vector
    attributes: Attributes


class PendingSearch(Protocol):
    """A search that was begun. One that nobody asks for its result costs nobody else anything."""

    def result(self) -> Sequence[Hit]:
        """Return what `VectorIndex.search` returns, or raise what it raises. At most once, from any thread."""
        ...


@dataclass(frozen=True, slots=True)
class Deferred:
    """The pending search of an index that can begin none: all is done when the result is asked for."""

    search: Callable[[], Sequence[Hit]]

    def result(self) -> Sequence[Hit]:
        """Search."""
        return self.search()


class VectorIndex(DerivedIndex[VectorEntry], Protocol):
    """Nearest-neighbour search over memory vectors.

    It holds a filter of every field of `memsvc.domain.index_entries.Attributes`, before the top *limit* is chosen.
    """

    @property
    def manifest(self) -> VectorManifest | None:
        """Return the manifest of the live generation, or None when there is none."""
        ...

    def search(
        self, vector: Vector, *, view: View, reach: Reach, where: Filter | None = None, limit: int, deadline: Deadline
    ) -> Sequence[Hit]:
        """Return at most *limit* entries of *view* within *reach*, best first, equal scores by entry id.

        Scores are cosine similarities of the stored vectors with *vector*: -1 to 1, larger is closer. A generation
        with a graph may miss a few of the nearest; one without misses none.

        Raises:
            DimensionMismatchError: The vector's length is not the index's.
            DeadlineExceededError: The deadline passed first.
            BackendUnavailableError: The index cannot be reached.
            BackendClosedError: The index was closed.
        """
        ...

    def begin_search(
        self, vector: Vector, *, view: View, reach: Reach, where: Filter | None = None, limit: int, deadline: Deadline
    ) -> PendingSearch:
        """Start a search, and return at once what its result is taken from, so that the caller can work meanwhile.

        Whatever `search` raises comes with the result. The result is that of a search at some moment between this
        call and the end of `result`, so it sees every change that was made before this call. Any number may be begun
        before the first result is taken, and results may be taken in any order. An index that has nothing to gain
        returns `Deferred`.
        """
        ...

    def begin(self, manifest: VectorManifest) -> Generation[VectorEntry]:
        """Start a generation with this manifest; its number must be larger than the live one's.

        Raises:
            ReindexRunningError: Another process that shares the index is making one, or has just made it.
        """
        ...

    def switch(self, generation: Generation[VectorEntry]) -> None:
        """Make a sealed generation the live one, for good, in one step, and remove the one before.

        A search sees the old one or the new one, never both or neither.
        """
        ...

    def loose(self) -> int:
        """Return how many entries were written since the live generation was sealed; 0 without a generation.

        They may be searched more slowly than the others, until a new generation takes them in.
        """
        ...

    def graph_pays(self) -> bool:
        """Return whether a generation with a graph would be searched quicker than one without."""
        ...
