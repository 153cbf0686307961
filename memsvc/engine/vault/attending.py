"""What attends to the files of a vault: the watcher, the commits, and what deserves somebody's attention."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from memsvc.domain.context import Severity
from memsvc.domain.diagnostics import Notice
from memsvc.domain.scope import Scope
from memsvc.domain.vault import Taken, VaultAction
from memsvc.engine.vault.git import GitCommits
from memsvc.engine.vault.manner import WatchConfig, WatchMode, WatchState
from memsvc.engine.vault.noticing import ChangeImporter
from memsvc.engine.vault.tree import TreeMissingError, scan
from memsvc.engine.vault.troubles import VaultWarnings
from memsvc.engine.vault.watcher import Watcher

_QUIET = frozenset({VaultAction.UNCHANGED, VaultAction.IGNORED})
_NOT_OURS = frozenset({VaultAction.IGNORED, VaultAction.INVALID, VaultAction.READ_ONLY})
"""What nothing was made of stays a person's own, also in Git."""

log = logging.getLogger(__name__)


class VaultMonitor:
    """Hears of everything that happens to the files of a vault, whoever does it."""

    def __init__(self, root: Path, manner: WatchConfig, git: GitCommits | None) -> None:
        """Attend to the files in *root*, once started; commit them to *git*, if there is any."""
        self._root = root
        self._manner = manner
        self._git = git
        self._watcher: Watcher | None = None
        self._troubles = VaultWarnings()

    def start(self, take: Callable[[Iterable[str]], Iterator[Taken]]) -> None:
        """Watch from now on, if that is wanted, and take what changes by *take*."""
        if self._manner.mode is WatchMode.OFF:
            return
        self._watcher = Watcher(self._root, ChangeImporter(take), self._manner)
        try:
            known = scan(self._root).files
        except TreeMissingError:
            known = {}
        self._watcher.start(known)

    def stop(self) -> None:
        """Stop watching."""
        if self._watcher is not None:
            self._watcher.stop()

    def note_own(self, path: str, state: os.stat_result | None) -> None:
        """Note that the service itself puts a file there, or with None that it removed one."""
        if self._watcher is not None and state is not None:
            self._watcher.note_own(path, state)
        if self._git is not None:
            self._git.note([path])

    def note_taken(self, taken: Taken) -> None:
        """Note what came of a file that was taken."""
        if self._troubles.note(taken):
            log.warning("%s of the vault, line %d: %s", taken.path, taken.line, taken.detail)
        elif taken.action not in _QUIET:
            log.info("%s of the vault: %s", taken.path, taken.action.value.lower())
        if self._git is not None and taken.action not in _NOT_OURS:
            self._git.note([taken.path])

    def notices_of(self, scope: Scope) -> list[Notice]:
        """Return what the user of *scope* should know."""
        return self._troubles.of(scope)

    def notices(self) -> list[Notice]:
        """Return what an operator should know."""
        found = self._troubles.count()
        state = WatchState.STOPPED if self._watcher is None else self._watcher.state
        if state is WatchState.MISSING:
            found.append(Notice("VAULT_MISSING", "The vault's folder is not there; nothing is taken until it is back."))
        if state is WatchState.POLLING and self._manner.mode is WatchMode.EVENTS:
            message = "The file system tells no events, so the vault is looked over every few seconds."
            found.append(Notice("VAULT_POLLED", message, Severity.INFO))
        if self._git is not None and self._git.trouble:
            message = f"{self._git.waiting} files of the vault wait to be committed to Git: {self._git.trouble}."
            found.append(Notice("VAULT_COMMITS_WAIT", message, Severity.INFO))
        return found
