"""Ports to the derived indexes: vectors and words, and the entries, inventories and generations they share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, cast

from memsvc.domain.clock import Deadline
from memsvc.domain.filters import Filter
from memsvc.domain.index_entries import Attributes, Hit, LexicalEntry, LexicalManifest, VectorManifest, View
from memsvc.domain.scope import Reach
from memsvc.ports.models import Vector

E_contra = TypeVar("E_contra", contravariant=True)
FUZZY_MIN_LENGTH = 5
"""Query terms of at least this many characters may be matched one edit away."""
FUZZY_BOOST = 3.0


@dataclass(frozen=True, slots=True)
class ListedEntry:
    """One entry as an inventory lists it."""

    entry_id: int
    fingerprint: int


class Generation(Protocol[E_contra]):
    """A new generation of an index, built next to the live one and not searched.

    Use: `replace` many times, `seal` once, `replace` for concurrent changes, then the index's `switch`; or
    `discard`. What a process that died left behind is removed when the index is next opened.
    """

    def replace(self, changes: Mapping[int, Sequence[E_contra]]) -> None:
        """Make the entries of each memory (by row) exactly those given; none removes the memory."""
        ...

    def seal(self) -> None:
        """Finish the bulk: flush, and build what the manifest asks for. May take minutes; searches go on."""
        ...

    def discard(self) -> None:
        """Remove the generation. Harmless when it was switched to or discarded already."""
        ...


class DerivedIndex(Protocol[E_contra]):
    """An index over memories: derived data. Losing it loses nothing that a rebuild from the store cannot bring.

    Safe to call from several threads; `replace`, `begin` and `switch` come from one thread at a time.
    An index that was never switched to a generation has no manifest; searches then find nothing, and
    `replace` must not be called.

    Several processes may share an index. Then `replace` is called by all, never for the same memory at a time, and not
    while one of them switches (`IndexFeed.claim` and `standing_still` see to it); one at a time makes a generation;
    after a switch by one, every search of the others that starts is answered by the new generation, and `manifest`
    follows within a second, or with the next search or change.
    """

    @property
    def is_shared(self) -> bool:
        """Return whether other processes search and write the same entries: then one of them builds for all."""
        ...

    def replace(self, changes: Mapping[int, Sequence[E_contra]]) -> None:
        """Make the entries of each memory (by row) exactly those given; none removes the memory.

        Idempotent. When this returns, the change survives kill -9 of any process, and every search that starts
        afterwards sees it. A memory that the index does not know is no error.

        Raises:
            DimensionMismatchError: A vector's length is not the index's; nothing was changed.
            BackendUnavailableError: The index cannot be reached; part of *changes* may be applied: repeat it all.
            BackendClosedError: The index was closed.
        """
        ...

    def inventory(self) -> Iterator[ListedEntry]:
        """List every entry of every owner, in any order, as of some moment during the iteration."""
        ...

    def count(self, *, reach: Reach | None = None) -> int:
        """Return the number of entries: those in *reach*, or all."""
        ...

    def storage_bytes(self) -> int:
        """Return the bytes on disk, or 0 when the index keeps none."""
        ...

    def ping(self) -> None:
        """Return when the index can be searched, or raise BackendUnavailableError."""
        ...


@dataclass(frozen=True, slots=True)
class IndexState:
    """State of an index on a server, for operators.

    Attributes:
        summary: One line: its status, and what it is made of.
        problems: One line for each problem, with its remedy.
    """

    summary: str
    problems: tuple[str, ...] = ()


class StateReporter(Protocol):
    """An index on a server that knows more of its state than `DerivedIndex.ping` says."""

    def state(self) -> IndexState | None:
        """Return the state of the live generation, or None when there is none.

        Raises:
            BackendUnavailableError: The index cannot be reached.
        """
        ...


def state_reporter(index: object) -> StateReporter | None:
    """Return *index* as one that reports its state, or None if it reports none."""
    return cast("StateReporter", index) if callable(getattr(index, "state", None)) else None


# The port to the nearest-neighbour index.


@dataclass(frozen=True, slots=True)
class VectorEntry:
    """One vector of a memory: unit length, already centred by the manifest's mean of its view."""

    entry_id: int
    view: View
    vector: Vector
    attributes: Attributes


class PendingSearch(Protocol):
    """A running search. Abandoning it does not affect other searches."""

    def result(self) -> Sequence[Hit]:
        """Return what `VectorIndex.search` returns, or raise what it raises. At most once, from any thread."""
        ...


@dataclass(frozen=True, slots=True)
class DeferredSearch:
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
        """Start a search, and return at once an object for its result, so that the caller can work in parallel.

        Whatever `search` raises comes with the result. The result is that of a search at some moment between this
        call and the end of `result`, so it sees every change that was made before this call. Any number may be begun
        before the first result is taken, and results may be taken in any order. An index that has nothing to gain
        returns `DeferredSearch`.
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

    def unsealed_count(self) -> int:
        """Return how many entries were written since the live generation was sealed; 0 without a generation.

        They may be searched more slowly than the others, until a new generation takes them in.
        """
        ...

    def wants_graph(self) -> bool:
        """Return whether a generation with a graph would be searched quicker than one without."""
        ...


# The port to the full-text index. Text analysis is not its job: it is given terms, and searched with terms.


class LexicalIndex(DerivedIndex[LexicalEntry], Protocol):
    """BM25 over terms (k1 = 1.2, b = 0.75; Robertson and Zaragoza, 2009).

    It holds a filter of every field of `memsvc.domain.index_entries.Attributes`, before the top *limit* is chosen.
    Document frequencies are those among the entries of the reach's owner, so that no ranking tells which terms others
    use. A Qdrant server counts the entries of all owners. The mean length of entries may be that of all owners.
    """

    @property
    def manifest(self) -> LexicalManifest | None:
        """Return the manifest of the live generation, or None when there is none."""
        ...

    def search(
        self, terms: Sequence[str], *, reach: Reach, where: Filter | None = None, limit: int, deadline: Deadline
    ) -> Sequence[Hit]:
        """Return at most *limit* entries that hold one of *terms* or more, best first, equal scores by entry id.

        A term of `FUZZY_MIN_LENGTH` characters or more that no entry of the owner holds is matched one edit away, with
        the boost `FUZZY_BOOST`. Terms are matched as they are; no character has a meaning. No terms: no hits.
        Scores are positive; they compare within one call only.

        Raises:
            DeadlineExceededError: The deadline passed first.
            BackendUnavailableError: The index cannot be read.
            BackendClosedError: The index was closed.
        """
        ...

    def begin(self, manifest: LexicalManifest) -> Generation[LexicalEntry]:
        """Start a generation with this manifest; its number must be larger than the live one's.

        Raises:
            ReindexRunningError: Another process that shares the index is making one, or has just made it.
        """
        ...

    def switch(self, generation: Generation[LexicalEntry]) -> None:
        """Make a sealed generation the live one, for good, in one step, and remove the one before.

        A search sees the old one or the new one, never both or neither.
        """
        ...
