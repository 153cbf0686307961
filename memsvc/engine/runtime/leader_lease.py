"""Being the one who does upkeep, or builds shared indexes, of all processes that share a store."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from memsvc.domain.errors import MaintenanceRunningError, MemsvcError
from memsvc.ports.operations import Leases

NAME = "maintenance"
TERM = timedelta(seconds=20)
"""How long a leader that gives no sign of life stays the leader."""
RENEWALS = 4
"""How often the term is begun anew while it lasts."""

log = logging.getLogger(__name__)


class Lease:
    """The right to do upkeep, for as long as a run takes; renewed by a thread beside the run.

    Attributes:
        is_finished: Set by a run that did all that runs by the clock do; the next one of those is counted from then.
    """

    def __init__(
        self, leases: Leases, now: Callable[[], datetime], holder: str, work: tuple[str, type[MemsvcError]]
    ) -> None:
        self.is_finished = False
        self._name, self._refused = work
        self._leases = leases
        self._now = now
        self._holder = holder
        self._until = now()

    def take(self) -> bool:
        """Take or renew the lease; False: another one has it."""
        now = self._now()
        is_taken = self._leases.take(self._name, holder=self._holder, now=now, until=now + TERM)
        self._until = now + TERM if is_taken else now
        return is_taken

    def require(self) -> None:
        """Return when this run still leads.

        Raises:
            MemsvcError: It gave no sign of life for a whole term, and another one has begun.
            BackendUnavailableError: The store cannot be reached to take the lease again.
        """
        if self._now() >= self._until and not self.take():
            raise self._refused

    def release(self) -> None:
        """Let the lease go; where that fails it ends by itself."""
        try:
            ended = self._now() if self.is_finished else None
            self._leases.release(self._name, holder=self._holder, ended=ended)
        except MemsvcError:
            log.warning("the %s lease could not be released; it ends by itself", self._name, exc_info=True)


class LeaderElection:
    """Gives the leadership to one run at a time, in this process and in all others on the store."""

    def __init__(
        self,
        leases: Leases,
        now: Callable[[], datetime],
        new_name: Callable[[], str],
        work: tuple[str, type[MemsvcError]] = (NAME, MaintenanceRunningError),
    ) -> None:
        """Keep it as a lease in the store; *new_name* makes names that nobody else has.

        *work* is what the lease is called, and what is raised when another one has it.
        """
        self._work = work
        self._leases = leases
        self._now = now
        self._new_name = new_name

    @contextmanager
    def lead(self) -> Iterator[Lease]:
        """Be the leader while the context is open.

        Raises:
            MemsvcError: Another run has the leadership.
            BackendUnavailableError: The store cannot be reached.
        """
        name, refused = self._work
        lease = Lease(self._leases, self._now, self._new_name(), self._work)
        if not lease.take():
            raise refused
        ended = threading.Event()
        renewing = threading.Thread(target=_renew, args=(lease, ended), name=f"{name}-lease", daemon=True)
        renewing.start()
        try:
            yield lease
        finally:
            ended.set()
            renewing.join()
            lease.release()

    def last_end(self) -> datetime | None:
        """Return when a run came to its end last, in whichever process."""
        return self._leases.last_end(self._work[0])


def _renew(lease: Lease, ended: threading.Event) -> None:
    while not ended.wait(TERM.total_seconds() / RENEWALS):
        try:
            if not lease.take():
                return
        except MemsvcError:
            log.warning("a lease could not be renewed and will be tried again", exc_info=True)
