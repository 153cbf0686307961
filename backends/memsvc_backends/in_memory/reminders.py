"""Reminders of the dict-based metadata store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime

from memsvc.domain.memory import Memory, Slot
from memsvc.domain.reminders import Given, Window, day_number, reminds
from memsvc.domain.scope import Reach
from memsvc.ports.features import ReminderPlace
from memsvc_backends.in_memory.state import State, is_within


class InprocReminderReads:
    """`memsvc.ports.features.ReminderReads`."""

    def __init__(self, state: Callable[[], State]) -> None:
        """Read from the state that *state* returns."""
        self._state = state

    def page(self, *, reach: Reach, window: Window, after: ReminderPlace | None, limit: int) -> list[Memory]:
        """Return a page."""
        places = {
            ReminderPlace(day_number(memory.reminder), memory.row): memory
            for memory in self._state().memories(reach)
            if memory.reminder is not None and reminds(memory)
        }
        wanted = sorted(
            place
            for place in places
            if (place.day in window.yearly or window.first <= place.day <= window.last)
            and (after is None or place > after)
        )
        return [places[place] for place in wanted[: max(0, limit)]]

    def given(self, rows: Sequence[int], *, since: date, reach: Reach) -> dict[int, frozenset[Given]]:
        """Return what was acknowledged."""
        state = self._state()
        found: dict[int, set[Given]] = {}
        for row, day, slot in state.reminders_given:
            memory = state.memory(row)
            if row in rows and day >= since and memory is not None and is_within(reach, memory):
                found.setdefault(row, set()).add((day, slot))
        return {row: frozenset(given) for row, given in found.items()}


class InprocReminderWrites:
    """`memsvc.ports.features.ReminderWrites`, on the state of a transaction."""

    state: State

    def acknowledge(self, memory: Memory, day: date, slot: Slot, moment: datetime) -> datetime:
        """Note it."""
        return self.state.reminders_given.setdefault((memory.row, day, slot), moment)

    def forget_given(self, row: int) -> None:
        """Remove what is noted of a memory."""
        noted = self.state.reminders_given
        self.state.reminders_given = {key: time for key, time in noted.items() if key[0] != row}
