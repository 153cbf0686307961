"""The vault as the rest of the engine knows it."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from memsvc.domain.context import Severity
from memsvc.domain.diagnostics import Notice
from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.scope import Scope
from memsvc.domain.vault import Taken, VaultAction
from memsvc.domain.vault_layout import user_folder
from memsvc.engine.vault.file_status import TreeMissingError, scan, scope_of
from memsvc.engine.vault.git import GitCommits
from memsvc.engine.vault.note_export import NoteExporter
from memsvc.engine.vault.note_import import Merge, NoteImporter, VaultContext
from memsvc.engine.vault.outbox_follower import OutboxFollower, VaultWorker
from memsvc.engine.vault.sync import Event, Sync, SyncPlan, forget_user
from memsvc.engine.vault.transcripts import Transcripts
from memsvc.engine.vault.watcher import ChangeImporter, WatchConfig, Watcher, WatchMode, WatchState
from memsvc.ports.change_feed import IndexFeed


@dataclass(frozen=True, slots=True)
class Parts:
    """What a vault is made of."""

    desk: VaultContext
    taking: NoteImporter
    following: OutboxFollower
    sync: Sync


class Vault:
    """Memories as files, both ways. Safe to use from several threads."""

    def __init__(self, parts: Parts) -> None:
        """Work by *parts*; nothing happens by itself until `start`."""
        self._parts = parts
        self._thread = VaultWorker(parts.following, self._begin)

    @property
    def desk(self) -> VaultContext:
        """Return what the vault works with."""
        return self._parts.desk

    def start(self) -> None:
        """Synchronise, then follow the store, in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread; what is left is done after the next start."""
        self._thread.stop()

    def nudge(self) -> None:
        """Say that there are new changes; returns at once."""
        self._thread.nudge()

    def sync(self, plan: SyncPlan) -> Generator[Event, None, None]:
        """Synchronise: see `Sync.run`.

        Raises:
            BackendUnavailableError: The vault is not there, or the store cannot be reached.
        """
        try:
            yield from self._parts.sync.run(plan)
        except OSError as error:
            raise BackendUnavailableError("vault") from error

    def take(self, paths: Iterable[str]) -> Iterator[Taken]:
        """Take files back: see `NoteImporter.take_all`."""
        return self._parts.taking.take_all(paths)

    def follow(self) -> None:
        """Write all that is committed by now, in this thread; for those who run without `start`."""
        while self._parts.following.step() is not None:
            pass

    def forget(self, owner: str) -> None:
        """Remove all files of a user.

        Raises:
            BackendUnavailableError: They cannot be removed; nothing else of the vault was changed.
        """
        try:
            forget_user(self._parts.desk, scope_of(owner, ""))
        except OSError as error:
            raise BackendUnavailableError("vault") from error

    def behind(self) -> int:
        """Return how many changes are still to be written."""
        return self._parts.following.behind()

    def _begin(self, is_stopping: Callable[[], bool]) -> None:
        for _ in self._parts.sync.run(SyncPlan()):
            if is_stopping():
                return


def _untold(taken: Taken) -> None:
    del taken


def assembled(desk: VaultContext, feed: IndexFeed, merge: Merge, told: Callable[[Taken], None] = _untold) -> Vault:
    """Make a vault; *told* hears what came of each file that was taken back."""
    taking = NoteImporter(desk, merge, told)
    showing, transcripts = NoteExporter(desk, taking), Transcripts(desk)
    following = OutboxFollower(desk, feed, showing, transcripts)
    return Vault(Parts(desk, taking, following, Sync(desk, feed, taking, showing, transcripts)))


# What attends to the files of a vault: the watcher, the commits, and what deserves somebody's attention.


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


# What of a vault's files deserves somebody's attention.


KEPT = 1_000
"""Files whose troubles are remembered."""
NAMED = 10
"""Files of one user that are named."""

_MILD = Severity.INFO
"""A file that somebody misspelt does not make the service sick."""
_CODES = {VaultAction.INVALID: "VAULT_FILE_INVALID", VaultAction.CONFLICT: "VAULT_CONFLICT"}
_ADVICE = {
    VaultAction.INVALID: "It was left alone; mend it, and it is taken.",
    VaultAction.CONFLICT: "Both are kept, as revisions too; put together what you need and remove the other file.",
}


class VaultWarnings:
    """The files that could not be taken, or were in conflict, until they are taken without."""

    def __init__(self) -> None:
        """Know of none."""
        self._lock = threading.Lock()
        self._found: dict[str, Taken] = {}

    def note(self, taken: Taken) -> bool:
        """Note what came of a file, and return whether that is a trouble that was not known."""
        with self._lock:
            known = self._found.get(taken.path)
            if known is not None and known.action is VaultAction.CONFLICT and taken.action is VaultAction.UNCHANGED:
                # That nothing happened since does not settle it.
                return False
            self._found.pop(taken.path, None)
            if taken.action not in _CODES or not taken.detail:
                return False
            if len(self._found) < KEPT:
                self._found[taken.path] = taken
            return known != taken

    def of(self, scope: Scope) -> list[Notice]:
        """Return what about the files of the user of *scope* deserves attention, by path; nobody else's are named."""
        folder = f"{user_folder(scope)}/"
        with self._lock:
            own = sorted((taken for path, taken in self._found.items() if path.startswith(folder)), key=_path)
        found = [Notice(_CODES[one.action], _sentence(one)) for one in own[:NAMED]]
        if len(own) > NAMED:
            found.append(Notice("VAULT_FILE_INVALID", f"{len(own) - NAMED} more files of the vault need a look."))
        return found

    def count(self) -> list[Notice]:
        """Return how many files of everybody deserve attention, without naming any."""
        with self._lock:
            actions = [taken.action for taken in self._found.values()]
        return [
            Notice(
                code, f"{count} files of the vault need a look; the log and GetStats of their users name them.", _MILD
            )
            for action, code in _CODES.items()
            if (count := actions.count(action))
        ]


def _path(taken: Taken) -> str:
    return taken.path


def _sentence(taken: Taken) -> str:
    where = f"{taken.path}, line {taken.line}" if taken.line else taken.path
    return f"{where}: {taken.detail} {_ADVICE[taken.action]}"
