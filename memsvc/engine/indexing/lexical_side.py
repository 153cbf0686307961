"""The index of words, as the indexer sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from memsvc.domain.diagnostics import IndexKind
from memsvc.domain.index_entries import Document, LexicalEntry, LexicalManifest
from memsvc.engine.indexing.index_writers import Drafting, IndexSide, changes_of
from memsvc.engine.indexing.views import lexical_entries
from memsvc.ports.lexical import LexicalIndex
from memsvc.text.passages import ANALYSIS_VERSION


class LexicalIndexWriter(IndexSide[LexicalIndex]):
    """The index of words."""

    kind = IndexKind.LEXICAL

    def is_current(self) -> bool:
        """Return whether there is a live generation."""
        return self._index.manifest is not None

    def is_stale(self) -> bool:
        """Return whether none is live, or the live one was made by another analysis."""
        manifest = self._index.manifest
        return manifest is None or manifest.analysis != ANALYSIS_VERSION

    def write(self, rows: Sequence[int], documents: Sequence[Document]) -> None:
        """Make the live entries of *rows* those of *documents*; rows without a document have none."""
        self._index.replace(changes_of(rows, self._make(documents)))

    def draft(self, *, position: int, sample: Callable[[], Iterator[Document]], total: int) -> Drafting[LexicalEntry]:
        """Begin a generation as of *position*; words need no sample."""
        del sample, total
        manifest = LexicalManifest(self.generation() + 1, position, ANALYSIS_VERSION)
        return Drafting(manifest.generation, self._index.begin(manifest), self._make, self._index.switch)

    @staticmethod
    def _make(documents: Sequence[Document]) -> dict[int, list[LexicalEntry]]:
        return {document.memory.row: lexical_entries(document) for document in documents}
