"""Search for memories that state the same: by their vectors, then by their words."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from memsvc.domain.clock import Deadline
from memsvc.domain.conflicts import ConflictState
from memsvc.domain.consolidation import (
    LASTING,
    MOST_MEMBERS,
    MemoryGroup,
    agree,
    may_be_merged,
    newest_first,
    same_day,
    same_day_of_writing,
)
from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.filters import AnyOf, Field, conjunction
from memsvc.domain.index_entries import Hit, View, row_of
from memsvc.domain.memory import Memory, Status
from memsvc.domain.scope import Reach
from memsvc.engine.indexing.vector_entries import Means, VectorEntries
from memsvc.engine.records.memory_builder import find_contradiction
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.ports.indexes import PendingSearch, VectorEntry, VectorIndex
from memsvc.ports.metadata import MetadataStore
from memsvc.text.paraphrase import NOTHING, NormalizedText, are_alike, gist_of

SLICE = 4
"""Vector searches pending at a time. Other searches queue behind them: with 64 they waited for seconds."""
REVISIONS = 100
"""Number of past revisions checked for undone consolidations."""
MOST = 1_000_000
"""Maximum number of remembered keys; beyond it all memories are candidates."""


class CandidateFinder:
    """Finds groups around given memories. Read-only."""

    def __init__(
        self, store: MetadataStore, vectors: VectorIndex, entries: VectorEntries, search_priority: SearchPriority
    ) -> None:
        """Search *vectors* with the vectors of *entries*; load memories from *store*."""
        self._store = store
        self._vectors = vectors
        self._entries = entries
        self._search_priority = search_priority

    def groups(
        self,
        seeds: Iterable[Memory],
        threshold: float,
        deadline: Deadline,
        *,
        is_ready: Callable[[Memory], bool] = lambda _: True,
    ) -> list[MemoryGroup]:
        """Return the groups that contain the *seeds*, in their order; no memory is in two groups.

        Members have at least similarity *threshold* to the seed, are *is_ready*, have no open conflict, and no two of
        them were separated by undoing a consolidation.

        Raises:
            BackendUnavailableError: The index cannot be searched.
            DeadlineExceededError: The deadline passed first.
        """
        waiting = [seed for seed in seeds if _is_comparable(seed) and is_ready(seed)]
        taken: set[str] = set()
        groups: list[MemoryGroup] = []
        for start in range(0, len(waiting), SLICE):
            self._search_priority.yield_to_searches()
            for found in self._near(waiting[start : start + SLICE], threshold, deadline):
                group = self._group(found, taken, is_ready)
                if group is not None:
                    groups.append(group)
                    taken.update(member.id for member in group.members)
        return groups

    def _near(self, seeds: Sequence[Memory], threshold: float, deadline: Deadline) -> list[_Neighbours]:
        """Return the similar rows of each seed, without its own."""
        manifest = self._vectors.manifest
        if manifest is None or manifest.model != self._entries.model:
            raise BackendUnavailableError("vectors (the index is being built)")
        documents = self._store.feed.documents([seed.row for seed in seeds])
        entries = self._entries.entries(documents, Means.from_manifest(manifest))
        pending = [
            (seed, self._begin(seed, next(iter(entries[seed.row])), deadline))
            for seed in seeds
            if entries.get(seed.row)
        ]
        return [_Neighbours(seed, _scores(seed, search.result(), threshold)) for seed, search in pending]

    def _begin(self, seed: Memory, entry: VectorEntry, deadline: Deadline) -> PendingSearch:
        where = conjunction(
            AnyOf(Field.STATUS, (Status.ACTIVE.value,)),
            AnyOf(Field.KIND, (seed.kind.value,)),
            AnyOf(Field.LAYER, (seed.layer.value,)),
        )
        return self._vectors.begin_search(
            entry.vector,
            view=View.CHUNK,
            reach=project_reach(seed),
            where=where,
            limit=MOST_MEMBERS,
            deadline=deadline,
        )

    def _group(self, found: _Neighbours, taken: set[str], is_ready: Callable[[Memory], bool]) -> MemoryGroup | None:
        if found.seed.id in taken or not found.scores:
            return None
        near = self._store.memories.by_rows(list(found.scores), reach=project_reach(found.seed))
        others = [one for one in newest_first(near.values()) if one.id not in taken and is_ready(one)]
        members = coherent_group(found.seed, others)
        if len(members) > 1:
            members = self._without_conflicts(members)
        if len(members) < 2:  # noqa: PLR2004 - a single memory is no group
            return None
        similarity = min(found.scores.get(member.row, 1.0) for member in members)
        return MemoryGroup(newest_first(members), similarity)

    def _without_conflicts(self, members: Sequence[Memory]) -> list[Memory]:
        """Return the members without open conflicts that no undo separated from another one."""
        free: list[Memory] = []
        separated: set[str] = set()
        for member in members:
            reach = project_reach(member)
            earlier_merges = self.left_consolidations(member)
            is_in_conflict = self._store.conflicts.page(
                reach=reach, states=(ConflictState.OPEN,), memory_id=member.id, before="", limit=1
            )
            if not is_in_conflict and separated.isdisjoint(earlier_merges):
                free.append(member)
                separated |= earlier_merges
        return free

    def left_consolidations(self, memory: Memory) -> set[str]:
        """Return the ids of memories that *memory* was once merged into and is no longer."""
        if memory.revision < 3:  # noqa: PLR2004 - a merge and its undo are two changes
            return set()
        past = self._store.memories.revisions(memory.id, reach=project_reach(memory), before=None, limit=REVISIONS)
        return {
            one.memory.superseded_by_id
            for one in past
            if one.memory.superseded_by_id and one.memory.status is Status.ARCHIVED
        } - {memory.superseded_by_id}


@dataclass(frozen=True, slots=True)
class _Neighbours:
    """A memory and the similarity of the memories near it, by row."""

    seed: Memory
    scores: Mapping[int, float]


def project_reach(memory: Memory) -> Reach:
    """Return the reach of the project of a memory."""
    return Reach(memory.scope.owner, (memory.scope.project_id,))


def unchanged_since(moment: datetime) -> Callable[[Memory], bool]:
    """Return the test whether a memory was last changed before *moment*."""
    return lambda memory: memory.update_time < moment


def _is_comparable(memory: Memory) -> bool:
    return may_be_merged(memory) and gist_of(memory.content, memory.speaker) is not NOTHING


def _scores(seed: Memory, hits: Sequence[Hit], threshold: float) -> dict[int, float]:
    scores: dict[int, float] = {}
    for hit in hits:
        row = row_of(hit.entry_id)
        if row != seed.row and hit.score >= threshold:
            scores[row] = max(hit.score, scores.get(row, hit.score))
    return scores


# Equivalence is decided by text and fields, never by vectors alone.


def are_equivalent(one: Memory, other: Memory) -> bool:
    """Return whether one of two memories can replace both; in doubt it cannot.

    They agree in all other fields, do not contradict each other, and one states everything that the other states.
    Events are equal only on the same day, and pronouns such as "she" or "this" only under the same title.
    """
    if one.id == other.id or not (may_be_merged(one) and may_be_merged(other) and agree(one, other)):
        return False
    mine, theirs = _gist(one, other), _gist(other, one)
    if (mine.is_pointing or theirs.is_pointing) and (not one.title or one.title != other.title):
        return False
    if (mine.is_relative or theirs.is_relative) and not same_day_of_writing(one, other):
        return False
    is_lasting = one.kind in LASTING or (mine.is_lasting and theirs.is_lasting)
    if not is_lasting and not same_day(one, other):
        return False
    return are_alike(mine, theirs) and not find_contradiction(one, other) and not find_contradiction(other, one)


def coherent_group(seed: Memory, others: Iterable[Memory]) -> list[Memory]:
    """Return *seed* and those of *others* that are equivalent to it and to each other; earlier ones have priority."""
    members = [seed]
    for other in others:
        if len(members) < MOST_MEMBERS and all(are_equivalent(member, other) for member in members):
            members.append(other)
    return members


def are_coherent(members: Sequence[Memory]) -> bool:
    """Return whether at least two memories are all equivalent."""
    return len(members) > 1 and len(coherent_group(members[0], members[1:])) == len(members)


def _gist(memory: Memory, other: Memory) -> NormalizedText:
    """Return the normalised text of a memory, including a title that the other one does not have."""
    if not memory.title or memory.title.casefold() == other.title.casefold():
        return gist_of(memory.content, memory.speaker)
    return gist_of(f"{memory.title}\n{memory.content}", memory.speaker)


# Blocking: most memories cannot be equivalent to an earlier one, by their first sentence, and need no search.


class BlockingIndex:
    """Blocking keys of memories: those of the current pass over all memories, and those of the last complete pass.

    Equivalent memories have first sentences with the same letters or the same statement, and thus a common key; of two
    such memories the second one finds the key of the first. It is an optimisation only: if not all earlier memories are
    known, all are candidates.
    """

    def __init__(self, search_priority: SearchPriority) -> None:
        """Start empty."""
        self._search_priority = search_priority
        self._lock = threading.Lock()
        self._pass_id: Hashable = None
        self._keys: set[int] = set()
        self._complete_keys: set[int] | None = None

    def candidates(self, pass_id: Hashable, memories: Sequence[Memory], *, is_first: bool) -> list[Memory]:
        """Return those of the next *memories* of a pass that share a key with an earlier one, in their order.

        Yields to searches. A pass that continues after another one has started is not tracked: all its memories are
        candidates.
        """
        with self._lock:
            if is_first:
                self._pass_id, self._keys = pass_id, set()
            if self._pass_id != pass_id or len(self._keys) > MOST:
                self._pass_id, self._keys = None, set()
                return list(memories)
            return [memory for memory in memories if self._add_keys(memory, self._keys)]

    def finish_pass(self, pass_id: Hashable) -> None:
        """Treat a finished pass as complete: memories changed from now on are compared with its keys."""
        with self._lock:
            self._complete_keys = self._keys if self._pass_id == pass_id else None
            self._pass_id, self._keys = None, set()

    def changed_candidates(self, memories: Sequence[Memory]) -> list[Memory]:
        """Return those of the *memories* changed since the last complete pass that share a key with any."""
        with self._lock:
            if self._complete_keys is None or len(self._complete_keys) > MOST:
                self._complete_keys = None
                return list(memories)
            return [memory for memory in memories if self._add_keys(memory, self._complete_keys)]

    def _add_keys(self, memory: Memory, keys: set[int]) -> bool:
        self._search_priority.yield_to_searches()
        own_keys = set(_blocking_keys(memory))
        is_known = not own_keys.isdisjoint(keys)
        keys |= own_keys
        return is_known


def _blocking_keys(memory: Memory) -> Iterator[int]:
    place = (memory.scope.owner, memory.scope.project_id, memory.kind, memory.layer)
    texts = {memory.content, f"{memory.title}\n{memory.content}"} if memory.title else {memory.content}
    for text in texts:
        for said in gist_of(text, memory.speaker).said[:1]:
            yield hash((*place, "".join(sorted("".join(said.words)))))
            if said.stated:
                yield hash((*place, said.stated))
            if said.core:
                yield hash((*place, said.core))
