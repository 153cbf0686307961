"""Reminders, on their way in and out."""

from __future__ import annotations

from datetime import date, datetime, tzinfo

from memsvc.domain.memory import Recurrence, Reminder
from memsvc.domain.reminders import OVERDUE_DAYS, Due, Moment
from memsvc.ports.features import ReminderPlace
from memsvc.server.convert import tokens
from memsvc.server.convert.enums import REMINDER_RECURRENCE, REMINDER_SLOT
from memsvc.server.convert.times import fill_time, time_from_proto
from memsvc.v1 import reminder_pb2 as nouns
from memsvc.v1 import reminders_pb2 as pb

_MINUTES = 60


def reminder_from_proto(reminder: nouns.Reminder) -> Reminder:
    """Return a reminder that is given."""
    day = reminder.date
    return Reminder(
        month=day.month,
        day=day.day,
        year=day.year,
        recurrence=REMINDER_RECURRENCE.given(reminder.recurrence, Recurrence.NONE if day.year else Recurrence.YEARLY),
        minute=reminder.time.hours * _MINUTES + reminder.time.minutes if reminder.HasField("time") else None,
        time_zone=reminder.time_zone,
        slot=REMINDER_SLOT.optional(reminder.slot),
    )


def fill_reminder(message: nouns.Reminder, reminder: Reminder) -> None:
    """Make an empty message a reminder."""
    message.date.month, message.date.day, message.date.year = reminder.month, reminder.day, reminder.year
    message.recurrence = REMINDER_RECURRENCE.to_proto[reminder.recurrence]
    if reminder.minute is not None:
        message.time.SetInParent()
        message.time.hours, message.time.minutes = divmod(reminder.minute, _MINUTES)
    message.time_zone = reminder.time_zone
    if reminder.slot is not None:
        message.slot = REMINDER_SLOT.to_proto[reminder.slot]
    message.phrase = reminder.phrase


def fill_occurrence(message: nouns.ReminderOccurrence, due: Due) -> None:
    """Make an empty message the time at which a memory is due."""
    occurrence = due.occurrence
    message.memory_id = due.memory.id
    message.date.year, message.date.month, message.date.day = occurrence.day.timetuple()[:3]
    message.slot = REMINDER_SLOT.to_proto[occurrence.slot]
    message.is_overdue = occurrence.is_overdue
    fill_time(message.due_time, occurrence.due_time)


def date_from_proto(day: nouns.CalendarDate) -> date:
    """Return a day that has its year."""
    return date(day.year, day.month, day.day)


def asked_from_proto(
    request: pb.ListDueRemindersRequest, *, now: datetime, zone: tzinfo
) -> tuple[Moment, ReminderPlace | None]:
    """Return when and where it is asked what is due, and which place of the list the page comes after.

    Raises:
        InvalidRequestError: The token is malformed, or of another request.
    """
    moment = time_from_proto(request.time) if request.HasField("time") else now
    going_on = tokens.reminders_place(request.page_token, _digest(request))
    after = None
    if going_on is not None:
        moment, after = going_on[0], ReminderPlace(*going_on[1:])
    return Moment(
        now=moment,
        zone=zone,
        slot=REMINDER_SLOT.optional(request.slot),
        overdue_days=request.overdue_days if request.HasField("overdue_days") else OVERDUE_DAYS,
    ), after


def page_token(request: pb.ListDueRemindersRequest, moment: Moment, following: ReminderPlace | None) -> str:
    """Return the token of the next page; empty when there is none."""
    if following is None:
        return ""
    return tokens.reminders_token(moment.now, *following, _digest(request))


def _digest(request: pb.ListDueRemindersRequest) -> bytes:
    return tokens.digest(request, without=("page_size", "page_token"))
