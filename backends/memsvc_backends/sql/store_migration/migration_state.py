"""State of migrations in a database: target, source, or moved away.

It is in a table of its own, which exists only after a migration, next to the tables of the store, so that
it is written in the same transactions as they.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.schema import CreateTable, DropTable

from memsvc.domain.errors import StoreMovedError
from memsvc_backends.sql.dialect import execute, has_table, upsert
from memsvc_backends.sql.tables import Number

_metadata = sa.MetaData()
store_moves = sa.Table(
    "store_moves",
    _metadata,
    # INTO: this database is, or was, the target of a move; OUT: the source of one.
    sa.Column("role", sa.Text, primary_key=True),
    sa.Column("state", sa.Text, nullable=False),
    # Both sides of a move have the same id.
    sa.Column("move_id", sa.Text, nullable=False),
    # The identity of the store that is moved.
    sa.Column("store_id", sa.Text, nullable=False),
    # Where the other side is, without a password.
    sa.Column("place", sa.Text, nullable=False),
    sa.Column("time", Number, nullable=False),
    sa.Column("details", sa.Text, nullable=False),
)

INTO, OUT = "INTO", "OUT"
COPYING, FOLLOWING, VERIFIED, ARRIVED = "COPYING", "FOLLOWING", "VERIFIED", "ARRIVED"
"""The states of a target: rows are missing; all are there, changes are carried over; it equals the source, which may be
written to no more as soon as it says so itself; it is the place of the data."""
FOLLOWED, LEFT = "FOLLOWED", "LEFT"
"""The states of a source: changes are noted; the data have moved away."""


@dataclass(frozen=True, slots=True)
class Move:
    """The state of a migration in one role.

    Attributes:
        details: Of a target the rows copied so far and the digests; of a source the version of its tables.
    """

    role: str
    state: str
    move_id: str
    store_id: str
    place: str
    time: int
    details: dict[str, Any] = field(default_factory=dict)

    def at(self, state: str, **details: Any) -> Move:
        """Return it in another state."""
        return replace(self, state=state, details=self.details | details)


def make_table(connection: sa.Connection) -> None:
    """Create the table unless it exists."""
    execute(connection, CreateTable(store_moves, if_not_exists=True))


def load_move(connection: sa.Connection, role: str) -> Move | None:
    """Return what is said of a role."""
    if not has_table(connection, store_moves.name):
        return None
    row = execute(connection, sa.select(store_moves).where(store_moves.c.role == role)).first()
    if row is None:
        return None
    values = dict(zip(store_moves.c.keys(), row, strict=True))
    return Move(**{**values, "details": json.loads(values["details"])})


def save(connection: sa.Connection, move: Move) -> None:
    """Say it, in the table that is there."""
    values = {
        "role": move.role, "state": move.state, "move_id": move.move_id, "store_id": move.store_id,
        "place": move.place, "time": move.time, "details": json.dumps(move.details),
    }  # fmt: skip
    changes = [name for name in values if name != "role"]
    execute(connection, upsert(store_moves, changes), values)


def forget(connection: sa.Connection, role: str) -> None:
    """Say nothing of a role any more."""
    if load_move(connection, role) is None:
        return
    execute(connection, sa.delete(store_moves).where(store_moves.c.role == role))
    if execute(connection, sa.select(store_moves.c.role)).first() is None:
        execute(connection, DropTable(store_moves))


def require_here(connection: sa.Connection) -> None:
    """Return when this database is the place of its data.

    Raises:
        StoreMovedError: It is not.
    """
    out, into = load_move(connection, OUT), load_move(connection, INTO)
    if out is not None and out.state == LEFT:
        message = (
            f"The data of this store were moved to {out.place}: start the service with that as its store (see "
            "docs/operations/migration.md), or take the move back with `memsvc migrate-backend --undo`."
        )
        raise StoreMovedError(message)
    if into is not None and into.state != ARRIVED:
        message = (
            f"This store is the target of a move from {into.place} that has not ended: run the same `memsvc "
            "migrate-backend` there again, and it goes on where it was, or give it up with --abort."
        )
        raise StoreMovedError(message)
