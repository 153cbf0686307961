"""What the watcher notices is taken into the store."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from memsvc.domain.vault import Taken, VaultAction
from memsvc.engine.vault.folder import VaultGoneError
from memsvc.engine.vault.taking import Taking
from memsvc.engine.vault.tree import TreeMissingError
from memsvc.engine.vault.troubles import VaultTroubles

_QUIET = frozenset({VaultAction.UNCHANGED, VaultAction.IGNORED})

log = logging.getLogger(__name__)


class Noticing:
    """Takes files that changed, writes what came of them to the log, and remembers those that need a look."""

    def __init__(self, taking: Taking, troubles: VaultTroubles, told: Callable[[Taken], None]) -> None:
        """Tell *told*, too, what came of each file; it must return at once and not raise."""
        self._taking = taking
        self._troubles = troubles
        self._told = told

    def present(self, paths: Sequence[str]) -> None:
        """Take these files, which are there.

        Raises:
            TreeMissingError: The folder is not the vault's, so nothing in it means anything.
            BackendUnavailableError: The store cannot be reached now.
        """
        try:
            for taken in self._taking.take_all(paths):
                self._note(taken)
                self._told(taken)
        except VaultGoneError as error:
            raise TreeMissingError(*error.args) from error

    def gone(self, paths: Sequence[str]) -> None:
        """Take it that these files are gone; raise as `present` does."""
        self.present(paths)

    def _note(self, taken: Taken) -> None:
        if self._troubles.note(taken):
            log.warning("%s of the vault, line %d: %s", taken.path, taken.line, taken.detail)
        elif taken.action not in _QUIET:
            log.info("%s of the vault: %s", taken.path, taken.action.value.lower())
