"""The watcher: one thread that notices what people and programs do to the files of a vault."""

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
from memsvc.domain.vault import Taken, is_memory_path, is_watched_folder
from memsvc.engine.vault.file_status import Mark, Snapshot, TreeEntry, TreeMissingError, mark_of, scan, tree_differences
from memsvc.engine.vault.filesystem import VaultGoneError

BATCH = 50
"""Files taken between two looks at whether to stop, and between which other writes have their turn."""
SWEEP_SHARE = 20
"""Looking over the tree again and again takes at most this fraction of the time."""
DEAF = 2
"""So many sweeps must find what no event told until the watcher looks for itself."""
CROWD = 1_000
"""After so many events at once some may have been lost: the tree is looked over soon."""
PATIENCE = 5.0
"""A file that is gone is waited for so many times the quiet time at most while others change."""
ATTEMPTS = 3
"""How often a file is tried that a fault of ours keeps from being taken; then again when it changes."""
RETRY_SECONDS = (1.0, 2.0, 5.0, 15.0, 60.0)

log = logging.getLogger(__name__)


class Watcher:
    """Hands every file of a vault that changed to a taker, once it is quiet; deletions last, so that moves are none.

    An event is only a hint: what counts is how the files lie there when they are quiet. So nothing is missed when
    events are lost, and a file that comes back in time was never gone.
    """

    def __init__(
        self, root: Path, taker: ChangeHandler, manner: WatchConfig, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Watch *root* in this *manner*, by *clock*, which never goes back."""
        self._root = root.resolve()
        self._taker = taker
        self._manner = manner
        self._clock = clock
        self._mode = manner.mode
        self._settling = Debouncer(manner.debounce_seconds)
        self._known: dict[str, Mark] = {}
        self._home: tuple[int, int] | None = None
        self._gone: dict[str, float] = {}
        self._own: dict[str, Mark] = {}
        self._is_told_missing = False
        self._faults: Counter[str] = Counter()
        self._failures = 0
        self._retry_at = 0.0
        self._ears = EventDeliveryCheck()
        self._sweep_at = 0.0
        self._stopping = threading.Event()
        self._ready = threading.Event()
        self._state = WatchState.STARTING
        self._thread = threading.Thread(target=self._run, name="vault-watcher", daemon=True)

    def start(self, known: Snapshot) -> None:
        """Start watching for what differs from *known*, how the files lay when the store last agreed with them."""
        self._known = dict(known)
        self._home = _identity(self._root)
        self._thread.start()

    def stop(self) -> None:
        """Stop between two files. What was not taken differs from the store still and is found at the next start."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._state = WatchState.STOPPED

    @property
    def state(self) -> WatchState:
        """Return what the watcher is doing."""
        return self._state

    @property
    def waiting(self) -> int:
        """Return how many files changed and are not yet taken."""
        return len(self._settling) + len(self._gone)

    def note_own(self, path: str, written: os.stat_result) -> None:
        """Note that the service itself is about to put this file there, so that it is not handed over as a change.

        To be called by any thread, with what the system says of the file before it gets its name.
        """
        self._own[path] = Mark.of(written)

    def wait_ready(self, seconds: float) -> bool:
        """Wait until every later change will be noticed, at most so long, and return whether it is so."""
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
                log.warning("the system tells no events of the vault (%s): looking every few seconds instead", error)
                self._mode = WatchMode.POLLING
            except Exception:
                log.exception("watching the vault failed and is begun again")
                self._stopping.wait(RETRY_SECONDS[0])

    def _listen(self) -> None:
        """Follow events until folders come or go, which other folders are to be watched after."""
        folders = self._look().folders
        with closing(told(self._root, folders, self._stopping)) as stream:
            first = next(stream, Told())
            self._sweep()
            self._set(WatchState.EVENTS)
            for happened in chain([first], stream):
                now = self._clock()
                self._settling.note(happened.files, now)
                self._ears.hear(happened.files)
                self._settle()
                if happened.folders_changed or _identity(self._root) != self._home:
                    return
                if len(happened.files) >= CROWD:
                    self._sweep_at = min(self._sweep_at, now + self._manner.debounce_seconds)
                if self._is_deaf(now):
                    return

    def _is_deaf(self, now: float) -> bool:
        if now >= self._sweep_at:
            self._ears.expect(self._sweep(), now)
        if self._ears.missed(now) < DEAF:
            return False
        log.warning("the system does not tell all that happens to the vault: looking every few seconds instead")
        self._mode = WatchMode.POLLING
        return True

    def _poll(self) -> None:
        """Look again and again; a tree that takes long to look at, less often."""
        self._set(WatchState.POLLING)
        while not self._stopping.is_set():
            before = self._clock()
            self._sweep()
            took = self._clock() - before
            again = before + max(self._manner.poll_seconds, SWEEP_SHARE * took)
            self._ready.set()
            while not self._stopping.is_set() and (now := self._clock()) < again:
                due = self._settling.next_time()
                self._stopping.wait(max(0.0, min(again, due if due is not None else again) - now))
                self._settle()

    def _set(self, state: WatchState) -> None:
        self._state = state
        if state is WatchState.EVENTS:
            self._ready.set()

    def _miss(self) -> None:
        if not self._is_told_missing:
            log.warning("the vault's folder is not there: nothing is taken from it until it is back")
        self._is_told_missing = True
        self._state = WatchState.MISSING
        self._stopping.wait(self._manner.poll_seconds)

    def _look(self) -> TreeEntry:
        """Look at the tree.

        Raises:
            TreeMissingError: The folder is not there, or an empty one is in its place: its volume is not mounted.
        """
        home = _identity(self._root)
        seen = scan(self._root)
        if self._home not in {None, home} and self._known and not seen.files:
            raise TreeMissingError
        self._home = home
        return seen

    def _sweep(self) -> set[str]:
        """Note every file that lies there otherwise than known, and return those that were not noted before."""
        before = self._clock()
        changed = {path for path in tree_differences(self._known, self._look().files) if path not in self._settling}
        changed -= self._gone.keys()
        now = self._clock()
        self._settling.note(changed, now)
        self._sweep_at = now + max(self._manner.sweep_seconds, SWEEP_SHARE * (now - before))
        return changed

    def _settle(self) -> None:
        """Hand over what is quiet by now."""
        now = self._clock()
        if now < self._retry_at:
            return
        present: list[str] = []
        for path in self._settling.take(now):
            mark = mark_of(self._root, path)
            if mark is None:
                self._gone.setdefault(path, now)
            else:
                self._gone.pop(path, None)
                self._known[path] = mark
                own = self._own.pop(path, None)
                if own is None or not mark.is_content_of(own):
                    present.append(path)
        for batch in _batches(present):
            self._hand(self._taker.present, batch)
        self._bury(now)

    def _bury(self, now: float) -> None:
        """Hand over what is gone once nothing else changes, or after a while all the same."""
        patience = PATIENCE * self._manner.debounce_seconds
        if not self._gone or (len(self._settling) and now - min(self._gone.values()) < patience):
            return
        if not self._root.is_dir():
            raise TreeMissingError
        gone = sorted(self._gone)
        self._gone.clear()
        back = [path for path in gone if mark_of(self._root, path) is not None]
        self._settling.note(back, now)
        for path in gone:
            self._known.pop(path, None)
        for batch in _batches([path for path in gone if path not in self._settling]):
            self._hand(self._taker.gone, batch)

    def _hand(self, take: Callable[[Sequence[str]], None], paths: Sequence[str]) -> None:
        if self._stopping.is_set():
            return
        now = self._clock()
        try:
            take(paths)
            self._failures = 0
            self._is_told_missing = False
            for path in paths if self._faults else ():
                self._faults.pop(path, None)
        except BackendClosedError:
            raise
        except TreeMissingError:
            self._settling.note(paths, now)
            raise
        except BackendUnavailableError as error:
            log.warning("files of the vault could not be taken and will be again: %s", error)
            self._retry(paths, now)
        except Exception:
            log.exception("of %d files of the vault one could not be taken, the first is %s", len(paths), paths[0])
            self._part(take, paths)

    def _part(self, take: Callable[[Sequence[str]], None], paths: Sequence[str]) -> None:
        """Find out which of some files cannot be taken by a fault of ours, so that it does not hold up the others."""
        if len(paths) > 1:
            for path in paths:
                self._hand(take, [path])
            return
        [path] = paths
        self._faults[path] += 1
        if self._faults[path] < ATTEMPTS:
            self._settling.note(paths, self._clock())

    def _retry(self, paths: Sequence[str], now: float) -> None:
        wait = RETRY_SECONDS[min(self._failures, len(RETRY_SECONDS) - 1)]
        self._failures += 1
        self._retry_at = now + wait
        self._settling.note(paths, now)


def _identity(root: Path) -> tuple[int, int] | None:
    try:
        found = root.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _batches(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    return (paths[start : start + BATCH] for start in range(0, len(paths), BATCH))


# What the file system tells of a vault's folders.


TICK_MILLISECONDS = 50
"""How long to wait for events before the watcher looks at its clock."""
STEP_MILLISECONDS = 20
GROUP_MILLISECONDS = 100


@dataclass(frozen=True, slots=True)
class Told:
    """What happened since the last time: files that changed, and whether folders came or went."""

    files: frozenset[str] = frozenset()
    folders_changed: bool = False


def told(root: Path, folders: Sequence[str], stopping: threading.Event) -> Generator[Told]:
    """Tell what happens right in *folders* of *root*, and nothing several times a second, until *stopping* is set.

    The first answer comes once everything that happens from then on is told. Folders are watched one by one and not
    recursively, since a recursive watch follows symbolic links, and one to `/` would watch the machine.

    Raises:
        FileNotFoundError: One of the folders is not there any more.
        OSError: The system gives no events, or no more of them.
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
        yield _sorted_out(root, known, {path for _, path in changes})


def _sorted_out(root: Path, folders: set[str], paths: set[str]) -> Told:
    relative = {"" if path == str(root) else os.path.relpath(path, root).replace(os.sep, "/") for path in paths}
    files = frozenset(filter(is_memory_path, relative))
    return Told(files, any(_is_folder(root, path, folders) for path in relative))


def _is_folder(root: Path, path: str, known: set[str]) -> bool:
    """Return whether *path* is a folder that came, or one that may have gone."""
    place = root / path
    is_there = place.is_dir() and not place.is_symlink()
    return is_watched_folder(path) and is_there is not (path in known)


# Whether the file system tells what happens.


JUDGE_SECONDS = 2.0
"""How long after a sweep an event for what it found may still come."""


class EventDeliveryCheck:
    """Notices whether events come: what a sweep finds must have been told, before or shortly after."""

    def __init__(self) -> None:
        """Suspect nothing yet."""
        self._suspects: set[str] = set()
        self._judge_at: float | None = None
        self._missed = 0

    def expect(self, found: Iterable[str], now: float) -> None:
        """Expect to hear of what a sweep *found*, within a while."""
        self._suspects.update(found)
        if self._suspects and self._judge_at is None:
            self._judge_at = now + JUDGE_SECONDS

    def hear(self, paths: Iterable[str]) -> None:
        """Take note of what was told."""
        self._suspects.difference_update(paths)

    def missed(self, now: float) -> int:
        """Return how often by *now* something was found that no event told."""
        if self._judge_at is not None and now >= self._judge_at:
            self._missed += bool(self._suspects)
            self._suspects.clear()
            self._judge_at = None
        return self._missed


# What the watcher notices is taken into the store.


class ChangeImporter:
    """Takes files that changed."""

    def __init__(self, take: Callable[[Iterable[str]], Iterator[Taken]]) -> None:
        """Take files by *take*: see `Taking.take_all`."""
        self._take = take

    def present(self, paths: Sequence[str]) -> None:
        """Take these files, which are there.

        Raises:
            TreeMissingError: The folder is not the vault's, so nothing in it means anything.
            BackendUnavailableError: The store cannot be reached now.
        """
        try:
            for _ in self._take(paths):
                pass
        except VaultGoneError as error:
            raise TreeMissingError(*error.args) from error

    def gone(self, paths: Sequence[str]) -> None:
        """Take it that these files are gone; raise as `present` does."""
        self.present(paths)


# How a vault is watched, what the watcher says of itself, and who takes what it notices.


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


# Settling: a path that changed is looked at once it has been quiet for a while.


LONGEST = 5.0
"""A path that never is quiet is looked at after so many times the quiet time all the same."""


@dataclass(slots=True)
class _Noted:
    first: float
    last: float


class Debouncer:
    """Collects paths that change and gives each back once nothing more happened to it for some seconds.

    So a file that an editor removes and writes anew, or writes in pieces, is looked at once, when it is whole. It has
    no clock of its own: every call says what time it is, by a clock that never goes back. Not for several threads.
    """

    def __init__(self, seconds: float) -> None:
        """Give paths back after *seconds* of quiet."""
        self._seconds = seconds
        self._noted: dict[str, _Noted] = {}

    def __len__(self) -> int:
        """Return how many paths have not been given back."""
        return len(self._noted)

    def __contains__(self, path: object) -> bool:
        """Return whether *path* waits to be given back."""
        return path in self._noted

    def note(self, paths: Iterable[str], at: float) -> None:
        """Note that something happened to *paths*."""
        for path in paths:
            known = self._noted.get(path)
            if known is None:
                self._noted[path] = _Noted(at, at)
            else:
                known.last = at

    def take(self, at: float) -> list[str]:
        """Return the paths that are quiet by now, in order of their names, and forget them."""
        due = [path for path, noted in self._noted.items() if self._due(noted) <= at]
        for path in due:
            del self._noted[path]
        return sorted(due)

    def next_time(self) -> float | None:
        """Return when the next path will be quiet, or None when none waits."""
        return min(map(self._due, self._noted.values()), default=None)

    def _due(self, noted: _Noted) -> float:
        return min(noted.last, noted.first + (LONGEST - 1) * self._seconds) + self._seconds
