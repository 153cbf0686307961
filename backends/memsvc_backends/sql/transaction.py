"""One transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from memsvc.domain.clock import to_micros
from memsvc.domain.history import Checkpoint
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import Layer, Memory, Status, with_status
from memsvc.domain.scope import Reach
from memsvc.ports.features import FileWrites, SessionWrites
from memsvc.ports.metadata import ContentName, Record, RequestRecord
from memsvc_backends.sql import write_session
from memsvc_backends.sql.api_keys import SqlKeyWrites, SqlQuotaWrites
from memsvc_backends.sql.conflicts import SqlConflictWrites
from memsvc_backends.sql.dialect import cached_statement, execute, in_json_list, list_parameter
from memsvc_backends.sql.erasure import SqlErasureWrites, forget_erasures
from memsvc_backends.sql.files import SqlFileWrites
from memsvc_backends.sql.history import delete_checkpoint, insert_checkpoint, insert_tombstone, read_checkpoint
from memsvc_backends.sql.integrity import SqlIntegrityWrites
from memsvc_backends.sql.memory_codec import MEMORY_COLUMNS, memory_from_row, snapshot_text
from memsvc_backends.sql.outbox import ChangeRows, append_outbox, note_revisions, note_scattered
from memsvc_backends.sql.reminders import SqlReminderWrites
from memsvc_backends.sql.row_writer import delete_rows, update_record, update_statuses
from memsvc_backends.sql.sessions import SqlSessionWrites
from memsvc_backends.sql.summaries import SqlSummaryWrites
from memsvc_backends.sql.tables import IS_LIVE, IS_NAMED, IS_SUPERSEDED, IS_UNIQUE, memories, revisions
from memsvc_backends.sql.use_reports import SqlUseWrites, delete_use_of
from memsvc_backends.sql.user_import import SqlTransferWrites
from memsvc_backends.sql.write_session import amount_of


class SqlTransaction(
    SqlConflictWrites,
    SqlReminderWrites,
    SqlIntegrityWrites,
    SqlTransferWrites,
    SqlErasureWrites,
    SqlKeyWrites,
    SqlQuotaWrites,
    SqlUseWrites,
    SqlSummaryWrites,
):
    """`memsvc.ports.metadata.Transaction`."""

    @property
    def sessions(self) -> SessionWrites:
        """Read and write sessions here."""
        # Made when asked for: kept here it would refer to what keeps it, and all that was written would stay in memory
        # until the next garbage collection, while every search waits.
        return SqlSessionWrites(self._connection_for_statement, self._allot_row, self._void_on_race, self.refuse_erased)

    @property
    def files(self) -> FileWrites:
        """Read and write what is known of files here."""
        return SqlFileWrites(
            self._connection_for_statement,
            self._allot_row,
            self._void_on_race,
            self.refuse_erased,
            self._ledger,
            self._time,
        )

    def find_keys(self, owner: str, names: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Memory]:
        """Return the bearers of keys."""
        wanted = set(names)
        waiting = self._waiting.keys(owner, wanted)
        keys: dict[str, list[str]] = defaultdict(list)
        for project, key in wanted - waiting.keys():
            keys[project].append(key)
        found = {
            (memory.scope.project_id, memory.key): memory
            for project, listed in keys.items()
            for memory in self._find(_select_keys(), listed, {"owner": owner, "project_id": project})
        }
        self._waiting.note_free_keys(owner, wanted - waiting.keys() - found.keys())
        return waiting | found

    def find_contents(self, owner: str, names: Iterable[ContentName]) -> dict[ContentName, Memory]:
        """Return the unique holders of contents."""
        wanted = set(names)
        waiting = self._waiting.contents(owner, wanted)
        hashes: dict[tuple[str, str, str], list[str]] = defaultdict(list)
        for name in wanted - waiting.keys():
            hashes[name.project_id, name.kind, name.speaker].append(name.content_hash)
        found: dict[ContentName, Memory] = {}
        for (project, kind, speaker), listed in hashes.items():
            place = {"owner": owner, "project_id": project, "kind": kind, "speaker": speaker}
            for memory in self._find(_select_contents(), listed, place):
                found[ContentName(project, kind, memory.content_hash, speaker)] = memory
        self._waiting.note_free_contents(owner, wanted - waiting.keys() - found.keys())
        return waiting | found

    def get(self, memory_id: str, *, reach: Reach) -> Memory | None:
        """Return the existing ones."""
        place = {"id": memory_id, "owner": reach.owner, "wanted": list_parameter(reach.project_ids)}
        rows = execute(self._connection, _select_one(), place)
        return memory_from_row(rows[0]) if rows else None

    def superseded_by(self, owner: str, memory_id: str) -> list[Memory]:
        """Return those that this one superseded."""
        if not memory_id:
            return []
        rows = execute(self._connection, _select_superseded(), {"owner": owner, "superseded_by_id": memory_id})
        return [memory_from_row(row) for row in rows]

    def last_row(self, owner: str, project_id: str, session_id: str) -> int | None:
        """Return the newest row of a session."""
        if not session_id:
            return None
        place = {"owner": owner, "project_id": project_id, "session_id": session_id}
        if (waiting := self._waiting.latest((owner, project_id, session_id))) is not None:
            return waiting
        rows = execute(self._direct, _select_last_row(), place)
        return rows[0][0] if rows else None

    def insert(self, records: Sequence[Record]) -> list[Memory]:
        """Insert new memories."""
        if not records:
            return []
        self.refuse_erased({record.memory.scope.owner for record in records})
        return self._insert(records)

    def update(self, before: Memory, after: Record, action: ChangeAction) -> None:
        """Write the next revision of a memory."""
        self.refuse_erased([before.scope.owner])
        _, position = self._allot(rows=0, positions=1)
        before, memory = self._date_next(before, after.memory)
        after = replace(after, memory=replace(memory, row=before.row))
        self._changed.add(before.row)
        self._ledger.add(before.scope.owner, amount_of(after.memory) + -amount_of(before))
        self._ledger.require()
        with self._void_on_race():
            update_record(self._connection, before, after)
        earlier = (revisions.c.row == before.row, revisions.c.revision == before.revision)
        execute(self._connection, sa.update(revisions).where(*earlier).values(snapshot=snapshot_text(before)))
        self._note_owners([before.scope.owner])
        was_public = before.layer is not Layer.SESSION
        self._log(ChangeRows(before.row, before.row, action, self._time, position, was_public=was_public))

    def set_status(self, memories: Sequence[Memory], status: Status) -> list[Memory]:
        """Write the next revision of many memories."""
        if not memories:
            return []
        _, last = self._allot(rows=0, positions=len(memories))
        time = max(self._revision_time(memory.scope, self._now, memory.update_time) for memory in memories)
        after = [with_status(memory, status, time) for memory in memories]
        self._changed.update(memory.row for memory in memories)
        self._note_owners(memory.scope.owner for memory in memories)
        with self._void_on_race():
            update_statuses(self._connection, memories, after)
        note_scattered(self._connection, after, ChangeAction.UPDATED, self._time, last)
        self._position = last
        return after

    def purge(self, memory: Memory) -> None:
        """Remove a memory without a trace but in the outbox."""
        rows = execute(self._connection, _select_row(), {"row": memory.row})
        if not rows:
            return
        stored = memory_from_row(rows[0])
        self._changed.add(stored.row)
        _, position = self._allot(rows=0, positions=1)
        self._note_owners([stored.scope.owner])
        append_outbox(self._connection, ChangeRows(stored.row, stored.row, ChangeAction.PURGED, self._time, position))
        self._position = position
        self._ledger.add(stored.scope.owner, -amount_of(stored))
        delete_rows(self._connection, stored)
        delete_use_of(self._connection, stored)
        time = self._revision_time(stored.scope, self._now, stored.update_time)
        insert_tombstone(self._connection, stored, to_micros(time))

    def add_accesses(self, accesses: Mapping[str, tuple[int, datetime]]) -> None:
        """Raise access counts."""
        if not accesses:
            return
        statement = (
            sa.update(memories)
            .where(memories.c.id == sa.bindparam("memory_id"))
            .values(access_count=memories.c.access_count + sa.bindparam("number"), access_time=sa.bindparam("moment"))
        )
        values = [
            {"memory_id": memory_id, "number": number, "moment": to_micros(moment)}
            for memory_id, (number, moment) in accesses.items()
        ]
        execute(self._connection, statement, values)
        counts = execute(self._connection, _select_counts(), {"wanted": list_parameter(accesses)})
        self._counted.update((row, count) for row, count in counts)

    def recall_request(self, owner: str, method: str, request_id: str) -> RequestRecord | None:
        """Return what is remembered of a request."""
        request = (owner, method, request_id)
        answer = self._waiting.answer_of(request)
        if answer is None:
            answer = write_session.recall_answer(self._direct, request)
            self._waiting.answer(request, answer)
        return answer

    def remember_request(self, owner: str, method: str, request_id: str, record: RequestRecord) -> None:
        """Remember a request."""
        self.refuse_erased([owner])
        self._answer((owner, method, request_id), record)

    def forget_requests(self, *, before: datetime) -> int:
        """Forget old requests, and what is known of old erasures."""
        forget_erasures(self._connection, self._clocks.there(before))
        return write_session.forget_answers(self._connection, before)

    def find_checkpoint(self, owner: str, project_id: str, name: str) -> Checkpoint | None:
        """Return a checkpoint by its name."""
        return read_checkpoint(self._connection, owner, project_id, name)

    def add_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Keep a new checkpoint."""
        self.refuse_erased([checkpoint.owner])
        with self._void_on_race():
            insert_checkpoint(self._connection, checkpoint)
        self._checkpoint_times.clear()
        known = self._clocks.latest_checkpoint
        self._clocks.latest_checkpoint = None if known is None else max(known, checkpoint.known_time)

    def delete_checkpoint(self, owner: str, project_id: str, name: str) -> None:
        """Delete a checkpoint by its name."""
        delete_checkpoint(self._connection, owner, project_id, name)
        self._checkpoint_times.clear()

    def _log(self, noted: ChangeRows) -> None:
        note_revisions(self._connection, noted.first, noted.last, noted.action)
        append_outbox(self._connection, noted)
        self._position = noted.last_position

    def _find(self, statement: sa.Select[Any], values: Sequence[str], place: Mapping[str, str]) -> list[Memory]:
        found = execute(self._direct, statement, {"wanted": list_parameter(values), **place})
        return [memory_from_row(row) for row in found]


@cached_statement
def _select_keys() -> sa.Select[Any]:
    return sa.select(*MEMORY_COLUMNS).where(_at("owner"), _at("project_id"), _is_wanted("key"), IS_NAMED)


@cached_statement
def _select_contents() -> sa.Select[Any]:
    place = (_at("owner"), _at("project_id"), _at("kind"), _at("speaker"))
    return sa.select(*MEMORY_COLUMNS).where(*place, _is_wanted("content_hash"), IS_UNIQUE)


@cached_statement
def _select_one() -> sa.Select[Any]:
    # Where writers run side by side the row is locked; SQLite has one writer, and leaves the words out.
    place = (_at("id"), _at("owner"), _is_wanted("project_id"))
    return sa.select(*MEMORY_COLUMNS).where(*place).with_for_update()


@cached_statement
def _select_superseded() -> sa.Select[Any]:
    place = (_at("superseded_by_id"), IS_SUPERSEDED, _at("owner"))
    return sa.select(*MEMORY_COLUMNS).where(*place).order_by(memories.c.row).with_for_update()


@cached_statement
def _select_row() -> sa.Select[Any]:
    return sa.select(*MEMORY_COLUMNS).where(_at("row")).with_for_update()


@cached_statement
def _select_counts() -> sa.Select[Any]:
    return sa.select(memories.c.row, memories.c.access_count).where(_is_wanted("id"))


@cached_statement
def _select_last_row() -> sa.Select[Any]:
    place = (_at("owner"), _at("project_id"), _at("session_id"))
    return sa.select(memories.c.row).where(*place, IS_LIVE).order_by(memories.c.row.desc()).limit(1)


def _at(name: str) -> sa.ColumnElement[bool]:
    return memories.c[name] == sa.bindparam(name)


def _is_wanted(name: str) -> sa.ColumnElement[bool]:
    return in_json_list(memories.c[name], "wanted")
