"""Which memories get a reminder out of their content, and when it follows a change of that.

Not messages and documents, nor what says how things are for everybody, nor the private ones of a session; and nothing
that a tool or a document says, since that must not have an agent act.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from memsvc.domain.memory import Kind, Layer, Memory, Origin, Reminder
from memsvc.domain.reminders import YEARS
from memsvc.text.reminder_extraction import reminder_in, still_mentions

_KINDS = frozenset({Kind.FACT, Kind.PREFERENCE, Kind.EXPERIENCE, Kind.DECISION, Kind.TASK, Kind.NOTE})
_ORIGINS = frozenset({Origin.USER, Origin.AGENT, Origin.IMPORT})


@dataclass(frozen=True, slots=True)
class ReminderDetector:
    """Finds reminders.

    Attributes:
        zone: In which a moment is taken apart into day and hour: what is tomorrow depends on where one is.
        is_on: Whether to look at all.
    """

    zone: tzinfo = UTC
    is_on: bool = True

    def found(self, memory: Memory, now: datetime) -> Reminder | None:
        """Return what the content of *memory*, written *now*, reminds of. Its days count from when it was said."""
        if not self.is_on or memory.kind not in _KINDS or memory.origin not in _ORIGINS:
            return None
        moment = memory.event_time or now
        if memory.layer is Layer.SESSION or not YEARS[0] <= moment.year <= YEARS[1]:
            return None
        return reminder_in(memory.content, moment.astimezone(self.zone))

    def followed(self, before: Memory, after: Memory, now: datetime) -> Reminder | None:
        """Return the reminder of *after*, which says something else than *before* and was given none.

        One that was given stays, and one whose words are still there.
        """
        held = before.reminder
        if held is not None and (not held.phrase or still_mentions(held, after.content)):
            return held
        return self.found(after, now)
