"""Reference indexes in memory: BM25 and cosine similarity computed over every entry at every search."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import ClassVar, Generic, TypeVar

import numpy as np

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendClosedError, DeadlineExceededError, DimensionMismatchError
from memsvc.domain.filter_evaluation import matches, within
from memsvc.domain.filters import Filter
from memsvc.domain.index_entries import Hit, LexicalEntry, LexicalManifest, VectorManifest, View
from memsvc.domain.scope import Reach
from memsvc.ports.indexes import (
    FUZZY_BOOST,
    FUZZY_MIN_LENGTH,
    DeferredSearch,
    Generation,
    LexicalIndex,
    ListedEntry,
    PendingSearch,
    VectorEntry,
    VectorIndex,
)
from memsvc.ports.models import Vector
from memsvc.ports.plugin import BackendContext, BackendSettings, BackendSpec
from memsvc.text.bm25 import is_one_edit, length_norm, rarity, saturation

LEXICAL_NAME, VECTORS_NAME = "in-memory lexical", "in-memory vectors"

E = TypeVar("E", LexicalEntry, VectorEntry)
M = TypeVar("M", LexicalManifest, VectorManifest)


class InMemoryGeneration(Generic[E, M]):
    """The entries of one generation, by the row of their memory."""

    def __init__(self, manifest: M) -> None:
        self.manifest: M = manifest
        self._memories: dict[int, tuple[E, ...]] = {}
        self._lock = Lock()

    def replace(self, changes: Mapping[int, Sequence[E]]) -> None:
        """Replace the entries of each memory by those given."""
        accepted = {row: tuple(map(self.accept, entries)) for row, entries in changes.items()}
        with self._lock:
            for row, entries in accepted.items():
                self._memories.pop(row, None)
                if entries:
                    self._memories[row] = entries

    def accept(self, entry: E) -> E:
        """Return *entry* as it is kept."""
        return entry

    def seal(self) -> None:
        """Do nothing."""

    def discard(self) -> None:
        """Do nothing: a generation that no index refers to is garbage."""

    def entries(self) -> list[E]:
        """Return a snapshot of all entries."""
        with self._lock:
            return [entry for entries in self._memories.values() for entry in entries]


class InMemoryIndex(ABC, Generic[E, M]):
    """Common parts of both indexes. Nothing survives `close`."""

    is_shared = False
    name: ClassVar[str]

    def __init__(self) -> None:
        self._live: InMemoryGeneration[E, M] | None = None
        self._is_closed = False

    @property
    def manifest(self) -> M | None:
        """Return the manifest of the live generation, or None without one."""
        live = self._open()
        return None if live is None else live.manifest

    def replace(self, changes: Mapping[int, Sequence[E]]) -> None:
        """Replace the entries of each memory by those given."""
        live = self._open()
        if live is None:
            message = "The index has no generation yet."
            raise ValueError(message)
        live.replace(changes)

    def begin(self, manifest: M) -> Generation[E]:
        """Start an empty generation."""
        self._open()
        return self._generation(manifest)

    @abstractmethod
    def _generation(self, manifest: M) -> InMemoryGeneration[E, M]: ...

    def switch(self, generation: Generation[E]) -> None:
        """Make the generation live."""
        self._open()
        if not isinstance(generation, InMemoryGeneration):
            message = "The generation belongs to another index."
            raise TypeError(message)
        self._live = generation

    def inventory(self) -> Iterator[ListedEntry]:
        """Return a snapshot of all entries."""
        return iter([ListedEntry(entry.entry_id, entry.attributes.fingerprint) for entry in self._entries()])

    def count(self, *, reach: Reach | None = None) -> int:
        """Return the number of entries in *reach*, or of all."""
        return sum(reach is None or within(reach, entry.attributes) for entry in self._entries())

    def storage_bytes(self) -> int:
        """Return 0: nothing is on disk."""
        self._open()
        return 0

    def ping(self) -> None:
        """Return if the index is open."""
        self._open()

    def close(self) -> None:
        """Drop all entries and refuse later calls."""
        self._is_closed = True
        self._live = None

    def _open(self) -> InMemoryGeneration[E, M] | None:
        if self._is_closed:
            raise BackendClosedError(self.name)
        return self._live

    def _entries(self) -> list[E]:
        live = self._open()
        return [] if live is None else live.entries()


@dataclass(frozen=True, slots=True)
class _CountedEntry(LexicalEntry):
    """An entry with its terms counted, once for all searches."""

    counts: Counter[str]


class _LexicalGeneration(InMemoryGeneration[LexicalEntry, LexicalManifest]):
    def accept(self, entry: LexicalEntry) -> LexicalEntry:
        return _CountedEntry(entry.entry_id, entry.terms, entry.attributes, Counter(entry.terms))


class InMemoryLexicalIndex(InMemoryIndex[LexicalEntry, LexicalManifest]):
    """`memsvc.ports.indexes.LexicalIndex`: BM25 over the entries of an owner."""

    name = LEXICAL_NAME

    def search(
        self, terms: Sequence[str], *, reach: Reach, where: Filter | None = None, limit: int, deadline: Deadline
    ) -> list[Hit]:
        """Return the entries that contain any of the terms, best first, equal scores by entry id."""
        entries = [
            entry
            for entry in self._entries()
            if isinstance(entry, _CountedEntry) and entry.attributes.owner == reach.owner
        ]
        if deadline.has_passed():
            raise DeadlineExceededError(self.name)
        hits = [
            Hit(entry.entry_id, score)
            for entry, score in _scores(entries, terms, self.mean_length(reach.owner))
            if within(reach, entry.attributes) and matches(where, entry.attributes)
        ]
        return sorted(hits, key=lambda hit: (-hit.score, hit.entry_id))[:limit]

    def mean_length(self, owner: str) -> float:
        """Return the mean number of terms of the owner's entries."""
        lengths = [len(entry.terms) for entry in self._entries() if entry.attributes.owner == owner]
        return sum(lengths) / max(len(lengths), 1)

    def _generation(self, manifest: LexicalManifest) -> InMemoryGeneration[LexicalEntry, LexicalManifest]:
        return _LexicalGeneration(manifest)


def _scores(entries: Sequence[_CountedEntry], terms: Sequence[str], average: float) -> list[tuple[LexicalEntry, float]]:
    shares: list[dict[int, float]] = [_shares(entries, term, average) for term in terms]
    return [
        (entry, math.fsum(share.get(place, 0.0) for share in shares))
        for place, entry in enumerate(entries)
        if any(place in share for share in shares)
    ]


def _shares(entries: Sequence[_CountedEntry], term: str, average: float) -> dict[int, float]:
    """Return the share of a term in the score of each entry, by the index of the entry."""
    matching = {place: entry for place, entry in enumerate(entries) if term in entry.counts}
    if not matching and len(term) >= FUZZY_MIN_LENGTH:
        return {
            place: FUZZY_BOOST
            for place, entry in enumerate(entries)
            if any(is_one_edit(term, other) for other in entry.counts)
        }
    weight = rarity(len(entries), len(matching))
    return {
        place: weight * saturation(entry.counts[term], length_norm(len(entry.terms), average))
        for place, entry in matching.items()
    }


class _VectorGeneration(InMemoryGeneration[VectorEntry, VectorManifest]):
    def accept(self, entry: VectorEntry) -> VectorEntry:
        require_dimension(self.manifest, entry.vector)
        return entry


class InMemoryVectorIndex(InMemoryIndex[VectorEntry, VectorManifest]):
    """`memsvc.ports.indexes.VectorIndex`: cosine similarity with all entries."""

    name = VECTORS_NAME

    def search(
        self, vector: Vector, *, view: View, reach: Reach, where: Filter | None = None, limit: int, deadline: Deadline
    ) -> list[Hit]:
        """Return the entries of the view nearest to the vector, best first, equal scores by entry id."""
        live = self._open()
        if deadline.has_passed():
            raise DeadlineExceededError(self.name)
        if live is None:
            return []
        require_dimension(live.manifest, vector)
        hits = [
            Hit(entry.entry_id, _cosine(entry.vector, vector))
            for entry in live.entries()
            if entry.view == view and within(reach, entry.attributes) and matches(where, entry.attributes)
        ]
        return sorted(hits, key=lambda hit: (-hit.score, hit.entry_id))[:limit]

    def begin_search(
        self, vector: Vector, *, view: View, reach: Reach, where: Filter | None = None, limit: int, deadline: Deadline
    ) -> PendingSearch:
        """Return a search that runs when its result is requested."""
        return DeferredSearch(
            partial(self.search, vector, view=view, reach=reach, where=where, limit=limit, deadline=deadline)
        )

    def unsealed_count(self) -> int:
        """Return 0: all entries are searched in the same way."""
        self._open()
        return 0

    def wants_graph(self) -> bool:
        """Return False: there are no graphs."""
        self._open()
        return False

    def _generation(self, manifest: VectorManifest) -> InMemoryGeneration[VectorEntry, VectorManifest]:
        return _VectorGeneration(manifest)


def require_dimension(manifest: VectorManifest, vector: Vector) -> None:
    """Raise DimensionMismatchError unless the vector has the length of the manifest."""
    if vector.shape != (manifest.dimension,):
        raise DimensionMismatchError(manifest.dimension, vector.size)


def _cosine(one: Vector, other: Vector) -> float:
    length = float(np.linalg.norm(one)) * float(np.linalg.norm(other))
    return float(one @ other) / length if length else 0.0


def _open_lexical(_settings: BackendSettings, _context: BackendContext) -> AbstractContextManager[LexicalIndex]:
    return closing(InMemoryLexicalIndex())


def _open_vectors(_settings: BackendSettings, _context: BackendContext) -> AbstractContextManager[VectorIndex]:
    return closing(InMemoryVectorIndex())


LEXICAL: BackendSpec[LexicalIndex] = BackendSpec(settings=BackendSettings, open=_open_lexical)
"""The entry point `in-memory` of lexical indexes."""
VECTORS: BackendSpec[VectorIndex] = BackendSpec(settings=BackendSettings, open=_open_vectors)
"""The entry point `in-memory` of vector indexes."""
