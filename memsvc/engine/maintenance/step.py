"""What a step of upkeep is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from memsvc.domain.maintenance import Area, Due, Reason, UpkeepStep
from memsvc.domain.memory import Layer, Memory, Status, Tier
from memsvc.domain.scope import Reach
from memsvc.engine.conflicts.state_updates import ConflictStateUpdater
from memsvc.engine.records.memory_builder import RecordBuilder
from memsvc.ports.metadata import Transaction
from memsvc.ports.operations import ScanPosition, Waiting

BEGINNING = ""
"""The cursor before the first part, and after the last."""


@dataclass(frozen=True, slots=True)
class StepPart:
    """Some of what is due.

    Attributes:
        due: May be empty although more parts follow, when those that were looked at need nothing.
        next: The cursor of the next part; BEGINNING: there is none.
        is_paused: Whether more follows all the same, in another run.
    """

    due: tuple[Due, ...]
    next: str = BEGINNING
    is_paused: bool = False


@dataclass(frozen=True, slots=True)
class StepResult:
    """What became of changes that were due.

    Attributes:
        changed: Those that were made.
        skipped: How many were not, since they were no longer due or cannot be made. Nothing was written for them.
    """

    changed: tuple[Due, ...]
    skipped: int = 0


class MaintenanceStep(Protocol):
    """One sort of upkeep: it finds what is due part by part, and does it.

    A step keeps no state of a run. So a run may end after any part, by a cancel or a crash; the next one finds what
    is left, since what was done is no longer due. Two steps never run at the same time on one store.
    """

    @property
    def kind(self) -> UpkeepStep:
        """Name the step."""
        ...

    @property
    def batch(self) -> int:
        """Return how many changes one transaction takes: some milliseconds of work, since searches wait for it."""
        ...

    def find_due(self, area: Area, now: datetime, after: str, limit: int) -> StepPart:
        """Return at most *limit* of what is due in *area* at *now*, beginning after the cursor *after*.

        It only reads. It *must* enter its tables by an index, and *must* look at no more than a bounded number of
        memories for each one of *limit*. The cursor is the step's own text; what was due and is not changed (a dry run,
        or a change that was skipped) *must not* be returned again behind its cursor.

        *now* is when the run began. What earlier steps of a run change has an update_time not before it, and *must*
        be left to the next run: so a dry run lists exactly what a run would change.

        Raises:
            BackendUnavailableError: The store or an index cannot be reached.
        """
        ...

    def apply(self, due: Sequence[Due]) -> StepResult:
        """Apply changes that `find_due` returned, at most `batch` of them, in one durable transaction.

        Every memory *must* be read again inside the transaction: changes that are no longer due are skipped, so
        applying twice has no effect the second time. Memories of status QUARANTINED, and of layer or tier CORE, are
        left unchanged.

        Raises:
            BackendUnavailableError: The store cannot be reached; nothing was changed.
        """
        ...


# Putting many memories away at once, and what every step has in common.


class BulkStatusChange:
    """Gives memories another status within a transaction, and settles the conflicts that thereby become void."""

    def __init__(self, record_builder: RecordBuilder, now: Callable[[], datetime]) -> None:
        """Write by *record_builder*; *now* is the clock."""
        self._conflict_states = ConflictStateUpdater(record_builder, now)

    def set_status(self, transaction: Transaction, memories: Sequence[Memory], status: Status) -> None:
        """Put *memories* away, each as its next revision. What they say and their tier stay as they are."""
        if memories:
            self.update_conflicts(transaction, transaction.put_away(memories, status))

    def update_conflicts(self, transaction: Transaction, changed: Sequence[Memory]) -> None:
        """Settle the conflicts of memories, whoever owns them."""
        by_owner: dict[str, list[Memory]] = defaultdict(list)
        for memory in changed:
            by_owner[memory.scope.owner].append(memory)
        for own in by_owner.values():
            self._conflict_states.update(transaction, own)


def eligible(transaction: Transaction, due: Sequence[Due]) -> Iterator[tuple[Due, Memory]]:
    """Yield what is due with its memory as it is now, held; those gone or that upkeep leaves alone are passed over."""
    for one in due:
        reach = Reach(one.scope.owner, (one.scope.project_id,))
        memory = transaction.get(one.memory_id, reach=reach)
        if memory is not None and is_maintained(memory):
            yield one, memory


def is_maintained(memory: Memory) -> bool:
    """Return whether upkeep may touch a memory: it is ACTIVE, so not withheld, and of neither layer nor tier CORE."""
    return memory.status is Status.ACTIVE and memory.layer is not Layer.CORE and memory.tier is not Tier.CORE


def due_of(step: UpkeepStep, reason: Reason, waiting: Waiting) -> Due:
    """Return what is due of a memory that waits."""
    return Due(step, reason, waiting.scope, waiting.memory_id, waiting.row)


def cursor_of(found: Sequence[Waiting], limit: int) -> str:
    """Return the cursor behind a list that *limit* cut, or that of the beginning when the list was whole."""
    return " ".join(map(str, found[-1].place)) if found and len(found) >= limit else ""


def place_of(cursor: str) -> ScanPosition:
    """Return the place that a cursor of `cursor_of` names."""
    return tuple(map(int, cursor.split()))
