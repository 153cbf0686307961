"""The maintenance step EXPIRE: memories past their expire_time, and finished work in progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.limits import CONTENT, TAGS
from memsvc.domain.maintenance import DueChange, MaintenanceReason, MaintenanceScope, UpkeepStep
from memsvc.domain.memory import Memory, Status
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.maintenance.step import BulkStatusChange, StepPart, StepResult, cursor_of, due_of, eligible, place_of
from memsvc.engine.records.memory_builder import RecordBuilder, ReminderDetector
from memsvc.engine.records.memory_patch import apply_values
from memsvc.ports.metadata import Transaction
from memsvc.ports.operations import UpkeepReads
from memsvc.text.analysis import is_han

FINISHED = "finished"
"""Tag of finished work."""
_UNFINISHED = frozenset(
    {"wip", "work-in-progress", "work_in_progress", "work in progress", "in-progress", "in_progress", "in progress"}
    | {"进行中", "進行中", "未完成"}
)
"""Tags removed from finished work, in lower case."""
_EXPIRING = frozenset({Status.ACTIVE, Status.CONFLICTED})


class ExpireStep:
    """Makes memories EXPIRED after their expire_time, which removes them from the indexes; no data is deleted."""

    kind = UpkeepStep.EXPIRE
    batch = 25

    def __init__(
        self,
        reads: UpkeepReads,
        committer: GroupCommitter,
        record_builder: RecordBuilder,
        reminder_detector: ReminderDetector,
        now: Callable[[], datetime],
    ) -> None:
        """Read from *reads*, write by the others; *now* is the clock."""
        self._reads = reads
        self._committer = committer
        self._record_builder = record_builder
        self._reminder_detector = reminder_detector
        self._status_change = BulkStatusChange(record_builder, now)
        self._now = now

    def find_due(self, area: MaintenanceScope, now: datetime, after: str, limit: int) -> StepPart:
        """Return expired memories, the first to expire first."""
        found = self._reads.expired_memories(area, at=now, after=place_of(after), limit=limit)
        due = (
            due_of(self.kind, MaintenanceReason.FINISHED if one.work_in_progress else MaintenanceReason.EXPIRED, one)
            for one in found
        )
        return StepPart(tuple(due), cursor_of(found, limit))

    def apply(self, due: Sequence[DueChange]) -> StepResult:
        """Expire the memories; finish work in progress."""

        def expire(transaction: Transaction) -> list[DueChange]:
            now = self._now()
            found = [(one, memory) for one, memory in eligible(transaction, due, _EXPIRING) if _is_over(memory, now)]
            over = [memory for _, memory in found if not memory.work_in_progress]
            self._status_change.set_status(transaction, over, Status.EXPIRED)
            # Read again one by one: a memory changes too when the other side of its conflict does.
            work = [one for one, memory in found if memory.work_in_progress]
            for _, memory in eligible(transaction, work, _EXPIRING):
                self._finish(transaction, memory, now)
            return [one for one, _ in found]

        done = self._committer.submit(expire).value
        return StepResult(tuple(done), len(due) - len(done))

    def _finish(self, transaction: Transaction, before: Memory, now: datetime) -> None:
        after = apply_values(before, finished_values(before, now), now, self._reminder_detector)
        record, _ = self._record_builder.claim(transaction, self._record_builder.record(before, after))
        transaction.update(before, record, ChangeAction.UPDATED)
        self._record_builder.update_session_tokens(transaction, before, after)
        self._status_change.update_conflicts(transaction, [after])


def _is_over(memory: Memory, now: datetime) -> bool:
    return memory.expire_time is not None and memory.expire_time <= now


# Work in progress does not expire: it is marked as finished.


def finished_values(memory: Memory, now: datetime) -> dict[str, Any]:
    """Return the new values of finished work: not in progress, with a note in text and tags.

    A line in the language of the text is appended unless the text would become too long. The tag is omitted if there is
    no room for it.
    """
    content = f"{memory.content}\n\n{_line(memory, now)}"
    tags = [tag for tag in memory.tags if tag.lower() not in _UNFINISHED and tag != FINISHED]
    return {
        "work_in_progress": False,
        # Clears the expiry; SHORT_TERM gets 14 days.
        "expire_time": None,
        "content": content if len(content) <= CONTENT else memory.content,
        "tags": (*tags, FINISHED) if len(tags) < TAGS else tuple(tags),
    }


def _line(memory: Memory, now: datetime) -> str:
    day = (memory.expire_time or now).date().isoformat()
    return f"（已完成：期限为 {day}。）" if is_han(memory.content) else f"(Finished: its time was over on {day}.)"
