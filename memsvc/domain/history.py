"""History: revisions, moments to read as of, checkpoints, and tombstones.

A memory has two times. *Known* time is the store's: a revision is what was known from its update_time until that of the
next one. *Valid* time is the world's: what a memory says is true from valid_from until valid_to.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum

from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import Layer, Memory, Status

OWN_TO_A_REVISION = frozenset({"row", "previous_row", "revision", "update_time", "access_count", "access_time"})
"""What two revisions of a memory may differ in and still say the same."""


@dataclass(frozen=True, slots=True)
class AsOf:
    """A moment to look at, in both times.

    Attributes:
        valid_time: What was true then; None: this plays no part in a read by name, and means the known time in others.
        known_time: What was known then; None: what is known now.
    """

    valid_time: datetime | None = None
    known_time: datetime | None = None


@dataclass(frozen=True, slots=True)
class Revision:
    """A memory as of one revision, how it came about, and when the next one took its place (None: never yet)."""

    memory: Memory
    action: ChangeAction
    until: datetime | None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A name for a moment of one project of one owner; the empty project is that of the global memories."""

    owner: str
    project_id: str
    name: str
    known_time: datetime
    create_time: datetime
    note: str = ""


@dataclass(frozen=True, slots=True)
class Tombstone:
    """Tombstone of a purged memory: its id and the time in which it existed.

    Attributes:
        row: The row that it had; rows are never used again.
        session_id: The session that it was private to, empty when it was not.
    """

    row: int
    memory_id: str
    project_id: str
    session_id: str
    create_time: datetime
    time: datetime


class DifferenceKind(StrEnum):
    """Kind of difference between a memory now and then."""

    CREATED = "CREATED"
    CHANGED = "CHANGED"
    DELETED = "DELETED"
    RESTORED = "RESTORED"
    PURGED = "PURGED"


@dataclass(frozen=True, slots=True)
class Difference:
    """One memory that is not as it was: *before* is None when it was not there, *after* when it is gone for good."""

    kind: DifferenceKind
    memory_id: str
    before: Memory | None
    after: Memory | None


class RollbackObstacle(StrEnum):
    """Why a memory was not rolled back."""

    MEMORY_EXISTS = "MEMORY_EXISTS"
    CHANGED_MEANWHILE = "CHANGED_MEANWHILE"
    PURGED = "PURGED"


@dataclass(frozen=True, slots=True)
class UnrestoredMemory:
    """A memory that a rollback left as it is, and why; *in_the_way* is the memory that has its key or content."""

    memory_id: str
    reason: RollbackObstacle
    in_the_way: str = ""


@dataclass(frozen=True, slots=True)
class RollbackReport:
    """Result of a rollback to a checkpoint, or of its dry run.

    Attributes:
        counts: How many memories were changed back, by what became of them.
        unreturned: Those that were left as they are, the first ones; *unreturned_count* counts all.
        undo: The checkpoint that names the moment before; empty when nothing was done.
    """

    checkpoint: Checkpoint
    counts: Mapping[DifferenceKind, int] = field(default_factory=dict)
    unreturned: tuple[UnrestoredMemory, ...] = ()
    unreturned_count: int = 0
    undo: str = ""
    position: int = 0


def tombstone_of(memory: Memory, time: datetime) -> Tombstone:
    """Return what is left of a memory that is purged at *time*."""
    is_private = memory.layer is Layer.SESSION
    return Tombstone(
        row=memory.row,
        memory_id=memory.id,
        project_id=memory.scope.project_id,
        session_id=memory.scope.session_id if is_private else "",
        create_time=memory.create_time,
        time=time,
    )


def is_valid_at(memory: Memory, moment: datetime) -> bool:
    """Return whether what *memory* says was true at *moment*."""
    begun = memory.valid_from is None or memory.valid_from <= moment
    return begun and (memory.valid_to is None or memory.valid_to > moment)


def is_valid_now(memory: Memory, now: datetime) -> bool:
    """Return whether what *memory* says is true at the present moment, by a clock that may have been set back."""
    return memory.has_begun(now) and (memory.valid_to is None or memory.valid_to > now)


def changed_fields(before: Memory, after: Memory) -> tuple[str, ...]:
    """Return the names of the fields in which two revisions say different things, in the order of `Memory`."""
    names = (one.name for one in fields(Memory) if one.name not in OWN_TO_A_REVISION)
    return tuple(name for name in names if _plain(name, before) != _plain(name, after))


def difference_of(before: Memory | None, after: Memory) -> DifferenceKind | None:
    """Return how *after* differs from *before*, deleted memories counting as not there; None: it does not."""
    was_there = before is not None and before.status is not Status.DELETED
    is_there = after.status is not Status.DELETED
    if not was_there:
        return (DifferenceKind.CREATED if before is None else DifferenceKind.RESTORED) if is_there else None
    if not is_there:
        return DifferenceKind.DELETED
    return DifferenceKind.CHANGED if before is not None and changed_fields(before, after) else None


def _plain(name: str, memory: Memory) -> object:
    # Metadata as JSON, because to Python True equals 1.
    return json.dumps(dict(memory.metadata), sort_keys=True) if name == "metadata" else getattr(memory, name)
