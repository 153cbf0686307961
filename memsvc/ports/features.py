"""The part of the metadata store that keeps sessions and the order of their messages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import NamedTuple, Protocol

from memsvc.domain.api_keys import ApiKey, Quota, QuotaSubject, QuotaUse, Usage
from memsvc.domain.conflicts import Conflict, ConflictState, Fact
from memsvc.domain.file_text import FilePassage, FileText, TextReason
from memsvc.domain.files import File, FileCategory, FileFilter
from memsvc.domain.history import Checkpoint, Revision, Tombstone
from memsvc.domain.maintenance import MaintenanceScope
from memsvc.domain.memory import FileRef, Layer, Memory, Slot
from memsvc.domain.reminders import Given, Window
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.search import FoundFile, FoundPassage
from memsvc.domain.sessions import (
    ExtractedMemory,
    Message,
    MessageRecord,
    MessageState,
    Session,
    SessionCounts,
    SessionName,
    SessionState,
    SessionStatus,
)
from memsvc.domain.use_feedback import (
    RecordedUse,
    StoredUseReport,
    UseCall,
    UseCounts,
    UseFeedback,
    UseReplay,
    UseSelection,
)
from memsvc.domain.vault import VaultCopy, VaultEntry
from memsvc.ports.candidates import Rows


class SessionReads(Protocol):
    """Reads of sessions. A session is found by its whole key only, so no caller can reach another user's."""

    def get(self, name: SessionName) -> Session | None:
        """Return the session of this name."""
        ...

    def agents(self, owner: str, project_id: str, session_ids: Collection[str]) -> dict[str, str]:
        """Return which agents opened these sessions of exactly this project, by session id; "" for none."""
        ...

    def extractions(self, rows: Collection[int]) -> dict[int, tuple[ExtractedMemory, ...]]:
        """Return the memories that were extracted from the messages of these rows, by row; none are left out."""
        ...

    def messages_of(self, summary_ids: Collection[str]) -> dict[str, list[Message]]:
        """Return the messages that memories sum up, of any state, by the ids of these, in the order of their rows."""
        ...

    def page(
        self, owner: str, project_id: str, *, states: Collection[SessionState], before: int | None, limit: int
    ) -> list[Session]:
        """Return at most *limit* sessions of exactly this project in one of the *states*, the newest first.

        *before* is the row of the last session of the page before; None asks for the first page.
        """
        ...

    def counts(self, sessions: Sequence[Session]) -> dict[int, SessionCounts]:
        """Return the counts of these sessions by row, deleted messages left out; none is missing."""
        ...

    def messages(
        self, session: Session, *, states: Collection[MessageState], after: int | None, limit: int, descending: bool
    ) -> list[Message]:
        """Return at most *limit* messages in one of the *states*, by ordinal, that come after the ordinal *after*."""
        ...


class SessionWrites(Protocol):
    """Sessions within a transaction; what is read here, no other transaction changes before this one ends."""

    def get(self, name: SessionName) -> Session | None:
        """Return the session of this name."""
        ...

    def status(self, name: SessionName) -> SessionStatus | None:
        """Return the session of this name with what an append needs to know of it."""
        ...

    def active(self, owner: str, project_id: str) -> list[Session]:
        """Return the ACTIVE sessions of exactly this project, the oldest first."""
        ...

    def insert(self, session: Session) -> Session:
        """Insert a new session; return it with its row.

        Raises:
            UniquenessRaceError: The name is taken.
        """
        ...

    def update(self, session: Session) -> None:
        """Replace the session with this row; its name and its create_time never change."""
        ...

    def append(self, session: Session, records: Sequence[MessageRecord]) -> None:
        """Add messages whose memories were inserted in this transaction; their ordinals are free."""
        ...

    def counts(self, session: Session) -> SessionCounts:
        """Return the counts of a session, deleted messages left out."""
        ...

    def has_droppable(self, session: Session, *, before: int, keep_rounds: int) -> bool:
        """Return whether a live message with a smaller ordinal is neither pinned nor a system message.

        Messages of the last *keep_rounds* rounds do not count; a round begins with a live message of the user.
        """
        ...

    def are_live(self, wanted: Sequence[Message]) -> bool:
        """Return whether all of these are still ACTIVE, and their memories at the revision they were read at."""
        ...

    def add_tokens(self, row: int, tokens: int) -> None:
        """Count so many tokens more, or with a negative number less, for the message with this row; never below 0."""
        ...

    def set_summary(self, rows: Sequence[int], summary_id: str) -> None:
        """Note which memory sums these messages up."""
        ...

    def messages_of(self, summary_id: str) -> list[Message]:
        """Return the messages that a memory sums up, of any state, in the order of their rows."""
        ...

    def note_extractions(self, extracted: Mapping[int, Sequence[ExtractedMemory]]) -> None:
        """Note the memories that were extracted from messages, by the rows of the messages."""
        ...


class SummaryWrites(Protocol):
    """Summaries by their sources, within a transaction."""

    def summaries_of(self, memory: Memory) -> list[str]:
        """Return the ids of the memories of kind SUMMARY, of any status, that are made of *memory*, in their order.

        Those of the same owner that derive from it, that sum up the message that it is, or that sum up a message from
        which it was extracted.
        """
        ...

    def forget_revisions(self, memory: Memory) -> None:
        """Remove the earlier revisions of a memory; it keeps its number of the current one."""
        ...


# Statements and conflicts.


class StoredFact(NamedTuple):
    """That a memory states something."""

    memory_id: str
    statement: Fact


@dataclass(frozen=True, slots=True)
class StatingMemory:
    """An ACTIVE memory with its stored statements; none if they were removed during the read.

    Attributes:
        place: Its position in the list that it comes from, for the next page.
    """

    row: int
    memory_id: str
    owner: str
    project_id: str
    update_time: datetime
    statements: tuple[Fact, ...]
    place: tuple[int, ...]


class StatementReads(Protocol):
    """Reads of the stored statements of ACTIVE memories. Owners and projects are whole, exact strings."""

    def memories_with_facts(
        self,
        owner: str,
        project_id: str,
        *,
        layers: Sequence[Layer],
        since: datetime | None,
        after: tuple[int, ...],
        limit: int,
    ) -> list[StatingMemory]:
        """Return at most *limit* memories of a project after a place (empty: from the first), by create_time and row.

        Only those of *layers* (empty: all) and, with *since*, those created then or later.
        """
        ...

    def rows_with_facts(self, *, after: int, limit: int) -> list[StatingMemory]:
        """Return at most *limit* memories of all owners whose row is larger, by row."""
        ...

    def rows_on_topics(
        self, owner: str, project_ids: Collection[str], topics: Collection[str], *, limit: int
    ) -> list[int]:
        """Return the rows of at most *limit* memories of these projects with a statement on one of *topics*.

        The largest row comes first; each is named once.
        """
        ...

    def facts_before(self, owner: str, project_id: str, topic: str, *, row: int, limit: int) -> list[StoredFact]:
        """Return at most *limit* statements on a topic of memories with a smaller row, the largest row first."""
        ...

    def conflicts_of(self, owner: str, memory_ids: Sequence[str]) -> list[Conflict]:
        """Return the conflicts of every state in which one of the memories is either side, by id."""
        ...


class ConflictReads(Protocol):
    """Reads of conflicts, restricted to *reach*; conflicts outside are invisible."""

    def get(self, ids: Sequence[str], *, reach: Reach) -> dict[str, Conflict]:
        """Return the conflicts with these ids by id; those not there are left out."""
        ...

    def page(
        self, *, reach: Reach, states: Sequence[ConflictState], memory_id: str, before: str, limit: int
    ) -> list[Conflict]:
        """Return at most *limit* conflicts in one of *states*, the newest first.

        With a *memory_id* only those of that memory, and with *before* only those whose id is smaller.
        """
        ...


class ConflictWrites(Protocol):
    """Writes of statements, conflicts and chains. Owners and projects are whole, exact strings."""

    def find_facts(
        self, owner: str, project_id: str, topics: Sequence[str], *, limit: int, without: range = range(0)
    ) -> list[StoredFact]:
        """Return what ACTIVE memories of the project state about the topics.

        Of each topic at most *limit* statements, those of the newest memories first; none of memories whose rows are
        in *without*, a range in steps of 1.
        """
        ...

    def add_conflicts(self, conflicts: Sequence[Conflict]) -> None:
        """Store new conflicts. They go when one of their memories is purged."""
        ...

    def settle_conflicts(self, conflicts: Sequence[Conflict]) -> None:
        """Write the newer memory, the values, the state and the resolve time of stored conflicts."""
        ...

    def get_conflict(self, conflict_id: str, *, reach: Reach) -> Conflict | None:
        """Return a conflict so that no other transaction changes it before this one ends."""
        ...

    def conflicts_over(self, owner: str, older_id: str, *, limit: int) -> list[Conflict]:
        """Return the conflicts of every state in which a memory is the older side, at most *limit*, newest first."""
        ...

    def open_conflicts(self, owner: str, memory_ids: Sequence[str]) -> list[Conflict]:
        """Return the OPEN conflicts in which one of the memories is either side, by id."""
        ...

    def conflicts_between(self, owner: str, memory_ids: Sequence[str]) -> list[Conflict]:
        """Return the conflicts of every state of which both sides are among *memory_ids*, by id."""
        ...

    def superseded_by(self, owner: str, memory_id: str) -> list[Memory]:
        """Return the memories of *owner* whose superseded_by_id is this, in every project and status, by row.

        No other transaction changes them before this one ends.
        """
        ...


# Reminders.
#
# A memory with a reminder is listed here while its status is ACTIVE, from the transaction on that writes it so, and
# until the one that writes it otherwise.


class ReminderPlace(NamedTuple):
    """Position in the list of reminders: see `memsvc.domain.reminders.day_number`."""

    day: int
    row: int


class ReminderReads(Protocol):
    """Reads of reminders, restricted to *reach*; reminders outside are invisible."""

    def page(self, *, reach: Reach, window: Window, after: ReminderPlace | None, limit: int) -> list[Memory]:
        """Return at most *limit* memories whose reminders lie in *window*, by place, those after *after*.

        What it takes depends on how many those are, not on how many other memories or reminders there are.
        """
        ...

    def acknowledgements(self, rows: Sequence[int], *, since: date, reach: Reach) -> dict[int, frozenset[Given]]:
        """Return on which days, not before *since*, and in which slots the reminders of memories were acknowledged.

        By row; a memory without any is left out.
        """
        ...


class ReminderWrites(Protocol):
    """Writes of reminders, and the reads that they need."""

    def single_reminders(self, owner: str, project_id: str, *, since: date, limit: int) -> list[Memory]:
        """Return the memories of a project with a reminder of one day, not before *since*, by day, then by row."""
        ...

    def acknowledge(self, memory: Memory, day: date, slot: Slot, moment: datetime) -> datetime:
        """Note that a reminder was given; return since when that is noted, which is the first time.

        What is noted stays however the memory changes, and goes when it is purged.
        """
        ...

    def copy_acknowledgements(self, source: Memory, successor: Memory) -> None:
        """Note of *successor*, which takes the reminder of *source* over, what is noted of that."""
        ...


# Reports of use, and the state of the ranking that they lead to.


class UseReads(Protocol):
    """Reads of reports of use."""

    def page(
        self, *, reach: Reach, selection: UseSelection, after: tuple[int, int] | None, limit: int
    ) -> list[StoredUseReport]:
        """Return at most *limit* reports, by call and row, descending, that come after the pair *after*.

        They were made in a project of *reach*, about a memory of *reach* that is not DELETED. Unless the selection says
        otherwise, those made in another session than its own, and those about private memories of one, are left out.
        """
        ...

    def counts(self, row: int, *, owner: str) -> UseCounts:
        """Return the counts of a memory."""
        ...

    def feedback(self, owner: str) -> UseFeedback:
        """Return the state of the reports of an owner."""
        ...

    def signal(self, owner: str, rows: Rows) -> tuple[UseFeedback, dict[int, UseCounts]]:
        """Return the state of an owner, and the counts of those of its memories that have reports, by row.

        One statement, which reads by primary keys alone.
        """
        ...

    def calls(self, owner: str, *, limit: int) -> list[RecordedUse]:
        """Return the newest *limit* calls of an owner, oldest first, without those that have no report left."""
        ...

    def due_for_replay(self, area: MaintenanceScope, *, least: int, after: str, limit: int) -> list[str]:
        """Return at most *limit* owners after the owner *after*, in order, with *least* reports or more.

        One in `memsvc.domain.use_feedback.REPLAY_SHARE` of their reports, or more, came after their last replay. It
        reads an index that holds no others.
        """
        ...


class UseWrites(Protocol):
    """Writes of reports of use."""

    def add_use(self, call: UseCall, rows: Sequence[int]) -> None:
        """Store the reports of a call about the memories with these rows, in order, and count them.

        Calls of the owner beyond the newest `memsvc.domain.use_feedback.CALLS_KEPT` are removed; their counts remain.
        """
        ...

    def set_replay(self, owner: str, replay: UseReplay, *, pending: int) -> None:
        """Store the result of a replay that began when *pending* reports had come after the one before."""
        ...


# Search of files by words, and by the memories that refer to them.


class FileSearch(Protocol):
    """Search of files by their metadata."""

    def search(
        self,
        terms: Sequence[str],
        *,
        reach: Reach,
        categories: AbstractSet[FileCategory],
        now: datetime,
        limit: int,
    ) -> list[FoundFile]:
        """Return at most *limit* files of these categories that have one of *terms*, best first, then the newest.

        The score is the mean weight that the file has for *terms*, as `memsvc.text.file_refs.file_terms` gives it.
        Expired files are not found. Nothing outside of *reach* is found or has an effect.
        """
        ...

    def referred_to(self, owner: str, refs: Iterable[FileRef]) -> set[FileRef]:
        """Return those of *refs* that a memory of *owner* refers to, of any project and status, deleted ones too.

        A memory refers to its `file_refs` and to what `memsvc.text.file_refs.refs_in` finds in its summary.
        """
        ...

    def existing_refs(self, owner: str, refs: Iterable[FileRef], *, now: datetime) -> set[FileRef]:
        """Return those of *refs* that are files of *owner* of just that category, of any project, and not expired."""
        ...


class FileReferences(Protocol):
    """The same within a transaction."""

    def referred_to(self, owner: str, refs: Iterable[FileRef]) -> set[FileRef]:
        """Return those of *refs* that a memory of *owner* refers to, of any project and status, deleted ones too."""
        ...


# Text of files: passages, the words that they are found by, and the queue of extractions.


class FileTextReads(Protocol):
    """Search of passages, and reads of the queue."""

    def search_passages(
        self,
        terms: Sequence[str],
        *,
        reach: Reach,
        categories: AbstractSet[FileCategory],
        now: datetime,
        limit: int,
        limit_per_file: int,
    ) -> list[FoundPassage]:
        """Return at most *limit* passages of files of these categories that have one of *terms*, best first.

        The score is the share of the rarity (`memsvc.text.bm25`) of *terms* that the passage has, each term counted by
        `memsvc.text.file_refs.passage_weights`. Equal scores: the newest file, then the order in the file.
        Passages of expired files and of texts that are not INDEXED are not found. Nothing outside of *reach* is found
        or has an effect.
        """
        ...

    def passages(self, file: File, *, after: int = -1, limit: int = 100) -> list[FilePassage]:
        """Return at most *limit* passages of a file, those after the ordinal *after*."""
        ...

    def passages_of_owner(self, owner: str, *, limit: int) -> list[str]:
        """Return the texts of at most *limit* passages of exactly this owner."""
        ...

    def pending_texts(self) -> int:
        """Return the number of files whose text is pending and whose content is here."""
        ...

    def stray_texts(self, *, owner: str | None, after: int, limit: int) -> list[OrphanText]:
        """Return the next *limit* rows of files after *after* that have passages or words and are not there."""
        ...


class OrphanText(NamedTuple):
    """The row of a file that is not there, and the owner of its passages or words."""

    row: int
    owner: str


class FileTextWrites(Protocol):
    """Texts of files within a transaction. A claim is valid until another one of the same file, or its end."""

    def claim_texts(self, *, now: datetime, term: timedelta, limit: int) -> list[File]:
        """Claim at most *limit* pending texts that are due, oldest first; they are due again after *term*.

        A store that several processes share must decide by one clock, not by *now*, that of this process: a process
        whose clock is ahead must not take what another one works on. So must the other methods with a time.
        """
        ...

    def release_claims(self, *, now: datetime) -> None:
        """Make all pending texts due, since no process works on them."""
        ...

    def retry_texts(self, reasons: AbstractSet[TextReason], *, now: datetime) -> int:
        """Make the texts of UNSUPPORTED files with one of these reasons pending; return how many."""
        ...

    def store_text(
        self, claim: File, passages: Sequence[FilePassage], words: Mapping[str, Sequence[tuple[int, float]]]
    ) -> bool:
        """Add passages and words to a claimed text; return False and do nothing if the claim is not valid.

        *words* are the passages of each term, by ordinal, with the weight of the term, over 0 and at most 1.

        Raises:
            ErasureRunningError: The owner is being erased.
        """
        ...

    def finish_text(self, claim: File, text: FileText, *, pause: timedelta | None = None) -> bool:
        """Set the state of a claimed text; return False and do nothing if the claim is not valid.

        A text that is not INDEXED loses its passages. One that stays PENDING is due again after *pause*.

        Raises:
            ErasureRunningError: The owner is being erased.
        """
        ...

    def discard_stray_texts(self, rows: Sequence[int]) -> int:
        """Remove passages and words of files that are not there; return of how many files."""
        ...


# Records of files. Their bytes: `memsvc.ports.blobs`.


class FileReads(FileSearch, FileTextReads, Protocol):
    """Reads of file records. Files outside *reach*, or expired at *now*, are invisible."""

    def get(self, ids: Sequence[str], *, reach: Reach, now: datetime) -> dict[str, File]:
        """Return the files with these ids, by id; those not there are left out."""
        ...

    def page(self, *, reach: Reach, where: FileFilter, now: datetime, before: int | None, limit: int) -> list[File]:
        """Return at most *limit* files that match, the newest first; *before* is the row of the last one before."""
        ...

    def of_owner(self, owner: str, *, after: int, limit: int) -> list[File]:
        """Return at most *limit* files of exactly this owner by row, expired ones too, from the row *after* on."""
        ...

    def every(self, *, after: int, limit: int) -> list[File]:
        """Return at most *limit* files of all owners by row, expired ones too, from the row *after* on."""
        ...

    def expired_files(self, *, now: datetime, limit: int) -> list[File]:
        """Return at most *limit* files of all owners that are expired, the first to expire first."""
        ...

    def digests_in_use(self, digests: Iterable[str], *, apart_from: str = "") -> set[str]:
        """Return those of *digests* that are the hash of a file that has its content, expired ones too.

        The files of the owner *apart_from* do not count.
        """
        ...


class FileWrites(FileReferences, FileTextWrites, Protocol):
    """Files within a transaction."""

    def get(self, file_id: str, *, reach: Reach) -> File | None:
        """Return a file, expired or not, so that no other transaction removes it before this one ends."""
        ...

    def insert(self, file: File) -> File:
        """Insert a new file; return it with its row.

        Raises:
            UniquenessRaceError: The id is taken, by whomever.
            ErasureRunningError: The owner is being erased.
        """
        ...

    def digests_of_owner(self, owner: str, digests: Iterable[str]) -> set[str]:
        """Return those of *digests* that are the hash of a file of *owner* that has its content."""
        ...

    def fill(self, owner: str, sha256: str) -> int:
        """Note of all files of *owner* with this hash that their content is here; return of how many it was not."""
        ...

    def delete(self, files: Sequence[File]) -> int:
        """Remove files by row; return how many were there."""
        ...

    def ids_of_others(self, owner: str, ids: Iterable[str]) -> set[str]:
        """Return those of *ids* that are ids of files of other owners."""
        ...

    def get_many(self, owner: str, ids: Iterable[str]) -> dict[str, File]:
        """Return the files of *owner* that have these ids, expired ones too, by id."""
        ...


# The part of the metadata store that keeps what the vault knows of its files.


@dataclass(frozen=True, slots=True)
class VaultState:
    """Identity of the vault of the entries, and the position of the outbox that its files have reached."""

    vault_id: str
    position: int


@dataclass(frozen=True, slots=True)
class Transcript:
    """A session in which something was said.

    Attributes:
        first_time: When its first message was written.
        stamp: Microseconds; it grows whenever one of its messages changes.
        row: Of its first message.
    """

    scope: Scope
    first_time: datetime
    stamp: int
    row: int


class VaultManifest(Protocol):
    """Entries by path, and what is behind them. Paths that differ in case or composition only are one.

    A memory has at most one entry, and so has the transcript of a session.
    """

    def state(self) -> VaultState | None:
        """Return the state; None: there is no vault yet."""
        ...

    def begin(self, vault_id: str) -> None:
        """Forget every entry and copy, and begin with a vault of this id at position 0."""
        ...

    def at(self, paths: Iterable[str]) -> dict[str, VaultEntry]:
        """Return the entries of these paths by `memsvc.domain.vault_layout.path_key`; unknown ones are left out."""
        ...

    def of(self, memory_ids: Iterable[str]) -> dict[str, VaultEntry]:
        """Return the entries of these memories by memory id; those without are left out."""
        ...

    def of_session(self, scope: Scope) -> VaultEntry | None:
        """Return the entry of the transcript of the session of *scope*."""
        ...

    def ids_with_content(self, owner: str, digest: str, *, limit: int) -> list[VaultEntry]:
        """Return at most *limit* entries of an owner's files of this digest, by path."""
        ...

    def page(self, *, owner: str | None, after: str, limit: int) -> list[VaultEntry]:
        """Return at most *limit* entries of an owner, or with None of all owners, by path key, after a path key."""
        ...

    def count(self, *, owner: str | None) -> int:
        """Return how many entries there are."""
        ...

    def record(
        self, entries: Sequence[VaultEntry] = (), *, removed: Iterable[str] = (), position: int | None = None
    ) -> None:
        """Remove the entries of the paths *removed*, set *entries*, and note the position, all of it or nothing.

        An entry takes the place of the one of its path, and of the one of its memory or session; a copy at its path is
        forgotten.
        """
        ...

    def copy_at(self, path: str) -> VaultCopy | None:
        """Return the copy at a path; it is no entry, and none of the other methods returns it as one."""
        ...

    def copies(self, *, owner: str | None, after: str, limit: int) -> list[VaultCopy]:
        """Return at most *limit* copies of an owner, or with None of all owners, by path key, after a path key."""
        ...

    def record_copies(self, copies: Sequence[VaultCopy] = (), *, removed: Iterable[str] = ()) -> None:
        """Forget the copies at the paths *removed*, and set *copies* in place of those of their paths."""
        ...

    def present(self, rows: Sequence[int]) -> list[Memory]:
        """Return memories as they are, of any owner and status, in any order; unknown ones are left out."""
        ...

    def behind(self, *, owner: str | None, after_row: int, limit: int, every: bool = False) -> list[Memory]:
        """Return the next *limit* memories, by ascending row, whose entry does not say what they are.

        Those are: that should have a file and have no entry, or one of another revision, and that should have none and
        have an entry. With *every* all that should have a file are among them; messages of sessions never are.
        """
        ...

    def entries_without_memory(self, *, owner: str | None, after: str, limit: int) -> list[VaultEntry]:
        """Return at most *limit* entries whose memory is not there any more, by path key, after a path key."""
        ...

    def places_of_purged(self, memory_ids: Iterable[str]) -> set[tuple[str, str]]:
        """Return the owners and projects of those of these memories that were removed for good, but not erased."""
        ...

    def transcripts(self, *, owner: str | None, after_row: int, limit: int) -> list[Transcript]:
        """Return the next *limit* sessions in which something was said, by the row of their first message."""
        ...


# The parts of the port to the metadata store that look back: revisions, checkpoints, tombstones.


class HistoryReads(Protocol):
    """Reads of memories as of a moment, restricted to *reach*; a memory never changes its owner or project.

    A revision is what was known from its update_time until that of the next one, which is no earlier; of revisions with
    the same update_time the highest counts.
    """

    def revisions(self, memory_id: str, *, reach: Reach, before: int | None, limit: int) -> list[Revision]:
        """Return the newest *limit* revisions of a memory below *before*, newest first; none of an unknown memory."""
        ...

    def known_at(self, rows: Sequence[int], moment: datetime, *, reach: Reach) -> dict[int, Memory]:
        """Return these memories as they were known at *moment*, by row; those not yet there then are left out.

        Access counts and times are those of the end of the revision.
        """
        ...

    def has_deleted(self, *, reach: Reach) -> bool:
        """Return whether any memory other than a message is deleted, of those that `deletion_times` knows."""
        ...

    def deletion_times(self, content_hashes: Iterable[str], *, reach: Reach) -> dict[str, datetime]:
        """Return when memories with these contents, other than messages, were deleted last, by content_hash.

        Those that were restored or purged since do not count: of what was purged nothing is known.
        """
        ...


class CheckpointReads(Protocol):
    """Reads of checkpoints and tombstones."""

    def get(self, owner: str, project_id: str, name: str) -> Checkpoint | None:
        """Return a checkpoint by its whole name."""
        ...

    def page(self, owner: str, project_id: str, *, after: tuple[datetime, str] | None, limit: int) -> list[Checkpoint]:
        """Return at most *limit* checkpoints, the newest by create_time first, equal ones by name.

        *after* holds the create_time and name of the last one of the page before.
        """
        ...

    def tombstones(self, *, reach: Reach, moment: datetime, after_row: int, limit: int) -> list[Tombstone]:
        """Return by ascending row the next *limit* memories that were there at *moment* and were purged since."""
        ...


class CheckpointWrites(Protocol):
    """Writes of checkpoints."""

    def find_checkpoint(self, owner: str, project_id: str, name: str) -> Checkpoint | None:
        """Return a checkpoint by its whole name."""
        ...

    def add_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Keep a new checkpoint.

        Raises:
            UniquenessRaceError: The name is taken.
        """
        ...

    def delete_checkpoint(self, owner: str, project_id: str, name: str) -> None:
        """Delete a checkpoint by its whole name; do nothing if there is none."""
        ...


# The part of the metadata store that holds API keys.


class KeyReads(Protocol):
    """Reads of API keys. Every read sees all that was committed before it began, by any process."""

    def get(self, key_id: str) -> ApiKey | None:
        """Return the key with this id, whatever its state, or None."""
        ...

    def page(self, *, after: str, limit: int, alive_at: datetime | None) -> Sequence[ApiKey]:
        """Return the next *limit* keys after the id *after* (empty: from the first), by id.

        With *alive_at* only those that are neither revoked nor expired at that moment.
        """
        ...

    def has_any(self) -> bool:
        """Return whether a key was ever added: revoked and expired ones count, and a key is never removed."""
        ...


class KeyWrites(Protocol):
    """Writes of API keys."""

    def add_key(self, key: ApiKey) -> None:
        """Add a key with an id that no other has."""
        ...

    def revoke_key(self, key_id: str, moment: datetime) -> ApiKey | None:
        """Revoke a key as of *moment*, unless it was revoked before, and return it as it is now; None: there is none.

        It stays for later audits.
        """
        ...


# The part of the metadata store that holds quotas, and what tenants and keys have stored.


class QuotaReads(Protocol):
    """Reads of quotas and of stored amounts, by any process."""

    def get(self, subject: QuotaSubject, name: str) -> QuotaUse:
        """Return the quota of a tenant or a key, an empty one if there is none, with what it has stored."""
        ...

    def page(self, *, after: tuple[QuotaSubject, str] | None, limit: int) -> Sequence[QuotaUse]:
        """Return the next *limit* quotas by subject and id, KEY first, with what is stored."""
        ...

    def drift(self) -> Mapping[str, Usage]:
        """Count what every tenant has stored, and return by how much that is more than the amounts that are kept.

        By tenant; those without a difference are left out. It reads every memory, in one snapshot, while writes go on.
        """
        ...


@dataclass(frozen=True, slots=True)
class TakenCalls:
    """Calls that a caller may begin now.

    Attributes:
        count: How many; at most as many as were wanted.
        retry_seconds: The time until one more may begin, if there are fewer.
    """

    count: int
    retry_seconds: float = 0.0


class CallRates(Protocol):
    """Rates of calls of keys and tenants, which all processes over the store count together."""

    def take(self, caller: str, *, rate: float, wanted: int, now: datetime) -> TakenCalls:
        """Take at most *wanted* calls, at least 1, of *caller*, who may begin *rate* calls a second, a finite number.

        Over time no more are taken than the rate; a burst has the calls of one second, and at least one (the generic
        cell rate algorithm). A store that processes share decides by a clock of its own; *now* counts elsewhere.

        Raises:
            BackendUnavailableError: The store cannot be reached.
        """
        ...


class QuotaWrites(Protocol):
    """Writes of quotas, and their observance.

    Each insert, update and removal of memories and files changes the amounts of their tenant, and of the key that pays.
    One that adds more than a quota allows raises a QuotaExceededError, if a call pays for it.
    """

    def set_payer(self, key_id: str | None) -> None:
        """Say which key pays for what follows; empty: a call without a key; None: none, so that no quota holds."""
        ...

    def set_quota(self, quota: Quota) -> None:
        """Store a quota, or remove that of its subject if it is empty."""
        ...

    def add_usage(self, subject: QuotaSubject, name: str, amount: Usage) -> None:
        """Add to the amounts that are kept of a tenant or a key, to correct them."""
        ...
