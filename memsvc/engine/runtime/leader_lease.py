"""Leader election by a lease in the store, among all processes that share it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from memsvc.domain.errors import MaintenanceRunningError, MemsvcError, StoreMovedError
from memsvc.ports.operations import Leases

NAME = "maintenance"
TERM = timedelta(seconds=20)
"""Lease duration; a leader that does not renew it within this time loses the lease."""
RENEWALS = 4
"""Renewals per term."""
log = logging.getLogger(__name__)


class LeaderElection:
    """Election of one leading run at a time among all processes on the store."""

    def __init__(
        self,
        leases: Leases,
        now: Callable[[], datetime],
        new_holder: Callable[[], str],
        work: tuple[str, type[MemsvcError]] = (NAME, MaintenanceRunningError),
    ) -> None:
        """Keep the lease in *leases*; *new_holder* returns unique holder names.

        *work* is the name of the lease and the error to raise while another holder has it.
        """
        self._work = work
        self._leases = leases
        self._now = now
        self._new_holder = new_holder

    @contextmanager
    def lead(self) -> Iterator[Lease]:
        """Hold the lease while the context is open.

        Raises:
            MemsvcError: Another run holds the lease.
            BackendUnavailableError: The store cannot be reached.
        """
        name, error_type = self._work
        lease = Lease(self._leases, self._now, self._new_holder(), self._work)
        if not lease.take():
            raise error_type
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
        """Return the end of the last finished run of any process."""
        return self._leases.last_end(self._work[0])


class Lease:
    """The lease of one run, renewed by a background thread.

    Attributes:
        is_finished: Set by a run that completed the scheduled work; the next scheduled run is timed from its end.
    """

    def __init__(
        self, leases: Leases, now: Callable[[], datetime], holder: str, work: tuple[str, type[MemsvcError]]
    ) -> None:
        self.is_finished = False
        self._name, self._error_type = work
        self._leases = leases
        self._now = now
        self._holder = holder
        self._until, self._until_monotonic = now(), 0.0

    def take(self) -> bool:
        """Acquire or renew the lease; return False if another holder has it."""
        now, started = self._now(), time.monotonic()
        is_taken = self._leases.take(self._name, holder=self._holder, now=now, term=TERM)
        left = TERM if is_taken else timedelta(0)
        self._until, self._until_monotonic = now + left, started + left.total_seconds()
        return is_taken

    def require(self) -> None:
        """Return if this run still holds the lease.

        Raises:
            MemsvcError: The lease was not renewed for a whole term, and another run has acquired it.
            BackendUnavailableError: The store cannot be reached to renew the lease.
        """
        if self._is_over() and not self.take():
            raise self._error_type

    def _is_over(self) -> bool:
        # One clock may stop while the machine is suspended, the other may be set by its operator.
        return self._now() >= self._until or time.monotonic() >= self._until_monotonic

    def release(self) -> None:
        """Release the lease; if that fails it expires by itself."""
        try:
            ended = self._now() if self.is_finished else None
            self._leases.release(self._name, holder=self._holder, ended=ended)
        except StoreMovedError:
            log.info("the %s lease was not released, since the store was moved", self._name)
        except MemsvcError as error:
            log.warning("the %s lease was not released; it expires by itself: %s", self._name, error.message)


def _renew(lease: Lease, ended: threading.Event) -> None:
    while not ended.wait(TERM.total_seconds() / RENEWALS):
        try:
            if not lease.take():
                return
        except StoreMovedError:
            log.debug("a lease was not renewed, since the store was moved")
        except MemsvcError as error:
            log.warning("a lease was not renewed; the renewal is retried: %s", error.message)
