"""The step CONSOLIDATE: what was written since it last looked is compared with all that is there."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from itertools import count

from memsvc.domain.clock import Deadline
from memsvc.domain.consolidation import Group, newest_first
from memsvc.domain.maintenance import EVERYBODY, Area, Due, Reason, UpkeepStep
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.consolidation.candidates import BlockingIndex, CandidateFinder, are_coherent, unchanged_since
from memsvc.engine.consolidation.merge import GroupMerger, PlannedMerge
from memsvc.engine.maintenance.step import BEGINNING, StepPart, StepResult
from memsvc.ports.change_feed import IndexFeed
from memsvc.ports.metadata import MetadataStore, Transaction

BATCH = 8
"""A language model may be asked for each group."""


class ConsolidateStep:
    """The step CONSOLIDATE."""

    def __init__(
        self,
        store: MetadataStore,
        finder: CandidateFinder,
        merger: GroupMerger,
        committer: GroupCommitter,
        threshold: float,
        scan: IncrementalScan,
    ) -> None:
        """Merge, by *merger*, the memories of *store* that *finder* says are at least *threshold* alike."""
        self._store = store
        self._finder = finder
        self._merger = merger
        self._committer = committer
        self._threshold = threshold
        self._scan = scan

    @property
    def kind(self) -> UpkeepStep:
        """Name the step."""
        return UpkeepStep.CONSOLIDATE

    @property
    def batch(self) -> int:
        """Return how many groups are merged at a time."""
        return BATCH

    def find_due(self, area: Area, now: datetime, after: str, limit: int) -> StepPart:
        """Return the groups around the next memories; of everybody, only those changed since the pass before."""
        # No seed is in two groups, so there are not more groups than asked for.
        scan_batch = self._scan.next_batch(area, after, limit)
        groups: list[Group] = []
        for project in _by_project(scan_batch.candidates):
            groups += self._finder.groups(project, self._threshold, Deadline(), is_ready=unchanged_since(now))
        if area == EVERYBODY:
            self._scan.note(scan_batch, groups, now)
        is_over = scan_batch.following is None or scan_batch.is_paused
        following = BEGINNING if is_over else str(scan_batch.following)
        return StepPart(tuple(map(_due, groups)), following, is_paused=scan_batch.is_paused)

    def apply(self, due: Sequence[Due]) -> StepResult:
        """Merge the groups that still stand."""
        planned = [(one, self._planned(one)) for one in due]

        def work(transaction: Transaction) -> list[Due]:
            return [
                one for one, plan in planned if plan is not None and self._merger.merge(transaction, plan) is not None
            ]

        changed = self._committer.submit(work).value
        return StepResult(tuple(changed), len(due) - len(changed))

    def _planned(self, due: Due) -> PlannedMerge | None:
        reach = Reach(due.scope.owner, (due.scope.project_id,))
        names = (due.memory_id, *due.member_ids)
        members = newest_first(self._store.memories.get(names, reach=reach).values())
        if len(members) < len(names) or not are_coherent(members):
            return None
        return self._merger.plan(Group(members, self._threshold), Deadline())


def _due(group: Group) -> Due:
    others = tuple(member.id for member in group.members[1:])
    return Due.of(UpkeepStep.CONSOLIDATE, Reason.SIMILAR, group.newest, others)


def _by_project(memories: Iterable[Memory]) -> list[list[Memory]]:
    projects: dict[tuple[str, str], list[Memory]] = {}
    for memory in memories:
        projects.setdefault((memory.scope.owner, memory.scope.project_id), []).append(memory)
    return list(projects.values())


# Which memories a pass of CONSOLIDATE looks at next: those changed since the last one, or all of them.


EXAMINED = 256
"""How many memories one part looks at."""


class ScanKind(StrEnum):
    """What a cursor counts: rows to be looked at again, positions of changes, or rows of all memories."""

    AGAIN = "again"
    CHANGED = "changed"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a walk is.

    Attributes:
        head: When the walk began, the indexes knew all changes up to this one.
        number: Tells a walk over all memories from other ones.
        looked_at: How many memories this run has looked at.
    """

    walk: ScanKind
    place: int
    head: int
    number: int = 0
    looked_at: int = 0

    def __str__(self) -> str:
        """Write the cursor as `of` reads it."""
        return f"{self.walk}:{self.place}:{self.head}:{self.number}:{self.looked_at}"

    @classmethod
    def of(cls, text: str) -> Cursor:
        """Read a cursor."""
        walk, *numbers = text.split(":")
        return cls(ScanKind(walk), *map(int, numbers))


@dataclass(frozen=True, slots=True)
class ScanBatch:
    """The next part of a walk.

    Attributes:
        seeds: All memories of it.
        worth_comparing: Those in the area that may say the same as another one.
        following: Where the walk goes on; None: it is over, for now if it *is_paused*.
    """

    cursor: Cursor
    seeds: Sequence[Memory]
    candidates: Sequence[Memory]
    following: Cursor | None
    is_paused: bool = False


@dataclass(slots=True)
class _Seen:
    """Up to which change everything was compared, and the rows that are to be looked at again; so runs stay short.

    Only a help: without it, as after a start, all memories are looked at.

    Attributes:
        unfinished: Where a walk over all memories goes on that was paused or broken off.
    """

    position: int | None = None
    unfinished: Cursor | None = None
    again: set[int] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)


class IncrementalScan:
    """Walks over the memories of a store, and remembers how far it came with those of everybody."""

    def __init__(self, feed: IndexFeed, most: int) -> None:
        """Look at no more than *most* memories in a run for everybody."""
        self._feed = feed
        self._most = most
        self._seen = _Seen()
        self._meeting, self._meeting_elsewhere = BlockingIndex(), BlockingIndex()
        self._numbers = count(1)

    def next_batch(self, area: Area, after: str, limit: int) -> ScanBatch:
        """Return the next part of a walk over *area*."""
        cursor = self._beginning(area) if after == BEGINNING else Cursor.of(after)
        left = self._most - cursor.looked_at if area == EVERYBODY else limit
        cursor, seeds, following = self._seeds(cursor, max(1, min(EXAMINED, limit, left)))
        held = [seed for seed in seeds if area.holds(seed.scope)]
        if cursor.walk is ScanKind.ALL:
            meeting = self._meeting if area == EVERYBODY else self._meeting_elsewhere
            held = meeting.candidates(cursor.number, held, is_first=cursor.place == 0)
        elif cursor.walk is ScanKind.CHANGED:
            held = self._meeting.changed_candidates(held)
        if following is not None:
            following = replace(following, looked_at=cursor.looked_at + len(seeds))
        is_paused = area == EVERYBODY and following is not None and following.looked_at >= self._most
        return ScanBatch(cursor, seeds, held, following, is_paused)

    def note(self, scan_batch: ScanBatch, groups: Iterable[Group], now: datetime) -> None:
        """Note that a part of everybody's was compared; what was found, or was too new, is looked at again."""
        cursor, following = scan_batch.cursor, scan_batch.following
        found = {member.row for group in groups for member in group.members}
        with self._seen.lock:
            self._seen.again.difference_update(seed.row for seed in scan_batch.seeds)
            self._seen.again |= found | {seed.row for seed in scan_batch.seeds if seed.update_time >= now}
            if following is None:
                self._seen.position, self._seen.unfinished = cursor.head, None
            elif following.walk is ScanKind.CHANGED:
                self._seen.position = following.place
            elif following.walk is ScanKind.ALL:
                self._seen.position, self._seen.unfinished = None, following
        if following is None and cursor.walk is ScanKind.ALL:
            self._meeting.finish_pass(cursor.number)

    def _beginning(self, area: Area) -> Cursor:
        # What the indexes do not know yet is not found by its vector: it is for the next pass.
        head = self._feed.applied()
        return Cursor(ScanKind.AGAIN, 0, head) if area == EVERYBODY else self._all(head)

    def _all(self, head: int) -> Cursor:
        return Cursor(ScanKind.ALL, 0, head, next(self._numbers))

    def _seeds(self, cursor: Cursor, most: int) -> tuple[Cursor, list[Memory], Cursor | None]:
        """Return the next memories to look at, with the cursor that led to them and the one of those after them."""
        if cursor.walk is ScanKind.AGAIN:
            with self._seen.lock:
                rows = sorted(row for row in self._seen.again if row > cursor.place)[:most]
                position, unfinished = self._seen.position, self._seen.unfinished
            if rows:
                return cursor, self._documented(rows), replace(cursor, place=rows[-1])
            looked_at = cursor.looked_at
            if position is not None:
                cursor = replace(cursor, walk=ScanKind.CHANGED, place=position)
            else:
                cursor = replace(unfinished or self._all(cursor.head), looked_at=looked_at)
        if cursor.walk is ScanKind.CHANGED:
            return cursor, *self._changed(cursor, most)
        documents = self._feed.scan(after_row=cursor.place, limit=most)
        following = replace(cursor, place=documents[-1].memory.row) if len(documents) == most else None
        return cursor, [document.memory for document in documents], following

    def _changed(self, cursor: Cursor, most: int) -> tuple[list[Memory], Cursor | None]:
        if cursor.place >= cursor.head:
            return [], None
        changes = self._feed.since(cursor.place, limit=most)
        if not changes or changes[0].position != cursor.place + 1:
            # Some were thrown away meanwhile: nobody knows what they changed.
            return [], self._all(cursor.head)
        seeds = self._documented(list(dict.fromkeys(change.row for change in changes)))
        return seeds, replace(cursor, place=changes[-1].position)

    def _documented(self, rows: Sequence[int]) -> list[Memory]:
        return [document.memory for document in self._feed.documents(rows)]
