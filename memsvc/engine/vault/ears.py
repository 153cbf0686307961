"""Whether the file system tells what happens."""

from __future__ import annotations

from collections.abc import Iterable

JUDGE_SECONDS = 2.0
"""How long after a sweep an event for what it found may still come."""


class EventDeliveryCheck:
    """Notices whether events come: what a sweep finds must have been told, before or shortly after."""

    def __init__(self) -> None:
        """Suspect nothing yet."""
        self._suspects: set[str] = set()
        self._judge_at: float | None = None
        self._missed = 0

    def expect(self, found: Iterable[str], now: float) -> None:
        """Expect to hear of what a sweep *found*, within a while."""
        self._suspects.update(found)
        if self._suspects and self._judge_at is None:
            self._judge_at = now + JUDGE_SECONDS

    def hear(self, paths: Iterable[str]) -> None:
        """Take note of what was told."""
        self._suspects.difference_update(paths)

    def missed(self, now: float) -> int:
        """Return how often by *now* something was found that no event told."""
        if self._judge_at is not None and now >= self._judge_at:
            self._missed += bool(self._suspects)
            self._suspects.clear()
            self._judge_at = None
        return self._missed
