"""Import of an exported user: new records are stored, existing ones are kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from memsvc.domain.conflicts import Conflict
from memsvc.domain.files import File
from memsvc.domain.history import Checkpoint, Tombstone
from memsvc.domain.index_entries import View
from memsvc.domain.memory import UNNAMED, Memory
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.sessions import Session, SessionName
from memsvc.domain.user_data import (
    ImportIssue,
    ImportIssueReason,
    RecordKind,
    StoredMemory,
    StoredRevision,
    TransferProgress,
    derived_id,
    said_by,
)
from memsvc.engine.commit.group_committer import CommitPipeline, CommitResult, GroupCommitter
from memsvc.engine.indexing.cached_embedder import CachedEmbedder, text_digest
from memsvc.engine.indexing.vector_entries import EmbeddingGranularity
from memsvc.engine.records.memory_builder import chunks_of, content_name
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.engine.user_data.export import own_passages
from memsvc.engine.user_data.id_mapping import IdMapping, attached_to, file_ids_in, ids_in, new_file_ids
from memsvc.engine.user_data.parser import ExportParser, ImportBatch, ImportRecord
from memsvc.ports.metadata import ContentName, RestoredRecord, Transaction
from memsvc.ports.metadata import Record as StoreRecord
from memsvc.text.passages import ANALYSIS_VERSION

LENGTH_TOLERANCE = 0.01
ALREADY_EXISTS = "already exists and differs; it was left unchanged"


@dataclass(slots=True)
class BatchOutcome:
    """The result of writer a batch."""

    stored: Counter[RecordKind] = field(default_factory=Counter)
    unchanged: int = 0
    skipped: int = 0
    issues: list[ImportIssue] = field(default_factory=list)
    position: int = 0


def store_batch(transaction: Transaction, batch: ImportBatch, owner: str, *, all_are_new: bool) -> BatchOutcome:
    """Store a batch in a transaction, and return the result with the issues of its records."""
    writer = _BatchWriter(transaction, owner, _id_mapping(transaction, batch, owner, all_are_new=all_are_new))
    writer.store(batch.records)
    writer.outcome.position = transaction.position
    return writer.outcome


def _id_mapping(transaction: Transaction, batch: ImportBatch, owner: str, *, all_are_new: bool) -> IdMapping:
    files = _new_file_ids(transaction, batch, owner, all_are_new=all_are_new)
    if all_are_new:
        return IdMapping(owner, all_are_new=True, files=files)
    named = {name for record in batch.records for name in _names(record)}
    return IdMapping(owner, all_are_new=False, taken=transaction.ids_of_others(owner, named), files=files)


def _new_file_ids(transaction: Transaction, batch: ImportBatch, owner: str, *, all_are_new: bool) -> dict[str, str]:
    coming = {record.value.id for record in batch.records if isinstance(record.value, File)}
    spoken = {name for record in batch.records for name in _file_names(record)}
    derived = {name: derived_id(name, owner) for name in coming | spoken}
    if not derived:
        return {}
    mine = transaction.files.get_many(owner, [*derived, *derived.values()]).keys()
    if coming and not all_are_new:
        coming = transaction.files.ids_of_others(owner, coming)
    return new_file_ids(derived, coming=coming, mine=mine)


def _file_names(record: ImportRecord) -> Iterable[str]:
    memories = [record.value.memory] if isinstance(record.value, StoredMemory) else []
    for memory in (*memories, *(earlier.memory for earlier in record.earlier)):
        yield from file_ids_in(memory, record.places)


def _names(record: ImportRecord) -> Iterable[str]:
    value = record.value
    if isinstance(value, StoredMemory):
        yield from ids_in(value.memory)
        yield value.previous_id
        if value.message is not None:
            yield value.message.summary_id
            yield from (one.memory_id for one in value.message.extracted)
    elif isinstance(value, Conflict):
        yield from (value.id, value.older_id, value.newer_id)
    elif isinstance(value, Tombstone):
        yield value.memory_id
    elif isinstance(value, File) and (attached := attached_to(value)):
        yield attached
    for earlier in record.earlier:
        yield from ids_in(earlier.memory)


class _BatchWriter:
    def __init__(self, transaction: Transaction, owner: str, id_mapping: IdMapping) -> None:
        self._transaction = transaction
        self._owner = owner
        self._id_mapping = id_mapping
        self._sessions: dict[SessionName, Session | None] = {}
        self._places: set[tuple[SessionName, int]] = set()
        self.outcome = BatchOutcome()

    def store(self, records: Sequence[ImportRecord]) -> None:
        """Store sessions first, then memories, then records that refer to memories."""
        memories: list[tuple[ImportRecord, StoredMemory]] = []
        tombstones: list[tuple[ImportRecord, Tombstone]] = []
        for record in records:
            if record.value is None:
                self._skip(
                    record, ImportIssueReason.SKIPPED, f"Unknown optional record kind {record.name!r}; it was skipped."
                )
            elif isinstance(record.value, Session):
                self._session(record, record.value)
            elif isinstance(record.value, File):
                self._file(record, record.value)
            elif isinstance(record.value, StoredMemory):
                memories.append((record, self._id_mapping.map_stored(record.value, record.places)))
            elif isinstance(record.value, Tombstone):
                tombstones.append((record, record.value))
        self._memories(memories)
        for record in records:
            if isinstance(record.value, Conflict):
                self._conflict(record, record.value)
            elif isinstance(record.value, Checkpoint):
                self._checkpoint(record, record.value)
        self._tombstones(tombstones)

    def _session(self, record: ImportRecord, session: Session) -> None:
        found = self._known_session(session.name)
        if found is None:
            self._sessions[session.name] = self._transaction.sessions.insert(session)
            self.outcome.stored[RecordKind.SESSION] += 1
        elif replace(found, row=0) == session:
            self.outcome.unchanged += 1
        else:
            self._skip(record, ImportIssueReason.DIFFERS, f"The session {ALREADY_EXISTS}.")

    def _file(self, record: ImportRecord, given: File) -> None:
        file = self._id_mapping.file(given)
        files = self._transaction.files
        known = files.get_many(self._owner, [file.id]).get(file.id)
        if known is None:
            # A hash alone gives no access to bytes of other users.
            is_here = bool(files.digests_of_owner(self._owner, [file.sha256]))
            files.insert(replace(file, has_content=is_here))
            self.outcome.stored[RecordKind.FILE] += 1
        elif replace(known, row=0, has_content=False, text=file.text) == file:
            # The bytes and the state of the text belong to this service, not to the record.
            self.outcome.unchanged += 1
        else:
            self._skip(record, ImportIssueReason.DIFFERS, f"The file {ALREADY_EXISTS}.")

    def _memories(self, memories: Sequence[tuple[ImportRecord, StoredMemory]]) -> None:
        if not memories:
            return
        ids = [stored.memory.id for _, stored in memories]
        known = self._transaction.get_many(self._owner, ids)
        before = self._transaction.rows(self._owner, {s.previous_id for _, s in memories if s.previous_id})
        claims = _Claims(self._transaction, self._owner, [s for _, s in memories if s.memory.id not in known])
        new: list[RestoredRecord] = []
        seen: set[str] = set()
        for record, stored in memories:
            name = stored.memory.id
            if name in known:
                self._compare(record, stored, known[name])
            elif name in seen or record.late:
                self._skip(record, ImportIssueReason.DIFFERS, "The memory occurs twice, or was not stored.")
            elif (refused := claims.find_claim(stored)) is not None:
                reason, holder = refused
                what = "key" if reason is ImportIssueReason.KEY_TAKEN else "content"
                self._skip(record, reason, f"Another memory has the same {what}; this one was skipped.", holder)
            else:
                seen.add(name)
                new.append(self._restored_record(record, stored, before.get(stored.previous_id)))
        self._transaction.restore(new)
        self._continue_sessions(new)
        self.outcome.stored[RecordKind.MEMORY] += len(new)
        self.outcome.stored[RecordKind.REVISION] += sum(len(one.earlier) for one in new)

    def _compare(self, record: ImportRecord, stored: StoredMemory, known: StoredMemory) -> None:
        same = said_by(stored) == said_by(known)
        if not same:
            here, given = known.memory.revision, stored.memory.revision
            message = f"The memory {ALREADY_EXISTS}: at revision {here}, in the file {given}."
            self._skip(record, ImportIssueReason.DIFFERS, message)
            return
        for day, slot, noted in stored.acknowledged:
            # Reminders that were given since an earlier import are not given again.
            self._transaction.acknowledge(known.memory, day, slot, noted)
        earlier = self._earlier(record)
        added = self._transaction.restore_earlier(known.memory, earlier) if earlier else 0
        self.outcome.stored[RecordKind.REVISION] += added
        self.outcome.unchanged += len(earlier) - added + (0 if record.late else 1)

    def _restored_record(self, record: ImportRecord, stored: StoredMemory, previous_row: int | None) -> RestoredRecord:
        session, stored = self._message_session(record, stored)
        memory = stored.memory
        if memory.previous_row != previous_row:
            memory = replace(memory, previous_row=previous_row)
        new = StoreRecord(
            memory,
            chunks_of(memory.content),
            stored.is_unique,
            stored.given_vector,
            stored.given_model,
            stored.statements,
        )
        return RestoredRecord(new, stored, session, tuple(self._earlier(record)))

    def _message_session(self, record: ImportRecord, stored: StoredMemory) -> tuple[Session | None, StoredMemory]:
        if stored.message is None:
            return None, stored
        name, ordinal = SessionName.from_scope(stored.memory.scope), stored.message.ordinal
        session = self._known_session(name)
        if session is not None and not self._is_taken(session, ordinal):
            self._places.add((name, ordinal))
            return session, stored
        why = "does not exist" if session is None else f"has another message at ordinal {ordinal}"
        message = f"The session {name.session_id!r} {why}; the message was stored as a memory that is not a message."
        self._report(record, ImportIssueReason.SESSION_MISSING, message)
        return None, replace(stored, message=None)

    def _is_taken(self, session: Session, ordinal: int) -> bool:
        taken = (session.name, ordinal) in self._places
        return taken or bool(self._transaction.taken_ordinals(session, [ordinal]))

    def _continue_sessions(self, new: Sequence[RestoredRecord]) -> None:
        """Move the end of sessions that got later messages than they had; the next append takes the place after it."""
        ends: dict[SessionName, Session] = {}
        for one in new:
            if one.session is None or one.stored.message is None:
                continue
            session = ends.get(one.session.name, one.session)
            if one.stored.message.ordinal > session.last_ordinal:
                time = one.stored.memory.create_time
                ends[session.name] = replace(
                    session,
                    last_ordinal=one.stored.message.ordinal,
                    last_message_time=max(session.last_message_time or time, time),
                    update_time=max(session.update_time, time),
                )
        for session in ends.values():
            self._transaction.sessions.update(session)
        self._sessions.update(ends)

    def _conflict(self, record: ImportRecord, given: Conflict) -> None:
        of = self._id_mapping.of
        conflict = replace(given, id=of(given.id), older_id=of(given.older_id), newer_id=of(given.newer_id))
        known = self._transaction.get_conflict(conflict.id, reach=Reach(self._owner, (conflict.project_id,)))
        sides = (conflict.older_id, conflict.newer_id)
        if known == conflict:
            self.outcome.unchanged += 1
        elif known is not None:
            self._skip(record, ImportIssueReason.DIFFERS, f"The conflict {ALREADY_EXISTS}.")
        elif len(self._transaction.rows(self._owner, sides)) < len(set(sides)):
            self._skip(record, ImportIssueReason.MEMORY_MISSING, "One of the memories of the conflict does not exist.")
        else:
            self._transaction.add_conflicts([conflict])
            self.outcome.stored[RecordKind.CONFLICT] += 1

    def _checkpoint(self, record: ImportRecord, checkpoint: Checkpoint) -> None:
        known = self._transaction.find_checkpoint(self._owner, checkpoint.project_id, checkpoint.name)
        if known is None:
            self._transaction.add_checkpoint(checkpoint)
            self.outcome.stored[RecordKind.CHECKPOINT] += 1
        elif known == checkpoint:
            self.outcome.unchanged += 1
        else:
            self._skip(record, ImportIssueReason.DIFFERS, f"The checkpoint {ALREADY_EXISTS}.")

    def _tombstones(self, tombstones: Sequence[tuple[ImportRecord, Tombstone]]) -> None:
        if not tombstones:
            return
        given = {self._id_mapping.of(left.memory_id): left for _, left in tombstones}
        known = self._transaction.find_tombstones(self._owner, given)
        new = [replace(left, memory_id=name) for name, left in given.items() if name not in known]
        self._transaction.restore_tombstones(self._owner, new)
        self.outcome.stored[RecordKind.TOMBSTONE] += len(new)
        self.outcome.unchanged += len(tombstones) - len(new)

    def _earlier(self, record: ImportRecord) -> list[StoredRevision]:
        return [self._id_mapping.earlier(one, record.places) for one in record.earlier]

    def _known_session(self, name: SessionName) -> Session | None:
        if name not in self._sessions:
            self._sessions[name] = self._transaction.sessions.get(name)
        return self._sessions[name]

    def _skip(self, record: ImportRecord, reason: ImportIssueReason, message: str, holder_id: str = "") -> None:
        self.outcome.skipped += 1 + len(record.earlier) - record.late
        self._report(record, reason, message, holder_id)

    def _report(self, record: ImportRecord, reason: ImportIssueReason, message: str, holder_id: str = "") -> None:
        self.outcome.issues.append(ImportIssue(record.line, _kind(record), record.name, reason, message, holder_id))


class _Claims:
    """Keys and contents of a project claimed by existing memories and by those just imported."""

    def __init__(self, transaction: Transaction, owner: str, new: Sequence[StoredMemory]) -> None:
        named = [(s.memory.scope.project_id, s.memory.key) for s in new if _has_key(s.memory)]
        claimed = [content_name(s.memory) for s in new if _claims(s)]
        self._keys = {name: found.id for name, found in transaction.find_keys(owner, named).items()}
        self._contents: dict[ContentName, str] = {
            name: found.id for name, found in transaction.find_contents(owner, claimed).items()
        }

    def find_claim(self, stored: StoredMemory) -> tuple[ImportIssueReason, str] | None:
        """Return the reason that blocks a memory and the id of the holder, or claim its key and content."""
        memory, key = stored.memory, (stored.memory.scope.project_id, stored.memory.key)
        if _has_key(memory) and key in self._keys:
            return ImportIssueReason.KEY_TAKEN, self._keys[key]
        if _claims(stored) and content_name(memory) in self._contents:
            return ImportIssueReason.CONTENT_TAKEN, self._contents[content_name(memory)]
        if _has_key(memory):
            self._keys[key] = memory.id
        if _claims(stored):
            self._contents[content_name(memory)] = memory.id
        return None


def _has_key(memory: Memory) -> bool:
    return bool(memory.key) and memory.status not in UNNAMED


def _claims(stored: StoredMemory) -> bool:
    return stored.is_unique and stored.memory.status not in UNNAMED


def _kind(record: ImportRecord) -> str:
    sorts = {StoredMemory: RecordKind.MEMORY, Session: RecordKind.SESSION, Conflict: RecordKind.CONFLICT}
    sorts |= {Checkpoint: RecordKind.CHECKPOINT, Tombstone: RecordKind.TOMBSTONE, File: RecordKind.FILE}
    return str(sorts.get(type(record.value), record.name))


# The import use case: batch by batch, each durable; repeating an import is idempotent.


@dataclass(frozen=True, slots=True)
class _StoredLines:
    """The result of a batch, the number of its last line, and the number of its vectors that were kept."""

    lines: int
    vectors: int
    outcome: BatchOutcome


class UserImporter:
    """The factory of imports of users."""

    def __init__(
        self,
        committer: GroupCommitter,
        embedding: CachedEmbedder,
        tier: EmbeddingGranularity,
        search_priority: SearchPriority,
    ) -> None:
        """Write through *committer*, and store vectors in the cache of *embedding*."""
        self._committer = committer
        self._embedding = embedding
        self._tier = tier
        self._search_priority = search_priority

    def begin(self, scope: Scope, *, has_trusted_vectors: bool = False, service: str = "") -> UserImport:
        """Return an import into the user of *scope*, for an export of any user.

        *service* is the name and version of this service, for errors.

        The vectors of the file are kept only if they are trusted: all users share the stored vectors of equal texts and
        the mean vectors of an index.
        """
        parser = ExportParser(scope, self._search_priority, service)
        embedding = self._embedding if has_trusted_vectors else None
        return UserImport(scope, self._committer, parser, embedding, self._tier)


class UserImport:
    """A running import; one caller may parse the next bytes while another stores the previous batch."""

    def __init__(
        self,
        scope: Scope,
        committer: GroupCommitter,
        parser: ExportParser,
        embedding: CachedEmbedder | None,
        tier: EmbeddingGranularity,
    ) -> None:
        """Import what *parser* reads into the user of *scope*; store vectors in the cache of *embedding*, if given."""
        self._scope = scope
        self._works: CommitPipeline[_StoredLines] = CommitPipeline(committer, scope.owner)
        self._embedding = embedding
        self._tier = tier
        self._parser = parser
        self._stored: Counter[RecordKind] = Counter()
        self.progress = TransferProgress()

    def feed(self, data: bytes) -> Iterator[ImportBatch]:
        """Parse the next bytes of the file and yield the completed batches.

        Raises:
            InvalidRequestError: A line is invalid. Batches that were yielded are valid.
        """
        return self._parser.feed(data)

    def finish(self) -> Iterator[ImportBatch]:
        """Yield the last batch at the end of the file.

        Raises:
            InvalidRequestError: The file is truncated.
        """
        return self._parser.finish()

    def store(self, batch: ImportBatch) -> TransferProgress:
        """Start to store a batch, in order; return the progress once the previous batch is durable.

        Raises:
            ErasureRunningError: The user is being erased.
            BackendUnavailableError: The store cannot be reached. Neither the previous batch nor this one is stored.
        """
        header = self._parser.header
        kept = self._keep_vectors(batch)
        all_are_new = header is not None and header.user_id != self._scope.user_id
        owner = self._scope.owner
        return self._progress_after(
            self._works.put(
                lambda transaction, _: _StoredLines(
                    batch.lines, kept, store_batch(transaction, batch, owner, all_are_new=all_are_new)
                )
            )
        )

    def settle(self) -> TransferProgress:
        """Return the progress once all submitted batches are durable; raises what `store_batch` raises."""
        return self._progress_after(self._works.settle())

    def _progress_after(self, committed: CommitResult[_StoredLines] | None) -> TransferProgress:
        """Return the progress with the issues of one batch."""
        before, header = self.progress, self._parser.header
        if committed is None:
            return replace(before, issues=())
        batch, done = committed.value, committed.value.outcome
        self._stored += done.stored
        self.progress = TransferProgress(
            lines=max(before.lines, batch.lines),
            stored=dict(self._stored),
            unchanged=before.unchanged + done.unchanged,
            skipped=before.skipped + done.skipped,
            total=0 if header is None else sum(header.counts.values()),
            vectors=before.vectors + batch.vectors,
            position=max(before.position, committed.position if done.position else 0),
            issues=tuple(done.issues),
        )
        return self.progress

    def _keep_vectors(self, batch: ImportBatch) -> int:
        """Cache the vectors of length 1 of the current model and text version, so that no text is embedded again."""
        header, embedding = self._parser.header, self._embedding
        space = None if header is None else header.embedding
        if embedding is None or space is None:
            return 0
        if (space.model, space.dimension, space.analysis) != (embedding.model, embedding.dimension, ANALYSIS_VERSION):
            return 0
        vectors: dict[bytes, bytes] = {}
        for record in batch.records:
            if record.vectors and isinstance(record.value, StoredMemory):
                given = {(View[view], ordinal): data for view, ordinal, data in record.vectors if _is_unit(data)}
                for passage in own_passages(record.value.memory, self._tier):
                    if (found := given.get((passage.view, passage.ordinal))) is not None:
                        vectors[text_digest(passage.text)] = found
        embedding.store(vectors)
        return len(vectors)


def _is_unit(vector: bytes) -> bool:
    """Return whether float32 numbers are a vector of length 1, as embedders return, up to rounding."""
    return bool(abs(np.linalg.norm(np.frombuffer(vector, dtype="<f4").astype(np.float64)) - 1.0) <= LENGTH_TOLERANCE)
