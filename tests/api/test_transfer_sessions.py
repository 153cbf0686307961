"""Sessions and reminders of a user that go on after an import, here or there."""

from __future__ import annotations

from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import TIMEOUT, create
from tests.support.server_process import Stubs
from tests.support.sessions import append, open_session, place, said, show
from tests.support.user_data import Line, changed, export, records, take_in

Reason = lifecycle_pb.ImportIssueReason


def placed(stubs: Stubs, scope: types_pb.Scope) -> list[tuple[int, str]]:
    """Return the messages of a session with their places."""
    return [(message.ordinal, message.content) for message in said(stubs, scope)]


def test_a_session_that_went_on_goes_on(stubs: Stubs, user: str) -> None:
    """The messages of a later file follow those of an earlier one, and what is appended comes after both."""
    here, there = place(user), place(f"{user}-2")
    open_session(stubs, here)
    append(stubs, here, ["one", "two"])
    take_in(stubs, there.user_id, export(stubs, user))
    append(stubs, here, ["three", "four"])
    last = take_in(stubs, there.user_id, export(stubs, user))

    assert {"memory": 2} == dict(last.stored_counts)
    assert [("session", Reason.IMPORT_ISSUE_REASON_DIFFERS)] == [(one.kind, one.reason) for one in last.issues]
    assert show(stubs, there).last_message_time == said(stubs, there)[-1].create_time
    append(stubs, there, ["five"])
    assert [(1, "one"), (2, "two"), (3, "three"), (4, "four"), (5, "five")] == placed(stubs, there)


def test_a_session_that_went_on_in_both_places_keeps_its_own(stubs: Stubs, user: str) -> None:
    """A message of the file whose place is taken is a memory that is no message; those after it are messages."""
    here, there = place(user), place(f"{user}-2")
    open_session(stubs, here)
    append(stubs, here, ["one"])
    take_in(stubs, there.user_id, export(stubs, user))
    append(stubs, here, ["two", "three"])
    append(stubs, there, ["zwei"])
    last = take_in(stubs, there.user_id, export(stubs, user))

    assert {Reason.IMPORT_ISSUE_REASON_DIFFERS, Reason.IMPORT_ISSUE_REASON_SESSION_MISSING} == {
        one.reason for one in last.issues
    }
    append(stubs, there, ["vier"])
    assert [(1, "one"), (2, "zwei"), (3, "three"), (4, "vier")] == placed(stubs, there)


def test_two_messages_at_one_place_are_told(stubs: Stubs, user: str) -> None:
    """Of the two in a file the first is the message; a session whose line says less is appended to after its last one."""
    here, there = place(user), place(f"{user}-2")
    open_session(stubs, here)
    append(stubs, here, ["one", "two", "three"])

    def move(lines: list[Line]) -> None:
        lines[1]["last_ordinal"] = 1
        lines[3]["message"]["ordinal"] = 1

    last = take_in(stubs, there.user_id, changed(export(stubs, user), move))
    assert [(4, Reason.IMPORT_ISSUE_REASON_SESSION_MISSING)] == [(one.line, one.reason) for one in last.issues]
    append(stubs, there, ["four"])
    assert [(1, "one"), (3, "three"), (4, "four")] == placed(stubs, there)


def test_what_was_acknowledged_since_is_taken_in(stubs: Stubs, user: str) -> None:
    """A reminder that was given before the second file is not given again; the memory is the same."""
    scope = types_pb.Scope(user_id=user)
    reminder = types_pb.Reminder(date=types_pb.CalendarDate(year=2027, month=2, day=28), time_zone="UTC")
    memory = create(stubs, scope, "A day.", reminder=reminder)
    take_in(stubs, f"{user}-2", export(stubs, user))
    stubs.lifecycle.AcknowledgeReminder(
        lifecycle_pb.AcknowledgeReminderRequest(
            scope=scope, id=memory.id, date=reminder.date, slot=types_pb.REMINDER_SLOT_MORNING
        ),
        timeout=TIMEOUT,
    )
    for _ in range(2):
        last = take_in(stubs, f"{user}-2", export(stubs, user))
        assert (1, {}, 0) == (last.unchanged_count, dict(last.stored_counts), last.skipped_count)
    [line], [copy] = records(export(stubs, user), "memory"), records(export(stubs, f"{user}-2"), "memory")
    assert [("2027-02-28", "MORNING")] == [(one["day"], one["slot"]) for one in line["acknowledged"]]
    assert line["acknowledged"] == copy["acknowledged"]
