"""Change streams: every committed change exactly once, in commit order, resumable from a cursor."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TypeAlias

from memsvc.domain.errors import CursorExpiredError, InvalidRequestError, Violation, WatchTooSlowError
from memsvc.domain.filter_evaluation import memory_test
from memsvc.domain.index_entries import Change, ChangeAction
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach, SessionVisibility
from memsvc.domain.visibility import visible
from memsvc.domain.watch import Effect, Start, Watch, WatchBatch, WatchEvent
from memsvc.engine.user_data.erasure import erased_position
from memsvc.ports.change_feed import ChangeFeed, ChangePage, IndexFeed, LoggedChange
from memsvc.ports.operations import ErasureReads

PAGE = 256
"""Changes per read."""
GROUP = 16
"""Changes whose memories are read together."""
PART_CHARACTERS = 1_000_000
"""Approximate content of one batch: the memory held for a watcher that does not read."""

States = Mapping[tuple[int, int], Memory]


class WatchService:
    """A stateless reader of changes, page by page, at the pace of a watcher."""

    def __init__(
        self, changes: ChangeFeed, erased: ErasureBarrier, bell: ChangeNotifier, *, max_lag: int, kept: timedelta
    ) -> None:
        """Read *changes*; watchers may lag by *max_lag* changes, and changes older than *kept* may be deleted."""
        self._changes = changes
        self._erased = erased
        self._max_lag = max_lag
        self._retention = f"{kept.total_seconds() / 86_400:g} days"
        self.bell = bell

    @property
    def identity(self) -> str:
        """Return the identity of the store, to which positions in its change feed belong."""
        return self._changes.identity

    def begin(self, watch: Watch, *, start: Start, position: int | None) -> ChangeWatcher:
        """Return a watcher that resumes after *position*, or without one begins at *start*.

        Raises:
            InvalidRequestError: The store has not reached the position.
            CursorExpiredError: Changes after the position are deleted.
        """
        reach = Reach.from_scope(watch.scope, watch.selection.visibility)
        page = self._changes.after(0 if position is None else position, reach=reach, limit=1)
        kept_after = max(page.kept_after, self._erased.before(reach.owner) or 0)
        is_at_end = position is None and start is Start.NOW
        if position is None:
            position = max(self._changes.end(reach=reach), kept_after) if is_at_end else kept_after
        elif position > page.head:
            raise InvalidRequestError([Violation("cursor", "is beyond the newest change of this store")])
        elif position < kept_after:
            raise CursorExpiredError(self._retention)
        backlog = 0 if is_at_end else self._changes.count(position, reach=reach)
        limits = LagLimit(self._max_lag + backlog, self._max_lag, self._retention)
        return ChangeWatcher(self._changes, self._erased, watch, position, limits)


class LagLimit:
    """The maximum lag of a watcher, in changes of its reach."""

    def __init__(self, allowed: int, max_lag: int, kept: str) -> None:
        """Allow a lag of *max_lag* beyond the backlog at the start, *allowed* in total."""
        self.allowed = allowed
        self._max_lag = max_lag
        self._retention = kept

    def check(self, changes: ChangeFeed, page: ChangePage, position: int, reach: Reach) -> None:
        """Raise if the page after *position* has a gap, or if the remaining lag is too large.

        Raises:
            CursorExpiredError: Changes after the position are deleted.
            WatchTooSlowError: More changes are pending than allowed.
        """
        if position < page.kept_after:
            raise CursorExpiredError(self._retention)
        # The distance includes changes of other owners, so the exact count is only taken when it is large.
        is_far = not page.is_all and page.head - position > self.allowed
        if is_far and changes.count(position, reach=reach) > self.allowed:
            raise WatchTooSlowError(self._max_lag)


class ChangeWatcher:
    """A running watch. Not thread-safe."""

    def __init__(
        self, changes: ChangeFeed, erased: ErasureBarrier, watch: Watch, position: int, limits: LagLimit
    ) -> None:
        """Resume after *position*; use `WatchService.begin` to create one."""
        self._changes = changes
        self._erased = erased
        self._watch = watch
        self._reach = Reach.from_scope(watch.scope, watch.selection.visibility)
        self._passes = memory_test(watch.selection.where)
        self._limits = limits
        self.position = position

    @property
    def _is_of_all_sessions(self) -> bool:
        return self._watch.selection.sessions is SessionVisibility.ALL

    @property
    def place(self) -> tuple[int, int]:
        """Return the key of the next batch: equal watches at the same place get the same events."""
        return self.position, self._limits.allowed

    def read(self) -> WatchBatch:
        """Return the next changes, possibly none; the next read continues after them once `position` is moved.

        Raises:
            CursorExpiredError: The next changes are deleted: the watcher was disconnected or too slow for too long, or
                the owner was erased.
            WatchTooSlowError: The watcher has fallen too far behind.
        """
        page = self._changes.after(self.position, reach=self._reach, limit=PAGE)
        # Checked after the page was read, so that no change affected by a running erasure is sent or skipped.
        erased = self._erased.before(self._reach.owner)
        if erased is None:
            return WatchBatch((), self.position, is_all=True)
        page = replace(page, kept_after=max(page.kept_after, erased))
        self._limits.check(self._changes, page, self.position, self._reach)
        events: list[WatchEvent] = []
        size = 0
        for group in _groups(page.changes):
            new = self._events(group)
            events += new
            size += sum(len(one.memory.content) for one in new if one.memory is not None)
            if size >= PART_CHARACTERS and group[-1] is not page.changes[-1]:
                return WatchBatch(tuple(events), group[-1].change.position, is_all=False)
        return WatchBatch(tuple(events), page.position, is_all=page.is_all)

    def _events(self, group: Sequence[LoggedChange]) -> list[WatchEvent]:
        states = self._changes.states(
            (logged.change.row, revision) for logged in group for revision in _revisions(logged.change)
        )
        return [event for logged in group if (event := self._one(logged, states)) is not None]

    def _one(self, logged: LoggedChange, states: States) -> WatchEvent | None:
        """Return the event of a change, or None when the watch does not match it."""
        change = logged.change
        after = states.get((change.row, change.revision))
        if after is None or change.action is ChangeAction.PURGED:
            # A purged memory cannot be tested any more; only its id is sent.
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
            and self._passes(memory)
        )


def _revisions(change: Change) -> tuple[int, ...]:
    return (change.revision,) if change.action is ChangeAction.CREATED else (change.revision - 1, change.revision)


def _groups(changes: Sequence[LoggedChange]) -> Iterator[Sequence[LoggedChange]]:
    for first in range(0, len(changes), GROUP):
        yield changes[first : first + GROUP]


# Erasure barriers: changes before an erasure are deleted, and a watch must not skip them silently.


class ErasureBarrier:
    """A lookup of the latest erasure of an owner, while its record is retained."""

    def __init__(self, erasures: ErasureReads) -> None:
        """Look up in *erasures*."""
        self._erasures = erasures

    def before(self, owner: str) -> int | None:
        """Return the position before which the changes of *owner* are deleted, 0 without an erasure; None during one.

        Raises:
            BackendUnavailableError: The store cannot be reached.
        """
        erasure = self._erasures.find(owner)
        if erasure is None:
            return 0
        return None if erasure.end_time is None else erased_position(erasure.receipt)


# Notification of watchers about changes of an owner's memories.


Ring: TypeAlias = Callable[[], None]


class ChangeNotifier:
    """A notifier that is called after every commit, by the committing thread. It is free without listeners."""

    def __init__(self) -> None:
        """Start without listeners."""
        self._lock = threading.Lock()
        self._waiting: dict[str, tuple[Ring, ...]] = {}

    @contextmanager
    def listen(self, owner: str, ring: Ring) -> Iterator[None]:
        """Call *ring* whenever memories of *owner* may have changed; it must return at once and not raise."""
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

    def notify(self, owners: AbstractSet[str]) -> None:
        """Notify the listeners of *owners*."""
        for owner in owners:
            for ring in self._waiting.get(owner, ()):
                ring()

    def notify_all(self) -> None:
        """Notify all listeners: another process may have changed data of any owner."""
        with self._lock:
            rings = [ring for waiting in self._waiting.values() for ring in waiting]
        for ring in rings:
            ring()


class CommitPoller:
    """A poller for commits of other processes, which notifies all listeners."""

    def __init__(self, feed: IndexFeed, bell: ChangeNotifier) -> None:
        """Call *bell* when the *feed* has advanced since the last poll."""
        self._feed = feed
        self._bell = bell
        self._seen = (-1, -1)

    def poll(self) -> None:
        """Poll once. Not thread-safe.

        While a commit is under way the listeners are notified every time: it may be that of an earlier position.

        Raises:
            BackendUnavailableError: The store cannot be reached; listeners are notified by the next successful poll.
        """
        seen = (self._feed.settled_position(), self._feed.head_position())
        if seen != self._seen or seen[0] < seen[1]:
            self._seen = seen
            self._bell.notify_all()
