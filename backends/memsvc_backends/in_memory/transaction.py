"""One transaction of the dict-based metadata store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import NoReturn

from memsvc.domain.clock import from_micros, to_micros
from memsvc.domain.history import Checkpoint, tombstone_of
from memsvc.domain.index_entries import Change, ChangeAction
from memsvc.domain.memory import Layer, Memory, Status, put_away
from memsvc.domain.scope import Reach
from memsvc.domain.sessions import message_state
from memsvc.ports.features import FileWrites, SessionWrites
from memsvc.ports.metadata import ContentName, Record, RequestRecord, UniquenessRaceError
from memsvc_backends.in_memory.api_keys import InprocKeyWrites
from memsvc_backends.in_memory.conflicts import InprocConflictWrites
from memsvc_backends.in_memory.files import InprocFileWrites
from memsvc_backends.in_memory.integrity import InprocIntegrityWrites
from memsvc_backends.in_memory.reminders import InprocReminderWrites
from memsvc_backends.in_memory.sessions import InprocSessionWrites
from memsvc_backends.in_memory.state import Name, State, is_named, is_within
from memsvc_backends.in_memory.user_export import InprocTransferWrites


class InprocTransaction(
    InprocConflictWrites, InprocReminderWrites, InprocIntegrityWrites, InprocTransferWrites, InprocKeyWrites
):
    """`memsvc.ports.metadata.Transaction`, on a state of its own."""

    def __init__(self, state: State, now: datetime) -> None:
        """Work on *state*, a copy."""
        self.state = state
        self._now = now
        self._time = to_micros(now)
        self._position = self._changes = 0
        self._is_void = False
        self._owners: set[str] = set()

    @property
    def owners(self) -> AbstractSet[str]:
        """Return whose memories were changed here."""
        return self._owners

    @property
    def sessions(self) -> SessionWrites:
        """Read and write sessions here."""
        return InprocSessionWrites(self.state, self._race, self.refuse_erased)

    @property
    def files(self) -> FileWrites:
        """Read and write what is known of files here."""
        return InprocFileWrites(self.state, self._race, self.refuse_erased)

    @property
    def position(self) -> int:
        """Return the position of the last change made here."""
        return self._position

    @property
    def changes(self) -> int:
        """Return how many changes were made here."""
        return self._changes

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Open a part that can fail alone."""
        state, before = self.state.copy(), (self._position, self._changes)
        try:
            yield
            self.refuse_when_void()
        except BaseException:
            self.state, self._is_void = state, False
            self._position, self._changes = before
            raise

    def find_keys(self, owner: str, names: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Memory]:
        """Return the bearers of keys."""
        found = {(project, key): self.state.names.get((owner, project, key)) for project, key in names}
        return {name: self.state.records[row].memory for name, row in found.items() if row is not None}

    def find_contents(self, owner: str, names: Iterable[ContentName]) -> dict[ContentName, Memory]:
        """Return the unique holders of contents."""
        found = {name: self.state.names.get((owner, name)) for name in names}
        return {name: self.state.records[row].memory for name, row in found.items() if row is not None}

    def get(self, memory_id: str, *, reach: Reach) -> Memory | None:
        """Return those that are there."""
        memory = self.state.memory(self.state.rows.get(memory_id, 0))
        return memory if memory is not None and is_within(reach, memory) else None

    def superseded_by(self, owner: str, memory_id: str) -> list[Memory]:
        """Return those that this one superseded."""
        found = (record.memory for _, record in sorted(self.state.records.items()))
        return [one for one in found if memory_id and (one.scope.owner, one.superseded_by_id) == (owner, memory_id)]

    def last_row(self, owner: str, project_id: str, session_id: str) -> int | None:
        """Return the newest row of a session."""
        place = (owner, project_id, session_id)
        memories = (record.memory for record in self.state.live())
        rows = [m.row for m in memories if (m.scope.owner, m.scope.project_id, m.scope.session_id) == place]
        return max(rows, default=None) if session_id else None

    def insert(self, records: Sequence[Record]) -> list[Memory]:
        """Insert new memories."""
        self.refuse_erased({record.memory.scope.owner for record in records})
        latest: dict[tuple[str, str, str], int] = {}
        inserted: list[Memory] = []
        for record in records:
            scope = record.memory.scope
            session = (scope.owner, scope.project_id, scope.session_id)
            previous = latest.get(session, record.memory.previous_row)
            memory = self._insert(replace(record, memory=replace(record.memory, previous_row=previous)))
            if scope.session_id:
                latest[session] = memory.row
            inserted.append(memory)
        return inserted

    def update(self, before: Memory, after: Record, action: ChangeAction) -> None:
        """Write the next revision of a memory."""
        self.refuse_erased([before.scope.owner])
        self._replace(before, after, action)

    def _replace(self, before: Memory, after: Record, action: ChangeAction) -> None:
        stored = self.state.records.get(before.row)
        if stored is None or stored.memory.revision != before.revision:
            self._race()
        else:
            self.state.revisions[before.row, before.revision] = before
            self._put(_next_record(stored, before, after), action)
            if before.row in self.state.messages:
                session, record = self.state.messages[before.row]
                state = message_state(after.memory.status)
                self.state.messages[before.row] = (session, replace(record, state=state))

    def put_away(self, memories: Sequence[Memory], status: Status) -> list[Memory]:
        """Write the next revision of each memory."""
        after = [put_away(memory, status, self._now) for memory in memories]
        for old, new in zip(memories, after, strict=True):
            self._replace(old, Record(new, is_unique=False), ChangeAction.UPDATED)
        return [self.state.records[one.row].memory for one in memories]

    def purge(self, memory: Memory) -> None:
        """Remove a memory without a trace but in the outbox."""
        stored = self.state.records.pop(memory.row, None)
        if stored is None:
            return
        for name in _names(stored):
            del self.state.names[name]
        del self.state.rows[stored.memory.id]
        self.state.messages.pop(memory.row, None)
        self.state.revisions = {key: value for key, value in self.state.revisions.items() if key[0] != memory.row}
        self.forget_conflicts(stored.memory.id)
        self.forget_given(memory.row)
        self.state.actions = {key: value for key, value in self.state.actions.items() if key[0] != memory.row}
        self.state.tombstones.append((stored.memory.scope.owner, tombstone_of(stored.memory, from_micros(self._time))))
        self._log(stored.memory, stored.memory, ChangeAction.PURGED)

    def add_accesses(self, accesses: Mapping[str, tuple[int, datetime]]) -> None:
        """Raise access counts."""
        for memory_id, (number, moment) in accesses.items():
            row = self.state.rows.get(memory_id)
            if row is not None:
                record = self.state.records[row]
                count = record.memory.access_count + number
                memory = replace(record.memory, access_count=count, access_time=moment)
                self.state.records[row] = replace(record, memory=memory)

    def recall_request(self, owner: str, method: str, request_id: str) -> RequestRecord | None:
        """Return what is remembered of a request."""
        found = self.state.requests.get((owner, method, request_id))
        return None if found is None else found[0]

    def remember_request(self, owner: str, method: str, request_id: str, record: RequestRecord) -> None:
        """Remember a request."""
        self.refuse_erased([owner])
        self.state.requests[owner, method, request_id] = (record, self._time)

    def forget_requests(self, *, before: datetime) -> int:
        """Forget old requests."""
        bound = to_micros(before)
        erasures = self.state.erasures.items()
        self.state.erasures = {n: one for n, one in erasures if one.end_time is None or one.end_time >= before}
        kept = {name: value for name, value in self.state.requests.items() if value[1] >= bound}
        forgotten = len(self.state.requests) - len(kept)
        self.state.requests = kept
        return forgotten

    def find_checkpoint(self, owner: str, project_id: str, name: str) -> Checkpoint | None:
        """Return a checkpoint by its name."""
        return self.state.checkpoints.get((owner, project_id, name))

    def add_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Keep a new checkpoint."""
        self.refuse_erased([checkpoint.owner])
        name = (checkpoint.owner, checkpoint.project_id, checkpoint.name)
        if name in self.state.checkpoints:
            self._race()
        self.state.checkpoints[name] = checkpoint

    def refuse_when_void(self) -> None:
        """Raise when a race was lost and passed over: a part of what was written is missing."""
        if self._is_void:
            self._race()

    def _insert(self, record: Record) -> Memory:
        self.state.last_row += 1
        memory = replace(record.memory, row=self.state.last_row)
        if memory.id in self.state.rows:
            self._race()
        self.state.rows[memory.id] = memory.row
        self._put(replace(record, memory=memory), ChangeAction.CREATED)
        return memory

    def _put(self, record: Record, action: ChangeAction) -> None:
        row = record.memory.row
        stored = self.state.records.get(row)
        for name in _names(stored) if stored is not None else ():
            del self.state.names[name]
        names = _names(record)
        if not self.state.names.keys().isdisjoint(names):
            self._race()
        self.state.names.update(dict.fromkeys(names, row))
        self.state.records[row] = record
        self.state.actions[row, record.memory.revision] = action
        self._log(record.memory if stored is None else stored.memory, record.memory, action)

    def _race(self) -> NoReturn:
        self._is_void = True
        message = "A key or content was taken by somebody else; repeat the transaction."
        raise UniquenessRaceError(message)

    def _log(self, before: Memory, memory: Memory, action: ChangeAction) -> None:
        self.state.last_position += 1
        self._changes += 1
        position = self._position = self.state.last_position
        change = Change(position, memory.row, memory.id, action, memory.revision, self._time)
        self.state.outbox[position] = change
        scope = memory.scope
        is_private = before.layer is Layer.SESSION and memory.layer is Layer.SESSION
        self.state.places[position] = (scope.owner, scope.project_id, scope.session_id if is_private else "")
        self._owners.add(scope.owner)
        self.state.pending.add(position)


def _next_record(stored: Record, before: Memory, after: Record) -> Record:
    memory = replace(after.memory, row=before.row)
    if (memory.access_count, memory.access_time) == (before.access_count, before.access_time):
        memory = replace(memory, access_count=stored.memory.access_count, access_time=stored.memory.access_time)
    stated = stored.statements if after.statements is None else after.statements
    record = replace(after, memory=memory, statements=stated)
    if before.content_hash != after.memory.content_hash:
        return record
    if not record.chunks:
        record = replace(record, chunks=stored.chunks)
    if not record.given_vector:
        record = replace(record, given_vector=stored.given_vector, given_model=stored.given_model)
    return record


def _names(record: Record) -> list[Name]:
    memory, scope = record.memory, record.memory.scope
    names: list[Name] = []
    if is_named(memory) and memory.key:
        names.append((scope.owner, scope.project_id, memory.key))
    if is_named(memory) and record.is_unique:
        names.append((scope.owner, ContentName(scope.project_id, memory.kind.value, memory.content_hash)))
    return names
