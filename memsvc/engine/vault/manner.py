"""How a vault is watched, what the watcher says of itself, and who takes what it notices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

SWEEP_SECONDS = 60.0
"""How often the whole tree is looked over for what no event told."""


class WatchMode(StrEnum):
    """How changes of files are noticed."""

    EVENTS = "events"
    """The system tells; what it does not tell is found by looking now and then."""
    POLLING = "polling"
    """By looking again and again, for file systems without events."""
    OFF = "off"
    """Not at all, but on call."""


class WatchState(StrEnum):
    """What a watcher is doing."""

    STARTING = "STARTING"
    EVENTS = "EVENTS"
    POLLING = "POLLING"
    MISSING = "MISSING"
    """The vault's folder is not there; nothing is taken for deleted."""
    STOPPED = "STOPPED"


class ChangeHandler(Protocol):
    """Takes what happened to files into the store. Both must be repeatable: a path may come again without a change.

    Raises:
        BackendUnavailableError: The store cannot be reached now; the paths are handed over again later.
        TreeMissingError: The folder is not the vault's; nothing is handed over until it is.
        BackendClosedError: The service stops.
    """

    def present(self, paths: Sequence[str]) -> None:
        """Take these files, which are there and may be new, changed, moved, or as they were."""
        ...

    def gone(self, paths: Sequence[str]) -> None:
        """Take it that these files are not there any more; what moved elsewhere was handed to `present` before."""
        ...


@dataclass(frozen=True, slots=True)
class WatchConfig:
    """How to watch.

    Attributes:
        debounce_seconds: How long a file must be quiet before it is taken.
        poll_seconds: How often to look where there are no events.
        sweep_seconds: How often to look where there are.
    """

    mode: WatchMode = WatchMode.EVENTS
    debounce_seconds: float = 1.0
    poll_seconds: float = 2.0
    sweep_seconds: float = SWEEP_SECONDS
