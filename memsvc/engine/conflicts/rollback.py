"""Conflicts and supersession links after a rollback.

A rollback restores one memory; the memories that its status and its links refer to must be brought in line with it.
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
        self._release = SupersessionRelease(self._supersession, self._conflict_states)

    def after_rollback(self, transaction: Transaction, before: Memory, after: Memory, *, since: datetime) -> Memory:
        """Reconcile one memory after its rollback to its state at *since*; return its final state.

        If the rollback leads to before the memory superseded another, that one is released: see `SupersessionRelease`.
        """
        self._release.after_rollback(transaction, before, after, since=since)
        reach = neighbour_reach(after)
        self.reconcile(transaction, find_affected(transaction, before, after), reach=reach, since=since)
        return transaction.get(after.id, reach=reach) or after

    def reconcile(self, transaction: Transaction, ids: Collection[str], *, reach: Reach, since: datetime) -> None:
        """Make the memories with these *ids* agree with their neighbours, and their conflicts with their statuses.

        Void conflicts are CLOSED. A CONFLICTED memory gets back the conflicts that were settled at or after *since* and
        still hold; without any it is ACTIVE.
        """
        names = sorted(ids)
        for memory in _load_each(transaction, names, reach):
            self._supersession.relink(transaction, memory)
        self._conflict_states.update(transaction, list(_load_each(transaction, names, reach)))
        for memory in _load_each(transaction, names, reach):
            if memory.status is Status.CONFLICTED:
                self._conflict_states.reopen(transaction, memory, since=since)
                self._conflict_states.release(transaction, memory)


def find_affected(transaction: Transaction, before: Memory, after: Memory) -> set[str]:
    """Return the ids of memories that may disagree once *before* has become *after*; often none."""
    links = {one for memory in (before, after) for one in (memory.supersedes_id, memory.superseded_by_id) if one}
    found = transaction.open_conflicts(after.scope.owner, [after.id])
    sides = {side for conflict in found for side in (conflict.older_id, conflict.newer_id)}
    return links | sides | {after.id} if links or sides or after.status is Status.CONFLICTED else set()


def neighbour_reach(memory: Memory) -> Reach:
    """Return the reach of most neighbours of a memory: its project and the global memories."""
    return Reach(memory.scope.owner, tuple(dict.fromkeys((memory.scope.project_id, ""))))


def _load_each(transaction: Transaction, ids: Collection[str], reach: Reach) -> Iterator[Memory]:
    """Yield existing memories, each read when it is its turn: reconciling one may change the next."""
    for memory_id in ids:
        memory = find_in_reach(transaction, memory_id, reach)
        if memory is not None:
            yield memory


class SupersessionRelease:
    """Release of memories whose successor was rolled back to before it superseded them."""

    def __init__(self, supersession: SupersessionLinks, conflict_states: ConflictStateUpdater) -> None:
        """Write links by *supersession*, reopen conflicts by *conflict_states*."""
        self._supersession = supersession
        self._conflict_states = conflict_states

    def after_rollback(self, transaction: Transaction, before: Memory, after: Memory, *, since: datetime) -> None:
        """Release the memories that *before* superseded and *after*, the state of *since*, does not.

        A SUPERSEDED one is ACTIVE again, or CONFLICTED if conflicts settled since still hold. Its validity is as
        before, and it gets its key back if that went to *before* and is free. Any other keeps its status and loses the
        link. Each released memory gets one revision.
        """
        for old in _find_released(transaction, before, after):
            values: dict[str, Any] = {"superseded_by_id": ""}
            if old.status is Status.SUPERSEDED:
                values["key"] = _returned_key(transaction, old, before, after)
                if _was_ended_by_link(old, before, after, since):
                    values["valid_to"] = None
                values["status"] = self._status(transaction, replace(old, **values), since)
            self._supersession.set_values(transaction, old, values)

    def _status(self, transaction: Transaction, freed: Memory, since: datetime) -> Status:
        """Return the status of a released memory, after reopening the conflicts that still hold.

        Conflicts that leave their older memory in use are reopened first: they do not make it CONFLICTED.
        """
        self._conflict_states.reopen(transaction, replace(freed, status=Status.ACTIVE), since=since)
        marked = replace(freed, status=Status.CONFLICTED)
        return Status.CONFLICTED if self._conflict_states.reopen(transaction, marked, since=since) else Status.ACTIVE


def _find_released(transaction: Transaction, before: Memory, after: Memory) -> list[Memory]:
    """Return the memories that *before* superseded and *after* does not: the one that it names first.

    All of them if *after* superseded none; none if *after* names one that was purged since: then *before* took over
    what that one superseded.
    """
    if before.supersedes_id in {"", after.supersedes_id}:
        return []
    if after.supersedes_id and find_neighbour(transaction, after, after.supersedes_id) is None:
        return []
    olds = transaction.superseded_by(before.scope.owner, before.id)
    named = [old for old in olds if old.id == before.supersedes_id]
    return named if after.supersedes_id else named + [old for old in olds if old.id != before.supersedes_id]


def _returned_key(transaction: Transaction, old: Memory, before: Memory, after: Memory) -> str:
    """Return the key of *old*: its own, else the key that *before* took over, if that is free."""
    if old.key or after.key or not before.key or not shares_keys(old, before):
        return old.key
    name = (old.scope.project_id, before.key)
    return "" if name in transaction.find_keys(old.scope.owner, [name]) else before.key


def _was_ended_by_link(old: Memory, before: Memory, after: Memory, since: datetime) -> bool:
    """Return whether the validity of *old* ended by its supersession by *before*."""
    ended = old.valid_to
    if ended is None or ended != before.valid_from:
        return False
    return ended >= since or ended in {after.valid_from, after.event_time}
