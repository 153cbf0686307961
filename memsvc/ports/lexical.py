"""The port to the full-text index. Text analysis is not its job: it is given terms, and searched with terms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from memsvc.domain.clock import Deadline
from memsvc.domain.filters import Filter
from memsvc.domain.index_entries import Hit, LexicalEntry, LexicalManifest
from memsvc.domain.scope import Reach
from memsvc.ports.indexes import DerivedIndex, Generation

FUZZY_MIN_LENGTH = 5
"""Query terms of at least this many characters may be matched one edit away."""
FUZZY_BOOST = 3.0


class LexicalIndex(DerivedIndex[LexicalEntry], Protocol):
    """BM25 over terms (k1 = 1.2, b = 0.75; Robertson and Zaragoza, 2009).

    It holds a filter of every field of `memsvc.domain.index_entries.Attributes`, before the top *limit* is chosen.
    Document frequencies may count all owners' entries.
    """

    @property
    def manifest(self) -> LexicalManifest | None:
        """Return the manifest of the live generation, or None when there is none."""
        ...

    def search(
        self, terms: Sequence[str], *, reach: Reach, where: Filter | None = None, limit: int, deadline: Deadline
    ) -> Sequence[Hit]:
        """Return at most *limit* entries that hold one of *terms* or more, best first, equal scores by entry id.

        A term of `FUZZY_MIN_LENGTH` characters or more that no entry holds is matched one edit away, with the
        boost `FUZZY_BOOST`. Terms are matched as they are; no character has a meaning. No terms: no hits.
        Scores are positive; they compare within one call only.

        Raises:
            DeadlineExceededError: The deadline passed first.
            BackendUnavailableError: The index cannot be read.
            BackendClosedError: The index was closed.
        """
        ...

    def begin(self, manifest: LexicalManifest) -> Generation[LexicalEntry]:
        """Start a generation with this manifest; its number must be larger than the live one's.

        Raises:
            ReindexRunningError: Another process that shares the index is making one, or has just made it.
        """
        ...

    def switch(self, generation: Generation[LexicalEntry]) -> None:
        """Make a sealed generation the live one, for good, in one step, and remove the one before.

        A search sees the old one or the new one, never both or neither.
        """
        ...
