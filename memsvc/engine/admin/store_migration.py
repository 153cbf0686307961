"""Moving the store to other backends while it is used. Indexes are derived, and follow the store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from enum import StrEnum

from memsvc.domain.errors import MoveRunningError
from memsvc.engine.runtime.search_priority import SEARCH_PRIORITY
from memsvc.ports.metadata import MetadataStore
from memsvc.ports.operations import Changes, MovePhase, MoveProgress, MoveTarget


class MoveAction(StrEnum):
    """What is to be done about a move."""

    RUN = "RUN"
    CHECK = "CHECK"
    ABORT = "ABORT"
    UNDO = "UNDO"


class Migration:
    """Moves the store, one move at a time."""

    def __init__(self, store: MetadataStore, settle: Callable[[], None]) -> None:
        """Move *store*; *settle* writes what is held back, such as the counts of reads."""
        self._store = store
        self._settle = settle
        self._running = threading.Lock()

    def run(
        self, target: MoveTarget, action: MoveAction, changes: Changes = Changes.KEEP
    ) -> Generator[MoveProgress, None, None]:
        """Do it and tell how far it is. *changes* are those that an undoing would lose.

        When the iteration ends early, nothing is lost, and another run goes on where this one was.

        Raises:
            MoveRunningError: It is being moved.
            MoveRefusedError: It cannot be moved like this; the message says what to do.
            BackendUnavailableError: One of the two sides went away.
            CapabilityMissingError: The store cannot be moved.
        """
        if not self._running.acquire(blocking=False):
            raise MoveRunningError
        try:
            yield from self._steps(target, action, changes)
        finally:
            self._running.release()

    def _steps(self, target: MoveTarget, action: MoveAction, changes: Changes) -> Generator[MoveProgress, None, None]:
        moves = self._store.moves
        if action is MoveAction.CHECK:
            yield moves.check(target)
        elif action is MoveAction.ABORT:
            yield moves.abort(target)
        elif action is MoveAction.UNDO:
            yield moves.undo(target, changes=changes)
        else:
            for step in moves.run(target, settle=self._settle):
                yield step
                if step.phase is not MovePhase.SEALED:
                    SEARCH_PRIORITY.yield_to_searches()
