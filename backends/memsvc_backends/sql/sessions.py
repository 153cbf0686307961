"""Sessions and their messages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from memsvc.domain.clock import EPOCH, to_micros
from memsvc.domain.memory import FileRef, Json, Memory
from memsvc.domain.scope import OWNER_SEPARATOR, Scope
from memsvc.domain.sessions import (
    AutoTrim,
    ExtractedMemory,
    Message,
    MessageRecord,
    MessageState,
    Role,
    Session,
    SessionCounts,
    SessionName,
    SessionState,
    SessionStatus,
    ToolCall,
)
from memsvc_backends.sql.database import Database
from memsvc_backends.sql.dialect import (
    NUMBER,
    cached_statement,
    execute,
    in_json_list,
    json_text,
    json_value,
    list_parameter,
    pair_of,
    pairs,
    pairs_parameter,
    rows_as_json,
    rows_of_text,
)
from memsvc_backends.sql.memory_codec import (
    DOUBTFUL_COLUMNS,
    IS_DOUBTFUL,
    Row,
    Values,
    found_in,
    memories_as_json,
    micros_or_none,
    moment_or_none,
)
from memsvc_backends.sql.row_writer import insert_many
from memsvc_backends.sql.tables import ACTIVE, DELETED, IS_LIVE_MESSAGE, IS_SUMMARISED, memories, messages, sessions

_FIXED = frozenset({"row", "owner", "project_id", "id", "create_time"})
_CHANGEABLE = frozenset(sessions.columns.keys()) - _FIXED
_SESSION_NAMES = (
    "row", "owner", "project_id", "agent_id", "id", "title", "state", "auto_trim", "metadata", "token_limit",
    "last_ordinal", "trim_count", "create_time", "update_time", "last_message_time", "end_time", "trim_time",
    "flushed_ordinal",
)  # fmt: skip
SESSION_COLUMNS = tuple(sessions.c[name] for name in _SESSION_NAMES)
"""What `session_from_row` reads, in this order."""
_MESSAGE_NAMES = (
    "row", "ordinal", "role", "token_count", "state", "is_pinned", "has_content", "tool_calls", "tool_call_id",
    "summary_id", "extracted",
)  # fmt: skip
MESSAGE_COLUMNS = tuple(messages.c[name] for name in _MESSAGE_NAMES)
"""What `record_from_row` reads, in this order."""
_NONE_EXTRACTED = "[]"


class SqlSessionReads:
    """`memsvc.ports.features.SessionReads`."""

    def __init__(self, database: Database) -> None:
        """Read from *database*."""
        self._database = database

    def get(self, name: SessionName) -> Session | None:
        """Return the session of this name."""
        with self._database.read_connection() as connection:
            return _get(connection, name)

    def agents(self, owner: str, project_id: str, session_ids: Collection[str]) -> dict[str, str]:
        """Return the agents that opened sessions, by session id."""
        if not session_ids:
            return {}
        place = {"owner": owner, "project_id": project_id, "wanted": list_parameter(session_ids)}
        with self._database.read_connection() as connection:
            return {row[0]: row[1] for row in execute(connection, _select_agents(), place)}

    def extractions(self, rows: Collection[int]) -> dict[int, tuple[ExtractedMemory, ...]]:
        """Return the memories that were extracted from messages, by row."""
        if not rows:
            return {}
        with self._database.read_connection() as connection:
            found = execute(connection, _select_extracted(), {"wanted": list_parameter(rows)}).all()
        return {row: _extractions_from(text) for row, text in found}

    def messages_of(self, summary_ids: Collection[str]) -> dict[str, list[Message]]:
        """Return the messages that memories sum up."""
        wanted = [one for one in summary_ids if one]
        if not wanted:
            return {}
        found: dict[str, list[Message]] = {}
        with self._database.snapshot() as connection:
            for message in _summed_up(connection, wanted):
                found.setdefault(message.record.summary_id, []).append(message)
        return found

    def page(
        self, owner: str, project_id: str, *, states: Collection[SessionState], before: int | None, limit: int
    ) -> list[Session]:
        """Return one page of a list."""
        if limit <= 0 or not states:
            return []
        place = (sessions.c.owner == owner, sessions.c.project_id == project_id)
        statement = sa.select(*SESSION_COLUMNS).where(*place).order_by(sessions.c.row.desc()).limit(limit)
        if len(states) < len(SessionState):
            statement = statement.where(sessions.c.state.in_(sorted(state.value for state in states)))
        if before is not None:
            statement = statement.where(sessions.c.row < before)
        with self._database.read_connection() as connection:
            return [session_from_row(row) for row in execute(connection, statement)]

    def counts(self, wanted: Sequence[Session]) -> dict[int, SessionCounts]:
        """Return the counts by row."""
        with self._database.read_connection() as connection:
            return _counts(connection, wanted)

    def messages(
        self, session: Session, *, states: Collection[MessageState], after: int | None, limit: int, descending: bool
    ) -> list[Message]:
        """Return one page of messages."""
        if limit <= 0 or not states:
            return []
        ordinal = messages.c.ordinal
        statement = sa.select(*MESSAGE_COLUMNS).where(messages.c.session_row == session.row).limit(limit)
        if after is not None:
            statement = statement.where(ordinal < after if descending else ordinal > after)
        if set(states) == {MessageState.ACTIVE}:
            statement = statement.where(IS_LIVE_MESSAGE)
        elif len(states) < len(MessageState):
            statement = statement.where(messages.c.state.in_(sorted(state.value for state in states)))
        chosen = statement.order_by(ordinal.desc() if descending else ordinal).subquery()
        with self._database.snapshot() as connection:
            text = execute(connection, sa.select(rows_as_json(*chosen.c))).scalar_one()
            records = [record_from_row(row) for row in rows_of_text(text)]
            found = _memories(connection, [record.row for record in records])
        records.sort(key=lambda record: record.ordinal, reverse=descending)
        return [Message(record, found[record.row]) for record in records]


class SqlSessionWrites:
    """`memsvc.ports.features.SessionWrites`, on a connection that is in a transaction."""

    def __init__(
        self,
        connect: Callable[[], sa.Connection],
        allot: Callable[[], int],
        void_on_race: Callable[[], AbstractContextManager[None]],
        refuse_erased: Callable[[Iterable[str]], None],
    ) -> None:
        """Work on what *connect* returns: the connection, once all that waits is written.

        *allot* gives the next row, *void_on_race* watches over what may lose a race, *refuse_erased* refuses owners
        that are being erased.
        """
        self._refuse_erased = refuse_erased
        self._connect = connect
        self._allot = allot
        self._void_on_race = void_on_race

    def get(self, name: SessionName) -> Session | None:
        """Return the session of this name."""
        return _get(self._connection, name)

    def status(self, name: SessionName) -> SessionStatus | None:
        """Return a session as an append finds it."""
        place = {"owner": name.owner, "project_id": name.project_id, "id": name.session_id}
        row = execute(self._connection, _select_standing(), place).one_or_none()
        return None if row is None else SessionStatus(session_from_row(row[:-3]), row[-3], int(row[-2]), int(row[-1]))

    def active(self, owner: str, project_id: str) -> list[Session]:
        """Return the active sessions, the oldest first."""
        place = {"owner": owner, "project_id": project_id}
        return [session_from_row(row) for row in execute(self._connection, _select_active(), place)]

    def insert(self, session: Session) -> Session:
        """Insert a new session."""
        self._refuse_erased([session.scope.owner])
        row = self._allot()
        with self._void_on_race():
            insert_many(self._connection, sessions, [session_values(session, row)])
        return replace(session, row=row)

    def update(self, session: Session) -> None:
        """Replace a session."""
        values = session_values(session, session.row)
        changed = {name: value for name, value in values.items() if name in _CHANGEABLE}
        execute(self._connection, _update_session(), {"at_row": session.row, **changed})

    def append(self, session: Session, records: Sequence[MessageRecord]) -> None:
        """Add messages."""
        with self._void_on_race():
            insert_many(self._connection, messages, [message_values(session.row, record) for record in records])

    def counts(self, session: Session) -> SessionCounts:
        """Return the counts of one session."""
        return _counts(self._connection, [session])[session.row]

    def has_droppable(self, session: Session, *, before: int, keep_rounds: int) -> bool:
        """Return whether there is something to trim."""
        wanted = {"session": session.row, "before": before, "rounds": keep_rounds}
        return execute(self._connection, _select_droppable(), wanted).first() is not None

    def are_live(self, wanted: Sequence[Message]) -> bool:
        """Compare them with what is stored, by one number."""
        stored = pairs_parameter((one.memory.row, one.memory.revision) for one in wanted)
        found: int = execute(self._connection, _count_live(), {"wanted": stored}).scalar_one()
        return found == len(wanted)

    def add_tokens(self, row: int, tokens: int) -> None:
        """Count more or fewer tokens for a message."""
        execute(self._connection, _update_tokens(), {"at_row": row, "more": tokens})

    def set_summary(self, rows: Sequence[int], summary_id: str) -> None:
        """Note the summary of messages."""
        parameters = {"wanted": list_parameter(rows), "summary": summary_id}
        execute(self._connection, _update_summaries(), parameters)

    def messages_of(self, summary_id: str) -> list[Message]:
        """Return the messages that a memory sums up."""
        return _summed_up(self._connection, [summary_id]) if summary_id else []

    def note_extractions(self, extracted: Mapping[int, Sequence[ExtractedMemory]]) -> None:
        """Note the memories that were extracted from messages."""
        for row, found in extracted.items():
            execute(self._connection, _update_extracted(), {"at_row": row, "extracted": _plain_extracted(found)})

    @property
    def _connection(self) -> sa.Connection:
        return self._connect()


def _summed_up(connection: sa.Connection, summary_ids: Sequence[str]) -> list[Message]:
    rows = execute(connection, _select_messages_of(), {"wanted": list_parameter(summary_ids)})
    records = [record_from_row(row) for row in rows]
    found = _memories(connection, [record.row for record in records]) if records else {}
    return [Message(record, found[record.row]) for record in records]


def _get(connection: sa.Connection, name: SessionName) -> Session | None:
    place = {"owner": name.owner, "project_id": name.project_id, "id": name.session_id}
    row = execute(connection, _select_session(), place).one_or_none()
    return None if row is None else session_from_row(row)


def _memories(connection: sa.Connection, rows: Sequence[int]) -> dict[int, Memory]:
    wanted = {"wanted": list_parameter(rows)}
    text = execute(connection, _select_memories(), wanted).scalar_one()
    found = found_in(text, lambda: execute(connection, _select_doubtful(), wanted))
    return {row: memory for row, (memory, _) in found.items()}


def _counts(connection: sa.Connection, wanted: Sequence[Session]) -> dict[int, SessionCounts]:
    rows = list_parameter(session.row for session in wanted)
    found = execute(connection, _select_counts(), {"wanted": rows}).all()
    sums = {(row, state): (number, int(tokens)) for row, state, number, tokens in found}
    none = (0, 0)
    return {
        session.row: SessionCounts(
            *sums.get((session.row, MessageState.ACTIVE.value), none),
            *sums.get((session.row, MessageState.ARCHIVED.value), none),
        )
        for session in wanted
    }


def _at(*names: str) -> list[sa.ColumnElement[bool]]:
    return [sessions.c[name] == sa.bindparam(name) for name in names]


@cached_statement
def _select_session() -> sa.Select[Any]:
    return sa.select(*SESSION_COLUMNS).where(*_at("owner", "project_id", "id")).with_for_update()


@cached_statement
def _select_agents() -> sa.Select[Any]:
    columns = (sessions.c.id, sessions.c.agent_id)
    return sa.select(*columns).where(*_at("owner", "project_id"), in_json_list(sessions.c.id, "wanted"))


@cached_statement
def _select_active() -> sa.Select[Any]:
    is_active = sessions.c.state == SessionState.ACTIVE.value
    place = _at("owner", "project_id")
    return sa.select(*SESSION_COLUMNS).where(*place, is_active).order_by(sessions.c.row).with_for_update()


@cached_statement
def _update_session() -> sa.Update:
    values: dict[str, Any] = {name: sa.bindparam(name) for name in _CHANGEABLE}
    return sa.update(sessions).where(sessions.c.row == sa.bindparam("at_row")).values(values)


@cached_statement
def _select_counts() -> sa.Select[Any]:
    columns = (messages.c.session_row, messages.c.state)
    sums = (sa.func.count(), sa.func.sum(messages.c.token_count))
    wanted = in_json_list(messages.c.session_row, "wanted")
    return sa.select(*columns, *sums).where(wanted).group_by(*columns)


@cached_statement
def _select_memories() -> sa.Select[Any]:
    return sa.select(memories_as_json()).where(in_json_list(memories.c.row, "wanted"))


@cached_statement
def _select_doubtful() -> sa.Select[Any]:
    wanted = in_json_list(memories.c.row, "wanted")
    return sa.select(*DOUBTFUL_COLUMNS).where(wanted, IS_DOUBTFUL)


@cached_statement
def _select_standing() -> sa.Select[Any]:
    mine = messages.c.session_row == sessions.c.row
    kept = sa.select(messages.c.row).where(mine, messages.c.state != DELETED)
    newest = kept.order_by(messages.c.ordinal.desc()).limit(1).scalar_subquery()
    # By the index of states, which holds the numbers too: what is archived is not looked at.
    live = sa.select(sa.func.coalesce(sa.func.sum(messages.c.token_count), 0)).where(
        mine, messages.c.state == MessageState.ACTIVE.value
    )
    since = messages.c.ordinal > sessions.c.flushed_ordinal
    unflushed = sa.select(sa.func.coalesce(sa.func.sum(messages.c.token_count), 0)).where(mine, IS_LIVE_MESSAGE, since)
    columns = (*SESSION_COLUMNS, newest, live.scalar_subquery(), unflushed.scalar_subquery())
    return sa.select(*columns).where(*_at("owner", "project_id", "id"))


@cached_statement
def _count_live() -> sa.Select[Any]:
    wanted = pairs("wanted")
    row, revision = pair_of(wanted, NUMBER, NUMBER)
    stored = sa.join(wanted, memories, memories.c.row == row).join(messages, messages.c.row == memories.c.row)
    same = (memories.c.revision == revision, messages.c.state == MessageState.ACTIVE.value)
    return sa.select(sa.func.count()).select_from(stored).where(*same)


@cached_statement
def _select_droppable() -> sa.Select[Any]:
    before = sa.bindparam("before", type_=NUMBER)
    mine = messages.c.session_row == sa.bindparam("session")
    other = messages.alias("round")
    begins = (
        sa.select(other.c.ordinal)
        .where(other.c.session_row == sa.bindparam("session"), other.c.role == Role.USER.value)
        .where(other.c.state == ACTIVE)
        .order_by(other.c.ordinal.desc())
        .limit(sa.bindparam("rounds", type_=sa.Integer))
        .subquery()
    )
    first = sa.select(sa.func.coalesce(sa.func.min(begins.c.ordinal), before)).scalar_subquery()
    old = (messages.c.ordinal < before, messages.c.ordinal < first)
    free = (messages.c.is_pinned == 0, messages.c.role != Role.SYSTEM.value)
    return sa.select(messages.c.row).where(mine, *old, IS_LIVE_MESSAGE, *free).limit(1)


@cached_statement
def _update_tokens() -> sa.Update:
    counted = messages.c.token_count + sa.bindparam("more", type_=sa.Integer)
    at_least_none = sa.case((counted < 0, 0), else_=counted)
    return sa.update(messages).where(messages.c.row == sa.bindparam("at_row")).values(token_count=at_least_none)


@cached_statement
def _update_summaries() -> sa.Update:
    wanted = in_json_list(messages.c.row, "wanted")
    return sa.update(messages).where(wanted).values(summary_id=sa.bindparam("summary"))


@cached_statement
def _select_messages_of() -> sa.Select[Any]:
    wanted = (in_json_list(messages.c.summary_id, "wanted"), IS_SUMMARISED)
    return sa.select(*MESSAGE_COLUMNS).where(*wanted).order_by(messages.c.row)


@cached_statement
def _select_extracted() -> sa.Select[Any]:
    wanted = in_json_list(messages.c.row, "wanted")
    return sa.select(messages.c.row, messages.c.extracted).where(wanted, messages.c.extracted != _NONE_EXTRACTED)


@cached_statement
def _update_extracted() -> sa.Update:
    at_row = messages.c.row == sa.bindparam("at_row")
    return sa.update(messages).where(at_row).values(extracted=sa.bindparam("extracted"))


# Sessions and messages to rows and back.


def session_from_row(row: Row) -> Session:
    """Return the session in a row of `SESSION_COLUMNS`."""
    (
        number, owner, project_id, agent_id, session_id, title, state, auto_trim, metadata, token_limit,
        last_ordinal, trim_count, create_time, update_time, last_message_time, end_time, trim_time,
        flushed_ordinal,
    ) = row  # fmt: skip
    tenant_id, _, user_id = owner.partition(OWNER_SEPARATOR)
    return Session(
        scope=Scope(user_id, project_id, agent_id, session_id, tenant_id),
        create_time=moment_or_none(create_time) or EPOCH,
        update_time=moment_or_none(update_time) or EPOCH,
        token_limit=token_limit,
        row=number,
        title=title,
        state=SessionState(state),
        auto_trim=AutoTrim(auto_trim),
        metadata=json_value(metadata),
        last_ordinal=last_ordinal,
        trim_count=trim_count,
        last_message_time=moment_or_none(last_message_time),
        end_time=moment_or_none(end_time),
        trim_time=moment_or_none(trim_time),
        flushed_ordinal=flushed_ordinal,
    )


def session_values(session: Session, row: int) -> Values:
    """Return the value of every column of `sessions`, by name."""
    scope = session.scope
    return {
        "row": row,
        "token_limit": session.token_limit,
        "last_ordinal": session.last_ordinal,
        "trim_count": session.trim_count,
        "flushed_ordinal": session.flushed_ordinal,
        "create_time": to_micros(session.create_time),
        "update_time": to_micros(session.update_time),
        "last_message_time": micros_or_none(session.last_message_time),
        "end_time": micros_or_none(session.end_time),
        "trim_time": micros_or_none(session.trim_time),
        "state": session.state.value,
        "auto_trim": session.auto_trim.value,
        "owner": scope.owner,
        "project_id": scope.project_id,
        "id": scope.session_id,
        "agent_id": scope.agent_id,
        "title": session.title,
        "metadata": json_text(dict(session.metadata)),
    }


def record_from_row(row: Row) -> MessageRecord:
    """Return what is kept of a message in a row of `MESSAGE_COLUMNS`."""
    (
        number, ordinal, role, token_count, state, is_pinned, has_content, tool_calls, tool_call_id, summary_id,
        extracted,
    ) = row  # fmt: skip
    return MessageRecord(
        row=number,
        ordinal=ordinal,
        role=Role(role),
        token_count=token_count,
        state=MessageState(state),
        is_pinned=bool(is_pinned),
        has_content=bool(has_content),
        tool_calls=tuple(_tool_call(*call) for call in json_value(tool_calls)),
        tool_call_id=tool_call_id,
        summary_id=summary_id,
        extracted=_extractions_from(extracted),
    )


def message_values(session_row: int, record: MessageRecord) -> Values:
    """Return the value of every column of `messages`, by name."""
    return {
        "row": record.row,
        "session_row": session_row,
        "ordinal": record.ordinal,
        "token_count": record.token_count,
        "is_pinned": int(record.is_pinned),
        "has_content": int(record.has_content),
        "state": record.state.value,
        "role": record.role.value,
        "tool_call_id": record.tool_call_id,
        "summary_id": record.summary_id,
        "tool_calls": json_text(_plain_calls(record.tool_calls)),
        "extracted": _plain_extracted(record.extracted),
    }


def _plain_extracted(extracted: Sequence[ExtractedMemory]) -> str:
    return json_text([(one.memory_id, one.content_hash) for one in extracted])


def _extractions_from(text: str) -> tuple[ExtractedMemory, ...]:
    if text == _NONE_EXTRACTED:
        return ()
    return tuple(ExtractedMemory(memory_id, content_hash) for memory_id, content_hash in json_value(text))


def _plain_calls(calls: Sequence[ToolCall]) -> list[tuple[object, ...]]:
    return [
        (call.id, call.name, dict(call.arguments), [(ref.category, ref.id) for ref in call.file_refs]) for call in calls
    ]


def _tool_call(call_id: str, name: str, arguments: Mapping[str, Json], refs: Sequence[Sequence[str]]) -> ToolCall:
    return ToolCall(call_id, name, arguments, tuple(FileRef(category, ref_id) for category, ref_id in refs))
