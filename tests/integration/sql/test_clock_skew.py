"""Processes on one PostgreSQL whose clocks differ by minutes: all is decided as if they did not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from contextvars import copy_context
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pydantic import SecretStr

from memsvc.domain.clock import to_micros
from memsvc.domain.errors import ErasureRunningError, MaintenanceRunningError
from memsvc.domain.file_text import FileText, TextReason, TextState
from memsvc.domain.files import File
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import Memory
from memsvc.domain.user_data import Erasure, owner_digest
from memsvc.engine.commit.group_committer import CALL_START, GroupCommitter
from memsvc.engine.runtime.leader_lease import TERM, LeaderElection
from memsvc.ports.metadata import Record
from memsvc.ports.operations import WebhookSelection
from memsvc.ports.plugin import BackendContext
from memsvc.testing import factories
from memsvc.testing.factories import NOW
from memsvc.testing.store_harness import OWNER, Clock
from memsvc_backends.sql import SQL, SqlSettings
from memsvc_backends.sql.database import ClockDifference
from tests.support.postgres_server import emptied

SKEW = timedelta(minutes=10)
TEXT_TERM = timedelta(minutes=6)
AHEAD, RIGHT, BEHIND = SKEW, timedelta(0), -SKEW
SKEWS = [(AHEAD, RIGHT), (RIGHT, AHEAD), (BEHIND, RIGHT), (RIGHT, BEHIND), (AHEAD, BEHIND), (BEHIND, AHEAD)]


class Process:
    """A process with a clock that is wrong by *skew*."""

    def __init__(self, stack: ExitStack, url: str, directory: Path, skew: timedelta) -> None:
        self.skew = skew
        self.clock: Callable[[], datetime] = lambda: datetime.now(UTC) + self.skew
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

    def insert_file(self, **changes: Any) -> File:
        """Insert a file that is created now."""
        with self.store.transaction() as transaction:
            return transaction.files.insert(factories.file(create_time=self.clock(), **changes))

    def claim_texts(self) -> list[File]:
        """Claim the texts that are due."""
        with self.store.transaction() as transaction:
            return transaction.files.claim_texts(now=self.clock(), term=TEXT_TERM, limit=9)

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


def test_the_claim_of_a_text_lasts_for_its_term(processes: tuple[Process, Process], url: str) -> None:
    """A new file is due at once; what another process works on is not taken over, and what it left is, in time."""
    first, second = processes
    first.insert_file()

    [claim] = second.claim_texts()
    assert first.claim_texts() == second.claim_texts() == []
    _let_texts_wait(url, TEXT_TERM)
    [again] = first.claim_texts()
    assert (again.id, again.text.attempts) == (claim.id, 2)
    with second.store.transaction() as transaction:
        assert not transaction.files.finish_text(claim, FileText(TextState.INDEXED))


def test_a_text_is_retried_after_its_pause(processes: tuple[Process, Process], url: str) -> None:
    """By either process."""
    first, second = processes
    first.insert_file()
    [claim] = first.claim_texts()
    pause = timedelta(minutes=1)
    with first.store.transaction() as transaction:
        assert transaction.files.finish_text(claim, FileText(), pause=pause)

    assert first.claim_texts() == second.claim_texts() == []
    _let_texts_wait(url, pause)
    assert len(second.claim_texts()) == 1


def test_a_text_is_due_as_soon_as_its_content_is_there(processes: tuple[Process, Process]) -> None:
    """Though the file was created by a clock that is ahead."""
    first, second = processes
    file = first.insert_file(has_content=False)
    with first.store.transaction() as transaction:
        assert transaction.files.fill(OWNER, file.sha256) == 1

    assert [one.id for one in second.claim_texts()] == [file.id]


def test_a_restart_makes_texts_due_at_once(processes: tuple[Process, Process]) -> None:
    """Those that a missing library held up, and those of a process that stopped."""
    first, second = processes
    first.insert_file(text=FileText(TextState.UNSUPPORTED, TextReason.LIBRARY_MISSING))
    with first.store.transaction() as transaction:
        assert transaction.files.retry_texts({TextReason.LIBRARY_MISSING}, now=first.clock()) == 1
    assert len(second.claim_texts()) == 1

    with first.store.transaction() as transaction:
        transaction.files.release_claims(now=first.clock())
    assert len(second.claim_texts()) == 1


def test_a_delivery_keeps_its_schedule(processes: tuple[Process, Process], url: str) -> None:
    """When another process takes over the sending: its retry is due when it was, and it is as old as it was."""
    first, second = processes
    every = WebhookSelection("e", "", frozenset(), frozenset(ChangeAction))
    first.store.webhooks.collect(every, limit=9)
    first.begin_call()()
    first.store.webhooks.collect(every, limit=9)
    [delivery] = first.store.webhooks.due("e", at=first.clock(), limit=9)
    pause = timedelta(minutes=1)
    now = first.clock()
    first.store.webhooks.settle([], [replace(delivery, attempts=1, first_time=now, next_time=now + pause)])

    assert second.store.webhooks.due("e", at=second.clock(), limit=9) == []
    with psycopg.connect(url, autocommit=True) as observer:
        earlier = "UPDATE webhook_deliveries SET first_time = first_time - %(of)s, next_time = next_time - %(of)s"
        observer.execute(earlier, {"of": pause // timedelta(microseconds=1)})
    [found] = second.store.webhooks.due("e", at=second.clock(), limit=9)
    assert found.first_time is not None
    assert found.next_time is not None
    assert pause <= second.clock() - found.first_time < pause + SKEW / 2
    assert found.next_time - found.first_time == pause


@pytest.mark.parametrize("step", [SKEW, -SKEW])
def test_a_lease_compares_the_clocks_anew(url: str, tmp_path: Path, step: timedelta) -> None:
    """So that the sender of webhooks goes by its clock as it was set last."""
    with ExitStack() as stack:
        process = Process(stack, url, tmp_path, RIGHT)
        every = WebhookSelection("e", "", frozenset(), frozenset(ChangeAction))
        process.store.webhooks.collect(every, limit=9)
        process.begin_call()()
        process.store.webhooks.collect(every, limit=9)
        [delivery] = process.store.webhooks.due("e", at=process.clock(), limit=9)
        now = process.clock()
        pause = timedelta(minutes=1)
        process.store.webhooks.settle([], [replace(delivery, attempts=1, first_time=now, next_time=now + pause)])
        process.skew = step
        assert process.store.leases.take("webhooks", holder="h", now=process.clock(), term=TERM)

        assert process.store.webhooks.due("e", at=process.clock(), limit=9) == []
        assert len(process.store.webhooks.due("e", at=process.clock() + pause, limit=9)) == 1


def _let_texts_wait(url: str, time: timedelta) -> None:
    """Let a time pass for claims and pauses of texts."""
    with psycopg.connect(url, autocommit=True) as observer:
        observer.execute("UPDATE files SET text_time = text_time - %s", (time // timedelta(microseconds=1),))


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
