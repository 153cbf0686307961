"""Detection of contradictions among memories that are stored already.

A memory is compared with the memories of its project that were stored before it and make a statement on one of its
topics, so that each pair is met once, at the later one. The statements come from their index; no pair of memories
without a common topic is looked at, and no text is analysed before two stored statements contradict each other.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from memsvc.domain.conflicts import (
    Conflict,
    ConflictPolicy,
    ConflictState,
    Contradiction,
    Fact,
    contradicts,
    contradicts_either,
)
from memsvc.domain.history import is_valid_now
from memsvc.domain.lru_cache import LruCache
from memsvc.domain.maintenance import MaintenanceScope
from memsvc.domain.memory import Layer, Memory, Status
from memsvc.domain.provenance import TrustPolicy
from memsvc.domain.scope import Reach
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.conflicts.detection import (
    CANDIDATES,
    MOST,
    ConflictDetector,
    StoredPair,
    is_known_pair,
    may_outdate,
    new_conflict,
    personal_topics,
)
from memsvc.engine.records.memory_builder import MemoryBuilder, RecordBuilder, differs_in_project, states_more
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.ports.features import StatingMemory
from memsvc.ports.metadata import MetadataStore, Transaction
from memsvc.ports.operations import RowCursor
from memsvc.text.facts.labels import topic_label

PAGE = 100
"""Memories compared between two reports."""
BATCH = 20
"""Conflicts stored in one transaction: some milliseconds of work, because searches wait for it."""
_REMEMBERED = 50_000
"""Older memories of which a run remembers that it found them outdated."""


@dataclass(frozen=True, slots=True)
class SweepSelection:
    """The memories to compare with older ones.

    Attributes:
        layers: Empty: all.
        since: Only memories created then or later; they are compared with older ones, too. None: all.
    """

    layers: tuple[Layer, ...] = ()
    since: datetime | None = None


ALL_MEMORIES = SweepSelection()


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """Progress of a sweep.

    Attributes:
        found: The conflicts since the previous progress: stored, or in a dry run those that would be, without an id.
        examined: The number of memories compared so far.
        count: The number of conflicts found so far.
        position: The outbox position of the last change; 0: none.
    """

    found: tuple[Contradiction, ...]
    examined: int
    count: int = 0
    position: int = 0
    is_done: bool = False


@dataclass(frozen=True, slots=True)
class FoundPair:
    """Two memories that contradict each other, as they were read."""

    older: Memory
    newer: Memory
    statements: tuple[Fact, Fact]

    @property
    def pair(self) -> StoredPair:
        """Return the pair by its ids."""
        return StoredPair(self.newer.scope.owner, self.newer.scope.project_id, self.older.id, self.newer.id)


class Foresight:
    """The effects of the conflicts found so far on those found next, whether or not they are stored.

    Without it a dry run would list more than a run stores: a memory that is outdated by one memory is not compared with
    the next one.
    """

    def __init__(self, policy: ConflictPolicy, trust_policy: TrustPolicy) -> None:
        self._policy = policy
        self._outranks = trust_policy.outranks
        self._taken = LruCache[str, bool](_REMEMBERED)

    def takes(self, found: FoundPair) -> bool:
        """Record a pair and return True, or return False when an earlier pair precludes it."""
        topic = topic_label(found.statements[1].topic)
        partial, whole = f"{found.older.id} {topic}", found.older.id
        is_outranked = self._outranks(found.older, found.newer)
        of_outranked = f"{partial} outranked"
        precluding = (partial, whole, found.newer.id, *((of_outranked,) if is_outranked else ()))
        if any(self._taken.get(one) for one in precluding):
            return False
        if self._policy is not ConflictPolicy.KEEP_BOTH:
            is_partial = differs_in_project(found.older, found.newer) or (
                self._policy is ConflictPolicy.MARK and states_more(found.older, found.statements[0])
            )
            taken = partial if is_partial else whole
            self._taken.put(of_outranked if is_outranked else taken, value=True)
        return True


class ConflictSweep:
    """Finds contradictions among stored memories and stores them as those found at a write."""

    def __init__(
        self,
        store: MetadataStore,
        committer: GroupCommitter,
        memory_builder: MemoryBuilder,
        record_builder: RecordBuilder,
        search_priority: SearchPriority,
    ) -> None:
        """Read from *store*, write through *committer* by these parts."""
        self._store = store
        self._committer = committer
        self._now = memory_builder.now
        self.trust_policy = memory_builder.policy
        self._detector = ConflictDetector(memory_builder, record_builder)
        self._search_priority = search_priority

    def run(
        self,
        area: MaintenanceScope,
        selection: SweepSelection,
        policy: ConflictPolicy,
        *,
        is_dry: bool,
    ) -> Generator[SweepProgress, None, None]:
        """Compare the memories of an owner, page by page, and yield the progress after every part.

        Closing the generator ends the sweep between two parts; stored conflicts stay.

        Raises:
            BackendUnavailableError: The store cannot be reached.
        """
        foresight = Foresight(policy, self.trust_policy)
        examined = count = position = 0
        for page in self._pages(area, selection):
            self._search_priority.yield_to_searches()
            found = [one for one in self.find(page, policy) if foresight.takes(one)]
            examined += len(page)
            if not found:
                yield SweepProgress((), examined, count, position)
            for start in range(0, len(found), BATCH):
                batch = found[start : start + BATCH]
                if is_dry:
                    contradictions = tuple(self._preview(one, policy) for one in batch)
                else:
                    self._search_priority.yield_to_searches()
                    contradictions, position = self.store([one.pair for one in batch], policy)
                count += len(contradictions)
                yield SweepProgress(contradictions, examined, count, position)
        yield SweepProgress((), examined, count, position, is_done=True)

    def store(self, pairs: Sequence[StoredPair], policy: ConflictPolicy) -> tuple[tuple[Contradiction, ...], int]:
        """Compare pairs again and store their conflicts, in one transaction; return them and its position."""

        def work(transaction: Transaction) -> tuple[tuple[Contradiction, ...], int]:
            found = [one for pair in pairs for one in self._detector.compare_stored(transaction, pair, policy)]
            return tuple(found), transaction.position

        return self._committer.submit(work).value

    def find(
        self, page: Sequence[StatingMemory], policy: ConflictPolicy, before: datetime | None = None
    ) -> Iterator[FoundPair]:
        """Yield the pairs of which the memory stored later is on a page, in its order, the latest older one first.

        At most `MOST` for each memory. With *before* only pairs of memories that did not change since.
        """
        for stating in page:
            candidates = self._candidates(stating)
            if candidates:
                yield from islice(self._pairs(stating, candidates, policy, before), MOST)

    def _candidates(self, stating: StatingMemory) -> dict[str, list[tuple[Fact, Fact]]]:
        """Return the earlier and the later statement of each memory with a smaller row that may contradict, by id."""
        found: dict[str, list[tuple[Fact, Fact]]] = {}
        for later in stating.statements:
            for project in dict.fromkeys((stating.project_id, "")):
                for stated in self._store.statements.facts_before(
                    stating.owner, project, later.topic, row=stating.row, limit=CANDIDATES
                ):
                    earlier = stated.statement
                    if contradicts_either(earlier, later):
                        found.setdefault(stated.memory_id, []).append((earlier, later))
        return found

    def _pairs(
        self,
        stating: StatingMemory,
        candidates: Mapping[str, Sequence[tuple[Fact, Fact]]],
        policy: ConflictPolicy,
        before: datetime | None,
    ) -> Iterator[FoundPair]:
        reach = Reach(stating.owner, tuple(dict.fromkeys((stating.project_id, ""))))
        memories = self._store.memories.get([stating.memory_id, *candidates], reach=reach)
        later, now = memories.get(stating.memory_id), self._now()
        if later is None or not _is_comparable(later, now, before):
            return
        known = self._store.statements.conflicts_of(stating.owner, [later.id, *candidates])
        for memory_id, statements in candidates.items():
            earlier = memories.get(memory_id)
            if earlier is None or not _is_comparable(earlier, now, before):
                continue
            found = _pair_of(earlier, later, statements)
            if found is None or is_known_pair(known, earlier, later):
                continue
            if not self._is_marked(known, found, policy):
                yield found

    def _is_marked(self, known: Sequence[Conflict], found: FoundPair, policy: ConflictPolicy) -> bool:
        """Return whether an older memory that stays in use has an open conflict on the topic: it is marked once.

        A conflict with a memory that it outranks does not replace one with a memory that displaces it.
        """
        outranks = self._detector.outranks
        is_outranked = outranks(found.older, found.newer)
        if not (policy is ConflictPolicy.MARK or (policy is ConflictPolicy.SUPERSEDE and is_outranked)):
            return False
        topic = topic_label(found.statements[1].topic)
        for one in known:
            if one.state is ConflictState.OPEN and one.older_id == found.older.id and one.topic == topic:
                reach = Reach(one.owner, (one.project_id,))
                newer = self._store.memories.get([one.newer_id], reach=reach).get(one.newer_id)
                if is_outranked or newer is None or not outranks(found.older, newer):
                    return True
        return False

    def _preview(self, found: FoundPair, policy: ConflictPolicy) -> Contradiction:
        conflict = new_conflict("", found.older, found.newer, found.statements, self._now())
        if policy is ConflictPolicy.KEEP_BOTH:
            conflict = self._detector.conflict_states.settle(conflict, ConflictState.KEPT_BOTH)
        elif policy is ConflictPolicy.SUPERSEDE and not (
            differs_in_project(found.older, found.newer) or self._detector.outranks(found.older, found.newer)
        ):
            conflict = self._detector.conflict_states.settle(conflict, ConflictState.CONFIRMED)
        return Contradiction(conflict, found.older, found.newer)

    def _pages(self, area: MaintenanceScope, selection: SweepSelection) -> Iterator[list[StatingMemory]]:
        cursor = SweepCursor(area.project_id)
        while True:
            page, following = self.page(area, cursor, selection, PAGE)
            if page:
                yield page
            if following is None:
                return
            cursor = following

    def page(
        self, area: MaintenanceScope, cursor: SweepCursor, selection: SweepSelection, limit: int
    ) -> tuple[list[StatingMemory], SweepCursor | None]:
        """Return the next memories of an owner's area, and the next cursor; None at the end."""
        owner = area.owner or ""
        page = self._store.statements.memories_with_facts(
            owner,
            cursor.project_id,
            layers=selection.layers,
            since=selection.since,
            after=cursor.place,
            limit=limit,
        )
        if len(page) == limit:
            return page, SweepCursor(cursor.project_id, page[-1].place)
        if area.project_id:
            return page, None
        following = self._store.integrity.places(after=RowCursor(owner, cursor.project_id), limit=1)
        is_own = bool(following) and following[0].owner == owner
        return page, SweepCursor(following[0].project_id) if is_own else None


@dataclass(frozen=True, slots=True)
class SweepCursor:
    """A place among the memories of an owner: a project, and a place in its list."""

    project_id: str
    place: tuple[int, ...] = ()

    def __str__(self) -> str:
        """Return the cursor as text for `of`."""
        return json.dumps([self.project_id, self.place])

    @classmethod
    def of(cls, text: str) -> SweepCursor:
        """Return the cursor from its text."""
        project_id, place = json.loads(text)
        return cls(project_id, tuple(place))


def _pair_of(earlier: Memory, later: Memory, statements: Sequence[tuple[Fact, Fact]]) -> FoundPair | None:
    """Return the pair, the older memory first, by the time when it was said, if the newer one contradicts it.

    A global memory is the older one, and only what is personal contradicts it, as at a write.
    """
    is_turned = not differs_in_project(earlier, later) and earlier.said_time > later.said_until
    older, newer = (later, earlier) if is_turned else (earlier, later)
    facts = [(two, one) if is_turned else (one, two) for one, two in statements]
    if differs_in_project(earlier, later):
        personal = personal_topics([two for _, two in facts], newer)
        facts = [pair for pair in facts if pair[1].topic in personal]
    for before, own in facts:
        if may_outdate(own) and contradicts(before, own):
            return FoundPair(older, newer, (before, own))
    return None


def _is_comparable(memory: Memory, now: datetime, before: datetime | None) -> bool:
    is_settled = before is None or memory.update_time < before
    return memory.status is Status.ACTIVE and is_valid_now(memory, now) and is_settled and not memory.is_expired(now)
