"""What the metadata store keeps of statements and conflicts: parts of `memsvc.ports.metadata`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from memsvc.domain.conflicts import Conflict, ConflictState, Statement
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach


@dataclass(frozen=True, slots=True)
class StoredStatement:
    """That a memory states something."""

    memory_id: str
    statement: Statement


class ConflictReads(Protocol):
    """Reading conflicts. Everything is held to *reach*; what lies outside is as if it were not there."""

    def get(self, ids: Sequence[str], *, reach: Reach) -> dict[str, Conflict]:
        """Return the conflicts with these ids by id; those not there are left out."""
        ...

    def page(
        self, *, reach: Reach, states: Sequence[ConflictState], memory_id: str, before: str, limit: int
    ) -> list[Conflict]:
        """Return at most *limit* conflicts in one of *states*, the newest first.

        With a *memory_id* only those of that memory, and with *before* only those whose id is smaller.
        """
        ...


class ConflictWrites(Protocol):
    """What a transaction does about statements, conflicts and chains. Owners and projects are whole, exact strings."""

    def find_statements(
        self, owner: str, project_id: str, topics: Sequence[str], *, limit: int
    ) -> list[StoredStatement]:
        """Return what ACTIVE memories of the project state about the topics.

        Of each topic at most *limit* statements, those of the newest memories first.
        """
        ...

    def add_conflicts(self, conflicts: Sequence[Conflict]) -> None:
        """Store new conflicts. They go when one of their memories is purged."""
        ...

    def settle_conflicts(self, conflicts: Sequence[Conflict]) -> None:
        """Write the newer memory, the values, the state and the resolve time of stored conflicts."""
        ...

    def get_conflict(self, conflict_id: str, *, reach: Reach) -> Conflict | None:
        """Return a conflict so that no other transaction changes it before this one ends."""
        ...

    def conflicts_over(self, owner: str, older_id: str, *, limit: int) -> list[Conflict]:
        """Return the conflicts of every state in which a memory is the older side, at most *limit*, newest first."""
        ...

    def open_conflicts(self, owner: str, memory_ids: Sequence[str]) -> list[Conflict]:
        """Return the OPEN conflicts in which one of the memories is either side, by id."""
        ...

    def superseded_by(self, owner: str, memory_id: str) -> list[Memory]:
        """Return the memories of *owner* whose superseded_by_id is this, in every project and status, by row.

        No other transaction changes them before this one ends.
        """
        ...
