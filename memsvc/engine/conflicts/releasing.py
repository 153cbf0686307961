"""Letting go: what a memory that went back to before it superseded another gives back to that one."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from memsvc.domain.memory import Memory, Status
from memsvc.engine.conflicts.state_updates import ConflictStateUpdater
from memsvc.engine.conflicts.supersession import Superseding, neighbour, shares_keys
from memsvc.ports.metadata import Transaction


class SupersessionRelease:
    """Lets superseded memories stand for themselves again."""

    def __init__(self, superseding: Superseding, settling: ConflictStateUpdater) -> None:
        """Write by *superseding*, open conflicts anew by *settling*."""
        self._superseding = superseding
        self._settling = settling

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
            self._superseding.changed(transaction, old, values)

    def _status(self, transaction: Transaction, freed: Memory, since: datetime) -> Status:
        """Return the status of a freed memory, once its conflicts are open that stand.

        Those that leave their older memory in use are opened first: they are no reason to mark it.
        """
        self._settling.reopen(transaction, replace(freed, status=Status.ACTIVE), since=since)
        marked = replace(freed, status=Status.CONFLICTED)
        return Status.CONFLICTED if self._settling.reopen(transaction, marked, since=since) else Status.ACTIVE


def _let_go(transaction: Transaction, before: Memory, after: Memory) -> list[Memory]:
    """Return the memories that *before* superseded and *after* does not: the one that it names first.

    All of them when *after* superseded none. There is none when *after* names one that was removed for good since: then
    *before* took over what that superseded.
    """
    if before.supersedes_id in {"", after.supersedes_id}:
        return []
    if after.supersedes_id and neighbour(transaction, after, after.supersedes_id) is None:
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
