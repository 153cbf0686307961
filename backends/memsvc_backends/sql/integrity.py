"""Integrity checks of the stored rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from memsvc.domain.conflicts import Conflict
from memsvc.domain.diagnostics import CheckPart
from memsvc.domain.index_entries import ORDINAL_BITS, VIEW_BITS, Chunk
from memsvc.domain.memory import Memory, Status
from memsvc.domain.scope import Reach
from memsvc.domain.sessions import Session
from memsvc.ports.operations import LostMessage, OrphanRow, RowCursor, StoredRow
from memsvc_backends.sql.conflicts import CONFLICT_COLUMNS, conflict_from_row
from memsvc_backends.sql.database import Database
from memsvc_backends.sql.dialect import (
    NUMBER,
    TEXT,
    cached_statement,
    execute,
    in_json_list,
    json_list_values,
    list_parameter,
    pair_of,
    pairs,
    pairs_parameter,
    without_index,
)
from memsvc_backends.sql.memory_codec import decode_terms, memory_ref_terms
from memsvc_backends.sql.row_writer import rewrite_parts
from memsvc_backends.sql.sessions import SESSION_COLUMNS, session_from_row
from memsvc_backends.sql.tables import (
    conflicts,
    memories,
    memory_chunks,
    memory_keywords,
    memory_metadata,
    memory_refs,
    memory_tags,
    memory_vectors,
    messages,
    passage_tokens,
    revisions,
    sessions,
    statements,
)
from memsvc_backends.sql.write_session import WriteSession

PART_TABLES: Mapping[CheckPart, sa.Table] = {
    CheckPart.CHUNKS: memory_chunks,
    CheckPart.TOKENS: passage_tokens,
    CheckPart.KEYWORDS: memory_keywords,
    CheckPart.TAGS: memory_tags,
    CheckPart.METADATA: memory_metadata,
    CheckPart.REFS: memory_refs,
    CheckPart.VECTORS: memory_vectors,
    CheckPart.STATEMENTS: statements,
    CheckPart.REVISIONS: revisions,
}
_ROW_BITS: sa.ColumnElement[int] = sa.literal_column(str(VIEW_BITS + ORDINAL_BITS))
_TERMS = (memory_keywords, memory_tags, memory_metadata, memory_refs)
IS_LOST: sa.ColumnElement[bool] = sa.or_(memories.c.row.is_(None), sessions.c.row.is_(None))
"""That a message, joined with its memory and its session, lacks one of them."""


class SqlIntegrityReads:
    """`memsvc.ports.operations.IntegrityReads`."""

    def __init__(self, database: Database) -> None:
        """Read from *database*."""
        self._database = database

    def places(self, *, after: RowCursor | None, limit: int) -> list[RowCursor]:
        """Return the next places, each found by one step into an index."""
        found: list[RowCursor] = []
        with self._database.read_connection() as connection:
            while len(found) < limit:
                nearest = [
                    RowCursor(*row)
                    for table in (memories, sessions)
                    for row in execute(connection, _next_place(table, is_first=after is None), _after(after))
                ]
                if not nearest:
                    break
                after = min(nearest, key=lambda place: (place.owner, place.project_id))
                found.append(after)
        return found

    def known_ids(self, owner: str, ids: Sequence[str]) -> set[str]:
        """Return the existing ones."""
        if not ids:
            return set()
        statement = sa.select(memories.c.id).where(in_json_list(memories.c.id, "wanted"))
        with self._database.read_connection() as connection:
            rows = execute(
                connection,
                statement.where(without_index(memories.c.owner) == owner),
                {"wanted": list_parameter(dict.fromkeys(ids))},
            )
            return set(rows.scalars())

    def stored_rows(self, memories_: Sequence[Memory]) -> dict[int, StoredRow]:
        """Compare the numbers of chunks and terms with those that there should be."""
        rows = [memory.row for memory in memories_]
        if not rows:
            return {}
        with self._database.snapshot() as connection:
            counted = {
                row[0]: row[1:] for row in execute(connection, _count_chunks(), {"wanted": list_parameter(rows)})
            }
            terms = dict.fromkeys(rows, 0)
            for table in _TERMS:
                wanted = [(one.scope.owner, term, one.row) for one in memories_ for term in _terms(table, one)]
                found = execute(connection, _count_terms(table), {"wanted": pairs_parameter(wanted)})
                for row, count in found:
                    terms[row] += count
        return {
            memory.row: StoredRow(
                has_chunks=_is_whole(*counted[memory.row]),
                has_terms=terms[memory.row] == sum(len(_terms(table, memory)) for table in _TERMS),
            )
            for memory in memories_
            if memory.row in counted
        }

    def remains(self, part: CheckPart, *, owner: str | None, after: int, limit: int) -> list[OrphanRow]:
        """Return rows without a memory."""
        table = PART_TABLES[part]
        has_owner = "owner" in table.c
        if owner is not None and not has_owner:
            return []
        row = row_of_part(part)
        of = table.c.owner if has_owner else sa.literal("")
        statement = sa.select(row.label("row"), sa.func.min(of)).where(row > after, ~is_known(part)).group_by(row)
        if owner is not None:
            statement = statement.where(table.c.owner == owner)
        with self._database.read_connection() as connection:
            return [OrphanRow(*found) for found in execute(connection, statement.order_by(row).limit(limit))]

    def lost_messages(self, *, reach: Reach | None, after: int, limit: int) -> list[LostMessage]:
        """Return messages that lack something."""
        owner = sa.func.coalesce(memories.c.owner, sessions.c.owner, "")
        project = sa.func.coalesce(memories.c.project_id, sessions.c.project_id, "")
        statement = (
            sa.select(messages.c.row, owner, project, sa.func.coalesce(memories.c.id, ""))
            .select_from(_messages_with_memories())
            .where(messages.c.row > after, IS_LOST)
            .order_by(messages.c.row)
            .limit(limit)
        )
        if reach is not None:
            statement = statement.where(owner == reach.owner, project.in_(reach.project_ids))
        with self._database.read_connection() as connection:
            return [LostMessage(*row) for row in execute(connection, statement)]

    def emptied_sessions(self, *, reach: Reach | None, after: int, limit: int) -> list[Session]:
        """Return sessions that have lost all messages."""
        has_some = sa.exists().where(messages.c.session_row == sessions.c.row)
        statement = sa.select(*SESSION_COLUMNS).where(sessions.c.row > after, sessions.c.last_ordinal > 0, ~has_some)
        if reach is not None:
            statement = statement.where(sessions.c.owner == reach.owner, sessions.c.project_id.in_(reach.project_ids))
        with self._database.read_connection() as connection:
            return [
                session_from_row(row) for row in execute(connection, statement.order_by(sessions.c.row).limit(limit))
            ]

    def dangling_conflicts(self, *, reach: Reach | None, after: str, limit: int) -> list[Conflict]:
        """Return conflicts that lack a memory."""
        statement = sa.select(*CONFLICT_COLUMNS).where(conflicts.c.id > after, IS_DANGLING)
        if reach is not None:
            statement = statement.where(conflicts.c.owner == reach.owner, conflicts.c.project_id.in_(reach.project_ids))
        with self._database.read_connection() as connection:
            rows = execute(connection, statement.order_by(conflicts.c.id).limit(limit))
            return [conflict_from_row(row) for row in rows]


def row_of_part(part: CheckPart) -> sa.ColumnElement[int]:
    """Return the row of the memory that a row of a part's table belongs to."""
    table = PART_TABLES[part]
    return table.c.entry.op(">>")(_ROW_BITS) if "entry" in table.c else table.c.row


def is_known(part: CheckPart) -> sa.ColumnElement[bool]:
    """Return the condition that the memory of a part exists, in the reach of its owner."""
    table = PART_TABLES[part]
    known = sa.exists().where(memories.c.row == row_of_part(part))
    return known.where(memories.c.owner == table.c.owner) if "owner" in table.c else known


def _is_whole(expected: int, present: int) -> bool:
    """Return whether all chunks are there; the only one of a memory is not stored."""
    return present == (expected if expected > 1 else 0)


def _side_is_missing(side: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    return ~sa.exists().where(memories.c.id == side, memories.c.owner == conflicts.c.owner)


IS_DANGLING: sa.ColumnElement[bool] = sa.or_(*map(_side_is_missing, (conflicts.c.older_id, conflicts.c.newer_id)))
"""That a conflict lacks a memory."""


def _messages_with_memories() -> sa.Join:
    with_memory = sa.outerjoin(messages, memories, memories.c.row == messages.c.row)
    return sa.outerjoin(with_memory, sessions, sessions.c.row == messages.c.session_row)


def lost_rows(rows: Sequence[int]) -> sa.Select[Any]:
    """Return a query for those of *rows* that are messages which lack something."""
    wanted = messages.c.row.in_(sa.select(json_list_values(rows, NUMBER).c.value))
    return sa.select(messages.c.row).select_from(_messages_with_memories()).where(wanted, IS_LOST)


def _terms(table: sa.Table, memory: Memory) -> Sequence[str]:
    if table is memory_tags:
        return list(dict.fromkeys(memory.tags))
    if table is memory_metadata:
        return list(dict.fromkeys(decode_terms(memory)))
    if table is memory_refs:
        return memory_ref_terms(memory)
    # As the indexes, the table of keywords does not hold deleted memories.
    return [] if memory.status is Status.DELETED else list({keyword.term: 0 for keyword in memory.keywords})


@cached_statement
def _next_place(table: sa.Table, *, is_first: bool) -> sa.Select[Any]:
    place = (table.c.owner, table.c.project_id)
    later = sa.tuple_(*place) > sa.tuple_(sa.bindparam("owner"), sa.bindparam("project"))
    statement = sa.select(*place).order_by(*place).limit(1)
    return statement if is_first else statement.where(later)


def _after(place: RowCursor | None) -> dict[str, str]:
    return {} if place is None else {"owner": place.owner, "project": place.project_id}


@cached_statement
def _count_chunks() -> sa.Select[Any]:
    first = memories.c.row.op("<<")(_ROW_BITS)
    last = first + ((1 << ORDINAL_BITS) - 1)
    number = sa.select(sa.func.count()).where(memory_chunks.c.entry.between(first, last)).scalar_subquery()
    return sa.select(memories.c.row, memories.c.chunk_count, number).where(in_json_list(memories.c.row, "wanted"))


@cached_statement
def _count_terms(table: sa.Table) -> sa.Select[Any]:
    wanted = pairs("wanted")
    owner, term, row = pair_of(wanted, TEXT, TEXT, NUMBER)
    joined = sa.join(wanted, table, sa.and_(table.c.owner == owner, table.c.term == term, table.c.row == row))
    return sa.select(table.c.row, sa.func.count()).select_from(joined).group_by(table.c.row)


# Mending what is wrong with what is stored.


class SqlIntegrityWrites(WriteSession):
    """`memsvc.ports.operations.IntegrityWrites`, on the connection of a transaction."""

    def reenter(self, memory: Memory, chunks: Sequence[Chunk]) -> None:
        """Write the dependent rows of a memory again."""
        rewrite_parts(self._connection, memory, chunks)

    def discard_remains(self, part: CheckPart, rows: Sequence[int]) -> int:
        """Remove what is left of memories that are gone."""
        row = row_of_part(part)
        gone = sa.and_(in_json_list(row, "wanted"), ~is_known(part))
        wanted = {"wanted": list_parameter(rows)}
        found = len(execute(self._connection, sa.select(row).distinct().where(gone), wanted).all())
        execute(self._connection, sa.delete(PART_TABLES[part]).where(gone), wanted)
        return found

    def discard_messages(self, rows: Sequence[int]) -> int:
        """Remove messages that lack something."""
        lost = list(execute(self._connection, lost_rows(rows)).scalars())
        if lost:
            wanted = in_json_list(messages.c.row, "wanted")
            execute(self._connection, sa.delete(messages).where(wanted), {"wanted": list_parameter(lost)})
        return len(lost)

    def discard_conflicts(self, conflicts_: Sequence[Conflict]) -> int:
        """Remove conflicts that lack a memory."""
        names = ("owner", "project_id", "id")
        same = [conflicts.c[name] == sa.bindparam(f"at_{name}") for name in names]
        return sum(
            execute(
                self._connection,
                sa.delete(conflicts).where(*same, IS_DANGLING),
                {f"at_{name}": getattr(one, name) for name in names},
            ).rowcount
            for one in conflicts_
        )
