"""Erasure of users: removal of all rows of an owner in parts, and the search for residue."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from memsvc.domain.api_keys import Usage
from memsvc.domain.clock import from_micros, to_micros
from memsvc.domain.errors import ErasureRunningError
from memsvc.domain.index_entries import MAX_ORDINAL, ChangeAction, View, entry_id
from memsvc.domain.scope import OWNER_SEPARATOR
from memsvc.domain.user_data import Erasure, deobfuscate, obfuscate, owner_digest
from memsvc_backends.sql.database import Database
from memsvc_backends.sql.dialect import (
    MAX_INTEGER,
    cached_statement,
    database_clock,
    execute,
    holds_text,
    in_json_list,
    json_text,
    json_value,
    list_parameter,
    without_index,
)
from memsvc_backends.sql.row_writer import delete_tokens, insert_many
from memsvc_backends.sql.tables import (
    FILE_BYTES,
    erasures,
    files,
    memories,
    memory_chunks,
    metadata,
    outbox,
    passage_tokens,
    revisions,
)
from memsvc_backends.sql.write_session import WriteSession, memory_amounts

_OWNED = tuple(
    table for table in metadata.sorted_tables if "owner" in table.c and table not in (memories, outbox, erasures)
)
"""The tables whose rows name their owner: those of later versions too."""
_BESIDE = tuple(table for table in metadata.sorted_tables if "row" in table.c and "owner" not in table.c)
"""The tables whose rows belong to a memory and name it by its row alone."""
KNOWN: AbstractSet[str] = frozenset(
    table.name for table in (*_OWNED, *_BESIDE, memories, memory_chunks, passage_tokens, outbox)
)
"""The tables in which an erasure looks; a test holds it against all tables."""


class SqlErasureReads:
    """`memsvc.ports.operations.ErasureReads`."""

    def __init__(self, database: Database, forget: Callable[[], None]) -> None:
        """Read *database*; *forget* drops its caches."""
        self._database = database
        self._forget = forget

    def find(self, owner: str) -> Erasure | None:
        """Return the latest erasure of an owner."""
        statement = sa.select(erasures).where(erasures.c.owner_digest == owner_digest(owner))
        with self._database.read_connection() as connection:
            row = execute(connection, statement).one_or_none()
        return None if row is None else _erasure(row)

    def unfinished_erasures(self) -> list[Erasure]:
        """Return the erasures under way."""
        statement = sa.select(erasures).where(erasures.c.end_time.is_(None)).order_by(erasures.c.owner_digest)
        with self._database.read_connection() as connection:
            return [_erasure(row) for row in execute(connection, statement)]

    def traces(self, owner: str) -> dict[str, int]:
        """Count by table."""
        rows = sa.select(memories.c.row).where(memories.c.owner == owner)
        found: dict[str, int] = {}
        with self._database.snapshot() as connection:
            for table in (memories, *_OWNED, outbox):
                found[table.name] = _count(connection, table, table.c.owner == owner)
            for table in _BESIDE:
                found[table.name] = _count(connection, table, table.c.row.in_(rows))
        return found

    def projects(self, owner: str) -> list[str]:
        """Return the projects."""
        tables = [table for table in (memories, *_OWNED) if "project_id" in table.c]
        parts = [sa.select(table.c.project_id.label("project")).where(table.c.owner == owner) for table in tables]
        with self._database.read_connection() as connection:
            return sorted(execute(connection, sa.union(*parts)).scalars())

    def is_elsewhere(self, text: str) -> bool:
        """Look into every content."""
        quoted = json_text(text)[1:-1]
        places = ((memories.c.content, text), (revisions.c.snapshot, quoted))
        with self._database.read_connection() as connection:
            return any(
                execute(connection, sa.select(sa.literal(1)).where(holds_text(column, part)).limit(1)).first()
                for column, part in places
            )

    def is_ambiguous(self, owner: str) -> bool:
        """Look into every table that names owners."""
        beginnings = [owner[:length] for length in range(owner.find(OWNER_SEPARATOR) + 1, len(owner))]
        with self._database.read_connection() as connection:
            for table in (memories, *_OWNED, outbox):
                name = table.c.owner
                others = sa.or_(sa.and_(name != owner, holds_text(name, owner)), name.in_(beginnings))
                if execute(connection, sa.select(sa.literal(1)).where(others).limit(1)).first():
                    return True
        return False

    def files(self) -> Sequence[Path]:
        """Return those of the driver."""
        return self._database.driver.files()

    def settle(self) -> bool:
        """Empty the log."""
        with self._database.maintenance_connection() as connection:
            return self._database.driver.settle(connection)

    def is_quick_to_rewrite(self) -> bool:
        """Compare the size with the limit of the driver."""
        driver = self._database.driver
        with self._database.read_connection() as connection:
            return driver.storage_bytes(connection) <= driver.rewrite_bytes

    def rewrite(self) -> None:
        """Rewrite the file, or the tables."""
        with self._database.maintenance_connection() as connection:
            self._database.driver.rewrite(connection)
        self._forget()


class SqlErasureWrites(WriteSession):
    """`memsvc.ports.operations.ErasureWrites`."""

    _began = 0

    def set_began(self, moment: int) -> None:
        """Say when the work was begun."""
        self._began = moment

    def refuse_erased(self, owners: Iterable[str]) -> None:
        """Return when the owners may be written.

        Raises:
            ErasureRunningError: One of them is being erased, or was while the work was under way.
        """
        for owner in self._require_allowed(owners):
            if owner not in self._ends:
                self._ends[owner] = self._end_of(owner)
            if (self._began or self._time) <= self._ends[owner]:
                raise ErasureRunningError

    def begin_erasure(self, erasure: Erasure) -> None:
        """Note an erasure."""
        self._note(erasure)

    def end_erasure(self, erasure: Erasure) -> None:
        """Note the end of an erasure."""
        self._note(erasure)

    def erase_memories(self, owner: str, rows: Sequence[int]) -> Mapping[str, int]:
        """Remove memories."""
        wanted = {"wanted": list_parameter(rows), "owner": owner}
        mine = list(execute(self._connection, _select_mine(), wanted).scalars())
        if not mine:
            return {}
        removed: dict[str, int] = {}
        self._changed.update(mine)
        self._ledger.add(owner, -self._amount_of_rows(mine))
        wanted = {"wanted": list_parameter(mine)}
        for table in (*_BESIDE, memories):
            removed[table.name] = execute(self._connection, _delete_rows(table), wanted).rowcount
        removed["memory_chunks"] = self._erase_chunks(mine)
        removed["passage_tokens"] = delete_tokens(self._connection, mine)
        _, last = self._allot(rows=0, positions=len(mine))
        insert_many(self._connection, outbox, _purges(mine, last - len(mine) + 1, self._time))
        self._position = last
        return removed

    def erase_rest(self, owner: str, *, limit: int) -> Mapping[str, int]:
        """Remove the rest of an owner."""
        removed: dict[str, int] = {}
        for table in _OWNED:
            rows = execute(self._connection, _delete_some(table), {"owner": owner, "most": limit})
            if table is files:
                self._ledger.add(owner, -Usage(file_bytes=sum(rows.scalars())))
            if count := len(rows) if table is files else rows.rowcount:
                removed[table.name] = count
        scrubbed = execute(self._connection, _scrub_some(), {"of": owner, "most": limit}).rowcount
        return removed | ({"outbox": scrubbed} if scrubbed else {})

    def _amount_of_rows(self, rows: Sequence[int]) -> Usage:
        [found] = execute(self._connection, _select_amounts(), {"wanted": list_parameter(rows)})
        return Usage(*map(int, found))

    def _erase_chunks(self, rows: Sequence[int]) -> int:
        removed = 0
        for row in rows:
            first = entry_id(row, View.CHUNK, 0)
            at = {"first": first, "last": first + MAX_ORDINAL}
            removed += execute(self._connection, _delete_chunks(), at).rowcount
        return removed

    def _end_of(self, owner: str) -> int:
        """Return when the latest erasure of an owner ended: a time to come while it runs, -1 when there was none.

        It is a time of the clock of this process, as the start of the work is; processes may have different clocks.
        """
        before = self._clocks.now()
        found = execute(self._direct, _select_end(), {"digest": owner_digest(owner)})
        if not found:
            return -1
        [(end, there)] = found
        if end is None:
            return MAX_INTEGER
        if there is not None:
            self._clocks.note(before, there)
        return self._clocks.latest(int(end))

    def _note(self, erasure: Erasure) -> None:
        place = erasures.c.owner_digest == erasure.owner_digest
        execute(self._connection, sa.delete(erasures).where(place))
        insert_many(self._connection, erasures, [_values(erasure)])
        if erasure.end_time is not None:
            values = {"end_time": sa.func.coalesce(database_clock(), erasures.c.end_time)}
            execute(self._connection, sa.update(erasures).where(place).values(values))
        self._ends.clear()


def forget_erasures(connection: sa.Connection, before: int) -> None:
    """Forget erasures that ended before that moment of the database's clock, in microseconds."""
    execute(connection, sa.delete(erasures).where(erasures.c.end_time < before))


def _count(connection: sa.Connection, table: sa.Table, condition: sa.ColumnElement[bool]) -> int:
    return int(execute(connection, sa.select(sa.func.count()).select_from(table).where(condition)).scalar_one())


def _purges(rows: Sequence[int], first: int, time: int) -> list[dict[str, Any]]:
    fixed = {"revision": 0, "time": time, "applied": 0, "action": ChangeAction.PURGED.value}
    no_owner = {"memory_id": "", "owner": "", "project_id": "", "private_session": ""}
    return [{"position": position, "row": row, **fixed, **no_owner} for position, row in enumerate(rows, start=first)]


def _values(erasure: Erasure) -> dict[str, Any]:
    return {
        "owner_digest": erasure.owner_digest,
        "owner": obfuscate(erasure.owner),
        "request_id": erasure.request_id,
        "begin_time": to_micros(erasure.begin_time),
        "end_time": None if erasure.end_time is None else to_micros(erasure.end_time),
        "projects": obfuscate(json_text(erasure.projects)),
        "receipt": erasure.receipt,
    }


def _erasure(row: Sequence[Any]) -> Erasure:
    digest, owner, request_id, begin_time, end_time, projects, receipt = row
    ended = None if end_time is None else from_micros(end_time)
    names = tuple(json_value(_deobfuscate(projects)))
    return Erasure(digest, _deobfuscate(owner), request_id, from_micros(begin_time), ended, names, receipt)


def _deobfuscate(text: str) -> str:
    """Return the original text; earlier versions stored it unchanged: a name, or a list of names."""
    return text if OWNER_SEPARATOR in text or text.startswith("[") else deobfuscate(text)


@cached_statement
def _select_end() -> sa.Select[Any]:
    columns = (erasures.c.end_time, database_clock())
    return sa.select(*columns).where(erasures.c.owner_digest == sa.bindparam("digest", type_=sa.Text))


@cached_statement
def _select_mine() -> sa.Select[Any]:
    wanted = in_json_list(memories.c.row, "wanted")
    return sa.select(memories.c.row).where(wanted, without_index(memories.c.owner) == sa.bindparam("owner"))


@cached_statement
def _select_amounts() -> sa.Select[int, int]:
    return sa.select(*memory_amounts()).where(in_json_list(memories.c.row, "wanted"))


@cached_statement
def _delete_rows(table: sa.Table) -> sa.Delete:
    return sa.delete(table).where(in_json_list(table.c.row, "wanted"))


@cached_statement
def _delete_chunks() -> sa.Delete:
    entry = memory_chunks.c.entry
    return sa.delete(memory_chunks).where(entry.between(sa.bindparam("first"), sa.bindparam("last")))


@cached_statement
def _delete_some(table: sa.Table) -> sa.Executable:
    key = list(table.primary_key)
    some = sa.select(*key).where(table.c.owner == sa.bindparam("owner")).limit(sa.bindparam("most", type_=sa.Integer))
    deletion = sa.delete(table).where((sa.tuple_(*key) if len(key) > 1 else key[0]).in_(some))
    return deletion.returning(FILE_BYTES) if table is files else deletion


@cached_statement
def _scrub_some() -> sa.Update:
    mine = sa.select(outbox.c.position).where(outbox.c.owner == sa.bindparam("of"))
    some = mine.limit(sa.bindparam("most", type_=sa.Integer))
    return (
        sa.update(outbox)
        .where(outbox.c.position.in_(some))
        .values(owner="", project_id="", memory_id="", private_session="")
    )
