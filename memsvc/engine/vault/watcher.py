"""A thread that detects changes of a vault's files made outside the service."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Protocol

import watchfiles

from memsvc.domain.errors import BackendClosedError, BackendUnavailableError
from memsvc.domain.vault import FileResult
from memsvc.domain.vault_layout import is_memory_path, is_watched_folder
from memsvc.engine.vault.file_status import (
    FileStamp,
    Snapshot,
    TreeMissingError,
    TreeScan,
    file_stamp,
    scan,
    tree_differences,
)
from memsvc.engine.vault.filesystem import VaultGoneError, reason_of, without_message

BATCH = 50
"""Files imported per batch; between batches the watcher checks for a stop, and other writers get the lock."""
SWEEP_SHARE = 20
"""Minimum ratio of the sweep interval to the duration of a sweep."""
MAX_MISSED_SWEEPS = 2
"""Number of sweeps with changes that no event reported before the watcher falls back to polling."""
EVENT_BURST = 1_000
"""Number of simultaneous events after which some may have been lost: the tree is swept soon."""
MAX_REMOVAL_DELAY_FACTOR = 5.0
"""Maximum delay of a removal while other files change, as a multiple of the debounce time."""
ATTEMPTS = 3
"""Attempts to import a file that fails with an internal error; after that only when it changes."""
RETRY_SECONDS = (1.0, 2.0, 5.0, 15.0, 60.0)

log = logging.getLogger(__name__)
TICK_MILLISECONDS = 50
"""Maximum wait for events before the watcher checks its clock."""
STEP_MILLISECONDS = 20
GROUP_MILLISECONDS = 100
JUDGE_SECONDS = 2.0
"""Time after a sweep in which an event for a change that it found may still arrive."""
SWEEP_SECONDS = 60.0
"""Interval of sweeps of the whole tree for changes without events."""
MAX_DELAY_FACTOR = 5.0
"""Maximum delay of a path that keeps changing, as a multiple of the debounce time."""


class Watcher:
    """A watcher that passes debounced changes of files to a handler; removals last, so that a move is not a deletion.

    An event is only a hint: the state of the files after the debounce time decides. So lost events lose no change, and
    a file that reappears in time does not count as removed.
    """

    def __init__(
        self, root: Path, handler: ChangeHandler, config: WatchConfig, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Watch *root* as configured by *config*, with the monotonic *clock*."""
        self._root = root.resolve()
        self._handler = handler
        self._config = config
        self._clock = clock
        self._mode = config.mode
        self._debouncer = Debouncer(config.debounce_seconds)
        self._known: dict[str, FileStamp] = {}
        self._home: tuple[int, int] | None = None
        self._removed: dict[str, float] = {}
        self._own: dict[str, FileStamp] = {}
        self._is_missing_logged = False
        self._faults: Counter[str] = Counter()
        self._failures = 0
        self._retry_at = 0.0
        self._event_check = EventDeliveryCheck()
        self._sweep_at = 0.0
        self._stopping = threading.Event()
        self._ready = threading.Event()
        self._state = WatchState.STARTING
        self._thread = threading.Thread(target=self._run, name="vault-watcher", daemon=True)

    def start(self, known: Snapshot) -> None:
        """Start watching for differences from *known*, the last state of the files that agreed with the store."""
        self._known = dict(known)
        self._home = _identity(self._root)
        self._thread.start()

    def stop(self) -> None:
        """Stop between two files. Pending changes still differ from the store and are found at the next start."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._state = WatchState.STOPPED

    @property
    def state(self) -> WatchState:
        """Return the state of the watcher."""
        return self._state

    @property
    def waiting_count(self) -> int:
        """Return the number of changed files that are not handed over yet."""
        return len(self._debouncer) + len(self._removed)

    def note_own(self, path: str, written: os.stat_result) -> None:
        """Record that the service itself is about to write this file, so that it is not handed over as a change.

        Thread-safe. *written* is the stat result of the file before it gets its name.
        """
        self._own[path] = FileStamp.of(written)

    def wait_ready(self, seconds: float) -> bool:
        """Wait at most *seconds* until every later change is detected; return whether that is the case."""
        return self._ready.wait(seconds)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                if self._mode is WatchMode.EVENTS:
                    self._listen()
                else:
                    self._poll()
            except TreeMissingError:
                self._miss()
            except FileNotFoundError:
                log.debug("a folder of the vault vanished; looking again")
            except BackendClosedError:
                return
            except OSError as error:
                log.warning("no file events for the vault (%s): polling every few seconds instead", reason_of(error))
                self._mode = WatchMode.POLLING
            except Exception as error:  # noqa: BLE001 - logged
                log.error("watching the vault failed; restarting: %s", without_message(error))  # noqa: TRY400
                self._stopping.wait(RETRY_SECONDS[0])

    def _listen(self) -> None:
        """Follow events until folders are added or removed, which changes the set of watched folders."""
        folders = self._look().folders
        with closing(file_events(self._root, folders, self._stopping)) as stream:
            first = next(stream, FileEvents())
            self._sweep()
            self._set(WatchState.EVENTS)
            for happened in chain([first], stream):
                now = self._clock()
                self._debouncer.note(happened.files, now)
                self._event_check.hear(happened.files)
                self._settle()
                if happened.folders_changed or _identity(self._root) != self._home:
                    return
                if len(happened.files) >= EVENT_BURST:
                    self._sweep_at = min(self._sweep_at, now + self._config.debounce_seconds)
                if self._is_deaf(now):
                    return

    def _is_deaf(self, now: float) -> bool:
        if now >= self._sweep_at:
            self._event_check.expect(self._sweep(), now)
        if self._event_check.missed_checks(now) < MAX_MISSED_SWEEPS:
            return False
        log.warning("the system does not report all file events of the vault: polling every few seconds instead")
        self._mode = WatchMode.POLLING
        return True

    def _poll(self) -> None:
        """Sweep the tree periodically; the interval grows with the duration of a sweep."""
        self._set(WatchState.POLLING)
        while not self._stopping.is_set():
            before = self._clock()
            self._sweep()
            took = self._clock() - before
            again = before + max(self._config.poll_seconds, SWEEP_SHARE * took)
            self._ready.set()
            while not self._stopping.is_set() and (now := self._clock()) < again:
                due = self._debouncer.next_time()
                self._stopping.wait(max(0.0, min(again, due if due is not None else again) - now))
                self._settle()

    def _set(self, state: WatchState) -> None:
        self._state = state
        if state is WatchState.EVENTS:
            self._ready.set()

    def _miss(self) -> None:
        if not self._is_missing_logged:
            log.warning("the vault's folder is missing: no files are imported until it is back")
        self._is_missing_logged = True
        self._state = WatchState.MISSING
        self._stopping.wait(self._config.poll_seconds)

    def _look(self) -> TreeScan:
        """Scan the tree.

        Raises:
            TreeMissingError: The folder is missing, or an empty one replaces it: its volume is not mounted.
        """
        home = _identity(self._root)
        seen = scan(self._root)
        if self._home not in {None, home} and self._known and not seen.files:
            raise TreeMissingError
        self._home = home
        return seen

    def _sweep(self) -> set[str]:
        """Record every file that differs from the known state, and return those that were not recorded before."""
        before = self._clock()
        changed = {path for path in tree_differences(self._known, self._look().files) if path not in self._debouncer}
        changed -= self._removed.keys()
        now = self._clock()
        self._debouncer.note(changed, now)
        self._sweep_at = now + max(self._config.sweep_seconds, SWEEP_SHARE * (now - before))
        return changed

    def _settle(self) -> None:
        """Hand over the files whose debounce time has passed."""
        now = self._clock()
        if now < self._retry_at:
            return
        present: list[str] = []
        for path in self._debouncer.take(now):
            stamp = file_stamp(self._root, path)
            if stamp is None:
                self._removed.setdefault(path, now)
            else:
                self._removed.pop(path, None)
                self._known[path] = stamp
                own = self._own.pop(path, None)
                if own is None or not stamp.is_content_of(own):
                    present.append(path)
        for batch in _batches(present):
            self._hand(self._handler.present, batch)
        self._hand_removed(now)

    def _hand_removed(self, now: float) -> None:
        """Hand over removed files once no other file changes, or after the maximum delay."""
        patience = MAX_REMOVAL_DELAY_FACTOR * self._config.debounce_seconds
        if not self._removed or (len(self._debouncer) and now - min(self._removed.values()) < patience):
            return
        if not self._root.is_dir():
            raise TreeMissingError
        gone = sorted(self._removed)
        self._removed.clear()
        back = [path for path in gone if file_stamp(self._root, path) is not None]
        self._debouncer.note(back, now)
        for path in gone:
            self._known.pop(path, None)
        for batch in _batches([path for path in gone if path not in self._debouncer]):
            self._hand(self._handler.gone, batch)

    def _hand(self, take: Callable[[Sequence[str]], None], paths: Sequence[str]) -> None:
        if self._stopping.is_set():
            return
        now = self._clock()
        try:
            take(paths)
            self._failures = 0
            self._is_missing_logged = False
            for path in paths if self._faults else ():
                self._faults.pop(path, None)
        except BackendClosedError:
            raise
        except TreeMissingError:
            self._debouncer.note(paths, now)
            raise
        except BackendUnavailableError as error:
            log.warning("files of the vault could not be imported and will be retried: %s", error)
            self._retry(paths, now)
        except Exception as error:  # noqa: BLE001 - logged
            reason = without_message(error)
            log.error("one of %d files of the vault could not be imported: %s", len(paths), reason)  # noqa: TRY400
            self._part(take, paths)

    def _part(self, take: Callable[[Sequence[str]], None], paths: Sequence[str]) -> None:
        """Retry files one by one, so that an internal error with one file does not delay the others."""
        if len(paths) > 1:
            for path in paths:
                self._hand(take, [path])
            return
        [path] = paths
        self._faults[path] += 1
        if self._faults[path] < ATTEMPTS:
            self._debouncer.note(paths, self._clock())

    def _retry(self, paths: Sequence[str], now: float) -> None:
        wait = RETRY_SECONDS[min(self._failures, len(RETRY_SECONDS) - 1)]
        self._failures += 1
        self._retry_at = now + wait
        self._debouncer.note(paths, now)


def _identity(root: Path) -> tuple[int, int] | None:
    try:
        found = root.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _batches(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    return (paths[start : start + BATCH] for start in range(0, len(paths), BATCH))


# File-system events.


@dataclass(frozen=True, slots=True)
class FileEvents:
    """Changed files since the last batch, and whether folders were added or removed."""

    files: frozenset[str] = frozenset()
    folders_changed: bool = False


def file_events(root: Path, folders: Sequence[str], stopping: threading.Event) -> Generator[FileEvents]:
    """Yield events in *folders* of *root*, or empty ones several times a second, until *stopping* is set.

    The first item is yielded once every later event is captured. Folders are watched one by one and not recursively,
    since a recursive watch follows symbolic links, and one to `/` would watch the machine.

    Raises:
        FileNotFoundError: One of the folders no longer exists.
        OSError: The system delivers no events, or has stopped delivering them.
    """
    known = set(folders)
    for changes in watchfiles.watch(
        *(root / folder for folder in folders),
        watch_filter=None,
        debounce=GROUP_MILLISECONDS,
        step=STEP_MILLISECONDS,
        stop_event=stopping,
        rust_timeout=TICK_MILLISECONDS,
        yield_on_timeout=True,
        raise_interrupt=False,
        force_polling=False,
        recursive=False,
        ignore_permission_denied=True,
    ):
        yield _sort_events(root, known, {path for _, path in changes})


def _sort_events(root: Path, folders: set[str], paths: set[str]) -> FileEvents:
    relative = {"" if path == str(root) else os.path.relpath(path, root).replace(os.sep, "/") for path in paths}
    files = frozenset(filter(is_memory_path, relative))
    return FileEvents(files, any(_is_folder(root, path, folders) for path in relative))


def _is_folder(root: Path, path: str, known: set[str]) -> bool:
    """Return whether *path* is a folder that was added, or one that may have been removed."""
    place = root / path
    is_there = place.is_dir() and not place.is_symlink()
    return is_watched_folder(path) and is_there is not (path in known)


# Detection of missing file-system events.


class EventDeliveryCheck:
    """A check that events are delivered: each change found by a sweep must have an event before or shortly after."""

    def __init__(self) -> None:
        """Start with no missed events."""
        self._suspects: set[str] = set()
        self._judge_at: float | None = None
        self._missed = 0

    def expect(self, found: Iterable[str], now: float) -> None:
        """Expect an event for each path that a sweep *found*, within `JUDGE_SECONDS`."""
        self._suspects.update(found)
        if self._suspects and self._judge_at is None:
            self._judge_at = now + JUDGE_SECONDS

    def hear(self, paths: Iterable[str]) -> None:
        """Record the paths of received events."""
        self._suspects.difference_update(paths)

    def missed_checks(self, now: float) -> int:
        """Return the number of checks up to *now* in which a change had no event."""
        if self._judge_at is not None and now >= self._judge_at:
            self._missed += bool(self._suspects)
            self._suspects.clear()
            self._judge_at = None
        return self._missed


# Import of detected changes.


class ChangeImporter:
    """A change handler that imports files."""

    def __init__(self, take: Callable[[Iterable[str]], Iterator[FileResult]]) -> None:
        """Import files with *take*: see `NoteImporter.take_all`."""
        self._take = take

    def present(self, paths: Sequence[str]) -> None:
        """Import these existing files.

        Raises:
            TreeMissingError: The folder is not the vault's, so its content must not be interpreted.
            BackendUnavailableError: The store cannot be reached now.
        """
        try:
            for _ in self._take(paths):
                pass
        except VaultGoneError as error:
            raise TreeMissingError(*error.args) from error

    def gone(self, paths: Sequence[str]) -> None:
        """Import the removal of these files; raise as `present` does."""
        self.present(paths)


# Configuration and state of the watcher.


class WatchMode(StrEnum):
    """The way in which changes of files are detected."""

    EVENTS = "events"
    """By file-system events, with periodic sweeps for missed ones."""
    POLLING = "polling"
    """By periodic scans, for file systems without events."""
    OFF = "off"
    """No detection; files are imported only by SyncVault and at the next start."""


class WatchState(StrEnum):
    """The state of a watcher."""

    STARTING = "STARTING"
    EVENTS = "EVENTS"
    POLLING = "POLLING"
    MISSING = "MISSING"
    """The vault's folder is missing; no file counts as deleted."""
    STOPPED = "STOPPED"


class ChangeHandler(Protocol):
    """A handler of changed files. Both methods must be idempotent: a path may come again without a change.

    Raises:
        BackendUnavailableError: The store cannot be reached now; the paths are handed over again later.
        TreeMissingError: The folder is not the vault's; nothing is handed over until the vault is back.
        BackendClosedError: The service stops.
    """

    def present(self, paths: Sequence[str]) -> None:
        """Import these existing files, which may be new, changed, moved or unchanged."""
        ...

    def gone(self, paths: Sequence[str]) -> None:
        """Import the removal of these files; moved files were passed to `present` before."""
        ...


@dataclass(frozen=True, slots=True)
class WatchConfig:
    """The configuration of a watcher.

    Attributes:
        debounce_seconds: Time without changes before a file is imported.
        poll_seconds: Scan interval without events.
        sweep_seconds: Scan interval with events.
    """

    mode: WatchMode = WatchMode.EVENTS
    debounce_seconds: float = 1.0
    poll_seconds: float = 2.0
    sweep_seconds: float = SWEEP_SECONDS


# Debouncing.


@dataclass(slots=True)
class _PendingChange:
    first: float
    last: float


class Debouncer:
    """A debouncer that returns each changed path once it has not changed for some seconds.

    So a file that an editor removes and recreates, or writes in pieces, is processed once, when it is complete. Every
    call passes the time of a monotonic clock. Not thread-safe.
    """

    def __init__(self, seconds: float) -> None:
        """Return paths after *seconds* without changes."""
        self._seconds = seconds
        self._pending: dict[str, _PendingChange] = {}

    def __len__(self) -> int:
        """Return the number of pending paths."""
        return len(self._pending)

    def __contains__(self, path: object) -> bool:
        """Return whether *path* is pending."""
        return path in self._pending

    def note(self, paths: Iterable[str], at: float) -> None:
        """Record a change of *paths*."""
        for path in paths:
            known = self._pending.get(path)
            if known is None:
                self._pending[path] = _PendingChange(at, at)
            else:
                known.last = at

    def take(self, at: float) -> list[str]:
        """Return and remove the paths that are due, sorted."""
        due = [path for path, noted in self._pending.items() if self._due_time(noted) <= at]
        for path in due:
            del self._pending[path]
        return sorted(due)

    def next_time(self) -> float | None:
        """Return the time at which the next path is due, or None when none is pending."""
        return min(map(self._due_time, self._pending.values()), default=None)

    def _due_time(self, noted: _PendingChange) -> float:
        return min(noted.last, noted.first + (MAX_DELAY_FACTOR - 1) * self._seconds) + self._seconds
