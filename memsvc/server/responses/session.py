"""Responses of SessionService."""

from __future__ import annotations

from memsvc.domain.sessions import CountedSession, Message, MessageState
from memsvc.engine.sessions.append import AppendResult, PopResult
from memsvc.engine.sessions.serialization import SessionResult
from memsvc.engine.sessions.service import EndedSession, SessionChange
from memsvc.engine.sessions.trim import TrimResult
from memsvc.server.enums import AUTO_TRIM, DECIDER, ROLE, SESSION_STATE
from memsvc.server.responses.memories import (
    file_ref_to_proto,
    fill_memory,
    fill_scope,
    fill_time,
    redactions_to_proto,
    struct_to_proto,
)
from memsvc.server.responses.memory import flush_result_to_proto
from memsvc.server.tokens import consistency_token
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb

MAX_TOKENS = (1 << 31) - 1
"""The largest sum of tokens in a response; clients give the tokens of messages."""
_TIMES = ("create_time", "update_time", "last_message_time", "end_time", "trim_time")


def session_to_proto(counted: CountedSession) -> session_pb.Session:
    """Return a session as a message."""
    session, counts = counted.session, counted.counts
    message = session_pb.Session(
        title=session.title,
        state=SESSION_STATE.to_proto[session.state],
        token_limit=session.token_limit,
        token_count=_sum_of_tokens(counts.live_tokens),
        usage_ratio=counts.live_tokens / session.token_limit,
        message_count=counts.live_messages,
        archived_message_count=counts.archived_messages,
        archived_token_count=_sum_of_tokens(counts.archived_tokens),
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


def message_to_proto(stored: Message) -> types_pb.ChatMessage:
    """Return a stored message of a session."""
    record, memory = stored.record, stored.memory
    message = types_pb.ChatMessage(
        memory_id=memory.id,
        ordinal=record.ordinal,
        role=ROLE.to_proto[record.role],
        content=memory.content if record.has_content else "",
        speaker=memory.speaker,
        tool_call_id=record.tool_call_id,
        token_count=record.token_count,
        archived=record.state is MessageState.ARCHIVED,
        pinned=record.is_pinned,
        summary_id=record.summary_id if record.state is MessageState.ARCHIVED else "",
        extracted_ids=dict.fromkeys(one.memory_id for one in record.extracted),
    )
    for call in record.tool_calls:
        told = message.tool_calls.add(id=call.id, name=call.name, arguments=struct_to_proto(call.arguments))
        told.file_refs.extend(map(file_ref_to_proto, call.file_refs))
    fill_time(message.create_time, memory.create_time)
    if memory.event_time is not None:
        fill_time(message.event_time, memory.event_time)
    if memory.metadata:
        message.metadata.CopyFrom(struct_to_proto(memory.metadata))
    return message


def append_messages_response(answer: SessionResult[AppendResult]) -> session_pb.AppendMessagesResponse:
    """Return the places of appended messages."""
    appended = answer.value
    response = session_pb.AppendMessagesResponse(
        token_count=_sum_of_tokens(appended.live_tokens),
        token_limit=appended.token_limit,
        trimming=appended.is_full,
        consistency_token=consistency_token(answer.position),
    )
    for one in appended.messages:
        response.messages.add(memory_id=one.memory_id, ordinal=one.ordinal, token_count=one.token_count)
    return response


def pop_messages_response(answer: SessionResult[PopResult]) -> session_pb.PopMessagesResponse:
    """Return the removed messages."""
    return session_pb.PopMessagesResponse(
        messages=[message_to_proto(message) for message in answer.value.messages],
        token_count=_sum_of_tokens(answer.value.live_tokens),
        consistency_token=consistency_token(answer.position),
    )


def trim_session_response(answer: SessionResult[TrimResult]) -> session_pb.TrimSessionResponse:
    """Return the messages and tokens that were archived, and their summary."""
    trimmed = answer.value
    response = session_pb.TrimSessionResponse(
        archived_message_count=trimmed.archived_messages,
        archived_token_count=_sum_of_tokens(trimmed.archived_tokens),
        token_count=_sum_of_tokens(trimmed.live_tokens),
        target_tokens=trimmed.target_tokens or 0,
        notice=trimmed.notice,
        consistency_token=consistency_token(answer.position),
    )
    if trimmed.summary is not None:
        fill_memory(response.summary, trimmed.summary)
    return response


def create_session_response(opened: SessionChange) -> session_pb.CreateSessionResponse:
    """Return the opened session, and the sessions that were archived for it."""
    return session_pb.CreateSessionResponse(
        session=session_to_proto(opened.session),
        archived=map(_session_flush_to_proto, opened.ended),
        consistency_token=consistency_token(opened.position),
    )


def close_session_response(closed: SessionChange) -> session_pb.CloseSessionResponse:
    """Return the closed session, and the memories extracted from it."""
    response = session_pb.CloseSessionResponse(
        session=session_to_proto(closed.session), consistency_token=consistency_token(closed.position)
    )
    for ended in closed.ended:
        response.flush.CopyFrom(_session_flush_to_proto(ended))
    return response


def reopen_session_response(reopened: SessionChange) -> session_pb.ReopenSessionResponse:
    """Return the reopened session, and the sessions that were archived for it."""
    return session_pb.ReopenSessionResponse(
        session=session_to_proto(reopened.session),
        archived=map(_session_flush_to_proto, reopened.ended),
        consistency_token=consistency_token(reopened.position),
    )


def _session_flush_to_proto(ended: EndedSession) -> session_pb.SessionFlush:
    message = session_pb.SessionFlush(session_id=ended.session_id, notice=ended.notice, incomplete=ended.is_incomplete)
    flushed = ended.flushed
    if flushed is not None:
        message.results.extend(map(flush_result_to_proto, flushed.written))
        message.redactions.extend(redactions_to_proto(flushed.redactions))
        message.ignored_count = flushed.ignored
        message.recalled_count = flushed.recalled
        message.decider = DECIDER.to_proto[flushed.decider]
        message.notice = message.notice or flushed.notice
    return message


def _sum_of_tokens(tokens: int) -> int:
    return min(tokens, MAX_TOKENS)
