"""Which rows were changed lately, so that what was read before a change is not kept after it."""

from __future__ import annotations

from collections.abc import Collection, Iterable


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
