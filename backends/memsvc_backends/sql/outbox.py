"""Outbox and revisions: the records of every change of a memory.

Both are made by the database out of the rows that were written, and so cost an import next to nothing here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import starmap
from typing import Any

import sqlalchemy as sa

from memsvc.domain.clock import from_micros, to_micros
from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.index_entries import Change, ChangeAction
from memsvc.domain.memory import Layer, Memory
from memsvc.domain.scope import OWNER_SEPARATOR, Reach
from memsvc.ports.change_feed import ChangePage, LoggedChange
from memsvc.ports.operations import WebhookDelivery, WebhookSelection, WebhookState
from memsvc_backends.sql.database import BACKEND, ClockDifference, Database, translate
from memsvc_backends.sql.dialect import (
    cached_statement,
    execute,
    in_json_list,
    insert_new,
    list_parameter,
    rows_as_json,
    rows_of_text,
)
from memsvc_backends.sql.memory_codec import (
    MEMORY_COLUMNS,
    memory_from_row,
    memory_from_snapshot,
    micros_or_none,
    moment_or_none,
)
from memsvc_backends.sql.row_writer import insert_many
from memsvc_backends.sql.tables import (
    EMPTY,
    IS_PENDING,
    ZERO,
    counters,
    memories,
    outbox,
    revisions,
    webhook_cursors,
    webhook_deliveries,
)

_BETWEEN = memories.c.row.between(sa.bindparam("first"), sa.bindparam("last"))
CLAIMED = 128
"""Changes claimed at once on a shared store: each takes a lock, of which a server has a few thousand."""
LOOKED_AT = 1024
"""Number of pending changes that are examined for unclaimed ones."""
PATIENCE = 60
"""Attempts to find a moment without claims."""
WAIT_MS = 1_000
_LOCK = 1_835_363_700
_ALL = 1_835_363_701
"""The class of the lock that claims share and that a pause of claims holds exclusively."""
_CLAIM = f"SELECT pg_advisory_xact_lock_shared({_ALL}, hashtext(current_schema()))"
_KEEP = f"SELECT pg_advisory_xact_lock({_ALL}, hashtext(current_schema()))"
_STILL = "SELECT 1"
_NOT_IN_TIME = "55P03"
CHANGE_COLUMNS = tuple(outbox.c[name] for name in ("position", "row", "memory_id", "action", "revision", "time"))
_ACTIONS = {action.value: action for action in ChangeAction}
_COLUMNS = tuple(
    outbox.c[name] for name in ("position", "row", "memory_id", "action", "revision", "time", "private_session")
)
log = logging.getLogger(__name__)


def note_revisions(connection: sa.Connection, first: int, last: int, action: ChangeAction) -> None:
    """Note the present revisions of the memories with these rows, each from its update_time on."""
    noted = {"first": first, "last": last, "action": action.value}
    execute(connection, _note_revisions(), noted)


@dataclass(frozen=True, slots=True)
class ChangeRows:
    """Change of the memories with rows *first* to *last*, all of which exist.

    Attributes:
        last_position: The position of the last one's change; those before it have the positions before.
        was_public: Whether the memories could be known of beyond their sessions before.
    """

    first: int
    last: int
    action: ChangeAction
    time: int
    last_position: int
    was_public: bool = False


def append_outbox(connection: sa.Connection, noted: ChangeRows) -> None:
    """Put a change of each memory into the outbox, by ascending row."""
    values = {
        "first": noted.first,
        "last": noted.last,
        "action": noted.action.value,
        "time": noted.time,
        "offset": noted.last_position - noted.last,
        "private": "" if noted.was_public else Layer.SESSION.value,
    }
    execute(connection, _note_changes(), values)


def note_scattered(
    connection: sa.Connection, written: Sequence[Memory], action: ChangeAction, time: int, last_position: int
) -> None:
    """Note the revisions and changes of memories whose rows do not lie together, in the order given.

    Their layers are those they had before.
    """
    noted = [{"row": memory.row, "revision": memory.revision, "action": action.value} for memory in written]
    times = [to_micros(memory.update_time) for memory in written]
    states = [{**one, "time": moment, "snapshot": None} for one, moment in zip(noted, times, strict=True)]
    insert_many(connection, revisions, states)
    first = last_position - len(written) + 1
    changes = [
        {**one, **_of_memory(memory), "position": position, "time": time, "applied": 0}
        for position, (one, memory) in enumerate(zip(noted, written, strict=True), start=first)
    ]
    insert_many(connection, outbox, changes)


def _of_memory(memory: Memory) -> dict[str, str]:
    scope = memory.scope
    private = scope.session_id if memory.layer is Layer.SESSION else ""
    return {"memory_id": memory.id, "owner": scope.owner, "project_id": scope.project_id, "private_session": private}


@cached_statement
def _note_revisions() -> sa.Insert:
    values: dict[str, Any] = {
        "row": memories.c.row,
        "revision": memories.c.revision,
        "action": sa.bindparam("action", type_=sa.Text),
        "time": memories.c.update_time,
    }
    return sa.insert(revisions).from_select(list(values), sa.select(*values.values()).where(_BETWEEN))


@cached_statement
def _note_changes() -> sa.Insert:
    values: dict[str, Any] = {
        "position": memories.c.row + sa.bindparam("offset", type_=sa.BigInteger),
        "row": memories.c.row,
        "memory_id": memories.c.id,
        "action": sa.bindparam("action", type_=sa.Text),
        "revision": memories.c.revision,
        "time": sa.bindparam("time", type_=sa.BigInteger),
        "applied": sa.literal_column("0"),
        "owner": memories.c.owner,
        "project_id": memories.c.project_id,
        "private_session": sa.case(
            (memories.c.layer == sa.bindparam("private", type_=sa.Text), memories.c.session_id), else_=EMPTY
        ),
    }
    return sa.insert(outbox).from_select(list(values), sa.select(*values.values()).where(_BETWEEN))


# Claims: changes that one process applies, and no other at the same time.
#
# Why: as `SKIP LOCKED` would, but by memory instead of by change. Indexes are given a memory as it is when it is
# read; so two processes with two changes of one memory could leave its older state in an index. The claim is an
# advisory lock of the memory's row, which ends with the claim's transaction, also when the process dies, is stopped or
# cut off. Locks on the rows of the outbox would keep the claimant itself from marking, part by part, what it has
# applied, and an erasure from going on.


Check = Callable[[], None]
"""Raises BackendUnavailableError if the claim or pause is lost: it ended with its connection."""


@contextmanager
def claim_changes(
    database: Database, wanted: Sequence[int], limit: int, *, without: AbstractSet[int]
) -> Iterator[tuple[list[list[Any]], Check]]:
    """Claim the rows of pending changes: those at the *wanted* positions, or, without any, the oldest.

    Those *without* are left out: they are applied already, or are to be claimed later.
    """
    if not database.driver.is_shared:
        with database.read_connection() as connection:
            found = _unmarked_changes(connection, wanted, limit, without)
        yield found, _is_unclaimed_by_others
        return
    with database.note_transaction() as connection, database.driver.keep_alive(connection):
        execute(connection, _CLAIM)
        far = min(limit + len(without), CLAIMED) if limit else 0
        found = [row for row in _find_unclaimed(connection, wanted, far, is_shared=True) if row[0] not in without]
        yield found[:limit], partial(_require, connection)


@contextmanager
def block_claims(database: Database) -> Iterator[Check]:
    """Wait until no changes are claimed, and prevent claims.

    Waiting for the lock blocks new claims, so each attempt is short.
    """
    if not database.driver.is_shared:
        yield _is_unclaimed_by_others
        return
    with database.note_transaction() as connection, database.driver.keep_alive(connection):
        if not any(_is_unclaimed(connection) for _ in range(PATIENCE)):
            raise BackendUnavailableError(BACKEND)
        yield partial(_require, connection)


def _is_unclaimed_by_others() -> None:
    """Return: no other process can claim anything."""


def _require(connection: sa.Connection) -> None:
    with translate():
        execute(connection, _STILL)


def _is_unclaimed(connection: sa.Connection) -> bool:
    """Return whether the lock was got, in a part of the transaction that is taken back when it was not."""
    execute(connection, "SAVEPOINT waiting")
    execute(connection, f"SET LOCAL lock_timeout = {WAIT_MS}")
    try:
        execute(connection, _KEEP)
    except sa.exc.OperationalError as error:
        if getattr(error.orig, "sqlstate", None) != _NOT_IN_TIME:
            raise
        execute(connection, "ROLLBACK TO SAVEPOINT waiting")
        return False
    return True


def reopen_changes(database: Database, positions: Sequence[int]) -> set[int]:
    """Make applied changes pending again, but for those of memories that a process has claimed; return the latter.

    While it holds the claim, its process may mark the changes as applied. At most `CLAIMED` positions at a time.
    """
    with database.note_transaction() as connection:
        found = execute(connection, _lock_rows(), {"wanted": list_parameter(positions)}).all()
        locked = [position for position, is_locked in found if is_locked]
        execute(connection, _reopen(), {"wanted": list_parameter(locked)})
    return {position for position, is_locked in found if not is_locked}


def applied_after(database: Database, position: int) -> list[int]:
    """Return the positions of applied changes after *position*."""
    statement = sa.select(outbox.c.position).where(outbox.c.position > position, outbox.c.applied != ZERO)
    with database.read_connection() as connection:
        return list(execute(connection, statement).scalars())


@cached_statement
def _lock_rows() -> sa.Select[Any]:
    wanted = sa.select(outbox.c.position, outbox.c.row).where(_is_wanted()).subquery("wanted_changes")
    return sa.select(wanted.c.position, _try_lock(wanted.c.row))


@cached_statement
def _reopen() -> sa.Update:
    return sa.update(outbox).values(applied=ZERO).where(_is_wanted())


def pending_among(database: Database, positions: Sequence[int]) -> set[int]:
    """Return those of *positions* that are not applied."""
    statement = sa.select(outbox.c.position).where(IS_PENDING, _is_wanted())
    with database.read_connection() as connection:
        return set(execute(connection, statement, {"wanted": list_parameter(positions)}).scalars())


def _unmarked_changes(
    connection: sa.Connection, wanted: Sequence[int], limit: int, marked: AbstractSet[int]
) -> list[list[Any]]:
    # Of the oldest so many more are read that enough are left.
    asked = [position for position in wanted if position not in marked]
    found = _find_unclaimed(connection, asked, limit + len(marked) if limit else 0, is_shared=False)
    return [row for row in found if row[0] not in marked][:limit]


def _find_unclaimed(
    connection: sa.Connection, wanted: Sequence[int], limit: int, *, is_shared: bool
) -> list[list[Any]]:
    found: list[list[Any]] = []
    if wanted:
        parameters = {"wanted": list_parameter(wanted), "far": len(wanted), "limit": limit}
        found = _rows(connection, _select_wanted(is_shared=is_shared), parameters)
    if not found:
        parameters = {"far": LOOKED_AT if is_shared else limit, "limit": limit}
        found = _rows(connection, _select_oldest(is_shared=is_shared), parameters)
    return sorted(found)


def _rows(connection: sa.Connection, statement: sa.Select[Any], parameters: dict[str, Any]) -> list[list[Any]]:
    [(text,)] = execute(connection, statement, parameters)
    return rows_of_text(text)


def _is_wanted() -> sa.ColumnElement[bool]:
    return in_json_list(outbox.c.position, "wanted")


@cached_statement
def _select_wanted(*, is_shared: bool) -> sa.Select[Any]:
    return _select(sa.and_(IS_PENDING, _is_wanted()), is_shared=is_shared)


@cached_statement
def _select_oldest(*, is_shared: bool) -> sa.Select[Any]:
    return _select(IS_PENDING, is_shared=is_shared)


def _select(condition: sa.ColumnElement[bool], *, is_shared: bool) -> sa.Select[Any]:
    pending = sa.select(*CHANGE_COLUMNS).where(condition).order_by(outbox.c.position).limit(sa.bindparam("far"))
    near = pending.subquery("near")
    chosen = sa.select(near).limit(sa.bindparam("limit"))
    if is_shared:
        # Asked one by one in this order, and not beyond the limit: each one that is asked is locked.
        chosen = chosen.where(_try_lock(near.c.row))
    return sa.select(rows_as_json(*chosen.subquery("chosen").c))


def _try_lock(row: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
    """Claim a memory until the transaction ends, unless another process has."""
    name = sa.func.hashtext(sa.func.current_schema()).op("#")(sa.func.hashint8(row))
    return sa.func.pg_try_advisory_xact_lock(sa.literal_column(str(_LOCK)), name)


# The log of changes, for those who watch memories.


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
            with self._database.read_connection() as connection:
                self._identity = execute(connection, sa.select(counters.c.store_id)).scalar_one()
        return self._identity

    def after(self, position: int, *, reach: Reach, limit: int) -> ChangePage:
        """Return the changes after a position, all as of one moment."""
        asked = {"owner": reach.owner, "after": position, "limit": limit}
        # Read before the snapshot, which sees all up to it.
        settled = self._database.settled_position() if self._database.driver.is_shared else None
        with self._database.snapshot() as connection:
            kept_after, head = execute(connection, _select_bounds()).one()
            found: list[list[Any]] = []
            # One by one: each is in the order of its index, so that no more is read than is asked for.
            for project in reach.project_ids:
                text = execute(connection, _select_changes(), {"project_id": project, **asked}).scalar_one()
                found += rows_of_text(text)
        changes = tuple(starmap(_logged_change, sorted(found)[:limit]))
        is_all = len(changes) < limit
        last = changes[-1].change.position if changes else position
        reached = max(position, last, head if settled is None else settled) if is_all else last
        return ChangePage(changes, reached, is_all, kept_after, head)

    def end(self, *, reach: Reach) -> int:
        """Return the newest position of the reach, or a later one that is settled."""
        settled = self._database.settled_position()
        if not self._database.driver.is_shared:
            return settled
        with self._database.snapshot() as connection:
            at = {"owner": reach.owner}
            newest = [
                execute(connection, _select_newest(), {**at, "project_id": project}).scalar()
                for project in reach.project_ids
            ]
        return max([settled, *(int(one) for one in newest if one is not None)])

    def count(self, position: int, *, reach: Reach) -> int:
        """Count the changes after a position."""
        with self._database.snapshot() as connection:
            counted = (
                execute(connection, _count_changes(), {"owner": reach.owner, "after": position, "project_id": project})
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
            present = (memory_from_row(row) for row in execute(connection, _select_present(), rows))
            found = {
                (memory.row, memory.revision): memory for memory in present if (memory.row, memory.revision) in asked
            }
            for row, revision in asked - found.keys():
                at = {"row": row, "revision": revision}
                if text := execute(connection, _select_snapshot(), at).scalar_one_or_none():
                    found[row, revision] = memory_from_snapshot(text)
        return found


def _logged_change(*values: Any) -> LoggedChange:
    position, row, memory_id, action, revision, time, private_session = values
    return LoggedChange(Change(position, row, memory_id, _ACTIONS[action], revision, time), private_session)


def _follows() -> sa.ColumnElement[bool]:
    return sa.and_(
        outbox.c.owner == sa.bindparam("owner"),
        outbox.c.project_id == sa.bindparam("project_id"),
        outbox.c.position > sa.bindparam("after"),
    )


@cached_statement
def _select_changes() -> sa.Select[Any]:
    chosen = sa.select(*_COLUMNS).where(_follows()).order_by(outbox.c.position).limit(sa.bindparam("limit"))
    return sa.select(rows_as_json(*chosen.subquery("chosen").c))


@cached_statement
def _count_changes() -> sa.Select[Any]:
    return sa.select(sa.func.count()).select_from(outbox).where(_follows())


@cached_statement
def _select_bounds() -> sa.Select[Any]:
    return sa.select(counters.c.trimmed_position, counters.c.last_position)


@cached_statement
def _select_newest() -> sa.Select[Any]:
    place = [outbox.c[name] == sa.bindparam(name) for name in ("owner", "project_id")]
    return sa.select(outbox.c.position).where(*place).order_by(outbox.c.position.desc()).limit(1)


@cached_statement
def _select_present() -> sa.Select[Any]:
    return sa.select(*MEMORY_COLUMNS).where(in_json_list(memories.c.row, "rows"))


@cached_statement
def _select_snapshot() -> sa.Select[Any]:
    return sa.select(revisions.c.snapshot).where(
        revisions.c.row == sa.bindparam("row"), revisions.c.revision == sa.bindparam("revision")
    )


# The queue of webhooks.


class SqlWebhookQueue:
    """`memsvc.ports.operations.WebhookQueue`; the times of attempts are stored by the clock of the database."""

    def __init__(self, database: Database, clocks: ClockDifference) -> None:
        """Keep it in *database*; *clocks* compares its clock with that of this process."""
        self._database = database
        self._clocks = clocks

    def collect(self, selection: WebhookSelection, *, limit: int) -> tuple[int, int]:
        """Queue the next changes, and move the cursor in the same transaction."""
        # Read before the changes, of which none up to it is committed later.
        settled = self._database.settled_position()
        with self._database.read_connection() as connection:
            cursor = execute(connection, _select_cursor(), {"endpoint": selection.endpoint}).scalar()
            if cursor == settled:
                return 0, 0
            trimmed, _ = execute(connection, _select_bounds()).one()
            at = {"after": settled if cursor is None else cursor, "settled": settled, "most": limit}
            rows = list(execute(connection, _select_settled(), at))
        if cursor is not None and cursor < trimmed:
            message = "changes after position %d were removed from the outbox before webhook endpoint %r got them"
            log.warning(message, cursor, selection.endpoint)
        reached = rows[-1][0] if len(rows) == limit else max(settled, at["after"])
        queued = [_queued(selection.endpoint, row) for row in rows if _is_selected(selection, row)]
        with self._database.note_transaction() as connection:
            if queued:
                execute(connection, _insert_deliveries(), queued)
            execute(connection, _insert_cursor(), {"endpoint": selection.endpoint, "position": reached})
            execute(connection, _move_cursor(), {"of": selection.endpoint, "reached": reached})
        return len(rows), len(queued)

    def due(self, endpoint: str, *, at: datetime, limit: int) -> list[WebhookDelivery]:
        """Return the oldest deliveries of owners."""
        asked = {"endpoint": endpoint, "at": self._clocks.there(at), "most": limit}
        with self._database.read_connection() as connection:
            return [self._delivery(row) for row in execute(connection, _select_due(), asked)]

    def settle(self, done: Sequence[WebhookDelivery], kept: Sequence[WebhookDelivery]) -> None:
        """Remove some and change others."""
        removed = [{"at_endpoint": one.endpoint, "at_position": one.change.position} for one in done]
        changed = [self._attempt(one) for one in kept]
        with self._database.note_transaction() as connection:
            if removed:
                execute(connection, _delete_delivery(), removed)
            if changed:
                execute(connection, _note_attempt(), changed)

    def set_gone(self, endpoint: str, moment: datetime | None) -> None:
        """Turn an endpoint off or on."""
        gone = sa.update(webhook_cursors).where(_CURSOR.endpoint == endpoint).values(gone_time=micros_or_none(moment))
        with self._database.note_transaction() as connection:
            execute(connection, gone)

    def state(self, endpoint: str) -> WebhookState | None:
        """Count what waits, and what was given up."""
        cursor = sa.select(_CURSOR.position, _CURSOR.gone_time).where(_CURSOR.endpoint == endpoint)
        counts = (
            sa.select(_DELIVERY.is_dead, sa.func.count(), sa.func.min(_DELIVERY.time))
            .where(_DELIVERY.endpoint == endpoint)
            .group_by(_DELIVERY.is_dead)
        )
        with self._database.read_connection() as connection:
            found = execute(connection, cursor).one_or_none()
            numbers = {is_dead: (int(count), oldest) for is_dead, count, oldest in execute(connection, counts)}
        if found is None:
            return None
        pending, oldest = numbers.get(0, (0, None))
        return WebhookState(
            found[0], found[1] is not None, pending, numbers.get(1, (0, None))[0], moment_or_none(oldest)
        )

    def dead_letters(self, endpoint: str, *, after: tuple[str, int], limit: int) -> list[WebhookDelivery]:
        """Return dead letters."""
        order = (_DELIVERY.endpoint, _DELIVERY.position)
        statement = sa.select(*_DELIVERY).where(_DELIVERY.is_dead == 1, sa.tuple_(*order) > sa.tuple_(*after))
        if endpoint:
            statement = statement.where(_DELIVERY.endpoint == endpoint)
        with self._database.read_connection() as connection:
            return [self._delivery(row) for row in execute(connection, statement.order_by(*order).limit(limit))]

    def retry(self, endpoint: str, positions: Sequence[int]) -> int:
        """Make dead letters pending, as if they had not been sent."""
        pending = sa.update(webhook_deliveries).values(is_dead=0, attempts=0, first_time=0, next_time=0)
        with self._database.note_transaction() as connection:
            return execute(connection, pending.where(*_dead(endpoint, positions))).rowcount

    def drop(self, endpoint: str, positions: Sequence[int]) -> int:
        """Remove dead letters."""
        with self._database.note_transaction() as connection:
            return execute(connection, sa.delete(webhook_deliveries).where(*_dead(endpoint, positions))).rowcount

    def _delivery(self, row: Sequence[Any]) -> WebhookDelivery:
        endpoint, position, owner, project_id, memory_row, memory_id, action, revision, time, *attempt = row
        attempts, first_time, next_time, is_dead, status, error = attempt
        change = Change(position, memory_row, memory_id, _ACTIONS[action], revision, time)
        first, following = (
            from_micros(self._clocks.latest(moment)) if moment else None for moment in (first_time, next_time)
        )
        return WebhookDelivery(
            endpoint, owner, project_id, change, attempts, first, following, bool(is_dead), status, error
        )

    def _attempt(self, one: WebhookDelivery) -> dict[str, Any]:
        return {
            "at_endpoint": one.endpoint,
            "at_position": one.change.position,
            "new_attempts": one.attempts,
            "new_first_time": self._clocks.there(one.first_time) if one.first_time else 0,
            "new_next_time": self._clocks.there(one.next_time) if one.next_time else 0,
            "new_is_dead": int(one.is_dead),
            "new_status": one.status,
            "new_error": one.error,
        }


_CURSOR, _DELIVERY = webhook_cursors.c, webhook_deliveries.c
_QUEUED = tuple(
    outbox.c[name] for name in ("position", "owner", "project_id", "row", "memory_id", "action", "revision", "time")
)
_NEW = {"attempts": 0, "first_time": 0, "next_time": 0, "is_dead": 0, "status": 0, "error": ""}


def _is_selected(selection: WebhookSelection, row: Sequence[Any]) -> bool:
    _, owner, _, _, _, action, _, _ = row
    # An erasure removes the owner: such a change is for no endpoint.
    tenant, separator, _ = owner.partition(OWNER_SEPARATOR)
    is_ours = bool(separator) and tenant == selection.tenant_id
    return is_ours and _ACTIONS[action] in selection.actions and (not selection.owners or owner in selection.owners)


def _queued(endpoint: str, row: Sequence[Any]) -> dict[str, Any]:
    named = {column.name: value for column, value in zip(_QUEUED, row, strict=True)}
    return {"endpoint": endpoint, **named, **_NEW}


def _dead(endpoint: str, positions: Sequence[int]) -> Iterator[sa.ColumnElement[bool]]:
    yield _DELIVERY.endpoint == endpoint
    yield _DELIVERY.is_dead == 1
    if positions:
        yield _DELIVERY.position.in_(positions)


@cached_statement
def _select_cursor() -> sa.Select[Any]:
    return sa.select(_CURSOR.position).where(_CURSOR.endpoint == sa.bindparam("endpoint", type_=sa.Text))


@cached_statement
def _select_settled() -> sa.Select[Any]:
    position = outbox.c.position
    between = (position > sa.bindparam("after"), position <= sa.bindparam("settled"))
    return sa.select(*_QUEUED).where(*between).order_by(position).limit(sa.bindparam("most", type_=sa.Integer))


@cached_statement
def _insert_deliveries() -> sa.Insert:
    return insert_new(webhook_deliveries)


@cached_statement
def _insert_cursor() -> sa.Insert:
    return insert_new(webhook_cursors).values(
        endpoint=sa.bindparam("endpoint"), position=sa.bindparam("position"), gone_time=None
    )


@cached_statement
def _move_cursor() -> sa.Update:
    reached = sa.bindparam("reached", type_=sa.BigInteger)
    behind = (_CURSOR.endpoint == sa.bindparam("of", type_=sa.Text), _CURSOR.position < reached)
    return sa.update(webhook_cursors).where(*behind).values(position=reached)


@cached_statement
def _select_due() -> sa.Select[Any]:
    mine = (_DELIVERY.endpoint == sa.bindparam("endpoint", type_=sa.Text), _DELIVERY.is_dead == sa.literal_column("0"))
    oldest = sa.select(sa.func.min(_DELIVERY.position)).where(*mine).group_by(_DELIVERY.owner)
    due = (*mine, _DELIVERY.position.in_(oldest), _DELIVERY.next_time <= sa.bindparam("at", type_=sa.BigInteger))
    statement = sa.select(*_DELIVERY).where(*due).order_by(_DELIVERY.next_time, _DELIVERY.position)
    return statement.limit(sa.bindparam("most", type_=sa.Integer))


def _is_at() -> tuple[sa.ColumnElement[bool], ...]:
    return (_DELIVERY.endpoint == sa.bindparam("at_endpoint"), _DELIVERY.position == sa.bindparam("at_position"))


@cached_statement
def _delete_delivery() -> sa.Delete:
    return sa.delete(webhook_deliveries).where(*_is_at())


@cached_statement
def _note_attempt() -> sa.Update:
    names = ("attempts", "first_time", "next_time", "is_dead", "status", "error")
    values: dict[str, Any] = {name: sa.bindparam(f"new_{name}", type_=_DELIVERY[name].type) for name in names}
    return sa.update(webhook_deliveries).where(*_is_at()).values(**values)
