"""Reports of the service about itself: counts, health, consistency and speed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from memsvc.domain.context import NoticeSeverity
from memsvc.domain.memory import FileRef, Status

ORPHAN_GRACE = timedelta(days=7)
"""Default age from which a file without a referring memory counts as an orphan."""


class IndexKind(StrEnum):
    """One of the two derived indexes."""

    VECTORS = "VECTORS"
    LEXICAL = "LEXICAL"


class ReindexMode(StrEnum):
    """Mode of a reindex: build a new generation next to the live one, or repair the live one."""

    REBUILD = "REBUILD"
    REPAIR = "REPAIR"


class ReindexPhase(StrEnum):
    """Phase of a reindex."""

    READING = "READING"
    BUILDING = "BUILDING"
    CATCHING_UP = "CATCHING_UP"
    SWITCHED = "SWITCHED"
    REPAIRED = "REPAIRED"
    DONE = "DONE"


@dataclass(frozen=True, slots=True)
class HealthWarning:
    """A warning for operators: a stable code, and a sentence that says what to do."""

    code: str
    message: str
    severity: NoticeSeverity = NoticeSeverity.WARNING


@dataclass(frozen=True, slots=True)
class MemoryCounts:
    """Counts of memories of one reach, by the names of the enums; deleted ones only under *by_status*.

    Attributes:
        active_by_tier: Those with the status ACTIVE, by tier.
        core_tokens: Tokens of the ACTIVE ones of the layer CORE, one for each four bytes of content.
        session_tokens: The same of the layer SESSION.
    """

    total: int
    by_layer: Mapping[str, int]
    by_kind: Mapping[str, int]
    by_tier: Mapping[str, int]
    by_status: Mapping[str, int]
    active_by_tier: Mapping[str, int]
    content_bytes: int
    core_tokens: int
    session_tokens: int
    chunks: int


@dataclass(frozen=True, slots=True)
class PlacePart:
    """Accepted values of one part of a place.

    Attributes:
        values: The only ones; None: any.
        prefix: The beginning that they must have.
    """

    values: tuple[str, ...] | None = None
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class PlaceUsage:
    """The memories of one place: their number by the name of their status, and the time of their last change.

    Attributes:
        place: The values of owner, project, agent and session, in this order: the first ones, or all four.
    """

    place: tuple[str, ...]
    by_status: Mapping[str, int]
    last_write: datetime

    @property
    def count(self) -> int:
        """Return the number of memories without deleted ones."""
        return sum(count for status, count in self.by_status.items() if status != Status.DELETED.value)


@dataclass(frozen=True, slots=True)
class SessionFill:
    """Usage of a session."""

    session_id: str
    project_id: str
    live_tokens: int
    token_limit: int

    @property
    def usage(self) -> float:
        """Return the share of the limit that is taken."""
        return self.live_tokens / self.token_limit if self.token_limit else 0.0


@dataclass(frozen=True, slots=True)
class Stats:
    """The counts of one reach, and the numbers of its index entries. *sessions* are the fullest ones, fullest first."""

    counts: MemoryCounts
    vector_count: int
    lexical_count: int
    storage_bytes: int
    pending_changes: int
    warnings: tuple[HealthWarning, ...] = ()
    sessions: tuple[SessionFill, ...] = ()


@dataclass(frozen=True, slots=True)
class BackendHealth:
    """One backend's answer to a ping."""

    port: str
    name: str
    healthy: bool
    message: str
    ping_seconds: float


@dataclass(frozen=True, slots=True)
class IndexReport:
    """One index held against the store. The differences are zero where nothing was compared.

    Attributes:
        building: How far the rebuild or repair under way is, if one is; *building_model* is whose vectors it makes.
    """

    index: IndexKind
    generation: int
    position: int
    expected: int
    present: int
    missing: int = 0
    stale: int = 0
    orphaned: int = 0
    model: str = ""
    dimension: int = 0
    hnsw: bool = False
    building: ReindexProgress | None = None
    building_model: str = ""


@dataclass(frozen=True, slots=True)
class SlowOperation:
    """One of the slowest operations since the start."""

    operation: str
    seconds: float
    time: datetime
    layer: str = "edge"


@dataclass(frozen=True, slots=True)
class OutboxState:
    """Lag of the indexes behind the store: positions, and the number of pending changes."""

    head_position: int
    applied_position: int
    pending: int


@dataclass(frozen=True, slots=True)
class TokenState:
    """The token vectors of passages.

    Attributes:
        model: The name of the token vectors; empty if the embedder gives none.
        passages: The number of passages with tokens.
        is_backfilling: Whether memories without tokens are looked for, or get theirs.
        backfilled: The number of memories that got tokens since the start.
    """

    model: str
    passages: int
    is_backfilling: bool
    backfilled: int


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Health of the service. Without the store it says nothing of indexes and outbox."""

    healthy: bool
    backends: tuple[BackendHealth, ...]
    indexes: tuple[IndexReport, ...]
    outbox: OutboxState | None
    slowest: tuple[SlowOperation, ...]
    warnings: tuple[HealthWarning, ...]
    tokens: TokenState | None


@dataclass(frozen=True, slots=True)
class ReindexProgress:
    """One step of a reindex; *done* and *total* count memories of the phase."""

    phase: ReindexPhase
    index: IndexKind
    done: int
    total: int
    generation: int
    message: str = ""


@dataclass(frozen=True, slots=True)
class Percentiles:
    """The durations of one thing, in seconds, over the most recent calls."""

    count: int
    errors: int
    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    max: float


@dataclass(frozen=True, slots=True)
class OperationPerformance:
    """One operation at one layer, with its stages."""

    operation: str
    layer: str
    durations: Percentiles
    stages: tuple[tuple[str, Percentiles], ...] = ()


# Integrity: faults of stored data, and the report of a check.


class Fault(StrEnum):
    """A finding of an integrity check."""

    LINK = "LINK"
    CONTENT = "CONTENT"
    CHUNKS = "CHUNKS"
    KEYWORDS = "KEYWORDS"
    CONFLICT = "CONFLICT"
    MESSAGE = "MESSAGE"
    SESSION = "SESSION"
    REMAINS = "REMAINS"
    INDEX_MISSING = "INDEX_MISSING"
    INDEX_STALE = "INDEX_STALE"
    INDEX_ORPHANED = "INDEX_ORPHANED"
    FILE_REF = "FILE_REF"
    FILE_ORPHANED = "FILE_ORPHANED"
    FILE_CONTENT = "FILE_CONTENT"
    AMOUNTS = "AMOUNTS"


class CheckPart(StrEnum):
    """Rows that depend on a memory and that may remain after it is removed."""

    CHUNKS = "chunks"
    TOKENS = "token vectors"
    KEYWORDS = "keywords"
    TAGS = "tags"
    METADATA = "metadata"
    REFS = "references to files"
    VECTORS = "vectors"
    STATEMENTS = "statements"
    REVISIONS = "revisions"


REMEDIES: Mapping[Fault, str] = {
    Fault.LINK: "The link is taken away, in a new revision.",
    Fault.CONTENT: "The content stays unchanged; a new revision has the correct hash.",
    Fault.CHUNKS: "A new revision has new chunks.",
    Fault.KEYWORDS: "They are written again.",
    Fault.CONFLICT: "The conflict is removed.",
    Fault.MESSAGE: "It is removed from the order of messages; a content that is there stays as a memory.",
    Fault.SESSION: "None: right when the messages were removed for good; else close the session.",
    Fault.REMAINS: "They are removed.",
    Fault.INDEX_MISSING: "The entries are written.",
    Fault.INDEX_STALE: "The entries are written again.",
    Fault.INDEX_ORPHANED: "The entries are removed.",
    Fault.FILE_REF: "With remove_broken_refs it is taken from file_refs; one in the content is for you to change.",
    Fault.FILE_ORPHANED: "With remove_orphan_files it is removed for good.",
    Fault.FILE_CONTENT: "None: upload the same bytes once more.",
    Fault.AMOUNTS: "They are corrected.",
}
"""What a repair does about each."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault. The ids are empty if it concerns no memory or no owner."""

    fault: Fault
    detail: str
    memory_id: str = ""
    user_id: str = ""
    project_id: str = ""
    is_repaired: bool = False
    file_ref: FileRef | None = None


@dataclass(frozen=True, slots=True)
class FileCleanup:
    """Action of a check on files and file references; the default only reports.

    Attributes:
        grace: For how long a file may be without a memory that refers to it.
        is_off: Whether they are left aside.
    """

    removes_broken_refs: bool = False
    removes_orphan_files: bool = False
    grace: timedelta = ORPHAN_GRACE
    is_off: bool = False


@dataclass(frozen=True, slots=True)
class CheckProgress:
    """Progress of a check in one of its parts."""

    part: str
    checked: int


@dataclass(frozen=True, slots=True)
class CheckSummary:
    """The end of a check: *unchecked* says what could not be looked at, and why."""

    memories: int
    findings: int
    repaired: int
    by_fault: Mapping[str, int]
    unchecked: tuple[str, ...] = ()
