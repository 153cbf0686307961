"""Cache of the core memories, which agents load at their start, until a write changes them."""

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
from memsvc.domain.filters import And, AnyOf, Begun, Field, Filter, Not, Range
from memsvc.domain.memory import Layer, Memory, Status, Tier
from memsvc.domain.provenance import speaks_for_the_user
from memsvc.domain.reminders import DueReminder, Moment
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.search import Order, OrderField
from memsvc.engine.memories.reminders import ReminderService
from memsvc.ports.change_feed import IndexFeed
from memsvc.ports.metadata import MemoryReads

LIST = 100
"""Maximum length of a requested list."""
MOST_PROJECTS = 1_024
"""Number of cached projects."""
MOST_CHARS = 256 * 1024
"""Larger projects are not cached."""
MAX_AGE = timedelta(seconds=60)
"""Maximum age of an entry: access counts change without a change in the feed."""
MOST_CHANGES = 256
"""With more changes than this an entry is read again without checking them."""
_REMINDED = And(
    (
        AnyOf(Field.STATUS, (Status.ACTIVE.value,)),
        Not(AnyOf(Field.TIER, (Tier.ARCHIVED.value,))),
        Not(AnyOf(Field.LAYER, (Layer.SESSION.value,))),
    )
)


class CoreMemoryCache:
    """Loads essentials. Thread-safe.

    Every read sees everything committed before it began: the committer notifies the cache of each commit before it
    acknowledges the write, and the cache then checks the changes since for those of its user and project. Commits of
    other processes are not notified: where there may be some, changes are checked at every read.
    """

    def __init__(
        self,
        reads: MemoryReads,
        feed: IndexFeed,
        now: Callable[[], datetime],
        reminders: ReminderService,
        *,
        least_core_trust: float = 0.0,
        is_shared: bool = False,
    ) -> None:
        """Read from the store; *now* is the clock. Due *reminders* are not cached, because they get acknowledged.

        *least_core_trust*: see `memsvc.domain.provenance.speaks_for_the_user`. *is_shared*: other processes may write
        to the store.
        """
        self._least_core_trust = least_core_trust
        self._reads = reads
        self._feed = feed
        self._is_shared = is_shared
        self._now = now
        self._reminder_service = reminders
        self._lock = threading.Lock()
        self._entries: OrderedDict[tuple[str, str], _Entry] = OrderedDict()
        self._commits = 0

    def note_commit(self) -> None:
        """Record that memories were changed; called by the thread of the committer only."""
        self._commits += 1

    def forget(self, owner: str) -> None:
        """Remove the entries of an owner."""
        with self._lock:
            for name in [name for name in self._entries if name[0] == owner]:
                del self._entries[name]

    def load(self, scope: Scope, *, limit: int, zone: tzinfo | None = None) -> CoreContext:
        """Return the essentials of the scope's project and the global memories, at most *limit* in each list.

        Only reminders include memories that do not speak for the user: see `memsvc.domain.provenance`. Reminders
        without a zone are due by *zone*, or else by the zone of the settings.

        Raises:
            BackendUnavailableError: The store cannot be reached.
        """
        now = self._now()
        projects = [self._of(scope.owner, project, now) for project in dict.fromkeys(("", scope.project_id))]
        core, active, preferences, reminders = (
            [memory for lists in projects for memory in lists[number] if is_current(memory, now)] for number in range(4)
        )
        is_cut = any(len(lists[number]) > LIST for lists in projects for number in range(3))
        core, active, preferences = (
            [one for one in part if speaks_for_the_user(one, self._least_core_trust)]
            for part in (core, active, preferences)
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
            is_incomplete=is_cut or any(len(part) > limit for part in (core, active, preferences, due, found)),
            due=found[:limit],
        )

    def due_reminders(self, scope: Scope, *, limit: int, zone: tzinfo | None = None) -> list[DueReminder]:
        """Return at most *limit* memories whose reminders are due now, in the order of `ReminderService.due`.

        Raises:
            BackendUnavailableError: The store cannot be reached.
        """
        return self._reminder_service.due(
            scope, Moment(self._now(), zone or self._reminder_service.zone), after=None, limit=limit
        )[0]

    def core_and_active(self, owner: str, project: str) -> tuple[list[Memory], list[Memory]]:
        """Return the core and the active memories of one project, or with "" the global ones.

        Most important first, at most `LIST` plus one of each; no memory is in both.

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
        entry = self._entries.get(name)
        if (
            entry is not None
            and entry.began <= now < entry.until
            and self._is_fresh(entry, Reach(owner, (project,)), commits)
        ):
            return entry.lists
        return self._read(name, commits, now)

    def _is_fresh(self, entry: _Entry, reach: Reach, commits: int) -> bool:
        """Return whether no change since concerns the entry; it is then valid for the current position."""
        if entry.commits == commits and not self._is_shared:
            return True
        settled = self._feed.settled_position()
        changes = self._feed.changes_after(entry.position, limit=MOST_CHANGES, settled=False)
        if len(changes) == MOST_CHANGES:
            return False
        rows = {change.row for change in changes}
        # A purged memory can no longer be read, but its row is known here.
        if not rows.isdisjoint(entry.rows):
            return False
        if rows and any(map(may_be_loaded, self._reads.by_rows(list(rows), reach=reach).values())):
            return False
        with self._lock:
            entry.commits = max(entry.commits, commits)
            entry.position = max(entry.position, settled)
        return True

    def _read(self, name: tuple[str, str], commits: int, now: datetime) -> tuple[Sequence[Memory], ...]:
        # In this order: a commit in between is seen by the lists, and checked again later.
        position, reach = self._feed.settled_position(), Reach(name[0], (name[1],))
        lists = tuple(self._lists(reach, now))
        until = self._until(lists, reach, now)
        memories = [memory for part in lists for memory in part]
        with self._lock:
            self._entries.pop(name, None)
            if sum(len(memory.content) for memory in memories) <= MOST_CHARS:
                rows = frozenset(memory.row for memory in memories)
                self._entries[name] = _Entry(lists, rows, position, commits, now, until)
                while len(self._entries) > MOST_PROJECTS:
                    self._entries.popitem(last=False)
        return lists

    def _lists(self, reach: Reach, now: datetime) -> Iterator[Sequence[Memory]]:
        for essential in Essential:
            yield self._reads.essentials(essential, reach=reach, now=now, limit=LIST + 1)
        yield self._reminders(reach, now, Begun.at(to_micros(now)), LIST + 1)

    def _reminders(self, reach: Reach, now: datetime, begun: Filter, limit: int) -> list[Memory]:
        """Return reminders due before the entry expires, earliest first; the last ones may not be due yet."""
        ended = (Not(Range(field, at_most=to_micros(now))) for field in (Field.EXPIRE_TIME, Field.VALID_TO))
        return self._reads.page(
            reach=reach,
            where=And((_REMINDED, may_remind(now - REMINDER_SPAN, now + REMINDER_SPAN + MAX_AGE), begun, *ended)),
            order=Order(OrderField.EVENT_TIME, descending=False),
            after=None,
            limit=limit,
        )

    def _until(self, lists: Sequence[Sequence[Memory]], reach: Reach, now: datetime) -> datetime:
        begin_soon = Range(Field.VALID_FROM, above=to_micros(now), at_most=to_micros(now + MAX_AGE))
        if self._reminders(reach, now, begin_soon, 1):
            return now
        moments = [now + MAX_AGE, self._reads.next_essential(reach=reach, now=now)]
        moments += [moment for part in lists for memory in part for moment in (memory.expiry, memory.valid_to)]
        moments += [memory.event_time and memory.event_time + REMINDER_SPAN for memory in lists[-1]]
        return min(moment for moment in moments if moment is not None and moment > now)


@dataclass(slots=True)
class _Entry:
    """The essentials of one project of a user, or of the global memories, as of a feed position.

    Attributes:
        began: The time of the read.
        until: The time of the next read even without writes: a memory expires, or another becomes valid.
    """

    lists: tuple[Sequence[Memory], ...]
    rows: frozenset[int]
    position: int
    commits: int
    began: datetime
    until: datetime


def _unseen(memories: Iterable[Memory], seen: set[str]) -> list[Memory]:
    found = [memory for memory in memories if memory.id not in seen]
    seen.update(memory.id for memory in found)
    return found


def _by_importance(memory: Memory) -> tuple[int, int]:
    return -memory.importance, memory.row
