"""Going back to what a memory said before, by a revision that says it again."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from memsvc.domain.history import changed_fields
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import Memory, Status


def reverted(before: Memory, target: Memory | None, now: datetime) -> Memory | None:
    """Return the next revision of *before*, which says what *target* said; None when *before* says it already.

    Without a target the memory is to be as if it were not there yet: DELETED.
    """
    said = replace(before, status=Status.DELETED) if target is None else target
    if not changed_fields(before, said):
        return None
    return replace(
        said,
        row=before.row,
        previous_row=before.previous_row,
        access_count=before.access_count,
        access_time=before.access_time,
        revision=before.revision + 1,
        update_time=now,
    )


def action_of(before: Memory, after: Memory) -> ChangeAction:
    """Return what the change from *before* to *after* is to those who watch."""
    was_deleted, is_deleted = (one.status is Status.DELETED for one in (before, after))
    if was_deleted == is_deleted:
        return ChangeAction.UPDATED
    return ChangeAction.DELETED if is_deleted else ChangeAction.RESTORED
