"""Daily logs of the dict-based metadata store."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from memsvc.domain.maintenance import Area
from memsvc.domain.memory import Memory, Status
from memsvc.domain.memory_keys import DAILY
from memsvc.ports.operations import LogPlace
from memsvc_backends.in_memory.state import State


class InprocLogs:
    """`memsvc.ports.operations.LogReads`."""

    def __init__(self, state: Callable[[], State]) -> None:
        """Read from the state that *state* returns."""
        self._state = state

    def old_logs(self, area: Area, *, before: str, after: LogPlace, limit: int) -> Sequence[Memory]:
        """Return the next old logs."""
        logs = {
            (memory.key, memory.row): memory
            for memory in (record.memory for record in self._state().live())
            if memory.status is Status.ACTIVE and memory.key.startswith(DAILY) and memory.key < before
            and area.holds(memory.scope)
        }  # fmt: skip
        following = sorted(place for place in logs if place > (after.key, after.row))
        return [logs[place] for place in following[: max(0, limit)]]
