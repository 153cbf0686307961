"""Watching: every committed change once, in order, from a place that can be told and come back to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TypeAlias

from memsvc.domain.errors import CursorExpiredError, InvalidRequestError, Violation, WatchTooSlowError
from memsvc.domain.filter_evaluation import memory_matches
from memsvc.domain.index_entries import Change, ChangeAction
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach, SessionVisibility
from memsvc.domain.visibility import visible
from memsvc.domain.watch import Effect, Start, Watch, WatchBatch, WatchEvent
from memsvc.engine.user_data.erasure import erased_position
from memsvc.ports.change_feed import ChangeFeed, ChangePage, IndexFeed, LoggedChange
from memsvc.ports.operations import ErasureReads

PAGE = 256
"""Changes read at a time."""
GROUP = 16
"""Changes whose memories are read at a time."""
PART_CHARACTERS = 1_000_000
"""How much content one part of a watch holds, about: what a watcher who does not read keeps in memory."""

States = Mapping[tuple[int, int], Memory]


class WatchService:
    """Reads changes out of the store, page by page, as far as a watcher wants to read; it holds nothing of its own."""

    def __init__(
        self, changes: ChangeFeed, erased: ErasureBarrier, bell: ChangeNotifier, *, max_lag: int, kept: timedelta
    ) -> None:
        """Read *changes*; watchers may fall *max_lag* behind, and what is older than *kept* may be gone."""
        self._changes = changes
        self._erased = erased
        self._max_lag = max_lag
        self._kept = f"{kept.total_seconds() / 86_400:g} days"
        self.bell = bell

    @property
    def identity(self) -> str:
        """Return the name of the store, which places in its changes belong to."""
        return self._changes.identity

    def begin(self, watch: Watch, *, start: Start, position: int | None) -> Watcher:
        """Return a watcher that goes on after *position*, or without one begins at *start*.

        Raises:
            InvalidRequestError: The position is one that the store has not reached.
            CursorExpiredError: Changes after the position are gone.
        """
        reach = Reach.from_scope(watch.scope, watch.selection.visibility)
        page = self._changes.after(0 if position is None else position, reach=reach, limit=1)
        kept_after = max(page.kept_after, self._erased.before(reach.owner) or 0)
        if position is None:
            position = page.head if start is Start.NOW else kept_after
        elif position > page.head:
            raise InvalidRequestError([Violation("cursor", "is not a place that this store has reached")])
        elif position < kept_after:
            raise CursorExpiredError(self._kept)
        allowed = self._max_lag + self._changes.count(position, reach=reach)
        return Watcher(self._changes, self._erased, watch, position, Limits(allowed, self._max_lag, self._kept))


class Limits:
    """How far behind a watcher may be, counted in changes of its reach."""

    def __init__(self, allowed: int, max_lag: int, kept: str) -> None:
        """Allow *max_lag* beyond what a watcher had still to read when it began, *allowed* in all."""
        self.allowed = allowed
        self._max_lag = max_lag
        self._kept = kept

    def check(self, changes: ChangeFeed, page: ChangePage, position: int, reach: Reach) -> None:
        """Raise when the page after *position* leaves something out, or leaves too much to read.

        Raises:
            CursorExpiredError: Changes after the position are gone.
            WatchTooSlowError: More changes wait than are allowed.
        """
        if position < page.kept_after:
            raise CursorExpiredError(self._kept)
        # The distance is also made of changes of others, so only a great one is worth counting.
        is_far = not page.is_all and page.head - position > self.allowed
        if is_far and changes.count(position, reach=reach) > self.allowed:
            raise WatchTooSlowError(self._max_lag)


class Watcher:
    """One watch at work; to be used by one caller at a time."""

    def __init__(
        self, changes: ChangeFeed, erased: ErasureBarrier, watch: Watch, position: int, limits: Limits
    ) -> None:
        """Go on after *position*; `WatchService.begin` is the way to get one."""
        self._changes = changes
        self._erased = erased
        self._watch = watch
        self._reach = Reach.from_scope(watch.scope, watch.selection.visibility)
        self._limits = limits
        self.position = position

    @property
    def _is_of_all_sessions(self) -> bool:
        return self._watch.selection.sessions is SessionVisibility.ALL

    @property
    def place(self) -> tuple[int, int]:
        """Return what the next part depends on: watchers of the same watch at the same place are told the same."""
        return self.position, self._limits.allowed

    def read(self) -> WatchBatch:
        """Return the next changes to tell, none when there are none; it goes on after them once `position` is moved.

        Raises:
            CursorExpiredError: Changes that come next are gone: the watcher was away, or too slow, for too long, or the
                owner was erased.
            WatchTooSlowError: The watcher has fallen too far behind.
        """
        page = self._changes.after(self.position, reach=self._reach, limit=PAGE)
        # Asked after the page was read, so that none is told, or passed over, that an erasure had begun to empty.
        erased = self._erased.before(self._reach.owner)
        if erased is None:
            return WatchBatch((), self.position, is_all=True)
        page = replace(page, kept_after=max(page.kept_after, erased))
        self._limits.check(self._changes, page, self.position, self._reach)
        told: list[WatchEvent] = []
        size = 0
        for group in _groups(page.changes):
            new = self._told(group)
            told += new
            size += sum(len(one.memory.content) for one in new if one.memory is not None)
            if size >= PART_CHARACTERS and group[-1] is not page.changes[-1]:
                return WatchBatch(tuple(told), group[-1].change.position, is_all=False)
        return WatchBatch(tuple(told), page.position, is_all=page.is_all)

    def _told(self, group: Sequence[LoggedChange]) -> list[WatchEvent]:
        states = self._changes.states(
            (logged.change.row, revision) for logged in group for revision in _revisions(logged.change)
        )
        return [told for logged in group if (told := self._one(logged, states)) is not None]

    def _one(self, logged: LoggedChange, states: States) -> WatchEvent | None:
        """Return what the watcher is told of a change, or None when it is none of its affair."""
        change = logged.change
        after = states.get((change.row, change.revision))
        if after is None or change.action is ChangeAction.PURGED:
            # What was removed for good can no longer be tested; nothing but its id is told.
            is_ours = self._is_of_all_sessions or logged.private_session in {"", self._watch.scope.session_id}
            return WatchEvent(change, Effect.LEFT, None) if is_ours else None
        was_seen = change.action is not ChangeAction.CREATED and self._sees(
            states.get((change.row, change.revision - 1))
        )
        if self._sees(after):
            return WatchEvent(change, Effect.STAYED if was_seen else Effect.ENTERED, after)
        return WatchEvent(change, Effect.LEFT, None) if was_seen else None

    def _sees(self, memory: Memory | None) -> bool:
        return (
            memory is not None
            and visible(memory, self._watch.scope, self._watch.selection.sessions)
            and memory_matches(self._watch.selection.where, memory)
        )


def _revisions(change: Change) -> tuple[int, ...]:
    return (change.revision,) if change.action is ChangeAction.CREATED else (change.revision - 1, change.revision)


def _groups(changes: Sequence[LoggedChange]) -> Iterator[Sequence[LoggedChange]]:
    for first in range(0, len(changes), GROUP):
        yield changes[first : first + GROUP]


# Where erasures cut off what is told of owners: changes before are gone, and no watch passes over that in silence.


class ErasureBarrier:
    """Asks the store for the latest erasure of an owner, as long as that is remembered."""

    def __init__(self, erasures: ErasureReads) -> None:
        """Ask *erasures*."""
        self._erasures = erasures

    def before(self, owner: str) -> int | None:
        """Return the place before which no change of *owner* is kept, 0 without an erasure; None while one runs.

        Raises:
            BackendUnavailableError: The store cannot be reached.
        """
        erasure = self._erasures.find(owner)
        if erasure is None:
            return 0
        return None if erasure.end_time is None else erased_position(erasure.receipt)


# The bell: wakes those who wait for changes of an owner's memories.


Ring: TypeAlias = Callable[[], None]


class ChangeNotifier:
    """Rung after every commit, by the thread that made it. Who does not wait costs nothing."""

    def __init__(self) -> None:
        """Wake nobody yet."""
        self._lock = threading.Lock()
        self._waiting: dict[str, tuple[Ring, ...]] = {}

    @contextmanager
    def heard(self, owner: str, ring: Ring) -> Iterator[None]:
        """Have *ring* called whenever memories of *owner* may have changed; it must return at once and not raise."""
        with self._lock:
            self._waiting[owner] = (*self._waiting.get(owner, ()), ring)
        try:
            yield
        finally:
            with self._lock:
                left = tuple(one for one in self._waiting[owner] if one is not ring)
                if left:
                    self._waiting[owner] = left
                else:
                    del self._waiting[owner]

    def ring(self, owners: AbstractSet[str]) -> None:
        """Wake those who wait for changes of one of *owners*."""
        for owner in owners:
            for ring in self._waiting.get(owner, ()):
                ring()

    def ring_all(self) -> None:
        """Wake everybody: somebody else may have changed something."""
        with self._lock:
            rings = [ring for waiting in self._waiting.values() for ring in waiting]
        for ring in rings:
            ring()


class CommitPoller:
    """Looks for what other processes commit, and wakes everybody then."""

    def __init__(self, feed: IndexFeed, bell: ChangeNotifier) -> None:
        """Ring *bell* when the *feed* has moved since the last look."""
        self._feed = feed
        self._bell = bell
        self._head = -1

    def look(self) -> None:
        """Look once; to be called by one thread.

        Raises:
            BackendUnavailableError: The store cannot be reached; who waits is woken by the next look that succeeds.
        """
        head = self._feed.head()
        if head != self._head:
            self._head = head
            self._bell.ring_all()
