"""What contexts worked out of memories and will ask for again: a context is mostly made of what the last one showed."""

from __future__ import annotations

from collections.abc import Hashable
from datetime import datetime
from typing import Generic, TypeVar

from memsvc.domain.memory import Memory

V = TypeVar("V")
Identity = tuple[str, int, datetime, str]


def identity(memory: Memory) -> Identity:
    """Return what a memory's words depend on: nothing that a context shows changes without a revision."""
    return memory.id, memory.revision, memory.update_time, memory.content_hash


class LruCache(Generic[V]):
    """Values by key, the lately used ones. Safe to use from several threads: at worst something is worked out twice."""

    def __init__(self, capacity: int) -> None:
        """Keep between *capacity* and twice as many."""
        self._capacity = capacity
        # Two halves, the older one dropped when the younger is full: no order to keep up at every look.
        self._young: dict[Hashable, V] = {}
        self._old: dict[Hashable, V] = {}

    def get(self, key: Hashable) -> V | None:
        """Return a value that was kept."""
        value = self._young.get(key)
        if value is None and (value := self._old.get(key)) is not None:
            self.keep(key, value)
        return value

    def keep(self, key: Hashable, value: V) -> None:
        """Keep a value."""
        if len(self._young) >= self._capacity:
            self._old, self._young = self._young, {}
        self._young[key] = value

    def clear(self) -> None:
        """Drop everything."""
        self._young, self._old = {}, {}
