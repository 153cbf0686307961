"""Work for owners whom another process writes for at length: it waits beside the work for other owners."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Generic, Protocol, TypeVar

from memsvc.domain.errors import BackendUnavailableError
from memsvc.ports.metadata import OwnerLock

W = TypeVar("W")
WAITERS = 4
"""Owners that are waited for at once, each by a thread and a connection. More of them wait for their turn."""
_BUSY_SECONDS = 10.0
"""How long after a wait the work for an owner waits here at once, instead of delaying others for a moment first."""


class LockOwner(Protocol):
    """`memsvc.ports.metadata.MetadataStore.lock`."""

    def __call__(self, owner: str | None, *, waited_seconds: float) -> OwnerLock:
        """Wait for the owner."""
        ...


@dataclass(frozen=True, slots=True)
class WaitEnd:
    """End of the wait for an owner: the lock, or the error."""

    owner: str | None
    lock: OwnerLock | None
    error: Exception | None = None


class BusyOwners(Generic[W]):
    """Queues of work by owner; that of work that concerns any owner is None's.

    For one thread. The threads that wait for owners call *deliver* only.
    """

    def __init__(self, lock_owner: LockOwner, deliver: Callable[[WaitEnd], None], *, most: int) -> None:
        """Wait by *lock_owner*, and pass the end of each wait to *deliver*.

        At most *most* works of single owners wait, half as many of one.
        """
        self._most = most
        self._lock_owner = lock_owner
        self._deliver = deliver
        self._queues: dict[str | None, _Queue[W]] = {}
        self._busy_until: dict[str | None, float] = {}

    def __len__(self) -> int:
        """Return how much work waits; from any thread."""
        return sum(len(queue.works) for queue in list(self._queues.values()))

    def is_busy(self, owner: str | None) -> bool:
        """Return whether work for *owner* has to be added here, behind earlier work or for its recent waits."""
        if owner in self._queues:
            return True
        until = self._busy_until.get(owner)
        if until is None or time.monotonic() < until:
            return until is not None
        del self._busy_until[owner]
        return False

    def add(self, owner: str | None, work: W) -> bool:
        """Add work behind the other work for *owner*; return False if too much waits already."""
        if not self._room_for(owner):
            return False
        queue = self._queues.setdefault(owner, _Queue())
        queue.works.append((work, time.monotonic()))
        self._start_waits()
        return True

    def put_back(self, owner: str | None, works: Sequence[W], *, since: float) -> Sequence[W]:
        """Add work in front of the other work for *owner*.

        Args:
            owner: The owner.
            works: The work, in order.
            since: The time at which it began to wait, of `time.monotonic`.

        Returns:
            The last of it, for which there is no room.
        """
        room = self._room_for(owner)
        if room:
            queue = self._queues.setdefault(owner, _Queue())
            queue.works.extendleft((work, since) for work in reversed(works[:room]))
            self._start_waits()
        return works[room:]

    def _room_for(self, owner: str | None) -> int:
        """Return how much more may wait: each call that waits has a thread, of which others need some."""
        if owner is None:
            return sys.maxsize
        of_owner = len(self._queues[owner].works) if owner in self._queues else 0
        of_all = sum(len(queue.works) for one, queue in self._queues.items() if one is not None)
        return max(0, min(self._most // 2 - of_owner, self._most - of_all))

    def take(self, end: WaitEnd, most: int) -> list[tuple[W, float]]:
        """Remove and return the work that a wait was for, in order, and since when each waits.

        After an error that is the work that was there when the wait began, otherwise at most *most*. What is left has
        a wait of its own.
        """
        queue = self._queues[end.owner]
        count = min(queue.waited_for, len(queue.works)) if end.error is not None else most
        taken = list(islice(queue.works, count))
        for _ in taken:
            queue.works.popleft()
        queue.waited_for = 0
        if not queue.works:
            del self._queues[end.owner]
        now = time.monotonic()
        self._busy_until = {owner: until for owner, until in self._busy_until.items() if until > now}
        self._busy_until[end.owner] = now + _BUSY_SECONDS
        self._start_waits()
        return taken

    def _start_waits(self) -> None:
        free = WAITERS - sum(queue.waited_for > 0 for queue in self._queues.values())
        if free <= 0:
            return
        for owner in list(islice((owner for owner, queue in self._queues.items() if not queue.waited_for), free)):
            self._start_wait(owner)

    def _start_wait(self, owner: str | None) -> None:
        queue = self._queues[owner]
        queue.waited_for = len(queue.works)
        waited = time.monotonic() - queue.works[0][1]
        thread = threading.Thread(target=self._wait, args=(owner, waited), name="memsvc-owner-lock", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            failure = BackendUnavailableError("metadata")
            failure.__cause__ = error
            self._deliver(WaitEnd(owner, None, failure))

    def _wait(self, owner: str | None, waited: float) -> None:
        try:
            lock = self._lock_owner(owner, waited_seconds=waited)
        except Exception as error:  # noqa: BLE001 - delivered to the callers of the work
            self._deliver(WaitEnd(owner, None, error))
        else:
            self._deliver(WaitEnd(owner, lock))


@dataclass(slots=True)
class _Queue(Generic[W]):
    """Work with the time since when it waits. *waited_for*: how much there was when its wait began; 0: none did."""

    works: deque[tuple[W, float]] = field(default_factory=deque)
    waited_for: int = 0
