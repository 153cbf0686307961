"""What a retriever found, in columns: a search looks at hundreds of hits, most of them once and all together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import starmap
from typing import TypeAlias, overload

import numpy as np
import numpy.typing as npt

from memsvc.domain.index_entries import Hit
from memsvc.ports.candidates import Integers

Numbers: TypeAlias = npt.NDArray[np.float64]


class Hits(Sequence[Hit]):
    """Hits, best first: equal to any sequence of the same hits.

    Attributes:
        entries: The ids of the entries.
        scores: Their scores.
    """

    __slots__ = ("entries", "scores")
    __hash__ = None  # type: ignore[assignment]  # As that of a list.

    def __init__(self, entries: Integers, scores: Numbers) -> None:
        self.entries = entries
        self.scores = scores

    @classmethod
    def of(cls, hits: Sequence[Hit]) -> Hits:
        """Return the columns of hits."""
        if isinstance(hits, cls):
            return hits
        return cls(np.array([hit[0] for hit in hits], np.int64), np.array([hit[1] for hit in hits], np.float64))

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.entries)

    def __iter__(self) -> Iterator[Hit]:
        """Go through them, best first."""
        return starmap(Hit, zip(self.entries.tolist(), self.scores.tolist(), strict=True))

    @overload
    def __getitem__(self, place: int) -> Hit: ...
    @overload
    def __getitem__(self, place: slice) -> Hits: ...
    def __getitem__(self, place: int | slice) -> Hit | Hits:
        """Return a hit, or several."""
        if isinstance(place, slice):
            return Hits(self.entries[place], self.scores[place])
        return Hit(int(self.entries[place]), float(self.scores[place]))

    def __eq__(self, other: object) -> bool:
        """Return whether the other ones are the same hits in the same order."""
        return isinstance(other, Sequence) and [*self] == [*other]

    def __repr__(self) -> str:
        """Return the hits as those of a list."""
        return repr([*self])
