"""Finding memories that say the same: by their vectors, and then by their words."""

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
    Group,
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
from memsvc.engine.indexing.cached_embedder import CachedEmbedder
from memsvc.engine.indexing.vector_entries import EmbeddingGranularity, VectorEntries, means_of
from memsvc.engine.records.memory_builder import find_contradiction
from memsvc.engine.runtime.search_priority import SEARCH_PRIORITY
from memsvc.ports.indexes import PendingSearch, VectorEntry, VectorIndex
from memsvc.ports.metadata import MetadataStore
from memsvc.text.paraphrase import NOTHING, NormalizedText, are_alike, gist_of

SLICE = 4
"""How many searches wait at a time. Whoever else searches waits behind them: with 64 they waited for seconds."""
REVISIONS = 100
"""How far back a memory's own history is asked for consolidations that were undone."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A memory with what was found near it."""

    seed: Memory
    scores: Mapping[int, float]


class CandidateFinder:
    """Finds groups around given memories. It only reads."""

    def __init__(
        self, store: MetadataStore, vectors: VectorIndex, embedding: CachedEmbedder, tier: EmbeddingGranularity
    ) -> None:
        """Search *vectors* with the vectors that *embedding* knows; *store* knows the memories."""
        self._store = store
        self._vectors = vectors
        self._embedding = embedding
        self._entries = VectorEntries(embedding, tier)

    def groups(
        self,
        seeds: Iterable[Memory],
        threshold: float,
        deadline: Deadline,
        *,
        is_ready: Callable[[Memory], bool] = lambda _: True,
    ) -> list[Group]:
        """Return the groups that the *seeds* are in, in their order; no memory is in two.

        Members are at least *threshold* like the seed, *is_ready*, in no open conflict, and no two of them were parted
        by undoing a consolidation.

        Raises:
            BackendUnavailableError: The index cannot be searched now.
            DeadlineExceededError: The deadline passed first.
        """
        waiting = [seed for seed in seeds if _is_comparable(seed) and is_ready(seed)]
        taken: set[str] = set()
        groups: list[Group] = []
        for start in range(0, len(waiting), SLICE):
            SEARCH_PRIORITY.yield_to_searches()
            for found in self._near(waiting[start : start + SLICE], threshold, deadline):
                group = self._group(found, taken, is_ready)
                if group is not None:
                    groups.append(group)
                    taken.update(member.id for member in group.members)
        return groups

    def _near(self, seeds: Sequence[Memory], threshold: float, deadline: Deadline) -> list[_Found]:
        """Return the rows near each seed with their similarity, its own left out."""
        manifest = self._vectors.manifest
        if manifest is None or manifest.model != self._embedding.model:
            raise BackendUnavailableError("vectors (the index is being built)")
        documents = self._store.feed.documents([seed.row for seed in seeds])
        entries = self._entries.entries(documents, means_of(manifest))
        pending = [
            (seed, self._begin(seed, next(iter(entries[seed.row])), deadline))
            for seed in seeds
            if entries.get(seed.row)
        ]
        return [_Found(seed, _scores(seed, search.result(), threshold)) for seed, search in pending]

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

    def _group(self, found: _Found, taken: set[str], is_ready: Callable[[Memory], bool]) -> Group | None:
        if found.seed.id in taken or not found.scores:
            return None
        near = self._store.memories.by_rows(list(found.scores), reach=project_reach(found.seed))
        others = [one for one in newest_first(near.values()) if one.id not in taken and is_ready(one)]
        members = coherent_groups(found.seed, others)
        if len(members) > 1:
            members = self._free(members)
        if len(members) < 2:  # noqa: PLR2004 - one alone is no group
            return None
        similarity = min(found.scores.get(member.row, 1.0) for member in members)
        return Group(newest_first(members), similarity)

    def _free(self, members: Sequence[Memory]) -> list[Memory]:
        """Return those that are in no open conflict, and were not parted from another one by an undo."""
        free: list[Memory] = []
        parted: set[str] = set()
        for member in members:
            reach = project_reach(member)
            was_in = self.left_consolidations(member)
            is_in_conflict = self._store.conflicts.page(
                reach=reach, states=(ConflictState.OPEN,), memory_id=member.id, before="", limit=1
            )
            if not is_in_conflict and parted.isdisjoint(was_in):
                free.append(member)
                parted |= was_in
        return free

    def left_consolidations(self, memory: Memory) -> set[str]:
        """Return the ids of the memories that *memory* was once merged into, and is no more."""
        if memory.revision < 3:  # noqa: PLR2004 - into one and out again takes two changes
            return set()
        past = self._store.memories.revisions(memory.id, reach=project_reach(memory), before=None, limit=REVISIONS)
        return {
            one.memory.superseded_by_id
            for one in past
            if one.memory.superseded_by_id and one.memory.status is Status.ARCHIVED
        } - {memory.superseded_by_id}


def project_reach(memory: Memory) -> Reach:
    """Return the one project that a memory lives in."""
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


# Which memories say the same: told by all that they say, never by their vectors alone.


def are_equivalent(one: Memory, other: Memory) -> bool:
    """Return whether one of two memories can take the place of both: every doubt speaks against it.

    They agree in all that is not text, do not contradict each other, and one says all that the other says. What is
    told of a day counts as the same only on the same day, and what "she" or "this" does only under the same title.
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


def coherent_groups(seed: Memory, others: Iterable[Memory]) -> list[Memory]:
    """Return *seed* with those of *others* that say the same as it and as each other; earlier ones go first."""
    members = [seed]
    for other in others:
        if len(members) < MOST_MEMBERS and all(are_equivalent(member, other) for member in members):
            members.append(other)
    return members


def are_coherent(members: Sequence[Memory]) -> bool:
    """Return whether all of at least two memories say the same."""
    return len(members) > 1 and len(coherent_groups(members[0], members[1:])) == len(members)


def _gist(memory: Memory, other: Memory) -> NormalizedText:
    """Return what a memory says; a title that the other has not belongs to it."""
    if not memory.title or memory.title.casefold() == other.title.casefold():
        return gist_of(memory.content, memory.speaker)
    return gist_of(f"{memory.title}\n{memory.content}", memory.speaker)


# Which memories of many can say the same as an earlier one at all: told without a search, by what they begin with.


MOST = 1_000_000
"""So many beginnings are remembered; of memories beyond them all are taken."""


class BlockingIndex:
    """Remembers how memories begin, those of one pass over all of them and those that were changed since.

    Of memories that say the same the first sentences do, so they have the same letters or state the same; and of two
    such memories the second one meets the first. Only a help: where not all that came before is remembered, all are
    taken.
    """

    def __init__(self) -> None:
        """Remember nothing yet."""
        self._lock = threading.Lock()
        self._pass: Hashable = None
        self._met: set[int] = set()
        self._all: set[int] | None = None

    def candidates(self, walk: Hashable, memories: Sequence[Memory], *, is_first: bool) -> list[Memory]:
        """Return those of the next *memories* of a *walk* that begin as one before them, in their order.

        Searches go first. A walk that goes on after another one has begun is not remembered: then all are returned.
        """
        with self._lock:
            if is_first:
                self._pass, self._met = walk, set()
            if self._pass != walk or len(self._met) > MOST:
                self._pass, self._met = None, set()
                return list(memories)
            return [memory for memory in memories if _meets(memory, self._met)]

    def finish_pass(self, walk: Hashable) -> None:
        """Take a walk that is over for one over all memories: what changes from now on is compared with them."""
        with self._lock:
            self._all = self._met if self._pass == walk else None
            self._pass, self._met = None, set()

    def changed_candidates(self, memories: Sequence[Memory]) -> list[Memory]:
        """Return those of *memories* changed since the last finished walk that begin as any memory, or as they did."""
        with self._lock:
            if self._all is None or len(self._all) > MOST:
                self._all = None
                return list(memories)
            return [memory for memory in memories if _meets(memory, self._all)]


def _meets(memory: Memory, met: set[int]) -> bool:
    SEARCH_PRIORITY.yield_to_searches()
    marks = set(_marks(memory))
    is_known = not marks.isdisjoint(met)
    met |= marks
    return is_known


def _marks(memory: Memory) -> Iterator[int]:
    place = (memory.scope.owner, memory.scope.project_id, memory.kind, memory.layer)
    texts = {memory.content, f"{memory.title}\n{memory.content}"} if memory.title else {memory.content}
    for text in texts:
        for said in gist_of(text, memory.speaker).said[:1]:
            yield hash((*place, "".join(sorted("".join(said.words)))))
            if said.stated:
                yield hash((*place, said.stated))
