"""Columns that ranking needs of memories: a search ranks hundreds and returns ten."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import starmap
from typing import TypeAlias, overload

import numpy as np
import numpy.typing as npt

from memsvc.domain.index_entries import Hit
from memsvc.domain.search import Candidate

Integers: TypeAlias = npt.NDArray[np.int64]
Rows: TypeAlias = Sequence[int] | Integers
"""Rows of memories, in a list or in an array."""

ABSENT = int(np.iinfo(np.int64).min)
"""Marker for a number that a memory does not have."""
NUMBERS = ("row", "previous_row", "importance", "access_count", "create_time", "event_time", "cues")
TEXTS = ("session_id", "speaker", "layer", "status")
WIDTH = len(NUMBERS) + len(TEXTS)
"""How many columns there are."""
_ROW, _PREVIOUS, _IMPORTANCE, _USES, _CREATED, _HAPPENED, _CUES, _SESSION, _SPEAKER, _LAYER, _STATUS = range(WIDTH)


class Names:
    """Numbers for texts, equal ones for equal texts; the empty text has 0. Safe to call from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = {"": 0}
        self._texts = [""]

    def __len__(self) -> int:
        """Return how many texts have a number."""
        return len(self._texts)

    def number(self, text: str) -> int:
        """Return the number of a text, a new one if need be."""
        number = self._numbers.get(text)
        if number is None:
            with self._lock:
                if (number := self._numbers.get(text)) is None:
                    number = len(self._texts)
                    self._texts.append(text)
                    self._numbers[text] = number
        return number

    def find(self, text: str) -> int:
        """Return the number of a text, or -1 when it has none."""
        return self._numbers.get(text, -1)

    def text(self, number: int) -> str:
        """Return the text of a number."""
        return self._texts[number]


class Candidates(Sequence[Candidate]):
    """Memories by column; as a sequence, one after the other.

    Attributes:
        numbers: One row of it for each memory: first the `NUMBERS`, `ABSENT` where there is none, and times in
            microseconds; then the `TEXTS` as numbers of *names*. Further elements belong to the creator.
        ids: The memories' ids.
        names: The texts behind the numbers.
    """

    __slots__ = ("ids", "names", "numbers")

    def __init__(self, numbers: Integers, ids: npt.NDArray[np.object_], names: Names) -> None:
        self.numbers = numbers
        self.ids = ids
        self.names = names

    @classmethod
    def of(cls, candidates: Iterable[Candidate]) -> Candidates:
        """Return the columns of candidates."""
        names = Names()
        numbers = [
            (
                one.row,
                ABSENT if one.previous_row is None else one.previous_row,
                one.importance,
                one.access_count,
                one.create_time,
                ABSENT if one.event_time is None else one.event_time,
                one.cues,
                *map(names.number, (one.session_id, one.speaker, one.layer, one.status)),
                one.memory_id,
            )
            for one in candidates
        ]
        ids = objects([row[-1] for row in numbers])
        return cls(np.array([row[:-1] for row in numbers], dtype=np.int64).reshape(-1, WIDTH), ids, names)

    @property
    def rows(self) -> Integers:
        """Return the memories' rows."""
        return self.numbers[:, _ROW]

    @property
    def previous_rows(self) -> Integers:
        """Return the rows of the memories before them in their sessions, or `ABSENT`."""
        return self.numbers[:, _PREVIOUS]

    @property
    def importances(self) -> Integers:
        """Return how important they are, 1 to 5."""
        return self.numbers[:, _IMPORTANCE]

    @property
    def access_counts(self) -> Integers:
        """Return how often they were read."""
        return self.numbers[:, _USES]

    @property
    def create_times(self) -> Integers:
        """Return when they were written."""
        return self.numbers[:, _CREATED]

    @property
    def event_times(self) -> Integers:
        """Return when what they tell of happened, or `ABSENT`."""
        return self.numbers[:, _HAPPENED]

    @property
    def cues(self) -> Integers:
        """Return the cues of their contents, for `memsvc.text.ranking_cues.unpack_cues`."""
        return self.numbers[:, _CUES]

    @property
    def sessions(self) -> Integers:
        """Return their sessions, as numbers of *names*."""
        return self.numbers[:, _SESSION]

    @property
    def speakers(self) -> Integers:
        """Return who spoke them, as numbers of *names*."""
        return self.numbers[:, _SPEAKER]

    @property
    def layers(self) -> Integers:
        """Return their layers, as numbers of *names*."""
        return self.numbers[:, _LAYER]

    @property
    def statuses(self) -> Integers:
        """Return their statuses, as numbers of *names*."""
        return self.numbers[:, _STATUS]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.ids)

    @overload
    def __getitem__(self, place: int) -> Candidate: ...
    @overload
    def __getitem__(self, place: slice) -> list[Candidate]: ...
    def __getitem__(self, place: int | slice) -> Candidate | list[Candidate]:
        """Return a candidate, or several."""
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        row, previous, importance, uses, created, happened, cues, *texts = self.numbers[place, :WIDTH].tolist()
        session, speaker, layer, status = map(self.names.text, texts)
        return Candidate(
            row=row,
            memory_id=self.ids[place],
            previous_row=None if previous == ABSENT else previous,
            session_id=session,
            speaker=speaker,
            layer=layer,
            status=status,
            importance=importance,
            access_count=uses,
            create_time=created,
            event_time=None if happened == ABSENT else happened,
            cues=cues,
        )

    def where(self, chosen: npt.NDArray[np.bool_]) -> Candidates:
        """Return those that are chosen, in their order."""
        return self if chosen.all() else Candidates(self.numbers[chosen], self.ids[chosen], self.names)

    def join(self, others: Candidates) -> Candidates:
        """Return these, and after them the others."""
        if not len(others):
            return self
        numbers = others.numbers[:, :WIDTH].copy()
        if others.names is not self.names:
            texts, places = np.unique(numbers[:, _SESSION:], return_inverse=True)
            own = np.array([self.names.number(others.names.text(number)) for number in texts.tolist()], dtype=np.int64)
            numbers[:, _SESSION:] = own[places].reshape(-1, len(TEXTS))
        joined = np.concatenate([self.numbers[:, :WIDTH], numbers])
        return Candidates(joined, np.concatenate([self.ids, others.ids]), self.names)


def objects(values: Sequence[object]) -> npt.NDArray[np.object_]:
    """Return an array of any objects."""
    made = np.empty(len(values), dtype=object)
    made[:] = values
    return made


# Hits of a retriever in columns: a search handles hundreds of hits, most of them once and all together.


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
