"""Operations on the metadata store: migration, maintenance, leases, integrity, backup and erasure."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Protocol, TypeAlias

from memsvc.domain.conflicts import Conflict
from memsvc.domain.diagnostics import CheckPart
from memsvc.domain.index_entries import Change, ChangeAction, Chunk
from memsvc.domain.maintenance import MaintenanceScope
from memsvc.domain.memory import Memory, Reminder
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.sessions import Session
from memsvc.domain.user_data import Erasure


@dataclass(frozen=True, slots=True)
class MoveTarget:
    """Target of a migration.

    Attributes:
        url: The address of a PostgreSQL database; empty: the embedded store of the data directory. It holds a password,
            and so is not shown.
    """

    url: str = field(default="", repr=False)


class MovePhase(StrEnum):
    """Phase of a migration."""

    CHECKED = "CHECKED"
    COPYING = "COPYING"
    FOLLOWING = "FOLLOWING"
    VERIFYING = "VERIFYING"
    SEALED = "SEALED"
    DONE = "DONE"
    ABORTED = "ABORTED"
    UNDONE = "UNDONE"


class MoveChanges(StrEnum):
    """Action on writes made at the target when a migration is undone."""

    KEEP = "KEEP"
    DISCARD = "DISCARD"


@dataclass(frozen=True, slots=True)
class MovedTable:
    """A table: how many rows it has, and a digest of all of them, which is the same whatever their order.

    Attributes:
        digest: In hexadecimal; empty where none was taken.
    """

    name: str
    rows: int
    digest: str = ""


@dataclass(frozen=True, slots=True)
class MoveProgress:
    """Progress of a migration.

    Attributes:
        done: Rows dealt with in this phase.
        total: Rows to be dealt with, as far as known; 0: not known.
        place: The target, without a password.
        note: What is being done, or was found, in a few English words.
        tables: The content to move (CHECKED), or was moved and found equal on both sides (DONE); else empty.
        sealed_seconds: How long writes waited (DONE).
        bytes: What the source takes up (CHECKED).
    """

    phase: MovePhase
    done: int = 0
    total: int = 0
    place: str = ""
    note: str = ""
    tables: tuple[MovedTable, ...] = ()
    sealed_seconds: float = 0.0
    bytes: int = 0


class StoreMoves(Protocol):
    """Migration of everything that the store holds to another database of the same kind of store.

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

        Reads and writes continue; at the end writes wait until the last changes are copied.
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

    def undo(self, target: MoveTarget, *, changes: MoveChanges) -> MoveProgress:
        """Take a move back that has ended: this is the place of the data again, as they were, and the target's is not.

        Raises:
            MoveRefusedError: Nothing was moved there; or the target was written to since, and *changes* are to be kept.
        """
        ...


# The part of the metadata store that finds what upkeep is due, of every owner. It only reads.


ScanPosition: TypeAlias = tuple[int, ...]
"""Position of a memory in one of these lists, opaque to callers. Empty: before the first."""


@dataclass(frozen=True, slots=True)
class MaintenanceCandidate:
    """A memory that upkeep may be due of, without what it says.

    Attributes:
        place: Its position in the list it came from.
        content_bytes: The size of its content in UTF-8.
        reminder: Its reminder; None: it has none.
        valid_from: The time from which it is valid; None: it always was.
    """

    row: int
    memory_id: str
    scope: Scope
    place: ScanPosition
    work_in_progress: bool
    content_bytes: int
    reminder: Reminder | None = None
    valid_from: datetime | None = None


@dataclass(frozen=True, slots=True)
class UnreadRule:
    """The memories that count as unread.

    Attributes:
        since: They were neither read nor changed at or after this moment.
        max_importance: Their highest importance, 1 to 5.
    """

    since: datetime
    max_importance: int


class UpkeepReads(Protocol):
    """Lists of memories that lie in an area, at most *limit* after a place.

    They are ACTIVE and of no layer or tier CORE, except those of `deleted_memories`.

    Each is read by an index that holds little else. Equal ones are in the order of rows.
    """

    def expired_memories(
        self, area: MaintenanceScope, *, at: datetime, after: ScanPosition, limit: int
    ) -> list[MaintenanceCandidate]:
        """Return those whose expire_time is not after *at*, the first to expire first; CONFLICTED ones too."""
        ...

    def deleted_memories(
        self, area: MaintenanceScope, *, before: datetime, after: ScanPosition, limit: int
    ) -> list[MaintenanceCandidate]:
        """Return those that were deleted before a moment, of every layer and tier, the first deleted first."""
        ...

    def frequently_read(
        self, area: MaintenanceScope, *, least: int, at: datetime, after: ScanPosition, limit: int
    ) -> list[MaintenanceCandidate]:
        """Return those of layer SHORT_TERM that were read *least* times or more, the least often read first.

        They were last changed before *at* and do not expire by then; not work in progress, and not messages.
        """
        ...

    def unread(
        self, area: MaintenanceScope, *, rule: UnreadRule, after: ScanPosition, limit: int
    ) -> list[MaintenanceCandidate]:
        """Return those of layer LONG_TERM that are unread by *rule*.

        The least important come first, of those the ones never read, then those read the longest ago.
        """
        ...

    def above(self, area: MaintenanceScope, *, content_bytes: int, rule: UnreadRule, at: datetime) -> dict[str, int]:
        """Return the owners whose LONG_TERM memories hold more bytes of content, and by how many more.

        Those changed at or after *at*, and those that `unread` returns by *rule*, do not count. All projects of the
        owners do, whatever the area. It looks at all memories that may be archived, once.
        """
        ...

    def least_useful(
        self, area: MaintenanceScope, *, owner: str, rule: UnreadRule, at: datetime, after: ScanPosition, limit: int
    ) -> list[MaintenanceCandidate]:
        """Return those of layer LONG_TERM of one owner that were last changed before *at*, the least useful first.

        That is the least important, of those the least often read, of those the oldest; not what `unread` returns by
        *rule*.
        """
        ...


# The part of the metadata store that lets one of several processes do what must not be done twice at once.


class Leases(Protocol):
    """Leases of names, each with one holder at a time until it is released or expires. Shared by all processes.

    A store that processes share decides by a clock of its own, so that their clocks may differ.
    """

    def take(self, name: str, *, holder: str, now: datetime, term: timedelta) -> bool:
        """Give *name* to *holder* for *term*, and return True; False: another has it, and nothing is changed.

        A holder may take again what it has, which moves its end. Of several who take at the same time one succeeds.
        *now* counts where one process alone uses the store.

        Raises:
            BackendUnavailableError: The store cannot be reached.
        """
        ...

    def release(self, name: str, *, holder: str, ended: datetime | None) -> None:
        """Take *name* from *holder*, if it has it; remember that its work *ended* now (None: it was not finished)."""
        ...

    def last_end(self, name: str) -> datetime | None:
        """Return when work under *name* was finished last by any process, by the clock of this one; None: never."""
        ...


# The part of the metadata store that finds daily logs which have grown old.


@dataclass(frozen=True, slots=True)
class LogPlace:
    """The last log that was looked at: key and row. Logs are in the order of both."""

    key: str = ""
    row: int = 0


class LogReads(Protocol):
    """Reads of the daily logs of all owners."""

    def old_logs(self, area: MaintenanceScope, *, before: str, after: LogPlace, limit: int) -> Sequence[Memory]:
        """Return the next *limit* ACTIVE memories of *area* whose key begins with "daily/" and is less than *before*.

        They are ordered by key, equal ones by row. What it takes depends on how many ACTIVE daily logs there are, not
        on how many other memories.
        """
        ...


# Integrity: faults that the store finds in its own data, and their repair.


@dataclass(frozen=True, slots=True)
class RowCursor:
    """An owner and one of their projects."""

    owner: str
    project_id: str


@dataclass(frozen=True, slots=True)
class StoredRow:
    """Completeness of the dependent rows of a memory: its chunks and terms."""

    has_chunks: bool
    has_terms: bool


@dataclass(frozen=True, slots=True)
class OrphanRow:
    """Orphaned row of a removed memory, with its owner if that is known."""

    row: int
    owner: str = ""


@dataclass(frozen=True, slots=True)
class LostMessage:
    """A message whose memory is not there (then *memory_id* is empty), or else whose session is not."""

    row: int
    owner: str
    project_id: str
    memory_id: str


class IntegrityReads(Protocol):
    """Reads of integrity faults. A reach limits them to one owner and some projects; None means all data.

    Lists are bounded and ordered, so that a call with the last one returns the rest.
    """

    def places(self, *, after: RowCursor | None, limit: int) -> list[RowCursor]:
        """Return the next *limit* places that have memories or sessions, by owner, then project."""
        ...

    def known_ids(self, owner: str, ids: Sequence[str]) -> set[str]:
        """Return those of *ids* that are memories of exactly this owner, of any project and status."""
        ...

    def stored_rows(self, memories: Sequence[Memory]) -> dict[int, StoredRow]:
        """Return the completeness of the dependent rows of these memories by row; unknown ones are left out."""
        ...

    def remains(self, part: CheckPart, *, owner: str | None, after: int, limit: int) -> list[OrphanRow]:
        """Return the next *limit* rows after *after* of which a part is left though the memory is gone, ascending.

        With an owner only those that are known to be that owner's: chunks, vectors and revisions have no owner.
        """
        ...

    def lost_messages(self, *, reach: Reach | None, after: int, limit: int) -> list[LostMessage]:
        """Return the next *limit* messages after row *after* that lack their memory or session, by row."""
        ...

    def emptied_sessions(self, *, reach: Reach | None, after: int, limit: int) -> list[Session]:
        """Return the next *limit* sessions after row *after* that have had messages and have none now, by row."""
        ...

    def dangling_conflicts(self, *, reach: Reach | None, after: str, limit: int) -> list[Conflict]:
        """Return the next *limit* conflicts after the id *after* that lack a memory of the same owner, by id."""
        ...


class IntegrityWrites(Protocol):
    """Repairs, in a transaction. Rows that are correct by then are not changed."""

    def reenter(self, memory: Memory, chunks: Sequence[Chunk]) -> None:
        """Write the terms and chunks (none, or at least two) of a memory again, if it is still stored as given."""
        ...

    def discard_remains(self, part: CheckPart, rows: Sequence[int]) -> int:
        """Remove what is left of memories that are gone; return of how many there was something."""
        ...

    def discard_messages(self, rows: Sequence[int]) -> int:
        """Remove messages that lack their memory or session; return how many."""
        ...

    def discard_conflicts(self, conflicts: Sequence[Conflict]) -> int:
        """Remove conflicts that lack a memory; return how many."""
        ...


# Backup: consistent copies of the store while it is used.


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """Progress of a copy, in parts of no particular size; *total* may grow.

    Attributes:
        counts: What the copy holds, by what it is; empty until the end.
    """

    done: int
    total: int
    counts: Mapping[str, int] = field(default_factory=dict)


class StoreCopies(Protocol):
    """Copies of the store as a whole."""

    def copy(self, directory: Path) -> Generator[CopyProgress, None, None]:
        """Write the state of one moment into files in *directory*, which exists and is empty; writes continue.

        A store that is opened in a directory with these files holds that state. When the iteration ends early, what
        was written is of no use. At its end all is safe on the disk.

        Raises:
            CapabilityMissingError: The store cannot be copied so.
            BackendUnavailableError: The store cannot be read or is damaged, or the directory cannot be written.
        """
        ...

    def verify(self) -> None:
        """Read everything that is stored, as far as the store can check it by itself.

        Raises:
            BackendUnavailableError: It is damaged.
        """
        ...

    def counts(self) -> Mapping[str, int]:
        """Count what is stored, of all owners, by what it is: "memories", "sessions" and others."""
        ...

    def renew(self) -> None:
        """Give the data a name that no other store has, since they are a copy: see `ChangeFeed.identity`."""
        ...


# Erasure of a user.


class ErasureReads(Protocol):
    """Search for residue of erased owners."""

    def find(self, owner: str) -> Erasure | None:
        """Return the latest erasure of *owner* that is not forgotten yet."""
        ...

    def unfinished_erasures(self) -> list[Erasure]:
        """Return the erasures that were begun and have not ended."""
        ...

    def traces(self, owner: str) -> dict[str, int]:
        """Count what is stored of *owner* in each table that holds anything of owners, by the table's name."""
        ...

    def projects(self, owner: str) -> list[str]:
        """Return the projects in which anything of *owner* is stored."""
        ...

    def is_elsewhere(self, text: str) -> bool:
        """Return whether the content of any memory, of any owner and revision, holds *text*. It reads them all."""
        ...

    def is_ambiguous(self, owner: str) -> bool:
        """Return whether the name of *owner* may be found in files although nothing of that owner is stored.

        That is so if the name of another owner, of whom anything is stored, contains it, or is its beginning: values
        are next to each other in files, so that "user-1" before a hash "2…" reads as "user-12".
        """
        ...

    def files(self) -> Sequence[Path]:
        """Return the files, of this machine, in which what was removed may stay until `rewrite`; often there are none.

        Some of them may not be there.
        """
        ...

    def settle(self) -> bool:
        """Bring what was removed out of the files that hold the log of changes; return whether that was possible.

        It is not while a reader looks at an older state.
        """
        ...

    def is_quick_to_rewrite(self) -> bool:
        """Return whether a store without `files` is so small that others may wait for `rewrite`."""
        ...

    def rewrite(self) -> None:
        """Rewrite the data without removed content; other writers wait.

        On a server a part that others use all the time is left as it is, which the log says.
        """
        ...


class ErasureWrites(Protocol):
    """Writes of erasures.

    While an erasure of an owner runs, and in transactions whose work was begun before it ended, nothing new of the
    owner can be stored: every write of this transaction that would raises ErasureRunningError.
    """

    def begin_erasure(self, erasure: Erasure) -> None:
        """Note that an erasure is begun, in the place of an earlier one of the owner."""
        ...

    def end_erasure(self, erasure: Erasure) -> None:
        """Note that an erasure has ended; of the owner no more is kept than a digest.

        A store that processes share notes the end by a clock of its own.
        """
        ...

    def erase_memories(self, owner: str, rows: Sequence[int]) -> Mapping[str, int]:
        """Remove memories of *owner* with all that is stored of them, but for embeddings, which name no memory.

        The outbox says that they are gone, and no tombstone is left. Returns how much was removed by table.
        """
        ...

    def erase_rest(self, owner: str, *, limit: int) -> Mapping[str, int]:
        """Remove at most *limit* rows of each other table of *owner*; return how many by table, nothing at the end.

        Changes in the outbox stay, but no longer say whose they are or of what.
        """
        ...

    def set_began(self, moment: int) -> None:
        """Say when the work that follows was begun, in microseconds by the clock of this process; 0: now."""
        ...


# The queue of webhooks: changes that wait to be sent to an endpoint, and those that were given up.


@dataclass(frozen=True, slots=True)
class WebhookSelection:
    """Changes that an endpoint gets: those of one tenant, of some owners (empty: of all) and of some actions."""

    endpoint: str
    tenant_id: str
    owners: frozenset[str]
    actions: frozenset[ChangeAction]


@dataclass(frozen=True, slots=True)
class WebhookDelivery:
    """A change for an endpoint. It holds no content.

    Attributes:
        attempts: How often it was sent.
        first_time: The time of the first attempt; None: there was none.
        next_time: The time before which it is not sent; None: at once.
        is_dead: True for a dead letter, which is not sent.
        status: The HTTP status of the last attempt; 0: there was no answer.
        error: The reason why the last attempt failed.
    """

    endpoint: str
    owner: str
    project_id: str
    change: Change
    attempts: int = 0
    first_time: datetime | None = None
    next_time: datetime | None = None
    is_dead: bool = False
    status: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class WebhookState:
    """State of an endpoint.

    Attributes:
        position: Changes up to it were queued, or are not for the endpoint.
        is_gone: True if the endpoint was turned off.
        pending: The number of deliveries that wait.
        dead: The number of dead letters.
        oldest: The time of the oldest change that waits; None: none waits.
    """

    position: int
    is_gone: bool
    pending: int = 0
    dead: int = 0
    oldest: datetime | None = None


class WebhookQueue(Protocol):
    """Deliveries by endpoint. Of each owner the oldest one is sent first, and none before it is done with.

    The times of deliveries are of the clock of this process: a store that several processes share must translate them,
    since the clocks of processes differ and another one may go on with the queue. Every method may raise
    `BackendUnavailableError`.
    """

    def collect(self, selection: WebhookSelection, *, limit: int) -> tuple[int, int]:
        """Queue the changes that follow the cursor, of which *limit* are read; return how many were read and queued.

        A new endpoint begins after the newest change. What the outbox no longer holds is passed over.
        """
        ...

    def due(self, endpoint: str, *, at: datetime, limit: int) -> list[WebhookDelivery]:
        """Return the oldest pending delivery of each owner, of at most *limit* owners, of which the time has come."""
        ...

    def settle(self, done: Sequence[WebhookDelivery], kept: Sequence[WebhookDelivery]) -> None:
        """Remove the deliveries *done*, and note the attempts of those *kept*, unless they were removed since."""
        ...

    def set_gone(self, endpoint: str, moment: datetime | None) -> None:
        """Turn an endpoint off, or on again."""
        ...

    def state(self, endpoint: str) -> WebhookState | None:
        """Return the state of an endpoint; None: it was never used."""
        ...

    def dead_letters(self, endpoint: str, *, after: tuple[str, int], limit: int) -> list[WebhookDelivery]:
        """Return the next dead letters after an endpoint and a position, in this order; *endpoint* empty: of all."""
        ...

    def retry(self, endpoint: str, positions: Sequence[int]) -> int:
        """Make dead letters pending, all without *positions*; return how many. They are sent at once."""
        ...

    def drop(self, endpoint: str, positions: Sequence[int]) -> int:
        """Remove dead letters, all without *positions*; return how many."""
        ...
