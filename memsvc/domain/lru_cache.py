"""A cache of the values that were used last."""

from __future__ import annotations

import threading
from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """Values by key, of which those used last stay. Safe to use from several threads.

    There are two generations, and the older is dropped when the younger is full: so a hit needs neither a lock nor an
    order to keep up.
    """

    def __init__(self, capacity: int) -> None:
        """Hold between *capacity* and twice as many values; 0: hold nothing."""
        self._capacity = capacity
        self._lock = threading.Lock()
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        """Return the value of a key, or None."""
        value = self._young.get(key)
        return value if value is not None else self._touch((key,)).get(key)

    def get_many(self, keys: Collection[K]) -> dict[K, V]:
        """Return the values of those of *keys* that have one."""
        get = self._young.get
        found = {key: value for key in keys if (value := get(key)) is not None}
        if len(found) < len(keys) and self._old:
            found |= self._touch([key for key in keys if key not in found])
        return found

    def put(self, key: K, value: V) -> None:
        """Put a value in."""
        self.put_all({key: value})

    def put_all(self, values: Mapping[K, V]) -> None:
        """Put values in."""
        if not (self._capacity and values):
            return
        with self._lock:
            self._make_room()
            self._young.update(values)

    def forget(self, keys: Iterable[K]) -> None:
        """Drop the values of *keys*."""
        with self._lock:
            for key in keys:
                self._young.pop(key, None)
                self._old.pop(key, None)

    def clear(self) -> None:
        """Drop all values."""
        with self._lock:
            self._young, self._old = {}, {}

    def _touch(self, keys: Iterable[K]) -> dict[K, V]:
        if not self._old:
            return {}
        with self._lock:
            again = {key: self._old.pop(key) for key in keys if key in self._old}
            if again:
                self._make_room()
                self._young.update(again)
        return again

    def _make_room(self) -> None:
        if len(self._young) >= self._capacity:
            self._old, self._young = self._young, {}
