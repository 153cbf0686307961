"""What watchers of memories are told."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from memsvc.domain.index_entries import Change
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Scope
from memsvc.domain.search import Selection


class Effect(StrEnum):
    """What a change does to what a watcher sees."""

    ENTERED = "ENTERED"
    """The memory was not among those watched before."""
    STAYED = "STAYED"
    """It was, and is still."""
    LEFT = "LEFT"
    """It is no longer, or by now it was removed for good."""


class Start(StrEnum):
    """Where a watch without a cursor begins."""

    NOW = "NOW"
    OLDEST = "OLDEST"


@dataclass(frozen=True, slots=True)
class Watch:
    """Which changes to tell: those of memories that *scope* sees and *selection* picks."""

    scope: Scope
    selection: Selection


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One change as it is told. *memory* is as of the change; None when it left."""

    change: Change
    effect: Effect
    memory: Memory | None


@dataclass(frozen=True, slots=True)
class WatchBatch:
    """The next part of a watch.

    Attributes:
        position: Every change up to it was looked at.
        is_all: Whether there was nothing more when it was read.
    """

    told: tuple[WatchEvent, ...]
    position: int
    is_all: bool
