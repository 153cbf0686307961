"""The bell: wakes those who wait for changes of an owner's memories."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from typing import TypeAlias

from memsvc.ports.change_feed import IndexFeed

Ring: TypeAlias = Callable[[], None]


class ChangeNotifier:
    """Rung after every commit, by the thread that made it. Who does not wait costs nothing."""

    def __init__(self) -> None:
        """Wake nobody yet."""
        self._lock = threading.Lock()
        self._waiting: dict[str, tuple[Ring, ...]] = {}

    @contextmanager
    def heard(self, owner: str, ring: Ring) -> Iterator[None]:
        """Have *ring* called whenever memories of *owner* may have changed; it must return at once and not raise."""
        with self._lock:
            self._waiting[owner] = (*self._waiting.get(owner, ()), ring)
        try:
            yield
        finally:
            with self._lock:
                left = tuple(one for one in self._waiting[owner] if one is not ring)
                if left:
                    self._waiting[owner] = left
                else:
                    del self._waiting[owner]

    def ring(self, owners: AbstractSet[str]) -> None:
        """Wake those who wait for changes of one of *owners*."""
        for owner in owners:
            for ring in self._waiting.get(owner, ()):
                ring()

    def ring_all(self) -> None:
        """Wake everybody: somebody else may have changed something."""
        with self._lock:
            rings = [ring for waiting in self._waiting.values() for ring in waiting]
        for ring in rings:
            ring()


class CommitPoller:
    """Looks for what other processes commit, and wakes everybody then."""

    def __init__(self, feed: IndexFeed, bell: ChangeNotifier) -> None:
        """Ring *bell* when the *feed* has moved since the last look."""
        self._feed = feed
        self._bell = bell
        self._head = -1

    def look(self) -> None:
        """Look once; to be called by one thread.

        Raises:
            BackendUnavailableError: The store cannot be reached; who waits is woken by the next look that succeeds.
        """
        head = self._feed.head()
        if head != self._head:
            self._head = head
            self._bell.ring_all()
