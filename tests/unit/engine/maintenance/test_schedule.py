"""Upkeep by the clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from random import Random

from memsvc.domain.maintenance import EVERYBODY, MaintenancePlan, UpkeepStep
from memsvc.domain.memory import Status
from memsvc.engine.maintenance.expire_step import ExpireStep
from memsvc.engine.maintenance.runner import MaintenanceRunner, RunLimits, StepMetrics
from memsvc.engine.maintenance.scheduler import CHECK_SECONDS, MaintenanceScheduler, Timetable
from memsvc.engine.records.memory_builder import MemoryBuilder, RecordBuilder, ReminderDetector
from memsvc.engine.runtime.latency_stats import LatencyStats
from memsvc.engine.runtime.leader_lease import TERM, LeaderElection
from memsvc.engine.runtime.search_priority import SearchPriority
from tests.unit.engine.memories.write_path import DIMENSION, MODEL, Clock, Desk, open_desk

HOUR = timedelta(hours=1)


@contextmanager
def replica(
    directory: Path, clock: Clock, name: str, jitter: timedelta = timedelta()
) -> Iterator[tuple[Desk, MaintenanceScheduler]]:
    """Open the store as one of several processes would, with upkeep every hour that nobody starts."""
    with open_desk(directory, clock) as desk:
        memory_builder = MemoryBuilder(model=MODEL, dimension=DIMENSION, now=clock, search_priority=SearchPriority())
        step = ExpireStep(
            desk.store.upkeep,
            desk.writing.committer,
            RecordBuilder(memory_builder, desk.store.feed),
            ReminderDetector(),
            clock,
        )
        numbers = iter(range(100))
        leading = LeaderElection(desk.store.leases, clock, lambda: f"{name}{next(numbers)}")
        runs = MaintenanceRunner(
            [step],
            leading,
            StepMetrics(LatencyStats(clock)),
            clock,
            RunLimits(),
            SearchPriority(),
            flush_accesses=lambda: None,
            head_position=lambda: 1,
        )
        timetable = Timetable(HOUR, jitter, (UpkeepStep.EXPIRE,))
        yield desk, MaintenanceScheduler(runs, leading, timetable, clock, Random(7))


def test_it_runs_every_hour(tmp_path: Path) -> None:
    """From start to first run, and from end to next."""
    clock = Clock()
    with replica(tmp_path, clock, "a") as (desk, schedule):
        note = desk.create("x", expire_time=clock()).memory
        assert schedule.run_if_due() is None
        clock.advance(minutes=59)
        assert schedule.run_if_due() is None

        clock.advance(minutes=1)
        ended = schedule.run_if_due()

        assert ended is not None
        assert ended.tallies[UpkeepStep.EXPIRE].changed == 1
        stored = desk.stored(note.id)
        assert stored is not None
        assert stored.status is Status.EXPIRED
        assert schedule.next_time() == clock() + HOUR
        assert schedule.run_if_due() is None


def test_a_restart_does_not_put_it_off(tmp_path: Path) -> None:
    """The store knows when the last run ended, whoever did it."""
    clock = Clock()
    with replica(tmp_path, clock, "a") as (_, schedule):
        clock.advance(hours=1)
        assert schedule.run_if_due() is not None
    clock.advance(minutes=40)
    with replica(tmp_path, clock, "b") as (_, schedule):
        assert schedule.run_if_due() is None
        clock.advance(minutes=20)
        assert schedule.run_if_due() is not None


def test_two_processes_do_not_do_it_twice(tmp_path: Path) -> None:
    """While one does it the other does not, and when it is done there is nothing to do for an hour."""
    clock = Clock()
    with replica(tmp_path, clock, "a") as (_, first), replica(tmp_path, clock, "b") as (_, second):
        clock.advance(hours=1)
        running = first._maintenance.run(EVERYBODY, (), MaintenancePlan.PERFORM)
        next(running)
        assert second.run_if_due() is None
        list(running)

        assert second.run_if_due() is None
        clock.advance(hours=1)
        assert second.run_if_due() is not None
        assert first.run_if_due() is None


def test_a_leader_that_dies_is_succeeded_within_half_a_minute(tmp_path: Path) -> None:
    """From its last sign of life to the first look after its term, however large the jitter."""
    clock = Clock()
    with replica(tmp_path, clock, "b", jitter=HOUR) as (desk, schedule):
        clock.advance(hours=2)
        assert desk.store.leases.take("maintenance", holder="dead", now=clock(), term=TERM)
        died = clock()
        while schedule.run_if_due() is None:
            clock.advance(seconds=CHECK_SECONDS)
        assert clock() - died < timedelta(seconds=30)


def test_jitter_makes_it_late_by_a_part_of_itself(tmp_path: Path) -> None:
    """So that processes which start together do not ask together."""
    clock = Clock()
    with replica(tmp_path, clock, "a", jitter=HOUR) as (_, schedule):
        assert clock() + HOUR < schedule.next_time() < clock() + 2 * HOUR


def test_a_stop_ends_a_run_and_the_thread(tmp_path: Path) -> None:
    """Between two parts: what is left is for the next one."""
    clock = Clock()
    with replica(tmp_path, clock, "a") as (_, schedule):
        schedule.start()
        schedule.stop()
        clock.advance(hours=1)
        ended = schedule.run_if_due()

        assert ended is not None
        assert ended.step is UpkeepStep.EXPIRE
        assert schedule.next_time() <= clock()
