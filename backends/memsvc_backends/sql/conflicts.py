"""Facts and conflicts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from memsvc.domain.clock import EPOCH, from_micros, to_micros
from memsvc.domain.conflicts import Conflict, ConflictState, Fact, Rule
from memsvc.domain.memory import Layer
from memsvc.domain.scope import Reach
from memsvc.ports.features import StatingMemory, StoredFact
from memsvc_backends.sql.database import Database, translate
from memsvc_backends.sql.dialect import cached_statement, execute, in_json_list, list_parameter
from memsvc_backends.sql.row_writer import parts_of, read_facts
from memsvc_backends.sql.tables import IS_OPEN, conflicts, memories, statements
from memsvc_backends.sql.write_session import WriteSession

_MEMORY = memories.c
ACTIVE: sa.ColumnElement[str] = sa.literal_column("'ACTIVE'")
CONFLICT_COLUMNS = tuple(
    conflicts.c[name]
    for name in (
        "id", "owner", "project_id", "older_id", "newer_id", "rule", "topic", "older_value", "newer_value",
        "create_time", "state", "resolve_time",
    )
)  # fmt: skip
"""In the order of the fields of `Conflict`."""
_RULE, _CREATED, _STATE, _RESOLVED = 5, 9, 10, 11
_SETTLED = ("newer_id", "older_value", "newer_value", "topic", "rule", "state", "resolve_time")


class SqlConflictReads:
    """`memsvc.ports.features.ConflictReads`."""

    def __init__(self, database: Database) -> None:
        """Read from *database*."""
        self._database = database

    def get(self, ids: Sequence[str], *, reach: Reach) -> dict[str, Conflict]:
        """Return the existing ones."""
        parameters = {"wanted": list_parameter(ids), "owner": reach.owner}
        with self._database.read_connection() as connection:
            return {
                row[0]: conflict_from_row(row)
                for project in dict.fromkeys(reach.project_ids)
                for row in execute(connection, _select_ids(), {**parameters, "project_id": project})
            }

    def page(
        self, *, reach: Reach, states: Sequence[ConflictState], memory_id: str, before: str, limit: int
    ) -> list[Conflict]:
        """Return a page: each project's own, merged, since each is read from an index in the order."""
        found: list[Conflict] = []
        with self._database.read_connection() as connection:
            for project in dict.fromkeys(reach.project_ids):
                statement = _page(reach.owner, project, states, memory_id, before).limit(max(0, limit))
                found += [conflict_from_row(row) for row in execute(connection, statement)]
        return sorted(found, key=lambda conflict: conflict.id, reverse=True)[: max(0, limit)]


class SqlStatementReads:
    """`memsvc.ports.features.StatementReads`."""

    def __init__(self, database: Database) -> None:
        """Read from *database*."""
        self._database = database

    def memories_with_facts(
        self,
        owner: str,
        project_id: str,
        *,
        layers: Sequence[Layer],
        since: datetime | None,
        after: tuple[int, ...],
        limit: int,
    ) -> list[StatingMemory]:
        """Return memories of a project, by the index of creation times."""
        order = (_MEMORY.create_time, _MEMORY.row)
        statement = _with_facts(*order).where(_MEMORY.owner == owner, _MEMORY.project_id == project_id)
        if layers:
            statement = statement.where(_MEMORY.layer.in_([layer.value for layer in layers]))
        if since is not None:
            statement = statement.where(_MEMORY.create_time >= to_micros(since))
        if after:
            # The first condition bounds the scan of the index, which SQLite does not derive from the second one.
            statement = statement.where(_MEMORY.create_time >= after[0], sa.tuple_(*order) > sa.tuple_(*after))
        return self._read(statement.order_by(*order).limit(max(0, limit)))

    def rows_with_facts(self, *, after: int, limit: int) -> list[StatingMemory]:
        """Return memories of all owners, by row."""
        statement = _with_facts(_MEMORY.row).where(_MEMORY.row > after)
        return self._read(statement.order_by(_MEMORY.row).limit(max(0, limit)))

    def rows_on_topics(
        self, owner: str, project_ids: Collection[str], topics: Collection[str], *, limit: int
    ) -> list[int]:
        """Return the rows of memories with a statement on a topic."""
        if not topics or limit <= 0:
            return []
        place = {"owner": owner, "projects": list_parameter(project_ids), "topics": list_parameter(topics)}
        with self._database.read_connection() as connection:
            return list(execute(connection, _select_rows_on_topics(), {**place, "at_most": limit}).scalars())

    def facts_before(self, owner: str, project_id: str, topic: str, *, row: int, limit: int) -> list[StoredFact]:
        """Return earlier statements."""
        place = {"owner": owner, "project_id": project_id, "topic": topic, "before": row, "at_most": max(0, limit)}
        with self._database.read_connection() as connection:
            return [
                StoredFact(found[0], Fact(Rule(found[1]), topic, parts_of(found[2]), bool(found[3])))
                for found in execute(connection, _select_before(), place)
            ]

    def conflicts_of(self, owner: str, memory_ids: Sequence[str]) -> list[Conflict]:
        """Return the conflicts of some memories."""
        if not memory_ids:
            return []
        parameters = {"wanted": list_parameter(memory_ids), "owner": owner}
        with self._database.read_connection() as connection:
            return [conflict_from_row(row) for row in execute(connection, _select_of_memories(), parameters)]

    def _read(self, statement: sa.Select[Any]) -> list[StatingMemory]:
        with self._database.read_connection() as connection:
            found = execute(connection, statement)
            stated = read_facts(connection, [row[0] for row in found])
        return [
            StatingMemory(row, memory_id, owner, project_id, from_micros(changed), stated.get(row, ()), tuple(place))
            for row, memory_id, owner, project_id, changed, *place in found
        ]


class SqlConflictWrites(WriteSession):
    """`memsvc.ports.features.ConflictWrites`, on the connection of a transaction."""

    refuse_erased: Callable[[Iterable[str]], None]

    def find_facts(
        self, owner: str, project_id: str, topics: Sequence[str], *, limit: int, without: range = range(0)
    ) -> list[StoredFact]:
        """Return what is stated, a query for each topic: so none can take the place of another."""
        place = {"owner": owner, "project_id": project_id, "at_most": max(0, limit)}
        place |= {"without_from": without.start, "without_until": without.stop}
        return [
            StoredFact(memory_id, self._fact(topic, *stated))
            for topic in dict.fromkeys(topics)
            for memory_id, *stated in execute(self._connection, _select_statements(), {**place, "topic": topic})
        ]

    def _fact(self, *stated: Any) -> Fact:
        """Return a fact by its columns; one of a topic of which a batch states much is read often, and built once."""
        fact = self._facts.get(stated)
        if fact is None:
            topic, rule, parts, positive = stated
            fact = self._facts[stated] = Fact(Rule(rule), topic, parts_of(parts), bool(positive))
        return fact

    def add_conflicts(self, new: Sequence[Conflict]) -> None:
        """Insert."""
        if new:
            self.refuse_erased({conflict.owner for conflict in new})
            with translate():
                execute(self._connection, sa.insert(conflicts), [_values(conflict) for conflict in new])

    def settle_conflicts(self, settled: Sequence[Conflict]) -> None:
        """Update."""
        for conflict in settled:
            place = (conflicts.c[name] == getattr(conflict, name) for name in ("owner", "project_id", "id"))
            values = _values(conflict)
            changed = {name: values[name] for name in _SETTLED}
            execute(self._connection, sa.update(conflicts).where(*place).values(changed))

    def get_conflict(self, conflict_id: str, *, reach: Reach) -> Conflict | None:
        """Return one, locked where writers run side by side."""
        for project in reach.project_ids:
            place = (conflicts.c.owner == reach.owner, conflicts.c.project_id == project)
            statement = sa.select(*CONFLICT_COLUMNS).where(*place, conflicts.c.id == conflict_id).with_for_update()
            row = execute(self._connection, statement).one_or_none()
            if row is not None:
                return conflict_from_row(row)
        return None

    def conflicts_over(self, owner: str, older_id: str, *, limit: int) -> list[Conflict]:
        """Return those in which a memory is the older side."""
        place = {"owner": owner, "older_id": older_id, "at_most": max(0, limit)}
        return [conflict_from_row(row) for row in execute(self._connection, _select_over(), place)]

    def open_conflicts(self, owner: str, memory_ids: Sequence[str]) -> list[Conflict]:
        """Return the open ones of some memories."""
        if not memory_ids:
            return []
        parameters = {"wanted": list_parameter(memory_ids), "owner": owner}
        return [conflict_from_row(row) for row in execute(self._connection, _select_open(), parameters)]

    def conflicts_between(self, owner: str, memory_ids: Sequence[str]) -> list[Conflict]:
        """Return the conflicts among some memories."""
        if not memory_ids:
            return []
        parameters = {"wanted": list_parameter(memory_ids), "owner": owner}
        return [conflict_from_row(row) for row in execute(self._connection, _select_between(), parameters)]


@cached_statement
def _select_statements() -> sa.Select[Any]:
    place = [statements.c[name] == sa.bindparam(name) for name in ("owner", "project_id", "topic")]
    row = statements.c.row
    is_wanted = sa.or_(row < sa.bindparam("without_from"), row >= sa.bindparam("without_until"))
    joined = sa.join(statements, memories, memories.c.row == statements.c.row)
    return (
        sa.select(memories.c.id, statements.c.rule, statements.c.parts, statements.c.positive)
        .select_from(joined)
        .where(*place, memories.c.status == ACTIVE, is_wanted)
        .order_by(statements.c.row.desc())
        .limit(sa.bindparam("at_most"))
    )


def _with_facts(*place: sa.ColumnElement[int]) -> sa.Select[Any]:
    states = sa.exists().where(statements.c.row == _MEMORY.row)
    columns = (_MEMORY.row, _MEMORY.id, _MEMORY.owner, _MEMORY.project_id, _MEMORY.update_time, *place)
    return sa.select(*columns).where(_MEMORY.status == ACTIVE, states)


@cached_statement
def _select_rows_on_topics() -> sa.Select[Any]:
    place = (
        statements.c.owner == sa.bindparam("owner"),
        in_json_list(statements.c.project_id, "projects"),
        in_json_list(statements.c.topic, "topics"),
    )
    rows = sa.select(statements.c.row).distinct().where(*place).order_by(statements.c.row.desc())
    return rows.limit(sa.bindparam("at_most", type_=sa.Integer))


@cached_statement
def _select_before() -> sa.Select[Any]:
    place = [statements.c[name] == sa.bindparam(name) for name in ("owner", "project_id", "topic")]
    joined = sa.join(statements, memories, memories.c.row == statements.c.row)
    return (
        sa.select(memories.c.id, statements.c.rule, statements.c.parts, statements.c.positive)
        .select_from(joined)
        .where(*place, statements.c.row < sa.bindparam("before"), memories.c.status == ACTIVE)
        .order_by(statements.c.row.desc())
        .limit(sa.bindparam("at_most"))
    )


@cached_statement
def _select_ids() -> sa.Select[Any]:
    place = [conflicts.c[name] == sa.bindparam(name) for name in ("owner", "project_id")]
    return sa.select(*CONFLICT_COLUMNS).where(*place, in_json_list(conflicts.c.id, "wanted"))


@cached_statement
def _select_open() -> sa.CompoundSelect[Any]:
    return _with_a_side(IS_OPEN)


@cached_statement
def _select_of_memories() -> sa.CompoundSelect[Any]:
    return _with_a_side()


def _with_a_side(*conditions: sa.ColumnElement[bool]) -> sa.CompoundSelect[Any]:
    sides = [
        sa.select(*CONFLICT_COLUMNS).where(
            in_json_list(side, "wanted"), *conditions, conflicts.c.owner == sa.bindparam("owner")
        )
        for side in (conflicts.c.older_id, conflicts.c.newer_id)
    ]
    return sa.union(*sides).order_by("id")


@cached_statement
def _select_between() -> sa.Select[Any]:
    sides = (in_json_list(conflicts.c.older_id, "wanted"), in_json_list(conflicts.c.newer_id, "wanted"))
    return sa.select(*CONFLICT_COLUMNS).where(*sides, conflicts.c.owner == sa.bindparam("owner")).order_by("id")


@cached_statement
def _select_over() -> sa.Select[Any]:
    place = [conflicts.c[name] == sa.bindparam(name) for name in ("owner", "older_id")]
    return sa.select(*CONFLICT_COLUMNS).where(*place).order_by(conflicts.c.id.desc()).limit(sa.bindparam("at_most"))


def _page(owner: str, project_id: str, states: Sequence[ConflictState], memory_id: str, before: str) -> sa.Select[Any]:
    statement = sa.select(*CONFLICT_COLUMNS).where(conflicts.c.owner == owner, conflicts.c.project_id == project_id)
    is_open = tuple(states) == (ConflictState.OPEN,)
    statement = statement.where(IS_OPEN if is_open else conflicts.c.state.in_([state.value for state in states]))
    if memory_id:
        statement = statement.where(sa.or_(conflicts.c.older_id == memory_id, conflicts.c.newer_id == memory_id))
    if before:
        statement = statement.where(conflicts.c.id < before)
    return statement.order_by(conflicts.c.id.desc())


def conflict_from_row(row: Sequence[Any]) -> Conflict:
    """Return the conflict in a row of `CONFLICT_COLUMNS`."""
    values = list(row)
    values[_RULE], values[_STATE] = Rule(values[_RULE]), ConflictState(values[_STATE])
    for place in (_CREATED, _RESOLVED):
        values[place] = None if values[place] is None else EPOCH + timedelta(microseconds=values[place])
    return Conflict(*values)


def _values(conflict: Conflict) -> Mapping[str, Any]:
    return {
        "owner": conflict.owner,
        "project_id": conflict.project_id,
        "id": conflict.id,
        "older_id": conflict.older_id,
        "newer_id": conflict.newer_id,
        "state": conflict.state.value,
        "rule": conflict.rule.value,
        "topic": conflict.topic,
        "older_value": conflict.older_value,
        "newer_value": conflict.newer_value,
        "create_time": to_micros(conflict.create_time),
        "resolve_time": None if conflict.resolve_time is None else to_micros(conflict.resolve_time),
    }
