"""Events of a watch of memories."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from memsvc.domain.index_entries import Change
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Scope
from memsvc.domain.search import Selection


class Effect(StrEnum):
    """Effect of a change for a watcher."""

    ENTERED = "ENTERED"
    """The memory was not among those watched before."""
    STAYED = "STAYED"
    """It was, and is still."""
    LEFT = "LEFT"
    """It is no longer, or by now it was removed for good."""


class Start(StrEnum):
    """Start of a watch without a cursor."""

    NOW = "NOW"
    OLDEST = "OLDEST"


@dataclass(frozen=True, slots=True)
class Watch:
    """Changes that a watch streams: those of memories that *scope* sees and *selection* matches."""

    scope: Scope
    selection: Selection


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One change event. *memory* is as of the change; None when it left."""

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

    events: tuple[WatchEvent, ...]
    position: int
    is_all: bool
