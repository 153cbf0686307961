"""What the dict-based metadata store holds: one value, copied by every transaction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date, datetime

from memsvc.domain.api_keys import ApiKey
from memsvc.domain.conflicts import Conflict
from memsvc.domain.files import File
from memsvc.domain.filter_evaluation import matches, memory_matches
from memsvc.domain.filters import Filter
from memsvc.domain.history import Checkpoint, Tombstone
from memsvc.domain.index_entries import Attributes, Change, ChangeAction, Chunk, Document
from memsvc.domain.memory import UNINDEXED, UNNAMED, Memory, Slot, Status
from memsvc.domain.scope import Reach
from memsvc.domain.sessions import MessageRecord, Session
from memsvc.domain.user_data import Erasure
from memsvc.domain.vault import Entry
from memsvc.ports.features import VaultState
from memsvc.ports.metadata import ContentName, Record, RequestRecord

Name = tuple[str, str, str] | tuple[str, ContentName]
"""What only one memory may have: owner, project and key, or owner and content."""

Place = tuple[str, str, str]
"""Owner, project and private session of a change."""


@dataclass(slots=True)
class State:
    """All that is stored. Values are never changed in place, so that a copy of the dicts is a copy of the state."""

    records: dict[int, Record] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    names: dict[Name, int] = field(default_factory=dict)
    revisions: dict[tuple[int, int], Memory] = field(default_factory=dict)
    outbox: dict[int, Change] = field(default_factory=dict)
    places: dict[int, Place] = field(default_factory=dict)
    pending: set[int] = field(default_factory=set)
    requests: dict[tuple[str, str, str], tuple[RequestRecord, int]] = field(default_factory=dict)
    conflicts: dict[str, Conflict] = field(default_factory=dict)
    embeddings: dict[tuple[str, bytes], bytes] = field(default_factory=dict)
    sessions: dict[int, Session] = field(default_factory=dict)
    messages: dict[int, tuple[int, MessageRecord]] = field(default_factory=dict)
    """Messages by the row of their memory, with the row of their session."""
    checkpoints: dict[tuple[str, str, str], Checkpoint] = field(default_factory=dict)
    tombstones: list[tuple[str, Tombstone]] = field(default_factory=list)
    actions: dict[tuple[int, int], ChangeAction] = field(default_factory=dict)
    reminders_given: dict[tuple[int, date, Slot], datetime] = field(default_factory=dict)
    leases: dict[str, tuple[str, datetime, datetime | None]] = field(default_factory=dict)
    """Leases by name: the holder, until when, and when the work ended last."""
    erasures: dict[str, Erasure] = field(default_factory=dict)
    api_keys: dict[str, ApiKey] = field(default_factory=dict)
    files: dict[int, File] = field(default_factory=dict)
    vault_files: dict[str, Entry] = field(default_factory=dict)
    """By path key."""
    vault: VaultState | None = None
    last_row: int = 0
    last_position: int = 0

    def copy(self) -> State:
        """Return a state that can be changed without this one."""
        return replace(
            self,
            records=dict(self.records),
            rows=dict(self.rows),
            names=dict(self.names),
            revisions=dict(self.revisions),
            outbox=dict(self.outbox),
            places=dict(self.places),
            pending=set(self.pending),
            requests=dict(self.requests),
            conflicts=dict(self.conflicts),
            embeddings=dict(self.embeddings),
            sessions=dict(self.sessions),
            messages=dict(self.messages),
            checkpoints=dict(self.checkpoints),
            tombstones=list(self.tombstones),
            actions=dict(self.actions),
            reminders_given=dict(self.reminders_given),
            leases=dict(self.leases),
            erasures=dict(self.erasures),
            api_keys=dict(self.api_keys),
            files=dict(self.files),
            vault_files=dict(self.vault_files),
        )

    def memory(self, row: int) -> Memory | None:
        """Return the memory with this row."""
        record = self.records.get(row)
        return None if record is None else record.memory

    def memories(self, reach: Reach) -> Iterator[Memory]:
        """Return the memories of *reach*, of any status, by row."""
        for row in sorted(self.records):
            memory = self.records[row].memory
            if is_within(reach, memory):
                yield memory

    def live(self) -> list[Record]:
        """Return the records of all owners that are not deleted, by row."""
        return [self.records[row] for row in sorted(self.records) if is_live(self.records[row].memory)]

    def indexed(self) -> list[Record]:
        """Return the records of all owners that the indexes should hold, by row."""
        return [self.records[row] for row in sorted(self.records) if is_indexed(self.records[row].memory)]

    def document(self, record: Record) -> Document:
        """Return a record for indexing."""
        memory = record.memory
        before = None if memory.previous_row is None else self.memory(memory.previous_row)
        return Document(
            memory=memory,
            chunks=record.chunks if len(record.chunks) > 1 else (_sole_chunk(memory),),
            previous=before if before is not None and is_indexed(before) else None,
            given_vector=record.given_vector,
            given_model=record.given_model,
        )


def is_live(memory: Memory) -> bool:
    """Return whether a memory is not deleted."""
    return memory.status is not Status.DELETED


def is_indexed(memory: Memory) -> bool:
    """Return whether the indexes should hold a memory."""
    return memory.status not in UNINDEXED


def is_named(memory: Memory) -> bool:
    """Return whether a memory may hold its key and content."""
    return memory.status not in UNNAMED


def is_within(reach: Reach, memory: Memory) -> bool:
    """Return whether a memory lies in *reach*."""
    return memory.scope.owner == reach.owner and memory.scope.project_id in reach.project_ids


def is_match(where: Filter | None, memory: Memory) -> bool:
    """Return whether a memory matches, in the fields too that only a store knows."""
    return memory_matches(where, memory)


def _sole_chunk(memory: Memory) -> Chunk:
    lines = memory.content.count("\n") + 1
    return Chunk(ordinal=0, text=memory.content, heading_path=(), start_line=1, end_line=lines)


# The reach as Python: is it met?


__all__ = ["matches", "within"]


def within(reach: Reach, attributes: Attributes) -> bool:
    """Return whether *attributes* lie in *reach*."""
    return attributes.owner == reach.owner and attributes.project_id in reach.project_ids
