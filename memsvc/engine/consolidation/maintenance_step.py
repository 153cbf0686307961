"""The maintenance step CONSOLIDATE, which compares new and changed memories with all others."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from itertools import count

from memsvc.domain.clock import Deadline
from memsvc.domain.consolidation import MemoryGroup, newest_first
from memsvc.domain.maintenance import EVERYBODY, DueChange, MaintenanceReason, MaintenanceScope, UpkeepStep
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.consolidation.candidates import BlockingIndex, CandidateFinder, are_coherent, unchanged_since
from memsvc.engine.consolidation.merge import GroupMerger, PlannedMerge
from memsvc.engine.maintenance.step import BEGINNING, StepPart, StepResult
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.ports.change_feed import IndexFeed
from memsvc.ports.metadata import MetadataStore, Transaction

BATCH = 8
"""Groups merged at a time; a language model may be asked for each."""
EXAMINED = 256
"""Memories examined for one part."""


class ConsolidateStep:
    """The maintenance step CONSOLIDATE."""

    def __init__(
        self,
        store: MetadataStore,
        finder: CandidateFinder,
        merger: GroupMerger,
        committer: GroupCommitter,
        threshold: float,
        scan: IncrementalScan,
    ) -> None:
        """Merge by *merger* the groups that *finder* finds at least *threshold* similar."""
        self._store = store
        self._finder = finder
        self._merger = merger
        self._committer = committer
        self._threshold = threshold
        self._scan = scan

    @property
    def kind(self) -> UpkeepStep:
        """Return the name of the step."""
        return UpkeepStep.CONSOLIDATE

    @property
    def batch(self) -> int:
        """Return the number of groups merged at a time."""
        return BATCH

    def find_due(self, area: MaintenanceScope, now: datetime, after: str, limit: int) -> StepPart:
        """Return the groups around the next memories; for all users only those changed since the last pass."""
        # No seed is in two groups, so there are no more groups than *limit*.
        scan_batch = self._scan.next_batch(area, after, limit)
        groups: list[MemoryGroup] = []
        for project in _by_project(scan_batch.candidates):
            groups += self._finder.groups(project, self._threshold, Deadline(), is_ready=unchanged_since(now))
        if area == EVERYBODY:
            self._scan.note(scan_batch, groups, now)
        is_over = scan_batch.following is None or scan_batch.is_paused
        following = BEGINNING if is_over else str(scan_batch.following)
        return StepPart(tuple(map(_due_change, groups)), following, is_paused=scan_batch.is_paused)

    def apply(self, due: Sequence[DueChange]) -> StepResult:
        """Merge the groups that are still coherent."""
        planned = [(one, self._plan_merge(one)) for one in due]

        def work(transaction: Transaction) -> list[DueChange]:
            return [
                one for one, plan in planned if plan is not None and self._merger.merge(transaction, plan) is not None
            ]

        changed = self._committer.submit(work).value
        return StepResult(tuple(changed), len(due) - len(changed))

    def _plan_merge(self, due: DueChange) -> PlannedMerge | None:
        reach = Reach(due.scope.owner, (due.scope.project_id,))
        names = (due.memory_id, *due.member_ids)
        members = newest_first(self._store.memories.get(names, reach=reach).values())
        if len(members) < len(names) or not are_coherent(members):
            return None
        return self._merger.plan(MemoryGroup(members, self._threshold), Deadline())


def _due_change(group: MemoryGroup) -> DueChange:
    others = tuple(member.id for member in group.members[1:])
    return DueChange.of(UpkeepStep.CONSOLIDATE, MaintenanceReason.SIMILAR, group.newest, others)


def _by_project(memories: Iterable[Memory]) -> list[list[Memory]]:
    projects: dict[tuple[str, str], list[Memory]] = {}
    for memory in memories:
        projects.setdefault((memory.scope.owner, memory.scope.project_id), []).append(memory)
    return list(projects.values())


class ScanKind(StrEnum):
    """The meaning of a cursor: rows to examine again, positions of changes, or rows of all memories."""

    AGAIN = "again"
    CHANGED = "changed"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class ScanCursor:
    """The progress of a scan.

    Attributes:
        head: The outbox position of the indexes at the start of the scan.
        number: The number of a scan over all memories.
        looked_at: The number of memories examined in this run.
    """

    walk: ScanKind
    place: int
    head: int
    number: int = 0
    examined: int = 0

    def __str__(self) -> str:
        """Return the cursor as text for `of`."""
        return f"{self.walk}:{self.place}:{self.head}:{self.number}:{self.examined}"

    @classmethod
    def of(cls, text: str) -> ScanCursor:
        """Return the cursor from its text."""
        walk, *numbers = text.split(":")
        return cls(ScanKind(walk), *map(int, numbers))


@dataclass(frozen=True, slots=True)
class ScanBatch:
    """The next part of a scan.

    Attributes:
        seeds: All memories of the part.
        candidates: Memories in the area that may be equivalent to another one.
        following: The next cursor; None at the end, for now if *is_paused*.
    """

    cursor: ScanCursor
    seeds: Sequence[Memory]
    candidates: Sequence[Memory]
    following: ScanCursor | None
    is_paused: bool = False


@dataclass(slots=True)
class _ScanState:
    """The position up to which all changes were compared, and the rows to examine again.

    It keeps runs short. Without it, as after a start, all memories are examined.

    Attributes:
        unfinished: The cursor of an unfinished scan over all memories.
    """

    position: int | None = None
    unfinished: ScanCursor | None = None
    again: set[int] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)


class IncrementalScan:
    """Scans of the memories of a store; progress is kept for scans over all users."""

    def __init__(self, feed: IndexFeed, most: int, search_priority: SearchPriority) -> None:
        """Examine at most *most* memories in a run over all users."""
        self._feed = feed
        self._most = most
        self._state = _ScanState()
        self._blocking, self._area_blocking = BlockingIndex(search_priority), BlockingIndex(search_priority)
        self._numbers = count(1)

    def next_batch(self, area: MaintenanceScope, after: str, limit: int) -> ScanBatch:
        """Return the next part of a scan over *area*."""
        cursor = self._first_cursor(area) if after == BEGINNING else ScanCursor.of(after)
        left = self._most - cursor.examined if area == EVERYBODY else limit
        cursor, seeds, following = self._seeds(cursor, max(1, min(EXAMINED, limit, left)))
        in_area = [seed for seed in seeds if area.holds(seed.scope)]
        if cursor.walk is ScanKind.ALL:
            blocking = self._blocking if area == EVERYBODY else self._area_blocking
            in_area = blocking.candidates(cursor.number, in_area, is_first=cursor.place == 0)
        elif cursor.walk is ScanKind.CHANGED:
            in_area = self._blocking.changed_candidates(in_area)
        if following is not None:
            following = replace(following, examined=cursor.examined + len(seeds))
        is_paused = area == EVERYBODY and following is not None and following.examined >= self._most
        return ScanBatch(cursor, seeds, in_area, following, is_paused)

    def note(self, scan_batch: ScanBatch, groups: Iterable[MemoryGroup], now: datetime) -> None:
        """Record that a part of a scan over all users was compared.

        Grouped memories, and memories changed since *now*, are examined again in the next pass.
        """
        cursor, following = scan_batch.cursor, scan_batch.following
        found = {member.row for group in groups for member in group.members}
        with self._state.lock:
            self._state.again.difference_update(seed.row for seed in scan_batch.seeds)
            self._state.again |= found | {seed.row for seed in scan_batch.seeds if seed.update_time >= now}
            if following is None:
                self._state.position, self._state.unfinished = cursor.head, None
            elif following.walk is ScanKind.CHANGED:
                self._state.position = following.place
            elif following.walk is ScanKind.ALL:
                self._state.position, self._state.unfinished = None, following
        if following is None and cursor.walk is ScanKind.ALL:
            self._blocking.finish_pass(cursor.number)

    def _first_cursor(self, area: MaintenanceScope) -> ScanCursor:
        # Memories that the indexes do not contain yet cannot be found by vector: leave them to the next pass.
        head = self._feed.applied_position()
        return ScanCursor(ScanKind.AGAIN, 0, head) if area == EVERYBODY else self._full_scan(head)

    def _full_scan(self, head: int) -> ScanCursor:
        return ScanCursor(ScanKind.ALL, 0, head, next(self._numbers))

    def _seeds(self, cursor: ScanCursor, most: int) -> tuple[ScanCursor, list[Memory], ScanCursor | None]:
        """Return the next memories with the cursor that led to them and the following one."""
        if cursor.walk is ScanKind.AGAIN:
            with self._state.lock:
                rows = sorted(row for row in self._state.again if row > cursor.place)[:most]
                position, unfinished = self._state.position, self._state.unfinished
            if rows:
                return cursor, self._load(rows), replace(cursor, place=rows[-1])
            examined = cursor.examined
            if position is not None:
                cursor = replace(cursor, walk=ScanKind.CHANGED, place=position)
            else:
                cursor = replace(unfinished or self._full_scan(cursor.head), examined=examined)
        if cursor.walk is ScanKind.CHANGED:
            return cursor, *self._load_changed(cursor, most)
        documents = self._feed.scan(after_row=cursor.place, limit=most)
        following = replace(cursor, place=documents[-1].memory.row) if len(documents) == most else None
        return cursor, [document.memory for document in documents], following

    def _load_changed(self, cursor: ScanCursor, most: int) -> tuple[list[Memory], ScanCursor | None]:
        if cursor.place >= cursor.head:
            return [], None
        changes = self._feed.changes_after(cursor.place, limit=most)
        if self._feed.kept_after() > cursor.place:
            # Changes were pruned since, so the memories they changed are unknown: scan all.
            return [], self._full_scan(cursor.head)
        if not changes:
            return [], None
        seeds = self._load(list(dict.fromkeys(change.row for change in changes)))
        return seeds, replace(cursor, place=changes[-1].position)

    def _load(self, rows: Sequence[int]) -> list[Memory]:
        return [document.memory for document in self._feed.documents(rows)]
