"""The two derived indexes, as the indexer sees them: alike but for what an entry is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from memsvc.domain.diagnostics import IndexKind
from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.index_entries import Document
from memsvc.ports.derived_index import Generation, Listed
from memsvc.ports.lexical import LexicalIndex
from memsvc.ports.vectors import VectorIndex

E = TypeVar("E")
X = TypeVar("X", bound=LexicalIndex | VectorIndex)


class Draft(Protocol):
    """A generation that is being made."""

    number: int

    def write(self, rows: Sequence[int], documents: Sequence[Document]) -> None:
        """Make the entries of *rows* those of *documents*; rows without a document have none."""
        ...

    def seal(self) -> None:
        """Finish the bulk."""
        ...

    def switch(self) -> None:
        """Become the live generation."""
        ...

    def discard(self) -> None:
        """Go away, unless live."""
        ...


class IndexWriter(Protocol):
    """One derived index."""

    kind: IndexKind

    def generation(self) -> int:
        """Return the number of the live generation, 0 without one."""
        ...

    @property
    def is_shared(self) -> bool:
        """Return whether other processes search and write the same index."""
        ...

    def is_current(self) -> bool:
        """Return whether the live generation can take writes: it exists, and for vectors, its model is at hand."""
        ...

    def answers(self) -> bool:
        """Return whether the index can be reached."""
        ...

    def is_stale(self) -> bool:
        """Return whether a new generation is due: none is live, or it was made by another model or analysis."""
        ...

    def write(self, rows: Sequence[int], documents: Sequence[Document]) -> None:
        """Make the live entries of *rows* those of *documents*; rows without a document have none."""
        ...

    def draft(self, *, position: int, sample: Callable[[], Iterator[Document]], total: int) -> Draft:
        """Begin a generation as of *position*; *sample* reads all documents anew, *total* in number."""
        ...

    def inventory(self) -> Iterator[Listed]:
        """List every live entry."""
        ...


class Drafting(Generic[E]):
    """A generation, with the function that makes its entries."""

    def __init__(
        self,
        number: int,
        generation: Generation[E],
        make: Callable[[Sequence[Document]], dict[int, list[E]]],
        switch: Callable[[Generation[E]], None],
    ) -> None:
        self.number = number
        self._generation = generation
        self._make = make
        self._switch = switch

    def write(self, rows: Sequence[int], documents: Sequence[Document]) -> None:
        """Make the entries of *rows* those of *documents*; rows without a document have none."""
        self._generation.replace(changes_of(rows, self._make(documents)))

    def seal(self) -> None:
        """Finish the bulk."""
        self._generation.seal()

    def switch(self) -> None:
        """Become the live generation."""
        self._switch(self._generation)

    def discard(self) -> None:
        """Go away, unless live."""
        self._generation.discard()


def changes_of(rows: Sequence[int], made: dict[int, list[E]]) -> dict[int, list[E]]:
    """Return the entries of each of *rows*; those of which none were made are to have none."""
    return {row: made.get(row, []) for row in rows}


class IndexSide(Generic[X]):
    """What both are, over an index of their own."""

    def __init__(self, index: X) -> None:
        self._index = index

    @property
    def is_shared(self) -> bool:
        """Return whether other processes search and write the same index."""
        return self._index.is_shared

    def generation(self) -> int:
        """Return the number of the live generation, 0 without one."""
        manifest = self._index.manifest
        return manifest.generation if manifest else 0

    def answers(self) -> bool:
        """Return whether the index can be reached."""
        try:
            self._index.ping()
        except BackendUnavailableError:
            return False
        return True

    def inventory(self) -> Iterator[Listed]:
        """List every live entry."""
        return self._index.inventory()
