"""What was read lately, kept in memory: exact where one process alone writes to the database."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from typing import Generic, TypeVar

V = TypeVar("V")


class Recent(Generic[V]):
    """Values by row, the lately used ones kept.

    A value is what a reader found, so it could be older than a change that was committed while the reader was
    reading. Hence the order: ask for the `version`, read, `keep` with that version; whoever changes rows commits and
    then calls `forget`, before anybody is told that the change is done. What changed after the version is not kept.
    """

    def __init__(self, capacity: int) -> None:
        """Keep between *capacity* and twice as many; 0: keep nothing."""
        self._capacity = capacity
        self._lock = threading.Lock()
        # Two halves, the older one dropped when the younger is full: no order to keep up at every look.
        self._young: dict[int, V] = {}
        self._old: dict[int, V] = {}
        self._version = 0
        self._since = 0
        self._changed: dict[int, int] = {}

    @property
    def version(self) -> int:
        """Return the number to `keep` with what is read from now on."""
        return self._version

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
            if version < self._since:
                return
            self._make_room()
            changed = self._changed
            self._young.update({row: value for row, value in values.items() if changed.get(row, 0) <= version})

    def forget(self, rows: Iterable[int]) -> None:
        """Drop the values of changed rows; readers that are under way will not bring them back."""
        if not self._capacity:
            return
        with self._lock:
            self._version += 1
            for row in rows:
                self._young.pop(row, None)
                self._old.pop(row, None)
                self._changed[row] = self._version
            if len(self._changed) > self._capacity:
                self._changed, self._since = {}, self._version

    def _rejuvenated(self, rows: Iterable[int]) -> dict[int, V]:
        with self._lock:
            again = {row: self._old.pop(row) for row in rows if row in self._old}
            self._make_room()
            self._young.update(again)
        return again

    def _make_room(self) -> None:
        if len(self._young) >= self._capacity:
            self._old, self._young = self._young, {}
