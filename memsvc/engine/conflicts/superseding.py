"""Supersession: both ends of the link are set together, and no chain ever closes to a ring."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

from memsvc.domain.errors import MemorySupersededError, SupersedeCycleError
from memsvc.domain.indexing import ChangeAction
from memsvc.domain.memory import Memory, Status
from memsvc.domain.scope import Reach
from memsvc.engine.write.recording import Recording
from memsvc.ports.metadata import Transaction

CHAIN = 1_000
"""How many links are followed before a chain is taken for a ring."""


class Superseding:
    """Links memories within a transaction."""

    def __init__(self, recording: Recording, now: Callable[[], datetime]) -> None:
        """Write by *recording*; *now* is the clock."""
        self._recording = recording
        self._now = now

    def link(self, transaction: Transaction, old: Memory, new: Memory) -> tuple[Memory, Memory]:
        """Have *new* supersede *old*, both stored; return both as they are then.

        *old* becomes DEPRECATED and gives up its key, which *new* takes unless it has one. Of several that *new*
        supersedes, it names the first. The old one is true until the new one is: see `boundary`.

        Raises:
            MemorySupersededError: *old* was superseded before.
            SupersedeCycleError: *new* is *old*, or was superseded by it, at once or by way of others.
        """
        self.require_free(transaction, old, new)
        deprecated = self.deprecate(transaction, old, new)
        values: dict[str, Any] = {"supersedes_id": new.supersedes_id or old.id, "key": new.key or old.key}
        return deprecated, self._changed(transaction, new, values | self.begun(deprecated, new))

    def deprecate(self, transaction: Transaction, old: Memory, new: Memory) -> Memory:
        """Set the old end of a link."""
        values: dict[str, Any] = {"status": Status.DEPRECATED, "superseded_by_id": new.id, "key": ""}
        ends = boundary(new, self._now())
        if old.valid_to is None and (old.valid_from is None or old.valid_from < ends):
            values["valid_to"] = ends
        return self._changed(transaction, old, values)

    def begun(self, deprecated: Memory, new: Memory) -> dict[str, Any]:
        """Return when *new* begins to be true, unless it says so itself: when what it supersedes ceased to be."""
        ended = deprecated.valid_to
        if new.valid_from is not None or ended is None or ended > self._now():
            return {}
        return {} if new.valid_to is not None and new.valid_to <= ended else {"valid_from": ended}

    def relink(self, transaction: Transaction, memory: Memory) -> None:
        """Make the links of a memory agree with the other ends, and let go of those that do not know of it."""
        if memory.superseded_by_id:
            successor = _neighbour(transaction, memory, memory.superseded_by_id)
            if successor is None:
                memory = self._changed(transaction, memory, {"superseded_by_id": ""})
            elif not successor.supersedes_id:
                self._changed(transaction, successor, {"supersedes_id": memory.id})
        if memory.supersedes_id:
            old = _neighbour(transaction, memory, memory.supersedes_id)
            if old is None or old.superseded_by_id != memory.id:
                self._changed(transaction, memory, {"supersedes_id": ""})

    def give_back_key(self, transaction: Transaction, old: Memory, back: Memory) -> None:
        """Take the key of *back*, which *old* is about to become, from the memory that has it by superseding *old*."""
        if not back.key or not old.superseded_by_id or back.superseded_by_id:
            return
        following = _neighbour(transaction, old, old.superseded_by_id)
        for _ in range(CHAIN):
            if following is None:
                return
            if following.key == back.key and following.scope.project_id == back.scope.project_id:
                self._changed(transaction, following, {"key": ""})
                return
            following = _neighbour(transaction, following, following.superseded_by_id)

    def require_free(self, transaction: Transaction, old: Memory, new: Memory) -> None:
        """Raise when *new* cannot supersede *old*: see `link`."""
        following: Memory | None = new
        for _ in range(CHAIN):
            if following is None:
                break
            if following.id == old.id:
                raise SupersedeCycleError(old.id, new.id)
            following = _neighbour(transaction, following, following.superseded_by_id, old.scope.project_id)
        else:
            raise SupersedeCycleError(old.id, new.id)
        if old.superseded_by_id:
            raise MemorySupersededError(old.id, old.superseded_by_id)

    def close_gap(self, transaction: Transaction, gone: Memory) -> None:
        """Link the neighbours of a memory that is about to be removed for good with each other.

        What only it superseded stays DEPRECATED, and can be restored, since nothing takes its place any more. What was
        true until *gone* was is true for as long as that would have been. What was merged into it stays
        ARCHIVED, and can be restored.
        """
        before = _neighbour(transaction, gone, gone.supersedes_id)
        after = _neighbour(transaction, gone, gone.superseded_by_id)
        if before is not None and before.superseded_by_id == gone.id:
            values: dict[str, Any] = {"superseded_by_id": "" if after is None else after.id}
            if before.valid_to is not None and before.valid_to == gone.valid_from:
                values["valid_to"] = gone.valid_to
            self._changed(transaction, before, values)
        if after is not None and after.supersedes_id == gone.id:
            self._changed(transaction, after, {"supersedes_id": "" if before is None else before.id})
        for memory_id in gone.derived_from:
            original = _neighbour(transaction, gone, memory_id)
            if original is not None and original.superseded_by_id == gone.id:
                self._changed(transaction, original, {"superseded_by_id": ""})

    def _changed(self, transaction: Transaction, before: Memory, values: dict[str, Any]) -> Memory:
        if all(getattr(before, name) == value for name, value in values.items()):
            return before
        after = replace(before, **values, update_time=self._now(), revision=before.revision + 1)
        record, _ = self._recording.claimed(transaction, self._recording.relabelled(after))
        transaction.update(before, record, ChangeAction.UPDATED)
        return after


def boundary(new: Memory, now: datetime) -> datetime:
    """Return when *new* took the place of what it supersedes: when it began to be true or came about, else *now*."""
    if new.valid_from is not None:
        return new.valid_from
    return now if new.event_time is None else min(new.event_time, now)


def _neighbour(transaction: Transaction, memory: Memory, memory_id: str, *projects: str) -> Memory | None:
    """Return a memory that *memory* is linked with, in its project, one of *projects*, or global."""
    if not memory_id:
        return None
    reach = Reach(memory.scope.owner, tuple(dict.fromkeys((memory.scope.project_id, *projects, ""))))
    return transaction.get(memory_id, reach=reach)
