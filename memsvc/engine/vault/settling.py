"""Settling: a path that changed is looked at once it has been quiet for a while."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

LONGEST = 5.0
"""A path that never is quiet is looked at after so many times the quiet time all the same."""


@dataclass(slots=True)
class _Noted:
    first: float
    last: float


class Debouncer:
    """Collects paths that change and gives each back once nothing more happened to it for some seconds.

    So a file that an editor removes and writes anew, or writes in pieces, is looked at once, when it is whole. It has
    no clock of its own: every call says what time it is, by a clock that never goes back. Not for several threads.
    """

    def __init__(self, seconds: float) -> None:
        """Give paths back after *seconds* of quiet."""
        self._seconds = seconds
        self._noted: dict[str, _Noted] = {}

    def __len__(self) -> int:
        """Return how many paths have not been given back."""
        return len(self._noted)

    def __contains__(self, path: object) -> bool:
        """Return whether *path* waits to be given back."""
        return path in self._noted

    def note(self, paths: Iterable[str], at: float) -> None:
        """Note that something happened to *paths*."""
        for path in paths:
            known = self._noted.get(path)
            if known is None:
                self._noted[path] = _Noted(at, at)
            else:
                known.last = at

    def take(self, at: float) -> list[str]:
        """Return the paths that are quiet by now, in order of their names, and forget them."""
        due = [path for path, noted in self._noted.items() if self._due(noted) <= at]
        for path in due:
            del self._noted[path]
        return sorted(due)

    def next_time(self) -> float | None:
        """Return when the next path will be quiet, or None when none waits."""
        return min(map(self._due, self._noted.values()), default=None)

    def _due(self, noted: _Noted) -> float:
        return min(noted.last, noted.first + (LONGEST - 1) * self._seconds) + self._seconds
