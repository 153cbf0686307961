"""Reminders over the wire: given or found, due in the user's time zone, each given once a slot."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import TIMEOUT, create, create_all, get, refused, write
from tests.support.server_process import Stubs

MORNING, AFTERNOON = types_pb.REMINDER_SLOT_MORNING, types_pb.REMINDER_SLOT_AFTERNOON
YEARLY, NONE = types_pb.REMINDER_RECURRENCE_YEARLY, types_pb.REMINDER_RECURRENCE_NONE
MONTHLY, WEEKLY = types_pb.REMINDER_RECURRENCE_MONTHLY, types_pb.REMINDER_RECURRENCE_WEEKLY
INVALID = grpc.StatusCode.INVALID_ARGUMENT
ID = "0190163d-8694-739b-aea5-966c26f8ad91"


def moment(text: str) -> Timestamp:
    """Return a moment of UTC."""
    stamp = Timestamp()
    stamp.FromDatetime(datetime.fromisoformat(text).replace(tzinfo=UTC))
    return stamp


def day(year: int, month: int, number: int) -> types_pb.CalendarDate:
    """Return a date."""
    return types_pb.CalendarDate(year=year, month=month, day=number)


def yearly(month: int, number: int, **fields: Any) -> types_pb.Reminder:
    """Return a reminder of every year."""
    return types_pb.Reminder(date=day(0, month, number), **fields)


def page(stubs: Stubs, scope: types_pb.Scope, time: str, **request: Any) -> lifecycle_pb.ListDueRemindersResponse:
    """Return a page of what is due at that time of UTC."""
    asked = lifecycle_pb.ListDueRemindersRequest(scope=scope, time=moment(time), **request)
    return stubs.lifecycle.ListDueReminders(asked, timeout=TIMEOUT)


def due(stubs: Stubs, scope: types_pb.Scope, time: str, **request: Any) -> list[tuple[str, int]]:
    """Return the contents of what is due then, and in which slot."""
    return [(one.memory.content, one.occurrence.slot) for one in page(stubs, scope, time, **request).reminders]


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("My parents are visiting this weekend.", day(2026, 12, 5)),
        ("The lease runs out on 4.3.2027.", day(2027, 3, 4)),
        ("除夕那天要去奶奶家吃年夜饭", day(2027, 2, 5)),
        ("周末要去爬香山", day(2026, 12, 5)),
    ],
)
def test_a_named_weekend_or_holiday_comes_due(
    stubs: Stubs, scope: types_pb.Scope, text: str, date: types_pb.CalendarDate
) -> None:
    create(stubs, scope, text, event_time=moment("2026-12-02T10:00"))

    [found] = page(stubs, scope, f"{date.year}-{date.month:02}-{date.day:02}T09:00").reminders
    assert (found.memory.content, found.occurrence.date) == (text, date)


def acknowledge(
    stubs: Stubs, scope: types_pb.Scope, memory: types_pb.Memory, date: types_pb.CalendarDate, **request: Any
) -> lifecycle_pb.AcknowledgeReminderResponse:
    """Say that a reminder was given."""
    asked = lifecycle_pb.AcknowledgeReminderRequest(scope=scope, id=memory.id, date=date, **request)
    return stubs.lifecycle.AcknowledgeReminder(asked, timeout=TIMEOUT)


def update(stubs: Stubs, scope: types_pb.Scope, memory: types_pb.Memory, *mask: str, **fields: Any) -> types_pb.Memory:
    """Change a memory."""
    request = memory_pb.UpdateMemoryRequest(
        scope=scope, memory=types_pb.Memory(id=memory.id, **fields), update_mask=FieldMask(paths=mask)
    )
    return stubs.memory.UpdateMemory(request, timeout=TIMEOUT).memory


@pytest.mark.parametrize(
    ("said", "date", "recurrence", "time"),
    [
        ("Mom's birthday is March 5.", day(0, 3, 5), YEARLY, "2027-03-05T08:00"),
        ("妈妈的生日是三月五号。", day(0, 3, 5), YEARLY, "2027-03-05T08:00"),
        ("Remind me tomorrow at 3pm to call Anna.", day(2026, 2, 5), NONE, "2026-02-05T16:00"),
        ("下周五提醒我给小王打电话。", day(2026, 2, 13), NONE, "2026-02-13T16:00"),
        ("The tax return is due on 2026-05-31.", day(2026, 5, 31), NONE, "2026-05-31T08:00"),
        ("我预约了5月31日看牙医。", day(2026, 5, 31), NONE, "2026-05-31T08:00"),
    ],
)
def test_what_is_written_is_reminded_of(
    stubs: Stubs, scope: types_pb.Scope, said: str, date: types_pb.CalendarDate, recurrence: int, time: str
) -> None:
    """The day is found in the content, reckoned from when it was said, and the memory is due on it and on no other."""
    memory = create(stubs, scope, said, event_time=moment("2026-02-04T10:00"))

    assert (date, recurrence, said) == (memory.reminder.date, memory.reminder.recurrence, memory.reminder.phrase)
    assert memory == get(stubs, scope, memory.id)
    assert [said] == [content for content, _ in due(stubs, scope, time)]
    assert [] == due(stubs, scope, "2026-02-04T08:00")


@pytest.mark.parametrize("said", ["On March 5 we went to Lisbon.", "3月5日我们去了里斯本。", "Mom's birthday is 3/5."])
def test_a_date_by_itself_is_no_reminder(stubs: Stubs, scope: types_pb.Scope, said: str) -> None:
    """Neither one of the past nor one that is ambiguous."""
    assert not create(stubs, scope, said).HasField("reminder")


def test_slots_are_those_of_the_users_zone(stubs: Stubs, scope: types_pb.Scope) -> None:
    """One moment is another day and another part of it elsewhere; a zone of its own goes before the user's."""
    create(stubs, scope, "plain", reminder=yearly(3, 5))
    create(stubs, scope, "own", reminder=yearly(3, 5, time_zone="America/New_York"))
    evening = "2026-03-04T20:00"

    assert [("plain", MORNING)] == due(stubs, scope, evening, time_zone="Asia/Shanghai")
    assert [] == due(stubs, scope, evening)
    assert [("plain", AFTERNOON)] == due(stubs, scope, "2026-03-05T07:00", time_zone="Asia/Shanghai", slot=0)[:1]
    assert [("plain", MORNING), ("own", MORNING)] == due(stubs, scope, "2026-03-05T12:00")
    assert [("own", AFTERNOON)] == due(stubs, scope, "2026-03-06T01:00")
    assert [("own", MORNING)] == due(stubs, scope, "2026-03-06T01:00", slot=MORNING)


def test_each_slot_is_given_once(stubs: Stubs, scope: types_pb.Scope) -> None:
    """What is acknowledged is not listed again in that slot, nor overdue; what is not comes again."""
    once = types_pb.Reminder(date=day(2026, 3, 5), recurrence=NONE)
    memory = create(stubs, scope, "dentist", reminder=once)
    assert [("dentist", MORNING)] == due(stubs, scope, "2026-03-05T09:00") == due(stubs, scope, "2026-03-05T10:00")
    [listed] = page(stubs, scope, "2026-03-05T09:00").reminders
    reply = acknowledge(stubs, scope, memory, listed.occurrence.date, slot=listed.occurrence.slot)

    assert memory == reply.memory == get(stubs, scope, memory.id)
    assert [] == due(stubs, scope, "2026-03-05T10:00")
    assert [("dentist", AFTERNOON)] == due(stubs, scope, "2026-03-05T16:00")
    assert [] == due(stubs, scope, "2026-03-06T09:00")
    again = acknowledge(stubs, scope, memory, day(2026, 3, 5), slot=MORNING, request_id="r")
    assert reply.acknowledge_time == again.acknowledge_time
    acknowledge(stubs, scope, memory, day(2026, 3, 5))
    assert [] == due(stubs, scope, "2026-03-05T16:00")


def test_what_was_missed_is_overdue(stubs: Stubs, scope: types_pb.Scope) -> None:
    """For as many days as are asked for, the longest overdue first, after what is due every year."""
    create(stubs, scope, "today", reminder=types_pb.Reminder(date=day(2026, 3, 5)))
    create(stubs, scope, "missed", reminder=types_pb.Reminder(date=day(2026, 2, 27), time=types_pb.TimeOfDay(hours=9)))
    create(stubs, scope, "every year", reminder=yearly(3, 5))
    create(stubs, scope, "past every year", reminder=yearly(3, 4))
    morning = "2026-03-05T09:00"

    assert ["every year", "missed", "today"] == [content for content, _ in due(stubs, scope, morning)]
    missed = page(stubs, scope, morning).reminders[1].occurrence
    assert (True, day(2026, 2, 27), moment("2026-02-27T09:00")) == (missed.overdue, missed.date, missed.due_time)
    assert ["every year", "today"] == [content for content, _ in due(stubs, scope, morning, overdue_days=5)]


def test_29_february_comes_every_year(stubs: Stubs, scope: types_pb.Scope) -> None:
    """On the day before the first of March where there is none."""
    create(stubs, scope, "leap", reminder=yearly(2, 29))

    seen = [bool(due(stubs, scope, f"{date}T09:00")) for date in ("2027-02-28", "2028-02-28", "2028-02-29")]
    assert [True, False, True] == seen


def test_a_reminder_goes_with_its_memory(stubs: Stubs, scope: types_pb.Scope) -> None:
    """What is deleted, archived or superseded reminds of nothing; what comes back does, of what it says now."""
    morning, other = "2026-03-05T09:00", "2026-06-12T09:00"
    memory = create(stubs, scope, "Mom's birthday is March 5.")
    stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=scope, id=memory.id), timeout=TIMEOUT)
    assert [] == due(stubs, scope, morning)
    stubs.memory.RestoreMemory(memory_pb.RestoreMemoryRequest(scope=scope, id=memory.id), timeout=TIMEOUT)
    assert [(memory.content, MORNING)] == due(stubs, scope, morning)
    update(stubs, scope, memory, status=types_pb.MEMORY_STATUS_ARCHIVED)
    assert [] == due(stubs, scope, morning)
    moved = update(stubs, scope, memory, status=types_pb.MEMORY_STATUS_ACTIVE, content="Mom's birthday is June 12.")
    assert ([], [(moved.content, MORNING)]) == (due(stubs, scope, morning), due(stubs, scope, other))
    back = memory_pb.RollbackMemoryRequest(scope=scope, id=memory.id, revision=1)
    stubs.memory.RollbackMemory(back, timeout=TIMEOUT)
    assert ([(memory.content, MORNING)], []) == (due(stubs, scope, morning), due(stubs, scope, other))
    stubs.memory.SupersedeMemory(
        memory_pb.SupersedeMemoryRequest(
            scope=scope, id=memory.id, memory=types_pb.Memory(content="She lives in Rome.")
        ),
        timeout=TIMEOUT,
    )
    assert [] == due(stubs, scope, morning)


def test_a_given_reminder_stays(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Whatever the content says, until it is changed or taken away; a found one follows its words."""
    given = create(stubs, scope, "Mom's birthday is March 5.", reminder=yearly(6, 12))
    assert yearly(6, 12, recurrence=YEARLY) == given.reminder
    assert given.reminder == update(stubs, scope, given, content="Mom's birthday is May 6.").reminder
    assert not update(stubs, scope, given, "reminder").HasField("reminder")
    assert not update(stubs, scope, given, "title", title="Mom").HasField("reminder")
    assert day(0, 5, 7) == update(stubs, scope, given, "content", content="Mom's birthday is May 7.").reminder.date

    found = create(stubs, scope, "Remind me tomorrow to sing.", event_time=moment("2026-02-04T10:00"))
    kept = update(stubs, scope, found, "content", content=f"{found.content}\nIt is fun.")
    assert found.reminder == kept.reminder
    assert not update(stubs, scope, found, "content", content="It is fun.").HasField("reminder")


def test_pages_lead_through_all(stubs: Stubs, user: str) -> None:
    """Of a project and the global ones, each once; the token is of this request alone."""
    scope, project = types_pb.Scope(user_id=user), types_pb.Scope(user_id=user, project_id="p")
    for place, name in ((scope, "global"), (project, "project")):
        create_all(stubs, place, [types_pb.Memory(content=f"{name} {n}", reminder=yearly(3, 5)) for n in range(3)])
    seen, token = list[str](), ""
    while True:
        found = page(stubs, project, "2026-03-05T09:00", page_size=2, page_token=token)
        seen += [one.memory.content for one in found.reminders]
        token = found.next_page_token or token
        if not found.next_page_token:
            break

    assert [f"{name} {n}" for name in ("global", "project") for n in range(3)] == seen
    other = lifecycle_pb.ListDueRemindersRequest(scope=project, page_token=token)
    assert ("page_token",) == refused(stubs.lifecycle.ListDueReminders, other).fields


def test_what_is_due_is_loaded_at_a_start(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Until it is acknowledged, which no cache hides; with what to acknowledge."""
    today = datetime.now(UTC).date()
    birthday = create(
        stubs, scope, "Mom's birthday", reminder=yearly(today.month, today.day), kind=types_pb.MEMORY_KIND_TASK
    )
    create(stubs, scope, "far", reminder=yearly(today.month % 12 + 1, 15))

    def load(**request: Any) -> search_pb.LoadCoreResponse:
        return stubs.search.LoadCore(search_pb.LoadCoreRequest(scope=scope, **request), timeout=TIMEOUT)

    first = load()
    if datetime.now(UTC).date() != today:
        pytest.skip("midnight came between")
    assert ([birthday], [birthday.id]) == (list(first.reminders), [one.memory_id for one in first.due])
    acknowledge(stubs, scope, birthday, first.due[0].date)
    assert ([], []) == (list(load().reminders), list(load().due))


def test_strangers_neither_see_nor_acknowledge(stubs: Stubs, user: str) -> None:
    """Another user and another project have nothing due; private memories of a session are that session's."""
    home = types_pb.Scope(user_id=user, project_id="p", session_id="s")
    memory = create(stubs, home, "secret", reminder=yearly(3, 5))
    private = create(stubs, home, "private", reminder=yearly(3, 5), layer=types_pb.MEMORY_LAYER_SESSION)
    strangers = [types_pb.Scope(user_id=f"{user}x", project_id="p"), types_pb.Scope(user_id=user, project_id="p2")]
    beside = types_pb.Scope(user_id=user, project_id="p", session_id="t")

    assert ["secret", "private"] == [content for content, _ in due(stubs, home, "2026-03-05T09:00")]
    assert ["secret"] == [content for content, _ in due(stubs, beside, "2026-03-05T09:00")]
    for scope, one in [*((stranger, memory) for stranger in strangers), (beside, private)]:
        asked = lifecycle_pb.AcknowledgeReminderRequest(scope=scope, id=one.id, date=day(2026, 3, 5))
        assert grpc.StatusCode.NOT_FOUND == refused(stubs.lifecycle.AcknowledgeReminder, asked).code
    for stranger in strangers:
        assert [] == due(stubs, stranger, "2026-03-05T09:00")
    assert 2 == len(due(stubs, home, "2026-03-05T09:00"))


def test_what_is_not_due_cannot_be_acknowledged(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Another day, another slot, no reminder: each is told by its field. A request_id is of one request."""
    memory = create(stubs, scope, "early", reminder=yearly(3, 5, slot=MORNING))
    plain = create(stubs, scope, "plain")
    date = day(2026, 3, 5)

    def refusal(**fields: Any) -> tuple[grpc.StatusCode, tuple[str, ...]]:
        given = {"scope": scope, "id": memory.id, "date": date} | fields
        answer = refused(stubs.lifecycle.AcknowledgeReminder, lifecycle_pb.AcknowledgeReminderRequest(**given))
        return answer.code, answer.fields

    assert (INVALID, ("date",)) == refusal(date=day(2026, 3, 6))
    assert (INVALID, ("slot",)) == refusal(slot=AFTERNOON)
    assert (INVALID, ("id",)) == refusal(id=plain.id)
    assert (grpc.StatusCode.NOT_FOUND, ()) == refusal(id=str(uuid.uuid4()))
    first = acknowledge(stubs, scope, memory, date, request_id="r1")
    update(stubs, scope, memory, "reminder")
    assert first.acknowledge_time == acknowledge(stubs, scope, memory, date, request_id="r1").acknowledge_time
    assert (grpc.StatusCode.ALREADY_EXISTS, ()) == refusal(date=day(2027, 3, 5), request_id="r1")


WRONG: list[tuple[types_pb.Reminder, tuple[str, ...]]] = [
    (types_pb.Reminder(), ("date",)),
    (yearly(13, 5), ("date.month",)),
    (yearly(0, 0), ("date.day", "date.month")),
    (yearly(2, 31), ("date.day",)),
    (yearly(4, 31), ("date.day",)),
    (types_pb.Reminder(date=day(2026, 2, 29)), ("date.day",)),
    (types_pb.Reminder(date=day(1899, 3, 5)), ("date.year",)),
    (types_pb.Reminder(date=day(3000, 3, 5)), ("date.year",)),
    (types_pb.Reminder(date=day(-1, 3, 5)), ("date.year",)),
    (yearly(3, 5, recurrence=NONE), ("date.year",)),
    (yearly(3, 5, recurrence=7), ("recurrence",)),
    (yearly(3, 5, slot=7), ("slot",)),
    (yearly(3, 5, time_zone="Mars/Olympus"), ("time_zone",)),
    (yearly(3, 5, time_zone="localtime"), ("time_zone",)),
    (yearly(3, 5, time_zone="right/Europe/Berlin"), ("time_zone",)),
    (yearly(3, 5, time_zone="../../etc/passwd"), ("time_zone",)),
    (yearly(3, 5, time_zone="x" * 65), ("time_zone",)),
    (yearly(3, 5, time=types_pb.TimeOfDay(hours=24, minutes=60)), ("time.hours", "time.minutes")),
    (yearly(3, 5, time=types_pb.TimeOfDay(hours=16), slot=MORNING), ("slot",)),
]


@pytest.mark.parametrize(("reminder", "paths"), WRONG, ids=lambda value: str(value).replace("\n", " ")[:60])
def test_wrong_reminders_are_refused_by_their_paths(
    stubs: Stubs, scope: types_pb.Scope, reminder: types_pb.Reminder, paths: tuple[str, ...]
) -> None:
    """In a new memory as in a change of one, all at once."""
    wanted = tuple(f"memory.reminder.{path}" for path in paths)
    new = memory_pb.CreateMemoryRequest(scope=scope, memory=types_pb.Memory(content="x", reminder=reminder))
    change = memory_pb.UpdateMemoryRequest(scope=scope, memory=types_pb.Memory(id=ID, reminder=reminder))

    for call, request in ((stubs.memory.CreateMemory, new), (stubs.memory.UpdateMemory, change)):
        refusal = refused(call, request)
        assert (INVALID, wanted) == (refusal.code, tuple(sorted(refusal.fields)))


def wrong_requests() -> Iterator[tuple[str, Any, tuple[str, ...]]]:
    """Yield requests about what is due, and what is wrong with them."""
    user = types_pb.Scope(user_id="u")
    for fields, paths in (
        ({"time": Timestamp(seconds=253_402_300_800)}, ("time",)),
        ({"time": moment("1899-12-31T23:59")}, ("time",)),
        ({"time": moment("3000-01-01T00:00")}, ("time",)),
        ({"time_zone": "Berlin", "slot": 3}, ("slot", "time_zone")),
        ({"overdue_days": -1}, ("overdue_days",)),
        ({"overdue_days": 366}, ("overdue_days",)),
        ({"page_size": 1_001}, ("page_size",)),
        ({"page_size": -1}, ("page_size",)),
        ({"page_token": "AQAAAAAAAAAE"}, ("page_token",)),
    ):
        yield "ListDueReminders", lifecycle_pb.ListDueRemindersRequest(scope=user, **fields), paths
    date = day(2026, 3, 5)
    for given, paths in (
        ({"date": date}, ("id",)),
        ({"id": ID}, ("date",)),
        ({"id": "x", "date": yearly(3, 5).date}, ("date.year", "id")),
        ({"id": ID, "date": day(2026, 2, 31)}, ("date.day",)),
        ({"id": ID, "date": date, "slot": 3, "request_id": "x" * 129}, ("request_id", "slot")),
    ):
        yield "AcknowledgeReminder", lifecycle_pb.AcknowledgeReminderRequest(scope=user, **given), paths  # type: ignore[arg-type] # any


@pytest.mark.parametrize(("method", "request_", "paths"), list(wrong_requests()))
def test_wrong_requests_are_refused_by_their_paths(
    stubs: Stubs, method: str, request_: Any, paths: tuple[str, ...]
) -> None:
    """All that is wrong at once, and nothing else."""
    refusal = refused(getattr(stubs.lifecycle, method), request_)
    core = search_pb.LoadCoreRequest(scope=types_pb.Scope(user_id="u"), time_zone="Berlin")

    assert (INVALID, paths) == (refusal.code, tuple(sorted(refusal.fields)))
    assert ("time_zone",) == refused(stubs.search.LoadCore, core).fields


@pytest.mark.parametrize("content", ["My sister's birthday is March 5.", "我妹妹的生日是3月5日。"])
def test_a_spoken_date_is_announced(stubs: Stubs, scope: types_pb.Scope, content: str) -> None:
    """A speaker does not make a message of it; a line of a conversation announces nothing."""
    create(stubs, scope, content, speaker="Anna")
    create(stubs, scope, content, speaker="Anna", kind=types_pb.MEMORY_KIND_MESSAGE)

    assert [content] == [one.memory.content for one in page(stubs, scope, "2027-03-05T09:00").reminders]


def days_of(
    stubs: Stubs, scope: types_pb.Scope, time: str, **request: Any
) -> list[tuple[str, tuple[int, int, int], int, bool]]:
    """Return what is due then or within some days: content, day, slot, and whether it is overdue."""
    return [
        (one.memory.content, (at.date.year, at.date.month, at.date.day), at.slot, at.overdue)
        for one in page(stubs, scope, time, **request).reminders
        for at in [one.occurrence]
    ]


def test_rhythms_come_again_after_they_are_acknowledged(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Each slot of each week and month once; the 31st is the last day of a shorter month."""
    bins = create(stubs, scope, "bins", reminder=types_pb.Reminder(date=day(2026, 2, 6), recurrence=WEEKLY))
    create(stubs, scope, "rent", reminder=types_pb.Reminder(date=day(2026, 1, 31), recurrence=MONTHLY))

    assert [("bins", MORNING)] == due(stubs, scope, "2026-02-06T09:00") == due(stubs, scope, "2026-02-13T09:00")
    assert [] == due(stubs, scope, "2026-01-30T09:00") == due(stubs, scope, "2026-02-07T09:00")
    acknowledge(stubs, scope, bins, day(2026, 2, 6))
    assert [] == due(stubs, scope, "2026-02-06T16:00")
    assert [("bins", AFTERNOON)] == due(stubs, scope, "2026-02-13T16:00")
    assert [("rent", MORNING)] == due(stubs, scope, "2026-02-28T09:00") == due(stubs, scope, "2026-04-30T09:00")
    assert [] == due(stubs, scope, "2026-03-30T09:00")
    wrong = lifecycle_pb.AcknowledgeReminderRequest(scope=scope, id=bins.id, date=day(2026, 2, 14))
    assert ("date",) == refused(stubs.lifecycle.AcknowledgeReminder, wrong).fields


def test_days_ahead_are_listed_in_order(stubs: Stubs, scope: types_pb.Scope) -> None:
    """What is due first, then each memory on its next day, page by page; listing marks nothing as given."""
    once = {"dentist": day(2026, 3, 9), "overdue": day(2026, 2, 27), "far": day(2026, 4, 30)}
    for content, date in once.items():
        create(stubs, scope, content, reminder=types_pb.Reminder(date=date))
    create(stubs, scope, "birthday", reminder=yearly(3, 7))
    create(stubs, scope, "rent", reminder=types_pb.Reminder(date=day(2026, 1, 31), recurrence=MONTHLY))
    today = create(stubs, scope, "bins", reminder=types_pb.Reminder(date=day(2026, 2, 5), recurrence=WEEKLY))
    lunar = types_pb.Reminder(date=day(2025, 2, 28), recurrence=YEARLY, lunar=True)
    create(stubs, scope, "grandfather", reminder=lunar)
    thursday = "2026-03-05T09:00"

    expected = [
        ("overdue", (2026, 2, 27), AFTERNOON, True),
        ("bins", (2026, 3, 5), MORNING, False),
        ("birthday", (2026, 3, 7), MORNING, False),
        ("dentist", (2026, 3, 9), MORNING, False),
        ("grandfather", (2026, 3, 19), MORNING, False),
        ("rent", (2026, 3, 31), MORNING, False),
    ]
    assert expected == days_of(stubs, scope, thursday, days_ahead=30)
    assert expected[:4] == days_of(stubs, scope, thursday, days_ahead=4)
    assert expected[:2] == sorted(days_of(stubs, scope, thursday), key=lambda one: one[1])
    paged, token = [], ""
    for _ in range(10):
        reply = page(stubs, scope, thursday, days_ahead=30, page_size=2, page_token=token)
        paged += [one.memory.content for one in reply.reminders]
        token = reply.next_page_token
        if not token:
            break
    assert [content for content, *_ in expected] == paged
    acknowledge(stubs, scope, today, day(2026, 3, 5))
    later = days_of(stubs, scope, thursday, days_ahead=30)
    assert ("bins", (2026, 3, 12), MORNING, False) in later
    assert [one for one in later if one[0] != "bins"] == [one for one in expected if one[0] != "bins"]


@pytest.mark.parametrize(
    ("reminder", "field"),
    [
        (types_pb.Reminder(date=day(0, 3, 5), recurrence=WEEKLY), "memory.reminder.date.year"),
        (types_pb.Reminder(date=day(0, 3, 5), recurrence=MONTHLY), "memory.reminder.date.year"),
        (types_pb.Reminder(date=day(2026, 2, 31), recurrence=MONTHLY), "memory.reminder.date.day"),
        (types_pb.Reminder(date=day(2026, 3, 5), recurrence=MONTHLY, lunar=True), "memory.reminder.lunar"),
        (types_pb.Reminder(date=day(2026, 3, 5), lunar=True), "memory.reminder.lunar"),
        (types_pb.Reminder(date=day(0, 3, 5), lunar=True), "memory.reminder.date.year"),
        (types_pb.Reminder(date=day(2150, 3, 5), recurrence=YEARLY, lunar=True), "memory.reminder.date.year"),
    ],
)
def test_a_rhythm_needs_its_first_day(
    stubs: Stubs, scope: types_pb.Scope, reminder: types_pb.Reminder, field: str
) -> None:
    """The error names the field; nothing is stored."""
    wrong = memory_pb.CreateMemoryRequest(scope=scope, memory=types_pb.Memory(content="wrong", reminder=reminder))

    assert (field,) == refused(stubs.memory.CreateMemory, wrong).fields
    assert [] == due(stubs, scope, "2026-03-05T09:00", days_ahead=366)


@pytest.mark.parametrize("days", [-1, 367])
def test_days_ahead_have_a_range(stubs: Stubs, scope: types_pb.Scope, days: int) -> None:
    """The error names the field."""
    wrong = lifecycle_pb.ListDueRemindersRequest(scope=scope, days_ahead=days)

    assert ("days_ahead",) == refused(stubs.lifecycle.ListDueReminders, wrong).fields


@pytest.mark.parametrize(
    ("said", "recurrence", "days"),
    [
        ("Choir practice is every Wednesday at 7pm.", WEEKLY, ["2026-02-04", "2026-02-11"]),
        ("每周三晚上有合唱团排练。", WEEKLY, ["2026-02-04", "2026-02-11"]),
        ("Rent is due on the last day of every month.", MONTHLY, ["2026-02-28", "2026-03-31"]),
        ("每个月5号交房租。", MONTHLY, ["2026-02-05", "2026-03-05"]),
        ("奶奶的生日是农历八月十五。", YEARLY, ["2026-09-25", "2027-09-15"]),
    ],
)
def test_rhythms_that_are_written_are_reminded_of(
    stubs: Stubs, scope: types_pb.Scope, said: str, recurrence: int, days: list[str]
) -> None:
    """The rhythm is found in the content, stored, and kept by an update of something else."""
    memory = create(stubs, scope, said, event_time=moment("2026-02-04T10:00"))
    assert memory.reminder.recurrence == recurrence

    changed = update(stubs, scope, memory, "title", title="T")
    assert changed.reminder == memory.reminder == get(stubs, scope, memory.id).reminder
    assert [[said], [said]] == [[content for content, _ in due(stubs, scope, f"{one}T08:00")] for one in days]


def statuses(stubs: Stubs, scope: types_pb.Scope, *memories: types_pb.Memory) -> list[str]:
    """Return the statuses of memories as they are now."""
    found = [get(stubs, scope, memory.id).status for memory in memories]
    return [types_pb.MemoryStatus.Name(status).removeprefix("MEMORY_STATUS_") for status in found]


def ahead(stubs: Stubs, scope: types_pb.Scope) -> list[str]:
    """Return the contents of what comes due in the year after 4 February 2026."""
    return [content for content, *_ in days_of(stubs, scope, "2026-02-04T12:00", days_ahead=366)]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("I have a dentist appointment on May 3.", "The dentist moved to May 10th."),
        ("我预约了5月3日看牙医。", "牙医改到5月10号了"),
        ("我预约了5月3日看牙医。", "The dentist appointment got pushed to May 10th."),
        ("Dentist on May 3 at 9am", "牙医改到5月10号了"),
        ("The Postgres cutover is scheduled for May 3.", "The Postgres cutover was pushed to May 10."),
        ("线稿5月3号交给编辑。", "编辑把线稿宽限到5月10号"),
        ("Studio crit in front of the panel on May 3.", "Her flight changed so the panel is sitting on May 10."),
        ("health department comes May 3", "卫生局来信了,新地址要重排,5月10号才来"),
        ("Cataract surgery on May 3 at St. Luke's.", "St. Luke's rescheduled the eye operation: May 10, 7 am."),
    ],
)
@pytest.mark.parametrize("kind", [types_pb.MEMORY_KIND_FACT, types_pb.MEMORY_KIND_TASK])
def test_a_moved_appointment_takes_its_reminder_along(
    stubs: Stubs, scope: types_pb.Scope, older: str, newer: str, kind: int
) -> None:
    """The earlier day is no longer announced, but the new one; a rejection of the conflict brings it back."""
    said = {"event_time": moment("2026-02-04T10:00"), "kind": kind}
    other = create(stubs, scope, "Physio on May 4.", **said)
    first = create(stubs, scope, older, **said)
    second = create(stubs, scope, newer, **said)

    assert ["CONFLICTED", "ACTIVE", "ACTIVE"] == statuses(stubs, scope, first, second, other)
    assert [other.content, newer] == ahead(stubs, scope)
    listed = stubs.memory.ListConflicts(memory_pb.ListConflictsRequest(scope=scope), timeout=TIMEOUT).conflicts
    [conflict] = [one for one in listed if one.older_memory.id == first.id]
    assert ("2026-05-03", "2026-05-10") == (conflict.older_value, conflict.newer_value)
    rejected = memory_pb.ResolveConflictRequest(
        scope=scope, id=conflict.id, resolution=memory_pb.CONFLICT_RESOLUTION_REJECT
    )
    stubs.memory.ResolveConflict(rejected, timeout=TIMEOUT)
    assert [older, other.content] == ahead(stubs, scope)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("MOT on 5 February at 2pm.", "MOT passed!"),
        ("Pay the rent by 7 February.", "I've paid the rent."),
        ("The report is due on February 6.", "Submitted the report this morning."),
        ("2月5号前换驾照。", "驾照换好了"),
        ("提醒我2月6号交房租", "房租交了"),
    ],
)
def test_what_is_done_is_not_announced(stubs: Stubs, scope: types_pb.Scope, older: str, newer: str) -> None:
    """The earlier memory stays in use, without a conflict, and a rollback brings its reminder back."""
    said = {"event_time": moment("2026-02-03T10:00")}
    first = create(stubs, scope, older, **said)
    assert ahead(stubs, scope) == [older]
    create(stubs, scope, newer, event_time=moment("2026-02-04T10:00"))
    assert ahead(stubs, scope) == []
    assert statuses(stubs, scope, first) == ["ACTIVE"]

    revisions = stubs.memory.ListRevisions(memory_pb.ListRevisionsRequest(scope=scope, id=first.id)).revisions
    assert list(revisions[0].changed_fields) == ["reminder"]
    stubs.memory.RollbackMemory(memory_pb.RollbackMemoryRequest(scope=scope, id=first.id, revision=1))
    assert ahead(stubs, scope) == [older]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("Pay the rent on the 7th of every month.", "Paid the rent."),
        ("每个月6号交房租", "房租交了"),
        ("Dentist on 12 February.", "I've been to the dentist."),
        ("MOT on 5 February at 2pm.", "Has the MOT passed?"),
        ("2月6号交房租", "房租还没交"),
    ],
)
def test_what_recurs_or_is_to_come_is_announced(stubs: Stubs, scope: types_pb.Scope, older: str, newer: str) -> None:
    """The next rent is due as before; an acknowledgement skips one occurrence."""
    create(stubs, scope, older, event_time=moment("2026-02-03T10:00"))
    create(stubs, scope, newer, event_time=moment("2026-02-04T10:00"))
    assert ahead(stubs, scope) == [older]


def test_what_is_done_by_others_or_elsewhere_changes_nothing(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Neither in another project, nor with the policy that keeps both."""
    said = {"event_time": moment("2026-02-04T10:00")}
    create(stubs, scope, "Pay the rent by 7 February.", **said)
    elsewhere = types_pb.Scope(user_id=scope.user_id, project_id="elsewhere")
    create(stubs, elsewhere, "Paid the rent.", **said)
    kept = types_pb.CONFLICT_POLICY_KEEP_BOTH
    write(stubs, scope, types_pb.Memory(content="Paid the rent.", **said), conflict_policy=kept)
    assert ahead(stubs, scope) == ["Pay the rent by 7 February."]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("The demo is in two weeks.", "The demo is cancelled."),
        ("周五体检。", "体检取消了。"),
        ("周五体检。", "The check-up on Friday got called off."),
        ("Concert with Ana on June 3", "演唱会取消了"),
        ("My flight to Rome is on May 3.", "Lufthansa cancelled my flight."),
        ("Interview with Google on May 3.", "The Google interview is cancelled."),
        ("The demo is on May 3.", "The demo was not moved but cancelled."),
        ("The demo is on May 3.", "My boss told me the demo is cancelled."),
        ("5月3号和小王聚餐", "和小王的聚餐取消了"),
        ("5月3号面试", "面试不得不取消了"),
        ("申请表5月3号之前交", "想通了,那张表我给撕了"),
        ("端午回趟老家 买了5月3号的硬座", "端午不走了 硬座退了"),
        ("My flight to Rome is on May 3.", "No Rome for us, I got the flight refunded."),
    ],
)
def test_what_is_called_off_is_not_announced(stubs: Stubs, scope: types_pb.Scope, older: str, newer: str) -> None:
    """By a statement in either language; with the policy that supersedes, the earlier memory is superseded."""
    said = {"event_time": moment("2026-02-04T10:00")}
    first = create(stubs, scope, older, **said)
    create(stubs, scope, newer, **said)
    assert [] == ahead(stubs, scope)
    assert ["CONFLICTED"] == statuses(stubs, scope, first)

    elsewhere = types_pb.Scope(user_id=scope.user_id, project_id="elsewhere")
    second = create(stubs, elsewhere, older, **said)
    write(stubs, elsewhere, types_pb.Memory(content=newer, **said), conflict_policy=types_pb.CONFLICT_POLICY_SUPERSEDE)
    assert ["SUPERSEDED"] == statuses(stubs, elsewhere, second)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("The demo is on May 3 at 3pm.", "The demo is now at 5pm."),
        ("The demo is on May 3 at 3pm.", "The demo moved to 5pm."),
        ("The demo is on May 3.", "The demo moved to 5pm."),
        ("5月3号下午三点体检", "体检改到下午五点"),
        ("5月3号下午三点体检", "The check-up moved to 5pm."),
    ],
)
@pytest.mark.parametrize("policy", [types_pb.CONFLICT_POLICY_MARK, types_pb.CONFLICT_POLICY_SUPERSEDE])
def test_another_time_of_day_keeps_the_day(
    stubs: Stubs, scope: types_pb.Scope, older: str, newer: str, policy: int
) -> None:
    """The memory of the new time has the reminder of the event, on its day."""
    said = {"event_time": moment("2026-02-04T10:00")}
    first = create(stubs, scope, older, **said)
    written = write(stubs, scope, types_pb.Memory(content=newer, **said), conflict_policy=policy)

    assert [newer] == ahead(stubs, scope)
    found = stubs.memory.GetMemory(
        memory_pb.GetMemoryRequest(scope=scope, id=written.memory.id), timeout=TIMEOUT
    ).memory
    assert (found.reminder.date, found.reminder.time.hours) == (day(2026, 5, 3), 17)
    assert written.memory.reminder == found.reminder
    assert statuses(stubs, scope, first) != ["ACTIVE"]


def test_another_time_of_day_is_none_of_what_is_denied(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Nor of another event, nor of a question."""
    said = {"event_time": moment("2026-02-04T10:00")}
    create(stubs, scope, "The demo is on May 3 at 3pm.", **said)
    for content in ("The demo was not moved to 5pm.", "Was the demo moved to 5pm?", "体检改到下午五点"):
        create(stubs, scope, content, **said)

    assert ["The demo is on May 3 at 3pm."] == ahead(stubs, scope)


def test_a_memory_that_states_more_stays_in_use(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Only its reminder goes."""
    said = {"event_time": moment("2026-02-04T10:00")}
    first = create(stubs, scope, "The dentist is on May 3. He wants the X-rays of last year.", **said)
    create(stubs, scope, "The dentist moved to May 10th.", **said)

    assert ["ACTIVE"] == statuses(stubs, scope, first)
    assert ["The dentist moved to May 10th."] == ahead(stubs, scope)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        (["Dentist on May 3."], "Emma's dentist moved to May 10th."),
        (["Board meeting on May 3.", "Design meeting on May 4."], "The meeting moved to May 10."),
        (["Prepare the slides for the demo by May 3."], "The demo is cancelled."),
        (["Dentist on May 3."], "If the dentist is cancelled, I am free."),
        (["Dentist on May 3."], "Is the dentist cancelled?"),
        (["Dentist on May 3."], "I have a dentist appointment on May 10."),
        (["Flight to Leeds on May 3."], "I moved to Leeds last year."),
        (["5月3号看牙医。"], "5月10号看牙医。"),
        (["5月3号看牙医。"], "如果牙医取消了，我就去爬山。"),
        (["5月3号看牙医。"], "女儿的牙医改到5月10号了"),
        (["5月3号体检。"], "牙医改到5月10号了"),
        (["Dentist on May 3."], "Luckily the dentist isn't cancelled."),
        (["Dentist on May 3."], "The dentist hasn't been cancelled after all."),
        (["Dentist on May 3."], "Bob asked whether the dentist is cancelled."),
        (["Demo on May 3."], "Sarah said the demo is cancelled."),
        (["Demo on May 3."], "The demo was nearly cancelled."),
        (["5月3号体检。"], "体检没有取消，照常"),
        (["5月3号体检。"], "体检不取消了"),
        (["5月3号会议。"], "会议差点取消"),
        (["5月3号体检。"], "The check-up was not cancelled."),
        (["My flight to Rome is on May 3."], "My flight to Oslo is cancelled."),
        (["Dinner with Zoe on May 3."], "The dinner with Mark is cancelled."),
        (["Lunch with Ann on May 3."], "Lunch with Bob moved to May 10."),
        (["Interview with Google on May 3."], "The interview with Amazon is cancelled."),
        (["The French exam is on May 3."], "The maths exam is cancelled."),
        (["5月3号聚餐"], "和小王的聚餐取消了"),
        (["5月3号去罗马的航班"], "去奥斯陆的航班取消了"),
        (["5月3号数学考试"], "英语考试取消了"),
        (["My flight to Rome is on May 3."], "Her flight changed so the panel is sitting on May 10."),
        (["5月3号考雅思"], "四级改到5月10号了"),
        (["5月3号考试"], "他考试5月10号才考"),
        (["5月3号的火车回家"], "女儿的硬座退了"),
        (["申请表5月3号之前交"], "同学说那张表他撕了"),
        (["5月3号复查"], "5月10号再来复查一次"),
    ],
)
def test_when_unsure_both_reminders_are_kept(stubs: Stubs, scope: types_pb.Scope, older: list[str], newer: str) -> None:
    """Other people's events, one of several, what is denied or only said by somebody, and another event of its sort."""
    said = {"event_time": moment("2026-02-04T10:00")}
    for content in older:
        create(stubs, scope, content, **said)
    create(stubs, scope, newer, **said)

    assert older == [content for content in ahead(stubs, scope) if content in older]


def test_moves_of_others_change_nothing(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Neither those of another user nor those of another project."""
    said = {"event_time": moment("2026-02-04T10:00")}
    create(stubs, scope, "Dentist on May 3.", **said)
    for other in (
        types_pb.Scope(user_id=f"{scope.user_id}2", project_id=scope.project_id),
        types_pb.Scope(user_id=scope.user_id, project_id="another"),
    ):
        create(stubs, other, "The dentist moved to May 10th.", **said)

    assert ["Dentist on May 3."] == ahead(stubs, scope)
