"""What was read lately, kept in memory: exact where one process alone writes to the database."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from typing import Generic, TypeVar

V = TypeVar("V")


class Recent(Generic[V]):
    """Values by row, the lately used ones kept; `Versions` says in which order to read, keep and forget."""

    def __init__(self, capacity: int) -> None:
        """Keep between *capacity* and twice as many; 0: keep nothing."""
        self._capacity = capacity
        self._lock = threading.Lock()
        # Two halves, the older one dropped when the younger is full: no order to keep up at every look.
        self._young: dict[int, V] = {}
        self._old: dict[int, V] = {}
        self._versions = Versions(capacity)

    @property
    def version(self) -> int:
        """Return the number to `keep` with what is read from now on."""
        return self._versions.number

    def found(self, rows: Collection[int]) -> dict[int, V]:
        """Return those of *rows* that are kept. The values are shared: they must not be changed."""
        get = self._young.get
        kept = {row: value for row in rows if (value := get(row)) is not None}
        if len(kept) < len(rows) and self._old:
            kept |= self._rejuvenated([row for row in rows if row not in kept])
        return kept

    def keep(self, values: Mapping[int, V], version: int) -> None:
        """Keep what was read, but for rows that were changed after *version*."""
        if not self._capacity:
            return
        with self._lock:
            self._make_room()
            outdated = self._versions.outdated(values.keys(), version)
            self._young.update({row: value for row, value in values.items() if row not in outdated})

    def forget(self, rows: Collection[int]) -> None:
        """Drop the values of changed rows; readers that are under way will not bring them back."""
        if not self._capacity:
            return
        with self._lock:
            self._versions.note(rows)
            for row in rows:
                self._young.pop(row, None)
                self._old.pop(row, None)

    def _rejuvenated(self, rows: Iterable[int]) -> dict[int, V]:
        with self._lock:
            again = {row: self._old.pop(row) for row in rows if row in self._old}
            self._make_room()
            self._young.update(again)
        return again

    def _make_room(self) -> None:
        if len(self._young) >= self._capacity:
            self._old, self._young = self._young, {}


# Which rows were changed lately, so that what was read before a change is not kept after it.


class Versions:
    """Numbers the changes of rows. Not safe to call from several threads: whoever keeps values has a lock for both.

    A value is what a reader found, so it could be older than a change that was committed while the reader was
    reading. Hence the order: take the `number`, read, and keep what is not `outdated` by then; whoever changes rows
    commits and then calls `note`, before anybody is told that the change is done.
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

    def outdated(self, rows: Collection[int], number: int) -> set[int]:
        """Return those of *rows* that may have changed since *number*."""
        if number < self._since:
            return set(rows)
        return {row for row in rows if self._changed.get(row, 0) > number} if self._changed else set()
