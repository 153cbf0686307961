"""What an agent loads at its start, kept in memory until a write changes it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from memsvc.domain.clock import to_micros
from memsvc.domain.context import (
    REMINDER_SPAN,
    CoreContext,
    Essential,
    is_current,
    is_due,
    may_be_loaded,
    may_remind,
)
from memsvc.domain.filters import And, AnyOf, Field, Filter, Not, Range
from memsvc.domain.memory import Layer, Memory, Status, Tier
from memsvc.domain.reminders import Due, Moment
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.search import Order, OrderField
from memsvc.engine.memories.reminders import ReminderService
from memsvc.ports.change_feed import IndexFeed
from memsvc.ports.metadata import MemoryReads

LIST = 100
"""How many memories a list may be asked for."""
KEPT = 1_024
"""So many projects of users are kept."""
KEPT_CHARS = 256 * 1024
"""Larger ones are read anew each time."""
FRESH = timedelta(seconds=60)
"""After so long an entry is read anew whatever happened: access counts change without a change in the feed."""
LOOKED_THROUGH = 256
"""More changes than these are not looked through to see whom they concern."""
_REMINDED = And(
    (
        AnyOf(Field.STATUS, (Status.ACTIVE.value,)),
        Not(AnyOf(Field.TIER, (Tier.ARCHIVED.value,))),
        Not(AnyOf(Field.LAYER, (Layer.SESSION.value,))),
    )
)


@dataclass(slots=True)
class _Kept:
    """The essentials of one project of a user, or of their global memories, as of a position of the feed.

    Attributes:
        began: When they were read.
        until: When they have to be read anew though nobody writes: one of them ends, or another begins to hold.
    """

    lists: tuple[Sequence[Memory], ...]
    rows: frozenset[int]
    position: int
    commits: int
    began: datetime
    until: datetime


class CoreMemoryCache:
    """Loads essentials. Safe to use from several threads.

    Every read sees all that was committed before it began: the committer tells of each commit before anybody is told
    that it is done, and then the changes since are looked through for those of the user and project in question. Of
    what other processes commit nobody tells: where there may be some, they are looked through at every read.
    """

    def __init__(
        self,
        reads: MemoryReads,
        feed: IndexFeed,
        now: Callable[[], datetime],
        reminders: ReminderService,
        *,
        is_shared: bool = False,
    ) -> None:
        """Read from the store; *now* is the clock. What *reminders* are due is read anew each time: some were given.

        *is_shared*: other processes may write to the store too.
        """
        self._reads = reads
        self._feed = feed
        self._is_shared = is_shared
        self._now = now
        self._due = reminders
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()
        self._commits = 0

    def note_commit(self) -> None:
        """Take note that memories were changed; called by one thread, the committer's."""
        self._commits += 1

    def forget(self, owner: str) -> None:
        """Drop what is kept of an owner."""
        with self._lock:
            for name in [name for name in self._kept if name[0] == owner]:
                del self._kept[name]

    def load(self, scope: Scope, *, limit: int, zone: tzinfo | None = None) -> CoreContext:
        """Return what is to be loaded: of the scope's project and the global memories, at most *limit* a list.

        Reminders that name no zone are due by *zone*, or without one by that of the settings.

        Raises:
            BackendUnavailableError: The store cannot be reached.
        """
        now = self._now()
        projects = [self._of(scope.owner, project, now) for project in dict.fromkeys(("", scope.project_id))]
        core, active, preferences, reminders = (
            [memory for lists in projects for memory in lists[number] if is_current(memory, now)] for number in range(4)
        )
        found = self.due_reminders(scope, limit=limit + 1, zone=zone)
        moments = {one.memory.id: one.occurrence.due_time for one in found}
        due = [*(one.memory for one in found), *(memory for memory in reminders if is_due(memory, now))]
        seen: set[str] = set()
        core, active, preferences = (
            _unseen(sorted(part, key=_by_importance), seen) for part in (core, active, preferences)
        )
        due = _unseen(sorted(due, key=lambda one: (moments.get(one.id) or one.event_time or now, one.row)), seen)
        return CoreContext(
            core[:limit],
            active[:limit],
            preferences[:limit],
            due[:limit],
            is_incomplete=any(len(part) > limit for part in (core, active, preferences, due, found)),
            due=found[:limit],
        )

    def due_reminders(self, scope: Scope, *, limit: int, zone: tzinfo | None = None) -> list[Due]:
        """Return at most *limit* memories whose reminders are to be given now, in the order of `ReminderService.due`.

        Raises:
            BackendUnavailableError: The store cannot be reached.
        """
        return self._due.due(scope, Moment(self._now(), zone or self._due.zone), after=None, limit=limit)[0]

    def core_and_active(self, owner: str, project: str) -> tuple[list[Memory], list[Memory]]:
        """Return the core and the active memories of one project, or with "" the global ones.

        The most important come first, at most `LIST` and one more of each; none is in both.

        Raises:
            BackendUnavailableError: The store cannot be reached.
        """
        now, seen = self._now(), set[str]()
        core, active, *_ = self._of(owner, project, now)
        first, second = (
            _unseen(sorted((one for one in part if is_current(one, now)), key=_by_importance), seen)
            for part in (core, active)
        )
        return first, second

    def _of(self, owner: str, project: str, now: datetime) -> tuple[Sequence[Memory], ...]:
        name = (owner, project)
        commits = self._commits
        kept = self._kept.get(name)
        if (
            kept is not None
            and kept.began <= now < kept.until
            and self._is_fresh(kept, Reach(owner, (project,)), commits)
        ):
            return kept.lists
        return self._read(name, commits, now)

    def _is_fresh(self, kept: _Kept, reach: Reach, commits: int) -> bool:
        """Return whether no change since concerns what is kept; then it is as good as new."""
        if kept.commits == commits and not self._is_shared:
            return True
        changes = self._feed.since(kept.position, limit=LOOKED_THROUGH)
        if len(changes) == LOOKED_THROUGH:
            return False
        rows = {change.row for change in changes}
        # One that is gone for good is no longer there to be asked whose it was, but its row is known here.
        if not rows.isdisjoint(kept.rows):
            return False
        if rows and any(map(may_be_loaded, self._reads.by_rows(list(rows), reach=reach).values())):
            return False
        with self._lock:
            kept.commits = max(kept.commits, commits)
            kept.position = max(kept.position, changes[-1].position if changes else 0)
        return True

    def _read(self, name: tuple[str, str], commits: int, now: datetime) -> tuple[Sequence[Memory], ...]:
        # In this order: what is committed between is seen by the lists, and looked through once more later.
        position, reach = self._feed.head(), Reach(name[0], (name[1],))
        lists = tuple(self._lists(reach, now))
        until = self._until(lists, reach, now)
        memories = [memory for part in lists for memory in part]
        with self._lock:
            self._kept.pop(name, None)
            if sum(len(memory.content) for memory in memories) <= KEPT_CHARS:
                rows = frozenset(memory.row for memory in memories)
                self._kept[name] = _Kept(lists, rows, position, commits, now, until)
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
        return lists

    def _lists(self, reach: Reach, now: datetime) -> Iterator[Sequence[Memory]]:
        for essential in Essential:
            yield self._reads.essentials(essential, reach=reach, now=now, limit=LIST + 1)
        yield self._reminders(reach, now, Not(Range(Field.VALID_FROM, above=to_micros(now))), LIST + 1)

    def _reminders(self, reach: Reach, now: datetime, begun: Filter, limit: int) -> list[Memory]:
        """Return what is due before the list is read anew, the earliest first: the last may not be due yet."""
        ended = (Not(Range(field, at_most=to_micros(now))) for field in (Field.EXPIRE_TIME, Field.VALID_TO))
        return self._reads.page(
            reach=reach,
            where=And((_REMINDED, may_remind(now - REMINDER_SPAN, now + REMINDER_SPAN + FRESH), begun, *ended)),
            order=Order(OrderField.EVENT_TIME, descending=False),
            after=None,
            limit=limit,
        )

    def _until(self, lists: Sequence[Sequence[Memory]], reach: Reach, now: datetime) -> datetime:
        begin_soon = Range(Field.VALID_FROM, above=to_micros(now), at_most=to_micros(now + FRESH))
        if self._reminders(reach, now, begin_soon, 1):
            return now
        moments = [now + FRESH, self._reads.next_essential(reach=reach, now=now)]
        moments += [moment for part in lists for memory in part for moment in (memory.expire_time, memory.valid_to)]
        moments += [memory.event_time and memory.event_time + REMINDER_SPAN for memory in lists[-1]]
        return min(moment for moment in moments if moment is not None and moment > now)


def _unseen(memories: Iterable[Memory], seen: set[str]) -> list[Memory]:
    found = [memory for memory in memories if memory.id not in seen]
    seen.update(memory.id for memory in found)
    return found


def _by_importance(memory: Memory) -> tuple[int, int]:
    return -memory.importance, memory.row
