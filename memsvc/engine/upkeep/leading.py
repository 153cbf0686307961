"""Being the one who does upkeep, of all processes that share a store."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from memsvc.domain.errors import MaintenanceRunningError, MemsvcError
from memsvc.ports.leases import Leases

NAME = "maintenance"
TERM = timedelta(seconds=60)
"""How long a leader that gives no sign of life stays the leader."""
RENEWALS = 4
"""How often the term is begun anew while it lasts."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Leadership:
    """The right to do upkeep, for as long as a run takes.

    Attributes:
        is_finished: Set by a run that did all that is done by the clock; the next one by the clock is counted from then.
    """

    is_finished: bool = False
    _lost: threading.Event = field(default_factory=threading.Event)

    def require(self) -> None:
        """Return when this process is still the leader.

        Raises:
            MaintenanceRunningError: It gave no sign of life for too long, and another process may have begun.
        """
        if self._lost.is_set():
            raise MaintenanceRunningError

    def lose(self) -> None:
        """Note that another one may lead."""
        self._lost.set()


class Leading:
    """Gives the leadership to one run at a time, in this process and in all others on the store."""

    def __init__(self, leases: Leases, now: Callable[[], datetime], new_name: Callable[[], str]) -> None:
        """Keep it as a lease in the store; *new_name* makes names that nobody else has."""
        self._leases = leases
        self._now = now
        self._new_name = new_name

    @contextmanager
    def lead(self) -> Iterator[Leadership]:
        """Be the leader while the context is open.

        Raises:
            MaintenanceRunningError: Another run has the leadership.
            BackendUnavailableError: The store cannot be reached.
        """
        holder = self._new_name()
        if not self._take(holder):
            raise MaintenanceRunningError
        leadership = Leadership()
        ended = threading.Event()
        renewing = threading.Thread(
            target=self._renew, args=(holder, leadership, ended), name="maintenance-lease", daemon=True
        )
        renewing.start()
        try:
            yield leadership
        finally:
            ended.set()
            renewing.join()
            self._release(holder, leadership)

    def last_end(self) -> datetime | None:
        """Return when a run came to its end last, in whichever process."""
        return self._leases.last_end(NAME)

    def _take(self, holder: str) -> bool:
        now = self._now()
        return self._leases.take(NAME, holder=holder, now=now, until=now + TERM)

    def _release(self, holder: str, leadership: Leadership) -> None:
        try:
            self._leases.release(NAME, holder=holder, ended=self._now() if leadership.is_finished else None)
        except MemsvcError:
            log.warning("the maintenance lease could not be released; it ends by itself", exc_info=True)

    def _renew(self, holder: str, leadership: Leadership, ended: threading.Event) -> None:
        while not ended.wait(TERM.total_seconds() / RENEWALS):
            try:
                if not self._take(holder):
                    leadership.lose()
                    return
            except MemsvcError:
                log.warning("the maintenance lease could not be renewed and will be tried again", exc_info=True)
