"""The log of changes, for those who watch memories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from itertools import starmap
from typing import Any

import sqlalchemy as sa

from memsvc.domain.index_entries import Change, ChangeAction
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach
from memsvc.ports.change_feed import ChangePage, LoggedChange
from memsvc_backends.sql.database import Database
from memsvc_backends.sql.dialect import is_listed, list_parameter, rows_as_json, rows_of_text
from memsvc_backends.sql.memory_codec import MEMORY_COLUMNS, memory_from_row, memory_from_snapshot
from memsvc_backends.sql.tables import counters, memories, outbox, revisions

_ACTIONS = {action.value: action for action in ChangeAction}
_COLUMNS = tuple(
    outbox.c[name] for name in ("position", "row", "memory_id", "action", "revision", "time", "private_session")
)


class SqlChangeFeed:
    """`memsvc.ports.change_feed.ChangeFeed`."""

    def __init__(self, database: Database) -> None:
        """Read from a *database* that is up to date."""
        self._database = database
        self._identity = ""

    @property
    def identity(self) -> str:
        """Return the name that the database was given when it was made."""
        if not self._identity:
            with self._database.reading() as connection:
                self._identity = connection.execute(sa.select(counters.c.store_id)).scalar_one()
        return self._identity

    def after(self, position: int, *, reach: Reach, limit: int) -> ChangePage:
        """Return the changes after a position, all as of one moment."""
        asked = {"owner": reach.owner, "after": position, "limit": limit}
        with self._database.snapshot() as connection:
            kept_after, head = connection.execute(_select_bounds()).one()
            found: list[list[Any]] = []
            # One by one: each is in the order of its index, so that no more is read than is asked for.
            for project in reach.project_ids:
                text = connection.execute(_select_changes(), {"project_id": project, **asked}).scalar_one()
                found += rows_of_text(text)
        changes = tuple(starmap(_logged, sorted(found)[:limit]))
        is_all = len(changes) < limit
        reached = max(position, head) if is_all else changes[-1].change.position
        return ChangePage(changes, reached, is_all, kept_after, head)

    def count(self, position: int, *, reach: Reach) -> int:
        """Count the changes after a position."""
        with self._database.snapshot() as connection:
            counted = (
                connection.execute(_count_changes(), {"owner": reach.owner, "after": position, "project_id": project})
                for project in reach.project_ids
            )
            return sum(int(number.scalar_one()) for number in counted)

    def states(self, wanted: Iterable[tuple[int, int]]) -> dict[tuple[int, int], Memory]:
        """Return memories as they were: the present ones from their table, earlier ones from their snapshots."""
        asked = set(wanted)
        if not asked:
            return {}
        rows: Mapping[str, str] = {"rows": list_parameter(sorted({row for row, _ in asked}))}
        with self._database.snapshot() as connection:
            present = (memory_from_row(row) for row in connection.execute(_select_present(), rows))
            found = {
                (memory.row, memory.revision): memory for memory in present if (memory.row, memory.revision) in asked
            }
            for row, revision in asked - found.keys():
                at = {"row": row, "revision": revision}
                if text := connection.execute(_select_snapshot(), at).scalar_one_or_none():
                    found[row, revision] = memory_from_snapshot(text)
        return found


def _logged(*values: Any) -> LoggedChange:
    position, row, memory_id, action, revision, time, private_session = values
    return LoggedChange(Change(position, row, memory_id, _ACTIONS[action], revision, time), private_session)


def _follows() -> sa.ColumnElement[bool]:
    return sa.and_(
        outbox.c.owner == sa.bindparam("owner"),
        outbox.c.project_id == sa.bindparam("project_id"),
        outbox.c.position > sa.bindparam("after"),
    )


@cache
def _select_changes() -> sa.Select[Any]:
    chosen = sa.select(*_COLUMNS).where(_follows()).order_by(outbox.c.position).limit(sa.bindparam("limit"))
    return sa.select(rows_as_json(*chosen.subquery("chosen").c))


@cache
def _count_changes() -> sa.Select[Any]:
    return sa.select(sa.func.count()).select_from(outbox).where(_follows())


@cache
def _select_bounds() -> sa.Select[Any]:
    oldest = sa.select(sa.func.min(outbox.c.position)).scalar_subquery()
    return sa.select(sa.func.coalesce(oldest - 1, counters.c.last_position), counters.c.last_position)


@cache
def _select_present() -> sa.Select[Any]:
    return sa.select(*MEMORY_COLUMNS).where(is_listed(memories.c.row, "rows"))


@cache
def _select_snapshot() -> sa.Select[Any]:
    return sa.select(revisions.c.snapshot).where(
        revisions.c.row == sa.bindparam("row"), revisions.c.revision == sa.bindparam("revision")
    )
