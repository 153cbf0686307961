"""Supersession links between memories. Both ends change together, and chains never form a cycle."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from memsvc.domain.errors import MemoryNotFoundError, MemorySupersededError, RevisionConflictError, SupersedeCycleError
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import Memory, Status, keep_begun
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.visibility import visible
from memsvc.engine.records.memory_builder import RecordBuilder
from memsvc.ports.metadata import MemoryReads, Transaction

LONGEST_CHAIN = 1_000
"""Number of links followed before a chain counts as a cycle."""
LONGEST_SHOWN_CHAIN = 100
"""Maximum number of memories returned in each direction of a chain."""


class SupersessionLinks:
    """Changes of supersession links within a transaction."""

    def __init__(self, record_builder: RecordBuilder, now: Callable[[], datetime]) -> None:
        """Write by *record_builder*; *now* is the clock."""
        self._record_builder = record_builder
        self._now = now

    def link(
        self, transaction: Transaction, old: Memory, new: Memory, *, moment: datetime | None = None
    ) -> tuple[Memory, Memory]:
        """Make the stored memory *new* supersede the stored memory *old*; return *old* and *new* in their new state.

        *old* becomes SUPERSEDED and passes on its key: see `inherited_key`. *new* names the first of several that it
        supersedes. *old* is valid until *new* is: see `supersession_time`; *moment* is now by default.

        Raises:
            MemorySupersededError: *old* is superseded already.
            SupersedeCycleError: *new* is *old*, or is superseded by it, directly or through others.
        """
        self.require_unsuperseded(transaction, old, new)
        superseded = self.mark_superseded(transaction, old, new, moment=moment)
        values: dict[str, Any] = {"supersedes_id": new.supersedes_id or old.id, "key": inherited_key(old, new)}
        return superseded, self.set_values(transaction, new, values | self.validity_start(superseded, new))

    def mark_superseded(
        self, transaction: Transaction, old: Memory, new: Memory, *, moment: datetime | None = None
    ) -> Memory:
        """Set the old end of a link."""
        values: dict[str, Any] = {"status": Status.SUPERSEDED, "superseded_by_id": new.id}
        if shares_keys(old, new):
            values["key"] = ""
        ends = supersession_time(new, moment or self._now())
        if old.valid_to is None and (old.valid_from is None or old.valid_from < ends):
            values["valid_to"] = ends
        return self.set_values(transaction, old, values)

    def validity_start(self, superseded: Memory, new: Memory) -> dict[str, Any]:
        """Return the start of the validity of *new* unless it is given: the end of what it supersedes."""
        ended = superseded.valid_to
        if new.valid_from is not None or ended is None or ended > self._now():
            return {}
        return {} if new.valid_to is not None and new.valid_to <= ended else {"valid_from": ended}

    def relink(self, transaction: Transaction, memory: Memory) -> None:
        """Make the links of a memory agree with the other ends, and remove links that the other end does not have.

        If it superseded several memories, it then names another one.
        """
        if memory.superseded_by_id:
            successor = find_neighbour(transaction, memory, memory.superseded_by_id)
            if successor is None:
                memory = self.set_values(transaction, memory, {"superseded_by_id": ""})
            elif find_neighbour(transaction, successor, successor.supersedes_id) is None:
                self.set_values(transaction, successor, {"supersedes_id": memory.id})
        if memory.supersedes_id:
            old = find_neighbour(transaction, memory, memory.supersedes_id)
            if old is None or old.superseded_by_id != memory.id:
                others = transaction.superseded_by(memory.scope.owner, memory.id)
                named = next((one.id for one in others if one.id not in memory.derived_from_ids), "")
                self.set_values(transaction, memory, {"supersedes_id": named})

    def return_key(self, transaction: Transaction, old: Memory, back: Memory) -> None:
        """Take the key of *back*, which *old* is about to become, from the successor that inherited it."""
        if not back.key or not old.superseded_by_id or back.superseded_by_id:
            return
        following = find_neighbour(transaction, old, old.superseded_by_id)
        for _ in range(LONGEST_CHAIN):
            if following is None:
                return
            if following.key == back.key and following.scope.project_id == back.scope.project_id:
                self.set_values(transaction, following, {"key": ""})
                return
            following = find_neighbour(transaction, following, following.superseded_by_id)

    def require_unsuperseded(self, transaction: Transaction, old: Memory, new: Memory) -> None:
        """Raise if *new* cannot supersede *old*: see `link`."""
        following: Memory | None = new
        for _ in range(LONGEST_CHAIN):
            if following is None:
                break
            if following.id == old.id:
                raise SupersedeCycleError(old.id, new.id)
            following = find_neighbour(transaction, following, following.superseded_by_id)
        else:
            raise SupersedeCycleError(old.id, new.id)
        if old.superseded_by_id:
            raise MemorySupersededError(old.id, old.superseded_by_id)

    def close_gap(self, transaction: Transaction, gone: Memory) -> None:
        """Link the neighbours of a memory that is about to be purged with each other.

        A successor that superseded others too then names one of them.
        A memory that only it superseded stays SUPERSEDED and can be restored, because it has no successor any more.
        Validity that ended with *gone* ends where that of *gone* does.
        """
        after = find_neighbour(transaction, gone, gone.superseded_by_id)
        olds = transaction.superseded_by(gone.scope.owner, gone.id)
        merged = set(gone.derived_from_ids) - {gone.supersedes_id}
        for old in olds:
            values: dict[str, Any] = {"superseded_by_id": ""}
            if old.id not in merged:
                values["superseded_by_id"] = "" if after is None else after.id
                if old.valid_to is not None and old.valid_to == gone.valid_from:
                    values["valid_to"] = gone.valid_to
            self.set_values(transaction, old, values)
        if after is not None and after.supersedes_id == gone.id:
            others = [one.id for one in transaction.superseded_by(gone.scope.owner, after.id) if one.id != gone.id]
            names = [one for one in others if one not in after.derived_from_ids]
            named = gone.supersedes_id if gone.supersedes_id in names else next(iter(names), "")
            self.set_values(transaction, after, {"supersedes_id": named})

    def set_values(self, transaction: Transaction, before: Memory, values: Mapping[str, Any]) -> Memory:
        """Set *values* as the next revision of a memory unless it has them; return its new state."""
        if all(getattr(before, name) == value for name, value in values.items()):
            return before
        now = self._now()
        after = keep_begun(replace(before, **values, update_time=now, revision=before.revision + 1), before, now)
        record, _ = self._record_builder.claim(transaction, self._record_builder.record_with_same_content(after))
        transaction.update(before, record, ChangeAction.UPDATED)
        return after


def supersession_time(new: Memory, now: datetime) -> datetime:
    """Return when *new* replaced its predecessor: the start of its validity or its event, else *now*."""
    if new.valid_from is not None:
        return new.valid_from
    return now if new.event_time is None else min(new.event_time, now)


def shares_keys(old: Memory, new: Memory) -> bool:
    """Return whether a key has the same meaning for both memories: keys are unique within a project."""
    return old.scope.project_id == new.scope.project_id


def inherited_key(old: Memory, new: Memory) -> str:
    """Return the key of *new* once it supersedes *old*: its own, else that of *old* in the same project.

    Across projects both keep their own key: the old project would lose it otherwise.
    """
    return new.key or (old.key if shares_keys(old, new) else "")


def find_neighbour(transaction: Transaction, memory: Memory, memory_id: str) -> Memory | None:
    """Return a memory that *memory* is linked with, locked for this transaction; None if it does not exist.

    Links may lead into every project of the user, so all of them are searched, and none of other users.
    """
    scope = memory.scope
    return find_in_reach(transaction, memory_id, Reach(scope.owner, tuple(dict.fromkeys((scope.project_id, "")))))


def find_in_reach(transaction: Transaction, memory_id: str, reach: Reach) -> Memory | None:
    """Return a memory of the owner of *reach* in any project, locked for this transaction.

    The projects of *reach* are tried first, because that costs least.
    """
    if not memory_id:
        return None
    near = transaction.get(memory_id, reach=reach)
    if near is not None:
        return near
    far = transaction.get_many(reach.owner, [memory_id]).get(memory_id)
    if far is None:
        return None
    return transaction.get(memory_id, reach=Reach(reach.owner, (far.memory.scope.project_id,)))


# Reads on behalf of a caller, which apply visibility.


def require_memory(transaction: Transaction, scope: Scope, memory_id: str, *, expected_revision: int = 0) -> Memory:
    """Return a memory that is not deleted, locked for this transaction.

    Raises:
        MemoryNotFoundError: The memory is not visible to the scope.
        RevisionConflictError: The memory has another revision than expected (0: any).
    """
    memory = transaction.get(memory_id, reach=Reach.from_scope(scope))
    if memory is None or memory.status is Status.DELETED or not visible(memory, scope):
        raise MemoryNotFoundError(memory_id)
    if expected_revision not in {0, memory.revision}:
        raise RevisionConflictError(memory.id, expected_revision, memory.revision)
    return memory


def supersession_chain(reads: MemoryReads, scope: Scope, memory: Memory) -> list[Memory]:
    """Return the supersession chain of *memory*, oldest first, including itself.

    A deleted or invisible memory ends the chain. At most `LONGEST_SHOWN_CHAIN` memories in each direction.
    """
    older = _walk(reads, scope, memory, "supersedes_id")
    return [*reversed(older), memory, *_walk(reads, scope, memory, "superseded_by_id")]


def _walk(reads: MemoryReads, scope: Scope, memory: Memory, link: str) -> list[Memory]:
    reach = Reach.from_scope(scope)
    seen: list[Memory] = []
    following: str = getattr(memory, link)
    while following and len(seen) < LONGEST_SHOWN_CHAIN:
        found = reads.get([following], reach=reach).get(following)
        if found is None or found.status is Status.DELETED or not visible(found, scope):
            break
        seen.append(found)
        following = getattr(found, link)
    return seen
