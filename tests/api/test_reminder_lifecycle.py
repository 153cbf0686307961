"""Reminders over months: what ends, archives or replaces a memory of itself loses none that is still to come."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.api.test_reminders import MORNING, acknowledge, day, update
from tests.support.rpc import TIMEOUT, create, get
from tests.support.server_process import Stubs
from tests.support.server_thread import served
from tests.support.sessions import append, open_session, place

SHORT_TERM = types_pb.MEMORY_LAYER_SHORT_TERM
MONTHLY = types_pb.REMINDER_RECURRENCE_MONTHLY
STEPS = (
    lifecycle_pb.MAINTENANCE_STEP_EXPIRE, lifecycle_pb.MAINTENANCE_STEP_PROMOTE, lifecycle_pb.MAINTENANCE_STEP_ARCHIVE,
    lifecycle_pb.MAINTENANCE_STEP_CONSOLIDATE, lifecycle_pb.MAINTENANCE_STEP_COMPACT,
)  # fmt: skip
START = datetime(2027, 1, 4, 9, tzinfo=UTC)


class Clock:
    """The clock of the server, which each test sets to `START`."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        """Return the present moment, which is a little later each time."""
        self.now += timedelta(microseconds=1)
        return self.now


@pytest.fixture(scope="module")
def shared_clock() -> Clock:
    """The clock of this module's server."""
    return Clock()


@pytest.fixture
def clock(shared_clock: Clock) -> Clock:
    """The same at the start, or later if another test was there."""
    return shared_clock


@pytest.fixture(scope="module")
def stubs(shared_clock: Clock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stubs]:
    """A server with that clock."""
    with served(tmp_path_factory.mktemp("reminders") / "data", now=shared_clock, call_now=shared_clock) as stubs:
        yield stubs


def maintain(stubs: Stubs, scope: types_pb.Scope) -> list[str]:
    """Run maintenance; return the ids of what it changed."""
    request = lifecycle_pb.RunMaintenanceRequest(scope=types_pb.Scope(user_id=scope.user_id), steps=STEPS)
    told = list(stubs.lifecycle.RunMaintenance(request, timeout=TIMEOUT))
    assert [""] * len(STEPS) == [tally.failure for tally in told[-1].tallies]
    return [change.memory_id for response in told for change in response.changes]


def wait_until(stubs: Stubs, clock: Clock, scope: types_pb.Scope, day: date) -> None:
    """Let time pass up to the morning of a day, with maintenance every month."""
    end = datetime(day.year, day.month, day.day, 9, tzinfo=UTC)
    while clock.now < end:
        clock.now = min(end, clock.now + timedelta(days=30))
        maintain(stubs, scope)


def due_now(stubs: Stubs, scope: types_pb.Scope, **request: Any) -> list[str]:
    """Return the contents of what is due at the present moment of the server."""
    asked = lifecycle_pb.ListDueRemindersRequest(scope=scope, **request)
    return [one.memory.content for one in stubs.lifecycle.ListDueReminders(asked, timeout=TIMEOUT).reminders]


def in_days(clock: Clock, days: int) -> date:
    """Return a day to come."""
    return (clock.now + timedelta(days=days)).date()


def reminder(when: date, **fields: Any) -> types_pb.Reminder:
    """Return a reminder."""
    return types_pb.Reminder(date=day(when.year, when.month, when.day), **fields)


@pytest.mark.parametrize(
    "said",
    ["Remind me on {:%Y-%m-%d} to renew my passport.", "我{0.year}年{0.month}月{0.day}日要去看牙医。"],
)
def test_a_task_of_a_session_is_announced_months_later(stubs: Stubs, user: str, clock: Clock, said: str) -> None:
    """It is no longer current a while after its day."""
    when = in_days(clock, 150)
    scope = place(user, project="p")
    open_session(stubs, scope)
    append(stubs, scope, [said.format(when)])
    closed = stubs.session.CloseSession(session_pb.CloseSessionRequest(scope=scope), timeout=TIMEOUT)
    [result] = closed.flush.results
    assert (result.memory.layer, result.memory.kind) == (SHORT_TERM, types_pb.MEMORY_KIND_TASK)

    wait_until(stubs, clock, scope, when)

    assert [said.format(when)] == due_now(stubs, scope)
    wait_until(stubs, clock, scope, when + timedelta(days=60))
    assert types_pb.MEMORY_STATUS_EXPIRED == get(stubs, scope, result.memory.id).status


@pytest.mark.parametrize("said", ["The exam is on {:%Y-%m-%d}.", "{0.year}年{0.month}月{0.day}日有考试。"])
def test_a_daily_log_is_announced_months_later(stubs: Stubs, user: str, clock: Clock, said: str) -> None:
    """It is summarised after its day."""
    when, scope = in_days(clock, 100), types_pb.Scope(user_id=user)
    request = memory_pb.AppendMemoryRequest(scope=scope, key=f"daily/{clock.now:%Y-%m-%d}", content=said.format(when))
    log = stubs.memory.AppendMemory(request, timeout=TIMEOUT).memory

    wait_until(stubs, clock, scope, when)

    assert [log.content] == due_now(stubs, scope)
    clock.now += timedelta(days=10)
    assert log.id in maintain(stubs, scope)


def test_a_recurring_task_is_announced_month_by_month(stubs: Stubs, user: str, clock: Clock) -> None:
    """Without an end; with a new reminder of one day it ends after that."""
    scope = types_pb.Scope(user_id=user)
    rent = create(
        stubs, scope, "Pay the rent.", layer=SHORT_TERM, reminder=reminder(date(2027, 1, 31), recurrence=MONTHLY)
    )
    assert not rent.HasField("expire_time")
    for month, number in ((8, 31), (11, 30)):
        wait_until(stubs, clock, scope, date(clock.now.year + (month < clock.now.month), month, number))
        assert [rent.content] == due_now(stubs, scope)

    once = update(stubs, scope, rent, "reminder", reminder=reminder(in_days(clock, 90)))

    assert in_days(clock, 104) == once.expire_time.ToDatetime().date()


@pytest.mark.parametrize("fields", [{"reminder": True}, {"content": "The review is on {:%Y-%m-%d}."}])
def test_a_new_reminder_moves_the_expiry(stubs: Stubs, user: str, clock: Clock, fields: dict[str, Any]) -> None:
    """Unless the same call gives one, or it is late enough."""
    scope = types_pb.Scope(user_id=user)
    late, soon = in_days(clock, 100), in_days(clock, 2)
    note = create(stubs, scope, "The review", layer=SHORT_TERM)

    def changed(when: date, *mask: str, **more: Any) -> date:
        given = {name: reminder(when) if name == "reminder" else value.format(when) for name, value in fields.items()}
        memory = update(stubs, scope, note, *fields, *mask, **given, **more)
        assert (when.month, when.day) == (memory.reminder.date.month, memory.reminder.date.day)
        return memory.expire_time.ToDatetime().date()

    assert in_days(clock, 16) == changed(soon)
    assert in_days(clock, 114) == changed(late)
    given = Timestamp()
    given.FromDatetime(clock.now + timedelta(days=3))
    assert in_days(clock, 3) == changed(in_days(clock, 90), "expire_time", expire_time=given)


@pytest.mark.parametrize("said", ["My mother's birthday is on {0:%B} {0.day}.", "我妈妈的生日是{0.month}月{0.day}日。"])
def test_what_nobody_reads_for_months_is_announced(stubs: Stubs, user: str, clock: Clock, said: str) -> None:
    """Maintenance archives a memory whose last day is over, and not one with a day to come."""
    when, scope = in_days(clock, 120), types_pb.Scope(user_id=user)
    birthday = create(stubs, scope, said.format(when))
    visit = create(stubs, scope, "The visit to the museum", reminder=reminder(in_days(clock, 115)))
    unbound = create(stubs, scope, "The museum has a red door.")

    wait_until(stubs, clock, scope, when)

    assert [birthday.content] == due_now(stubs, scope, overdue_days=0)
    states = [get(stubs, scope, one.id).status for one in (birthday, visit, unbound)]
    assert [types_pb.MEMORY_STATUS_ACTIVE] * 2 + [types_pb.MEMORY_STATUS_ARCHIVED] == states
    wait_until(stubs, clock, scope, when + timedelta(days=120))  # it was read just now
    assert types_pb.MEMORY_STATUS_ARCHIVED == get(stubs, scope, visit.id).status


@pytest.mark.parametrize(
    ("one", "other"), [("Pay the rent to Ms Ono.", "Pay the rent to Ms Ono"), ("交房租给小王。", "交房租给小王")]
)
def test_what_is_merged_is_announced_as_before(stubs: Stubs, user: str, clock: Clock, one: str, other: str) -> None:
    """With what was acknowledged; two memories with different reminders are not merged."""
    scope = types_pb.Scope(user_id=user)
    today = clock.now.date()
    rent = create(stubs, scope, one, reminder=reminder(today, recurrence=MONTHLY))
    create(stubs, scope, other)
    acknowledge(stubs, scope, rent, day(today.year, today.month, today.day), slot=MORNING)
    visit = [
        create(stubs, scope, f"See the doctor{end}", reminder=reminder(in_days(clock, n)))
        for n, end in ((1, ""), (2, "."))
    ]
    request = lifecycle_pb.ConsolidateMemoriesRequest(scope=scope)

    [group] = stubs.lifecycle.ConsolidateMemories(request, timeout=TIMEOUT).groups

    assert reminder(today, recurrence=MONTHLY) == group.merged.reminder
    morning = datetime(today.year, today.month, today.day, 9, tzinfo=UTC)
    stamp = Timestamp()
    stamp.FromDatetime(morning)
    assert [] == due_now(stubs, scope, time=stamp)
    stamp.FromDatetime(morning + timedelta(hours=9))
    assert [group.merged.content] == due_now(stubs, scope, time=stamp)
    assert {one.id for one in group.originals}.isdisjoint(one.id for one in visit)


def test_what_is_promoted_keeps_its_reminder_as_it_is(stubs: Stubs, user: str, clock: Clock) -> None:
    """What was acknowledged is not announced again, and what was removed does not come back."""
    scope, when = types_pb.Scope(user_id=user), in_days(clock, 2)
    given = create(stubs, scope, f"The exam is on {when:%Y-%m-%d}.", layer=SHORT_TERM)
    removed = create(stubs, scope, f"The demo is on {in_days(clock, 5):%Y-%m-%d}.", layer=SHORT_TERM)
    assert given.HasField("reminder")
    assert removed.HasField("reminder")
    acknowledge(stubs, scope, given, day(when.year, when.month, when.day))
    update(stubs, scope, removed, "reminder")

    for memory in (given, removed):
        stubs.lifecycle.PromoteMemory(lifecycle_pb.PromoteMemoryRequest(scope=scope, id=memory.id), timeout=TIMEOUT)

    clock.now += timedelta(days=3)
    assert [] == due_now(stubs, scope, days_ahead=30)


def test_another_time_of_day_moves_the_expiry(stubs: Stubs, user: str, clock: Clock) -> None:
    """The memory that takes a reminder over does not end before it."""
    scope, when = types_pb.Scope(user_id=user), in_days(clock, 60)
    create(stubs, scope, f"The demo is on {when:%Y-%m-%d} at 3pm.", layer=SHORT_TERM)
    request = memory_pb.CreateMemoryRequest(
        scope=scope, memory=types_pb.Memory(content="The demo is now at 5pm.", layer=SHORT_TERM)
    )

    later = get(stubs, scope, stubs.memory.CreateMemory(request, timeout=TIMEOUT).memory.id)

    assert (when.month, when.day, 17) == (
        later.reminder.date.month, later.reminder.date.day, later.reminder.time.hours
    )  # fmt: skip
    assert when + timedelta(days=14) == later.expire_time.ToDatetime().date()
