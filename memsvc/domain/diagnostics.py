"""What the service says of itself: counts, health, consistency and speed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from memsvc.domain.context import Severity


class IndexKind(StrEnum):
    """One of the two derived indexes."""

    VECTORS = "VECTORS"
    LEXICAL = "LEXICAL"


class ReindexMode(StrEnum):
    """Whether an index is built anew beside the live one, or only mended."""

    REBUILD = "REBUILD"
    REPAIR = "REPAIR"


class ReindexPhase(StrEnum):
    """What a reindex is at."""

    READING = "READING"
    BUILDING = "BUILDING"
    CATCHING_UP = "CATCHING_UP"
    SWITCHED = "SWITCHED"
    REPAIRED = "REPAIRED"
    DONE = "DONE"


@dataclass(frozen=True, slots=True)
class Notice:
    """Something an operator should know: a stable code, and a sentence that says what to do."""

    code: str
    message: str
    severity: Severity = Severity.WARNING


@dataclass(frozen=True, slots=True)
class MemoryCounts:
    """How many memories one reach holds, by the names of the enums; deleted ones only under *by_status*."""

    total: int
    by_layer: Mapping[str, int]
    by_kind: Mapping[str, int]
    by_tier: Mapping[str, int]
    by_status: Mapping[str, int]
    content_bytes: int
    core_tokens: int
    session_tokens: int
    chunks: int


@dataclass(frozen=True, slots=True)
class SessionFill:
    """How full a session is."""

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
    """The counts of one reach, and what lies in the indexes for it. *sessions* are the fullest ones, fullest first."""

    counts: MemoryCounts
    vector_count: int
    lexical_count: int
    storage_bytes: int
    pending_changes: int
    warnings: tuple[Notice, ...] = ()
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
    """How far the indexes follow the store: positions, and how many changes wait."""

    head_position: int
    applied_position: int
    pending: int


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Whether all is well, and if not, what is not. There is no word of indexes and outbox without the store."""

    healthy: bool
    backends: tuple[BackendHealth, ...]
    indexes: tuple[IndexReport, ...]
    outbox: OutboxState | None
    slowest: tuple[SlowOperation, ...]
    warnings: tuple[Notice, ...]


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
