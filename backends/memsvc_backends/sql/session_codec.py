"""Sessions and messages to rows and back."""

from __future__ import annotations

from collections.abc import Sequence

from memsvc.domain.clock import EPOCH, to_micros
from memsvc.domain.scope import OWNER_SEPARATOR, Scope
from memsvc.domain.sessions import (
    AutoTrim,
    MessageRecord,
    MessageState,
    Role,
    Session,
    SessionState,
    ToolCall,
)
from memsvc_backends.sql.jsontext import json_text, json_value
from memsvc_backends.sql.memory_codec import Row, Values, micros_or_none, moment_or_none
from memsvc_backends.sql.tables import messages, sessions

_SESSION_NAMES = (
    "row", "owner", "project_id", "agent_id", "id", "title", "state", "auto_trim", "metadata", "token_limit",
    "last_ordinal", "trim_count", "create_time", "update_time", "last_message_time", "end_time", "trim_time",
    "flushed_ordinal",
)  # fmt: skip
SESSION_COLUMNS = tuple(sessions.c[name] for name in _SESSION_NAMES)
"""What `session_from_row` reads, in this order."""

_MESSAGE_NAMES = (
    "row", "ordinal", "role", "token_count", "state", "is_pinned", "has_content", "tool_calls", "tool_call_id",
    "summary_id",
)  # fmt: skip
MESSAGE_COLUMNS = tuple(messages.c[name] for name in _MESSAGE_NAMES)
"""What `record_from_row` reads, in this order."""


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
    ) = row  # fmt: skip
    return MessageRecord(
        row=number,
        ordinal=ordinal,
        role=Role(role),
        token_count=token_count,
        state=MessageState(state),
        is_pinned=bool(is_pinned),
        has_content=bool(has_content),
        tool_calls=tuple(ToolCall(*call) for call in json_value(tool_calls)),
        tool_call_id=tool_call_id,
        summary_id=summary_id,
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
    }


def _plain_calls(calls: Sequence[ToolCall]) -> list[tuple[str, str, object]]:
    return [(call.id, call.name, dict(call.arguments)) for call in calls]
