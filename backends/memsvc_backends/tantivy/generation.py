"""One generation: a Tantivy index in a folder of its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from tantivy import FieldType, Index, Occur, Order, Query, Schema, Searcher

from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.filters import Filter, FilterMemo
from memsvc.domain.index_entries import LexicalEntry, LexicalManifest
from memsvc.domain.scope import Reach
from memsvc.ports.candidates import Hits
from memsvc.ports.indexes import FUZZY_BOOST, FUZZY_MIN_LENGTH, ListedEntry
from memsvc.text.bm25 import rarity
from memsvc_backends.tantivy.schema import (
    BODY,
    ENTRY,
    FINGERPRINT,
    OWNER,
    ROW,
    TERMS,
    build_schema,
    filter_term,
    open_index,
    owner_mark,
    selection,
    term_key,
    translate,
)
from memsvc_backends.tantivy.writer import TantivyWriter

_PAGE = 10_000
_HALF = np.uint32(1 << 3)
_KEPT_BITS = np.uint32(0xFFFF_FFF0)
"""Six digits of a score."""
_MARGIN = 16
_GROWTH = 4
_MOST = 16_384
"""Of more entries than this with the same score at the limit, those are returned that Tantivy meets first."""
_FUZZY_MAX_LENGTH = 255
"""The automaton of a longer term costs more than it is worth; such terms are matched exactly alone."""
_SURELY_HELD = 1000
_MOST_WORDS = 20_000


class _Snapshot(NamedTuple):
    """Snapshot of the index for searches, and its number."""

    state: int
    searcher: Searcher
    vocabulary: TermVocabulary


class TantivyGeneration:
    """A generation is made by `replace`, `seal` and `publish`; once it is live, every change is seen at once."""

    def __init__(self, directory: Path, manifest: LexicalManifest, *, heap_bytes: int, is_live: bool) -> None:
        """Open the generation in the directory, which exists.

        Raises:
            BackendUnavailableError: The existing index cannot be read.
        """
        self.manifest = manifest
        self._directory = directory
        self._is_live = is_live
        self._is_discarded = False
        self._states = 0
        self._snapshot: _Snapshot | None = None
        self._filters: FilterMemo[Query] = FilterMemo()
        with translate():
            self._schema: Schema = build_schema()
            self._index: Index = open_index(directory, self._schema)
            searcher = self._now().searcher
            newest = searcher.search(Query.all_query(), 1, count=False, order_by_field=ROW, order=Order.Desc)
        highest = newest.hits[0][0] if newest.hits else -1
        self._writer = TantivyWriter(self._index, heap_bytes=heap_bytes, highest_row=highest)

    def replace(self, changes: Mapping[int, Sequence[LexicalEntry]]) -> None:
        """Make the entries of each memory exactly those given; kept and seen at once when the generation is live."""
        if self._is_live:
            self._writer.write(changes)
            self._refresh()
        else:
            self._writer.apply(changes)

    def seal(self) -> None:
        """Write all to the disk and wait for the merging of segments."""
        self._writer.commit()
        self._writer.settle()

    def publish(self) -> None:
        """Write the rest to the disk and let searches see it."""
        self._writer.commit()
        self._refresh()

    def go_live(self) -> None:
        """Show every change at once from now on, and take `discard` for harmless."""
        self._is_live = True

    def discard(self) -> None:
        """Remove the generation, unless it went live."""
        if not self._is_live and not self._is_discarded:
            self._is_discarded = True
            self.remove()

    def remove(self) -> None:
        """Close the generation and remove its folder; searches that run may go on to their end."""
        self.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def close(self) -> None:
        """Give the writer and its threads back. What is not committed is lost."""
        try:
            self._writer.close()
        except BackendUnavailableError:
            # A writer that failed has no threads left; the entries committed so far are on the disk.
            return

    def _refresh(self) -> None:
        """Let searches see what was committed.

        The last one to hold the state before closes its files, which takes milliseconds: `reload` does so while other
        threads run, letting go of a searcher does not. So the searcher goes first, and the next search takes a new one.
        """
        with translate():
            self._snapshot = None
            self._index.reload()
            self._states += 1

    def _now(self) -> _Snapshot:
        seen, state = self._snapshot, self._states
        if seen is None or seen.state != state:
            searcher = self._index.searcher()
            seen = self._snapshot = _Snapshot(state, searcher, TermVocabulary(searcher))
        return seen

    def search(self, terms: Sequence[str], *, reach: Reach, where: Filter | None, limit: int) -> Hits:
        """Return the best entries, equal scores by entry id."""
        with translate():
            seen = self._now()
            chosen = selection(self._schema, reach, where, self._filters)
            wanted = any_term(self._schema, seen.vocabulary, reach.owner, terms).and_must_match(chosen)
            return best_hits(seen.searcher, wanted, limit=limit)

    def inventory(self) -> Iterator[ListedEntry]:
        """List every entry as of the first step, ascending."""
        searcher, after = self._now().searcher, -1
        while True:
            with translate():
                later = Query.range_query(self._schema, ENTRY, FieldType.Integer, after, None, include_lower=False)
                found = searcher.search(later, _PAGE, count=False, order_by_field=ENTRY, order=Order.Asc).hits
                fingerprints = searcher.fast_field_values(FINGERPRINT, [address for _, address in found])
            for (entry, _), fingerprint in zip(found, fingerprints, strict=True):
                yield ListedEntry(entry, int(fingerprint or 0))
            if len(found) < _PAGE:
                return
            after = found[-1][0]

    def count(self, reach: Reach | None) -> int:
        """Return the number of entries in the reach, or of all."""
        with translate():
            if reach is None:
                return self._now().searcher.num_docs
            found = self._now().searcher.search(selection(self._schema, reach, None), 1, count=True)
            return int(found.count)  # type: ignore[attr-defined]  # Missing from the stubs alone.

    def ping(self) -> None:
        """Return when the index can be read."""
        with translate():
            self._now().searcher.search(Query.all_query(), 1, count=False)


# The best hits in an order that does not depend on how the index happens to be cut into segments.


def best_hits(searcher: Searcher, query: Query, *, limit: int) -> Hits:
    """Return the best *limit* entries, equal scores by entry id."""
    # Tantivy allocates for as many hits as are asked for (and aborts the process), and panics at none.
    total = searcher.num_docs
    if min(limit, total) < 1:
        return Hits.of(())
    wanted = min(limit + _MARGIN, total)
    found = searcher.search(query, wanted, count=False).hits
    while (
        len(found) == wanted and wanted < min(total, max(_MOST, limit)) and _is_tied(found[limit - 1][0], found[-1][0])
    ):
        wanted = min(wanted * _GROWTH, total)
        found = searcher.search(query, wanted, count=False).hits
    entries = np.array(searcher.fast_field_values(ENTRY, [address for _, address in found]), np.int64)
    scores = _round_scores([score for score, _ in found])
    order = np.lexsort((entries, -scores))[:limit]
    return Hits(entries[order], scores[order].astype(np.float64))


def _is_tied(one: float, other: float) -> bool:
    first, second = _round_scores([one, other])
    return bool(first == second)


def _round_scores(scores: Sequence[float]) -> npt.NDArray[np.float32]:
    # The sum of several terms differs in the last bits with the order of addition, which differs by segment.
    bits = np.array(scores, np.float32).view(np.uint32)
    return ((bits + _HALF) & _KEPT_BITS).view(np.float32)


# Search terms as Tantivy's query. No term ever meets a query parser.


class TermVocabulary:
    """Cached look-ups of terms in one state of an index."""

    def __init__(self, searcher: Searcher) -> None:
        """Look them up by *searcher*, which sees one state for ever."""
        self._searcher = searcher
        self._total = searcher.num_docs
        self._known_terms: dict[str, bool] = {}

    def holds(self, key: str, exact: Query) -> bool:
        """Return whether an entry holds a term; *exact* is the query for it."""
        held = self._known_terms.get(key)
        if held is None:
            if len(self._known_terms) >= _MOST_WORDS:
                self._known_terms.clear()
            held = self._known_terms[key] = _has_term(self._searcher, key, exact)
        return held

    def entries(self, owner: str) -> int:
        """Return the number of an owner's entries; removed ones count until their segment is merged."""
        return int(self._searcher.doc_freq(TERMS, filter_term(OWNER, owner)))

    def boost(self, key: str, entries: int) -> float:
        """Return the rarity of a term among its owner's *entries*, divided by that which Tantivy computes.

        Tantivy counts the entries of all owners.
        """
        held = self._searcher.doc_freq(BODY, key)
        return rarity(max(entries, held), held) / rarity(max(self._total, held), held)


def any_term(schema: Schema, vocabulary: TermVocabulary, owner: str, terms: Sequence[str]) -> Query:
    """Return the query for an owner's entries that hold one of the terms or more, scored by BM25."""
    entries, mark = vocabulary.entries(owner), owner_mark(owner)
    return Query.boolean_query([(Occur.Should, _query_of(schema, vocabulary, entries, mark, term)) for term in terms])


def _query_of(schema: Schema, vocabulary: TermVocabulary, entries: int, mark: str, term: str) -> Query:
    key = term_key(mark, term)
    exact = Query.term_query(schema, BODY, key, "freq")
    if not FUZZY_MIN_LENGTH <= len(term) <= _FUZZY_MAX_LENGTH or vocabulary.holds(key, exact):
        return Query.boost_query(exact, vocabulary.boost(key, entries))
    near = Query.fuzzy_term_query(schema, BODY, key, distance=1, transposition_cost_one=True)
    return Query.boost_query(near, FUZZY_BOOST)


def _has_term(searcher: Searcher, key: str, exact: Query) -> bool:
    # The frequency counts removed entries until their segment is merged, so a small one is looked into.
    frequency = searcher.doc_freq(BODY, key)
    if frequency == 0 or frequency > _SURELY_HELD:
        return frequency > 0
    return bool(searcher.search(exact, 1, count=False).hits)
