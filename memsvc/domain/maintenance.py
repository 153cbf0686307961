"""Upkeep: what memories need done to them as time goes by, and how far doing it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from memsvc.domain.memory import Memory
from memsvc.domain.scope import Scope


class UpkeepStep(StrEnum):
    """One sort of upkeep. A run takes them in this order."""

    EXPIRE = "EXPIRE"
    PROMOTE = "PROMOTE"
    ARCHIVE = "ARCHIVE"
    COMPACT = "COMPACT"
    CONSOLIDATE = "CONSOLIDATE"
    DETECT_CONFLICTS = "DETECT_CONFLICTS"
    SUMMARIZE = "SUMMARIZE"
    CHECK_REFERENCES = "CHECK_REFERENCES"
    COMPARE_INDEXES = "COMPARE_INDEXES"
    REPLAY_USE = "REPLAY_USE"
    PURGE = "PURGE"


ROUTINE_STEPS = (
    UpkeepStep.EXPIRE,
    UpkeepStep.PROMOTE,
    UpkeepStep.ARCHIVE,
    UpkeepStep.COMPACT,
    UpkeepStep.CONSOLIDATE,
    UpkeepStep.REPLAY_USE,
    UpkeepStep.PURGE,
)
"""The steps of scheduled runs by default."""


class MaintenanceReason(StrEnum):
    """Why a memory is due."""

    EXPIRED = "EXPIRED"
    FINISHED = "FINISHED"
    READ_OFTEN = "READ_OFTEN"
    UNREAD = "UNREAD"
    OVER_LIMIT = "OVER_LIMIT"
    OLD_LOG = "OLD_LOG"
    SIMILAR = "SIMILAR"
    CONTRADICTED = "CONTRADICTED"
    MONTH_ENDED = "MONTH_ENDED"
    REFERENCE_GONE = "REFERENCE_GONE"
    INDEX_DIFFERS = "INDEX_DIFFERS"
    USE_REPORTED = "USE_REPORTED"
    DELETED_LONG_AGO = "DELETED_LONG_AGO"


class MaintenancePlan(StrEnum):
    """Mode of a run: apply what is due, or only report it."""

    PERFORM = "PERFORM"
    DRY_RUN = "DRY_RUN"


@dataclass(frozen=True, slots=True)
class MaintenanceScope:
    """Reach of a run: all owners, one owner, or one project of an owner.

    Attributes:
        owner: `Scope.owner`, or None: all owners.
        project_id: Empty: all projects of the owner and the global memories. Counts only with an owner.
    """

    owner: str | None = None
    project_id: str = ""

    @classmethod
    def of(cls, scope: Scope | None) -> MaintenanceScope:
        """Return the area that a scope names: its project, or all of its user; without a scope all owners."""
        return cls() if scope is None else cls(scope.owner, scope.project_id)

    def holds(self, scope: Scope) -> bool:
        """Return whether the area contains memories of that scope."""
        if self.owner is None:
            return True
        return scope.owner == self.owner and self.project_id in {"", scope.project_id}


EVERYBODY = MaintenanceScope()


@dataclass(frozen=True, slots=True)
class DueChange:
    """One change that a step would make.

    Attributes:
        scope: Where the memory lives.
        row: Of the memory, as the store numbers it.
        member_ids: Of the other memories that the change is about, such as the rest of a group to be merged.
    """

    step: UpkeepStep
    reason: MaintenanceReason
    scope: Scope
    memory_id: str
    row: int
    member_ids: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, step: UpkeepStep, reason: MaintenanceReason, memory: Memory, member_ids: tuple[str, ...] = ()
    ) -> DueChange:
        """Return what is due of *memory*."""
        return cls(step, reason, memory.scope, memory.id, memory.row, member_ids)


@dataclass(frozen=True, slots=True)
class StepTally:
    """Progress of one step of a run.

    Attributes:
        due: Changes that were found to be due.
        changed: Changes that were made; none in a dry run.
        skipped: Changes that were due and could not be made, or were no longer due when their turn came.
        is_complete: Whether nothing more is due. False while the step runs, and when it reached its limit or failed:
            the next run goes on.
        seconds: How long the step has taken.
        failure: Why the step broke off, in English. Empty: it did not.
    """

    due: int = 0
    changed: int = 0
    skipped: int = 0
    is_complete: bool = False
    seconds: float = 0.0
    failure: str = ""


@dataclass(frozen=True, slots=True)
class UpkeepProgress:
    """Progress of a run.

    Attributes:
        step: The step it is at; None in the last progress of a run.
        changes: What was changed since the progress before; in a dry run what would be changed.
        tallies: Of all steps that have begun, in the order in which they run.
        position: An outbox position at or after the last change of the run; 0: it changed nothing.
    """

    step: UpkeepStep | None
    doing: MaintenancePlan
    changes: tuple[DueChange, ...] = ()
    tallies: Mapping[UpkeepStep, StepTally] = field(default_factory=dict)
    position: int = 0
