"""Processes on one PostgreSQL whose clocks differ by minutes: leases and erasures are decided as if they did not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from contextvars import copy_context
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from pydantic import SecretStr

from memsvc.domain.clock import to_micros
from memsvc.domain.errors import ErasureRunningError, MaintenanceRunningError
from memsvc.domain.memory import Memory
from memsvc.domain.user_data import Erasure, owner_digest
from memsvc.engine.commit.group_committer import CALL_START, GroupCommitter
from memsvc.engine.runtime.leader_lease import TERM, LeaderElection
from memsvc.ports.metadata import Record
from memsvc.ports.plugin import BackendContext
from memsvc.testing import factories
from memsvc.testing.factories import NOW
from memsvc.testing.store_harness import OWNER, Clock
from memsvc_backends.sql import SQL, SqlSettings
from memsvc_backends.sql.database import ClockDifference
from tests.support.postgres_server import emptied

SKEW = timedelta(minutes=5)
AHEAD, RIGHT, BEHIND = SKEW, timedelta(0), -SKEW
SKEWS = [(AHEAD, RIGHT), (RIGHT, AHEAD), (BEHIND, RIGHT), (RIGHT, BEHIND), (AHEAD, BEHIND), (BEHIND, AHEAD)]


class Process:
    """A process with a clock that is wrong by *skew*."""

    def __init__(self, stack: ExitStack, url: str, directory: Path, skew: timedelta) -> None:
        self.clock: Callable[[], datetime] = lambda: datetime.now(UTC) + skew
        context = BackendContext(directory, self.clock)
        self.store = stack.enter_context(SQL.open(SqlSettings(url=SecretStr(url)), context))
        self.election = LeaderElection(self.store.leases, self.clock, lambda: f"by {skew}")
        self.committer = GroupCommitter(self.store)
        stack.callback(self.committer.close)

    def begin_call(self) -> Callable[[], list[Memory]]:
        """Begin a call that writes when the result is called, any time later."""
        context = copy_context()
        context.run(CALL_START.set, to_micros(self.clock()))
        record = Record(factories.memory("of a call"))
        return lambda: context.run(
            lambda: self.committer.submit(lambda transaction: transaction.insert([record]), owner=OWNER).value
        )

    def erase(self) -> None:
        """Begin an erasure and end it."""
        begun = Erasure(owner_digest(OWNER), OWNER, "r", self.clock())
        with self.store.transaction() as transaction:
            transaction.begin_erasure(begun)
        with self.store.transaction() as transaction:
            transaction.end_erasure(replace(begun, owner="", end_time=self.clock(), receipt="{}"))


@pytest.fixture
def url() -> Iterator[str]:
    """Give an empty schema."""
    with emptied("skew") as url:
        yield url


@pytest.fixture(params=SKEWS, ids=lambda skews: " and ".join(f"{skew.total_seconds():+.0f} s" for skew in skews))
def processes(request: pytest.FixtureRequest, url: str, tmp_path: Path) -> Iterator[tuple[Process, Process]]:
    """Open two processes."""
    with ExitStack() as stack:
        first, second = (Process(stack, url, tmp_path, skew) for skew in request.param)
        yield first, second


def test_a_lease_is_neither_taken_early_nor_kept_too_long(processes: tuple[Process, Process], url: str) -> None:
    """It lasts for its term by the clock of the database."""
    first, second = processes
    with psycopg.connect(url, autocommit=True) as observer:
        with first.election.lead() as lease:
            with pytest.raises(MaintenanceRunningError), second.election.lead():
                pass
            lease.require()
            lease.is_finished = True

        assert first.store.leases.take("maintenance", holder="gone", now=first.clock(), term=TERM)
        with pytest.raises(MaintenanceRunningError), second.election.lead():
            pass
        observer.execute("UPDATE leases SET until = until - %s", (TERM // timedelta(microseconds=1),))
        with second.election.lead() as lease:
            lease.require()


def test_the_end_of_maintenance_is_known_by_the_clock_of_the_reader(
    processes: tuple[Process, Process],
) -> None:
    """Else it would be due again and again, or not for minutes."""
    first, second = processes
    before = second.clock()
    with first.election.lead() as lease:
        lease.is_finished = True

    ended = second.election.last_end()
    assert ended is not None
    assert before < ended < second.clock()


def test_a_call_that_began_before_an_erasure_writes_nothing_after_it(processes: tuple[Process, Process]) -> None:
    """It may have read what was erased."""
    writer, eraser = processes
    write = writer.begin_call()
    eraser.erase()

    with pytest.raises(ErasureRunningError):
        write()


def test_a_call_that_begins_after_an_erasure_writes(processes: tuple[Process, Process]) -> None:
    """At once: the user is a new one."""
    writer, eraser = processes
    eraser.erase()
    write = writer.begin_call()

    assert len(write()) == 1


def _measure(clocks: ClockDifference, clock: Clock, there: datetime, *, before: timedelta, after: timedelta) -> None:
    """Read the clock of the database between two delays."""
    began = clock.moment
    clock.moment += before + after
    clocks.note(began, to_micros(there))


def test_the_shortest_round_trip_says_most() -> None:
    """A slow one before or after it takes nothing away."""
    clock = Clock()
    clocks = ClockDifference(clock)
    slow, quick = timedelta(seconds=2), timedelta(milliseconds=1)
    for delay in (slow, quick, slow):
        _measure(clocks, clock, clock.moment + delay - SKEW, before=delay, after=delay)

    error = clocks.latest(to_micros(NOW - SKEW)) - to_micros(NOW)
    assert 0 <= error < 2 * quick / timedelta(microseconds=1)


def test_a_clock_that_is_set_is_compared_anew() -> None:
    """What was measured before says nothing."""
    clock = Clock()
    clocks = ClockDifference(clock)
    delay = timedelta(milliseconds=1)
    _measure(clocks, clock, clock.moment, before=delay, after=delay)
    there = clock.moment
    clock.moment += SKEW
    _measure(clocks, clock, there, before=delay, after=delay)

    error = clocks.latest(to_micros(NOW)) - to_micros(NOW + SKEW)
    assert 0 <= error <= 2 * delay / timedelta(microseconds=1)
    assert clocks.there(NOW + SKEW) <= to_micros(NOW)
