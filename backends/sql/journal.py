"""What is noted of every change beside the memory itself: its revision, and its place in the outbox.

Both are made by the database out of the rows that were written, and so cost an import next to nothing here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa

from backends.sql.dialect import execute_quickly
from backends.sql.rows import insert_many
from backends.sql.tables import memories, outbox, revisions
from memsvc.domain.indexing import ChangeAction
from memsvc.domain.memory import Memory

_BETWEEN = memories.c.row.between(sa.bindparam("first"), sa.bindparam("last"))


def note_revisions(connection: sa.Connection, first: int, last: int, action: ChangeAction, time: int) -> None:
    """Note the present revisions of the memories with these rows."""
    noted = {"first": first, "last": last, "action": action.value, "time": time}
    execute_quickly(connection, _note_revisions(), noted)


def note_changes(
    connection: sa.Connection, first: int, last: int, action: ChangeAction, time: int, last_position: int
) -> None:
    """Put a change of each memory with these rows, all of which are there, into the outbox, by ascending row."""
    noted = {"first": first, "last": last, "action": action.value, "time": time, "offset": last_position - last}
    execute_quickly(connection, _note_changes(), noted)


def note_scattered(
    connection: sa.Connection, written: Sequence[Memory], action: ChangeAction, time: int, last_position: int
) -> None:
    """Note the revisions and changes of memories whose rows do not lie together, in the order given."""
    fixed = {"action": action.value, "time": time}
    noted = [{"row": memory.row, "revision": memory.revision, **fixed} for memory in written]
    insert_many(connection, revisions, [{**one, "snapshot": None} for one in noted])
    first = last_position - len(written) + 1
    insert_many(
        connection,
        outbox,
        [
            {**one, "position": position, "memory_id": memory.id, "applied": 0}
            for position, (one, memory) in enumerate(zip(noted, written, strict=True), start=first)
        ],
    )


@cache
def _note_revisions() -> sa.Insert:
    values: dict[str, Any] = {
        "row": memories.c.row,
        "revision": memories.c.revision,
        "action": sa.bindparam("action", type_=sa.Text),
        "time": sa.bindparam("time", type_=sa.BigInteger),
    }
    return sa.insert(revisions).from_select(list(values), sa.select(*values.values()).where(_BETWEEN))


@cache
def _note_changes() -> sa.Insert:
    values: dict[str, Any] = {
        "position": memories.c.row + sa.bindparam("offset", type_=sa.BigInteger),
        "row": memories.c.row,
        "memory_id": memories.c.id,
        "action": sa.bindparam("action", type_=sa.Text),
        "revision": memories.c.revision,
        "time": sa.bindparam("time", type_=sa.BigInteger),
        "applied": sa.literal_column("0"),
    }
    return sa.insert(outbox).from_select(list(values), sa.select(*values.values()).where(_BETWEEN))
