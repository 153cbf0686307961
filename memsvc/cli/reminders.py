"""The commands about what is due: reminders list, reminders ack."""

from __future__ import annotations

from datetime import date, datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated, cast

import typer

from memsvc.cli import options
from memsvc.cli.connection import CliContext, connected
from memsvc.cli.enums import Recurrence, Slot
from memsvc.cli.errors import CommandError, print_error
from memsvc.cli.moments import MACHINE_ZONE, in_zone, moment_option, parse_day
from memsvc.cli.options import in_utc
from memsvc.cli.output import shortened, write, write_json, write_table

if TYPE_CHECKING:
    from memsvc.client import NewMemory, request_types
    from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
    from memsvc.v1 import types_pb2 as types_pb

WIDTH = 80
_RECURRENCES: dict[Recurrence, request_types.Recurrence] = {
    Recurrence.YEAR: "YEARLY", Recurrence.MONTH: "MONTHLY", Recurrence.WEEK: "WEEKLY"
}  # fmt: skip
_EVERY = {2: Recurrence.YEAR, 3: Recurrence.MONTH, 4: Recurrence.WEEK}
"""By the numbers of ReminderRecurrence: the messages take long to import."""
app = typer.Typer(help="List due reminders and acknowledge them.", no_args_is_help=True)

Zone = Annotated[str, typer.Option("--zone", help=f"Time zone of the user, such as Asia/Shanghai.  {MACHINE_ZONE}")]
SlotOption = Annotated[Slot | None, typer.Option("--slot", help="Part of the day.")]


@app.command("list")
@connected
def list_reminders(  # noqa: PLR0913 - an option each
    session: CliContext,
    *,
    zone: Zone = "",
    slot: SlotOption = None,
    at: Annotated[datetime | None, moment_option("As of then, local time.  [default: now]")] = None,
    overdue_days: Annotated[int, typer.Option(min=0, max=365, help="Days to include overdue reminders.")] = 7,
    days_ahead: Annotated[
        int, typer.Option(min=0, max=366, help="Days ahead to include reminders that come due later.")
    ] = 0,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number.")] = 100,
    conversation: options.Conversation = "",
) -> None:
    """List the memories that are due. They come again until they are acknowledged."""
    with session.client(conversation=conversation) as client:
        found = in_zone(
            zone,
            lambda zone: list(
                islice(
                    client.due_reminders(
                        time=None if at is None else in_utc(at),
                        time_zone=zone,
                        slot=_name(slot),
                        overdue_days=overdue_days,
                        days_ahead=days_ahead,
                        page_size=min(limit, 1_000),
                    ),
                    limit,
                )
            ),
        )
    if session.as_json:
        for one in found:
            write_json(one)
    elif found:
        write_table(("=id", "=date", "=slot", "=overdue", "~content"), [_row(one) for one in found])
    else:
        print_error("Nothing is due.")


@app.command()
@connected
def ack(
    session: CliContext,
    *,
    memory_id: Annotated[str, typer.Argument(help="Memory id.", metavar="ID")],
    day: Annotated[
        str, typer.Argument(help="Day, as YYYY-MM-DD.  [default: the day it is due now]", metavar="DATE")
    ] = "",
    slot: SlotOption = None,
    zone: Zone = "",
    conversation: options.Conversation = "",
) -> None:
    """Acknowledge a reminder.

    It is not listed again in that part of the day.
    """
    with session.client(conversation=conversation) as client:
        if day:
            reply = client.acknowledge_reminder(memory_id, _occurrence(day), slot=_name(slot))
        else:
            due = in_zone(zone, lambda zone: list(client.due_reminders(time_zone=zone)))
            one = next((one for one in due if one.memory.id == memory_id), None)
            if one is None:
                message = f"{memory_id} is not due now; name the DATE, as YYYY-MM-DD."
                raise CommandError(message)
            reply = client.acknowledge_reminder(memory_id, _date(one), slot=_name(slot) or _slot(one))
    if session.as_json:
        write_json(reply)
    else:
        write(f"{reply.memory.id} acknowledged")


def reminder_field(day: str, every: Recurrence | None) -> NewMemory:
    """Return the reminder of a day as the field of a memory: "YYYY-MM-DD" once, "MM-DD" every year; none of none.

    Raises:
        typer.BadParameter: It names no day, or one without a year for a reminder of every month or week.
    """
    if not day:
        if every is not None:
            message = "needs --remind."
            raise typer.BadParameter(message, param_hint="--every")
        return {}
    when, time = parse_day(day, "--remind")
    if isinstance(when, tuple) and every not in {None, Recurrence.YEAR}:
        message = f"{day!r} has no year, which a reminder of every {every} needs as its first day; give YYYY-MM-DD."
        raise typer.BadParameter(message, param_hint="--remind")
    reminder: request_types.ReminderFields = {"date": when}
    if time is not None:
        reminder["time"] = time
    if every is not None:
        reminder["recurrence"] = _RECURRENCES[every]
    return {"reminder": reminder}


def shown_reminder(memory: types_pb.Memory) -> str:
    """Return the day of a memory's reminder, or nothing."""
    if not memory.HasField("reminder"):
        return ""
    day, every = memory.reminder.date, _EVERY.get(memory.reminder.recurrence)
    shown = f"{day.month:02}-{day.day:02}"
    if memory.reminder.lunar:
        return f"{day.year}-{shown} every year (lunar)"
    if every is Recurrence.YEAR:
        return f"{shown} every year"
    return f"{day.year}-{shown}" if every is None else f"{day.year}-{shown} every {every}"


def _occurrence(text: str) -> date:
    day, _ = parse_day(text, "DATE")
    if isinstance(day, date):
        return day
    message = f"{text!r} has no year; give YYYY-MM-DD."
    raise typer.BadParameter(message)


def _date(one: lifecycle_pb.DueReminder) -> date:
    day = one.occurrence.date
    return date(day.year, day.month, day.day)


def _slot(one: lifecycle_pb.DueReminder) -> request_types.Slot:

    from memsvc.v1 import types_pb2 as types_pb  # noqa: PLC0415 - a quick start

    return cast("request_types.Slot", types_pb.ReminderSlot.Name(one.occurrence.slot).removeprefix("REMINDER_SLOT_"))


def _name(slot: Slot | None) -> request_types.Slot | None:
    return None if slot is None else cast("request_types.Slot", slot.name)


def _row(one: lifecycle_pb.DueReminder) -> tuple[str, str, str, str, str]:
    from memsvc.client import currency_of  # noqa: PLC0415 - a quick start

    overdue = "overdue" if one.occurrence.overdue else ""
    mark = currency_of(one)
    content = shortened(f"({mark}) {one.memory.content}" if mark else one.memory.content, WIDTH)
    return one.memory.id, _date(one).isoformat(), _slot(one).lower(), overdue, content
