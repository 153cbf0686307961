"""Import of exported records, on the connection of a transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from memsvc.domain.clock import to_micros
from memsvc.domain.history import Tombstone
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import Memory
from memsvc.domain.sessions import Session
from memsvc.domain.user_data import StoredMemory, StoredRevision
from memsvc.ports.metadata import RestoredRecord
from memsvc_backends.sql.dialect import cached_statement, execute, in_json_list, list_parameter, without_index
from memsvc_backends.sql.memory_codec import snapshot_text, with_rows
from memsvc_backends.sql.outbox import ChangeRows, append_outbox
from memsvc_backends.sql.row_writer import acknowledgement_values, insert_many, insert_records
from memsvc_backends.sql.sessions import message_values
from memsvc_backends.sql.tables import memories, messages, reminders_given, revisions, tombstones
from memsvc_backends.sql.user_export import read_stored
from memsvc_backends.sql.write_session import WriteSession, with_memory


class SqlTransferWrites(WriteSession):
    """`memsvc.ports.metadata.TransferWrites`."""

    refuse_erased: Callable[[Iterable[str]], None]

    def ids_of_others(self, owner: str, ids: Iterable[str]) -> set[str]:
        """Return the ids of others."""
        parameters = {"wanted": list_parameter(ids), "owner": owner}
        return set(execute(self._connection, _select_others(), parameters).scalars())

    def get_many(self, owner: str, ids: Iterable[str]) -> dict[str, StoredMemory]:
        """Return memories by id."""
        return read_stored(self._connection, owner, ids)

    def rows(self, owner: str, ids: Iterable[str]) -> dict[str, int]:
        """Return rows by id."""
        parameters = {"wanted": list_parameter(ids), "owner": owner}
        return dict(execute(self._connection, _select_rows(), parameters))

    def taken_ordinals(self, session: Session, ordinals: Iterable[int]) -> set[int]:
        """Return the places that are taken."""
        parameters = {"wanted": list_parameter(ordinals), "session": session.row}
        return set(execute(self._connection, _select_ordinals(), parameters).scalars())

    def restore(self, restored: Sequence[RestoredRecord]) -> list[Memory]:
        """Insert memories with their pasts."""
        if not restored:
            return []
        self.refuse_erased({one.record.memory.scope.owner for one in restored})
        last = self._allot(rows=len(restored), positions=len(restored))
        first = last.row - len(restored) + 1
        written = _assign_rows(restored, first)
        records = [with_memory(one.record, memory) for one, memory in zip(restored, written, strict=True)]
        with self._void_on_race():
            insert_records(self._connection, records)
            insert_many(self._connection, revisions, _revision_values(restored, written))
            insert_many(self._connection, messages, _message_values(restored, written))
            insert_many(self._connection, reminders_given, _acknowledgement_values(restored, written))
        self._note_written(records, last)
        append_outbox(self._connection, ChangeRows(first, last.row, ChangeAction.CREATED, self._time, last.position))
        return written

    def restore_earlier(self, memory: Memory, earlier: Sequence[StoredRevision]) -> int:
        """Add the revisions that are missing."""
        statement = sa.select(revisions.c.revision).where(revisions.c.row == memory.row)
        known = set(execute(self._connection, statement).scalars())
        missing = [one for one in earlier if one.memory.revision not in known and one.memory.revision < memory.revision]
        insert_many(self._connection, revisions, [_earlier_values(one, memory) for one in missing])
        return len(missing)

    def find_tombstones(self, owner: str, ids: Iterable[str]) -> set[str]:
        """Return the ids of which there are tombstones."""
        parameters = {"wanted": list_parameter(ids), "owner": owner}
        return set(execute(self._connection, _select_tombstones(), parameters).scalars())

    def restore_tombstones(self, owner: str, left: Sequence[Tombstone]) -> None:
        """Insert tombstones."""
        if not left:
            return
        self.refuse_erased([owner])
        last, _ = self._allot(rows=len(left), positions=0)
        values = [
            {
                "row": row,
                "owner": owner,
                "project_id": one.project_id,
                "memory_id": one.memory_id,
                "session_id": one.session_id,
                "create_time": to_micros(one.create_time),
                "time": to_micros(one.time),
            }
            for row, one in enumerate(left, start=last - len(left) + 1)
        ]
        insert_many(self._connection, tombstones, values)


def _assign_rows(restored: Sequence[RestoredRecord], first: int) -> list[Memory]:
    rows = {one.record.memory.id: row for row, one in enumerate(restored, start=first)}
    return [
        with_rows(one.record.memory, row, rows.get(one.stored.previous_id, one.record.memory.previous_row))
        for row, one in enumerate(restored, start=first)
    ]


def _revision_values(restored: Sequence[RestoredRecord], written: Sequence[Memory]) -> list[dict[str, Any]]:
    values: list[dict[str, Any]] = []
    for one, memory in zip(restored, written, strict=True):
        values += [_earlier_values(earlier, memory) for earlier in one.earlier]
        values.append(
            {
                "row": memory.row,
                "revision": memory.revision,
                "action": one.stored.action.value,
                "time": to_micros(memory.update_time),
                "snapshot": None,
            }
        )
    return values


def _earlier_values(earlier: StoredRevision, now: Memory) -> dict[str, Any]:
    memory = with_rows(earlier.memory, now.row, now.previous_row)
    return {
        "row": now.row,
        "revision": memory.revision,
        "action": earlier.action.value,
        "time": to_micros(memory.update_time),
        "snapshot": snapshot_text(memory),
    }


def _message_values(restored: Sequence[RestoredRecord], written: Sequence[Memory]) -> list[dict[str, Any]]:
    return [
        message_values(one.session.row, replace(one.stored.message, row=memory.row))
        for one, memory in zip(restored, written, strict=True)
        if one.session is not None and one.stored.message is not None
    ]


def _acknowledgement_values(restored: Sequence[RestoredRecord], written: Sequence[Memory]) -> list[dict[str, Any]]:
    both = zip(restored, written, strict=True)
    return [value for one, memory in both for value in acknowledgement_values(memory.row, one.stored.acknowledged)]


def _is_wanted(column: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    return in_json_list(column, "wanted")


@cached_statement
def _select_others() -> sa.Select[Any]:
    return sa.select(memories.c.id).where(_is_wanted(memories.c.id), memories.c.owner != sa.bindparam("owner"))


@cached_statement
def _select_rows() -> sa.Select[Any]:
    mine = without_index(memories.c.owner) == sa.bindparam("owner")
    return sa.select(memories.c.id, memories.c.row).where(_is_wanted(memories.c.id), mine)


@cached_statement
def _select_ordinals() -> sa.Select[Any]:
    mine = messages.c.session_row == sa.bindparam("session")
    return sa.select(messages.c.ordinal).where(_is_wanted(messages.c.ordinal), mine)


@cached_statement
def _select_tombstones() -> sa.Select[Any]:
    mine = without_index(tombstones.c.owner) == sa.bindparam("owner")
    return sa.select(tombstones.c.memory_id).where(_is_wanted(tombstones.c.memory_id), mine)
