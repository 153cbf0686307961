"""What ranking needs of memories, kept in columns: exact where one process alone writes to the database."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from backends.sql.versions import Versions
from memsvc.domain.memory import Memory
from memsvc.domain.query import Candidate, candidate_of
from memsvc.domain.scope import Reach

NUMBERS = ("previous_row", "importance", "access_count", "create_time", "event_time")
SHARED = ("owner", "project_id", "session_id", "speaker", "layer", "status")
"""Texts that many memories have alike: one string is kept for all of them."""
COLUMNS = ("row", *NUMBERS, "id", *SHARED)
"""The columns of the table of memories, as `keep` expects them."""

_FIRST_SIZE = 1_024
_REMEMBERED = 16_384
"""Changes that only a reader who is under way needs to know of; when there were more it keeps nothing."""
_LOAD = 0.75
_NONE = np.iinfo(np.int64).min
_CANDIDATE: Callable[[Iterable[Any]], Candidate] = partial(tuple.__new__, Candidate)
"""Makes a candidate of a row, three times as fast as its class: a search makes hundreds."""
_OF_FIELDS = {"memory_id": "id"}
_FIELDS = itemgetter(*(COLUMNS.index(_OF_FIELDS.get(name, name)) for name in Candidate._fields))
_Integers: TypeAlias = npt.NDArray[np.int64]


class CandidateColumns:
    """A table of some 170 bytes for each memory, the place of a memory being its row modulo the size of the table.

    Rows are given out in order, and of those with the same place the latest has it. `Versions` says in which order to
    read, keep and forget.
    """

    def __init__(self, capacity: int) -> None:
        """Keep at most *capacity* memories, a power of two; 0: keep nothing."""
        self._capacity = capacity
        self._lock = threading.Lock()
        self._versions = Versions(_REMEMBERED)
        self._count = 0
        self._allocate(min(_FIRST_SIZE, capacity))

    @property
    def capacity(self) -> int:
        """Return how many can be kept."""
        return self._capacity

    @property
    def places(self) -> int:
        """Return how many can be kept before the table grows or something has to go."""
        return len(self._rows)

    @property
    def version(self) -> int:
        """Return the number to `keep` with what is read from now on."""
        return self._versions.number

    def found(self, rows: Sequence[int], reach: Reach) -> tuple[list[Candidate], list[int]]:
        """Return what is kept of *rows*, which differ, within the reach; and those of which nothing is kept."""
        if not self._capacity:
            return [], list(rows)
        wanted = np.array(rows, dtype=np.int64)
        with self._lock:
            places = wanted % len(self._rows)
            is_here = self._rows[places] == wanted
            missing = wanted[~is_here].tolist()
            if missing:
                wanted, places = wanted[is_here], places[is_here]
            numbers, texts = self._numbers[:, places], self._texts[:, places]
        return _within(reach, wanted.tolist(), numbers.tolist(), texts.tolist()), missing

    def keep(self, rows: Collection[Sequence[Any]], version: int) -> None:
        """Keep *rows*, each with the values of `COLUMNS`, but for those that were changed after *version*."""
        if not self._capacity or not rows:
            return
        with self._lock:
            outdated = self._versions.outdated([row[0] for row in rows], version)
            current = [row for row in rows if row[0] not in outdated] if outdated else rows
            if not current:
                return
            self._make_room(len(current))
            self._put(*zip(*current, strict=True))

    def forget(self, rows: Collection[int]) -> None:
        """Drop what is kept of changed rows; readers that are under way will not bring it back."""
        if not self._capacity or not rows:
            return
        changed = np.array(list(rows), dtype=np.int64)
        with self._lock:
            self._versions.note(rows)
            places = changed % len(self._rows)
            places = places[self._rows[places] == changed]
            self._rows[places] = _NONE
            self._texts[:, places] = None

    def _allocate(self, size: int) -> None:
        self._rows: _Integers = np.full(size, _NONE, dtype=np.int64)
        self._numbers: _Integers = np.zeros((len(NUMBERS), size), dtype=np.int64)
        self._texts: npt.NDArray[np.object_] = np.empty((1 + len(SHARED), size), dtype=object)

    def _make_room(self, count: int) -> None:
        """Double the table when it is nearly full, as long as it may grow."""
        self._count += count
        if self._count > _LOAD * len(self._rows):
            # Some of them were there before, or are not any more.
            self._count = count + int(np.count_nonzero(self._rows != _NONE))
        while self._count > _LOAD * len(self._rows) and len(self._rows) < self._capacity:
            kept = self._rows != _NONE
            rows, numbers, texts = self._rows[kept], self._numbers[:, kept], self._texts[:, kept]
            self._allocate(2 * len(self._rows))
            self._write(rows, numbers, texts)

    def _put(self, rows: Sequence[int], *columns: Sequence[Any]) -> None:
        numbers = [[_NONE if value is None else value for value in column] for column in columns[: len(NUMBERS)]]
        ids, shared = columns[len(NUMBERS)], columns[len(NUMBERS) + 1 :]
        texts = np.empty((1 + len(SHARED), len(rows)), dtype=object)
        texts[:] = [ids, *(list(map(sys.intern, column)) for column in shared)]
        self._write(np.array(rows, dtype=np.int64), np.array(numbers, dtype=np.int64), texts)

    def _write(self, rows: _Integers, numbers: _Integers, texts: npt.NDArray[np.object_]) -> None:
        # Of those with the same place the latest row has it, whichever is kept first.
        order = np.argsort(rows)
        order = order[rows[order] >= self._rows[rows[order] % len(self._rows)]]
        places, last = np.unique((rows[order] % len(self._rows))[::-1], return_index=True)
        chosen = order[::-1][last]
        self._rows[places] = rows[chosen]
        self._numbers[:, places] = numbers[:, chosen]
        self._texts[:, places] = texts[:, chosen]


def candidate_of_row(row: Sequence[Any]) -> Candidate:
    """Return the candidate of a row with the values of `COLUMNS`."""
    return _CANDIDATE(_FIELDS(row))


def row_of_memory(memory: Memory) -> tuple[Any, ...]:
    """Return the row with the values of `COLUMNS`."""
    c, scope = candidate_of(memory), memory.scope
    numbers = (c.previous_row, c.importance, c.access_count, c.create_time, c.event_time)
    return (c.row, *numbers, c.memory_id, scope.owner, scope.project_id, c.session_id, c.speaker, c.layer, c.status)


def _within(reach: Reach, rows: list[int], numbers: list[list[Any]], texts: list[list[str]]) -> list[Candidate]:
    """Make the candidates of columns, those out of reach left out."""
    previous, importance, access_count, create_time, event_time = numbers
    ids, owners, projects, sessions, speakers, layers, statuses = texts
    previous = [None if row == _NONE else row for row in previous]
    event_time = [None if moment == _NONE else moment for moment in event_time]
    fields = zip(
        rows, ids, previous, sessions, speakers, layers, statuses, importance, access_count, create_time, event_time,
        strict=True,
    )  # fmt: skip
    mine, seen = reach.owner, reach.project_ids
    return [
        _CANDIDATE(one)
        for one, owner, project in zip(fields, owners, projects, strict=True)
        if owner == mine and project in seen
    ]
