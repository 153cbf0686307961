"""The step CONSOLIDATE: what was written since it last looked is compared with all that is there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from memsvc.domain.clock import Deadline
from memsvc.domain.consolidation import Group, newest_first
from memsvc.domain.maintenance import EVERYBODY, Area, Due, Reason, UpkeepStep
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.consolidation.alike import cohere
from memsvc.engine.consolidation.candidates import CandidateFinder, unchanged_since
from memsvc.engine.consolidation.merge import GroupMerger, Planned
from memsvc.engine.consolidation.walking import IncrementalScan
from memsvc.engine.maintenance.step import BEGINNING, Applied, Part
from memsvc.ports.metadata import MetadataStore, Transaction

BATCH = 8
"""A language model may be asked for each group."""


class Consolidating:
    """The step CONSOLIDATE."""

    def __init__(
        self,
        store: MetadataStore,
        finding: CandidateFinder,
        merging: GroupMerger,
        committer: GroupCommitter,
        threshold: float,
        walking: IncrementalScan,
    ) -> None:
        """Merge, by *merging*, the memories of *store* that *finding* says are at least *threshold* alike."""
        self._store = store
        self._finding = finding
        self._merging = merging
        self._committer = committer
        self._threshold = threshold
        self._walking = walking

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
        # No seed is in two groups, so there are not more groups than asked for.
        stretch = self._walking.stretch(area, after, limit)
        groups: list[Group] = []
        for project in _by_project(stretch.worth_comparing):
            groups += self._finding.groups(project, self._threshold, Deadline(), is_ready=unchanged_since(now))
        if area == EVERYBODY:
            self._walking.note(stretch, groups, now)
        is_over = stretch.following is None or stretch.is_paused
        following = BEGINNING if is_over else str(stretch.following)
        return Part(tuple(map(_due, groups)), following, is_paused=stretch.is_paused)

    def apply(self, due: Sequence[Due]) -> Applied:
        """Merge the groups that still stand."""
        planned = [(one, self._planned(one)) for one in due]

        def work(transaction: Transaction) -> list[Due]:
            return [
                one for one, plan in planned if plan is not None and self._merging.merge(transaction, plan) is not None
            ]

        changed = self._committer.submit(work).value
        return Applied(tuple(changed), len(due) - len(changed))

    def _planned(self, due: Due) -> Planned | None:
        reach = Reach(due.scope.owner, (due.scope.project_id,))
        names = (due.memory_id, *due.member_ids)
        members = newest_first(self._store.memories.get(names, reach=reach).values())
        if len(members) < len(names) or not cohere(members):
            return None
        return self._merging.planned(Group(members, self._threshold), Deadline())


def _due(group: Group) -> Due:
    others = tuple(member.id for member in group.members[1:])
    return Due.of(UpkeepStep.CONSOLIDATE, Reason.SIMILAR, group.newest, others)


def _by_project(memories: Iterable[Memory]) -> list[list[Memory]]:
    projects: dict[tuple[str, str], list[Memory]] = {}
    for memory in memories:
        projects.setdefault((memory.scope.owner, memory.scope.project_id), []).append(memory)
    return list(projects.values())
