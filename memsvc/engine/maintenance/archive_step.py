"""The maintenance step ARCHIVE: memories unread for long, and the least useful ones over a size limit."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from memsvc.domain.maintenance import DueChange, MaintenanceReason, MaintenanceScope, UpkeepStep
from memsvc.domain.memory import Layer, Memory, Status
from memsvc.domain.reminders import is_to_come
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
from memsvc.ports.operations import MaintenanceCandidate, UnreadRule, UpkeepReads


class ArchiveStep:
    """Makes LONG_TERM memories ARCHIVED: default lists and searches exclude them, and they can be restored.

    Important memories stay, unless there are too many: a fact that matters is asked for once a year. So do those with
    a reminder that is still to come: archived ones are not announced. Before its valid_from nothing
    reads a memory, so the time without reads begins then, and one that is not valid yet makes no room.
    """

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
        """Read from *reads*, write by the others; *now* is the clock."""
        self._reads = reads
        self._committer = committer
        self._status_change = BulkStatusChange(record_builder, now)
        self._now = now
        self._rules = rules

    def find_due(self, area: MaintenanceScope, now: datetime, after: str, limit: int) -> StepPart:
        """Return memories unread for long, then those over the limit of their owner, least useful first."""
        cursor = _ArchiveCursor.read(after)
        return self._over_limit(area, now, cursor, limit) if cursor.owner else self._unread(area, now, cursor, limit)

    def apply(self, due: Sequence[DueChange]) -> StepResult:
        """Archive the memories."""

        def work(transaction: Transaction) -> list[DueChange]:
            now = self._now()
            rule = self._rules.unread(now)
            since = rule.since
            found = [
                (one, memory)
                for one, memory in eligible(transaction, due)
                if _is_due(one, memory, rule) and not _is_awaited(memory, now if _is_over_limit(one) else since, now)
            ]
            self._status_change.set_status(transaction, [memory for _, memory in found], Status.ARCHIVED)
            return [one for one, _ in found]

        done = self._committer.submit(work).value
        return StepResult(tuple(done), len(due) - len(done))

    def _unread(self, area: MaintenanceScope, now: datetime, cursor: _ArchiveCursor, limit: int) -> StepPart:
        rule = self._rules.unread(now)
        found = self._reads.unread(area, rule=rule, after=place_of(cursor.place), limit=limit)
        place = cursor_of(found, limit)
        following = str(_ArchiveCursor(place)) if place else self._next_owner(area, now, "")
        waiting = [one for one in found if not _is_awaited(one, rule.since, now)]
        return StepPart(tuple(due_of(self.kind, MaintenanceReason.UNREAD, one) for one in waiting), following)

    def _over_limit(self, area: MaintenanceScope, now: datetime, cursor: _ArchiveCursor, limit: int) -> StepPart:
        rule, excess = self._rules.unread(now), cursor.excess_bytes
        after = place_of(cursor.place)
        found = self._reads.least_useful(area, owner=cursor.owner, rule=rule, at=now, after=after, limit=limit)
        due: list[DueChange] = []
        for waiting in found:
            if excess <= 0:
                break
            if _is_awaited(waiting, now, now):
                continue
            due.append(due_of(self.kind, MaintenanceReason.OVER_LIMIT, waiting))
            excess -= waiting.content_bytes
        place = cursor_of(found, limit)
        if excess > 0 and place:
            return StepPart(tuple(due), str(_ArchiveCursor(place, cursor.owner, excess)))
        return StepPart(tuple(due), self._next_owner(area, now, cursor.owner))

    def _next_owner(self, area: MaintenanceScope, now: datetime, after: str) -> str:
        """Return the cursor of the first owner after *after* who exceeds the limit, or BEGINNING."""
        limit = self._rules.limit_bytes
        if not limit:
            return BEGINNING
        above = self._reads.above(area, content_bytes=limit, rule=self._rules.unread(now), at=now)
        following = min((owner for owner in above if owner > after), default=None)
        return BEGINNING if following is None else str(_ArchiveCursor(BEGINNING, following, above[following]))


@dataclass(frozen=True, slots=True)
class ArchiveRules:
    """Conditions for archiving LONG_TERM memories.

    Attributes:
        unread_for: Time without reads and changes.
        max_importance: Highest importance of the memories that are archived after that time.
        limit_bytes: Limit for the content of one owner's LONG_TERM memories, above which the least useful ones are
            archived. 0: no limit.
    """

    unread_for: timedelta = timedelta(days=90)
    max_importance: int = 3
    limit_bytes: int = 0

    def unread(self, now: datetime) -> UnreadRule:
        """Return which memories are unread at *now*."""
        return UnreadRule(now - self.unread_for, self.max_importance)


@dataclass(frozen=True, slots=True)
class _ArchiveCursor:
    """Position in the list of unread memories, or among those of an owner over the limit.

    Attributes:
        place: Position in the list, as text of `cursor_of`.
        owner: Empty in the list of unread memories.
        excess_bytes: Size still to be archived for this owner.
    """

    place: str = BEGINNING
    owner: str = ""
    excess_bytes: int = 0

    def __str__(self) -> str:
        return json.dumps([self.place, self.owner, self.excess_bytes])

    @classmethod
    def read(cls, text: str) -> _ArchiveCursor:
        return cls(*json.loads(text)) if text else cls()


def _is_due(due: DueChange, memory: Memory, rule: UnreadRule) -> bool:
    if memory.layer is not Layer.LONG_TERM:
        return False
    last_use = max(memory.update_time, memory.access_time or memory.create_time)
    is_unread = last_use < rule.since and memory.importance <= rule.max_importance
    return is_unread or _is_over_limit(due)


def _is_over_limit(due: DueChange) -> bool:
    return due.reason is MaintenanceReason.OVER_LIMIT


def _is_awaited(memory: Memory | MaintenanceCandidate, since: datetime, now: datetime) -> bool:
    """Return whether a memory is not valid before *since*, or has a reminder that is still to come."""
    begins_later = memory.valid_from is not None and memory.valid_from > since
    return begins_later or is_to_come(memory.reminder, now)
