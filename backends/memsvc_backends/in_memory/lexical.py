"""The plain full-text index: BM25 written out, over every entry at every search."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from threading import Lock

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendClosedError, DeadlineExceededError
from memsvc.domain.filter_evaluation import matches, within
from memsvc.domain.filters import Filter
from memsvc.domain.index_entries import Hit, LexicalEntry, LexicalManifest
from memsvc.domain.scope import Reach
from memsvc.ports.indexes import FUZZY_BOOST, FUZZY_MIN_LENGTH, Generation, LexicalIndex, ListedEntry
from memsvc.ports.plugin import BackendContext, BackendSettings, BackendSpec
from memsvc.text.bm25 import is_one_edit, length_norm, rarity, saturation

NAME = "in-memory lexical"


@dataclass(frozen=True, slots=True)
class _CountedEntry:
    """An entry with its terms counted."""

    entry: LexicalEntry
    terms: Counter[str]
    length: int


class InMemoryLexicalGeneration:
    """The entries of one generation, by the row of their memory."""

    def __init__(self, manifest: LexicalManifest) -> None:
        self.manifest = manifest
        self._memories: dict[int, tuple[_CountedEntry, ...]] = {}
        self._lock = Lock()

    def replace(self, changes: Mapping[int, Sequence[LexicalEntry]]) -> None:
        """Make the entries of each memory exactly those given."""
        counted = {
            row: tuple(_CountedEntry(entry, Counter(entry.terms), len(entry.terms)) for entry in entries)
            for row, entries in changes.items()
        }
        with self._lock:
            for row, entries in counted.items():
                self._memories.pop(row, None)
                if entries:
                    self._memories[row] = entries

    def seal(self) -> None:
        """Do nothing: all is in place."""

    def discard(self) -> None:
        """Do nothing: nothing is kept of a generation that no index holds."""

    def entries(self) -> list[_CountedEntry]:
        """Return all entries as of now."""
        with self._lock:
            return [entry for entries in self._memories.values() for entry in entries]


class InMemoryLexicalIndex:
    """BM25 over terms kept in a dict; nothing survives closing."""

    is_shared = False

    def __init__(self) -> None:
        self._live: InMemoryLexicalGeneration | None = None
        self._is_closed = False

    @property
    def manifest(self) -> LexicalManifest | None:
        """Return the manifest of the live generation, or None when there is none."""
        live = self._open()
        return None if live is None else live.manifest

    def replace(self, changes: Mapping[int, Sequence[LexicalEntry]]) -> None:
        """Make the entries of each memory exactly those given."""
        live = self._open()
        if live is None:
            message = "The index has no generation yet."
            raise ValueError(message)
        live.replace(changes)

    def search(
        self, terms: Sequence[str], *, reach: Reach, where: Filter | None = None, limit: int, deadline: Deadline
    ) -> list[Hit]:
        """Return the entries that hold one of the terms or more, best first, equal scores by entry id."""
        live = self._open()
        if deadline.has_passed():
            raise DeadlineExceededError(NAME)
        scores = _scores([] if live is None else live.entries(), terms)
        hits = [
            Hit(entry.entry_id, score)
            for entry, score in scores
            if within(reach, entry.attributes) and matches(where, entry.attributes)
        ]
        return sorted(hits, key=lambda hit: (-hit.score, hit.entry_id))[:limit]

    def begin(self, manifest: LexicalManifest) -> Generation[LexicalEntry]:
        """Start an empty generation."""
        self._open()
        return InMemoryLexicalGeneration(manifest)

    def switch(self, generation: Generation[LexicalEntry]) -> None:
        """Make the generation the live one."""
        self._open()
        if not isinstance(generation, InMemoryLexicalGeneration):
            message = "The generation is another index's."
            raise TypeError(message)
        self._live = generation

    def inventory(self) -> Iterator[ListedEntry]:
        """List every entry as of the call."""
        return iter([ListedEntry(entry.entry_id, entry.attributes.fingerprint) for entry in self._entries()])

    def count(self, *, reach: Reach | None = None) -> int:
        """Return the number of entries: those in *reach*, or all."""
        return sum(reach is None or within(reach, entry.attributes) for entry in self._entries())

    def storage_bytes(self) -> int:
        """Return 0: nothing is on disk."""
        self._open()
        return 0

    def ping(self) -> None:
        """Return while the index is open."""
        self._open()

    def close(self) -> None:
        """Refuse every later use."""
        self._is_closed = True
        self._live = None

    def _open(self) -> InMemoryLexicalGeneration | None:
        if self._is_closed:
            raise BackendClosedError(NAME)
        return self._live

    def _entries(self) -> list[LexicalEntry]:
        live = self._open()
        return [] if live is None else [counted.entry for counted in live.entries()]


def _scores(entries: Sequence[_CountedEntry], terms: Sequence[str]) -> list[tuple[LexicalEntry, float]]:
    average = sum(counted.length for counted in entries) / max(len(entries), 1)
    shares: list[dict[int, float]] = [_shares(entries, term, average) for term in terms]
    return [
        (counted.entry, math.fsum(share.get(place, 0.0) for share in shares))
        for place, counted in enumerate(entries)
        if any(place in share for share in shares)
    ]


def _shares(entries: Sequence[_CountedEntry], term: str, average: float) -> dict[int, float]:
    """Return what a term adds to the score of each entry, by the entry's place."""
    holding = {place: counted for place, counted in enumerate(entries) if term in counted.terms}
    if not holding and len(term) >= FUZZY_MIN_LENGTH:
        return {
            place: FUZZY_BOOST
            for place, counted in enumerate(entries)
            if any(is_one_edit(term, held) for held in counted.terms)
        }
    weight = rarity(len(entries), len(holding))
    return {
        place: weight * saturation(counted.terms[term], length_norm(counted.length, average))
        for place, counted in holding.items()
    }


def _open(_settings: BackendSettings, _context: BackendContext) -> AbstractContextManager[LexicalIndex]:
    return closing(InMemoryLexicalIndex())


LEXICAL: BackendSpec[LexicalIndex] = BackendSpec(settings=BackendSettings, open=_open)
