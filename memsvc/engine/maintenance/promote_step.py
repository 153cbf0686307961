"""Promote: what was read often enough is kept for good (requirement L3)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from memsvc.domain.errors import InvalidRequestError, MemoryExistsError
from memsvc.domain.maintenance import Area, Due, Reason, UpkeepStep
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

LOOK = 25
"""How many memories one transaction looks at: some milliseconds of work, since searches wait for it."""


@dataclass(frozen=True, slots=True)
class _Cursor:
    """Where the step is.

    Attributes:
        place: In the list, as `cursor_of` writes it.
        taken: The contents that a memory before that place is promoted with, and that none has the claim on yet.
    """

    place: str = BEGINNING
    taken: tuple[str, ...] = ()

    def __str__(self) -> str:
        return json.dumps([self.place, self.taken])

    @classmethod
    def read(cls, text: str) -> _Cursor:
        place, taken = json.loads(text) if text else (BEGINNING, ())
        return cls(place, tuple(taken))


class PromoteStep:
    """Promotes SHORT_TERM memories as PromoteMemory does. Work in progress is left to be finished, messages as said.

    What another memory says, too, is not due: the other one has the claim on the content. Of several that say the same,
    none of them with the claim, the first is due. What is trusted too little is due, stays and is skipped.
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
        """Find by *reads* what was read *least_accesses* times; *now* is the clock."""
        self._reads = reads
        self._committer = committer
        self._promote = promote
        self._now = now
        self._least = least_accesses

    def find_due(self, area: Area, now: datetime, after: str, limit: int) -> StepPart:
        """Return those read often enough that no other memory keeps from being promoted."""
        cursor = _Cursor.read(after)
        found = self._reads.read_often(area, least=self._least, at=now, after=place_of(cursor.place), limit=limit)
        taken = dict.fromkeys(cursor.taken)
        due: list[Due] = []
        for one, content in self._free([due_of(self.kind, Reason.READ_OFTEN, one) for one in found], now):
            if content not in taken:
                due.append(one)
            if content:
                taken[content] = None
        place = cursor_of(found, limit)
        return StepPart(tuple(due), str(_Cursor(place, tuple(taken))) if place else BEGINNING)

    def apply(self, due: Sequence[Due]) -> StepResult:
        """Promote them."""

        def work(transaction: Transaction) -> list[Due]:
            now = self._now()
            found = [(one, memory) for one, memory in eligible(transaction, due) if self._is_due(memory, now)]
            made = [(one, memory, self._promoted(transaction, memory)) for one, memory in found]
            # What was made of a memory counts as read as often.
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

    def _free(self, often: Sequence[Due], now: datetime) -> Iterator[tuple[Due, str]]:
        """Yield those of *often* whose content no other memory claims, as `_unclaimed` does. Nothing is written."""
        for start in range(0, len(often), LOOK):
            some = often[start : start + LOOK]

            def look(transaction: Transaction, some: Sequence[Due] = some) -> list[tuple[Due, str]]:
                return list(_unclaimed(transaction, some, now))

            yield from self._committer.submit(look).value

    def _is_due(self, memory: Memory, now: datetime) -> bool:
        is_over = memory.expire_time is not None and memory.expire_time <= now
        is_work = memory.work_in_progress or memory.kind is Kind.MESSAGE
        return memory.layer is Layer.SHORT_TERM and memory.access_count >= self._least and not (is_over or is_work)

    def _promoted(self, transaction: Transaction, memory: Memory) -> Memory | None:
        """Return what was made of a memory, or None when nothing can be."""
        try:
            with transaction.savepoint():
                return self._promote.promote_in_transaction(transaction, memory)
        except (InvalidRequestError, MemoryExistsError):
            return None


def _unclaimed(transaction: Transaction, often: Sequence[Due], now: datetime) -> Iterator[tuple[Due, str]]:
    """Yield what no other memory claims the content of, with a name of that content if nobody claims it, else "".

    A claim of one whose time is over by *now* does not count: EXPIRE comes before, and ends it.
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
