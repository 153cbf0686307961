"""What the metadata store does to be moved to another database while it is used: a part of `memsvc.ports.metadata`."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


@dataclass(frozen=True, slots=True)
class MoveTarget:
    """Where a store is moved to.

    Attributes:
        url: The address of a PostgreSQL database; empty: the embedded store of the data directory. It holds a password,
            and so is not shown.
    """

    url: str = field(default="", repr=False)


class MovePhase(StrEnum):
    """What a move is at."""

    CHECKED = "CHECKED"
    COPYING = "COPYING"
    FOLLOWING = "FOLLOWING"
    VERIFYING = "VERIFYING"
    SEALED = "SEALED"
    DONE = "DONE"
    ABORTED = "ABORTED"
    UNDONE = "UNDONE"


class Changes(StrEnum):
    """What becomes of that which was stored at the target since, when a move is undone."""

    KEEP = "KEEP"
    DISCARD = "DISCARD"


@dataclass(frozen=True, slots=True)
class TableMoved:
    """A table: how many rows it has, and a digest of all of them, which is the same whatever their order.

    Attributes:
        digest: In hexadecimal; empty where none was taken.
    """

    name: str
    rows: int
    digest: str = ""


@dataclass(frozen=True, slots=True)
class MoveProgress:
    """How far a move is.

    Attributes:
        done: Rows dealt with in this phase.
        total: Rows to be dealt with, as far as known; 0: not known.
        place: The target, without a password.
        note: What is being done, or was found, in a few English words.
        tables: What is there to move (CHECKED), or was moved and found equal on both sides (DONE); else empty.
        sealed_seconds: How long writes waited (DONE).
        bytes: What the source takes up (CHECKED).
    """

    phase: MovePhase
    done: int = 0
    total: int = 0
    place: str = ""
    note: str = ""
    tables: tuple[TableMoved, ...] = ()
    sealed_seconds: float = 0.0
    bytes: int = 0


class StoreMoves(Protocol):
    """Moving everything that the store holds into another database of the same kind of store.

    The target holds the same rows afterwards, bit for bit: ids, revisions, positions of changes, requests, keys, and
    the identity of the store, so that repeated requests and cursors stay good. Of two stores with the same identity
    never more than one can be written to.
    """

    @property
    def arrival(self) -> str:
        """Return the name of the move by which the data came here last; empty when they never were elsewhere."""
        ...

    def require_here(self) -> None:
        """Return when this is the place of the data.

        Raises:
            StoreMovedError: They were moved away, or have not all arrived.
        """
        ...

    def check(self, target: MoveTarget) -> MoveProgress:
        """Tell what a move would copy, and that the target can take it. Nothing is changed on either side.

        Raises:
            MoveRefusedError: The target cannot be reached, cannot be written to, or holds something else.
            CapabilityMissingError: The store cannot be moved.
        """
        ...

    def run(self, target: MoveTarget, *, settle: Callable[[], None]) -> Generator[MoveProgress, None, None]:
        """Move, and tell how far it is: the last step is DONE. From then on every write here is refused.

        Reads and writes go on meanwhile; before the end writes wait, until what was changed last is carried over.
        *settle* is called shortly before that, to write what is held back. When the iteration ends early, at any
        point, nothing is lost here, and the next run to the same target goes on where this one was.

        Raises:
            MoveRefusedError: As for `check`; or the two sides were found to differ.
            StoreMovedError: It was moved elsewhere.
            BackendUnavailableError: One of the two went away.
            CapabilityMissingError: The store cannot be moved.
        """
        ...

    def abort(self, target: MoveTarget) -> MoveProgress:
        """Give a move up that has not ended: nothing is left of it, here or at the target, if that is there.

        Raises:
            MoveRefusedError: It has ended.
        """
        ...

    def undo(self, target: MoveTarget, *, changes: Changes) -> MoveProgress:
        """Take a move back that has ended: this is the place of the data again, as they were, and the target's is not.

        Raises:
            MoveRefusedError: Nothing was moved there; or the target was written to since, and *changes* are to be kept.
        """
        ...
