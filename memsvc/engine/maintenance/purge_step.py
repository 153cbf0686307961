"""The maintenance step PURGE: memories that were deleted long ago are removed for good."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

from memsvc.domain.maintenance import DueChange, MaintenanceReason, MaintenanceScope, UpkeepStep
from memsvc.domain.memory import Status
from memsvc.domain.scope import Reach
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.maintenance.step import StepPart, StepResult, cursor_of, due_of, place_of
from memsvc.engine.memories.update import MemoryUpdater
from memsvc.ports.metadata import Transaction
from memsvc.ports.operations import UpkeepReads


class PurgeStep:
    """Purges memories that have been deleted for longer than *age*, with their revisions; None of it: nothing."""

    kind = UpkeepStep.PURGE
    batch = 10

    def __init__(
        self,
        reads: UpkeepReads,
        committer: GroupCommitter,
        updater: MemoryUpdater,
        remove_bytes: Callable[[Iterable[str]], None],
        now: Callable[[], datetime],
        *,
        age: timedelta | None,
    ) -> None:
        """Read from *reads*, purge by *updater*; *remove_bytes* receives the hashes of files that go along."""
        self._reads = reads
        self._committer = committer
        self._updater = updater
        self._remove_bytes = remove_bytes
        self._now = now
        self._age = age

    def find_due(self, area: MaintenanceScope, now: datetime, after: str, limit: int) -> StepPart:
        """Return the memories, the first deleted first."""
        if self._age is None:
            return StepPart(())
        found = self._reads.deleted_memories(area, before=now - self._age, after=place_of(after), limit=limit)
        due = (due_of(self.kind, MaintenanceReason.DELETED_LONG_AGO, one) for one in found)
        return StepPart(tuple(due), cursor_of(found, limit))

    def apply(self, due: Sequence[DueChange]) -> StepResult:
        """Purge the memories that are still deleted; those that were restored and deleted again wait again."""
        attached: set[str] = set()

        def purge(transaction: Transaction) -> list[DueChange]:
            return [one for one in due if self._purge(transaction, one, attached)]

        done = self._committer.submit(purge).value
        self._remove_bytes(attached)
        return StepResult(tuple(done), len(due) - len(done))

    def _purge(self, transaction: Transaction, due: DueChange, attached: set[str]) -> bool:
        memory = transaction.get(due.memory_id, reach=Reach(due.scope.owner, (due.scope.project_id,)))
        if memory is None or memory.status is not Status.DELETED or self._age is None:
            return False
        if memory.update_time >= self._now() - self._age:
            return False
        attached |= self._updater.apply_purge(transaction, memory)
        return True
