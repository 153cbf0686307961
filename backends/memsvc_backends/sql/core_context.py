"""Reads of core memories for contexts, each kind by a partial index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from memsvc.domain.context import Essential
from memsvc.domain.memory import Kind, Layer, Memory, Status, Tier
from memsvc.domain.scope import Reach
from memsvc_backends.sql.dialect import cached_statement, execute, rows_as_json, rows_of_text
from memsvc_backends.sql.filters import has_begun
from memsvc_backends.sql.memory_codec import MEMORY_COLUMNS, memory_from_row
from memsvc_backends.sql.tables import IS_ACTIVE_TIER, IS_CORE, IS_PREFERENCE, IS_SHORT_TERM, ONE, memories

_CONDITIONS: Mapping[Essential, sa.ColumnElement[bool]] = {
    Essential.CORE: IS_CORE,
    Essential.ACTIVE: IS_ACTIVE_TIER,
    Essential.PREFERENCE: IS_PREFERENCE,
}


def read_essentials(
    connection: sa.Connection, essential: Essential, reach: Reach, now: int, limit: int
) -> list[Memory]:
    """Return the most important memories that are essential in that way."""
    found: list[Memory] = []
    for project in reach.project_ids:
        parameters = {"owner": reach.owner, "project": project, "now": now, "most": limit}
        found += map(memory_from_row, execute(connection, _select(essential), parameters))
    return sorted(found, key=lambda memory: (-memory.importance, memory.row))[:limit]


@cached_statement
def _select(essential: Essential) -> sa.Select[Any]:
    return (
        sa.select(*MEMORY_COLUMNS)
        .where(
            memories.c.owner == sa.bindparam("owner"),
            memories.c.project_id == sa.bindparam("project"),
            memories.c.layer != Layer.SESSION.value,
            _CONDITIONS[essential],
            *_in_use(),
        )
        # Sorted by hand: the list of all memories by importance is in this order too, and would be read for it.
        .order_by(sa.literal_column("-memories.importance"), memories.c.row)
        .limit(sa.bindparam("most", type_=sa.Integer))
    )


def read_next_essential(connection: sa.Connection, reach: Reach, now: int) -> int | None:
    """Return when the next essential memory begins to hold."""
    parameters = [{"owner": reach.owner, "project": project, "now": now} for project in reach.project_ids]
    found = [
        execute(connection, _select_next(essential), each).scalar_one()
        for essential in Essential
        for each in parameters
    ]
    return min((moment for moment in found if moment is not None), default=None)


@cached_statement
def _select_next(essential: Essential) -> sa.Select[Any]:
    # Entered by the index of the few that are essential, however many others begin to hold some day.
    return sa.select(sa.func.min(memories.c.valid_from)).where(
        memories.c.owner == sa.bindparam("owner"),
        memories.c.project_id == sa.bindparam("project"),
        memories.c.status == Status.ACTIVE.value,
        memories.c.layer != Layer.SESSION.value,
        _CONDITIONS[essential],
        sa.not_(has_begun(sa.bindparam("now"))),
    )


def read_session_rows(connection: sa.Connection, session_id: str, reach: Reach, now: int, limit: int) -> list[int]:
    """Return the newest rows of a session."""
    found: list[int] = []
    for project in reach.project_ids:
        parameters = {
            "owner": reach.owner, "project": project, "session": session_id, "now": now, "most": limit,
        }  # fmt: skip
        found += [row for (row,) in rows_of_text(execute(connection, _select_session(), parameters).scalar_one())]
    return sorted(found, reverse=True)[:limit]


def read_recent_rows(connection: sa.Connection, since: int, reach: Reach, now: int, limit: int) -> list[int]:
    """Return the rows of the short-term memories changed last."""
    found: list[list[int]] = []
    for project in reach.project_ids:
        parameters = {"owner": reach.owner, "project": project, "since": since, "now": now, "most": limit}
        found += rows_of_text(execute(connection, _select_recent(), parameters).scalar_one())
    return [row for _, row in sorted(found, reverse=True)[:limit]]


@cached_statement
def _select_session() -> sa.Select[Any]:
    newest = _of_project(memories.c.row).where(
        memories.c.session_id == sa.bindparam("session"),
        sa.or_(memories.c.layer == Layer.SESSION.value, memories.c.kind == Kind.MESSAGE.value),
    )
    rows = newest.order_by(memories.c.row.desc()).limit(sa.bindparam("most", type_=sa.Integer)).subquery("chosen")
    return sa.select(rows_as_json(rows.c.row))


@cached_statement
def _select_recent() -> sa.Select[Any]:
    latest = _of_project(memories.c.update_time, memories.c.row).where(
        IS_SHORT_TERM, memories.c.update_time >= sa.bindparam("since")
    )
    latest = latest.order_by(memories.c.update_time.desc(), memories.c.row.desc())
    rows = latest.limit(sa.bindparam("most", type_=sa.Integer)).subquery("chosen")
    return sa.select(rows_as_json(rows.c.update_time, rows.c.row))


def _of_project(*columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    return sa.select(*columns).where(
        memories.c.owner == sa.bindparam("owner"),
        memories.c.project_id == sa.bindparam("project"),
        *_in_use(),
    )


def _in_use() -> Iterator[sa.ColumnElement[bool]]:
    """Yield what `memsvc.domain.context.is_in_use` asks."""
    now: sa.BindParameter[Any] = sa.bindparam("now")
    yield memories.c.status == Status.ACTIVE.value
    yield memories.c.tier != Tier.ARCHIVED.value
    yield sa.or_(memories.c.expire_time.is_(None), memories.c.expire_time > now, memories.c.work_in_progress == ONE)
    yield sa.or_(memories.c.valid_to.is_(None), memories.c.valid_to > now)
    yield has_begun(now)
