"""The step CONSOLIDATE: what was written since it last looked is compared with all that is there."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from memsvc.domain.clock import Deadline
from memsvc.domain.consolidation import Group, newest_first
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach
from memsvc.domain.upkeep import EVERYBODY, Area, Due, Reason, UpkeepStep
from memsvc.engine.consolidation.alike import cohere
from memsvc.engine.consolidation.finding import Finding, unchanged_since
from memsvc.engine.consolidation.meeting import Meeting
from memsvc.engine.consolidation.merging import Merging, Planned
from memsvc.engine.upkeep.step import BEGINNING, Applied, Part
from memsvc.engine.write.committer import Committer
from memsvc.ports.metadata import MetadataStore, Transaction

BATCH = 8
"""A language model may be asked for each group."""
EXAMINED = 256
"""How many memories one part looks at."""


class _Walk(StrEnum):
    """What a cursor counts: rows to be looked at again, positions of changes, or rows of all memories."""

    AGAIN = "again"
    CHANGED = "changed"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class _Cursor:
    """How far a pass is. When it began, the indexes knew all changes up to *head*."""

    walk: _Walk
    place: int
    head: int

    def __str__(self) -> str:
        return f"{self.walk}:{self.place}:{self.head}"

    @classmethod
    def of(cls, text: str) -> _Cursor:
        """Read a cursor."""
        walk, place, head = text.split(":")
        return cls(_Walk(walk), int(place), int(head))


@dataclass(slots=True)
class _Seen:
    """Up to which change everything was compared, and the rows that are to be looked at again; so runs stay short.

    Only a help: without it, as after a start, all memories are looked at.
    """

    position: int | None = None
    again: set[int] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Consolidating:
    """The step CONSOLIDATE."""

    def __init__(
        self, store: MetadataStore, finding: Finding, merging: Merging, committer: Committer, threshold: float
    ) -> None:
        """Merge, by *merging*, the memories of *store* that *finding* says are at least *threshold* alike."""
        self._store = store
        self._finding = finding
        self._merging = merging
        self._committer = committer
        self._threshold = threshold
        self._seen = _Seen()
        self._meeting = Meeting()

    @property
    def kind(self) -> UpkeepStep:
        """Name the step."""
        return UpkeepStep.CONSOLIDATE

    @property
    def batch(self) -> int:
        """Return how many groups are merged at a time."""
        return BATCH

    def part(self, area: Area, now: datetime, after: str, limit: int) -> Part:
        """Return the groups around the next memories; of everybody, only those changed since the pass before."""
        cursor = self._beginning(area) if after == BEGINNING else _Cursor.of(after)
        # No seed is in two groups, so there are not more groups than asked for.
        cursor, seeds, following = self._seeds(cursor, max(1, min(EXAMINED, limit)))
        looked_at = self._worth_comparing(cursor, seeds, area, now)
        groups: list[Group] = []
        for project in _by_project(looked_at):
            groups += self._finding.groups(project, self._threshold, Deadline(), is_ready=unchanged_since(now))
        if area == EVERYBODY:
            self._note(seeds, groups, None if following is not None else cursor.head, now)
            if following is None and cursor.walk is _Walk.ALL:
                self._meeting.finish((area, now, cursor.head))
        return Part(tuple(map(_due, groups)), BEGINNING if following is None else str(following))

    def apply(self, due: Sequence[Due]) -> Applied:
        """Merge the groups that still stand."""
        planned = [(one, self._planned(one)) for one in due]

        def work(transaction: Transaction) -> list[Due]:
            return [
                one for one, plan in planned if plan is not None and self._merging.merge(transaction, plan) is not None
            ]

        changed = self._committer.submit(work).value
        return Applied(tuple(changed), len(due) - len(changed))

    def _worth_comparing(self, cursor: _Cursor, seeds: Sequence[Memory], area: Area, now: datetime) -> list[Memory]:
        """Return those of the next memories that may say the same as another one; most do not begin like any."""
        held = [seed for seed in seeds if area.holds(seed.scope)]
        if cursor.walk is _Walk.ALL:
            return self._meeting.worth_comparing((area, now, cursor.head), held, is_first=cursor.place == 0)
        return self._meeting.worth_comparing_again(held) if cursor.walk is _Walk.CHANGED else held

    def _planned(self, due: Due) -> Planned | None:
        reach = Reach(due.scope.owner, (due.scope.project_id,))
        names = (due.memory_id, *due.member_ids)
        members = newest_first(self._store.memories.get(names, reach=reach).values())
        if len(members) < len(names) or not cohere(members):
            return None
        return self._merging.planned(Group(members, self._threshold), Deadline())

    def _beginning(self, area: Area) -> _Cursor:
        # What the indexes do not know yet is not found by its vector: it is for the next pass.
        head = self._store.feed.applied()
        is_known = area == EVERYBODY and self._seen.position is not None
        return _Cursor(_Walk.AGAIN if is_known else _Walk.ALL, 0, head)

    def _seeds(self, cursor: _Cursor, count: int) -> tuple[_Cursor, list[Memory], _Cursor | None]:
        """Return the next memories to look at, with the cursor that led to them and the one of those after them."""
        if cursor.walk is _Walk.AGAIN:
            with self._seen.lock:
                rows = sorted(row for row in self._seen.again if row > cursor.place)[:count]
                position = self._seen.position or 0
            if rows:
                return cursor, self._documented(rows), replace(cursor, place=rows[-1])
            cursor = _Cursor(_Walk.CHANGED, position, cursor.head)
        if cursor.walk is _Walk.CHANGED:
            return cursor, *self._changed(cursor, count)
        documents = self._store.feed.scan(after_row=cursor.place, limit=count)
        following = replace(cursor, place=documents[-1].memory.row) if len(documents) == count else None
        return cursor, [document.memory for document in documents], following

    def _changed(self, cursor: _Cursor, count: int) -> tuple[list[Memory], _Cursor | None]:
        if cursor.place >= cursor.head:
            return [], None
        changes = self._store.feed.since(cursor.place, limit=count)
        if not changes or changes[0].position != cursor.place + 1:
            # Some were thrown away meanwhile: nobody knows what they changed.
            return [], _Cursor(_Walk.ALL, 0, cursor.head)
        seeds = self._documented(list(dict.fromkeys(change.row for change in changes)))
        return seeds, replace(cursor, place=changes[-1].position)

    def _documented(self, rows: Sequence[int]) -> list[Memory]:
        return [document.memory for document in self._store.feed.documents(rows)]

    def _note(self, seeds: Sequence[Memory], groups: Sequence[Group], finished: int | None, now: datetime) -> None:
        """Note how far everything was compared; what was found, or was too new, is looked at again."""
        found = {member.row for group in groups for member in group.members}
        with self._seen.lock:
            self._seen.again.difference_update(seed.row for seed in seeds)
            self._seen.again |= found | {seed.row for seed in seeds if seed.update_time >= now}
            if finished is not None:
                self._seen.position = finished


def _due(group: Group) -> Due:
    others = tuple(member.id for member in group.members[1:])
    return Due.of(UpkeepStep.CONSOLIDATE, Reason.SIMILAR, group.newest, others)


def _by_project(memories: Iterable[Memory]) -> list[list[Memory]]:
    projects: dict[tuple[str, str], list[Memory]] = {}
    for memory in memories:
        projects.setdefault((memory.scope.owner, memory.scope.project_id), []).append(memory)
    return list(projects.values())
