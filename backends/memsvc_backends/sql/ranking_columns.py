"""Ranking columns of memories and a cache of rows, in memory: exact where one process alone writes to the database."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import reduce
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from memsvc.domain.errors import MemsvcError
from memsvc.domain.lru_cache import LruCache
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach
from memsvc.domain.search import candidate_of
from memsvc.domain.visibility import is_default_visible
from memsvc.ports.candidates import ABSENT, NUMBERS, TEXTS, WIDTH, Candidates, Integers, Names, Rows, objects
from memsvc.text.ranking_cues import pack_cues
from memsvc_backends.sql.database import Database
from memsvc_backends.sql.dialect import cached_statement, execute
from memsvc_backends.sql.tables import ONE, ZERO, memories

COLUMNS = (*NUMBERS, *TEXTS, "owner", "project_id", "plain", "id")
"""What `keep` expects of a memory, in this order."""
_IS_PLAIN = sa.and_(
    memories.c.status == sa.literal_column("'ACTIVE'"),
    memories.c.tier != sa.literal_column("'ARCHIVED'"),
    memories.c.layer != sa.literal_column("'SESSION'"),
    *(memories.c[name].is_(None) for name in ("expire_time", "valid_from", "valid_to")),
)
"""What `memsvc.domain.visibility.is_default_visible` says of a memory."""
SELECTED = tuple(sa.case((_IS_PLAIN, ONE), else_=ZERO) if name == "plain" else memories.c[name] for name in COLUMNS)
"""`COLUMNS` out of the table of memories."""

_USES = NUMBERS.index("access_count")
_OWNER, _PROJECT, _PLAIN = range(WIDTH, WIDTH + 3)
_FIRST_SIZE = 1_024
_REMEMBERED = 16_384
"""Changes that only a reader who is under way needs to know of; when there were more it keeps nothing."""
_LOAD = 0.75
_SPARE_NAMES = 65_536
"""Number of texts of removed memories that are kept; beyond it all columns are rebuilt."""
PAGE = 1_024
"""Memories read at a time."""
PAUSE_SECONDS = 0.02
"""Between two pages, for whatever else the process does: starting, at first."""

V = TypeVar("V")


class CandidateColumns:
    """A table of some 200 bytes per memory; the slot of a memory is its row modulo the size of the table.

    Rows ascend. The latest row of a slot wins, until a search asks for another one: of two memories with one slot,
    the one that was written or asked for last is kept. The fields of a memory are adjacent, because a search reads
    hundreds of memories all over the table. `RowVersions` defines the order of reading, keeping and forgetting.
    """

    def __init__(self, capacity: int) -> None:
        """Keep at most *capacity* memories, a power of two; 0: keep nothing."""
        self._capacity = capacity
        self._lock = threading.Lock()
        self._versions = RowVersions(_REMEMBERED)
        self._start_anew()

    @property
    def capacity(self) -> int:
        """Return how many can be kept."""
        return self._capacity

    @property
    def places(self) -> int:
        """Return how many can be kept before the table grows or something has to go."""
        return len(self._ids)

    def __len__(self) -> int:
        """Return how many are kept."""
        return self._count

    @property
    def version(self) -> int:
        """Return the number to `keep` with what is read from now on."""
        return self._versions.number

    def get_many(self, rows: Rows, reach: Reach) -> tuple[Candidates, list[int]]:
        """Return what is kept of *rows*, which differ, within the reach; and those of which nothing is kept."""
        wanted = np.asarray(rows, dtype=np.int64)
        if not self._capacity:
            return Candidates.of(()), wanted.tolist()
        with self._lock:
            names, places = self._names, wanted % len(self._ids)
            numbers, ids = self._numbers[places], self._ids[places]
        is_here = numbers[:, 0] == wanted
        found = Candidates(numbers, ids, names).where(is_here)
        missing: list[int] = [] if len(found) == len(wanted) else wanted[~is_here].tolist()
        return _within(reach, found), missing

    def plain(self, rows: Rows, reach: Reach) -> AbstractSet[int]:
        """Return those of *rows*, which differ, that are known to lie within the reach and to be plain."""
        if not self._capacity:
            return frozenset()
        found, _ = self.get_many(rows, reach)
        return frozenset(found.where(found.numbers[:, _PLAIN] == 1).rows.tolist())

    def keep(self, rows: Collection[Sequence[Any]], version: int, *, is_asked_for: bool = False) -> None:
        """Keep *rows*, each with the values of `COLUMNS`, but for those that were changed after *version*.

        Those that are not *is_asked_for* do not displace later ones.
        """
        if not self._capacity or not rows:
            return
        with self._lock:
            outdated = self._versions.find_outdated([row[0] for row in rows], version)
            current = [row for row in rows if row[0] not in outdated] if outdated else rows
            if not current:
                return
            if len(self._names) > len(self._ids) + _SPARE_NAMES:
                self._start_anew()
            numbers, ids = _in_columns(current, self._names)
            self._make_room(numbers[:, 0])
            self._write(numbers, ids, displaces_later=is_asked_for)

    def recount(self, counts: Mapping[int, int], version: int) -> None:
        """Take over committed access counts, by row, of memories of which nothing else was changed by that commit.

        *version* is the number at some time within the transaction, when no other one could commit. What others changed
        after that is dropped.
        """
        if not self._capacity or not counts:
            return
        with self._lock:
            outdated = self._versions.find_outdated(counts.keys(), version)
            self._versions.note(counts)
            rows = np.array(list(counts), dtype=np.int64)
            values = np.array([ABSENT if row in outdated else count for row, count in counts.items()], dtype=np.int64)
            places = rows % len(self._ids)
            is_here = self._numbers[places, 0] == rows
            self._numbers[places[is_here], _USES] = values[is_here]
            self._drop(places[is_here & (values == ABSENT)])

    def forget(self, rows: Collection[int]) -> None:
        """Drop what is kept of changed rows; readers that are under way will not bring it back."""
        if not self._capacity or not rows:
            return
        changed = np.unique(np.array(list(rows), dtype=np.int64))
        with self._lock:
            self._versions.note(rows)
            places = changed % len(self._ids)
            self._drop(places[self._numbers[places, 0] == changed])

    def clear(self) -> None:
        """Drop everything, with the texts of memories that are not there any more."""
        with self._lock:
            self._start_anew()

    def _drop(self, places: Integers) -> None:
        self._numbers[places, 0] = ABSENT
        self._ids[places] = None
        self._count -= len(places)

    def _start_anew(self) -> None:
        self._names = Names()
        self._allocate(min(_FIRST_SIZE, self._capacity))

    def _allocate(self, size: int) -> None:
        self._count = 0
        self._numbers: Integers = np.full((size, WIDTH + 3), ABSENT, dtype=np.int64)
        self._ids: npt.NDArray[np.object_] = np.empty(size, dtype=object)

    def _make_room(self, rows: Integers) -> None:
        """Double the table when *rows* would make it nearly full, as long as it may grow."""
        while len(self._ids) < self._capacity:
            added = int(np.count_nonzero(self._numbers[rows % len(self._ids), 0] != rows))
            if self._count + added <= _LOAD * len(self._ids):
                return
            kept = self._numbers[:, 0] != ABSENT
            numbers, ids = self._numbers[kept], self._ids[kept]
            self._allocate(2 * len(self._ids))
            # Rows whose places differ in a table have different places in one of twice the size.
            places = numbers[:, 0] % len(self._ids)
            self._numbers[places], self._ids[places], self._count = numbers, ids, len(ids)

    def _write(self, numbers: Integers, ids: npt.NDArray[np.object_], *, displaces_later: bool) -> None:
        # Of those with the same place the latest row has it, whichever is kept first.
        size, rows = len(self._ids), numbers[:, 0]
        order = np.argsort(rows)
        if not displaces_later:
            order = order[rows[order] >= self._numbers[rows[order] % size, 0]]
        places, last = np.unique((rows[order] % size)[::-1], return_index=True)
        chosen = order[::-1][last]
        # Counted as it changes: to count a table of a million memories takes 5 ms and more.
        self._count += int(np.count_nonzero(self._numbers[places, 0] == ABSENT))
        self._numbers[places] = numbers[chosen]
        self._ids[places] = ids[chosen]


class RowCache(Generic[V]):
    """The values of the rows that were used last; `RowVersions` says in which order to read, keep and forget."""

    def __init__(self, capacity: int) -> None:
        """Hold between *capacity* and twice as many; 0: hold nothing."""
        self._capacity = capacity
        self._lock = threading.Lock()
        self._values = LruCache[int, V](capacity)
        self._versions = RowVersions(capacity)

    @property
    def version(self) -> int:
        """Return the number to `keep` with what is read from now on."""
        return self._versions.number

    def get_many(self, rows: Collection[int]) -> dict[int, V]:
        """Return those of *rows* that are held. The values are shared: they must not be changed."""
        return self._values.get_many(rows)

    def keep(self, values: Mapping[int, V], version: int) -> None:
        """Hold what was read, but for rows that were changed after *version*."""
        if not self._capacity:
            return
        with self._lock:
            outdated = self._versions.find_outdated(values.keys(), version)
            self._values.put_all({row: value for row, value in values.items() if row not in outdated})

    def forget(self, rows: Collection[int]) -> None:
        """Drop the values of changed rows; readers that are under way will not bring them back."""
        if not self._capacity:
            return
        with self._lock:
            self._versions.note(rows)
            self._values.forget(rows)


class RowVersions:
    """Versions of rows, so that what was read before a change is not kept after it.

    Not safe to call from several threads: the holder of the values has a lock for both.

    A value is what a reader found, so it could be older than a change that was committed while the reader was
    reading. Hence the order: take the `number`, read, and keep what is not `outdated` by then; a writer
    commits and then calls `note`, before the change is reported as done.
    """

    def __init__(self, remembered: int) -> None:
        """Remember *remembered* changed rows; when there are more, whatever is being read then is outdated."""
        self._remembered = remembered
        self._changed: dict[int, int] = {}
        self._since = 0
        self.number = 0

    def note(self, rows: Iterable[int]) -> None:
        """Take note that rows were changed."""
        self.number += 1
        self._changed |= dict.fromkeys(rows, self.number)
        if len(self._changed) > self._remembered:
            self._changed, self._since = {}, self.number

    def find_outdated(self, rows: Collection[int], number: int) -> set[int]:
        """Return those of *rows* that may have changed since *number*."""
        if number < self._since:
            return set(rows)
        return {row for row in rows if self._changed.get(row, 0) > number} if self._changed else set()


def candidates_of_rows(rows: Sequence[Sequence[Any]]) -> Candidates:
    """Return the candidates of rows with the values of `COLUMNS`."""
    names = Names()
    return Candidates(*_in_columns(rows, names), names) if rows else Candidates.of(())


def row_of_memory(memory: Memory) -> tuple[Any, ...]:
    """Return the row with the values of `COLUMNS`."""
    c, scope = candidate_of(memory, pack_cues(memory.content)), memory.scope
    numbers = (c.row, c.previous_row, c.importance, c.access_count, c.create_time, c.event_time, c.cues)
    texts = (c.session_id, c.speaker, c.layer, c.status, scope.owner, scope.project_id)
    return (*numbers, *texts, int(is_default_visible(memory)), c.memory_id)


def _in_columns(rows: Collection[Sequence[Any]], names: Names) -> tuple[Integers, npt.NDArray[np.object_]]:
    *columns, are_plain, ids = zip(*rows, strict=True)
    numbers = [[ABSENT if value is None else value for value in column] for column in columns[: len(NUMBERS)]]
    texts = [list(map(names.number, column)) for column in columns[len(NUMBERS) :]]
    return np.array([*numbers, *texts, are_plain], dtype=np.int64).T, objects(ids)


def _within(reach: Reach, found: Candidates) -> Candidates:
    """Leave out what is out of reach."""
    find, owners, projects = found.names.find, found.numbers[:, _OWNER], found.numbers[:, _PROJECT]
    seen = [projects == find(project) for project in reach.project_ids]
    return found.where(reduce(np.logical_or, seen, np.False_) & (owners == find(reach.owner)))


# Reading ahead, after a start, what ranking needs: so the first searches are as fast as later ones.


log = logging.getLogger(__name__)


class RankingPreloader:
    """A thread that preloads the columns with the latest memories."""

    def __init__(self, database: Database, columns: CandidateColumns) -> None:
        self._database = database
        self._columns = columns
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="preloading", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def join(self) -> None:
        """Wait until everything is read."""
        self._thread.join()

    def stop(self) -> None:
        """End it before its end."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        left, before = self._columns.capacity, None
        try:
            while left > 0 and not self._stopping.wait(PAUSE_SECONDS):
                version = self._columns.version
                rows = self._page(before, min(PAGE, left))
                if not rows:
                    break
                self._columns.keep(rows, version)
                left, before = left - len(rows), rows[-1][0]
        except MemsvcError as error:
            # Searches read what they miss by themselves.
            log.debug("what ranking needs is not read ahead: %s", error.message)

    def _page(self, before: int | None, limit: int) -> Sequence[Sequence[Any]]:
        with self._database.read_connection() as connection:
            if before is None:
                return execute(connection, _select_page(first=True), {"limit": limit}).all()
            return execute(connection, _select_page(first=False), {"limit": limit, "before": before}).all()


@cached_statement
def _select_page(*, first: bool) -> sa.Select[Any]:
    """Return the statement that reads memories by descending row."""
    chosen = sa.select(*SELECTED).order_by(memories.c.row.desc())
    chosen = chosen.limit(sa.bindparam("limit", type_=sa.Integer))
    return chosen if first else chosen.where(memories.c.row < sa.bindparam("before", type_=sa.Integer))
