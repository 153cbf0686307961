"""Online migration of the store to other backends. Indexes are derived, and follow the store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from enum import StrEnum

from memsvc.domain.errors import MoveRunningError, StoreMovedError
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.ports.metadata import MetadataStore
from memsvc.ports.operations import MoveChanges, MovePhase, MoveProgress, MoveTarget


class MoveAction(StrEnum):
    """The action on a migration."""

    RUN = "RUN"
    CHECK = "CHECK"
    ABORT = "ABORT"
    UNDO = "UNDO"


class StoreLocation:
    """Ping of the store that also looks whether its data were moved elsewhere while the service runs."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.move_notice = ""
        """Where the data are since the last ping, and what to do; empty when they are here."""

    def ping(self) -> None:
        """Ping the store.

        Raises:
            BackendUnavailableError: It does not answer.
        """
        self._store.ping()
        try:
            self._store.moves.require_here()
        except StoreMovedError as error:
            self.move_notice = error.message
        else:
            self.move_notice = ""


class StoreMigration:
    """The migration of the store, one at a time."""

    def __init__(self, store: MetadataStore, settle: Callable[[], None], search_priority: SearchPriority) -> None:
        """Migrate *store*; *settle* flushes pending writes, such as access counts."""
        self._store = store
        self._settle = settle
        self._search_priority = search_priority
        self._running = threading.Lock()

    def run(
        self, target: MoveTarget, action: MoveAction, changes: MoveChanges = MoveChanges.KEEP
    ) -> Generator[MoveProgress, None, None]:
        """Run the action and yield its progress. *changes* are the changes that an undo would lose.

        When the iteration ends early, nothing is lost, and another run resumes.

        Raises:
            MoveRunningError: A migration is running.
            MoveRefusedError: The action is not possible now; the message says what to do.
            BackendUnavailableError: The source or the target cannot be reached.
            CapabilityMissingError: The store does not support migration.
        """
        if not self._running.acquire(blocking=False):
            raise MoveRunningError
        try:
            yield from self._steps(target, action, changes)
        finally:
            self._running.release()

    def _steps(
        self, target: MoveTarget, action: MoveAction, changes: MoveChanges
    ) -> Generator[MoveProgress, None, None]:
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
                    self._search_priority.yield_to_searches()
