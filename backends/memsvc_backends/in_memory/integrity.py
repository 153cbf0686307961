"""Looking for, and mending, what is wrong in the dict-based metadata store: it keeps little that can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from memsvc.domain.conflicts import Conflict
from memsvc.domain.diagnostics import Part
from memsvc.domain.index_entries import Chunk
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.sessions import Session
from memsvc.ports.operations import LostMessage, OrphanRow, RowCursor, StoredRow
from memsvc_backends.in_memory.state import State


class InprocIntegrityReads:
    """`memsvc.ports.operations.IntegrityReads`."""

    def __init__(self, state: Callable[[], State]) -> None:
        """Read from the state that *state* returns."""
        self._state = state

    def places(self, *, after: RowCursor | None, limit: int) -> list[RowCursor]:
        """Return the next places."""
        state = self._state()
        scopes = [record.memory.scope for record in state.records.values()]
        scopes += [session.scope for session in state.sessions.values()]
        names = sorted({(scope.owner, scope.project_id) for scope in scopes})
        return [RowCursor(*name) for name in names if after is None or name > (after.owner, after.project_id)][:limit]

    def known_ids(self, owner: str, ids: Sequence[str]) -> set[str]:
        """Return those that are there."""
        state = self._state()
        found = {one: state.memory(state.rows.get(one, 0)) for one in ids}
        return {one for one, memory in found.items() if memory is not None and memory.scope.owner == owner}

    def kept(self, memories: Sequence[Memory]) -> dict[int, StoredRow]:
        """Chunks and terms are one with the memory here, so that they are always all there."""
        state = self._state()
        return {
            memory.row: StoredRow(has_chunks=True, has_terms=True) for memory in memories if memory.row in state.records
        }

    def remains(self, part: Part, *, owner: str | None, after: int, limit: int) -> list[OrphanRow]:
        """Return what is left of gone memories: revisions are kept apart, the rest is one with the memory."""
        state = self._state()
        if part is not Part.REVISIONS or owner is not None:
            return []
        rows = sorted({row for row, _ in state.revisions if row > after and row not in state.records})
        return [OrphanRow(row) for row in rows[:limit]]

    def lost_messages(self, *, reach: Reach | None, after: int, limit: int) -> list[LostMessage]:
        """Return messages that lack something."""
        state = self._state()
        lost = [found for row in sorted(state.messages) if row > after and (found := _lost(state, row)) is not None]
        return [one for one in lost if _is_reached(reach, one.owner, one.project_id)][:limit]

    def emptied_sessions(self, *, reach: Reach | None, after: int, limit: int) -> list[Session]:
        """Return sessions that have lost all messages."""
        state = self._state()
        filled = {session for session, _ in state.messages.values()}
        return [
            session
            for row, session in sorted(state.sessions.items())
            if row > after and session.last_ordinal and row not in filled
            if _is_reached(reach, session.scope.owner, session.scope.project_id)
        ][:limit]

    def dangling_conflicts(self, *, reach: Reach | None, after: str, limit: int) -> list[Conflict]:
        """Return conflicts that lack a memory."""
        state = self._state()
        return [
            one
            for name, one in sorted(state.conflicts.items())
            if name > after and _is_dangling(state, one) and _is_reached(reach, one.owner, one.project_id)
        ][:limit]


class InprocIntegrityWrites:
    """`memsvc.ports.operations.IntegrityWrites`, on the state of a transaction."""

    state: State

    def reenter(self, memory: Memory, chunks: Sequence[Chunk]) -> None:
        """Write the chunks anew; terms are read from the memory."""
        record = self.state.records[memory.row]
        self.state.records[memory.row] = replace(record, chunks=tuple(chunks))

    def discard_remains(self, part: Part, rows: Sequence[int]) -> int:
        """Remove what is left of memories that are gone."""
        gone = {row for row, _ in self.state.revisions if row in rows and row not in self.state.records}
        if part is Part.REVISIONS:
            self.state.revisions = {key: one for key, one in self.state.revisions.items() if key[0] not in gone}
            return len(gone)
        return 0

    def discard_messages(self, rows: Sequence[int]) -> int:
        """Remove messages that lack something."""
        lost = [row for row in rows if row in self.state.messages and _lost(self.state, row) is not None]
        for row in lost:
            del self.state.messages[row]
        return len(lost)

    def discard_conflicts(self, conflicts: Sequence[Conflict]) -> int:
        """Remove conflicts that lack a memory."""
        names = [one.id for one in conflicts if one.id in self.state.conflicts and _is_dangling(self.state, one)]
        for name in names:
            del self.state.conflicts[name]
        return len(names)


def _lost(state: State, row: int) -> LostMessage | None:
    session_row, _ = state.messages[row]
    memory, session = state.memory(row), state.sessions.get(session_row)
    if memory is not None and session is not None:
        return None
    scope: Scope | None = memory.scope if memory is not None else session.scope if session is not None else None
    owner, project = (scope.owner, scope.project_id) if scope is not None else ("", "")
    return LostMessage(row, owner, project, "" if memory is None else memory.id)


def _is_dangling(state: State, conflict: Conflict) -> bool:
    sides = [state.memory(state.rows.get(one, 0)) for one in (conflict.older_id, conflict.newer_id)]
    return any(side is None or side.scope.owner != conflict.owner for side in sides)


def _is_reached(reach: Reach | None, owner: str, project_id: str) -> bool:
    return reach is None or (reach.owner == owner and project_id in reach.project_ids)
