"""The dict-based metadata store, looking back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from memsvc.domain.history import Checkpoint, Revision, Tombstone
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach
from memsvc_backends.in_memory.state import State, is_within


class InprocHistoryReads:
    """`memsvc.ports.features.HistoryReads`."""

    _state: Callable[[], State]

    def revisions(self, memory_id: str, *, reach: Reach, before: int | None, limit: int) -> list[Revision]:
        """Return revisions, newest first."""
        state = self._state()
        line = _line(state, state.rows.get(memory_id, 0), reach)
        if not line:
            return []
        ends = [memory.update_time for memory in line[1:]]
        found = [
            Revision(memory, state.actions[memory.row, memory.revision], end)
            for memory, end in zip(line, [*ends, None], strict=True)
            if before is None or memory.revision < before
        ]
        return found[::-1][: max(0, limit)]

    def known_at(self, rows: Sequence[int], moment: datetime, *, reach: Reach) -> dict[int, Memory]:
        """Return what was known at a moment."""
        state = self._state()
        known: dict[int, Memory] = {}
        for row in dict.fromkeys(rows):
            line = [memory for memory in _line(state, row, reach) if memory.update_time <= moment]
            known |= {row: line[-1]} if line else {}
        return known


class InprocCheckpoints:
    """`memsvc.ports.features.CheckpointReads`."""

    def __init__(self, state: Callable[[], State]) -> None:
        """Read from the state that *state* returns."""
        self._state = state

    def get(self, owner: str, project_id: str, name: str) -> Checkpoint | None:
        """Return a checkpoint by its name."""
        return self._state().checkpoints.get((owner, project_id, name))

    def page(self, owner: str, project_id: str, *, after: tuple[datetime, str] | None, limit: int) -> list[Checkpoint]:
        """Return checkpoints, newest first."""
        every = [
            one for one in self._state().checkpoints.values() if (one.owner, one.project_id) == (owner, project_id)
        ]
        ordered = sorted(every, key=lambda one: one.name)
        ordered.sort(key=lambda one: one.create_time, reverse=True)
        if after is not None:
            time, name = after
            ordered = [
                one for one in ordered if one.create_time < time or (one.create_time == time and one.name > name)
            ]
        return ordered[: max(0, limit)]

    def tombstones(self, *, reach: Reach, moment: datetime, after_row: int, limit: int) -> list[Tombstone]:
        """Return what was purged since a moment."""
        found = [
            tombstone
            for owner, tombstone in self._state().tombstones
            if owner == reach.owner
            and tombstone.project_id in reach.project_ids
            and tombstone.create_time <= moment < tombstone.time
            and tombstone.row > after_row
        ]
        return sorted(found, key=lambda tombstone: tombstone.row)[: max(0, limit)]


def _line(state: State, row: int, reach: Reach) -> list[Memory]:
    """Return all revisions of a memory, oldest first."""
    current = state.memory(row)
    if current is None or not is_within(reach, current):
        return []
    # Of a memory that is just being imported, some may still be missing.
    names = ((row, revision) for revision in range(1, current.revision))
    earlier = [state.revisions[name] for name in names if name in state.revisions]
    return [*earlier, current]
