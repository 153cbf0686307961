"""The interface of maintenance steps, and their common parts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from memsvc.domain.maintenance import DueChange, MaintenanceReason, MaintenanceScope, UpkeepStep
from memsvc.domain.memory import Layer, Memory, Status, Tier
from memsvc.domain.scope import Reach
from memsvc.engine.conflicts.state_updates import ConflictStateUpdater
from memsvc.engine.records.memory_builder import RecordBuilder
from memsvc.ports.metadata import Transaction
from memsvc.ports.operations import MaintenanceCandidate, ScanPosition

BEGINNING = ""
"""The cursor before the first part and after the last one."""


@dataclass(frozen=True, slots=True)
class StepPart:
    """A part of the due changes.

    Attributes:
        due: May be empty although more parts follow.
        next: The cursor of the next part; BEGINNING: there is none.
        is_paused: Whether more parts follow in another run.
    """

    due: tuple[DueChange, ...]
    next: str = BEGINNING
    is_paused: bool = False


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of applying due changes.

    Attributes:
        changed: The changes that were made.
        skipped: The number of changes that were no longer due or not possible. Nothing was written for them.
    """

    changed: tuple[DueChange, ...]
    skipped: int = 0


class MaintenanceStep(Protocol):
    """One kind of maintenance, which finds due changes part by part and applies them.

    A step keeps no state of a run. A run may end after any part, by a cancellation or a crash; the next run finds the
    rest, because applied changes are no longer due. Two steps never run at the same time on one store.
    """

    @property
    def kind(self) -> UpkeepStep:
        """Return the name of the step."""
        ...

    @property
    def batch(self) -> int:
        """Return the number of changes in one transaction: some milliseconds of work, because searches wait for it."""
        ...

    def find_due(self, area: MaintenanceScope, now: datetime, after: str, limit: int) -> StepPart:
        """Return at most *limit* changes due in *area* at *now*, starting after the cursor *after*.

        Read-only. It *must* use an index to find rows, and *must* examine at most a bounded number of memories for each
        one of *limit*. The cursor is text of the step; a due change that is not applied (a dry run, or a skipped
        change) *must not* be returned again after its cursor.

        *now* is the start of the run. Changes by earlier steps of a run have an update_time not before it, and *must*
        be left to the next run: so a dry run lists exactly what a run would change.

        Raises:
            BackendUnavailableError: The store or an index cannot be reached.
        """
        ...

    def apply(self, due: Sequence[DueChange]) -> StepResult:
        """Apply changes that `find_due` returned, at most `batch` of them, in one durable transaction.

        Every memory *must* be read again inside the transaction: changes that are no longer due are skipped, so
        applying twice has no effect the second time. Memories of status QUARANTINED, and of layer or tier CORE, are
        left unchanged, unless the step repairs references or indexes.

        Raises:
            BackendUnavailableError: The store cannot be reached; nothing was changed.
        """
        ...


class BulkStatusChange:
    """Status changes of many memories within a transaction, including their conflicts."""

    def __init__(self, record_builder: RecordBuilder, now: Callable[[], datetime]) -> None:
        """Write by *record_builder*; *now* is the clock."""
        self._conflict_states = ConflictStateUpdater(record_builder, now)

    def set_status(self, transaction: Transaction, memories: Sequence[Memory], status: Status) -> None:
        """Set the status of *memories*, each as its next revision. Content and tier stay."""
        if memories:
            self.update_conflicts(transaction, transaction.set_status(memories, status))

    def update_conflicts(self, transaction: Transaction, changed: Sequence[Memory]) -> None:
        """Update the conflicts of changed memories of any owners."""
        by_owner: dict[str, list[Memory]] = defaultdict(list)
        for memory in changed:
            by_owner[memory.scope.owner].append(memory)
        for own in by_owner.values():
            self._conflict_states.update(transaction, own)


_ACTIVE = frozenset({Status.ACTIVE})


def eligible(
    transaction: Transaction, due: Sequence[DueChange], statuses: Collection[Status] = _ACTIVE
) -> Iterator[tuple[DueChange, Memory]]:
    """Yield due changes with their memory, locked; purged memories and those exempt from maintenance are skipped.

    *statuses* are those of the memories that the step may change.
    """
    for one in due:
        reach = Reach(one.scope.owner, (one.scope.project_id,))
        memory = transaction.get(one.memory_id, reach=reach)
        if memory is not None and is_maintained(memory, statuses):
            yield one, memory


def is_maintained(memory: Memory, statuses: Collection[Status] = _ACTIVE) -> bool:
    """Return whether maintenance may change a memory: it has one of *statuses*, and neither layer nor tier CORE."""
    return memory.status in statuses and memory.layer is not Layer.CORE and memory.tier is not Tier.CORE


def due_of(step: UpkeepStep, reason: MaintenanceReason, waiting: MaintenanceCandidate) -> DueChange:
    """Return the due change of a waiting memory."""
    return DueChange(step, reason, waiting.scope, waiting.memory_id, waiting.row)


def cursor_of(found: Sequence[MaintenanceCandidate], limit: int) -> str:
    """Return the cursor behind a list that *limit* cut, or BEGINNING if the list was complete."""
    return " ".join(map(str, found[-1].place)) if found and len(found) >= limit else ""


def place_of(cursor: str) -> ScanPosition:
    """Return the position of a cursor of `cursor_of`."""
    return tuple(map(int, cursor.split()))
