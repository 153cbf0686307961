"""Archive: what was not read for long, or takes too much room, is put away (requirement L4)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from memsvc.domain.maintenance import Area, Due, Reason, UpkeepStep
from memsvc.domain.memory import Layer, Memory, Status
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.maintenance.step import (
    BEGINNING,
    BulkStatusChange,
    StepPart,
    StepResult,
    cursor_of,
    due_of,
    eligible,
    place_of,
)
from memsvc.engine.records.memory_builder import RecordBuilder
from memsvc.ports.metadata import Transaction
from memsvc.ports.operations import UpkeepReads


@dataclass(frozen=True, slots=True)
class ArchiveRules:
    """When a LONG_TERM memory is archived.

    Attributes:
        unread_for: So long neither read nor changed.
        limit_bytes: How much the content of one owner's LONG_TERM memories may take, before the least useful ones are
            archived. 0: no limit.
    """

    unread_for: timedelta = timedelta(days=90)
    limit_bytes: int = 0


@dataclass(frozen=True, slots=True)
class _Cursor:
    """Where the step is: in the list of unread memories, or among those of an owner with too many.

    Attributes:
        place: In the list, as `cursor_of` writes it.
        owner: Empty: in the list of unread memories.
        excess_bytes: How much of this owner is still to be archived.
    """

    place: str = BEGINNING
    owner: str = ""
    excess_bytes: int = 0

    def __str__(self) -> str:
        return json.dumps([self.place, self.owner, self.excess_bytes])

    @classmethod
    def read(cls, text: str) -> _Cursor:
        return cls(*json.loads(text)) if text else cls()


class ArchiveStep:
    """Makes LONG_TERM memories ARCHIVED: they leave lists and searches that do not ask for them, and can come back."""

    kind = UpkeepStep.ARCHIVE
    batch = 25

    def __init__(
        self,
        reads: UpkeepReads,
        committer: GroupCommitter,
        record_builder: RecordBuilder,
        now: Callable[[], datetime],
        rules: ArchiveRules,
    ) -> None:
        """Find by *reads*, write by the rest; *now* is the clock."""
        self._reads = reads
        self._committer = committer
        self._status_change = BulkStatusChange(record_builder, now)
        self._now = now
        self._rules = rules

    def find_due(self, area: Area, now: datetime, after: str, limit: int) -> StepPart:
        """Return what was not read for long, then what owners keep beyond the limit, the least useful first."""
        cursor = _Cursor.read(after)
        return self._beyond(area, now, cursor, limit) if cursor.owner else self._unread(area, now, cursor, limit)

    def apply(self, due: Sequence[Due]) -> StepResult:
        """Archive them."""

        def work(transaction: Transaction) -> list[Due]:
            since = self._now() - self._rules.unread_for
            found = [(one, memory) for one, memory in eligible(transaction, due) if _is_due(one, memory, since)]
            self._status_change.set_status(transaction, [memory for _, memory in found], Status.ARCHIVED)
            return [one for one, _ in found]

        done = self._committer.submit(work).value
        return StepResult(tuple(done), len(due) - len(done))

    def _unread(self, area: Area, now: datetime, cursor: _Cursor, limit: int) -> StepPart:
        since = now - self._rules.unread_for
        found = self._reads.unread(area, since=since, after=place_of(cursor.place), limit=limit)
        place = cursor_of(found, limit)
        following = str(_Cursor(place)) if place else self._next_owner(area, now, "")
        return StepPart(tuple(due_of(self.kind, Reason.UNREAD, one) for one in found), following)

    def _beyond(self, area: Area, now: datetime, cursor: _Cursor, limit: int) -> StepPart:
        since, excess = now - self._rules.unread_for, cursor.excess_bytes
        after = place_of(cursor.place)
        found = self._reads.least_useful(area, owner=cursor.owner, since=since, at=now, after=after, limit=limit)
        due: list[Due] = []
        for waiting in found:
            if excess <= 0:
                break
            due.append(due_of(self.kind, Reason.OVER_LIMIT, waiting))
            excess -= waiting.content_bytes
        place = cursor_of(found, limit)
        if excess > 0 and place:
            return StepPart(tuple(due), str(_Cursor(place, cursor.owner, excess)))
        return StepPart(tuple(due), self._next_owner(area, now, cursor.owner))

    def _next_owner(self, area: Area, now: datetime, after: str) -> str:
        """Return the cursor of the first owner behind *after* who keeps too much, or that of the beginning."""
        limit = self._rules.limit_bytes
        if not limit:
            return BEGINNING
        above = self._reads.above(area, content_bytes=limit, since=now - self._rules.unread_for, at=now)
        following = min((owner for owner in above if owner > after), default=None)
        return BEGINNING if following is None else str(_Cursor(BEGINNING, following, above[following]))


def _is_due(due: Due, memory: Memory, since: datetime) -> bool:
    if memory.layer is not Layer.LONG_TERM:
        return False
    is_unread = memory.update_time < since and (memory.access_time or memory.create_time) < since
    return is_unread or due.reason is Reason.OVER_LIMIT
