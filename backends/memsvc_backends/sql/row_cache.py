"""A cache of rows: exact where one process alone writes to the database."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from typing import Generic, TypeVar

from memsvc.domain.lru_cache import LruCache

V = TypeVar("V")


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
