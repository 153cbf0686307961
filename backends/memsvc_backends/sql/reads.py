"""Reads of memories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

import numpy as np
import sqlalchemy as sa

from memsvc.domain.clock import from_micros, to_micros
from memsvc.domain.context import Essential
from memsvc.domain.diagnostics import MemoryCounts, PlacePart, PlaceUsage
from memsvc.domain.filters import And, AnyOf, Field, Filter, Match, Range
from memsvc.domain.index_entries import Chunk, Hit, View, entry_id, ordinal_of, row_of
from memsvc.domain.lru_cache import LruCache
from memsvc.domain.memory import Layer, Memory, Status
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.search import Order, PageCursor, WordMatch
from memsvc.domain.visibility import split_default_visible
from memsvc.ports.candidates import Candidates, Integers, Rows
from memsvc.ports.metadata import Record, SelectedMemory
from memsvc_backends.sql.core_context import read_essentials, read_next_essential, read_recent_rows, read_session_rows
from memsvc_backends.sql.database import Database
from memsvc_backends.sql.dialect import (
    MAX_INTEGER,
    NUMBER,
    cached_statement,
    execute,
    holds_text,
    in_json_list,
    integer_part,
    list_parameter,
    rows_as_json,
    rows_of_text,
    without_index,
)
from memsvc_backends.sql.filters import Condition, condition, end_of_prefix, within
from memsvc_backends.sql.history import SqlHistoryReads
from memsvc_backends.sql.memory_codec import (
    DOUBTFUL_COLUMNS,
    IS_DOUBTFUL,
    MEMORY_COLUMNS,
    chunk_from_row,
    found_in,
    memories_as_json,
    memory_from_row,
    memory_from_snapshot,
    whole_in,
)
from memsvc_backends.sql.ranking_columns import SELECTED, CandidateColumns, RowCache, candidates_of_rows, row_of_memory
from memsvc_backends.sql.tables import IS_FORMER_HOLDER, IS_NAMED, memories, memory_chunks, memory_keywords, revisions

_UNINDEXED = (without_index(memories.c.owner), without_index(memories.c.project_id))
"""For memories that are found by row or id: these say whether they may be seen, and not where they are."""
KEPT_CANDIDATES = 1 << 20
"""Of how many memories everything is kept that ranking needs: 200 MB when there are so many. Of more, those are kept
that were written, or asked for by a search, last."""
KEPT_MEMORIES = 4_096
"""Half of how many are kept at most: the memories of the users that are searching now."""
_BYTES_PER_TOKEN = 4
_SELECTION = (memories.c.row, memories.c.id, memories.c.revision, memories.c.status, memories.c.layer)
_PLACE = (memories.c.owner, memories.c.project_id, memories.c.agent_id, memories.c.session_id)
_GROUPS = (memories.c.layer, memories.c.kind, memories.c.tier, memories.c.status)
_SCALE = 1_000_000_000
"""Scores are compared as whole numbers: sums of fractions differ in the last bits with the order of adding."""
_PER_WEIGHT = 0.3
_PER_MATCH = 0.2


class SqlMemoryReads(SqlHistoryReads):
    """`memsvc.ports.metadata.MemoryReads`."""

    def __init__(self, database: Database) -> None:
        """Read from *database*."""
        super().__init__(database)
        # Rows that other processes may change are not cached.
        share = 0 if database.driver.is_shared else 1
        self._ranked = CandidateColumns(KEPT_CANDIDATES * share)
        self._shown: RowCache[Memory] = RowCache(KEPT_MEMORIES * share)
        self._rows = LruCache[str, int](KEPT_MEMORIES * share)

    @property
    def ranking_columns(self) -> CandidateColumns:
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
        """Return the existing ones."""
        rows = self._rows.get_many(ids)
        shown = self._shown.get_many(rows.values()).values()
        found = {memory.id: memory for memory in shown if memory.id in rows}
        if len(found) < len(ids):
            version = self._shown.version
            read = self._memories("id", [one for one in dict.fromkeys(ids) if one not in found], reach)
            self._shown.keep({memory.row: memory for memory in read}, version)
            self._rows.put_all({memory.id: memory.row for memory in read})
            found |= {memory.id: memory for memory in read}
        return {one: memory for one, memory in found.items() if _is_within(memory.scope, reach)}

    def get_by_key(self, key: str, *, reach: Reach) -> Memory | None:
        """Return the bearer of the key, in the first project of the reach that has one."""
        if not key:
            return None
        statement = _select_by_key(len(reach.project_ids))
        with self._database.read_connection() as connection:
            rows = execute(connection, statement, {"key": key} | _parameters_of_reach(reach)).all()
        found = {memory.scope.project_id: memory for memory in map(memory_from_row, rows)}
        return next((found[project] for project in reach.project_ids if project in found), None)

    def get_by_former_key(self, key: str, status: Status, *, reach: Reach) -> Memory | None:
        """Return the last changed memory of a status that bears the key without holding it."""
        if not key:
            return None
        statement = _select_by_former_key(len(reach.project_ids))
        parameters = {"key": key, "status": status.value} | _parameters_of_reach(reach)
        with self._database.read_connection() as connection:
            rows = execute(connection, statement, parameters).all()
        return max(map(memory_from_row, rows), key=lambda memory: (memory.update_time, memory.row), default=None)

    def by_rows(self, rows: Sequence[int], *, reach: Reach) -> dict[int, Memory]:
        """Return the existing ones by row."""
        found = self._shown.get_many(rows)
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
        found, missing = self._ranked.get_many(_each_once(np.asarray(rows, dtype=np.int64)), reach)
        if missing:
            version = self._ranked.version
            read = self._read_candidates(missing, reach)
            self._ranked.keep(read, version, is_asked_for=True)
            found = found.join(candidates_of_rows(read))
        return found

    def keyword_hits(self, terms: Sequence[str], *, reach: Reach, where: Filter | None, limit: int) -> list[Hit]:
        """Search the keyword table."""
        if not terms or limit <= 0:
            return []
        with self._database.snapshot() as connection:
            return search_keywords(connection, terms, KeywordMatcher(reach, where, self._ranked), limit)

    def keywords_with(
        self, parts: Sequence[str], *, reach: Reach, where: Filter | None, match: WordMatch, limit: int
    ) -> list[str]:
        """Search the terms of the keyword table."""
        if not parts or limit <= 0 or match is WordMatch.WHOLE:
            return []
        holders = within(reach) if where is None else sa.and_(within(reach), condition(where, reach.owner))
        with self._database.read_connection() as connection:
            return find_keywords(connection, frozenset(parts), reach.owner, holders, match, limit)

    def rows_where(self, where: Filter, *, reach: Reach) -> list[int]:
        """Return the rows that match, ascending."""
        statement = (
            sa.select(memories.c.row).where(within(reach), condition(where, reach.owner)).order_by(memories.c.row)
        )
        with self._database.read_connection() as connection:
            return list(execute(connection, statement).scalars())

    def chunks(self, wanted: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Chunk]:
        """Return stored chunks."""
        entries = list_parameter(entry_id(row, View.CHUNK, ordinal) for row, ordinal in wanted)
        with self._database.read_connection() as connection:
            found = execute(connection, _select_chunks(), {"entry": entries}).all()
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
        with self._database.read_connection() as connection:
            return read_session_rows(connection, session_id, reach, to_micros(now), limit)

    def recent_rows(self, *, since: datetime, reach: Reach, now: datetime, limit: int) -> list[int]:
        """Return the rows of what was changed lately."""
        if limit <= 0:
            return []
        with self._database.read_connection() as connection:
            return read_recent_rows(connection, to_micros(since), reach, to_micros(now), limit)

    def revision(self, memory_id: str, revision: int, *, reach: Reach) -> Memory | None:
        """Return one revision of a memory."""
        if not 0 < revision <= MAX_INTEGER:
            return None
        with self._database.snapshot() as connection:
            parameters = {"id": list_parameter([memory_id])} | _parameters_of_reach(reach)
            row = execute(connection, _select_by("id", len(reach.project_ids)), parameters).one_or_none()
            if row is None:
                return None
            current = memory_from_row(row)
            if current.revision == revision:
                return current
            text = execute(connection, _select_snapshot(), {"row": current.row, "revision": revision}).scalar()
        return None if text is None else memory_from_snapshot(text)

    def counts(self, *, reach: Reach) -> MemoryCounts:
        """Count the memories of the reach."""
        with self._database.read_connection() as connection:
            return count_memories(connection, reach)

    def places(self, parts: Sequence[PlacePart], *, after: Sequence[str], live: bool, limit: int) -> list[PlaceUsage]:
        """Return the places of memories."""
        found: list[PlaceUsage] = []
        with self._database.snapshot() as connection:
            for place in read_places(connection, parts, (), tuple(after)):
                if len(found) == limit:
                    break
                usage = read_usage(connection, place)
                if usage.count or not live:
                    found.append(usage)
        return found

    def select_revisions(self, where: Filter | None, *, reach: Reach, limit: int) -> list[SelectedMemory]:
        """Return the memories that match."""
        matching = sa.true() if where is None else condition(where, reach.owner)
        statement = sa.select(*_SELECTION).where(within(reach), matching).order_by(memories.c.row).limit(limit)
        with self._database.read_connection() as connection:
            return [SelectedMemory(*row) for row in execute(connection, statement)]

    def _read_candidates(self, rows: Sequence[int], reach: Reach) -> list[list[Any]]:
        parameters = {"row": list_parameter(rows)} | _parameters_of_reach(reach)
        with self._database.read_connection() as connection:
            [(text,)] = execute(connection, _select_candidates(len(reach.project_ids)), parameters)
        return rows_of_text(text)

    def _memories(self, column: str, values: Sequence[int | str], reach: Reach) -> list[Memory]:
        if not values:
            return []
        projects = len(reach.project_ids)
        parameters = {column: list_parameter(dict.fromkeys(values))} | _parameters_of_reach(reach)
        wanted = _select_gathered(column, projects)
        with self._database.read_connection() as connection:
            [(text,)] = execute(connection, wanted, parameters)
        if (found := whole_in(text)) is None:
            with self._database.snapshot() as connection:
                [(text,)] = execute(connection, wanted, parameters)
                found = found_in(text, lambda: execute(connection, _select_doubtful(column, projects), parameters))
        return [memory for memory, _ in found.values()]


def _each_once(rows: Integers) -> Integers:
    """Return *rows* ascending, each once: which those of a search are already."""
    return rows if (rows[1:] > rows[:-1]).all() else np.unique(rows)


def _without(rows: Sequence[int], found: Mapping[int, object]) -> list[int]:
    return [row for row in dict.fromkeys(rows) if row not in found]


def _is_within(scope: Scope, reach: Reach) -> bool:
    return scope.owner == reach.owner and scope.project_id in reach.project_ids


def _parameters_of_reach(reach: Reach) -> dict[str, str]:
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


@cached_statement
def _select_by(column: str, projects: int) -> sa.Select[Any]:
    return _by(column, projects, *MEMORY_COLUMNS)


@cached_statement
def _select_gathered(column: str, projects: int) -> sa.Select[Any]:
    return _by(column, projects, memories_as_json())


@cached_statement
def _select_doubtful(column: str, projects: int) -> sa.Select[Any]:
    return _by(column, projects, *DOUBTFUL_COLUMNS).where(IS_DOUBTFUL)


def _by(column: str, projects: int, *wanted: sa.ColumnElement[Any]) -> sa.Select[Any]:
    return sa.select(*wanted).where(in_json_list(memories.c[column], column), _in_reach(projects, *_UNINDEXED))


@cached_statement
def _select_candidates(projects: int) -> sa.Select[Any]:
    gathered = sa.select(rows_as_json(*SELECTED))
    return gathered.where(in_json_list(memories.c.row, "row"), _in_reach(projects, *_UNINDEXED))


@cached_statement
def _select_by_key(projects: int) -> sa.Select[Any]:
    return sa.select(*MEMORY_COLUMNS).where(_in_reach(projects), memories.c.key == sa.bindparam("key"), IS_NAMED)


@cached_statement
def _select_by_former_key(projects: int) -> sa.Select[Any]:
    return sa.select(*MEMORY_COLUMNS).where(
        _in_reach(projects),
        memories.c.key == sa.bindparam("key"),
        memories.c.status == sa.bindparam("status"),
        IS_FORMER_HOLDER,
    )


@cached_statement
def _select_chunks() -> sa.Select[Any]:
    return sa.select(memory_chunks).where(in_json_list(memory_chunks.c.entry, "entry"))


@cached_statement
def _select_snapshot() -> sa.Select[Any]:
    return sa.select(revisions.c.snapshot).where(
        revisions.c.row == sa.bindparam("row"), revisions.c.revision == sa.bindparam("revision", type_=NUMBER)
    )


# Counting memories.


def count_memories(connection: sa.Connection, reach: Reach) -> MemoryCounts:
    """Count the memories of *reach*, deleted ones only by status; a token is taken for four bytes of content."""
    tokens = (memories.c.content_bytes + (_BYTES_PER_TOKEN - 1)) // _BYTES_PER_TOKEN
    sums = (sa.func.sum(memories.c.content_bytes), sa.func.sum(tokens), sa.func.sum(memories.c.chunk_count))
    statement = sa.select(*_GROUPS, sa.func.count(), *sums).where(within(reach)).group_by(*_GROUPS)
    layers, kinds, tiers, statuses = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    active_tiers, active_tokens = Counter[str](), Counter[str]()
    content_bytes = chunks = 0
    for layer, kind, tier, status, number, size, token_count, chunk_count in execute(connection, statement):
        statuses[status] += number
        if status == Status.DELETED.value:
            continue
        layers[layer] += number
        kinds[kind] += number
        tiers[tier] += number
        content_bytes += int(size)
        chunks += int(chunk_count)
        if status == Status.ACTIVE.value:
            active_tiers[tier] += number
            active_tokens[layer] += int(token_count)
    return MemoryCounts(
        total=layers.total(),
        by_layer=dict(layers),
        by_kind=dict(kinds),
        by_tier=dict(tiers),
        by_status=dict(statuses),
        active_by_tier=dict(active_tiers),
        content_bytes=content_bytes,
        core_tokens=active_tokens[Layer.CORE.value],
        session_tokens=active_tokens[Layer.SESSION.value],
        chunks=chunks,
    )


# Places of memories: owners, and their projects, agents and sessions.
#
# Each is found by a look-up in the index of scopes, which skips the memories of the one before.


def read_places(
    connection: sa.Connection, parts: Sequence[PlacePart], fixed: tuple[str, ...], after: tuple[str, ...]
) -> Iterator[tuple[str, ...]]:
    """Yield the places that begin with *fixed* and come after the rest *after* of another one, in order."""
    part, is_last = parts[len(fixed)], len(fixed) + 1 == len(parts)
    start = after[0] if after else None
    for value in _read_values(connection, part, fixed, start):
        rest = after[1:] if value == start else ()
        if not is_last:
            yield from read_places(connection, parts, (*fixed, value), rest)
        elif value != start:
            yield (*fixed, value)


def _read_values(
    connection: sa.Connection, part: PlacePart, fixed: tuple[str, ...], start: str | None
) -> Iterator[str]:
    """Yield the values that follow *fixed*, from *start* on, in order."""
    least = max(start or "", part.prefix)
    if part.values is not None:
        for value in sorted(set(part.values)):
            if value >= least and value.startswith(part.prefix) and _read_next(connection, fixed, value, 0) == value:
                yield value
        return
    found = _read_next(connection, fixed, least, 0)
    while found is not None and found.startswith(part.prefix):
        yield found
        found = _read_next(connection, fixed, found, 1)


def _read_next(connection: sa.Connection, fixed: tuple[str, ...], least: str, above: int) -> str | None:
    parameters = {f"part_{number}": value for number, value in enumerate(fixed)} | {"least": least}
    value: str | None = execute(connection, _select_next(len(fixed), above), parameters).scalar()
    return value


def read_usage(connection: sa.Connection, place: tuple[str, ...]) -> PlaceUsage:
    """Return the usage of a place; there must be memories in it."""
    parameters = {f"part_{number}": value for number, value in enumerate(place)}
    rows = execute(connection, _select_usage(len(place)), parameters).all()
    by_status = {status: count for status, count, _ in rows}
    return PlaceUsage(place, by_status, from_micros(max(moment for _, _, moment in rows)))


def _at_place(parts: int) -> list[sa.ColumnElement[bool]]:
    return [_PLACE[number] == sa.bindparam(f"part_{number}", type_=sa.Text) for number in range(parts)]


@cached_statement
def _select_next(parts: int, above: int) -> sa.Select[Any]:
    column, least = _PLACE[parts], sa.bindparam("least", type_=sa.Text)
    bound = column > least if above else column >= least
    return (
        sa.select(column).where(*_at_place(parts), bound).order_by(*_PLACE[: parts + 1]).limit(sa.literal_column("1"))
    )


@cached_statement
def _select_usage(parts: int) -> sa.Select[Any]:
    counted = (memories.c.status, sa.func.count(), sa.func.max(memories.c.update_time))
    return sa.select(*counted).where(*_at_place(parts)).group_by(memories.c.status)


# Lists, page by page.
#
# A list is read in two parts, the memories that have the order's value and then those that have not, each from an
# index that is in the order already: a page in the middle costs what the first one costs. The projects of a reach
# are read side by side and merged.


def read_page(
    connection: sa.Connection, reach: Reach, where: Filter | None, order: Order, after: PageCursor | None, limit: int
) -> list[Memory]:
    """Return the memories that come after the cursor."""
    if not reach.project_ids:
        return []
    column = _order_columns(order, where)
    is_nullable = memories.c[order.field.value].nullable
    matching = sa.true() if where is None else condition(where, reach.owner)
    found: list[Memory] = []
    if after is None or after.value is not None:
        present = column.is_not(None) if is_nullable else sa.true()
        wanted = sa.and_(matching, present, _follows(column, order, after))
        found = _read(connection, reach, wanted, column, order, limit)
    if is_nullable and len(found) < limit:
        wanted = sa.and_(matching, column.is_(None))
        if after is not None and after.value is None:
            wanted = sa.and_(wanted, memories.c.row > after.row)
        found += _read(connection, reach, wanted, column, order, limit - len(found))
    return found


def _order_columns(order: Order, where: Filter | None) -> sa.ColumnElement[int]:
    column: sa.ColumnElement[int] = memories.c[order.field.value]
    # A session is short: better to sort what its index gives than to look for it in a list of everything. So are, as a
    # rule, the memories whose keys begin alike, and those with a number of metadata in a range.
    return without_index(column) if _names_few(where) else column


def _names_few(where: Filter | None) -> bool:
    if isinstance(where, And):
        return any(_names_few(child) for child in where.children)
    if isinstance(where, Range):
        return where.field is Field.METADATA
    if not isinstance(where, AnyOf):
        return False
    return where.match is Match.PREFIX or (where.field in {Field.SESSION_ID, Field.KEY} and all(where.values))


def _follows(column: sa.ColumnElement[int], order: Order, after: PageCursor | None) -> Condition:
    if after is None or after.value is None:
        return sa.true()
    row, value = memories.c.row, sa.literal(after.value, NUMBER)
    if order.descending:
        # The first half is implied by the second, and lets the index be entered at the cursor.
        return sa.and_(column <= value, sa.or_(column < value, row > after.row))
    return sa.and_(column >= value, sa.or_(column > value, row > after.row))


def _read(
    connection: sa.Connection,
    reach: Reach,
    wanted: Condition,
    column: sa.ColumnElement[int],
    order: Order,
    limit: int,
) -> list[Memory]:
    parts = [
        sa.select(column.label("value"), memories.c.row.label("number")).where(
            memories.c.owner == reach.owner, memories.c.project_id == project, wanted
        )
        for project in reach.project_ids
    ]
    keys = (parts[0] if len(parts) == 1 else sa.union_all(*parts)).subquery("keys")
    first = sa.select(keys).order_by(*_in_order(keys, order)).limit(limit)
    chosen = first.subquery("chosen")
    joined = sa.join(chosen, memories, memories.c.row == chosen.c.number)
    statement = sa.select(*MEMORY_COLUMNS).select_from(joined).order_by(*_in_order(chosen, order))
    return [memory_from_row(row) for row in execute(connection, statement)]


def _in_order(keys: sa.Subquery, order: Order) -> tuple[sa.ColumnElement[int], sa.ColumnElement[int]]:
    return (keys.c.value.desc() if order.descending else keys.c.value.asc()), keys.c.number.asc()


# Searching the keyword table.


@dataclass(frozen=True, slots=True)
class KeywordMatcher:
    """Matcher of keywords among the memories that a search found.

    Attributes:
        reach: Where they lie.
        where: What they meet; None: nothing in particular.
        known: What is kept of memories: of plain ones, most of them, it is known whether they match.
    """

    reach: Reach
    where: Filter | None
    known: CandidateColumns

    def among(self, connection: sa.Connection, rows: Sequence[int]) -> AbstractSet[int]:
        """Return those of *rows* that match."""
        is_met_by_plain = self.where is None or not split_default_visible(self.where)[1]
        found = self.known.plain(rows, self.reach) if is_met_by_plain else frozenset[int]()
        if unknown := [row for row in rows if row not in found]:
            parameters = {"rows": list_parameter(unknown)}
            found |= set(execute(connection, self._statement(), parameters).scalars())
        return found

    def _statement(self) -> sa.Select[Any]:
        owner, projects = without_index(memories.c.owner), without_index(memories.c.project_id)
        place = (owner == self.reach.owner, projects.in_(self.reach.project_ids))
        statement = sa.select(memories.c.row).where(in_json_list(memories.c.row, "rows"), *place)
        return statement if self.where is None else statement.where(condition(self.where, self.reach.owner))


def search_keywords(connection: sa.Connection, terms: Sequence[str], wanted: KeywordMatcher, limit: int) -> list[Hit]:
    """Return the best hits; deleted memories have no keywords in the table.

    The ranking needs the table alone. Memories are looked up from the top down, and only until enough are found
    that match: a common word may be a keyword of everything that its owner has.
    """
    names = dict.fromkeys(terms)
    parameters = {f"term_{number}": term for number, term in enumerate(names)} | {"owner": wanted.reach.owner}
    ranked = execute(connection, _ranking(len(names)), parameters).all()
    hits: list[Hit] = []
    for start in range(0, len(ranked), size := 2 * limit):
        batch = ranked[start : start + size]
        matching = wanted.among(connection, [row for row, _ in batch])
        hits += [Hit(entry_id(row, View.CHUNK, 0), score / _SCALE) for row, score in batch if row in matching]
        if len(hits) >= limit:
            break
    return hits[:limit]


def find_keywords(
    connection: sa.Connection, parts: AbstractSet[str], owner: str, holders: Condition, match: WordMatch, limit: int
) -> list[str]:
    """Return the first keywords of such holders with one of the parts, other than these; each term is read once."""
    found: set[str] = set()
    for prefix in sorted(parts) if match is WordMatch.PREFIX else ("",):
        term = _each_term(owner, prefix).c.term
        wanted: list[Condition] = [term.is_not(None), term.not_in(sorted(parts)), _is_held(term, owner, holders)]
        if match is WordMatch.SUBSTRING:
            wanted.append(sa.or_(*(holds_text(term, part) for part in sorted(parts))))
        statement = sa.select(term).where(*wanted).order_by(sa.func.length(term), term).limit(limit)
        found |= set(execute(connection, statement).scalars())
    return match.chosen(found, parts, limit)


def _is_held(term: sa.ColumnElement[str], owner: str, holders: Condition) -> Condition:
    """Return the condition that a term is a keyword of such a memory.

    A condition inside a condition, not a join: SQLite would read the memories first, all of them for each term.
    """
    table = memory_keywords.c
    is_holder = sa.exists().where(memories.c.row == table.row, holders).correlate(memory_keywords)
    return sa.exists().where(table.owner == owner, table.term == term, is_holder)


def _each_term(owner: str, prefix: str) -> sa.CTE:
    """Return the different terms of an owner with a prefix; each is found by the one before, in the table's key.

    The last row is NULL.
    """
    table, end = memory_keywords.c, end_of_prefix(prefix)
    place = (table.owner == owner, sa.true() if end is None else table.term < end)

    def first(bound: sa.ColumnElement[bool]) -> sa.Select[Any]:
        return sa.select(sa.func.min(table.term).label("term")).where(*place, bound)

    terms = first(table.term >= prefix).cte("listed_terms", recursive=True)
    following = first(table.term > terms.c.term).scalar_subquery()
    return terms.union_all(sa.select(following).where(terms.c.term.is_not(None)))


@lru_cache(maxsize=64)
def _ranking(terms: int) -> sa.Select[Any]:
    names = [sa.bindparam(f"term_{number}", type_=sa.Text) for number in range(terms)]
    weights = sa.func.sum(memory_keywords.c.weight)
    raw = weights * (_PER_WEIGHT * _SCALE) + sa.func.count() * (_PER_MATCH * _SCALE) + 0.5
    score = integer_part(sa.case((raw < _SCALE, raw), else_=float(_SCALE))).label("score")
    return (
        sa.select(memory_keywords.c.row, score)
        .where(memory_keywords.c.owner == sa.bindparam("owner"), memory_keywords.c.term.in_(names))
        .group_by(memory_keywords.c.row)
        .order_by(score.desc(), memory_keywords.c.row)
    )
