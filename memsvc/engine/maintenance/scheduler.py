"""Scheduled maintenance: one thread that checks periodically whether a run is due."""

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

CHECK_SECONDS = 5.0
"""Interval of checks. Each reads one row; a crashed leader is replaced after its term and one check."""
log = logging.getLogger(__name__)


class MaintenanceScheduler:
    """Runs maintenance for all users when it is due. The store has the last end, so restarts do not matter."""

    def __init__(
        self,
        maintenance: MaintenanceRunner,
        election: LeaderElection,
        timetable: Timetable,
        now: Callable[[], datetime],
        random: Random,
    ) -> None:
        """Run by *timetable*; *now* is the clock, *random* the source of the jitter."""
        self._maintenance = maintenance
        self._election = election
        self._timetable = timetable
        self._now = now
        self._random = random
        self._started = now()
        self._delay = self._jitter()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="maintenance", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End a run between two parts, and stop; the next run, in any process, continues."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def next_time(self) -> datetime:
        """Return the time of the next run: an interval after the end of the last one, or else after the start."""
        return (self._election.last_end() or self._started) + self._timetable.interval + self._delay

    def run_if_due(self) -> UpkeepProgress | None:
        """Run maintenance if it is due; return its last progress, or None if it is not due or another process runs it.

        Raises:
            BackendUnavailableError: The store cannot be reached.
            BackendClosedError: The service stops.
        """
        if self._now() < self.next_time():
            return None
        self._delay = self._jitter()
        steps = self._maintenance.run(EVERYBODY, self._timetable.steps, MaintenancePlan.PERFORM)
        latest = None
        try:
            for progress in steps:
                latest = progress
                if self._stopping.is_set():
                    break
        except MaintenanceRunningError:
            log.debug("maintenance was skipped: another process runs it")
            self._delay = timedelta(0)  # If it crashes, it is replaced at once.
        finally:
            steps.close()
        return latest

    def _jitter(self) -> timedelta:
        return self._timetable.jitter * self._random.random()

    def _run(self) -> None:
        while not self._stopping.wait(CHECK_SECONDS):
            try:
                _log(self.run_if_due())
            except BackendClosedError:
                return
            except BackendUnavailableError as error:
                log.warning("maintenance was postponed: %s", error.message)
            except Exception:
                log.exception("maintenance failed and is retried")


@dataclass(frozen=True, slots=True)
class Timetable:
    """The schedule of maintenance.

    Attributes:
        interval: Time from the end of one run, in any process, to the next.
        jitter: Maximum random delay of a run, so that processes started together do not compete.
        steps: The steps of a run.
    """

    interval: timedelta
    jitter: timedelta
    steps: Sequence[UpkeepStep]


def _log(progress: UpkeepProgress | None) -> None:
    for step, tally in () if progress is None else progress.tallies.items():
        level = logging.WARNING if tally.failure else logging.INFO if tally.due else logging.DEBUG
        log.log(
            level,
            "maintenance: %s changed %d and skipped %d in %.1f s%s",
            step.lower(),
            tally.changed,
            tally.skipped,
            tally.seconds,
            f"; it failed: {tally.failure}" if tally.failure else "",
        )
