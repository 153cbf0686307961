"""What a search works with, as narrow as it needs it: so that it works on what was known at another time, too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from memsvc.domain.clock import Deadline
from memsvc.domain.filters import Filter
from memsvc.domain.index_entries import Chunk
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach
from memsvc.domain.search import SearchQuery
from memsvc.engine.search.retrieval import Retrieved
from memsvc.ports.candidates import Candidates, Rows


class CandidateReader(Protocol):
    """Reads what ranking and showing need; `memsvc.ports.metadata.MemoryReads` is one."""

    def candidates(self, rows: Rows, *, reach: Reach) -> Candidates:
        """Return what ranking needs of these memories, in any order, those not there left out."""
        ...

    def by_rows(self, rows: Sequence[int], *, reach: Reach) -> dict[int, Memory]:
        """Return the memories with these rows, by row."""
        ...

    def chunks(self, wanted: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Chunk]:
        """Return chunks by (row, ordinal); those of memories of one chunk are left out."""
        ...


class RetrievalSource(Protocol):
    """Asks the retrievers; `memsvc.engine.search.retrieval.Retrieval` does."""

    def run(self, asked: RetrievalRequest, early: Callable[[Retrieved], None] | None = None) -> Retrieved:
        """Return what was found; a retriever that fails is named in *degraded*.

        *early* may be given what words alone found, as soon as that is known.
        """
        ...


class NotesAccesses(Protocol):
    """Is told which memories were read; `memsvc.engine.memories.lookup.AccessCounts` counts them."""

    def note(self, ids: Iterable[str]) -> None:
        """Take note that these memories were read."""
        ...


# A search as the retrievers need it.


@dataclass(frozen=True, slots=True)
class RetrievalRequest:
    """What to look for, where, how deep and until when."""

    query: SearchQuery
    reach: Reach
    where: Filter | None
    depth: int
    deadline: Deadline
