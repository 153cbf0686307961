"""Maintenance runs: step by step, part by part; searches have priority."""

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
from memsvc.domain.maintenance import (
    EVERYBODY,
    DueChange,
    MaintenancePlan,
    MaintenanceScope,
    StepTally,
    UpkeepProgress,
    UpkeepStep,
)
from memsvc.engine.maintenance.step import BEGINNING, MaintenanceStep, StepResult
from memsvc.engine.runtime.latency_stats import LatencyStats
from memsvc.engine.runtime.leader_lease import LeaderElection, Lease
from memsvc.engine.runtime.search_priority import SearchPriority

OPERATION = "Maintenance"
"""Name of runs in latency statistics; the layer is the step."""
PART = 200
"""Due changes searched at a time."""


class MaintenanceRunner:
    """Runs maintenance steps, one run at a time on a store."""

    def __init__(  # noqa: PLR0913 - a part each
        self,
        steps: Sequence[MaintenanceStep],
        election: LeaderElection,
        measures: StepMetrics,
        now: Callable[[], datetime],
        bounds: RunLimits,
        search_priority: SearchPriority,
        *,
        flush_accesses: Callable[[], None],
        head_position: Callable[[], int],
    ) -> None:
        """Run *steps* in the order of UpkeepStep, and record them in *measures*; *now* is the clock.

        *flush_accesses* writes pending access counts, so that memories read just now do not count as unread.
        *head_position* returns the outbox position of the last change of the store.
        """
        order = list(UpkeepStep)
        self._steps = sorted(steps, key=lambda step: order.index(step.kind))
        self._election = election
        self._measures = measures
        self._now = now
        self._bounds = bounds
        self._search_priority = search_priority
        self._flush_accesses = flush_accesses
        self._head_position = head_position

    def run(
        self, area: MaintenanceScope, kinds: Sequence[UpkeepStep], plan: MaintenancePlan
    ) -> Generator[UpkeepProgress, None, None]:
        """Apply what is due in *area* by the steps *kinds* (none: the routine ones), yielding the progress.

        A dry run changes nothing, may run next to other runs, and lists what a run started at that moment would change.
        Closing the generator ends the run between two parts; applied changes stay. A failing step reports it in its
        tally, and the others run all the same.

        Raises:
            CapabilityMissingError: There is no such step.
            MaintenanceRunningError: Another run is active in any process on the store, or this run lost its lease.
            BackendUnavailableError: The store cannot be reached at the start.
            BackendClosedError: The service stops.
        """
        steps = self._select_steps(kinds)
        self._flush_accesses()
        if plan is MaintenancePlan.DRY_RUN:
            yield from self._run_steps(steps, _MaintenanceRun(area, plan, self._now(), None))
            return
        with self._election.lead() as lease:
            yield from self._run_steps(steps, _MaintenanceRun(area, plan, self._now(), lease))

    def _select_steps(self, kinds: Sequence[UpkeepStep]) -> list[MaintenanceStep]:
        missing = set(kinds) - {step.kind for step in self._steps}
        if missing:
            capability = f"the maintenance steps {', '.join(sorted(missing))}"
            raise CapabilityMissingError(capability)
        wanted = kinds or self._bounds.routine
        return [step for step in self._steps if not wanted or step.kind in wanted]

    def _run_steps(self, steps: Sequence[MaintenanceStep], run: _MaintenanceRun) -> Iterator[UpkeepProgress]:
        for step in steps:
            run.tallies[step.kind] = StepTally()
            yield run.progress(step.kind)
            started = time.perf_counter()
            try:
                yield from self._run_step(step, run, started)
            except (BackendClosedError, MaintenanceRunningError):
                raise
            except MemsvcError as error:
                run.tallies[step.kind] = replace(run.tallies[step.kind], failure=error.message)
                yield run.progress(step.kind)
            self._measures.note(step.kind, run.tallies[step.kind], run.plan)
        if run.lease is not None:
            routine = set(self._bounds.routine) or {step.kind for step in self._steps}
            run.lease.is_finished = run.area == EVERYBODY and routine <= run.tallies.keys()
        yield run.progress(None)

    def _run_step(self, step: MaintenanceStep, run: _MaintenanceRun, started: float) -> Iterator[UpkeepProgress]:
        cursor, left = BEGINNING, self._bounds.changes
        while left > 0:
            self._search_priority.yield_to_searches()
            part = step.find_due(run.area, run.now, cursor, min(PART, left))
            left -= len(part.due)
            run.tallies[step.kind] = _with_due(run.tallies[step.kind], len(part.due))
            for changes in self._apply_part(step, part.due, run):
                run.tallies[step.kind] = replace(run.tallies[step.kind], seconds=time.perf_counter() - started)
                yield run.progress(step.kind, changes)
            cursor = part.next
            if cursor == BEGINNING:
                run.tallies[step.kind] = replace(run.tallies[step.kind], is_complete=not part.is_paused)
                break
        run.tallies[step.kind] = replace(run.tallies[step.kind], seconds=time.perf_counter() - started)
        yield run.progress(step.kind)

    def _apply_part(
        self, step: MaintenanceStep, due: Sequence[DueChange], run: _MaintenanceRun
    ) -> Iterator[Sequence[DueChange]]:
        """Apply the changes of one part, or none in a dry run; yield what was, or would be, changed."""
        if run.lease is None:
            yield due
            return
        waiting = iter(due)
        while batch := list(islice(waiting, step.batch)):
            self._search_priority.yield_to_searches()
            run.lease.require()
            applied = _apply_batch(step, batch)
            run.tallies[step.kind] = _with_done(run.tallies[step.kind], len(applied.changed), applied.skipped)
            if applied.changed:
                run.position = self._head_position()
            yield applied.changed


@dataclass(frozen=True, slots=True)
class StepCount:
    """Runs, failures, changed memories and total duration of a step since the start of the process."""

    step: str
    runs: int = 0
    failures: int = 0
    changed: int = 0
    seconds: float = 0.0


class StepCounts:
    """Counts by step. Step names must come from a fixed list, because they are labels of metrics."""

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


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Limits of one run.

    Attributes:
        changes: Maximum number of changes of one step in a run; the rest is left to the next run.
        routine: Steps of a scheduled run, and of one that names none; empty: all. A requested run with these steps
            counts as scheduled.
    """

    changes: int = 10_000
    routine: tuple[UpkeepStep, ...] = ()


@dataclass(frozen=True, slots=True)
class StepMetrics:
    """Metrics of steps: durations and counts."""

    performance: LatencyStats
    counts: StepCounts = field(default_factory=StepCounts)

    def note(self, step: UpkeepStep, tally: StepTally, plan: MaintenancePlan) -> None:
        """Record one run of a step; dry runs do not count."""
        failed = bool(tally.failure)
        self.performance.record(f"{OPERATION}{step.title()}", "engine", tally.seconds, failed=failed)
        if plan is not MaintenancePlan.DRY_RUN:
            self.counts.note(step.lower(), changed=tally.changed, seconds=tally.seconds, failed=failed)


@dataclass(slots=True)
class _MaintenanceRun:
    """A running maintenance run."""

    area: MaintenanceScope
    plan: MaintenancePlan
    now: datetime
    lease: Lease | None
    tallies: dict[UpkeepStep, StepTally] = field(default_factory=dict)
    position: int = 0

    def progress(self, step: UpkeepStep | None, changes: Sequence[DueChange] = ()) -> UpkeepProgress:
        """Return the progress."""
        return UpkeepProgress(step, self.plan, tuple(changes), dict(self.tallies), self.position)


def _apply_batch(step: MaintenanceStep, batch: Sequence[DueChange]) -> StepResult:
    """Apply a batch; if the data of one user is being erased, apply the changes of the others."""
    try:
        return step.apply(batch)
    except ErasureRunningError:
        if len(batch) == 1:
            return StepResult((), 1)
    parts = [_apply_batch(step, [one]) for one in batch]
    return StepResult(tuple(one for part in parts for one in part.changed), sum(part.skipped for part in parts))


def _with_due(tally: StepTally, due: int) -> StepTally:
    return replace(tally, due=tally.due + due)


def _with_done(tally: StepTally, changed: int, skipped: int) -> StepTally:
    return replace(tally, changed=tally.changed + changed, skipped=tally.skipped + skipped)
