"""The maintenance step that marks contradictions among stored memories."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from memsvc.domain.conflicts import ConflictPolicy
from memsvc.domain.lru_cache import LruCache
from memsvc.domain.maintenance import EVERYBODY, DueChange, MaintenanceReason, MaintenanceScope, UpkeepStep
from memsvc.engine.conflicts.detection import MOST, StoredPair
from memsvc.engine.conflicts.sweep import ALL_MEMORIES, BATCH, ConflictSweep, Foresight, SweepCursor
from memsvc.engine.maintenance.step import BEGINNING, StepPart, StepResult
from memsvc.ports.features import StatementReads, StatingMemory

MOST_EXAMINED = 40_000
"""Memories that a run over all users examines; the next run continues."""
_SKIPPED = 10_000


@dataclass(slots=True)
class _Progress:
    """The row up to which runs over all users have left nothing to find."""

    row: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class DetectConflictsStep:
    """Marks contradictions among stored memories.

    A run over all users continues where the last one ended; the first one after a start covers all memories.
    """

    kind = UpkeepStep.DETECT_CONFLICTS
    batch = BATCH

    def __init__(self, sweep: ConflictSweep, statements: StatementReads) -> None:
        """Find and store by *sweep*."""
        self._sweep = sweep
        self._statements = statements
        self._progress = _Progress()
        self._foresight = LruCache[tuple[MaintenanceScope, datetime], Foresight](2)
        self._skipped = LruCache[StoredPair, bool](_SKIPPED)

    def find_due(self, area: MaintenanceScope, now: datetime, after: str, limit: int) -> StepPart:
        """Find the contradictions of the next memories."""
        foresight = self._foresight.get((area, now))
        if foresight is None or after == BEGINNING:
            foresight = Foresight(ConflictPolicy.MARK, self._sweep.trust_policy)
            self._foresight.put((area, now), foresight)
        size = max(1, limit // MOST)
        if area == EVERYBODY:
            part = self._find_everywhere(now, after, size, foresight)
        else:
            cursor = SweepCursor(area.project_id) if after == BEGINNING else SweepCursor.of(after)
            page, following = self._sweep.page(area, cursor, ALL_MEMORIES, size)
            part = StepPart(self._due(page, now, foresight), BEGINNING if following is None else str(following))
        return part if len(part.due) <= limit else StepPart(part.due[:limit], is_paused=True)

    def apply(self, due: Sequence[DueChange]) -> StepResult:
        """Store the conflicts."""
        pairs = {_pair_of(one): one for one in due}
        stored, _ = self._sweep.store(list(pairs), ConflictPolicy.MARK)
        done = {(one.conflict.older_id, one.conflict.newer_id) for one in stored}
        changed = tuple(one for pair, one in pairs.items() if (pair.older_id, pair.newer_id) in done)
        self._skipped.put_all({pair: True for pair in pairs if (pair.older_id, pair.newer_id) not in done})
        return StepResult(changed, len(due) - len(changed))

    def _find_everywhere(self, now: datetime, after: str, size: int, foresight: Foresight) -> StepPart:
        with self._progress.lock:
            first = self._progress.row
        row, examined, is_clean = (first, 0, 1) if after == BEGINNING else map(int, after.split())
        page = self._statements.rows_with_facts(after=row, limit=size)
        # Memories that changed since the start of the run are left to the next one.
        settled = [one for one in page if one.update_time < now]
        due = self._due(settled, now, foresight)
        is_clean = int(is_clean and not due and len(settled) == len(page))
        if page and is_clean:
            with self._progress.lock:
                self._progress.row = max(self._progress.row, page[-1].row)
        if len(page) < size:
            return StepPart(due)
        examined += len(page)
        following = f"{page[-1].row} {examined} {is_clean}" if examined < MOST_EXAMINED else BEGINNING
        return StepPart(due, following, is_paused=following == BEGINNING)

    def _due(self, page: Sequence[StatingMemory], now: datetime, foresight: Foresight) -> tuple[DueChange, ...]:
        return tuple(
            DueChange.of(self.kind, MaintenanceReason.CONTRADICTED, found.newer, (found.older.id,))
            for found in self._sweep.find(page, ConflictPolicy.MARK, now)
            if self._skipped.get(found.pair) is None and foresight.takes(found)
        )


def _pair_of(due: DueChange) -> StoredPair:
    return StoredPair(due.scope.owner, due.scope.project_id, due.member_ids[0], due.memory_id)
