"""Rules for reminders, and for the requests about what is due."""

from __future__ import annotations

from memsvc.domain import limits
from memsvc.domain.reminders import YEARS, is_day, slot_of
from memsvc.server.convert.enums import REMINDER_RECURRENCE, REMINDER_SLOT
from memsvc.server.convert.times import time_from_proto
from memsvc.server.validate.contexts import check_zone
from memsvc.server.validate.scopes import check_request_id, check_scope
from memsvc.server.validate.values import check_enum, check_integer, check_time, check_uuid
from memsvc.server.validate.violations import Violations
from memsvc.v1 import reminder_pb2 as nouns
from memsvc.v1 import reminders_pb2 as pb

_MONTHS, _DAYS, _HOURS, _MINUTES = 12, 31, 23, 59


def check_reminder(found: Violations, field: str, reminder: nouns.Reminder) -> None:
    """Check a reminder that a memory is to have."""
    recurrence = reminder.recurrence
    check_enum(found, f"{field}.recurrence", recurrence, REMINDER_RECURRENCE.from_proto)
    needs_year = recurrence == nouns.REMINDER_RECURRENCE_NONE
    if not reminder.HasField("date"):
        found.add(f"{field}.date", "must be set; to take a reminder away, leave it out as a whole")
    else:
        is_yearly = recurrence == nouns.REMINDER_RECURRENCE_YEARLY
        check_date(found, f"{field}.date", reminder.date, needs_year=needs_year, of_every_year=is_yearly)
    check_enum(found, f"{field}.slot", reminder.slot, REMINDER_SLOT.from_proto)
    if reminder.HasField("time"):
        _check_time_of_day(found, field, reminder)
    check_zone(found, f"{field}.time_zone", reminder.time_zone)


def check_date(
    found: Violations, field: str, day: nouns.CalendarDate, *, needs_year: bool, of_every_year: bool = False
) -> None:
    """Check a day of the calendar. One *of_every_year* may be 29 February though its own year has none."""
    is_plain = True
    if day.year and not YEARS[0] <= day.year <= YEARS[1]:
        found.add(f"{field}.year", f"must be {YEARS[0]} to {YEARS[1]}, or 0 for every year")
        is_plain = False
    elif needs_year and not day.year:
        found.add(f"{field}.year", f"must be {YEARS[0]} to {YEARS[1]}")
    if not 1 <= day.month <= _MONTHS:
        found.add(f"{field}.month", f"must be 1 to {_MONTHS}")
        is_plain = False
    if not 1 <= day.day <= _DAYS:
        found.add(f"{field}.day", f"must be 1 to {_DAYS}")
    elif is_plain and not is_day(0 if of_every_year else day.year, day.month, day.day):
        found.add(f"{field}.day", "must be a day of that month" + (" in that year" if day.year else ""))


def check_list_due(request: pb.ListDueRemindersRequest) -> None:
    """Check a request for what is due, but for its token."""
    found = Violations()
    check_scope(found, request.scope)
    if request.HasField("time") and check_time(found, "time", request.time):
        year = time_from_proto(request.time).year
        if not YEARS[0] <= year <= YEARS[1]:
            found.add("time", f"must lie between the years {YEARS[0]} and {YEARS[1]}")
    check_zone(found, "time_zone", request.time_zone)
    check_enum(found, "slot", request.slot, REMINDER_SLOT.from_proto)
    if request.HasField("overdue_days") and not 0 <= request.overdue_days <= limits.OVERDUE_DAYS:
        found.add("overdue_days", f"must be 0 to {limits.OVERDUE_DAYS}, or absent for the default")
    check_integer(found, "page_size", request.page_size, least=1, most=limits.PAGE_SIZE)
    found.finish()


def check_acknowledge(request: pb.AcknowledgeReminderRequest) -> None:
    """Check a request to note that a reminder was given."""
    found = Violations()
    check_scope(found, request.scope)
    check_uuid(found, "memory_id", request.memory_id)
    if request.HasField("date"):
        check_date(found, "date", request.date, needs_year=True)
    else:
        found.add("date", "must be set")
    check_enum(found, "slot", request.slot, REMINDER_SLOT.from_proto)
    check_request_id(found, request.request_id)
    found.finish()


def _check_time_of_day(found: Violations, field: str, reminder: nouns.Reminder) -> None:
    time = reminder.time
    if not 0 <= time.hours <= _HOURS:
        found.add(f"{field}.time.hours", f"must be 0 to {_HOURS}")
    elif (slot := REMINDER_SLOT.from_proto.get(reminder.slot)) and slot is not slot_of(time.hours):
        found.add(f"{field}.slot", "must be the slot of time, or unspecified")
    if not 0 <= time.minutes <= _MINUTES:
        found.add(f"{field}.time.minutes", f"must be 0 to {_MINUTES}")
