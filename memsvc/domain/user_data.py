"""All that is kept of one user, as it is carried from store to store."""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from memsvc.domain.conflicts import Fact
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import Memory
from memsvc.domain.reminders import Acknowledged
from memsvc.domain.sessions import MessageRecord

FORMAT = "memsvc-user"
VERSION = 1
"""Raised when a reader of the version before would misread what is written."""
_CHANCE_BITS = 62
_CHANCE = (1 << _CHANCE_BITS) - 1


class RecordKind(StrEnum):
    """Kind of a record of an exported user."""

    SESSION = "session"
    MEMORY = "memory"
    REVISION = "revision"
    CONFLICT = "conflict"
    CHECKPOINT = "checkpoint"
    TOMBSTONE = "tombstone"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class StoredMemory:
    """A memory with all stored data that cannot be derived from it.

    Attributes:
        is_unique: Whether it claims its content.
        action: How its present revision came about.
        previous_id: The id of the memory before it in its session, when that is still there.
        message: Its place in a session's messages; None when it is no message. Its row does not count.
        given_vector: As in `memsvc.ports.metadata.Record`; likewise *given_model*.
        statements: What it states, by topic. They follow from the content, but at a price.
        acknowledged: When its reminder was given, by day and slot.
    """

    memory: Memory
    is_unique: bool
    action: ChangeAction
    previous_id: str = ""
    message: MessageRecord | None = None
    given_vector: bytes = b""
    given_model: str = ""
    statements: tuple[Fact, ...] = ()
    acknowledged: tuple[Acknowledged, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredRevision:
    """A memory as of an earlier revision, and how that came about."""

    memory: Memory
    action: ChangeAction


class ImportIssueReason(StrEnum):
    """Why a record of an import was not stored, or not all of it."""

    DIFFERS = "DIFFERS"
    """What the record names is here already and is not the same; it was left as it is."""
    KEY_TAKEN = "KEY_TAKEN"
    """Another memory of the project has the key."""
    CONTENT_TAKEN = "CONTENT_TAKEN"
    """Another memory of the project and kind has the content."""
    SESSION_MISSING = "SESSION_MISSING"
    """The session that a message belongs to is not here, or its place is taken: it is stored as a plain memory."""
    MEMORY_MISSING = "MEMORY_MISSING"
    """A memory that the record speaks of is not here."""
    SKIPPED = "SKIPPED"
    """The record is of a kind that this version does not know, and says that it may be left out."""


@dataclass(frozen=True, slots=True)
class ImportIssue:
    """Issue with one line of an import.

    Attributes:
        line: Counted from 1.
        id: The id or name in the record.
        in_the_way: The id of what is here instead, when that is something else.
    """

    line: int
    kind: str
    id: str
    trouble: ImportIssueReason
    message: str
    in_the_way: str = ""


@dataclass(frozen=True, slots=True)
class TransferProgress:
    """Progress of an import of a user; the first *lines* lines are durable.

    Attributes:
        stored: Records that were not here before, by kind.
        unchanged: Records that were here already, the same.
        skipped: Records that were left out; *issues* says why.
        total: How many records the file announces.
        issues: Those since the progress before.
    """

    lines: int = 0
    stored: Mapping[RecordKind, int] = field(default_factory=dict)
    unchanged: int = 0
    skipped: int = 0
    total: int = 0
    vectors: int = 0
    position: int = 0
    issues: tuple[ImportIssue, ...] = ()


def derived_id(memory_id: str, owner: str) -> str:
    """Return the id of a memory imported for *owner* whose own id belongs, or may belong, to another owner.

    It is always the same for the same two, is valid, and sorts by the same time: only the random part is another.
    """
    number = UUID(memory_id).int
    digest = hashlib.sha256(f"{owner}\0{memory_id}".encode()).digest()
    chance = int.from_bytes(digest[:8], "big") & _CHANCE
    return str(UUID(int=(number & ~_CHANCE) | chance))


def said_by(stored: StoredMemory) -> StoredMemory:
    """Return *stored* without what differs from store to store, or with every read of the memory."""
    memory = replace(stored.memory, row=0, previous_row=None, access_count=0, access_time=None)
    message = None if stored.message is None else replace(stored.message, row=0)
    return replace(stored, memory=memory, previous_id="", message=message, acknowledged=())


# Erasure of a user, and its receipt.


@dataclass(frozen=True, slots=True)
class Erasure:
    """An erasure of an owner, under way or done.

    Attributes:
        owner_digest: What the owner is known by when the erasure is done.
        owner: Empty when the erasure is done.
        end_time: None while it is under way.
        projects: Where the owner had anything; empty when it is done.
        receipt: What was answered, as JSON; empty while it is under way.
    """

    owner_digest: str
    owner: str
    request_id: str
    begin_time: datetime
    end_time: datetime | None = None
    projects: tuple[str, ...] = ()
    receipt: str = ""


@dataclass(frozen=True, slots=True)
class StoreErasure:
    """Result of an erasure in one store.

    Attributes:
        name: Such as "metadata" or "vectors".
        removed: How much was removed, or would be, by what it is.
        remaining: How much a search of the store still found afterwards; 0 in a dry run.
    """

    name: str
    removed: Mapping[str, int] = field(default_factory=dict)
    remaining: int = 0


@dataclass(frozen=True, slots=True)
class Receipt:
    """Result of an erasure, or of its dry run.

    Attributes:
        is_done: False: a dry run.
        is_clean: Whether every search afterwards found nothing.
        backups: The backups that may still hold the user; they are left alone.
        files_searched: How many files of the data directory were read through for samples of what was removed.
    """

    begin_time: datetime
    end_time: datetime
    is_done: bool
    is_clean: bool
    stores: tuple[StoreErasure, ...]
    backups: tuple[str, ...] = ()
    files_searched: int = 0


def owner_digest(owner: str) -> str:
    """Return what an owner that was erased is known by."""
    return hashlib.sha256(f"erased:{owner}".encode()).hexdigest()


def obfuscate(text: str) -> str:
    """Return *text* in another form, so that a search of the files does not find it in what is noted of an erasure."""
    return b64encode(text.encode()).decode()


def deobfuscate(text: str) -> str:
    """Return what `obfuscate` was given."""
    return b64decode(text).decode()
