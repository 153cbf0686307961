"""Two memories that contradict each other, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from memsvc.domain.memory import Memory
from memsvc.domain.statements import Rule


class ConflictPolicy(StrEnum):
    """What a write does with an older memory that it contradicts."""

    MARK = "MARK"
    SUPERSEDE = "SUPERSEDE"
    KEEP_BOTH = "KEEP_BOTH"


class Resolution(StrEnum):
    """How a conflict is settled."""

    CONFIRM = "CONFIRM"
    REJECT = "REJECT"
    KEEP_BOTH = "KEEP_BOTH"


class ConflictState(StrEnum):
    """What became of a conflict."""

    OPEN = "OPEN"
    CONFIRMED = "CONFIRMED"
    REJECTED = "REJECTED"
    KEPT_BOTH = "KEPT_BOTH"
    CLOSED = "CLOSED"


@dataclass(frozen=True, slots=True)
class Conflict:
    """That a newer memory contradicts an older one, both of one owner and project, or the older one global.

    Attributes:
        id: A UUID of version 7: ids sort in the order in which conflicts were found.
        topic: What both speak of.
        older_value: What the older memory says of it; likewise *newer_value*.
        resolve_time: When it ceased to be OPEN.
    """

    id: str
    owner: str
    project_id: str
    older_id: str
    newer_id: str
    rule: Rule
    topic: str
    older_value: str
    newer_value: str
    create_time: datetime
    state: ConflictState = ConflictState.OPEN
    resolve_time: datetime | None = None


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A conflict with its two memories as they are; None is one that is gone, or private to another session."""

    conflict: Conflict
    older: Memory | None
    newer: Memory | None
