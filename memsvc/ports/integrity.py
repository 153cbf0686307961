"""What the metadata store tells, and mends, of its own consistency: parts of `memsvc.ports.metadata`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from memsvc.domain.conflicts import Conflict
from memsvc.domain.diagnostics import Part
from memsvc.domain.index_entries import Chunk
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach
from memsvc.domain.sessions import Session


@dataclass(frozen=True, slots=True)
class RowCursor:
    """An owner and one of their projects."""

    owner: str
    project_id: str


@dataclass(frozen=True, slots=True)
class StoredRow:
    """Whether what is kept beside a memory is all there: the pieces of its content, and its terms."""

    has_chunks: bool
    has_terms: bool


@dataclass(frozen=True, slots=True)
class OrphanRow:
    """What is left of a memory that is gone: its row, and the owner where that is known."""

    row: int
    owner: str = ""


@dataclass(frozen=True, slots=True)
class LostMessage:
    """A message whose memory is not there (then *memory_id* is empty), or else whose session is not."""

    row: int
    owner: str
    project_id: str
    memory_id: str


class IntegrityReads(Protocol):
    """Reading what is wrong. A reach holds it to one owner and some projects; None stands for all, and for nobody's.

    Lists are bounded and ordered, so that whoever asks again after the last one gets the rest.
    """

    def places(self, *, after: RowCursor | None, limit: int) -> list[RowCursor]:
        """Return the next *limit* places that have memories or sessions, by owner, then project."""
        ...

    def known_ids(self, owner: str, ids: Sequence[str]) -> set[str]:
        """Return those of *ids* that are memories of exactly this owner, of any project and status."""
        ...

    def kept(self, memories: Sequence[Memory]) -> dict[int, StoredRow]:
        """Return by row what is kept beside these memories, as they are stored; those not there are left out."""
        ...

    def remains(self, part: Part, *, owner: str | None, after: int, limit: int) -> list[OrphanRow]:
        """Return the next *limit* rows after *after* of which a part is left though the memory is gone, ascending.

        With an owner only those that are known to be that owner's: chunks, vectors and revisions are nobody's.
        """
        ...

    def lost_messages(self, *, reach: Reach | None, after: int, limit: int) -> list[LostMessage]:
        """Return the next *limit* messages after row *after* that lack their memory or session, by row."""
        ...

    def emptied_sessions(self, *, reach: Reach | None, after: int, limit: int) -> list[Session]:
        """Return the next *limit* sessions after row *after* that have had messages and have none now, by row."""
        ...

    def dangling_conflicts(self, *, reach: Reach | None, after: str, limit: int) -> list[Conflict]:
        """Return the next *limit* conflicts after the id *after* that lack a memory of the same owner, by id."""
        ...


class IntegrityWrites(Protocol):
    """Mending, in a transaction. What is right meanwhile is left alone."""

    def reenter(self, memory: Memory, chunks: Sequence[Chunk]) -> None:
        """Write anew what is kept beside a memory that is stored just so: terms and chunks (none, or two and more)."""
        ...

    def discard_remains(self, part: Part, rows: Sequence[int]) -> int:
        """Remove what is left of memories that are gone; return of how many there was something."""
        ...

    def discard_messages(self, rows: Sequence[int]) -> int:
        """Remove messages that lack their memory or session; return how many."""
        ...

    def discard_conflicts(self, conflicts: Sequence[Conflict]) -> int:
        """Remove conflicts that lack a memory; return how many."""
        ...
