"""Reports of use: calls, their reports, the counts of memories, and the state of each owner."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from memsvc.domain.clock import from_micros, to_micros
from memsvc.domain.maintenance import MaintenanceScope
from memsvc.domain.memory import Memory
from memsvc.domain.scope import OWNER_SEPARATOR, Reach, Scope, SessionVisibility
from memsvc.domain.use_feedback import (
    CALLS_KEPT,
    REPLAY_SHARE,
    RecordedUse,
    StoredUseReport,
    UseCall,
    UseCounts,
    UseFeedback,
    UseOutcome,
    UseReplay,
    UseReport,
    UseSelection,
)
from memsvc.ports.candidates import Rows
from memsvc_backends.sql.database import Database
from memsvc_backends.sql.dialect import (
    MAX_INTEGER,
    cached_statement,
    execute,
    in_json_list,
    list_parameter,
    rows_as_json,
    rows_of_text,
    upsert_sum,
    without_index,
)
from memsvc_backends.sql.row_writer import insert_many
from memsvc_backends.sql.tables import (
    DELETED,
    EMPTY,
    IS_DUE_FOR_REPLAY,
    IS_WRONG,
    memories,
    use_calls,
    use_counts,
    use_feedback,
    use_reports,
)
from memsvc_backends.sql.write_session import WriteSession

_CALL, _REPORT, _COUNTS, _STATE = use_calls.c, use_reports.c, use_counts.c, use_feedback.c
_OUTCOMES = ("used", "ignored", "wrong")
_FRACTIONS = ("mrr_without", "mrr_with", "ndcg_without", "ndcg_with", "standard_error")
_SESSION: sa.ColumnElement[str] = sa.literal_column("'SESSION'")
_TOTAL = _STATE.used + _STATE.ignored + _STATE.wrong


class SqlUseReads:
    """`memsvc.ports.features.UseReads`."""

    def __init__(self, database: Database) -> None:
        """Read from *database*."""
        self._database = database

    def page(
        self, *, reach: Reach, selection: UseSelection, after: tuple[int, int] | None, limit: int
    ) -> list[StoredUseReport]:
        """Return a page."""
        call, row = after or (MAX_INTEGER, MAX_INTEGER)
        parameters = {
            "owner": reach.owner, "projects": list_parameter(reach.project_ids), "session_id": selection.session_id,
            "after_call": call, "after_row": row, "most": max(0, limit),
        }  # fmt: skip
        if selection.row is not None:
            parameters["at_row"] = selection.row
        if selection.outcome not in {None, UseOutcome.WRONG}:
            parameters["outcome"] = selection.outcome
        statement = _select_page(selection.sessions, selection.outcome, has_row=selection.row is not None)
        with self._database.read_connection() as connection:
            return [_stored_report(values, reach.owner) for values in execute(connection, statement, parameters)]

    def counts(self, row: int, *, owner: str) -> UseCounts:
        """Return the counts of a memory."""
        with self._database.read_connection() as connection:
            return _read_counts(connection, owner, row)

    def feedback(self, owner: str) -> UseFeedback:
        """Return the state of an owner."""
        with self._database.read_connection() as connection:
            found = execute(connection, _select_state(), {"owner": owner})
        return _feedback(found[0]) if found else UseFeedback()

    def signal(self, owner: str, rows: Rows) -> tuple[UseFeedback, dict[int, UseCounts]]:
        """Return the state and the counts: the rows of a memory are found by the whole primary key."""
        parameters = {"owner": owner, "wanted": list_parameter(map(int, rows))}
        with self._database.read_connection() as connection:
            found = execute(connection, _select_signal(), parameters)
        if not found:
            return UseFeedback(), {}
        *state, text = found[0]
        return _feedback(state), {row: UseCounts(*counts) for row, *counts in rows_of_text(text)}

    def calls(self, owner: str, *, limit: int) -> list[RecordedUse]:
        """Return the newest calls."""
        with self._database.read_connection() as connection:
            calls = execute(connection, _select_calls(), {"owner": owner, "most": max(0, limit)})
            parameters = {"owner": owner, "wanted": list_parameter(call[0] for call in calls)}
            reports = execute(connection, _select_reports(), parameters) if calls else ()
        outcomes: dict[int, dict[int, UseOutcome]] = defaultdict(dict)
        for call, row, outcome in reports:
            outcomes[call][row] = UseOutcome(outcome)
        return [
            RecordedUse(_scope(owner, project, agent, session), query, outcomes[call])
            for call, project, agent, session, query in reversed(calls)
            if call in outcomes
        ]

    def due_for_replay(self, area: MaintenanceScope, *, least: int, after: str, limit: int) -> list[str]:
        """Return the owners that are due."""
        parameters = {"least": least, "after": after, "most": max(0, limit)}
        if area.owner is not None:
            parameters["owner"] = area.owner
        with self._database.read_connection() as connection:
            return list(execute(connection, _select_due(of_one=area.owner is not None), parameters).scalars())


class SqlUseWrites(WriteSession):
    """`memsvc.ports.features.UseWrites`, on the connection of a transaction."""

    refuse_erased: Callable[[Iterable[str]], None]

    def add_use(self, call: UseCall, rows: Sequence[int]) -> None:
        """Insert a call and its reports, and add to the counts."""
        owner = call.scope.owner
        self.refuse_erased([owner])
        number = self._allot_row()
        connection = self._connection
        insert_many(connection, use_calls, [_call_values(call, number)])
        insert_many(
            connection,
            use_reports,
            [
                {
                    "owner": owner, "call": number, "row": row, "outcome": one.outcome.value,
                    "revision": one.revision, "position": one.position,
                }
                for row, one in zip(rows, call.reports, strict=True)
            ],
        )  # fmt: skip
        total = UseCounts()
        for row, one in zip(rows, call.reports, strict=True):
            counts = UseCounts.of(one.outcome)
            execute(connection, _add_counts(), {"owner": owner, "row": row, **_outcomes(counts)})
            total += counts
        execute(connection, _add_state(), {"owner": owner, **_outcomes(total), "pending": total.total})
        state = _feedback(execute(connection, _select_state(), {"owner": owner})[0])
        removed = state.calls - CALLS_KEPT
        if removed > 0:
            self._remove_oldest(owner, removed)
        self._note_due(owner, state)

    def set_replay(self, owner: str, replay: UseReplay, *, pending: int) -> None:
        """Write the result of a replay."""
        self.refuse_erased([owner])
        connection = self._connection
        found = execute(connection, _select_state(), {"owner": owner})
        if not found:
            return
        values = {name: getattr(replay, name) for name in ("tested", *_FRACTIONS)}
        values |= {"replay_time": to_micros(replay.time), "replay_calls": replay.calls}
        state = _feedback(found[0])
        left = max(0, state.pending - pending)
        changes = {f"new_{name}": value for name, value in values.items()}
        execute(connection, _update_replay(), {"at_owner": owner, "new_pending": left, **changes})
        self._note_due(owner, UseFeedback(state.counts, state.calls, left))

    def _remove_oldest(self, owner: str, number: int) -> None:
        oldest = execute(self._connection, _select_oldest(), {"owner": owner, "most": number}).scalars()
        parameters = {"owner": owner, "wanted": list_parameter(oldest)}
        for table in (use_reports, use_calls):
            execute(self._connection, _delete_calls(table), parameters)
        execute(self._connection, _subtract_calls(), {"at_owner": owner, "less": len(oldest)})

    def _note_due(self, owner: str, state: UseFeedback) -> None:
        is_due = state.pending > 0 and state.pending * REPLAY_SHARE >= state.counts.total
        execute(self._connection, _update_due(), {"at_owner": owner, "new_due": int(is_due)})


def delete_use_of(connection: sa.Connection, memory: Memory) -> None:
    """Remove the reports and counts of a purged memory, and the calls that have no other report."""
    owner = memory.scope.owner
    at = {"owner": owner, "row": memory.row}
    counts = _read_counts(connection, owner, memory.row)
    if not counts.total:
        return
    calls = execute(connection, _select_calls_of_memory(), at).scalars()
    for table in (use_reports, use_counts):
        execute(connection, _delete_memory(table), at)
    if calls:
        parameters = {"owner": owner, "wanted": list_parameter(calls)}
        removed = execute(connection, _delete_empty_calls(), parameters).rowcount
        execute(connection, _subtract_calls(), {"at_owner": owner, "less": removed})
    less = {f"less_{name}": value for name, value in _outcomes(counts).items()}
    execute(connection, _subtract_counts(), {"at_owner": owner, **less})


def _outcomes(counts: UseCounts) -> dict[str, int]:
    return {name: getattr(counts, name) for name in _OUTCOMES}


def _call_values(call: UseCall, number: int) -> dict[str, Any]:
    scope = call.scope
    return {
        "owner": scope.owner, "call": number, "project_id": scope.project_id, "agent_id": scope.agent_id,
        "session_id": scope.session_id, "time": to_micros(call.time), "query": call.query,
    }  # fmt: skip


def _read_counts(connection: sa.Connection, owner: str, row: int) -> UseCounts:
    found = execute(connection, _select_counts(), {"owner": owner, "row": row})
    return UseCounts(*found[0]) if found else UseCounts()


def _scope(owner: str, project_id: str, agent_id: str, session_id: str) -> Scope:
    tenant, _, user = owner.partition(OWNER_SEPARATOR)
    return Scope(user, project_id, agent_id, session_id, tenant)


def _stored_report(values: Sequence[Any], owner: str) -> StoredUseReport:
    call, row, outcome, revision, position, time, query, project, agent, session, memory_id = values
    report = UseReport(memory_id, UseOutcome(outcome), revision, position)
    return StoredUseReport(call, row, report, query, from_micros(time), _scope(owner, project, agent, session))


def _feedback(values: Sequence[Any]) -> UseFeedback:
    used, ignored, wrong, calls, pending, time, replay_calls, tested, *fractions = values
    replay = None if time is None else UseReplay(from_micros(time), replay_calls, tested, *fractions)
    return UseFeedback(UseCounts(used, ignored, wrong), calls, pending, replay)


def _state_columns() -> list[sa.ColumnElement[Any]]:
    return [_STATE[name] for name in (*_OUTCOMES, "calls", "pending", "replay_time", "replay_calls", "tested")] + [
        _STATE[name] for name in _FRACTIONS
    ]


@cached_statement
def _select_page(sessions: SessionVisibility, outcome: UseOutcome | None, *, has_row: bool) -> sa.Select[Any]:
    memory = memories.c
    place = sa.tuple_(_REPORT.call, _REPORT.row)
    conditions = [
        _REPORT.owner == sa.bindparam("owner"),
        place < sa.tuple_(sa.bindparam("after_call"), sa.bindparam("after_row")),
        _CALL.owner == _REPORT.owner,
        _CALL.call == _REPORT.call,
        in_json_list(_CALL.project_id, "projects"),
        memory.row == _REPORT.row,
        without_index(memory.owner) == _REPORT.owner,
        in_json_list(memory.project_id, "projects"),
        memory.status != DELETED,
    ]
    if sessions is not SessionVisibility.ALL:
        own = sa.bindparam("session_id", type_=sa.Text)
        conditions.append(sa.or_(_CALL.session_id == EMPTY, _CALL.session_id == own))
        # A private memory of a session is never visible outside of sessions.
        is_own = sa.and_(memory.session_id == own, memory.session_id != EMPTY)
        conditions.append(sa.or_(memory.layer != _SESSION, is_own))
    if has_row:
        conditions.append(_REPORT.row == sa.bindparam("at_row"))
    if outcome is UseOutcome.WRONG:
        # As the condition of the index is written, so that it is used.
        conditions.append(IS_WRONG)
    elif outcome is not None:
        conditions.append(_REPORT.outcome == sa.bindparam("outcome"))
    return (
        sa.select(
            _REPORT.call, _REPORT.row, _REPORT.outcome, _REPORT.revision, _REPORT.position, _CALL.time, _CALL.query,
            _CALL.project_id, _CALL.agent_id, _CALL.session_id, memory.id,
        )
        .select_from(use_reports, use_calls, memories)
        .where(*conditions)
        .order_by(_REPORT.call.desc(), _REPORT.row.desc())
        .limit(sa.bindparam("most", type_=sa.Integer))
    )  # fmt: skip


@cached_statement
def _select_counts() -> sa.Select[Any]:
    at = (_COUNTS.owner == sa.bindparam("owner"), _COUNTS.row == sa.bindparam("row"))
    return sa.select(*(_COUNTS[name] for name in _OUTCOMES)).where(*at)


@cached_statement
def _select_state() -> sa.Select[Any]:
    return sa.select(*_state_columns()).where(_STATE.owner == sa.bindparam("owner"))


@cached_statement
def _select_signal() -> sa.Select[Any]:
    counts = (
        sa.select(rows_as_json(_COUNTS.row, *(_COUNTS[name] for name in _OUTCOMES)))
        .where(_COUNTS.owner == sa.bindparam("owner"), in_json_list(_COUNTS.row, "wanted"))
        .scalar_subquery()
    )
    return sa.select(*_state_columns(), counts).where(_STATE.owner == sa.bindparam("owner"))


@cached_statement
def _select_calls() -> sa.Select[Any]:
    columns = (_CALL.call, _CALL.project_id, _CALL.agent_id, _CALL.session_id, _CALL.query)
    newest = sa.select(*columns).where(_CALL.owner == sa.bindparam("owner")).order_by(_CALL.call.desc())
    return newest.limit(sa.bindparam("most", type_=sa.Integer))


@cached_statement
def _select_reports() -> sa.Select[Any]:
    wanted = (_REPORT.owner == sa.bindparam("owner"), in_json_list(_REPORT.call, "wanted"))
    return sa.select(_REPORT.call, _REPORT.row, _REPORT.outcome).where(*wanted)


@cached_statement
def _select_due(*, of_one: bool) -> sa.Select[Any]:
    conditions = [IS_DUE_FOR_REPLAY, sa.bindparam("least") <= _TOTAL, _STATE.owner > sa.bindparam("after")]
    if of_one:
        conditions.append(_STATE.owner == sa.bindparam("owner"))
    return (
        sa.select(_STATE.owner).where(*conditions).order_by(_STATE.owner).limit(sa.bindparam("most", type_=sa.Integer))
    )


@cached_statement
def _add_counts() -> sa.Insert:
    names = ("owner", "row", *_OUTCOMES)
    return upsert_sum(use_counts, _OUTCOMES).values({name: sa.bindparam(name) for name in names})


@cached_statement
def _add_state() -> sa.Insert:
    sums = (*_OUTCOMES, "pending")
    values: dict[str, Any] = {name: sa.bindparam(name) for name in ("owner", *sums)}
    fixed: dict[str, Any] = dict.fromkeys(("is_due", "replay_calls", "tested", *_FRACTIONS), sa.literal_column("0"))
    return upsert_sum(use_feedback, (*sums, "calls")).values(values | fixed | {"calls": sa.literal_column("1")})


@cached_statement
def _update_replay() -> sa.Update:
    names = ("pending", "replay_time", "replay_calls", "tested", *_FRACTIONS)
    at = _STATE.owner == sa.bindparam("at_owner")
    return sa.update(use_feedback).where(at).values({name: sa.bindparam(f"new_{name}") for name in names})


@cached_statement
def _update_due() -> sa.Update:
    at = _STATE.owner == sa.bindparam("at_owner")
    return sa.update(use_feedback).where(at).values(is_due=sa.bindparam("new_due"))


@cached_statement
def _select_oldest() -> sa.Select[Any]:
    oldest = sa.select(_CALL.call).where(_CALL.owner == sa.bindparam("owner")).order_by(_CALL.call)
    return oldest.limit(sa.bindparam("most", type_=sa.Integer))


@cached_statement
def _delete_calls(table: sa.Table) -> sa.Delete:
    return sa.delete(table).where(table.c.owner == sa.bindparam("owner"), in_json_list(table.c.call, "wanted"))


@cached_statement
def _subtract_calls() -> sa.Update:
    at = _STATE.owner == sa.bindparam("at_owner")
    return sa.update(use_feedback).where(at).values(calls=_STATE.calls - sa.bindparam("less"))


@cached_statement
def _select_calls_of_memory() -> sa.Select[Any]:
    return sa.select(_REPORT.call).where(_REPORT.owner == sa.bindparam("owner"), _REPORT.row == sa.bindparam("row"))


@cached_statement
def _delete_memory(table: sa.Table) -> sa.Delete:
    return sa.delete(table).where(table.c.owner == sa.bindparam("owner"), table.c.row == sa.bindparam("row"))


@cached_statement
def _delete_empty_calls() -> sa.Delete:
    has_report = sa.exists().where(_REPORT.owner == _CALL.owner, _REPORT.call == _CALL.call)
    wanted = (_CALL.owner == sa.bindparam("owner"), in_json_list(_CALL.call, "wanted"))
    return sa.delete(use_calls).where(*wanted, ~has_report)


@cached_statement
def _subtract_counts() -> sa.Update:
    at = _STATE.owner == sa.bindparam("at_owner")
    values = {name: _STATE[name] - sa.bindparam(f"less_{name}") for name in _OUTCOMES}
    return sa.update(use_feedback).where(at).values(values)
