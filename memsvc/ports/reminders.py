"""What the metadata store keeps of reminders: parts of `memsvc.ports.metadata`.

A memory with a reminder is listed here while its status is ACTIVE, from the transaction on that writes it so, and until
the one that writes it otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import NamedTuple, Protocol

from memsvc.domain.memory import Memory, Slot
from memsvc.domain.reminders import Given, Window
from memsvc.domain.scope import Reach


class ReminderPlace(NamedTuple):
    """Where a memory stands in the list of reminders: see `memsvc.domain.reminders.day_number`."""

    day: int
    row: int


class ReminderReads(Protocol):
    """Reading reminders. Everything is held to *reach*; what lies outside is as if it were not there."""

    def page(self, *, reach: Reach, window: Window, after: ReminderPlace | None, limit: int) -> list[Memory]:
        """Return at most *limit* memories whose reminders lie in *window*, by place, those after *after*.

        What it takes depends on how many those are, not on how many other memories or reminders there are.
        """
        ...

    def given(self, rows: Sequence[int], *, since: date, reach: Reach) -> dict[int, frozenset[Given]]:
        """Return on which days, not before *since*, and in which slots the reminders of memories were acknowledged.

        By row; a memory without any is left out.
        """
        ...


class ReminderWrites(Protocol):
    """What a transaction does about reminders."""

    def acknowledge(self, memory: Memory, day: date, slot: Slot, moment: datetime) -> datetime:
        """Note that a reminder was given; return since when that is noted, which is the first time.

        What is noted stays however the memory changes, and goes when it is purged.
        """
        ...
