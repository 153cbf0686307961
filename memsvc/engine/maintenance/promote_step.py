"""The maintenance step PROMOTE: frequently read SHORT_TERM memories become LONG_TERM."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from memsvc.domain.errors import InvalidRequestError, MemoryExistsError
from memsvc.domain.maintenance import DueChange, MaintenanceReason, MaintenanceScope, UpkeepStep
from memsvc.domain.memory import Kind, Layer, Memory
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.maintenance.step import (
    BEGINNING,
    StepPart,
    StepResult,
    cursor_of,
    due_of,
    eligible,
    is_maintained,
    place_of,
)
from memsvc.engine.memories.promote import MemoryPromoter
from memsvc.engine.records.memory_builder import claims_content, content_name
from memsvc.ports.metadata import Transaction
from memsvc.ports.operations import UpkeepReads

LOOKUP_BATCH = 25
"""Memories checked in one transaction: some milliseconds of work, because searches wait for it."""


class PromoteStep:
    """Promotes SHORT_TERM memories as PromoteMemory does, except work in progress and messages.

    A memory whose content another memory claims is not due. Of several with equal, unclaimed content the first is due.
    A memory that is trusted too little is due and skipped.
    """

    kind = UpkeepStep.PROMOTE
    batch = 5

    def __init__(
        self,
        reads: UpkeepReads,
        committer: GroupCommitter,
        promote: MemoryPromoter,
        now: Callable[[], datetime],
        *,
        least_accesses: int,
    ) -> None:
        """Find by *reads* memories read at least *least_accesses* times; *now* is the clock."""
        self._reads = reads
        self._committer = committer
        self._promote = promote
        self._now = now
        self._least = least_accesses

    def find_due(self, area: MaintenanceScope, now: datetime, after: str, limit: int) -> StepPart:
        """Return frequently read memories that no other memory prevents from being promoted."""
        cursor = _PromoteCursor.read(after)
        found = self._reads.frequently_read(area, least=self._least, at=now, after=place_of(cursor.place), limit=limit)
        taken = dict.fromkeys(cursor.taken)
        due: list[DueChange] = []
        for one, content in self._free([due_of(self.kind, MaintenanceReason.READ_OFTEN, one) for one in found], now):
            if content not in taken:
                due.append(one)
            if content:
                taken[content] = None
        place = cursor_of(found, limit)
        return StepPart(tuple(due), str(_PromoteCursor(place, tuple(taken))) if place else BEGINNING)

    def apply(self, due: Sequence[DueChange]) -> StepResult:
        """Promote the memories."""

        def work(transaction: Transaction) -> list[DueChange]:
            now = self._now()
            found = [(one, memory) for one, memory in eligible(transaction, due) if self._is_due(memory, now)]
            made = [(one, memory, self._try_promote(transaction, memory)) for one, memory in found]
            # The new memory inherits the access count.
            transaction.add_accesses(
                {
                    new.id: (memory.access_count, memory.access_time)
                    for _, memory, new in made
                    if new is not None and memory.access_time is not None
                }
            )
            return [one for one, _, new in made if new is not None]

        done = self._committer.submit(work).value
        return StepResult(tuple(done), len(due) - len(done))

    def _free(self, often: Sequence[DueChange], now: datetime) -> Iterator[tuple[DueChange, str]]:
        """Yield those of *often* whose content no other memory claims, as `_with_unclaimed_content` does. Read-only."""
        for start in range(0, len(often), LOOKUP_BATCH):
            some = often[start : start + LOOKUP_BATCH]

            def look(transaction: Transaction, some: Sequence[DueChange] = some) -> list[tuple[DueChange, str]]:
                return list(_with_unclaimed_content(transaction, some, now))

            yield from self._committer.submit(look).value

    def _is_due(self, memory: Memory, now: datetime) -> bool:
        is_over = memory.expire_time is not None and memory.expire_time <= now
        is_work = memory.work_in_progress or memory.kind is Kind.MESSAGE
        return memory.layer is Layer.SHORT_TERM and memory.access_count >= self._least and not (is_over or is_work)

    def _try_promote(self, transaction: Transaction, memory: Memory) -> Memory | None:
        """Return the promoted memory, or None if promotion is not possible."""
        try:
            with transaction.savepoint():
                return self._promote.promote_in_transaction(transaction, memory)
        except (InvalidRequestError, MemoryExistsError):
            return None


@dataclass(frozen=True, slots=True)
class _PromoteCursor:
    """Position in the list of frequently read memories.

    Attributes:
        place: Position in the list, as text of `cursor_of`.
        taken: Unclaimed contents for which an earlier memory in the list is promoted.
    """

    place: str = BEGINNING
    taken: tuple[str, ...] = ()

    def __str__(self) -> str:
        return json.dumps([self.place, self.taken])

    @classmethod
    def read(cls, text: str) -> _PromoteCursor:
        place, taken = json.loads(text) if text else (BEGINNING, ())
        return cls(place, tuple(taken))


def _with_unclaimed_content(
    transaction: Transaction, often: Sequence[DueChange], now: datetime
) -> Iterator[tuple[DueChange, str]]:
    """Yield changes whose content no other memory claims, with the name of an unclaimed content, else "".

    The claim of a memory that expires by *now* is ignored: EXPIRE runs before and releases it.
    """
    for one, memory in eligible(transaction, often):
        name = content_name(memory)
        holder = transaction.find_contents(memory.scope.owner, [name]).get(name) if claims_content(memory) else memory
        if holder is None or (holder.id != memory.id and _is_ending(holder, now)):
            yield one, json.dumps([memory.scope.owner, name.project_id, name.kind, name.content_hash])
        elif holder.id == memory.id:
            yield one, ""


def _is_ending(memory: Memory, now: datetime) -> bool:
    return is_maintained(memory) and memory.expire_time is not None and memory.expire_time <= now
