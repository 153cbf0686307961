"""Runs of upkeep: step by step, part by part, with searches going first."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice

from memsvc.domain.errors import (
    BackendClosedError,
    CapabilityMissingError,
    ErasureRunningError,
    MaintenanceRunningError,
    MemsvcError,
)
from memsvc.domain.maintenance import EVERYBODY, Area, Due, MaintenancePlan, Tally, UpkeepProgress, UpkeepStep
from memsvc.engine.maintenance.step import BEGINNING, MaintenanceStep, StepResult
from memsvc.engine.runtime.latency_stats import LatencyStats
from memsvc.engine.runtime.leader_lease import LeaderElection, Lease
from memsvc.engine.runtime.search_priority import SEARCH_PRIORITY

# What maintenance has done since the process started, by step: whoever runs a step notes it here.


@dataclass(frozen=True, slots=True)
class StepCount:
    """How often a step ran, how often it failed, how many memories it changed, and how long it took in all."""

    step: str
    runs: int = 0
    failures: int = 0
    changed: int = 0
    seconds: float = 0.0


class StepCounts:
    """Counts steps. Their names must come from a fixed list: they become labels of metrics."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps: dict[str, StepCount] = {}

    def note(self, step: str, *, changed: int, seconds: float, failed: bool = False) -> None:
        """Count one run of a step."""
        with self._lock:
            before = self._steps.get(step) or StepCount(step)
            self._steps[step] = replace(
                before,
                runs=before.runs + 1,
                failures=before.failures + failed,
                changed=before.changed + changed,
                seconds=before.seconds + seconds,
            )

    def report(self) -> list[StepCount]:
        """Return the counts by step."""
        with self._lock:
            return [self._steps[step] for step in sorted(self._steps)]


OPERATION = "Maintenance"
"""The name under which runs are measured; the layer names the step."""
PART = 200
"""How many changes are looked for at a time."""


@dataclass(frozen=True, slots=True)
class RunLimits:
    """How much one run does.

    Attributes:
        changes: The most that one step changes in a run; what is left is for the next run.
        routine: What runs by the clock do; empty: all steps. A run on call that does as much counts as one of them.
    """

    changes: int = 10_000
    routine: tuple[UpkeepStep, ...] = ()


@dataclass(frozen=True, slots=True)
class StepMetrics:
    """Where it is told how long steps took and what they did."""

    performance: LatencyStats
    counts: StepCounts = field(default_factory=StepCounts)

    def note(self, step: UpkeepStep, tally: Tally, doing: MaintenancePlan) -> None:
        """Note one run of a step; a dry run does nothing that counts."""
        failed = bool(tally.failure)
        self.performance.record(OPERATION, step.lower(), tally.seconds, failed=failed)
        if doing is not MaintenancePlan.DRY_RUN:
            self.counts.note(step.lower(), changed=tally.changed, seconds=tally.seconds, failed=failed)


@dataclass(slots=True)
class _Run:
    """One run under way."""

    area: Area
    doing: MaintenancePlan
    now: datetime
    lease: Lease | None
    tallies: dict[UpkeepStep, Tally] = field(default_factory=dict)

    def progress(self, step: UpkeepStep | None, changes: Sequence[Due] = ()) -> UpkeepProgress:
        """Return how far it is."""
        return UpkeepProgress(step, self.doing, tuple(changes), dict(self.tallies))


class MaintenanceRunner:
    """Runs steps of upkeep, one run at a time on a store."""

    def __init__(
        self,
        steps: Sequence[MaintenanceStep],
        election: LeaderElection,
        measures: StepMetrics,
        now: Callable[[], datetime],
        bounds: RunLimits,
        *,
        flush_accesses: Callable[[], None],
    ) -> None:
        """Run *steps* in the order of UpkeepStep, noted in *measures*; *now* is the clock.

        *flush_accesses* writes down what was read lately, so that nothing counts as unread which was read just now.
        """
        order = list(UpkeepStep)
        self._steps = sorted(steps, key=lambda step: order.index(step.kind))
        self._election = election
        self._measures = measures
        self._now = now
        self._bounds = bounds
        self._flush_accesses = flush_accesses

    def run(
        self, area: Area, kinds: Sequence[UpkeepStep], doing: MaintenancePlan
    ) -> Generator[UpkeepProgress, None, None]:
        """Do what is due in *area* by the steps *kinds* (none: all), telling the progress after every part.

        A dry run changes nothing, may go on beside other runs, and lists what a run begun at that moment would
        change. Closing the generator ends the run between two parts; what was done stays. A step that fails says so
        in its tally, and the others are done all the same.

        Raises:
            CapabilityMissingError: There is no such step.
            MaintenanceRunningError: Another run is under way, in this process or another one on the store; or this one
                stood still for so long that another one began.
            BackendUnavailableError: The store cannot be reached to begin.
            BackendClosedError: The service stops.
        """
        steps = self._chosen(kinds)
        self._flush_accesses()
        if doing is MaintenancePlan.DRY_RUN:
            yield from self._all(steps, _Run(area, doing, self._now(), None))
            return
        with self._election.lead() as lease:
            yield from self._all(steps, _Run(area, doing, self._now(), lease))

    def _chosen(self, kinds: Sequence[UpkeepStep]) -> list[MaintenanceStep]:
        missing = set(kinds) - {step.kind for step in self._steps}
        if missing:
            capability = f"the maintenance steps {', '.join(sorted(missing))}"
            raise CapabilityMissingError(capability)
        return [step for step in self._steps if not kinds or step.kind in kinds]

    def _all(self, steps: Sequence[MaintenanceStep], run: _Run) -> Iterator[UpkeepProgress]:
        for step in steps:
            run.tallies[step.kind] = Tally()
            yield run.progress(step.kind)
            started = time.perf_counter()
            try:
                yield from self._parts(step, run, started)
            except (BackendClosedError, MaintenanceRunningError):
                raise
            except MemsvcError as error:
                run.tallies[step.kind] = replace(run.tallies[step.kind], failure=error.message)
                yield run.progress(step.kind)
            self._measures.note(step.kind, run.tallies[step.kind], run.doing)
        if run.lease is not None:
            routine = set(self._bounds.routine) or {step.kind for step in self._steps}
            run.lease.is_finished = run.area == EVERYBODY and routine <= run.tallies.keys()
        yield run.progress(None)

    def _parts(self, step: MaintenanceStep, run: _Run, started: float) -> Iterator[UpkeepProgress]:
        cursor, left = BEGINNING, self._bounds.changes
        while left > 0:
            SEARCH_PRIORITY.yield_to_searches()
            part = step.find_due(run.area, run.now, cursor, min(PART, left))
            left -= len(part.due)
            run.tallies[step.kind] = _with_due(run.tallies[step.kind], len(part.due))
            for changes in self._done(step, part.due, run):
                run.tallies[step.kind] = replace(run.tallies[step.kind], seconds=time.perf_counter() - started)
                yield run.progress(step.kind, changes)
            cursor = part.next
            if cursor == BEGINNING:
                run.tallies[step.kind] = replace(run.tallies[step.kind], is_complete=not part.is_paused)
                break
        run.tallies[step.kind] = replace(run.tallies[step.kind], seconds=time.perf_counter() - started)
        yield run.progress(step.kind)

    @staticmethod
    def _done(step: MaintenanceStep, due: Sequence[Due], run: _Run) -> Iterator[Sequence[Due]]:
        """Make the changes of one part, or in a dry run none; yield what was, or would be, changed."""
        if run.lease is None:
            yield due
            return
        waiting = iter(due)
        while batch := list(islice(waiting, step.batch)):
            SEARCH_PRIORITY.yield_to_searches()
            run.lease.require()
            applied = _applied(step, batch)
            run.tallies[step.kind] = _with_done(run.tallies[step.kind], len(applied.changed), applied.skipped)
            yield applied.changed


def _applied(step: MaintenanceStep, batch: Sequence[Due]) -> StepResult:
    """Apply a batch; where somebody in it is being erased, what is others' is done all the same."""
    try:
        return step.apply(batch)
    except ErasureRunningError:
        if len(batch) == 1:
            return StepResult((), 1)
    parts = [_applied(step, [one]) for one in batch]
    return StepResult(tuple(one for part in parts for one in part.changed), sum(part.skipped for part in parts))


def _with_due(tally: Tally, due: int) -> Tally:
    return replace(tally, due=tally.due + due)


def _with_done(tally: Tally, changed: int, skipped: int) -> Tally:
    return replace(tally, changed=tally.changed + changed, skipped=tally.skipped + skipped)
