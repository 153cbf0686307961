"""Changes that one process takes to apply them, so that no other does meanwhile.

Why: as `SKIP LOCKED` would, but by memory instead of by change. Indexes are given a memory as it is when it is read; so
two processes with two changes of one memory could leave its older state in an index. The claim is an advisory lock of
the memory's row, which ends with the claim's transaction, also when the process dies. Locks on the rows of the outbox
would keep the claimant itself from marking, part by part, what it has applied, and an erasure from going on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import sqlalchemy as sa

from memsvc.domain.errors import BackendUnavailableError
from memsvc_backends.sql.database import Database
from memsvc_backends.sql.dialect import (
    execute_compiled,
    execute_raw,
    is_listed,
    list_parameter,
    rows_as_json,
    rows_of_text,
)
from memsvc_backends.sql.errors import BACKEND, translate
from memsvc_backends.sql.tables import IS_PENDING, outbox

CLAIMED = 128
"""Changes lent at once where others want some too: each takes a lock, of which a server has a few thousand."""
LOOKED_AT = 1024
"""How far down the list of pending changes one looks for some that nobody has."""
PATIENCE = 60
"""How often the moment is waited for in which nobody is lent anything."""
WAIT_MS = 1_000
_LOCK = 1_835_363_700
_ALL = 1_835_363_701
"""The class of the lock that all who are lent changes share, and whoever wants none lent has alone."""
_CLAIM = f"SELECT pg_advisory_xact_lock_shared({_ALL}, hashtext(current_schema()))"
_KEEP = f"SELECT pg_advisory_xact_lock({_ALL}, hashtext(current_schema()))"
_STILL = "SELECT 1"
_NOT_IN_TIME = "55P03"
CHANGE_COLUMNS = tuple(outbox.c[name] for name in ("position", "row", "memory_id", "action", "revision", "time"))


Check = Callable[[], None]
"""Raises BackendUnavailableError when what was lent, or kept, is so no more: with its connection the server lost it."""


@contextmanager
def claimed(
    database: Database, wanted: Sequence[int], limit: int, *, without: AbstractSet[int]
) -> Iterator[tuple[list[list[Any]], Check]]:
    """Lend the rows of pending changes: of the *wanted* positions, or, when there are none, of the oldest.

    Where no other process can write, those *without* are left out: they are applied already.
    """
    if not database.driver.is_shared:
        with database.reading() as connection:
            found = _unmarked(connection, wanted, limit, without)
        yield found, _nobody_else
        return
    with database.noting() as connection:
        execute_raw(connection, _CLAIM)
        yield _found(connection, wanted, min(limit, CLAIMED), is_shared=True), partial(_require, connection)


@contextmanager
def unclaimed(database: Database) -> Iterator[Check]:
    """Wait until nobody is lent anything, and keep it so.

    Who waits for the lock keeps others from claiming; so it is asked for a little while at a time.
    """
    if not database.driver.is_shared:
        yield _nobody_else
        return
    with database.noting() as connection:
        if not any(_is_unclaimed(connection) for _ in range(PATIENCE)):
            raise BackendUnavailableError(BACKEND)
        yield partial(_require, connection)


def _nobody_else() -> None:
    """Return: nobody else could be lent anything."""


def _require(connection: sa.Connection) -> None:
    with translate():
        execute_raw(connection, _STILL)


def _is_unclaimed(connection: sa.Connection) -> bool:
    """Return whether the lock was got, in a part of the transaction that is taken back when it was not."""
    execute_raw(connection, "SAVEPOINT waiting")
    execute_raw(connection, f"SET LOCAL lock_timeout = {WAIT_MS}")
    try:
        execute_raw(connection, _KEEP)
    except sa.exc.OperationalError as error:
        if getattr(error.orig, "sqlstate", None) != _NOT_IN_TIME:
            raise
        execute_raw(connection, "ROLLBACK TO SAVEPOINT waiting")
        return False
    return True


def pending_among(database: Database, positions: Sequence[int]) -> set[int]:
    """Return those of *positions* that are not applied."""
    statement = sa.select(outbox.c.position).where(IS_PENDING, _is_wanted())
    with database.reading() as connection:
        return set(connection.execute(statement, {"wanted": list_parameter(positions)}).scalars())


def _unmarked(
    connection: sa.Connection, wanted: Sequence[int], limit: int, marked: AbstractSet[int]
) -> list[list[Any]]:
    # Of the oldest so many more are read that enough are left.
    asked = [position for position in wanted if position not in marked]
    found = _found(connection, asked, limit + len(marked) if limit else 0, is_shared=False)
    return [row for row in found if row[0] not in marked][:limit]


def _found(connection: sa.Connection, wanted: Sequence[int], limit: int, *, is_shared: bool) -> list[list[Any]]:
    found: list[list[Any]] = []
    if wanted:
        parameters = {"wanted": list_parameter(wanted), "far": len(wanted), "limit": limit}
        found = _rows(connection, _select_wanted(is_shared=is_shared), parameters)
    if not found:
        parameters = {"far": LOOKED_AT if is_shared else limit, "limit": limit}
        found = _rows(connection, _select_oldest(is_shared=is_shared), parameters)
    return sorted(found)


def _rows(connection: sa.Connection, statement: sa.Select[Any], parameters: dict[str, Any]) -> list[list[Any]]:
    [(text,)] = execute_compiled(connection, statement, parameters)
    return rows_of_text(text)


def _is_wanted() -> sa.ColumnElement[bool]:
    return is_listed(outbox.c.position, "wanted")


@cache
def _select_wanted(*, is_shared: bool) -> sa.Select[Any]:
    return _select(sa.and_(IS_PENDING, _is_wanted()), is_shared=is_shared)


@cache
def _select_oldest(*, is_shared: bool) -> sa.Select[Any]:
    return _select(IS_PENDING, is_shared=is_shared)


def _select(condition: sa.ColumnElement[bool], *, is_shared: bool) -> sa.Select[Any]:
    pending = sa.select(*CHANGE_COLUMNS).where(condition).order_by(outbox.c.position).limit(sa.bindparam("far"))
    near = pending.subquery("near")
    chosen = sa.select(near).limit(sa.bindparam("limit"))
    if is_shared:
        # Asked one by one in this order, and not beyond the limit: whoever is asked is locked.
        name = sa.func.hashtext(sa.func.current_schema()).op("#")(sa.func.hashint8(near.c.row))
        chosen = chosen.where(sa.func.pg_try_advisory_xact_lock(sa.literal_column(str(_LOCK)), name))
    return sa.select(rows_as_json(*chosen.subquery("chosen").c))
