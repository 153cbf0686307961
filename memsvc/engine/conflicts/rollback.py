"""What a rollback means for conflicts and supersession: the memories of both sides must agree again.

A rollback brings back what one memory said, and says nothing of the others that its status and its links speak of.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from datetime import datetime

from memsvc.domain.memory import Memory, Status
from memsvc.domain.scope import Reach
from memsvc.engine.conflicts.releasing import SupersessionRelease
from memsvc.engine.conflicts.state_updates import ConflictStateUpdater
from memsvc.engine.conflicts.supersession import Superseding, within
from memsvc.engine.memories.recording import RecordBuilder
from memsvc.ports.metadata import Transaction


class ConflictRollback:
    """Brings conflicts and links in line with memories that were rolled back."""

    def __init__(self, recording: RecordBuilder, now: Callable[[], datetime]) -> None:
        """Write by *recording*; *now* is the clock."""
        self._settling = ConflictStateUpdater(recording, now)
        self._superseding = Superseding(recording, now)
        self._releasing = SupersessionRelease(self._superseding, self._settling)

    def after_rollback(self, transaction: Transaction, before: Memory, after: Memory, *, since: datetime) -> Memory:
        """Mend what the rollback of one memory to what it said at *since* has left; return it as it is then.

        Back to before it superseded another, it lets that one go: see `SupersessionRelease`.
        """
        self._releasing.after_rollback(transaction, before, after, since=since)
        reach = reach_around(after)
        self.mend(transaction, in_question(transaction, before, after), reach=reach, since=since)
        return transaction.get(after.id, reach=reach) or after

    def mend(self, transaction: Transaction, ids: Collection[str], *, reach: Reach, since: datetime) -> None:
        """Make the memories with these *ids* agree with their neighbours, and their conflicts with their statuses.

        Conflicts that have become void are CLOSED. A CONFLICTED memory gets back the conflicts that were settled not
        before *since* and still stand; without any it is ACTIVE.
        """
        names = sorted(ids)
        for memory in _those(transaction, names, reach):
            self._superseding.relink(transaction, memory)
        self._settling.after(transaction, list(_those(transaction, names, reach)))
        for memory in _those(transaction, names, reach):
            if memory.status is Status.CONFLICTED:
                self._settling.reopen(transaction, memory, since=since)
                self._settling.release(transaction, memory)


def in_question(transaction: Transaction, before: Memory, after: Memory) -> set[str]:
    """Return the ids of the memories that may disagree once *before* has become *after*; often none."""
    links = {one for memory in (before, after) for one in (memory.supersedes_id, memory.superseded_by_id) if one}
    found = transaction.open_conflicts(after.scope.owner, [after.id])
    sides = {side for conflict in found for side in (conflict.older_id, conflict.newer_id)}
    return links | sides | {after.id} if links or sides or after.status is Status.CONFLICTED else set()


def reach_around(memory: Memory) -> Reach:
    """Return where most neighbours of a memory are: in its project, or global."""
    return Reach(memory.scope.owner, tuple(dict.fromkeys((memory.scope.project_id, ""))))


def _those(transaction: Transaction, ids: Collection[str], reach: Reach) -> Iterator[Memory]:
    """Yield memories that are there, each as it is when its turn comes: mending one may change the next."""
    for memory_id in ids:
        memory = within(transaction, memory_id, reach)
        if memory is not None:
            yield memory
