"""Sessions and their messages, in both directions."""

from __future__ import annotations

from collections.abc import Iterable

from memsvc.domain.search import PageCursor
from memsvc.domain.sessions import CountedSession, Message, MessageState, NewMessage, SessionState, ToolCall
from memsvc.engine.sessions.append import Appended
from memsvc.engine.sessions.serialization import Answer
from memsvc.engine.sessions.service import MessagePage, NewSession
from memsvc.engine.sessions.trim import Trimmed, TrimRequest
from memsvc.server.convert import tokens
from memsvc.server.convert.enums import AUTO_TRIM, ON_OPEN, ROLE, SESSION_STATE
from memsvc.server.convert.json import struct_from_proto, struct_to_proto
from memsvc.server.convert.memory import fill_memory, fill_scope
from memsvc.server.convert.times import fill_time, time_from_proto
from memsvc.v1 import session_service_pb2 as pb

_KEPT = frozenset({MessageState.ACTIVE, MessageState.ARCHIVED})
_LIVE = frozenset({MessageState.ACTIVE})
_TIMES = ("create_time", "update_time", "last_message_time", "end_time", "trim_time")


def new_session_from_proto(request: pb.CreateSessionRequest) -> NewSession:
    """Return the session that is to be opened."""
    return NewSession(
        title=request.title,
        token_limit=request.token_limit or None,
        on_open=ON_OPEN.optional(request.on_open),
        auto_trim=AUTO_TRIM.optional(request.auto_trim),
        metadata=struct_from_proto(request.metadata),
    )


def new_messages_from_proto(messages: Iterable[pb.NewMessage]) -> tuple[NewMessage, ...]:
    """Return the messages that are to be appended."""
    return tuple(_new_message_from_proto(message) for message in messages)


def states_from_proto(states: Iterable[int]) -> frozenset[SessionState]:
    """Return the states to list; none given: all."""
    return frozenset(SESSION_STATE.from_proto[number] for number in states) or frozenset(SessionState)


def message_page_from_proto(request: pb.ListMessagesRequest, after: PageCursor | None, limit: int) -> MessagePage:
    """Return which messages to read."""
    states = _KEPT if request.include_archived else _LIVE
    return MessagePage(states, None if after is None else after.row, limit, descending=request.newest_first)


def trim_order_from_proto(request: pb.TrimSessionRequest) -> TrimRequest:
    """Return how to trim."""
    return TrimRequest(
        target_tokens=request.target_tokens if request.HasField("target_tokens") else None,
        keep_rounds=request.keep_rounds if request.HasField("keep_rounds") else None,
    )


def session_to_proto(counted: CountedSession) -> pb.Session:
    """Return the session as replies show it."""
    session, counts = counted.session, counted.counts
    message = pb.Session(
        title=session.title,
        state=SESSION_STATE.to_proto[session.state],
        token_limit=session.token_limit,
        token_count=counts.live_tokens,
        usage_ratio=counts.live_tokens / session.token_limit,
        message_count=counts.live_messages,
        archived_message_count=counts.archived_messages,
        archived_token_count=counts.archived_tokens,
        trim_count=session.trim_count,
        flushed_ordinal=session.flushed_ordinal,
        auto_trim=AUTO_TRIM.to_proto[session.auto_trim],
    )
    fill_scope(message.scope, session.scope)
    if session.metadata:
        message.metadata.CopyFrom(struct_to_proto(session.metadata))
    for name in _TIMES:
        moment = getattr(session, name)
        if moment is not None:
            fill_time(getattr(message, name), moment)
    return message


def message_to_proto(stored: Message) -> pb.Message:
    """Return the message as replies show it."""
    record, memory = stored.record, stored.memory
    message = pb.Message(
        memory_id=memory.id,
        ordinal=record.ordinal,
        role=ROLE.to_proto[record.role],
        content=memory.content if record.has_content else "",
        name=memory.speaker,
        tool_call_id=record.tool_call_id,
        token_count=record.token_count,
        archived=record.state is MessageState.ARCHIVED,
        pinned=record.is_pinned,
        summary_id=record.summary_id if record.state is MessageState.ARCHIVED else "",
    )
    for call in record.tool_calls:
        message.tool_calls.add(id=call.id, name=call.name, arguments=struct_to_proto(call.arguments))
    fill_time(message.create_time, memory.create_time)
    if memory.event_time is not None:
        fill_time(message.time, memory.event_time)
    if memory.metadata:
        message.metadata.CopyFrom(struct_to_proto(memory.metadata))
    return message


def appended_to_proto(answer: Answer[Appended]) -> pb.AppendMessagesResponse:
    """Return where messages went."""
    appended = answer.value
    response = pb.AppendMessagesResponse(
        token_count=appended.live_tokens,
        token_limit=appended.token_limit,
        trimming=appended.is_full,
        consistency_token=tokens.consistency_token(answer.position),
    )
    for one in appended.messages:
        response.messages.add(memory_id=one.memory_id, ordinal=one.ordinal, token_count=one.token_count)
    return response


def trimmed_to_proto(answer: Answer[Trimmed]) -> pb.TrimSessionResponse:
    """Return what was trimmed."""
    trimmed = answer.value
    response = pb.TrimSessionResponse(
        archived_message_count=trimmed.archived_messages,
        archived_token_count=trimmed.archived_tokens,
        token_count=trimmed.live_tokens,
        consistency_token=tokens.consistency_token(answer.position),
    )
    if trimmed.summary is not None:
        fill_memory(response.summary, trimmed.summary)
    return response


def _new_message_from_proto(message: pb.NewMessage) -> NewMessage:
    return NewMessage(
        role=ROLE.from_proto[message.role],
        content=message.content,
        name=message.name,
        tool_calls=tuple(
            ToolCall(call.id, call.name, struct_from_proto(call.arguments)) for call in message.tool_calls
        ),
        tool_call_id=message.tool_call_id,
        token_count=message.token_count or None,
        event_time=time_from_proto(message.time) if message.HasField("time") else None,
        is_pinned=message.pinned,
        metadata=struct_from_proto(message.metadata) or None,
    )
