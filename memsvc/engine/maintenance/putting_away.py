"""Putting many memories away at once, and what every step has in common."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from memsvc.domain.maintenance import Due, Reason, UpkeepStep
from memsvc.domain.memory import Layer, Memory, Status, Tier
from memsvc.domain.scope import Reach
from memsvc.engine.conflicts.state_updates import ConflictStateUpdater
from memsvc.engine.memories.recording import RecordBuilder
from memsvc.ports.metadata import Transaction
from memsvc.ports.operations import ScanPosition, Waiting


class BulkStatusChange:
    """Gives memories another status within a transaction, and settles the conflicts that thereby become void."""

    def __init__(self, recording: RecordBuilder, now: Callable[[], datetime]) -> None:
        """Write by *recording*; *now* is the clock."""
        self._settling = ConflictStateUpdater(recording, now)

    def put_away(self, transaction: Transaction, memories: Sequence[Memory], status: Status) -> None:
        """Put *memories* away, each as its next revision. What they say and their tier stay as they are."""
        if memories:
            self.settle(transaction, transaction.put_away(memories, status))

    def settle(self, transaction: Transaction, changed: Sequence[Memory]) -> None:
        """Settle the conflicts of memories, whoever owns them."""
        by_owner: dict[str, list[Memory]] = defaultdict(list)
        for memory in changed:
            by_owner[memory.scope.owner].append(memory)
        for own in by_owner.values():
            self._settling.after(transaction, own)


def eligible(transaction: Transaction, due: Sequence[Due]) -> Iterator[tuple[Due, Memory]]:
    """Yield what is due with its memory as it is now, held; those gone or that upkeep leaves alone are passed over."""
    for one in due:
        reach = Reach(one.scope.owner, (one.scope.project_id,))
        memory = transaction.get(one.memory_id, reach=reach)
        if memory is not None and is_kept_up(memory):
            yield one, memory


def is_kept_up(memory: Memory) -> bool:
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
