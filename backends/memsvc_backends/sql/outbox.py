"""What is noted of every change beside the memory itself: its revision, and its place in the outbox.

Both are made by the database out of the rows that were written, and so cost an import next to nothing here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import sqlalchemy as sa

from memsvc.domain.clock import to_micros
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import Layer, Memory
from memsvc_backends.sql.dialect import execute_compiled
from memsvc_backends.sql.row_writer import insert_many
from memsvc_backends.sql.tables import EMPTY, memories, outbox, revisions

_BETWEEN = memories.c.row.between(sa.bindparam("first"), sa.bindparam("last"))


def note_revisions(connection: sa.Connection, first: int, last: int, action: ChangeAction) -> None:
    """Note the present revisions of the memories with these rows, each from its update_time on."""
    noted = {"first": first, "last": last, "action": action.value}
    execute_compiled(connection, _note_revisions(), noted)


@dataclass(frozen=True, slots=True)
class Noted:
    """What happened to the memories with rows *first* to *last*, all of which are there.

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


def append_outbox(connection: sa.Connection, noted: Noted) -> None:
    """Put a change of each memory into the outbox, by ascending row."""
    values = {
        "first": noted.first,
        "last": noted.last,
        "action": noted.action.value,
        "time": noted.time,
        "offset": noted.last_position - noted.last,
        "private": "" if noted.was_public else Layer.SESSION.value,
    }
    execute_compiled(connection, _note_changes(), values)


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


@cache
def _note_revisions() -> sa.Insert:
    values: dict[str, Any] = {
        "row": memories.c.row,
        "revision": memories.c.revision,
        "action": sa.bindparam("action", type_=sa.Text),
        "time": memories.c.update_time,
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
        "owner": memories.c.owner,
        "project_id": memories.c.project_id,
        "private_session": sa.case(
            (memories.c.layer == sa.bindparam("private", type_=sa.Text), memories.c.session_id), else_=EMPTY
        ),
    }
    return sa.insert(outbox).from_select(list(values), sa.select(*values.values()).where(_BETWEEN))
