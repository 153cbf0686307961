"""Expire: what is past its time is put away, and work in progress is finished (requirements M9 and L2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.maintenance import Area, Due, Reason, UpkeepStep
from memsvc.domain.memory import Memory, Status
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.maintenance.finishing import finished_values
from memsvc.engine.maintenance.putting_away import BulkStatusChange, cursor_of, due_of, eligible, place_of
from memsvc.engine.maintenance.step import Applied, Part
from memsvc.engine.memories.recording import RecordBuilder
from memsvc.engine.memories.reminding import ReminderDetector
from memsvc.engine.records.patching import changed
from memsvc.ports.metadata import Transaction
from memsvc.ports.operations import UpkeepReads


class Expire:
    """Makes memories EXPIRED whose expire_time has passed, so that they leave the indexes; nothing is destroyed."""

    kind = UpkeepStep.EXPIRE
    batch = 25

    def __init__(
        self,
        reads: UpkeepReads,
        committer: GroupCommitter,
        recording: RecordBuilder,
        reminding: ReminderDetector,
        now: Callable[[], datetime],
    ) -> None:
        """Find by *reads*, write by the rest; *now* is the clock."""
        self._reads = reads
        self._committer = committer
        self._recording = recording
        self._reminding = reminding
        self._putting = BulkStatusChange(recording, now)
        self._now = now

    def part(self, area: Area, now: datetime, after: str, limit: int) -> Part:
        """Return those that have expired, the first to expire first."""
        found = self._reads.expired(area, at=now, after=place_of(after), limit=limit)
        due = (due_of(self.kind, Reason.FINISHED if one.work_in_progress else Reason.EXPIRED, one) for one in found)
        return Part(tuple(due), cursor_of(found, limit))

    def apply(self, due: Sequence[Due]) -> Applied:
        """Put them away, or finish them."""

        def work(transaction: Transaction) -> list[Due]:
            now = self._now()
            found = [(one, memory) for one, memory in eligible(transaction, due) if _is_over(memory, now)]
            over = [memory for _, memory in found if not memory.work_in_progress]
            self._putting.put_away(transaction, over, Status.EXPIRED)
            for _, memory in found:
                if memory.work_in_progress:
                    self._finish(transaction, memory, now)
            return [one for one, _ in found]

        done = self._committer.submit(work).value
        return Applied(tuple(done), len(due) - len(done))

    def _finish(self, transaction: Transaction, before: Memory, now: datetime) -> None:
        after = changed(before, finished_values(before, now), now, self._reminding)
        record, _ = self._recording.claimed(transaction, self._recording.record(before, after))
        transaction.update(before, record, ChangeAction.UPDATED)
        self._recording.recount(transaction, before, after)
        self._putting.settle(transaction, [after])


def _is_over(memory: Memory, now: datetime) -> bool:
    return memory.expire_time is not None and memory.expire_time <= now
