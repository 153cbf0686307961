"""What the metadata store does to carry a user's data away and in: parts of `memsvc.ports.metadata`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from memsvc.domain.conflicts import Conflict
from memsvc.domain.files import File
from memsvc.domain.history import Checkpoint, Tombstone
from memsvc.domain.memory import Memory
from memsvc.domain.sessions import Session
from memsvc.domain.user_data import RecordKind, Stored, StoredRevision

if TYPE_CHECKING:
    from memsvc.ports.metadata import Record


@dataclass(frozen=True, slots=True)
class Restored:
    """A memory to be stored as it was elsewhere.

    Attributes:
        record: Its memory's row is set by the store; its previous_row is the one to keep.
        stored: What it was elsewhere, ids already those of here.
        session: The session whose message it is; None: it is stored without a message.
        earlier: Its earlier revisions, some or all.
    """

    record: Record
    stored: Stored
    session: Session | None = None
    earlier: tuple[StoredRevision, ...] = ()


class UserSnapshot(Protocol):
    """All that is stored of one owner, as of one moment, however long the reading takes.

    What it yields is read as it is asked for, a few records at a time. To be used from one thread at a time.
    """

    def counts(self) -> Mapping[RecordKind, int]:
        """Count the records of every kind; earlier revisions count, present ones do not."""
        ...

    def sessions(self) -> Iterator[Session]:
        """Yield the sessions in the order of opening."""
        ...

    def memories(self) -> Iterator[Stored]:
        """Yield the memories of every status in the order of writing."""
        ...

    def earlier(self, memory: Memory) -> Iterator[StoredRevision]:
        """Yield the earlier revisions of one of the memories, the first one first."""
        ...

    def conflicts(self) -> Iterator[Conflict]:
        """Yield the conflicts by project and id."""
        ...

    def checkpoints(self) -> Iterator[Checkpoint]:
        """Yield the checkpoints by project and name."""
        ...

    def files(self) -> Iterator[File]:
        """Yield what is known of files, in the order of writing."""
        ...

    def tombstones(self) -> Iterator[Tombstone]:
        """Yield what is left of purged memories, in the order of writing."""
        ...


class UserReads(Protocol):
    """Reading all of one owner."""

    def snapshot(self, owner: str) -> AbstractContextManager[UserSnapshot]:
        """Open the present state of exactly this owner for reading; writes go on."""
        ...


class TransferWrites(Protocol):
    """What a transaction does to take in what was stored elsewhere."""

    def ids_of_others(self, owner: str, ids: Iterable[str]) -> set[str]:
        """Return those of *ids* that are ids of memories of other owners."""
        ...

    def stored(self, owner: str, ids: Iterable[str]) -> dict[str, Stored]:
        """Return the memories of *owner* that have these ids, by id."""
        ...

    def rows(self, owner: str, ids: Iterable[str]) -> dict[str, int]:
        """Return the rows of the memories of *owner* that have these ids, by id."""
        ...

    def taken_ordinals(self, session: Session, ordinals: Iterable[int]) -> set[int]:
        """Return which places among the messages of a session are taken."""
        ...

    def restore(self, restored: Sequence[Restored]) -> list[Memory]:
        """Insert memories as they were elsewhere, whatever their revision; return them with their rows, in order.

        Rows ascend in that order. Indexes and watchers are told of each as of a new one.

        Raises:
            UniquenessRaceError: An id, a key, a unique content or a message's place is taken.
        """
        ...

    def restore_earlier(self, memory: Memory, earlier: Sequence[StoredRevision]) -> int:
        """Add earlier revisions of a stored memory that are not here yet; return how many were added."""
        ...

    def find_tombstones(self, owner: str, ids: Iterable[str]) -> set[str]:
        """Return those of *ids* of which tombstones of *owner* are here."""
        ...

    def restore_tombstones(self, owner: str, tombstones: Sequence[Tombstone]) -> None:
        """Add tombstones, their rows being new ones."""
        ...
