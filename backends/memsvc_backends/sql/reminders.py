"""Reminders by day, and their acknowledgements."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

import sqlalchemy as sa

from memsvc.domain.clock import from_micros, to_micros
from memsvc.domain.memory import Memory, Slot
from memsvc.domain.reminders import Given, Window
from memsvc.domain.scope import Reach
from memsvc.ports.features import ReminderPlace
from memsvc_backends.sql.database import Database
from memsvc_backends.sql.dialect import cached_statement, execute, in_json_list, insert_new, list_parameter
from memsvc_backends.sql.memory_codec import MEMORY_COLUMNS, memory_from_row
from memsvc_backends.sql.row_writer import acknowledgement_values, day_of, number_of, read_acknowledgements
from memsvc_backends.sql.tables import memories, reminders, reminders_given
from memsvc_backends.sql.write_session import WriteSession

_START = ReminderPlace(0, 0)


class SqlReminderReads:
    """`memsvc.ports.features.ReminderReads`."""

    def __init__(self, database: Database) -> None:
        """Read from *database*."""
        self._database = database

    def page(self, *, reach: Reach, window: Window, after: ReminderPlace | None, limit: int) -> list[Memory]:
        """Return a page: the recurring ones and the others of each project, merged, each read in order."""
        most, (day, row) = max(0, limit), after or _START
        found: list[Any] = []
        with self._database.read_connection() as connection:
            for project in dict.fromkeys(reach.project_ids):
                place = {"owner": reach.owner, "project_id": project, "after_day": day, "after_row": row, "most": most}
                recurring = place | {"wanted": list_parameter(window.recurring)}
                span = place | {"first": window.first, "last": window.last}
                found += execute(connection, _select_recurring(), recurring)
                found += execute(connection, _select_span(), span)
        found.sort(key=lambda one: (one[0], one[1]))
        return [memory_from_row(values[2:]) for values in found[:most]]

    def acknowledgements(self, rows: Sequence[int], *, since: date, reach: Reach) -> dict[int, frozenset[Given]]:
        """Return the acknowledgements."""
        if not rows:
            return {}
        parameters = {
            "wanted": list_parameter(rows), "since": number_of(since),
            "owner": reach.owner, "projects": list_parameter(reach.project_ids),
        }  # fmt: skip
        found: dict[int, set[Given]] = {}
        with self._database.read_connection() as connection:
            for row, day, slot in execute(connection, _select_given(), parameters):
                found.setdefault(row, set()).add((day_of(day), Slot(slot)))
        return {row: frozenset(given) for row, given in found.items()}


class SqlReminderWrites(WriteSession):
    """`memsvc.ports.features.ReminderWrites`, on the connection of a transaction."""

    def single_reminders(self, owner: str, project_id: str, *, since: date, limit: int) -> list[Memory]:
        """Return them: the numbers of recurring reminders are less than that of any day."""
        first = ReminderPlace(number_of(since), 0)
        parameters = {
            "owner": owner, "project_id": project_id, "first": first.day, "last": number_of(date.max),
            "after_day": first.day, "after_row": first.row, "most": max(0, limit),
        }  # fmt: skip
        return [memory_from_row(values[2:]) for values in execute(self._connection, _select_span(), parameters)]

    def acknowledge(self, memory: Memory, day: date, slot: Slot, moment: datetime) -> datetime:
        """Insert the acknowledgement unless it exists, and return all."""
        place = {"row": memory.row, "day": number_of(day), "slot": slot.value}
        execute(self._connection, insert_new(reminders_given), place | {"time": to_micros(moment)})
        [(noted,)] = execute(self._connection, _select_noted(), {f"at_{name}": place[name] for name in place})
        return from_micros(noted)

    def copy_acknowledgements(self, source: Memory, successor: Memory) -> None:
        """Insert those of the source that the successor does not have."""
        noted = read_acknowledgements(self._connection, [source.row]).get(source.row, ())
        for values in acknowledgement_values(successor.row, noted):
            execute(self._connection, insert_new(reminders_given), values)


@cached_statement
def _select_recurring() -> sa.Select[Any]:
    return _page(in_json_list(reminders.c.day, "wanted"))


@cached_statement
def _select_span() -> sa.Select[Any]:
    return _page(reminders.c.day.between(sa.bindparam("first"), sa.bindparam("last")))


def _page(within: sa.ColumnElement[bool]) -> sa.Select[Any]:
    columns = reminders.c
    after = sa.tuple_(columns.day, columns.row) > sa.tuple_(sa.bindparam("after_day"), sa.bindparam("after_row"))
    return (
        sa.select(columns.day, columns.row, *MEMORY_COLUMNS)
        .select_from(sa.join(reminders, memories, memories.c.row == columns.row))
        .where(
            columns.owner == sa.bindparam("owner"),
            columns.project_id == sa.bindparam("project_id"),
            within,
            after,
        )
        .order_by(columns.day, columns.row)
        .limit(sa.bindparam("most", type_=sa.Integer))
    )


@cached_statement
def _select_given() -> sa.Select[Any]:
    noted = reminders_given.c
    return (
        sa.select(noted.row, noted.day, noted.slot)
        .select_from(sa.join(reminders_given, memories, memories.c.row == noted.row))
        .where(
            in_json_list(noted.row, "wanted"),
            noted.day >= sa.bindparam("since"),
            memories.c.owner == sa.bindparam("owner"),
            in_json_list(memories.c.project_id, "projects"),
        )
    )


@cached_statement
def _select_noted() -> sa.Select[Any]:
    place = [reminders_given.c[name] == sa.bindparam(f"at_{name}") for name in ("row", "day", "slot")]
    return sa.select(reminders_given.c.time).where(*place)
