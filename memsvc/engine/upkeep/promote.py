"""Promote: what was read often enough is kept for good (requirement L3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from memsvc.domain.errors import InvalidRequestError, MemoryExistsError
from memsvc.domain.memory import Kind, Layer, Memory
from memsvc.domain.upkeep import Area, Due, Reason, UpkeepStep
from memsvc.engine.lifecycle.promote import Promote
from memsvc.engine.upkeep.putting_away import cursor_of, due_of, kept_up, place_of
from memsvc.engine.upkeep.step import Applied, Part
from memsvc.engine.write.committer import Committer
from memsvc.ports.metadata import Transaction
from memsvc.ports.upkeep import UpkeepReads


class PromoteOften:
    """Promotes SHORT_TERM memories as PromoteMemory does. Work in progress is left to be finished, messages as said.

    What cannot be promoted, since it is trusted too little or another memory says the same, stays and is skipped.
    """

    kind = UpkeepStep.PROMOTE
    batch = 5

    def __init__(
        self,
        reads: UpkeepReads,
        committer: Committer,
        promote: Promote,
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

    def part(self, area: Area, now: datetime, after: str, limit: int) -> Part:
        """Return those read often enough."""
        found = self._reads.read_often(area, least=self._least, at=now, after=place_of(after), limit=limit)
        return Part(tuple(due_of(self.kind, Reason.READ_OFTEN, one) for one in found), cursor_of(found, limit))

    def apply(self, due: Sequence[Due]) -> Applied:
        """Promote them."""

        def work(transaction: Transaction) -> list[Due]:
            now = self._now()
            found = [(one, memory) for one, memory in kept_up(transaction, due) if self._is_due(memory, now)]
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
        return Applied(tuple(done), len(due) - len(done))

    def _is_due(self, memory: Memory, now: datetime) -> bool:
        is_over = memory.expire_time is not None and memory.expire_time <= now
        is_work = memory.work_in_progress or memory.kind is Kind.MESSAGE
        return memory.layer is Layer.SHORT_TERM and memory.access_count >= self._least and not (is_over or is_work)

    def _promoted(self, transaction: Transaction, memory: Memory) -> Memory | None:
        """Return what was made of a memory, or None when nothing can be."""
        try:
            with transaction.savepoint():
                return self._promote.keep(transaction, memory)
        except (InvalidRequestError, MemoryExistsError):
            return None
