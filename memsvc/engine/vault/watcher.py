"""The watcher: one thread that notices what people and programs do to the files of a vault."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path

from memsvc.domain.errors import BackendClosedError, BackendUnavailableError
from memsvc.engine.vault.ears import EventDeliveryCheck
from memsvc.engine.vault.events import Told, told
from memsvc.engine.vault.manner import ChangeHandler, WatchConfig, WatchMode, WatchState
from memsvc.engine.vault.settling import Debouncer
from memsvc.engine.vault.tree import Mark, Snapshot, TreeEntry, TreeMissingError, mark_of, scan, tree_differences

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
