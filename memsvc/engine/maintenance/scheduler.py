"""Upkeep by the clock: one thread that looks now and then whether it is time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

from memsvc.domain.errors import BackendClosedError, BackendUnavailableError, MaintenanceRunningError
from memsvc.domain.maintenance import EVERYBODY, MaintenancePlan, UpkeepProgress, UpkeepStep
from memsvc.engine.maintenance.runner import MaintenanceRunner
from memsvc.engine.runtime.leader_lease import LeaderElection

LOOK_SECONDS = 5.0
"""How often to look. It costs one read of one row; a dead leader is succeeded after its term and one look more."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Timetable:
    """When upkeep is done by itself.

    Attributes:
        interval: From the end of one run, in whichever process, to the next.
        jitter: By up to how much each run is late, so that processes which were started together do not ask at once.
        steps: What runs do.
    """

    interval: timedelta
    jitter: timedelta
    steps: Sequence[UpkeepStep]


class MaintenanceScheduler:
    """Runs upkeep for everybody when it is time. The store knows when the last run ended, so restarts do not count."""

    def __init__(
        self,
        maintenance: MaintenanceRunner,
        election: LeaderElection,
        timetable: Timetable,
        now: Callable[[], datetime],
        random: Random,
    ) -> None:
        """Run by *timetable*; *now* is the clock, and the jitter comes from *random*."""
        self._maintenance = maintenance
        self._election = election
        self._timetable = timetable
        self._now = now
        self._random = random
        self._started = now()
        self._late = self._jitter()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="maintenance", daemon=True)

    def start(self) -> None:
        """Start looking at the clock."""
        self._thread.start()

    def stop(self) -> None:
        """End a run between two parts, and stop; the next run, here or elsewhere, goes on."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def next_time(self) -> datetime:
        """Return when it is time: one interval after the last run ended, or after the start where there was none."""
        return (self._election.last_end() or self._started) + self._timetable.interval + self._late

    def run_if_due(self) -> UpkeepProgress | None:
        """Do upkeep if it is time, and return how it ended; None: it is not time, or somebody else does it.

        Raises:
            BackendUnavailableError: The store cannot be reached.
            BackendClosedError: The service stops.
        """
        if self._now() < self.next_time():
            return None
        self._late = self._jitter()
        steps = self._maintenance.run(EVERYBODY, self._timetable.steps, MaintenancePlan.PERFORM)
        latest = None
        try:
            for progress in steps:
                latest = progress
                if self._stopping.is_set():
                    break
        except MaintenanceRunningError:
            log.debug("another process does the maintenance")
            self._late = timedelta(0)  # Should it die, it is succeeded at once.
        finally:
            steps.close()
        return latest

    def _jitter(self) -> timedelta:
        return self._timetable.jitter * self._random.random()

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_SECONDS):
            try:
                _tell(self.run_if_due())
            except BackendClosedError:
                return
            except BackendUnavailableError as error:
                log.warning("maintenance waits and will be tried again: %s", error.message)
            except Exception:
                log.exception("maintenance failed and will be tried again")


def _tell(progress: UpkeepProgress | None) -> None:
    for step, tally in () if progress is None else progress.tallies.items():
        level = logging.WARNING if tally.failure else logging.INFO if tally.due else logging.DEBUG
        log.log(
            level,
            "maintenance: %s changed %d and skipped %d in %.1f s%s",
            step.lower(),
            tally.changed,
            tally.skipped,
            tally.seconds,
            f"; it broke off: {tally.failure}" if tally.failure else "",
        )
