"""Runs: dry ones, bounded ones, broken ones, two at a time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memsvc.domain.errors import (
    BackendUnavailableError,
    CapabilityMissingError,
    ErasureRunningError,
    MaintenanceRunningError,
)
from memsvc.domain.maintenance import (
    EVERYBODY,
    DueChange,
    MaintenancePlan,
    MaintenanceReason,
    MaintenanceScope,
    UpkeepStep,
)
from memsvc.domain.memory import Layer
from memsvc.domain.scope import Scope
from memsvc.engine.maintenance.runner import MaintenanceRunner, RunLimits, StepMetrics
from memsvc.engine.maintenance.step import MaintenanceStep, StepPart, StepResult
from memsvc.engine.runtime.latency_stats import LatencyStats
from memsvc.engine.runtime.leader_lease import TERM, LeaderElection
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.ports.operations import Leases
from tests.unit.engine.maintenance.engine_fixture import House, open_house
from tests.unit.engine.memories.write_path import Clock, open_desk

EXPIRE, PROMOTE, ARCHIVE = UpkeepStep.EXPIRE, UpkeepStep.PROMOTE, UpkeepStep.ARCHIVE
SHORT: dict[str, Any] = {"layer": Layer.SHORT_TERM}


def filled(house: House) -> None:
    """Fill a house with what every step has something to do with."""
    for number in range(3):
        house.create(f"Note {number}.", **SHORT, ttl=timedelta(days=1))
    house.create("Work.", **SHORT, ttl=timedelta(days=1), work_in_progress=True)
    house.create("Old.")
    house.clock.advance(days=100)
    house.read(house.create("Read.", **SHORT), 6)


def test_a_dry_run_lists_exactly_what_a_run_changes(house: House) -> None:
    """And changes nothing itself, not even when reads are counted before."""
    filled(house)
    before = house.application.statistics.of(Scope("ada", "apollo")).counts

    foretold, end = house.run(doing=MaintenancePlan.DRY_RUN)

    assert house.application.statistics.of(Scope("ada", "apollo")).counts == before
    assert {step: (tally.due, tally.changed) for step, tally in end.tallies.items()} == {
        EXPIRE: (4, 0), PROMOTE: (1, 0), ARCHIVE: (1, 0), UpkeepStep.COMPACT: (0, 0), UpkeepStep.CONSOLIDATE: (0, 0),
        UpkeepStep.REPLAY_USE: (0, 0), UpkeepStep.PURGE: (0, 0),
    }  # fmt: skip
    assert house.run()[0] == foretold
    assert house.run()[0] == []


def test_steps_can_be_run_alone(house: House) -> None:
    """In their order, each once; one that is not there is refused before anything is done."""
    filled(house)

    assert {one.step for one in house.run(ARCHIVE)[0]} == {ARCHIVE}
    changes, end = house.run(PROMOTE, EXPIRE, EXPIRE)
    assert [one.step for one in changes] == [EXPIRE] * 4 + [PROMOTE]
    assert list(end.tallies) == [EXPIRE, PROMOTE]


def test_a_run_does_no_more_than_it_may(tmp_path: Path) -> None:
    """What is left is for the next one, and the progress says so."""
    with open_house(tmp_path, changes_per_step=3) as house:
        for number in range(7):
            house.create(f"Note {number}.", expire_time=house.clock())

        ended = []
        for expected in (3, 3, 1, 0):
            foretold, _ = house.run(EXPIRE, doing=MaintenancePlan.DRY_RUN)
            changes, end = house.run(EXPIRE)
            assert (len(changes), foretold) == (expected, changes)
            ended.append(end.tallies[EXPIRE].is_complete)
        assert ended == [False, False, True, True]


def test_a_run_that_is_left_goes_on_the_next_time(house: House) -> None:
    """Whole parts are done or not at all, and the next run may begin at once."""
    for number in range(120):
        house.create(f"Note {number}.", expire_time=house.clock())
    steps = house.application.maintenance.run(EVERYBODY, (), MaintenancePlan.PERFORM)
    done = 0
    while not done:
        done = len(next(steps).changes)
    steps.close()

    assert 0 < done < 120
    assert len(house.run()[0]) == 120 - done
    assert house.differences() == []


def test_one_run_at_a_time(house: House) -> None:
    """A second one is refused while the first is under way; a dry run is not."""
    running = house.application.maintenance.run(EVERYBODY, (), MaintenancePlan.PERFORM)
    next(running)

    with pytest.raises(MaintenanceRunningError):
        house.run()
    assert house.run(doing=MaintenancePlan.DRY_RUN)[0] == []
    running.close()
    assert house.run()[0] == []


def test_steps_are_measured(house: House) -> None:
    """Each step under a name of its own."""
    house.run()
    house.run(EXPIRE)

    report = house.application.performance.report()
    measured = {one.operation.removeprefix("Maintenance"): one.durations.count for one in report}
    once = dict.fromkeys(("Archive", "Compact", "Consolidate", "Promote"), 1)
    assert (once | {"Expire": 2}).items() <= measured.items()


class Failing:
    """A step that cannot reach its store."""

    kind = UpkeepStep.EXPIRE
    batch = 1

    def find_due(self, area: MaintenanceScope, now: datetime, after: str, limit: int) -> StepPart:
        """Fail."""
        raise BackendUnavailableError(f"{area} {now} {after} {limit}")

    def apply(self, due: Sequence[DueChange]) -> StepResult:
        """Do nothing."""
        return StepResult(tuple(due))


class Counting(Failing):
    """A step of two parts, each with one change."""

    kind = UpkeepStep.ARCHIVE

    def find_due(self, area: MaintenanceScope, now: datetime, after: str, limit: int) -> StepPart:
        """Return one more."""
        due = DueChange(self.kind, MaintenanceReason.UNREAD, Scope(str(area)), after, limit)
        return StepPart((due,), "" if after else str(now))


class Refused(Counting):
    """A step of one part with four changes; those of the second user are refused, and all that come with them."""

    batch = 4

    def find_due(self, area: MaintenanceScope, now: datetime, after: str, limit: int) -> StepPart:
        """Return all at once."""
        return StepPart(
            tuple(DueChange(self.kind, MaintenanceReason.UNREAD, Scope(f"user {n}"), str(now), limit) for n in range(4))
        )

    def apply(self, due: Sequence[DueChange]) -> StepResult:
        """Refuse the second user's."""
        if any(one.scope.user_id == "user 1" for one in due):
            raise ErasureRunningError
        return StepResult(tuple(due))


def maintenance(
    leases: Leases, clock: Clock, *steps: MaintenanceStep
) -> tuple[MaintenanceRunner, LeaderElection, LatencyStats]:
    """Return what runs *steps*."""
    names = iter("abc")
    leading, performance = LeaderElection(leases, clock, lambda: next(names)), LatencyStats(clock)
    run = MaintenanceRunner(
        steps,
        leading,
        StepMetrics(performance),
        clock,
        RunLimits(),
        SearchPriority(),
        flush_accesses=lambda: None,
        head_position=lambda: 1,
    )
    return run, leading, performance


def test_a_step_that_fails_does_not_hinder_the_others(tmp_path: Path) -> None:
    """It says what was wrong and counts as failed."""
    clock = Clock()
    with open_desk(tmp_path, clock) as desk:
        leases = desk.store.leases
        run, _, performance = maintenance(leases, clock, Counting(), Failing())

        *_, end = run.run(EVERYBODY, (), MaintenancePlan.PERFORM)

        assert "cannot be reached" in end.tallies[EXPIRE].failure
        assert (end.tallies[ARCHIVE].changed, end.tallies[ARCHIVE].failure) == (2, "")
        errors = {one.operation: one.durations.errors for one in performance.report()}
        assert errors == {"MaintenanceArchive": 0, "MaintenanceExpire": 1}
        with pytest.raises(CapabilityMissingError):
            next(run.run(EVERYBODY, (PROMOTE,), MaintenancePlan.PERFORM))


def test_a_user_who_is_being_erased_does_not_hinder_the_others(tmp_path: Path) -> None:
    """What is due of others in the same part is done, and the step has not failed."""
    clock = Clock()
    with open_desk(tmp_path, clock) as desk:
        run, _, _ = maintenance(desk.store.leases, clock, Refused())

        told = list(run.run(EVERYBODY, (), MaintenancePlan.PERFORM))

        assert [one.scope.user_id for progress in told for one in progress.changes] == ["user 0", "user 2", "user 3"]
        tally = told[-1].tallies[ARCHIVE]
        assert (tally.due, tally.changed, tally.skipped, tally.failure) == (4, 3, 1, "")


def test_a_leader_that_is_gone_is_succeeded(tmp_path: Path) -> None:
    """Once its term is over, not before."""
    clock = Clock()
    with open_desk(tmp_path, clock) as desk:
        leases = desk.store.leases
        run, leading, _ = maintenance(leases, clock)
        assert leases.take("maintenance", holder="gone", now=clock(), term=TERM)
        clock.advance(seconds=TERM.total_seconds() - 1)
        with pytest.raises(MaintenanceRunningError):
            list(run.run(EVERYBODY, (), MaintenancePlan.PERFORM))
        assert leading.last_end() is None

        clock.advance(seconds=1)
        list(run.run(EVERYBODY, (), MaintenancePlan.PERFORM))
        assert leading.last_end() == clock()


def test_who_lost_the_leadership_stops(tmp_path: Path) -> None:
    """Before its next change, when it was still for so long that another process began; else it goes on."""
    clock = Clock()
    with open_desk(tmp_path, clock) as desk:
        leases = desk.store.leases
        run, leading, _ = maintenance(leases, clock, Counting())
        for is_succeeded in (False, True):
            running = run.run(EVERYBODY, (), MaintenancePlan.PERFORM)
            while not next(running).changes:
                pass
            clock.advance(seconds=TERM.total_seconds())
            if is_succeeded:
                assert leases.take("maintenance", holder="other", now=clock(), term=TERM)
                with pytest.raises(MaintenanceRunningError):
                    list(running)
            else:
                assert sum(len(one.changes) for one in running) == 1
                ended = clock()
        assert leading.last_end() == ended


def test_only_a_whole_run_counts_for_the_clock(tmp_path: Path) -> None:
    """One for a single user, of a single step, or dry does not put the next one off."""
    clock = Clock()
    with open_desk(tmp_path, clock) as desk:
        leases = desk.store.leases
        run, leading, _ = maintenance(leases, clock, Counting(), Failing())
        for area, kinds, doing in (
            (MaintenanceScope("x"), (), MaintenancePlan.PERFORM),
            (EVERYBODY, (ARCHIVE,), MaintenancePlan.PERFORM),
            (EVERYBODY, (), MaintenancePlan.DRY_RUN),
        ):
            list(run.run(area, kinds, doing))
            assert leading.last_end() is None
