"""Reading memories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from functools import cache
from typing import Any

import numpy as np
import sqlalchemy as sa

from memsvc.domain.clock import from_micros, to_micros
from memsvc.domain.context import Essential
from memsvc.domain.diagnostics import MemoryCounts
from memsvc.domain.filters import Filter
from memsvc.domain.index_entries import Chunk, Hit, View, entry_id, ordinal_of, row_of
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.search import Order, PageCursor
from memsvc.ports.candidates import Candidates, Integers, Rows
from memsvc.ports.metadata import Record
from memsvc_backends.sql.chunks import chunk_from_row
from memsvc_backends.sql.core_context import read_essentials, read_next_essential, read_recent_rows, read_session_rows
from memsvc_backends.sql.counts import count_memories
from memsvc_backends.sql.database import Database
from memsvc_backends.sql.dialect import (
    MAX_INTEGER,
    execute_compiled,
    is_listed,
    list_parameter,
    rows_as_json,
    rows_of_text,
    unindexed,
)
from memsvc_backends.sql.elements import NUMBER
from memsvc_backends.sql.filters import condition, within
from memsvc_backends.sql.gathered import DOUBTFUL_COLUMNS, IS_DOUBTFUL, found_in, gathered_memories, whole_in
from memsvc_backends.sql.history import SqlHistoryReads
from memsvc_backends.sql.keyword_table import Matching, search_keywords
from memsvc_backends.sql.memory_codec import MEMORY_COLUMNS, memory_from_row, memory_from_snapshot
from memsvc_backends.sql.paging import read_page
from memsvc_backends.sql.ranking_columns import SELECTED, CandidateColumns, candidates_of_rows, row_of_memory
from memsvc_backends.sql.row_cache import Recent
from memsvc_backends.sql.tables import IS_NAMED, memories, memory_chunks, revisions

_UNINDEXED = (unindexed(memories.c.owner), unindexed(memories.c.project_id))
"""For memories that are found by row or id: these say whether they may be seen, and not where they are."""
KEPT_CANDIDATES = 1 << 19
"""Of how many memories, the latest ones, everything is kept that ranking needs: 100 MB when there are so many."""
KEPT_MEMORIES = 4_096
"""Half of how many are kept at most: the memories of the users that are searching now."""


class SqlMemoryReads(SqlHistoryReads):
    """`memsvc.ports.metadata.MemoryReads`."""

    def __init__(self, database: Database) -> None:
        """Read from *database*."""
        super().__init__(database)
        # What others may change meanwhile is not kept.
        share = 0 if database.driver.is_shared else 1
        self._ranked = CandidateColumns(KEPT_CANDIDATES * share)
        self._shown: Recent[Memory] = Recent(KEPT_MEMORIES * share)

    @property
    def ranked(self) -> CandidateColumns:
        """Return what is kept for ranking."""
        return self._ranked

    def keep(self, inserted: Sequence[Record], version: int) -> None:
        """Keep what ranking needs of new memories; *version* is the number before they were committed."""
        if inserted and self._ranked.capacity:
            self._ranked.keep([row_of_memory(record.memory) for record in inserted], version)

    def recount(self, counts: Mapping[int, int], version: int) -> None:
        """Take over access counts that were committed, by row; *version* is the number before that."""
        if counts:
            self._ranked.recount(counts, version)
            self._shown.forget(counts.keys())

    def forget(self, rows: AbstractSet[int]) -> None:
        """Read these rows from the database again: a transaction changed them."""
        if rows:
            self._ranked.forget(rows)
            self._shown.forget(rows)

    def get(self, ids: Sequence[str], *, reach: Reach) -> dict[str, Memory]:
        """Return those that are there."""
        return {memory.id: memory for memory in self._memories("id", ids, reach)}

    def get_by_key(self, key: str, *, reach: Reach) -> Memory | None:
        """Return the bearer of the key, in the first project of the reach that has one."""
        if not key:
            return None
        statement = _select_by_key(len(reach.project_ids))
        with self._database.reading() as connection:
            rows = connection.execute(statement, {"key": key} | _reach_parameters(reach)).all()
        found = {memory.scope.project_id: memory for memory in map(memory_from_row, rows)}
        return next((found[project] for project in reach.project_ids if project in found), None)

    def by_rows(self, rows: Sequence[int], *, reach: Reach) -> dict[int, Memory]:
        """Return those that are there, by row."""
        found = self._shown.found(rows)
        if len(found) < len(rows):
            version = self._shown.version
            read = {memory.row: memory for memory in self._memories("row", _without(rows, found), reach)}
            self._shown.keep(read, version)
            found |= read
        return {row: memory for row, memory in found.items() if _is_within(memory.scope, reach)}

    def page(
        self, *, reach: Reach, where: Filter | None, order: Order, after: PageCursor | None, limit: int
    ) -> list[Memory]:
        """Return one page of a list."""
        if limit <= 0:
            return []
        with self._database.snapshot() as connection:
            return read_page(connection, reach, where, order, after, limit)

    def candidates(self, rows: Rows, *, reach: Reach) -> Candidates:
        """Return what ranking needs."""
        found, missing = self._ranked.found(_each_once(np.asarray(rows, dtype=np.int64)), reach)
        if missing:
            version = self._ranked.version
            read = self._read_candidates(missing, reach)
            self._ranked.keep(read, version)
            found = found.joined(candidates_of_rows(read))
        return found

    def keyword_hits(self, terms: Sequence[str], *, reach: Reach, where: Filter | None, limit: int) -> list[Hit]:
        """Search the keyword table."""
        if not terms or limit <= 0:
            return []
        with self._database.snapshot() as connection:
            return search_keywords(connection, terms, Matching(reach, where, self._ranked), limit)

    def rows_where(self, where: Filter, *, reach: Reach) -> list[int]:
        """Return the rows that match, ascending."""
        statement = sa.select(memories.c.row).where(within(reach), condition(where)).order_by(memories.c.row)
        with self._database.reading() as connection:
            return list(connection.execute(statement).scalars())

    def chunks(self, wanted: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Chunk]:
        """Return stored chunks."""
        entries = list_parameter(entry_id(row, View.CHUNK, ordinal) for row, ordinal in wanted)
        with self._database.reading() as connection:
            found = connection.execute(_select_chunks(), {"entry": entries}).all()
        return {(row_of(row[0]), ordinal_of(row[0])): chunk_from_row(row) for row in found}

    def essentials(self, essential: Essential, *, reach: Reach, now: datetime, limit: int) -> list[Memory]:
        """Return what is loaded at a start."""
        if limit <= 0:
            return []
        with self._database.snapshot() as connection:
            return read_essentials(connection, essential, reach, to_micros(now), limit)

    def next_essential(self, *, reach: Reach, now: datetime) -> datetime | None:
        """Return when the next essential memory begins to hold."""
        with self._database.snapshot() as connection:
            moment = read_next_essential(connection, reach, to_micros(now))
        return None if moment is None else from_micros(moment)

    def session_rows(self, session_id: str, *, reach: Reach, now: datetime, limit: int) -> list[int]:
        """Return the rows of a session."""
        if limit <= 0:
            return []
        with self._database.reading() as connection:
            return read_session_rows(connection, session_id, reach, to_micros(now), limit)

    def recent_rows(self, *, since: datetime, reach: Reach, now: datetime, limit: int) -> list[int]:
        """Return the rows of what was changed lately."""
        if limit <= 0:
            return []
        with self._database.reading() as connection:
            return read_recent_rows(connection, to_micros(since), reach, to_micros(now), limit)

    def revision(self, memory_id: str, revision: int, *, reach: Reach) -> Memory | None:
        """Return one revision of a memory."""
        if not 0 < revision <= MAX_INTEGER:
            return None
        with self._database.snapshot() as connection:
            parameters = {"id": list_parameter([memory_id])} | _reach_parameters(reach)
            row = connection.execute(_select_by("id", len(reach.project_ids)), parameters).one_or_none()
            if row is None:
                return None
            current = memory_from_row(row)
            if current.revision == revision:
                return current
            text = connection.execute(_select_snapshot(), {"row": current.row, "revision": revision}).scalar()
        return None if text is None else memory_from_snapshot(text)

    def counts(self, *, reach: Reach) -> MemoryCounts:
        """Count the memories of the reach."""
        with self._database.reading() as connection:
            return count_memories(connection, reach)

    def _read_candidates(self, rows: Sequence[int], reach: Reach) -> list[list[Any]]:
        parameters = {"row": list_parameter(rows)} | _reach_parameters(reach)
        with self._database.reading() as connection:
            [(text,)] = execute_compiled(connection, _select_candidates(len(reach.project_ids)), parameters)
        return rows_of_text(text)

    def _memories(self, column: str, values: Sequence[int | str], reach: Reach) -> list[Memory]:
        if not values:
            return []
        projects = len(reach.project_ids)
        parameters = {column: list_parameter(dict.fromkeys(values))} | _reach_parameters(reach)
        wanted = _select_gathered(column, projects)
        with self._database.reading() as connection:
            [(text,)] = execute_compiled(connection, wanted, parameters)
        if (found := whole_in(text)) is None:
            with self._database.snapshot() as connection:
                [(text,)] = execute_compiled(connection, wanted, parameters)
                found = found_in(
                    text, lambda: execute_compiled(connection, _select_doubtful(column, projects), parameters)
                )
        return [memory for memory, _ in found.values()]


def _each_once(rows: Integers) -> Integers:
    """Return *rows* ascending, each once: which those of a search are already."""
    return rows if (rows[1:] > rows[:-1]).all() else np.unique(rows)


def _without(rows: Sequence[int], found: Mapping[int, object]) -> list[int]:
    return [row for row in dict.fromkeys(rows) if row not in found]


def _is_within(scope: Scope, reach: Reach) -> bool:
    return scope.owner == reach.owner and scope.project_id in reach.project_ids


def _reach_parameters(reach: Reach) -> dict[str, str]:
    projects = {f"project_{number}": project for number, project in enumerate(reach.project_ids)}
    return {"owner": reach.owner} | projects


def _in_reach(
    projects: int,
    owner: sa.ColumnElement[str] = memories.c.owner,
    project: sa.ColumnElement[str] = memories.c.project_id,
) -> sa.ColumnElement[bool]:
    # A parameter for each project: one that SQLAlchemy expands on every call takes as long as the query.
    names = [sa.bindparam(f"project_{number}", type_=sa.Text) for number in range(projects)]
    return sa.and_(owner == sa.bindparam("owner"), project.in_(names) if names else sa.false())


@cache
def _select_by(column: str, projects: int) -> sa.Select[Any]:
    return _by(column, projects, *MEMORY_COLUMNS)


@cache
def _select_gathered(column: str, projects: int) -> sa.Select[Any]:
    return _by(column, projects, gathered_memories())


@cache
def _select_doubtful(column: str, projects: int) -> sa.Select[Any]:
    return _by(column, projects, *DOUBTFUL_COLUMNS).where(IS_DOUBTFUL)


def _by(column: str, projects: int, *wanted: sa.ColumnElement[Any]) -> sa.Select[Any]:
    return sa.select(*wanted).where(is_listed(memories.c[column], column), _in_reach(projects, *_UNINDEXED))


@cache
def _select_candidates(projects: int) -> sa.Select[Any]:
    gathered = sa.select(rows_as_json(*SELECTED))
    return gathered.where(is_listed(memories.c.row, "row"), _in_reach(projects, *_UNINDEXED))


@cache
def _select_by_key(projects: int) -> sa.Select[Any]:
    return sa.select(*MEMORY_COLUMNS).where(_in_reach(projects), memories.c.key == sa.bindparam("key"), IS_NAMED)


@cache
def _select_chunks() -> sa.Select[Any]:
    return sa.select(memory_chunks).where(is_listed(memory_chunks.c.entry, "entry"))


@cache
def _select_snapshot() -> sa.Select[Any]:
    return sa.select(revisions.c.snapshot).where(
        revisions.c.row == sa.bindparam("row"), revisions.c.revision == sa.bindparam("revision", type_=NUMBER)
    )
