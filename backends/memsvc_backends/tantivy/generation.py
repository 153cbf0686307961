"""One generation: a Tantivy index in a folder of its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tantivy import FieldType, Index, Order, Query, Schema, Searcher

from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.filters import Filter
from memsvc.domain.index_entries import LexicalEntry, LexicalManifest
from memsvc.domain.scope import Reach
from memsvc.ports.candidates import Hits
from memsvc.ports.derived_index import Listed
from memsvc_backends.tantivy.errors import translate
from memsvc_backends.tantivy.filters import selection
from memsvc_backends.tantivy.ranking import best_hits
from memsvc_backends.tantivy.schema import ENTRY, FINGERPRINT, ROW, build_schema, open_index
from memsvc_backends.tantivy.terms import Vocabulary, any_term
from memsvc_backends.tantivy.writer import TantivyWriter

_PAGE = 10_000


class _Seen(NamedTuple):
    """What searches see: one state of the index, and which one it is."""

    state: int
    searcher: Searcher
    vocabulary: Vocabulary


class TantivyGeneration:
    """A generation is made by `replace`, `seal` and `publish`; once it is live, every change is seen at once."""

    def __init__(self, directory: Path, manifest: LexicalManifest, *, heap_bytes: int, is_live: bool) -> None:
        """Open the generation in the directory, which exists.

        Raises:
            BackendUnavailableError: What is there cannot be read.
        """
        self.manifest = manifest
        self._directory = directory
        self._is_live = is_live
        self._is_discarded = False
        self._states = 0
        self._seen: _Seen | None = None
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
            self._seen = None
            self._index.reload()
            self._states += 1

    def _now(self) -> _Seen:
        seen, state = self._seen, self._states
        if seen is None or seen.state != state:
            searcher = self._index.searcher()
            seen = self._seen = _Seen(state, searcher, Vocabulary(searcher))
        return seen

    def search(self, terms: Sequence[str], *, reach: Reach, where: Filter | None, limit: int) -> Hits:
        """Return the best entries, equal scores by entry id."""
        with translate():
            seen = self._now()
            chosen = selection(self._schema, reach, where)
            wanted = any_term(self._schema, seen.vocabulary, terms).and_must_match(chosen)
            return best_hits(seen.searcher, wanted, limit=limit)

    def inventory(self) -> Iterator[Listed]:
        """List every entry as of the first step, ascending."""
        searcher, after = self._now().searcher, -1
        while True:
            with translate():
                later = Query.range_query(self._schema, ENTRY, FieldType.Integer, after, None, include_lower=False)
                found = searcher.search(later, _PAGE, count=False, order_by_field=ENTRY, order=Order.Asc).hits
                fingerprints = searcher.fast_field_values(FINGERPRINT, [address for _, address in found])
            for (entry, _), fingerprint in zip(found, fingerprints, strict=True):
                yield Listed(entry, int(fingerprint or 0))
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
