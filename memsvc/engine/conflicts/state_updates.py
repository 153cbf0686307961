"""State changes of conflicts when their memories change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from memsvc.domain.conflicts import Conflict, ConflictState, Fact
from memsvc.domain.history import is_valid_now
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import Memory, Status
from memsvc.domain.scope import Reach
from memsvc.engine.records.memory_builder import RecordBuilder, differs_in_project, find_contradiction, states_more
from memsvc.ports.metadata import Transaction
from memsvc.text.facts.labels import topic_label, value_label

IN_USE = frozenset({Status.ACTIVE, Status.CONFLICTED})
"""Statuses of the memories of open conflicts."""
_MOST_SUCCESSORS = 100
_MOST_REOPENED = 16


class ConflictStateUpdater:
    """Closes void conflicts and reactivates their older memories."""

    def __init__(self, record_builder: RecordBuilder, now: Callable[[], datetime]) -> None:
        """Write by *record_builder*; *now* is the clock."""
        self._record_builder = record_builder
        self._now = now
        self.outranks = record_builder.trust_policy.outranks

    def update(self, transaction: Transaction, changed: Sequence[Memory], *, gone: str = "") -> dict[str, Memory]:
        """Update the open conflicts of changed memories; return other memories that changed as a result, by id.

        A conflict holds while both memories are in use and valid now and contradict each other. The older memory is
        CONFLICTED, or ACTIVE if it states more than is contradicted, if it is global and the newer one is not, or if
        it outranks the newer one. If the newer memory was superseded, its successor takes its place if it contradicts
        the older one too. All other conflicts are CLOSED, and an older memory without another open conflict becomes
        ACTIVE. The memory *gone* counts as purged.
        """
        if not changed:
            return {}
        released: dict[str, Memory] = {}
        for conflict in transaction.open_conflicts(changed[0].scope.owner, [memory.id for memory in changed]):
            older, newer = self.load_sides(transaction, conflict)
            if gone in {conflict.older_id, conflict.newer_id} or older is None or newer is None:
                updated = None
            else:
                updated = self._update_one(transaction, conflict, older, newer)
            if updated == conflict:
                continue
            transaction.settle_conflicts([updated or self.settle(conflict, ConflictState.CLOSED)])
            if updated is None and older is not None and older.id != gone:
                released[older.id] = self.release(transaction, older)
        return released

    def transfer(self, transaction: Transaction, source: Memory, heir: Memory) -> None:
        """Update the open conflicts of an archived memory from which *heir* was derived.

        Where it was the newer side, *heir* takes its place if it contradicts the older side too.
        """
        for conflict in transaction.open_conflicts(source.scope.owner, [source.id]):
            older, _ = self.load_sides(transaction, conflict)
            found = None if older is None or conflict.newer_id != source.id else find_contradiction(older, heir)
            if found is not None:
                transaction.settle_conflicts([_with_newer(conflict, heir, found)])
        self.update(transaction, [source, heir])

    def settle(self, conflict: Conflict, state: ConflictState) -> Conflict:
        """Return *conflict* as settled now."""
        return replace(conflict, state=state, resolve_time=self._now())

    def release(self, transaction: Transaction, older: Memory) -> Memory:
        """Make a CONFLICTED memory ACTIVE unless another open conflict holds it; return its new state."""
        if older.status is not Status.CONFLICTED:
            return older
        if any(one.older_id == older.id for one in transaction.open_conflicts(older.scope.owner, [older.id])):
            return older
        return self.set_status(transaction, older, Status.ACTIVE)

    def close(self, transaction: Transaction, gone: Memory) -> None:
        """Close the open conflicts of a memory that is deleted; the other memories keep their status."""
        found = transaction.open_conflicts(gone.scope.owner, [gone.id])
        if found:
            transaction.settle_conflicts([self.settle(one, ConflictState.CLOSED) for one in found])

    def reopen(self, transaction: Transaction, older: Memory, *, since: datetime) -> bool:
        """Reopen the conflicts of an older memory that were settled at or after *since* and still hold.

        They hold as in `update`, given that the memory is *older*. Return whether there was any.
        """
        is_any = False
        for conflict in transaction.conflicts_over(older.scope.owner, older.id, limit=_MOST_REOPENED):
            if conflict.resolve_time is None or conflict.resolve_time < since:
                continue
            _, newer = self.load_sides(transaction, conflict)
            updated = None if newer is None else self._update_one(transaction, conflict, older, newer)
            if updated is not None:
                transaction.settle_conflicts([replace(updated, state=ConflictState.OPEN, resolve_time=None)])
                is_any = True
        return is_any

    def set_status(self, transaction: Transaction, before: Memory, status: Status) -> Memory:
        """Set the status of a memory as its next revision."""
        after = replace(before, status=status, update_time=self._now(), revision=before.revision + 1)
        record, _ = self._record_builder.claim(transaction, self._record_builder.record_with_same_content(after))
        transaction.update(before, record, ChangeAction.UPDATED)
        return after

    def _update_one(
        self, transaction: Transaction, conflict: Conflict, older: Memory, newer: Memory
    ) -> Conflict | None:
        """Return the conflict in its current form, or None if it no longer holds."""
        holder = _successor(transaction, conflict, newer)
        if holder is None or holder.id == older.id:
            return None
        if older.status not in IN_USE or holder.status not in IN_USE:
            return None
        now = self._now()
        found = find_contradiction(older, holder) if is_valid_now(older, now) and is_valid_now(holder, now) else None
        if found is None:
            return None
        stays_in_use = self.outranks(older, holder) or differs_in_project(older, holder)
        if older.status is Status.ACTIVE and not (stays_in_use or states_more(older, found[0])):
            return None
        return conflict if holder.id == newer.id else _with_newer(conflict, holder, found)

    @staticmethod
    def load_sides(transaction: Transaction, conflict: Conflict) -> tuple[Memory | None, Memory | None]:
        """Return the older and the newer memory of a conflict, as stored."""
        reach = Reach(conflict.owner, tuple(dict.fromkeys((conflict.project_id, ""))))
        return transaction.get(conflict.older_id, reach=reach), transaction.get(conflict.newer_id, reach=reach)


def _with_newer(conflict: Conflict, holder: Memory, found: tuple[Fact, Fact]) -> Conflict:
    """Return the conflict with *holder* as the newer memory, and the values of the *found* contradiction."""
    before, said = found
    return replace(
        conflict,
        newer_id=holder.id,
        rule=said.rule,
        topic=topic_label(said.topic),
        older_value=value_label(before),
        newer_value=value_label(said),
    )


def _successor(transaction: Transaction, conflict: Conflict, newer: Memory) -> Memory | None:
    """Return the last successor of *newer*, or *newer* itself."""
    reach = Reach(conflict.owner, tuple(dict.fromkeys((conflict.project_id, ""))))
    holder: Memory | None = newer
    for _ in range(_MOST_SUCCESSORS):
        if holder is None or holder.status is not Status.SUPERSEDED or not holder.superseded_by_id:
            break
        holder = transaction.get(holder.superseded_by_id, reach=reach)
    return holder
