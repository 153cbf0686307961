"""The rows of reminders, and of what was given of them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from functools import cache
from typing import Any

import sqlalchemy as sa

from memsvc.domain.clock import from_micros, to_micros
from memsvc.domain.memory import Memory, Slot
from memsvc.domain.reminders import Acknowledged, day_number, reminds
from memsvc_backends.sql.dialect import execute_compiled, is_listed, list_parameter
from memsvc_backends.sql.tables import reminders, reminders_given


def reminder_rows(written: Iterable[Memory]) -> list[tuple[Any, ...]]:
    """Return the rows of the reminders of memories, in the order of the columns and of the key."""
    return sorted(_place(memory) for memory in written if reminds(memory))


def move_reminder(connection: sa.Connection, before: Memory, after: Memory) -> None:
    """Put the reminder of a memory where that of its next revision belongs."""
    old, new = ([_place(one)] if reminds(one) else [] for one in (before, after))
    if old == new:
        return
    delete_reminders(connection, [before])
    for owner, project, day, row in new:
        values = {"owner": owner, "project_id": project, "day": day, "row": row}
        connection.execute(sa.insert(reminders), values)


def delete_reminders(connection: sa.Connection, stored: Iterable[Memory]) -> None:
    """Remove the reminders of memories, which must be as they are stored."""
    for owner, project, day, row in reminder_rows(stored):
        at = {"at_owner": owner, "at_project_id": project, "at_day": day, "at_row": row}
        execute_compiled(connection, _delete_one(), at)


def delete_given(connection: sa.Connection, row: int) -> None:
    """Remove what is noted of the reminders of a memory."""
    execute_compiled(connection, _delete_given(), {"at_row": row})


def read_acknowledged(connection: sa.Connection, rows: Iterable[int]) -> dict[int, tuple[Acknowledged, ...]]:
    """Return what is noted of the reminders of memories, by row, in order; those without any are left out."""
    found: dict[int, list[Acknowledged]] = {}
    for row, day, slot, noted in execute_compiled(connection, _select_acknowledged(), {"wanted": list_parameter(rows)}):
        found.setdefault(row, []).append((day_of(day), Slot(slot), from_micros(noted)))
    return {row: tuple(sorted(noted)) for row, noted in found.items()}


def acknowledged_values(row: int, acknowledged: Iterable[Acknowledged]) -> list[dict[str, Any]]:
    """Return the rows of what is noted of the reminder of a memory."""
    return [
        {"row": row, "day": number_of(day), "slot": slot.value, "time": to_micros(noted)}
        for day, slot, noted in acknowledged
    ]


def _place(memory: Memory) -> tuple[str, str, int, int]:
    reminder, scope = memory.reminder, memory.scope
    return scope.owner, scope.project_id, 0 if reminder is None else day_number(reminder), memory.row


def number_of(day: date) -> int:
    """Return a day as it is stored."""
    return day.year * 10_000 + day.month * 100 + day.day


def day_of(number: int) -> date:
    """Return the day that was stored as a number."""
    return date(number // 10_000, number // 100 % 100, number % 100)


@cache
def _select_acknowledged() -> sa.Select[Any]:
    noted = reminders_given.c
    return sa.select(noted.row, noted.day, noted.slot, noted.time).where(is_listed(noted.row, "wanted"))


@cache
def _delete_one() -> sa.Delete:
    place = [reminders.c[name] == sa.bindparam(f"at_{name}") for name in ("owner", "project_id", "day", "row")]
    return sa.delete(reminders).where(*place)


@cache
def _delete_given() -> sa.Delete:
    return sa.delete(reminders_given).where(reminders_given.c.row == sa.bindparam("at_row"))
