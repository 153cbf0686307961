"""Carrying users away, taking them in and forgetting them, in the dict-based metadata store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NoReturn

from memsvc.domain.clock import to_micros
from memsvc.domain.conflicts import Conflict
from memsvc.domain.errors import ErasureRunningError
from memsvc.domain.files import File
from memsvc.domain.history import Checkpoint, Tombstone
from memsvc.domain.index_entries import Change, ChangeAction
from memsvc.domain.memory import Memory
from memsvc.domain.sessions import Session
from memsvc.domain.user_data import Erasure, RecordKind, Stored, StoredRevision, owner_digest
from memsvc.ports.metadata import Record, Restored, UserSnapshot
from memsvc_backends.in_memory.erasure import InprocErasureReads
from memsvc_backends.in_memory.state import State


class InprocUserReads:
    """`memsvc.ports.metadata.UserReads`."""

    def __init__(self, state: Callable[[], State]) -> None:
        """Read from the state that *state* returns."""
        self._state = state

    @contextmanager
    def snapshot(self, owner: str) -> Iterator[UserSnapshot]:
        """Read the present state, which nobody changes in place."""
        yield InprocUserSnapshot(self._state(), owner)


class InprocUserSnapshot:
    """`memsvc.ports.metadata.UserSnapshot`."""

    def __init__(self, state: State, owner: str) -> None:
        """Read of *owner* in *state*."""
        self._state = state
        self._owner = owner

    def counts(self) -> Mapping[RecordKind, int]:
        """Count the records."""
        return {
            RecordKind.SESSION: sum(1 for _ in self.sessions()),
            RecordKind.MEMORY: sum(1 for _ in self.memories()),
            RecordKind.REVISION: sum(stored.memory.revision - 1 for stored in self.memories()),
            RecordKind.CONFLICT: sum(1 for _ in self.conflicts()),
            RecordKind.CHECKPOINT: sum(1 for _ in self.checkpoints()),
            RecordKind.TOMBSTONE: sum(1 for _ in self.tombstones()),
            RecordKind.FILE: sum(1 for _ in self.files()),
        }

    def sessions(self) -> Iterator[Session]:
        """Yield the sessions."""
        for _, session in sorted(self._state.sessions.items()):
            if session.scope.owner == self._owner:
                yield session

    def memories(self) -> Iterator[Stored]:
        """Yield the memories."""
        for _, record in sorted(self._state.records.items()):
            if record.memory.scope.owner == self._owner:
                yield _stored(self._state, record)

    def earlier(self, memory: Memory) -> Iterator[StoredRevision]:
        """Yield the earlier revisions."""
        for revision in range(1, memory.revision):
            name = (memory.row, revision)
            if name in self._state.revisions:
                yield StoredRevision(self._state.revisions[name], self._state.actions[name])

    def conflicts(self) -> Iterator[Conflict]:
        """Yield the conflicts."""
        found = [one for one in self._state.conflicts.values() if one.owner == self._owner]
        yield from sorted(found, key=lambda one: (one.project_id, one.id))

    def checkpoints(self) -> Iterator[Checkpoint]:
        """Yield the checkpoints."""
        found = [one for one in self._state.checkpoints.values() if one.owner == self._owner]
        yield from sorted(found, key=lambda one: (one.project_id, one.name))

    def files(self) -> Iterator[File]:
        """Yield what is known of files."""
        for _, file in sorted(self._state.files.items()):
            if file.scope.owner == self._owner:
                yield file

    def tombstones(self) -> Iterator[Tombstone]:
        """Yield the tombstones."""
        found = [one for owner, one in self._state.tombstones if owner == self._owner]
        yield from sorted(found, key=lambda one: one.row)


class InprocTransferWrites:
    """`memsvc.ports.metadata.TransferWrites` and `memsvc.ports.operations.ErasureWrites`, on a state of its own."""

    state: State
    _time: int
    _position: int
    _changes: int
    _owners: set[str]
    _race: Callable[[], NoReturn]
    _insert: Callable[[Record], Memory]
    _began: int = 0

    def ids_of_others(self, owner: str, ids: Iterable[str]) -> set[str]:
        """Return the ids of others."""
        return {name for name in ids if (found := self._by_id(name)) and found.memory.scope.owner != owner}

    def stored(self, owner: str, ids: Iterable[str]) -> dict[str, Stored]:
        """Return memories by id."""
        found = {name: record for name in ids if (record := self._by_id(name)) is not None}
        return {n: _stored(self.state, record) for n, record in found.items() if record.memory.scope.owner == owner}

    def rows(self, owner: str, ids: Iterable[str]) -> dict[str, int]:
        """Return rows by id."""
        return {name: stored.memory.row for name, stored in self.stored(owner, ids).items()}

    def taken_ordinals(self, session: Session, ordinals: Iterable[int]) -> set[int]:
        """Return the places that are taken."""
        taken = {record.ordinal for row, record in self.state.messages.values() if row == session.row}
        return taken & set(ordinals)

    def restore(self, restored: Sequence[Restored]) -> list[Memory]:
        """Insert memories with their pasts."""
        self.refuse_erased({one.record.memory.scope.owner for one in restored})
        written: list[Memory] = []
        rows: dict[str, int] = {}
        for one in restored:
            previous = rows.get(one.stored.previous_id, one.record.memory.previous_row)
            memory = self._insert(replace(one.record, memory=replace(one.record.memory, previous_row=previous)))
            rows[memory.id] = memory.row
            self.state.actions[memory.row, memory.revision] = one.stored.action
            self.restore_earlier(memory, one.earlier)
            if one.session is not None and one.stored.message is not None:
                if self.taken_ordinals(one.session, [one.stored.message.ordinal]):
                    self._race()
                self.state.messages[memory.row] = (one.session.row, replace(one.stored.message, row=memory.row))
            noted = {(memory.row, day, slot): at for day, slot, at in one.stored.acknowledged}
            self.state.reminders_given.update(noted)
            written.append(memory)
        return written

    def restore_earlier(self, memory: Memory, earlier: Sequence[StoredRevision]) -> int:
        """Add the revisions that are missing."""
        added = 0
        for one in earlier:
            name = (memory.row, one.memory.revision)
            if one.memory.revision < memory.revision and name not in self.state.revisions:
                past = replace(one.memory, row=memory.row, previous_row=memory.previous_row)
                self.state.revisions[name], self.state.actions[name] = past, one.action
                added += 1
        return added

    def find_tombstones(self, owner: str, ids: Iterable[str]) -> set[str]:
        """Return the ids of which there are tombstones."""
        return {one.memory_id for mine, one in self.state.tombstones if mine == owner} & set(ids)

    def restore_tombstones(self, owner: str, left: Sequence[Tombstone]) -> None:
        """Add tombstones."""
        self.refuse_erased([owner])
        for one in left:
            self.state.last_row += 1
            self.state.tombstones.append((owner, replace(one, row=self.state.last_row)))

    def set_began(self, moment: int) -> None:
        """Say when the work was begun."""
        self._began = moment

    def refuse_erased(self, owners: Iterable[str]) -> None:
        """Return when the owners may be written.

        Raises:
            ErasureRunningError: One of them is being erased, or was while the work was under way.
        """
        for owner in owners:
            found = self.state.erasures.get(owner_digest(owner))
            if found is None:
                continue
            if found.end_time is None or (self._began or self._time) <= to_micros(found.end_time):
                raise ErasureRunningError

    def begin_erasure(self, erasure: Erasure) -> None:
        """Note an erasure."""
        self.state.erasures[erasure.owner_digest] = erasure

    def end_erasure(self, erasure: Erasure) -> None:
        """Note the end of an erasure."""
        self.state.erasures[erasure.owner_digest] = erasure

    def erase_memories(self, owner: str, rows: Sequence[int], digests: Sequence[bytes]) -> Mapping[str, int]:
        """Remove memories."""
        state, known = self.state, set(digests)
        before = len(state.embeddings)
        state.embeddings = {name: vector for name, vector in state.embeddings.items() if name[1] not in known}
        mine = {row for row in rows if row in state.records and state.records[row].memory.scope.owner == owner}
        for row in mine:
            del state.rows[state.records.pop(row).memory.id]
            state.messages.pop(row, None)
            self._anonymous(row)
        state.names = {name: row for name, row in state.names.items() if row not in mine}
        state.revisions = {name: one for name, one in state.revisions.items() if name[0] not in mine}
        state.actions = {name: one for name, one in state.actions.items() if name[0] not in mine}
        return {"memories": len(mine), "embeddings": before - len(state.embeddings)}

    def erase_rest(self, owner: str, *, limit: int) -> Mapping[str, int]:
        """Remove the rest of an owner, all at once whatever *limit* is: it is a copy of the state anyway."""
        del limit
        state, before = self.state, InprocErasureReads(lambda: self.state).traces(owner)
        state.sessions = {row: one for row, one in state.sessions.items() if one.scope.owner != owner}
        state.files = {row: one for row, one in state.files.items() if one.scope.owner != owner}
        state.conflicts = {name: one for name, one in state.conflicts.items() if one.owner != owner}
        state.checkpoints = {name: one for name, one in state.checkpoints.items() if name[0] != owner}
        state.requests = {name: one for name, one in state.requests.items() if name[0] != owner}
        state.tombstones = [one for one in state.tombstones if one[0] != owner]
        state.vault_files = {key: one for key, one in state.vault_files.items() if one.owner != owner}
        for position, place in state.places.items():
            if place[0] == owner:
                state.places[position] = ("", "", "")
                state.outbox[position] = replace(state.outbox[position], memory_id="")
        return {name: count for name, count in before.items() if count and name != "memories"}

    def _by_id(self, name: str) -> Record | None:
        return self.state.records.get(self.state.rows.get(name, 0))

    def _anonymous(self, row: int) -> None:
        self.state.last_position += 1
        self._changes += 1
        position = self._position = self.state.last_position
        self.state.outbox[position] = Change(position, row, "", ChangeAction.PURGED, 0, self._time)
        self.state.places[position] = ("", "", "")
        self.state.pending.add(position)


def _stored(state: State, record: Record) -> Stored:
    memory = record.memory
    previous = None if memory.previous_row is None else state.memory(memory.previous_row)
    return Stored(
        memory,
        record.is_unique,
        state.actions[memory.row, memory.revision],
        "" if previous is None else previous.id,
        state.messages[memory.row][1] if memory.row in state.messages else None,
        record.given_vector,
        record.given_model,
        tuple(sorted(record.statements or (), key=lambda statement: statement.topic)),
        tuple(sorted((day, slot, at) for (row, day, slot), at in state.reminders_given.items() if row == memory.row)),
    )
