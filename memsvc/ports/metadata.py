"""The port to the metadata store: the only truth. Everything else can be rebuilt from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from memsvc.domain.conflicts import Conflict, Fact
from memsvc.domain.context import Essential
from memsvc.domain.diagnostics import MemoryCounts, PlacePart, PlaceUsage
from memsvc.domain.files import File
from memsvc.domain.filters import Filter
from memsvc.domain.history import Checkpoint, Tombstone
from memsvc.domain.index_entries import ChangeAction, Chunk, Hit
from memsvc.domain.memory import Memory, Status
from memsvc.domain.scope import Reach
from memsvc.domain.search import Order, PageCursor, WordMatch
from memsvc.domain.sessions import Session
from memsvc.domain.user_data import RecordKind, StoredMemory, StoredRevision
from memsvc.ports.candidates import Candidates, Rows
from memsvc.ports.change_feed import ChangeFeed, EmbeddingCache, IndexFeed, TokenStore
from memsvc.ports.features import (
    CallRates,
    CheckpointReads,
    CheckpointWrites,
    ConflictReads,
    ConflictWrites,
    FileReads,
    FileWrites,
    HistoryReads,
    KeyReads,
    KeyWrites,
    QuotaReads,
    QuotaWrites,
    ReminderReads,
    ReminderWrites,
    SessionReads,
    SessionWrites,
    StatementReads,
    SummaryWrites,
    UseReads,
    UseWrites,
    VaultManifest,
)
from memsvc.ports.operations import (
    ErasureReads,
    ErasureWrites,
    IntegrityReads,
    IntegrityWrites,
    Leases,
    LogReads,
    StoreCopies,
    StoreMoves,
    UpkeepReads,
    WebhookQueue,
)

# Export and import of a user's data.


@dataclass(frozen=True, slots=True)
class RestoredRecord:
    """A memory to be stored as it was elsewhere.

    Attributes:
        record: Its memory's row is set by the store; its previous_row is the one to keep.
        stored: What it was elsewhere, ids already those of here.
        session: The session whose message it is; None: it is stored without a message.
        earlier: Its earlier revisions, some or all.
    """

    record: Record
    stored: StoredMemory
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

    def memories(self) -> Iterator[StoredMemory]:
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
    """Reads of all data of one owner."""

    def snapshot(self, owner: str) -> AbstractContextManager[UserSnapshot]:
        """Open the present state of exactly this owner for reading; writes go on."""
        ...


class TransferWrites(Protocol):
    """Writes of imported records."""

    def ids_of_others(self, owner: str, ids: Iterable[str]) -> set[str]:
        """Return those of *ids* that are ids of memories of other owners."""
        ...

    def get_many(self, owner: str, ids: Iterable[str]) -> dict[str, StoredMemory]:
        """Return the memories of *owner* that have these ids, by id."""
        ...

    def rows(self, owner: str, ids: Iterable[str]) -> dict[str, int]:
        """Return the rows of the memories of *owner* that have these ids, by id."""
        ...

    def taken_ordinals(self, session: Session, ordinals: Iterable[int]) -> set[int]:
        """Return which places among the messages of a session are taken."""
        ...

    def restore(self, restored: Sequence[RestoredRecord]) -> list[Memory]:
        """Insert memories as they were elsewhere, whatever their revision; return them with their rows, in order.

        Rows ascend in that order. Indexes and watchers see each as a new one.

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


class UniquenessRaceError(Exception):
    """A key or content became taken between the look and the write; the transaction is void: repeat it."""


class OwnersBusyError(Exception):
    """Transactions of other processes that concern *owners* take long; None: any that does. Nothing was begun."""

    def __init__(self, owners: AbstractSet[str] | None) -> None:
        super().__init__("Another process writes for the same owners.")
        self.owners = owners


class OwnerLock(Protocol):
    """Lock of an owner that the next transaction takes over."""

    def release(self) -> None:
        """Release what was not taken over. Idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class Record:
    """A memory with all its dependent rows.

    Attributes:
        memory: Its row is set by the store when it is new.
        chunks: The pieces of the content; empty when there is just one (the content itself).
        is_unique: Whether the content may be there only once for (owner, project, kind, speaker). A deleted or
            superseded memory, a message, or one kept next to its duplicate is not.
        given_vector: Little-endian float32 bytes of a given embedding, or empty.
        given_model: The model whose space the given vector is in.
        statements: What the memory states, each topic once. None leaves what is stored of it as it is.
    """

    memory: Memory
    chunks: tuple[Chunk, ...] = ()
    is_unique: bool = True
    given_vector: bytes = b""
    given_model: str = ""
    statements: tuple[Fact, ...] | None = None


@dataclass(frozen=True, slots=True)
class ContentName:
    """Identity of content: project, kind, hash and speaker, under one owner; "I live here" differs by its speaker."""

    project_id: str
    kind: str
    content_hash: str
    speaker: str = ""


class SelectedMemory(NamedTuple):
    """Revision of a memory that a selection matches; *status* and *layer* are names."""

    row: int
    id: str
    revision: int
    status: str
    layer: str


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """Record of an idempotent request: a digest of the request, and the answer as JSON text."""

    digest: str
    answer: str


class MemoryReads(HistoryReads, Protocol):
    """Reads of memories, restricted to *reach*; memories outside are invisible."""

    def get(self, ids: Sequence[str], *, reach: Reach) -> dict[str, Memory]:
        """Return the memories with these ids, of any status, by id; those not there are left out."""
        ...

    def get_by_key(self, key: str, *, reach: Reach) -> Memory | None:
        """Return the memory that holds *key* and is neither deleted nor quarantined, the first project first."""
        ...

    def get_by_former_key(self, key: str, status: Status, *, reach: Reach) -> Memory | None:
        """Return the last changed DELETED or QUARANTINED memory with *key*; it does not hold the key."""
        ...

    def by_rows(self, rows: Sequence[int], *, reach: Reach) -> dict[int, Memory]:
        """Return the memories with these rows, by row."""
        ...

    def page(
        self, *, reach: Reach, where: Filter | None, order: Order, after: PageCursor | None, limit: int
    ) -> list[Memory]:
        """Return at most *limit* memories in *order* that come after the cursor. Every filter field is allowed."""
        ...

    def candidates(self, rows: Rows, *, reach: Reach) -> Candidates:
        """Return what ranking needs of these memories, each once, in any order, those not there left out."""
        ...

    def keyword_hits(self, terms: Sequence[str], *, reach: Reach, where: Filter | None, limit: int) -> Sequence[Hit]:
        """Search the keyword table: at most *limit* hits, best first, equal scores by entry id.

        The score is min(0.3 * sum of the matched keywords' weights + 0.2 * number of matched keywords, 1). The entry
        is the memory's first chunk.
        """
        ...

    def keywords_with(
        self, parts: Sequence[str], *, reach: Reach, where: Filter | None, match: WordMatch, limit: int
    ) -> list[str]:
        """Return at most *limit* keywords of the memories that pass *where*, as `WordMatch.chosen` does.

        Every filter field is allowed.
        """
        ...

    def rows_where(self, where: Filter, *, reach: Reach) -> list[int]:
        """Return the rows of all memories that match, ascending. Every filter field is allowed."""
        ...

    def chunks(self, wanted: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Chunk]:
        """Return chunks by (row, ordinal); those of memories of one chunk are not stored and so left out."""
        ...

    def essentials(self, essential: Essential, *, reach: Reach, now: datetime, limit: int) -> list[Memory]:
        """Return at most *limit* memories that are essential in that way, the most important first, then by row.

        They are in use at *now*, as `memsvc.domain.context.is_in_use` says, and not of layer SESSION. What it takes
        depends on how many such memories there are, not on how many others.
        """
        ...

    def next_essential(self, *, reach: Reach, now: datetime) -> datetime | None:
        """Return the first moment after *now* at which a memory that is essential in any way begins to hold.

        They are of status ACTIVE and not of layer SESSION. None: there is no such moment.
        """
        ...

    def session_rows(self, session_id: str, *, reach: Reach, now: datetime, limit: int) -> list[int]:
        """Return the rows of the newest *limit* messages and private memories of a session, the newest first.

        They are in use at *now*, and of layer SESSION or kind MESSAGE.
        """
        ...

    def recent_rows(self, *, since: datetime, reach: Reach, now: datetime, limit: int) -> list[int]:
        """Return the rows of the *limit* SHORT_TERM memories changed last, at or after *since*, the latest first.

        They are in use at *now*. Equal times are in the order of rows, descending.
        """
        ...

    def revision(self, memory_id: str, revision: int, *, reach: Reach) -> Memory | None:
        """Return a memory as it was at an earlier, or the current, revision."""
        ...

    def counts(self, *, reach: Reach) -> MemoryCounts:
        """Count the memories of *reach*. Tokens are estimated."""
        ...

    def places(self, parts: Sequence[PlacePart], *, after: Sequence[str], live: bool, limit: int) -> list[PlaceUsage]:
        """Return at most *limit* distinct places of memories that come after the place *after*, in order.

        A place is the values of the first one to four of owner, project, agent and session: as many as *parts*, which
        say what each must be. The order is that of code points. With *live* those are left out whose memories are all
        deleted. To find the places takes a look-up each, and to count them a pass over an index of their memories;
        no memory is read.

        This is no read within a reach: the caller must have the right to each place.
        """
        ...

    def select_revisions(self, where: Filter | None, *, reach: Reach, limit: int) -> list[SelectedMemory]:
        """Return at most *limit* of the memories that match, by row, ascending. Every filter field is allowed."""
        ...


class Transaction(
    CheckpointWrites,
    ConflictWrites,
    ReminderWrites,
    IntegrityWrites,
    TransferWrites,
    ErasureWrites,
    KeyWrites,
    QuotaWrites,
    UseWrites,
    SummaryWrites,
    Protocol,
):
    """One transaction of the store: all of it is committed, or none of it.

    Every insert, update and delete also writes the revision and outbox rows of the change, and the state of a message
    follows the status of its memory.
    """

    @property
    def sessions(self) -> SessionWrites:
        """Read and write sessions in this transaction."""
        ...

    @property
    def files(self) -> FileWrites:
        """Read and write what is known of files in this transaction."""
        ...

    @property
    def position(self) -> int:
        """Return the outbox position of the last change made in this transaction, 0 when none was."""
        ...

    @property
    def changes(self) -> int:
        """Return among how many positions, up to `position`, the changes of this transaction are; it grows."""
        ...

    @property
    def owners(self) -> AbstractSet[str]:
        """Return the owners whose memories were changed here; those of a part that failed may be among them."""
        ...

    def savepoint(self) -> AbstractContextManager[None]:
        """Open a part that can fail alone: leaving it by an exception takes back what it did, and no more."""
        ...

    def find_keys(self, owner: str, names: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Memory]:
        """Return the memories that hold one of the (project, key) pairs and are neither deleted nor quarantined."""
        ...

    def find_contents(self, owner: str, names: Iterable[ContentName]) -> dict[ContentName, Memory]:
        """Return the memories that hold one of the contents uniquely."""
        ...

    def get(self, memory_id: str, *, reach: Reach) -> Memory | None:
        """Return a memory, of any status, so that no other transaction changes it before this one ends."""
        ...

    def last_row(self, owner: str, project_id: str, session_id: str) -> int | None:
        """Return the row of the newest memory of a session that is not deleted, or None."""
        ...

    def insert(self, records: Sequence[Record]) -> list[Memory]:
        """Insert new memories; return them with their rows, in order; rows ascend in that order.

        A record after another of the same owner, project and session (not empty) in *records* gets that one's row as
        its previous_row, because no reader knows it yet; the first of a session keeps what it came with. If a clock was
        set back, the update_time of a memory is later than the checkpoints of its project, in the returned ones too.

        Raises:
            UniquenessRaceError: A key or a unique content is taken.
        """
        ...

    def update(self, before: Memory, after: Record, action: ChangeAction) -> None:
        """Replace a memory by its next revision, keeping *before* as the earlier one.

        While the content stays the same, chunks and a given vector stay too when *after* brings none. If a clock was
        set back, *after* is stored with another update_time: no earlier than that of *before*, and later than the
        checkpoints of the project.

        Raises:
            UniquenessRaceError: The new key or unique content is taken, or *before* is not the stored revision.
            ErasureRunningError: The owner is being erased: a text that comes now would not be looked for.
        """
        ...

    def set_status(self, memories: Sequence[Memory], status: Status) -> list[Memory]:
        """Give *memories* a *status* other than ACTIVE and DELETED, each a next revision; return them as they are now.

        As `update` of each would, but in few statements, however many they are; they no longer claim their content.

        Raises:
            UniquenessRaceError: One of them is not the stored revision.
        """
        ...

    def purge(self, memory: Memory) -> None:
        """Remove a memory and all that is stored of it, its revisions and conflicts too.

        The outbox and a tombstone say so.
        """
        ...

    def add_accesses(self, accesses: Mapping[str, tuple[int, datetime]]) -> None:
        """Raise access counts by memory id and set access times; ids that are gone are passed over."""
        ...

    def recall_request(self, owner: str, method: str, request_id: str) -> RequestRecord | None:
        """Return what is remembered of a request that is not yet forgotten."""
        ...

    def remember_request(self, owner: str, method: str, request_id: str, record: RequestRecord) -> None:
        """Remember a request, or replace what is remembered of it."""
        ...

    def forget_requests(self, *, before: datetime) -> int:
        """Forget requests remembered before that moment; return how many."""
        ...


class MetadataStore(Protocol):
    """The store. Safe to call from several threads; every read sees all that was committed before it began."""

    @property
    def is_shared(self) -> bool:
        """Return whether other processes may write to the store too: then they are not known of but by looking."""
        ...

    @property
    def memories(self) -> MemoryReads:
        """Read memories."""
        ...

    @property
    def sessions(self) -> SessionReads:
        """Read sessions."""
        ...

    @property
    def files(self) -> FileReads:
        """Read what is known of files."""
        ...

    @property
    def feed(self) -> IndexFeed:
        """Read what is to be indexed."""
        ...

    @property
    def changes(self) -> ChangeFeed:
        """Read the changes of memories."""
        ...

    @property
    def embeddings(self) -> EmbeddingCache:
        """Keep embeddings."""
        ...

    @property
    def tokens(self) -> TokenStore:
        """Keep token vectors."""
        ...

    @property
    def conflicts(self) -> ConflictReads:
        """Read conflicts."""
        ...

    @property
    def statements(self) -> StatementReads:
        """Read the statements of memories."""
        ...

    @property
    def reminders(self) -> ReminderReads:
        """Read reminders."""
        ...

    @property
    def uses(self) -> UseReads:
        """Read reports of use."""
        ...

    @property
    def checkpoints(self) -> CheckpointReads:
        """Read checkpoints, and what is left of purged memories."""
        ...

    @property
    def integrity(self) -> IntegrityReads:
        """Read what is wrong."""
        ...

    @property
    def logs(self) -> LogReads:
        """Read daily logs."""
        ...

    @property
    def upkeep(self) -> UpkeepReads:
        """Find what upkeep is due."""
        ...

    @property
    def leases(self) -> Leases:
        """Take and release leases."""
        ...

    @property
    def webhooks(self) -> WebhookQueue:
        """Queue changes for webhooks."""
        ...

    @property
    def users(self) -> UserReads:
        """Read all that is stored of a user."""
        ...

    @property
    def erasures(self) -> ErasureReads:
        """Look for what is left of users."""
        ...

    @property
    def api_keys(self) -> KeyReads:
        """Read API keys."""
        ...

    @property
    def quotas(self) -> QuotaReads:
        """Read quotas, and what is stored."""
        ...

    @property
    def call_rates(self) -> CallRates:
        """Count the calls that keys and tenants begin."""
        ...

    @property
    def copies(self) -> StoreCopies:
        """Copy the store as a whole."""
        ...

    @property
    def moves(self) -> StoreMoves:
        """Move the store to another database."""
        ...

    @property
    def vault(self) -> VaultManifest:
        """Keep what the vault knows of its files."""
        ...

    def transaction(
        self,
        *,
        owners: AbstractSet[str] | None = None,
        works: int = 1,
        is_patient: bool = True,
        lock: OwnerLock | None = None,
    ) -> AbstractContextManager[Transaction]:
        """Open a transaction; leaving it normally commits, durably (kill -9 after that loses nothing).

        Transactions of one owner follow each other, in all processes that share the store: each sees what those before
        it committed, and nothing that it reads of its owners changes before it ends. Transactions of different owners
        may run at the same time; one without *owners* runs alone.

        Args:
            owners: The owners whose data the transaction reads and writes; others must not be written to. None: any.
            works: About how many changes are made.
            is_patient: Wait for the transactions of other processes as long as the store's settings say, instead of a
                moment.
            lock: The result of `lock` for the one owner, which is used up.

        Raises:
            OwnersBusyError: It is not patient, and those of other processes take long.
            BackendUnavailableError: The store cannot be reached; nothing was changed.
            BackendClosedError: The store was closed.
        """
        ...

    def lock(self, owner: str | None, *, waited_seconds: float = 0) -> OwnerLock:
        """Wait until no other process writes for *owner*, and prevent it until the lock is used or released.

        With None, wait for a moment without transactions of other processes; nothing is prevented after it. It may run
        in any thread, beside transactions of this process, none of which it holds up.

        Args:
            owner: The owner.
            waited_seconds: How long the caller has waited for the owner already.

        Raises:
            BackendUnavailableError: The store cannot be reached, or the time to wait is over.
            BackendClosedError: The store was closed.
        """
        ...

    def storage_bytes(self) -> int:
        """Return the bytes that the store takes up."""
        ...

    def check_writes(self) -> None:
        """Return at once if the store is not known to hang, as far as writes are concerned.

        Raises:
            BackendUnavailableError: A write has not been answered for some time, such as by the disk.
        """
        ...

    def ping(self) -> None:
        """Return when the store answers, or raise BackendUnavailableError."""
        ...
