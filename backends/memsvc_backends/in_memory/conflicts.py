"""Statements and conflicts of the dict-based metadata store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from memsvc.domain.conflicts import Conflict, ConflictState
from memsvc.domain.memory import Status
from memsvc.domain.scope import Reach
from memsvc.ports.features import StoredStatement
from memsvc_backends.in_memory.state import State


class InprocConflictReads:
    """`memsvc.ports.features.ConflictReads`."""

    def __init__(self, state: Callable[[], State]) -> None:
        """Read from the state that *state* returns."""
        self._state = state

    def get(self, ids: Sequence[str], *, reach: Reach) -> dict[str, Conflict]:
        """Return those that are there."""
        return {one.id: one for one in self._state().conflicts.values() if one.id in ids and _is_within(reach, one)}

    def page(
        self, *, reach: Reach, states: Sequence[ConflictState], memory_id: str, before: str, limit: int
    ) -> list[Conflict]:
        """Return a page."""
        found = [
            one
            for one in self._state().conflicts.values()
            if _is_within(reach, one)
            and one.state in states
            and memory_id in {"", one.older_id, one.newer_id}
            and (not before or one.id < before)
        ]
        return sorted(found, key=lambda conflict: conflict.id, reverse=True)[: max(0, limit)]


class InprocConflictWrites:
    """`memsvc.ports.features.ConflictWrites`, on the state of a transaction."""

    state: State
    refuse_erased: Callable[[Iterable[str]], None]

    def find_statements(
        self, owner: str, project_id: str, topics: Sequence[str], *, limit: int
    ) -> list[StoredStatement]:
        """Return what is stated."""
        records = [
            record
            for _, record in sorted(self.state.records.items(), reverse=True)
            if (record.memory.scope.owner, record.memory.scope.project_id) == (owner, project_id)
            and record.memory.status is Status.ACTIVE
        ]
        found: list[StoredStatement] = []
        for topic in dict.fromkeys(topics):
            stated = [
                StoredStatement(record.memory.id, statement)
                for record in records
                for statement in record.statements or ()
                if statement.topic == topic
            ]
            found += stated[: max(0, limit)]
        return found

    def add_conflicts(self, new: Sequence[Conflict]) -> None:
        """Insert."""
        self.refuse_erased({conflict.owner for conflict in new})
        self.state.conflicts.update({conflict.id: conflict for conflict in new})

    def settle_conflicts(self, settled: Sequence[Conflict]) -> None:
        """Update."""
        for conflict in settled:
            stored = self.state.conflicts.get(conflict.id)
            if stored is not None:
                kept = replace(conflict, older_id=stored.older_id, create_time=stored.create_time)
                self.state.conflicts[conflict.id] = kept

    def get_conflict(self, conflict_id: str, *, reach: Reach) -> Conflict | None:
        """Return one."""
        found = self.state.conflicts.get(conflict_id)
        return found if found is not None and _is_within(reach, found) else None

    def conflicts_over(self, owner: str, older_id: str, *, limit: int) -> list[Conflict]:
        """Return those in which a memory is the older side."""
        found = [one for one in self.state.conflicts.values() if one.owner == owner and one.older_id == older_id]
        return sorted(found, key=lambda conflict: conflict.id, reverse=True)[: max(0, limit)]

    def open_conflicts(self, owner: str, memory_ids: Sequence[str]) -> list[Conflict]:
        """Return the open ones of some memories."""
        wanted = set(memory_ids)
        found = [
            one
            for one in self.state.conflicts.values()
            if one.owner == owner and one.state is ConflictState.OPEN and wanted & {one.older_id, one.newer_id}
        ]
        return sorted(found, key=lambda conflict: conflict.id)

    def forget_conflicts(self, memory_id: str) -> None:
        """Remove the conflicts of a memory."""
        conflicts = self.state.conflicts
        self.state.conflicts = {
            one.id: one for one in conflicts.values() if memory_id not in {one.older_id, one.newer_id}
        }


def _is_within(reach: Reach, conflict: Conflict) -> bool:
    return conflict.owner == reach.owner and conflict.project_id in reach.project_ids
