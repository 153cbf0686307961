"""Finding what upkeep is due, each list by an index of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from memsvc.domain.clock import to_micros
from memsvc.domain.maintenance import Area
from memsvc.domain.memory import Kind
from memsvc.domain.scope import OWNER_SEPARATOR, Scope
from memsvc.ports.upkeep import Place, Waiting
from memsvc_backends.sql.database import Database
from memsvc_backends.sql.dialect import unindexed
from memsvc_backends.sql.tables import IS_ARCHIVABLE, IS_EXPIRING, IS_PROMOTABLE, memories

_C = memories.c
_COLUMNS = (_C.row, _C.id, _C.owner, _C.project_id, _C.agent_id, _C.session_id, _C.work_in_progress, _C.content_bytes)
_NEVER_READ, _READ = 0, 1
"""The two halves of the list of unread memories: the first number of a place in it."""


class SqlUpkeepReads:
    """`memsvc.ports.upkeep.UpkeepReads`."""

    def __init__(self, database: Database) -> None:
        """Read from *database*."""
        self._database = database

    def expired(self, area: Area, *, at: datetime, after: Place, limit: int) -> list[Waiting]:
        """Return what has expired."""
        return self._list(area, (IS_EXPIRING, _C.expire_time <= to_micros(at)), (_C.expire_time, _C.row), after, limit)

    def read_often(self, area: Area, *, least: int, at: datetime, after: Place, limit: int) -> list[Waiting]:
        """Return what was read often."""
        moment = to_micros(at)
        conditions = (
            IS_PROMOTABLE,
            _C.access_count >= least,
            _C.update_time < moment,
            sa.or_(_C.expire_time.is_(None), _C.expire_time > moment),
            _C.work_in_progress == 0,
            _C.kind != Kind.MESSAGE.value,
        )
        return self._list(area, conditions, (_C.access_count, _C.row), after, limit)

    def unread(self, area: Area, *, since: datetime, after: Place, limit: int) -> list[Waiting]:
        """Return what was not read lately: two lists, which lie one behind the other in the index."""
        moment = to_micros(since)
        unchanged = (IS_ARCHIVABLE, _C.update_time < moment)
        half, place = (after[0], after[1:]) if after else (_NEVER_READ, ())
        found: list[Waiting] = []
        if half == _NEVER_READ:
            never = (*unchanged, _C.access_time.is_(None), _C.create_time < moment)
            found = self._list(area, never, (_C.create_time, _C.row), place, limit, half=(_NEVER_READ,))
            place = ()
        once = (*unchanged, _C.access_time < moment)
        order = (_C.access_time, _C.create_time, _C.row)
        return found + self._list(area, once, order, place, limit - len(found), half=(_READ,))

    def above(self, area: Area, *, content_bytes: int, since: datetime, at: datetime) -> dict[str, int]:
        """Return who keeps too much."""
        total = sa.func.sum(_C.content_bytes)
        statement = (
            sa.select(_C.owner, total - content_bytes)
            .where(*_used(since, at), *_within(Area(area.owner)))
            .group_by(_C.owner)
            .having(total > content_bytes)
            .order_by(_C.owner)
        )
        with self._database.reading() as connection:
            return {owner: int(more) for owner, more in connection.execute(statement)}

    def least_useful(
        self, area: Area, *, owner: str, since: datetime, at: datetime, after: Place, limit: int
    ) -> list[Waiting]:
        """Return what is of little use."""
        conditions = (*_used(since, at), _C.owner == owner)
        return self._list(area, conditions, (_C.importance, _C.access_count, _C.row), after, limit)

    def _list(
        self,
        area: Area,
        conditions: Sequence[sa.ColumnElement[bool]],
        order: Sequence[sa.ColumnElement[Any]],
        after: Place,
        limit: int,
        half: Place = (),
    ) -> list[Waiting]:
        if limit <= 0:
            return []
        statement = sa.select(*_COLUMNS, *order).where(*conditions, *_within(area))
        if after:
            statement = statement.where(sa.tuple_(*order) > sa.tuple_(*after))
        with self._database.reading() as connection:
            return [_waiting(row, half) for row in connection.execute(statement.order_by(*order).limit(limit))]


def _used(since: datetime, at: datetime) -> Iterator[sa.ColumnElement[bool]]:
    """Yield what says that a memory is settled, and was used since a moment."""
    moment = to_micros(since)
    yield IS_ARCHIVABLE
    yield _C.update_time < to_micros(at)
    yield sa.or_(_C.update_time >= moment, sa.func.coalesce(_C.access_time, _C.create_time) >= moment)


def _within(area: Area) -> Iterator[sa.ColumnElement[bool]]:
    # Not by the lists of the owner, which hold much that is not due.
    if area.owner is not None:
        yield unindexed(_C.owner) == area.owner
        if area.project_id:
            yield unindexed(_C.project_id) == area.project_id


def _waiting(row: Sequence[Any], half: Place) -> Waiting:
    number, memory_id, owner, project_id, agent_id, session_id, work_in_progress, content_bytes, *place = row
    tenant_id, _, user_id = owner.partition(OWNER_SEPARATOR)
    scope = Scope(user_id, project_id, agent_id, session_id, tenant_id)
    return Waiting(number, memory_id, scope, (*half, *place), bool(work_in_progress), content_bytes)
