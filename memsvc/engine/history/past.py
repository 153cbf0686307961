"""A moment of known time: what was otherwise then than it is now.

Most memories are now as they were then: those whose update_time is not after the moment. The others are few, are found
by the index over update_time, and are read from their revisions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from memsvc.domain.clock import to_micros
from memsvc.domain.filters import Field, Filter, Range, conjunction
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach, Scope, SessionVisibility
from memsvc.domain.visibility import session_privacy, visible
from memsvc.ports.metadata import MemoryReads

SLICE = 500
"""How many memories are looked back at between two looks at the clock."""


@dataclass(frozen=True, slots=True)
class AsOfState:
    """What a caller in *scope*, within *reach*, may know of a *moment*.

    Nobody sees an earlier revision of a memory that they may not see now, nor one that was private then; *sessions*
    says whose private memories count.
    """

    reads: MemoryReads
    scope: Scope
    reach: Reach
    moment: datetime
    sessions: SessionVisibility = SessionVisibility.CURRENT

    @property
    def unchanged(self) -> Filter:
        """Return the filter of the memories that are as they were."""
        return Range(Field.UPDATE_TIME, at_most=to_micros(self.moment))

    def changed_rows(self, until: datetime | None = None) -> list[int]:
        """Return the rows of the memories that changed since, or are new, ascending; *until*: no later than that."""
        since = Range(
            Field.UPDATE_TIME, above=to_micros(self.moment), at_most=None if until is None else to_micros(until)
        )
        where = conjunction(since, session_privacy(self.scope, self.sessions))
        return [] if where is None else self.reads.rows_where(where, reach=self.reach)

    def states(self, rows: Sequence[int]) -> Iterator[list[Memory]]:
        """Yield these memories as they were, in slices; those that were not there, or were private, are left out."""
        for start in range(0, len(rows), SLICE):
            known = self.reads.known_at(rows[start : start + SLICE], self.moment, reach=self.reach)
            yield [memory for memory in known.values() if visible(memory, self.scope, self.sessions)]

    def state(self, memory: Memory) -> Memory | None:
        """Return one memory as it was."""
        if memory.update_time <= self.moment:
            return memory
        return next((found for part in self.states([memory.row]) for found in part), None)
