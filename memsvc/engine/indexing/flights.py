"""What is being embedded at this moment, so that two threads do not embed the same passage."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class SingleFlight:
    """The digests of passages under way, each in one thread's hands."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._digests: set[bytes] = set()

    @contextmanager
    def taking(self, digests: Iterable[bytes]) -> Iterator[set[bytes]]:
        """Take those of *digests* that nobody has, and hold them while the context is open."""
        with self._changed:
            mine = set(digests) - self._digests
            self._digests |= mine
        try:
            yield mine
        finally:
            with self._changed:
                self._digests -= mine
                self._changed.notify_all()

    def wait(self, digests: Iterable[bytes]) -> None:
        """Return once none of *digests* is under way. Not to be called while holding any."""
        awaited = set(digests)
        with self._changed:
            self._changed.wait_for(lambda: self._digests.isdisjoint(awaited))
