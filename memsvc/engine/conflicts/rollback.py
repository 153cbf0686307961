"""What a rollback means for conflicts and supersession: the memories of both sides must agree again.

A rollback brings back what one memory said, and says nothing of the others that its status and its links speak of.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

from memsvc.domain.memory import Memory, Status
from memsvc.domain.scope import Reach
from memsvc.engine.conflicts.state_updates import ConflictStateUpdater
from memsvc.engine.conflicts.supersession import SupersessionLinks, find_in_reach, find_neighbour, shares_keys
from memsvc.engine.records.memory_builder import RecordBuilder
from memsvc.ports.metadata import Transaction


class ConflictRollback:
    """Brings conflicts and links in line with memories that were rolled back."""

    def __init__(self, record_builder: RecordBuilder, now: Callable[[], datetime]) -> None:
        """Write by *record_builder*; *now* is the clock."""
        self._conflict_states = ConflictStateUpdater(record_builder, now)
        self._supersession = SupersessionLinks(record_builder, now)
        self._releasing = SupersessionRelease(self._supersession, self._conflict_states)

    def after_rollback(self, transaction: Transaction, before: Memory, after: Memory, *, since: datetime) -> Memory:
        """Mend what the rollback of one memory to what it said at *since* has left; return it as it is then.

        Back to before it superseded another, it lets that one go: see `SupersessionRelease`.
        """
        self._releasing.after_rollback(transaction, before, after, since=since)
        reach = neighbour_reach(after)
        self.reconcile(transaction, find_affected(transaction, before, after), reach=reach, since=since)
        return transaction.get(after.id, reach=reach) or after

    def reconcile(self, transaction: Transaction, ids: Collection[str], *, reach: Reach, since: datetime) -> None:
        """Make the memories with these *ids* agree with their neighbours, and their conflicts with their statuses.

        Conflicts that have become void are CLOSED. A CONFLICTED memory gets back the conflicts that were settled not
        before *since* and still stand; without any it is ACTIVE.
        """
        names = sorted(ids)
        for memory in _those(transaction, names, reach):
            self._supersession.relink(transaction, memory)
        self._conflict_states.update(transaction, list(_those(transaction, names, reach)))
        for memory in _those(transaction, names, reach):
            if memory.status is Status.CONFLICTED:
                self._conflict_states.reopen(transaction, memory, since=since)
                self._conflict_states.release(transaction, memory)


def find_affected(transaction: Transaction, before: Memory, after: Memory) -> set[str]:
    """Return the ids of the memories that may disagree once *before* has become *after*; often none."""
    links = {one for memory in (before, after) for one in (memory.supersedes_id, memory.superseded_by_id) if one}
    found = transaction.open_conflicts(after.scope.owner, [after.id])
    sides = {side for conflict in found for side in (conflict.older_id, conflict.newer_id)}
    return links | sides | {after.id} if links or sides or after.status is Status.CONFLICTED else set()


def neighbour_reach(memory: Memory) -> Reach:
    """Return where most neighbours of a memory are: in its project, or global."""
    return Reach(memory.scope.owner, tuple(dict.fromkeys((memory.scope.project_id, ""))))


def _those(transaction: Transaction, ids: Collection[str], reach: Reach) -> Iterator[Memory]:
    """Yield memories that are there, each as it is when its turn comes: mending one may change the next."""
    for memory_id in ids:
        memory = find_in_reach(transaction, memory_id, reach)
        if memory is not None:
            yield memory


# Letting go: what a memory that went back to before it superseded another gives back to that one.


class SupersessionRelease:
    """Lets superseded memories stand for themselves again."""

    def __init__(self, supersession: SupersessionLinks, conflict_states: ConflictStateUpdater) -> None:
        """Write by *supersession*, open conflicts anew by *conflict_states*."""
        self._supersession = supersession
        self._conflict_states = conflict_states

    def after_rollback(self, transaction: Transaction, before: Memory, after: Memory, *, since: datetime) -> None:
        """Free the memories that *before* superseded and *after*, which says what was said at *since*, does not.

        A DEPRECATED one is ACTIVE again, CONFLICTED when conflicts that were settled since still stand. It is true for
        as long as before, and has its key back where that went over to *before* and is free. Any other keeps its
        status and loses the link. All of it is one revision of each.
        """
        for old in _let_go(transaction, before, after):
            values: dict[str, Any] = {"superseded_by_id": ""}
            if old.status is Status.DEPRECATED:
                values["key"] = _key_back(transaction, old, before, after)
                if _was_ended(old, before, after, since):
                    values["valid_to"] = None
                values["status"] = self._status(transaction, replace(old, **values), since)
            self._supersession.set_values(transaction, old, values)

    def _status(self, transaction: Transaction, freed: Memory, since: datetime) -> Status:
        """Return the status of a freed memory, once its conflicts are open that stand.

        Those that leave their older memory in use are opened first: they are no reason to mark it.
        """
        self._conflict_states.reopen(transaction, replace(freed, status=Status.ACTIVE), since=since)
        marked = replace(freed, status=Status.CONFLICTED)
        return Status.CONFLICTED if self._conflict_states.reopen(transaction, marked, since=since) else Status.ACTIVE


def _let_go(transaction: Transaction, before: Memory, after: Memory) -> list[Memory]:
    """Return the memories that *before* superseded and *after* does not: the one that it names first.

    All of them when *after* superseded none. There is none when *after* names one that was removed for good since: then
    *before* took over what that superseded.
    """
    if before.supersedes_id in {"", after.supersedes_id}:
        return []
    if after.supersedes_id and find_neighbour(transaction, after, after.supersedes_id) is None:
        return []
    olds = transaction.superseded_by(before.scope.owner, before.id)
    named = [old for old in olds if old.id == before.supersedes_id]
    return named if after.supersedes_id else named + [old for old in olds if old.id != before.supersedes_id]


def _key_back(transaction: Transaction, old: Memory, before: Memory, after: Memory) -> str:
    """Return the key of *old*: its own, else the one that *before* had, and had not at first, when it is free."""
    if old.key or after.key or not before.key or not shares_keys(old, before):
        return old.key
    name = (old.scope.project_id, before.key)
    return "" if name in transaction.find_keys(old.scope.owner, [name]) else before.key


def _was_ended(old: Memory, before: Memory, after: Memory, since: datetime) -> bool:
    """Return whether *old* ceased to be true by the link with *before*, and not by what was said of it."""
    ended = old.valid_to
    if ended is None or ended != before.valid_from:
        return False
    return ended >= since or ended in {after.valid_from, after.event_time}
