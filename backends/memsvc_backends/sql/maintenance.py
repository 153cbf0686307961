"""Reads of maintenance: memories that are due, each list by an index of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from memsvc.domain.clock import from_micros, to_micros
from memsvc.domain.maintenance import MaintenanceScope
from memsvc.domain.memory import Kind, Memory
from memsvc.domain.scope import OWNER_SEPARATOR, Scope
from memsvc.ports.operations import LogPlace, MaintenanceCandidate, ScanPosition, UnreadRule
from memsvc_backends.sql.database import ClockDifference, Database
from memsvc_backends.sql.dialect import cached_statement, database_clock, execute, upsert_when, without_index
from memsvc_backends.sql.memory_codec import MEMORY_COLUMNS, memory_from_row, reminder_from_text
from memsvc_backends.sql.tables import IS_ARCHIVABLE, IS_DELETED, IS_EXPIRING, IS_LOG, IS_PROMOTABLE, leases, memories

_MEMORY = memories.c
_COLUMNS = (
    _MEMORY.row,
    _MEMORY.id,
    _MEMORY.owner,
    _MEMORY.project_id,
    _MEMORY.agent_id,
    _MEMORY.session_id,
    _MEMORY.work_in_progress,
    _MEMORY.content_bytes,
    _MEMORY.reminder,
    _MEMORY.valid_from,
)
_NEVER_READ, _READ = 0, 1
"""The two halves of the unread memories of one importance. A place in the list begins with the importance and the
half."""
_LEAST_IMPORTANCE = 1
_LEASE = leases.c


class SqlUpkeepReads:
    """`memsvc.ports.operations.UpkeepReads`."""

    def __init__(self, database: Database) -> None:
        """Read from *database*."""
        self._database = database

    def expired_memories(
        self, area: MaintenanceScope, *, at: datetime, after: ScanPosition, limit: int
    ) -> list[MaintenanceCandidate]:
        """Return the expired memories."""
        return self._list(
            area, (IS_EXPIRING, _MEMORY.expire_time <= to_micros(at)), (_MEMORY.expire_time, _MEMORY.row), after, limit
        )

    def deleted_memories(
        self, area: MaintenanceScope, *, before: datetime, after: ScanPosition, limit: int
    ) -> list[MaintenanceCandidate]:
        """Return the deleted memories."""
        conditions = (IS_DELETED, _MEMORY.update_time < to_micros(before))
        return self._list(area, conditions, (_MEMORY.update_time, _MEMORY.row), after, limit)

    def frequently_read(
        self, area: MaintenanceScope, *, least: int, at: datetime, after: ScanPosition, limit: int
    ) -> list[MaintenanceCandidate]:
        """Return frequently read memories."""
        moment = to_micros(at)
        conditions = (
            IS_PROMOTABLE,
            _MEMORY.access_count >= least,
            _MEMORY.update_time < moment,
            sa.or_(_MEMORY.expire_time.is_(None), _MEMORY.expire_time > moment),
            _MEMORY.work_in_progress == 0,
            _MEMORY.kind != Kind.MESSAGE.value,
        )
        return self._list(area, conditions, (_MEMORY.access_count, _MEMORY.row), after, limit)

    def unread(
        self, area: MaintenanceScope, *, rule: UnreadRule, after: ScanPosition, limit: int
    ) -> list[MaintenanceCandidate]:
        """Return what was not read lately: two lists of each importance, one behind the other in the index."""
        moment = to_micros(rule.since)
        never = (_MEMORY.access_time.is_(None), _MEMORY.create_time < moment)
        once = (_MEMORY.access_time < moment,)
        by_age, by_use = (_MEMORY.create_time, _MEMORY.row), (_MEMORY.access_time, _MEMORY.create_time, _MEMORY.row)
        begin, place = (after[:2], after[2:]) if after else ((_LEAST_IMPORTANCE, _NEVER_READ), ())
        found: list[MaintenanceCandidate] = []
        for importance in range(begin[0], rule.max_importance + 1):
            for half, conditions, order in ((_NEVER_READ, never, by_age), (_READ, once, by_use)):
                if (importance, half) < begin:
                    continue
                where = (IS_ARCHIVABLE, _MEMORY.importance == importance, _MEMORY.update_time < moment, *conditions)
                rest = limit - len(found)
                found += self._list(area, where, order, place, rest, part=(importance, half))
                place = ()
        return found

    def above(self, area: MaintenanceScope, *, content_bytes: int, rule: UnreadRule, at: datetime) -> dict[str, int]:
        """Return who keeps too much."""
        total = sa.func.sum(_MEMORY.content_bytes)
        statement = (
            sa.select(_MEMORY.owner, total - content_bytes)
            .where(*_is_used(rule, at), *_within(MaintenanceScope(area.owner)))
            .group_by(_MEMORY.owner)
            .having(total > content_bytes)
            .order_by(_MEMORY.owner)
        )
        with self._database.read_connection() as connection:
            return {owner: int(more) for owner, more in execute(connection, statement)}

    def least_useful(
        self, area: MaintenanceScope, *, owner: str, rule: UnreadRule, at: datetime, after: ScanPosition, limit: int
    ) -> list[MaintenanceCandidate]:
        """Return what is of little use."""
        conditions = (*_is_used(rule, at), _MEMORY.owner == owner)
        return self._list(area, conditions, (_MEMORY.importance, _MEMORY.access_count, _MEMORY.row), after, limit)

    def _list(
        self,
        area: MaintenanceScope,
        conditions: Sequence[sa.ColumnElement[bool]],
        order: Sequence[sa.ColumnElement[Any]],
        after: ScanPosition,
        limit: int,
        part: ScanPosition = (),
    ) -> list[MaintenanceCandidate]:
        if limit <= 0:
            return []
        statement = sa.select(*_COLUMNS, *order).where(*conditions, *_within(area))
        if after:
            statement = statement.where(sa.tuple_(*order) > sa.tuple_(*after))
        with self._database.read_connection() as connection:
            return [_candidate_of(row, part) for row in execute(connection, statement.order_by(*order).limit(limit))]


def _is_used(rule: UnreadRule, at: datetime) -> Iterator[sa.ColumnElement[bool]]:
    """Yield what says that a memory is settled, and is not unread."""
    moment = to_micros(rule.since)
    yield IS_ARCHIVABLE
    yield _MEMORY.update_time < to_micros(at)
    yield sa.or_(
        _MEMORY.importance > rule.max_importance,
        _MEMORY.update_time >= moment,
        sa.func.coalesce(_MEMORY.access_time, _MEMORY.create_time) >= moment,
    )


def _within(area: MaintenanceScope) -> Iterator[sa.ColumnElement[bool]]:
    # Not by the lists of the owner, which hold much that is not due.
    if area.owner is not None:
        yield without_index(_MEMORY.owner) == area.owner
        if area.project_id:
            yield without_index(_MEMORY.project_id) == area.project_id


def _candidate_of(row: Sequence[Any], part: ScanPosition) -> MaintenanceCandidate:
    number, memory_id, owner, project_id, agent_id, session_id, work_in_progress, content_bytes, *rest = row
    reminder, valid_from, *place = rest
    tenant_id, _, user_id = owner.partition(OWNER_SEPARATOR)
    scope = Scope(user_id, project_id, agent_id, session_id, tenant_id)
    return MaintenanceCandidate(
        number,
        memory_id,
        scope,
        (*part, *place),
        bool(work_in_progress),
        content_bytes,
        reminder_from_text(reminder),
        None if valid_from is None else from_micros(valid_from),
    )


# Leases: one row for each name.


class SqlLeases:
    """`memsvc.ports.operations.Leases`."""

    def __init__(self, database: Database, clocks: ClockDifference) -> None:
        """Keep them in *database*; *clocks* compares its clock with that of this process."""
        self._database = database
        self._clocks = clocks

    def take(self, name: str, *, holder: str, now: datetime, term: timedelta) -> bool:
        """Take a name, in one statement: so of several who try one succeeds."""
        values = {"name": name, "holder": holder, "now": to_micros(now), "term": term // timedelta(microseconds=1)}
        before = self._clocks.now()
        with self._database.note_transaction() as connection:
            taken = execute(connection, _take(), values).first()
            if taken is not None and taken[0] is not None:
                # Holders renew theirs every few seconds: the times that they store go by a recent comparison.
                self._clocks.note(before, taken[0])
        return taken is not None

    def release(self, name: str, *, holder: str, ended: datetime | None) -> None:
        """Let a name go."""
        mine = sa.update(leases).where(_LEASE.name == name, _LEASE.holder == holder)
        values: dict[str, Any] = {"until": 0}
        if ended is not None:
            values["last_end"] = sa.func.coalesce(database_clock(), to_micros(ended))
        with self._database.note_transaction() as connection:
            execute(connection, mine.values(values))

    def last_end(self, name: str) -> datetime | None:
        """Return when work was finished last."""
        before = self._clocks.now()
        with self._database.read_connection() as connection:
            row = execute(connection, _select_last_end(), {"name": name}).one_or_none()
        if row is None:
            return None
        end, there = row
        if there is not None:
            # Often, since the scheduler looks every few seconds.
            self._clocks.note(before, there)
        return None if end is None else from_micros(self._clocks.latest(end))


@cached_statement
def _take() -> sa.Insert:
    present = sa.func.coalesce(database_clock(), sa.bindparam("now", type_=sa.BigInteger))
    new: Mapping[str, Any] = {
        "name": sa.bindparam("name"),
        "holder": sa.bindparam("holder"),
        "until": present + sa.bindparam("term", type_=sa.BigInteger),
    }
    is_free = sa.or_(_LEASE.holder == sa.bindparam("holder"), _LEASE.until <= present)
    return upsert_when(leases, new, ("holder", "until"), is_free).returning(database_clock())


@cached_statement
def _select_last_end() -> sa.Select[Any]:
    return sa.select(_LEASE.last_end, database_clock()).where(_LEASE.name == sa.bindparam("name"))


# Daily logs that have grown old, by an index that holds no other memories.


class SqlLogs:
    """`memsvc.ports.operations.LogReads`."""

    def __init__(self, database: Database) -> None:
        """Read from *database*."""
        self._database = database

    def old_logs(self, area: MaintenanceScope, *, before: str, after: LogPlace, limit: int) -> Sequence[Memory]:
        """Return the next old logs."""
        parameters = {
            "before": before, "after": after.key, "row": after.row, "most": max(0, limit), "owner": area.owner,
            "project": area.project_id,
        }  # fmt: skip
        statement = _select(
            has_owner=area.owner is not None, has_project=bool(area.owner is not None and area.project_id)
        )
        with self._database.read_connection() as connection:
            return [memory_from_row(row) for row in execute(connection, statement, parameters)]


@cached_statement
def _select(*, has_owner: bool, has_project: bool) -> sa.Select[Any]:
    key, after = memories.c.key, sa.bindparam("after", type_=sa.Text)
    statement = sa.select(*MEMORY_COLUMNS).where(
        IS_LOG,
        key < sa.bindparam("before"),
        key >= after,
        sa.or_(key > after, memories.c.row > sa.bindparam("row")),
    )
    if has_owner:
        statement = statement.where(memories.c.owner == sa.bindparam("owner"))
    if has_project:
        statement = statement.where(memories.c.project_id == sa.bindparam("project"))
    return statement.order_by(key, memories.c.row).limit(sa.bindparam("most", type_=sa.Integer))
