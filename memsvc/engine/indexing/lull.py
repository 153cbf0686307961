"""When to build an index anew that still serves: not while so much is written that it would soon be outgrown again."""

from __future__ import annotations

MOST_PENDING = 256
"""More changes than this that the indexes have not taken in mean an import which they cannot keep up with."""
RUSH_PER_SECOND = 100.0
"""More changes a second than this mean an import. An embedder brings fewer: what it feeds is not waited for."""
LONGEST_SECONDS = 120.0
"""An import that lasts longer is not waited for."""


class QuietPeriodDetector:
    """Tells whether a lull has come, from looks at the head of the outbox at a steady interval.

    An import of 100 000 memories outgrew its vector index a dozen times, and each time all that was there was read and
    written once more beside it: a third of what the process did.
    """

    def __init__(self, *, interval_seconds: float) -> None:
        """Expect a look every *interval_seconds*."""
        self._interval_seconds = interval_seconds
        self._head: int | None = None
        self._waited = 0.0

    def has_come(self, head: int, pending: int) -> bool:
        """Return whether now is the time; *head* is the newest position, *pending* the number of changes not applied.

        The first look says no: it cannot tell yet.
        """
        before, self._head = self._head, head
        if pending > MOST_PENDING:
            return False
        rushes = before is None or head - before > RUSH_PER_SECOND * self._interval_seconds
        self._waited = self._waited + self._interval_seconds if rushes else 0.0
        if self._waited > LONGEST_SECONDS:
            self._waited = 0.0
            return True
        return not rushes
