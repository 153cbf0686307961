"""Requests to write memories, and their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from memsvc.domain.conflicts import ConflictPolicy, Contradiction
from memsvc.domain.errors import Violation
from memsvc.domain.memory import FileRef, Json, Keyword, Kind, Layer, Memory, Origin, Reminder, Status, Tier

PATCHABLE = frozenset(
    {
        "key", "layer", "kind", "category", "speaker", "title", "content", "summary", "tags", "keywords",
        "related_ids", "file_refs", "importance", "tier", "confidence", "status", "event_time", "expire_time",
        "work_in_progress", "source", "metadata", "ttl", "origin", "trust", "derived_from_ids",
        "valid_from", "valid_to", "reminder",
    }
)  # fmt: skip
"""What an update may change: fields of `Memory`, and ttl, which sets expire_time from the moment of the change."""


@dataclass(frozen=True, slots=True)
class Redaction:
    """Number of secrets of one sort that were replaced in a content."""

    kind: str
    count: int


class WaitFor(StrEnum):
    """Point at which a write is acknowledged: durable, or found by searches."""

    STORED = "STORED"
    INDEXED = "INDEXED"


class OnDuplicate(StrEnum):
    """Action when the same content is already stored."""

    RETURN_EXISTING = "RETURN_EXISTING"
    REJECT = "REJECT"
    KEEP_BOTH = "KEEP_BOTH"


class Outcome(StrEnum):
    """Outcome of a write."""

    CREATED = "CREATED"
    UPDATED = "UPDATED"
    DUPLICATE = "DUPLICATE"


@dataclass(frozen=True, slots=True)
class Draft:
    """A memory as a caller gives it. None means not given: the default holds, or the old value on an upsert.

    Attributes:
        project_id: None means that of the request's scope; likewise agent and session.
        ttl: Time to live from the moment of writing; never together with *expire_time*.
        vector: A given embedding of the content, raw (not centred); only for content of one chunk.
        trust: An upper bound; class and sources of the memory may lower it further.
        status: QUARANTINED withholds the memory for a review; else None.
    """

    content: str
    key: str = ""
    project_id: str | None = None
    agent_id: str | None = None
    session_id: str | None = None
    layer: Layer | None = None
    kind: Kind | None = None
    category: str | None = None
    speaker: str | None = None
    title: str | None = None
    summary: str | None = None
    tags: tuple[str, ...] | None = None
    keywords: tuple[Keyword, ...] | None = None
    related_ids: tuple[str, ...] | None = None
    file_refs: tuple[FileRef, ...] | None = None
    importance: int | None = None
    tier: Tier | None = None
    confidence: float | None = None
    event_time: datetime | None = None
    expire_time: datetime | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    ttl: timedelta | None = None
    work_in_progress: bool | None = None
    source: str | None = None
    metadata: Mapping[str, Json] | None = None
    vector: Sequence[float] | None = None
    origin: Origin | None = None
    trust: float | None = None
    derived_from_ids: tuple[str, ...] | None = None
    status: Status | None = None
    reminder: Reminder | None = None


PatchValue = (
    str | int | float | bool | None | datetime | timedelta | tuple[str, ...] | tuple[Keyword, ...] | tuple[FileRef, ...]
    | Mapping[str, Json] | Layer | Kind | Tier | Status | Origin | Reminder
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Patch:
    """New values for some fields of a memory, by name: all in `PATCHABLE`."""

    values: Mapping[str, PatchValue]
    vector: Sequence[float] | None = None


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options of a write. With an empty request id the write is not idempotent."""

    request_id: str = ""
    on_duplicate: OnDuplicate = OnDuplicate.RETURN_EXISTING
    wait_for: WaitFor = WaitFor.INDEXED
    on_conflict: ConflictPolicy = ConflictPolicy.MARK


@dataclass(frozen=True, slots=True)
class WriteResult:
    """One memory as it was stored, and the outbox position at which indexes know it.

    Attributes:
        conflicts: What it contradicts.
        changes: How many changes the write as a whole made, the last of them at *position*.
        redactions: The secrets that were replaced.
    """

    memory: Memory
    outcome: Outcome
    position: int
    conflicts: tuple[Contradiction, ...] = ()
    changes: int = 1
    redactions: tuple[Redaction, ...] = ()


@dataclass(frozen=True, slots=True)
class RejectedItem:
    """One item of a batch that was not stored, and why: violations are relative to the item."""

    reason: str
    message: str
    violations: tuple[Violation, ...] = ()


@dataclass(frozen=True, slots=True)
class BatchWriteResult:
    """The outcome of every item of a batch, in the order given."""

    results: tuple[WriteResult | RejectedItem, ...]
    position: int


@dataclass(frozen=True, slots=True)
class ImportProgress:
    """Progress of a bulk import; every item below *next_index* is durable."""

    received: int = 0
    created: int = 0
    updated: int = 0
    duplicates: int = 0
    failed: int = 0
    conflicts: int = 0
    next_index: int = 0
    position: int = 0
    redacted: int = 0
    failures: tuple[tuple[int, RejectedItem], ...] = field(default=())
    unstored_keys: tuple[tuple[int, str], ...] = field(default=())
    """Items whose key was not stored, by index, with the id of the memory that has the content."""


@dataclass(frozen=True, slots=True)
class UpsertResult:
    """A memory as a write left or found it, and what it contradicts."""

    memory: Memory
    outcome: Outcome
    conflicts: tuple[Contradiction, ...] = ()
