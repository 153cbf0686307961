"""What a change of a memory means for its open conflicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from memsvc.domain.conflicts import Conflict, ConflictState, Statement
from memsvc.domain.history import is_valid_at
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import Memory, Status
from memsvc.domain.scope import Reach
from memsvc.engine.records.memory_builder import RecordBuilder
from memsvc.engine.records.statements import differs_in_project, find_contradiction, states_more
from memsvc.ports.metadata import Transaction

_STANDING = frozenset({Status.ACTIVE, Status.CONFLICTED})
_SUCCESSORS = 100
_REOPENED = 16


class ConflictStateUpdater:
    """Closes conflicts that have become void, and lets their older memories back in."""

    def __init__(self, record_builder: RecordBuilder, now: Callable[[], datetime]) -> None:
        """Write by *record_builder*; *now* is the clock."""
        self._record_builder = record_builder
        self._now = now

    def update(self, transaction: Transaction, changed: Sequence[Memory], *, gone: str = "") -> dict[str, Memory]:
        """Settle the open conflicts of memories that were changed; return what became of others thereby, by id.

        A conflict stands while the older memory is CONFLICTED, or is ACTIVE since it says more than is contradicted
        or is global and the newer one is not, the newer one in use, what both say true at present, and one contradicts
        the other. When the newer one was superseded, its successor takes its place if that contradicts the older one,
        too. All other conflicts are CLOSED, and an older memory without another open one is ACTIVE again. The memory
        *gone* counts as removed.
        """
        if not changed:
            return {}
        released: dict[str, Memory] = {}
        for conflict in transaction.open_conflicts(changed[0].scope.owner, [memory.id for memory in changed]):
            older, newer = self.load_sides(transaction, conflict)
            if gone in {conflict.older_id, conflict.newer_id} or older is None or newer is None:
                kept = None
            else:
                kept = self._kept(transaction, conflict, older, newer)
            if kept == conflict:
                continue
            transaction.settle_conflicts([kept or self.settle(conflict, ConflictState.CLOSED)])
            if kept is None and older is not None and older.id != gone:
                released[older.id] = self.release(transaction, older)
        return released

    def transfer(self, transaction: Transaction, source: Memory, heir: Memory) -> None:
        """Settle the open conflicts of a memory that was put away since *heir* was made of it.

        Where it was the newer one, *heir* takes its place if that contradicts the older one, too.
        """
        for conflict in transaction.open_conflicts(source.scope.owner, [source.id]):
            older, _ = self.load_sides(transaction, conflict)
            found = None if older is None or conflict.newer_id != source.id else find_contradiction(older, heir)
            if found is not None:
                transaction.settle_conflicts([_held_by(conflict, heir, found)])
        self.update(transaction, [source, heir])

    def settle(self, conflict: Conflict, state: ConflictState) -> Conflict:
        """Return *conflict* as settled now."""
        return replace(conflict, state=state, resolve_time=self._now())

    def release(self, transaction: Transaction, older: Memory) -> Memory:
        """Make a CONFLICTED memory ACTIVE again unless another open conflict holds it; return it as it is then."""
        if older.status is not Status.CONFLICTED:
            return older
        if any(one.older_id == older.id for one in transaction.open_conflicts(older.scope.owner, [older.id])):
            return older
        return self.set_status(transaction, older, Status.ACTIVE)

    def reopen(self, transaction: Transaction, older: Memory, *, since: datetime) -> bool:
        """Open the conflicts over a memory anew that were settled not before *since* and still stand.

        They stand as `update` says, given that the memory is *older*. Return whether there was any.
        """
        is_any = False
        for conflict in transaction.conflicts_over(older.scope.owner, older.id, limit=_REOPENED):
            if conflict.resolve_time is None or conflict.resolve_time < since:
                continue
            _, newer = self.load_sides(transaction, conflict)
            kept = None if newer is None else self._kept(transaction, conflict, older, newer)
            if kept is not None:
                transaction.settle_conflicts([replace(kept, state=ConflictState.OPEN, resolve_time=None)])
                is_any = True
        return is_any

    def set_status(self, transaction: Transaction, before: Memory, status: Status) -> Memory:
        """Give a memory another status, as its next revision."""
        after = replace(before, status=status, update_time=self._now(), revision=before.revision + 1)
        record, _ = self._record_builder.claim(transaction, self._record_builder.record_with_same_content(after))
        transaction.update(before, record, ChangeAction.UPDATED)
        return after

    def _kept(self, transaction: Transaction, conflict: Conflict, older: Memory, newer: Memory) -> Conflict | None:
        """Return the conflict as it goes on, or None when it does not."""
        holder = _holder(transaction, conflict, newer)
        if holder is None or holder.id == older.id:
            return None
        if older.status not in _STANDING or holder.status not in _STANDING:
            return None
        now = self._now()
        found = find_contradiction(older, holder) if is_valid_at(older, now) and is_valid_at(holder, now) else None
        if found is None:
            return None
        if older.status is Status.ACTIVE and not (differs_in_project(older, holder) or states_more(older, found[0])):
            return None
        return conflict if holder.id == newer.id else _held_by(conflict, holder, found)

    @staticmethod
    def load_sides(transaction: Transaction, conflict: Conflict) -> tuple[Memory | None, Memory | None]:
        """Return the older and the newer memory of a conflict, as they are stored."""
        reach = Reach(conflict.owner, tuple(dict.fromkeys((conflict.project_id, ""))))
        return transaction.get(conflict.older_id, reach=reach), transaction.get(conflict.newer_id, reach=reach)


def _held_by(conflict: Conflict, holder: Memory, found: tuple[Statement, Statement]) -> Conflict:
    """Return the conflict as it goes on with *holder* as the newer memory, by what was *found* to contradict."""
    before, said = found
    return replace(
        conflict,
        newer_id=holder.id,
        rule=said.rule,
        topic=said.topic,
        older_value=before.value,
        newer_value=said.value,
    )


def _holder(transaction: Transaction, conflict: Conflict, newer: Memory) -> Memory | None:
    """Return the memory that stands for *newer*: itself, or the last that superseded it."""
    reach = Reach(conflict.owner, tuple(dict.fromkeys((conflict.project_id, ""))))
    holder: Memory | None = newer
    for _ in range(_SUCCESSORS):
        if holder is None or holder.status is not Status.DEPRECATED or not holder.superseded_by_id:
            break
        holder = transaction.get(holder.superseded_by_id, reach=reach)
    return holder
