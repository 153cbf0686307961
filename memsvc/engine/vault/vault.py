"""The vault facade of the engine, its monitor and the warnings about its files."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from memsvc.domain.context import NoticeSeverity
from memsvc.domain.diagnostics import HealthWarning
from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.scope import Scope
from memsvc.domain.vault import FileResult, VaultAction
from memsvc.domain.vault_layout import USERS, user_folder
from memsvc.engine.vault.file_status import TreeMissingError, scan, scope_of
from memsvc.engine.vault.filesystem import UNWRITABLE, VaultGoneError, digest_of
from memsvc.engine.vault.git import GitCommits
from memsvc.engine.vault.note_export import NoteExporter
from memsvc.engine.vault.note_import import MergeStrategy, NoteImporter, VaultContext, ignore_result
from memsvc.engine.vault.outbox_follower import OutboxFollower, VaultWorker
from memsvc.engine.vault.sync import SyncEvent, SyncPlan, VaultSync, forget_user
from memsvc.engine.vault.transcripts import Transcripts
from memsvc.engine.vault.watcher import ChangeImporter, WatchConfig, Watcher, WatchMode, WatchState
from memsvc.ports.change_feed import IndexFeed

_QUIET = frozenset({VaultAction.UNCHANGED, VaultAction.IGNORED})
_NOT_OURS = frozenset({VaultAction.IGNORED, VaultAction.INVALID, VaultAction.READ_ONLY})
"""Actions of files that were not imported: those are left to the user, also in Git."""
MAX_TRACKED_FILES = 1_000
"""Maximum number of files with recorded warnings."""
MAX_NAMED_FILES = 10
"""Maximum number of files named per user."""
_MILD = NoticeSeverity.INFO
"""An invalid file of one user does not make the service unhealthy."""
_HASH_CHARS = 12
"""Characters of the SHA-256 digest of a path in the log."""
_GONE = "is missing or was replaced by another one, so files of the user may remain: mount it and call again"
_CODES = {VaultAction.INVALID: "VAULT_FILE_INVALID", VaultAction.CONFLICT: "VAULT_CONFLICT"}
_ADVICE = {
    VaultAction.INVALID: "It was left unchanged; correct it, and it is imported.",
    VaultAction.CONFLICT: "Both versions are kept, also as revisions; merge what you need and remove the other file.",
}


@dataclass(frozen=True, slots=True)
class VaultComponents:
    """The components of a vault."""

    context: VaultContext
    importer: NoteImporter
    follower: OutboxFollower
    sync: VaultSync


class Vault:
    """A two-way mapping between memories and files. Thread-safe."""

    def __init__(self, parts: VaultComponents) -> None:
        """Use *parts*; no background work runs before `start`."""
        self._parts = parts
        self._thread = VaultWorker(parts.follower, self._begin)

    @property
    def context(self) -> VaultContext:
        """Return the context of the vault."""
        return self._parts.context

    def start(self) -> None:
        """Start a thread that synchronises, then follows the store."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread; pending work is done after the next start."""
        self._thread.stop()

    def nudge(self) -> None:
        """Signal that there are new changes; return at once."""
        self._thread.nudge()

    def sync(self, plan: SyncPlan) -> Generator[SyncEvent, None, None]:
        """Synchronise: see `VaultSync.run`.

        Raises:
            BackendUnavailableError: The vault does not exist, or the store cannot be reached.
        """
        try:
            yield from self._parts.sync.run(plan)
        except OSError as error:
            raise BackendUnavailableError("vault") from error

    def take(self, paths: Iterable[str]) -> Iterator[FileResult]:
        """Import files: see `NoteImporter.take_all`."""
        return self._parts.importer.take_all(paths)

    def follow(self) -> None:
        """Write everything committed so far and repeat what failed, in this thread, without `start`."""
        while self._parts.follower.step() is not None:
            pass
        self._parts.follower.retry()

    def forget(self, owner: str) -> None:
        """Remove all files of a user.

        Raises:
            BackendUnavailableError: The files cannot be removed, or the vault is not there; no other part of the vault
                was changed.
        """
        try:
            forget_user(self._parts.context, scope_of(owner, ""))
        except VaultGoneError as error:
            raise BackendUnavailableError("vault", problem=_GONE) from error
        except OSError as error:
            raise BackendUnavailableError("vault") from error

    def behind(self) -> int:
        """Return the number of changes that are not written yet."""
        return self._parts.follower.behind()

    def _begin(self, is_stopping: Callable[[], bool]) -> None:
        for _ in self._parts.sync.run(SyncPlan()):
            if is_stopping():
                return


def create_vault(
    context: VaultContext,
    feed: IndexFeed,
    merge: MergeStrategy,
    on_result: Callable[[FileResult], None] = ignore_result,
) -> Vault:
    """Build a vault; *on_result* gets the result of each imported file, and of each that cannot be written."""
    importer = NoteImporter(context, merge, on_result)
    exporter, transcripts = NoteExporter(context, importer, on_result), Transcripts(context, on_result)
    follower = OutboxFollower(context, feed, exporter, transcripts)
    return Vault(
        VaultComponents(context, importer, follower, VaultSync(context, feed, importer, exporter, transcripts))
    )


# Monitoring of the vault's files.


log = logging.getLogger(__name__)


class VaultMonitor:
    """A monitor of the changes to a vault's files, by the service and by others."""

    def __init__(self, root: Path, config: WatchConfig, git: GitCommits | None) -> None:
        """Monitor the files in *root* once started; commit them to *git* unless it is None."""
        self._root = root
        self._config = config
        self._git = git
        self._watcher: Watcher | None = None
        self._warnings = VaultWarnings(lambda path: os.path.lexists(root / path))

    def start(self, take: Callable[[Iterable[str]], Iterator[FileResult]]) -> None:
        """Start the watcher unless the mode is OFF; import changed files with *take*."""
        if self._config.mode is WatchMode.OFF:
            return
        self._watcher = Watcher(self._root, ChangeImporter(take), self._config)
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
        """Record that the service itself writes a file; with *state* None, that it removed one."""
        if self._watcher is not None and state is not None:
            self._watcher.note_own(path, state)
        if self._git is not None:
            self._git.note([path])

    def note_taken(self, taken: FileResult) -> None:
        """Record the result of an imported file."""
        if self._warnings.note(taken):
            log.warning("%s, line %d: %s", _logged_name(taken), taken.line, _logged_reason(taken))
        elif taken.action not in _QUIET:
            log.info("%s: %s", _logged_name(taken), taken.action.value.lower())
        if self._git is not None and taken.action not in _NOT_OURS:
            self._git.note([taken.path])

    def notices_of(self, scope: Scope) -> list[HealthWarning]:
        """Return the notices for the user of *scope*."""
        return self._warnings.of(scope)

    def notices(self) -> list[HealthWarning]:
        """Return the notices for an operator."""
        found = self._warnings.count()
        state = WatchState.STOPPED if self._watcher is None else self._watcher.state
        if state is WatchState.MISSING:
            found.append(
                HealthWarning(
                    "VAULT_MISSING",
                    "The vault's folder is missing or holds another vault; no file is imported until it is back. "
                    "A synchronisation, or a restart, begins with the vault that is there.",
                )
            )
        if state is WatchState.POLLING and self._config.mode is WatchMode.EVENTS:
            message = "The file system reports no events, so the vault is polled every few seconds."
            found.append(HealthWarning("VAULT_POLLED", message, NoticeSeverity.INFO))
        if self._git is not None and self._git.trouble:
            message = (
                f"{self._git.waiting_count} files of the vault are waiting to be committed to Git: {self._git.trouble}."
            )
            found.append(HealthWarning("VAULT_COMMITS_WAIT", message, NoticeSeverity.INFO))
        return found


# Warnings about the vault's files.


def _logged_name(taken: FileResult) -> str:
    """Return a name of a file for the log without its path: names of notes and folders are made of titles and keys."""
    if taken.memory_id:
        return f"note of memory {taken.memory_id}"
    parts = taken.path.split("/")
    owner = "/".join(parts[: parts.index(USERS) + 2]) if USERS in parts[:-2] else "."
    return f"file {digest_of(taken.path.encode())[:_HASH_CHARS]} in {owner}"


def _logged_reason(taken: FileResult) -> str:
    """Return what is wrong with a file, without what the file says; `GetStats` of its user returns all."""
    return taken.detail if taken.detail.startswith(UNWRITABLE) else f"{taken.action.value.lower()}, see GetStats"


class VaultWarnings:
    """The files whose last import failed or was in conflict.

    A warning ends with the next import that succeeds, that of a conflict also with the removal of the kept version.
    """

    def __init__(self, exists: Callable[[str], bool]) -> None:
        """Start with no warnings; *exists* returns whether there is a file at a path of the vault."""
        self._exists = exists
        self._lock = threading.Lock()
        self._results: dict[str, FileResult] = {}

    def note(self, taken: FileResult) -> bool:
        """Record the result of a file, and return whether it is a new warning."""
        with self._lock:
            known = self._results.get(taken.path)
            if known is not None and known.action is VaultAction.CONFLICT and taken.action is VaultAction.UNCHANGED:
                # An unchanged file does not resolve its conflict.
                return False
            self._results.pop(taken.path, None)
            if taken.action not in _CODES or not taken.detail:
                return False
            if len(self._results) < MAX_TRACKED_FILES:
                self._results[taken.path] = taken
            return known != taken

    def of(self, scope: Scope) -> list[HealthWarning]:
        """Return the warnings about the files of the user of *scope*, by path; no other user's files are named."""
        folder = f"{user_folder(scope)}/"
        own = sorted((taken for taken in self._current() if taken.path.startswith(folder)), key=_path)
        found = [HealthWarning(_CODES[one.action], _sentence(one)) for one in own[:MAX_NAMED_FILES]]
        if len(own) > MAX_NAMED_FILES:
            found.append(
                HealthWarning(
                    "VAULT_FILE_INVALID", f"{len(own) - MAX_NAMED_FILES} more files of the vault have warnings."
                )
            )
        return found

    def count(self) -> list[HealthWarning]:
        """Return the number of files with warnings over all users, without naming any."""
        actions = [taken.action for taken in self._current()]
        return [
            HealthWarning(code, f"{count} files of the vault have warnings; GetStats of their users names them.", _MILD)
            for action, code in _CODES.items()
            if (count := actions.count(action))
        ]

    def _current(self) -> list[FileResult]:
        """Return the warnings, after dropping conflicts whose kept versions were removed."""
        with self._lock:
            kept = [taken for taken in self._results.values() if taken.kept_path]
        settled = [taken for taken in kept if not self._exists(taken.kept_path)]
        with self._lock:
            for taken in settled:
                if self._results.get(taken.path) == taken:
                    del self._results[taken.path]
            return list(self._results.values())


def _path(taken: FileResult) -> str:
    return taken.path


def _sentence(taken: FileResult) -> str:
    where = f"{taken.path}, line {taken.line}" if taken.line else taken.path
    advice = "" if taken.detail.startswith(UNWRITABLE) else f" {_ADVICE[taken.action]}"
    return f"{where}: {taken.detail}{advice}"
