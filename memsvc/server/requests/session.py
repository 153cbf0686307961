"""Requests of SessionService, decoded and checked."""

from __future__ import annotations

from dataclasses import dataclass

from memsvc.domain import limits
from memsvc.domain.capture import ChatMessage
from memsvc.domain.scope import Scope
from memsvc.domain.sessions import MessageState, NewMessage, OnOpen, Role, SessionState, ToolCall
from memsvc.domain.write_requests import WaitFor
from memsvc.engine.sessions.service import MessagePage, NewSession
from memsvc.engine.sessions.trim import TrimRequest
from memsvc.server.enums import AUTO_TRIM, ON_OPEN, ROLE, SESSION_STATE
from memsvc.server.requests.decoder import RequestDecoder
from memsvc.server.requests.memory_fields import decode_file_refs
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb

_LIVE = frozenset({MessageState.ACTIVE})
_LIVE_OR_ARCHIVED = frozenset({MessageState.ACTIVE, MessageState.ARCHIVED})


@dataclass(frozen=True, slots=True)
class CreateSession:
    """A session to open."""

    scope: Scope
    session: NewSession
    request_id: str
    wait_for: WaitFor


def create_session_request(message: session_pb.CreateSessionRequest) -> CreateSession:
    """Return the session to open."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope)
    least, most = limits.TOKEN_LIMIT_MIN, limits.TOKEN_LIMIT_MAX
    session = NewSession(
        title=decoder.text("title", message.title, most=limits.TITLE),
        token_limit=decoder.integer("token_limit", message.token_limit, least=least, most=most) or None,
        auto_trim=decoder.enum("auto_trim", message.auto_trim, AUTO_TRIM, None),
        on_open=decoder.enum("on_open", message.on_open, ON_OPEN, None),
        metadata=decoder.metadata("metadata", message.metadata),
        flush=_optional_flush(message),
    )
    request_id = decoder.request_id(message.request_id)
    wait_for = decoder.wait_for(message.wait_for, WaitFor.STORED)
    decoder.finish()
    return CreateSession(scope, session, request_id, wait_for)


@dataclass(frozen=True, slots=True)
class AppendMessages:
    """Messages to append to a session."""

    scope: Scope
    messages: tuple[NewMessage, ...]
    request_id: str
    wait_for: WaitFor


def append_messages_request(message: session_pb.AppendMessagesRequest) -> AppendMessages:
    """Return the messages to append."""
    decoder = RequestDecoder()
    scope = _session_scope(decoder, message.scope)
    decoder.count("messages", message.messages, least=1, most=limits.MESSAGES)
    messages = tuple(
        _new_message(decoder, f"messages[{index}]", one)
        for index, one in enumerate(message.messages[: limits.MESSAGES])
    )
    request_id = decoder.request_id(message.request_id)
    wait_for = decoder.wait_for(message.wait_for, WaitFor.STORED)
    decoder.finish()
    return AppendMessages(scope, messages, request_id, wait_for)


def get_session_request(message: session_pb.GetSessionRequest) -> Scope:
    """Return the scope of the session to read."""
    decoder = RequestDecoder()
    scope = _session_scope(decoder, message.scope)
    decoder.finish()
    return scope


@dataclass(frozen=True, slots=True)
class ListSessions:
    """One page of the sessions of a project; *before* is the row of the last session of the page before."""

    scope: Scope
    states: frozenset[SessionState]
    before: int | None
    limit: int


def list_sessions_request(message: session_pb.ListSessionsRequest) -> ListSessions:
    """Return the page to list."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope)
    states = decoder.enums("states", message.states, SESSION_STATE.from_proto, count=len(SESSION_STATE.from_proto))
    limit = decoder.page_size(message.page_size)
    before = _row_before(decoder, message)
    decoder.finish()
    return ListSessions(scope, frozenset(states) or frozenset(SessionState), before, limit)


def list_messages_request(message: session_pb.ListMessagesRequest) -> tuple[Scope, MessagePage]:
    """Return the scope of a session, and the page of its messages to list."""
    decoder = RequestDecoder()
    scope = _session_scope(decoder, message.scope)
    limit = decoder.page_size(message.page_size)
    states = _LIVE_OR_ARCHIVED if message.include_archived else _LIVE
    page = MessagePage(states, _row_before(decoder, message), limit, descending=message.newest_first)
    decoder.finish()
    return scope, page


@dataclass(frozen=True, slots=True)
class PopMessages:
    """Messages to remove from the end of a session."""

    scope: Scope
    count: int
    request_id: str
    wait_for: WaitFor


def pop_messages_request(message: session_pb.PopMessagesRequest) -> PopMessages:
    """Return the session, and how many messages to remove."""
    decoder = RequestDecoder()
    scope = _session_scope(decoder, message.scope)
    count = decoder.integer("count", message.count, least=1, most=limits.MESSAGES, default=1)
    request_id = decoder.request_id(message.request_id)
    wait_for = decoder.wait_for(message.wait_for, WaitFor.STORED)
    decoder.finish()
    return PopMessages(scope, count, request_id, wait_for)


def clear_messages_request(message: session_pb.ClearMessagesRequest) -> tuple[Scope, WaitFor]:
    """Return the session to clear."""
    decoder = RequestDecoder()
    scope = _session_scope(decoder, message.scope)
    wait_for = decoder.wait_for(message.wait_for, WaitFor.STORED)
    decoder.finish()
    return scope, wait_for


@dataclass(frozen=True, slots=True)
class TrimSession:
    """A session to trim."""

    scope: Scope
    trim: TrimRequest
    request_id: str
    wait_for: WaitFor


def trim_session_request(message: session_pb.TrimSessionRequest) -> TrimSession:
    """Return the session to trim, and how far."""
    decoder = RequestDecoder()
    scope = _session_scope(decoder, message.scope)
    trim = TrimRequest(
        target_tokens=_optional_bound(decoder, "target_tokens", message, most=limits.TOKEN_LIMIT_MAX),
        keep_rounds=_optional_bound(decoder, "keep_rounds", message, most=limits.KEEP_ROUNDS_MAX),
    )
    request_id = decoder.request_id(message.request_id)
    wait_for = decoder.wait_for(message.wait_for, WaitFor.STORED)
    decoder.finish()
    return TrimSession(scope, trim, request_id, wait_for)


@dataclass(frozen=True, slots=True)
class CloseSession:
    """A session to close; without *flush* the setting decides."""

    scope: Scope
    flush: bool | None
    request_id: str
    wait_for: WaitFor


def close_session_request(message: session_pb.CloseSessionRequest) -> CloseSession:
    """Return the session to close."""
    decoder = RequestDecoder()
    scope = _session_scope(decoder, message.scope)
    request_id = decoder.request_id(message.request_id)
    wait_for = decoder.wait_for(message.wait_for, WaitFor.STORED)
    decoder.finish()
    return CloseSession(scope, _optional_flush(message), request_id, wait_for)


@dataclass(frozen=True, slots=True)
class ReopenSession:
    """A session to reopen; without *on_open* and *flush* the settings decide."""

    scope: Scope
    on_open: OnOpen | None
    flush: bool | None
    request_id: str
    wait_for: WaitFor


def reopen_session_request(message: session_pb.ReopenSessionRequest) -> ReopenSession:
    """Return the session to reopen."""
    decoder = RequestDecoder()
    scope = _session_scope(decoder, message.scope)
    on_open = decoder.enum("on_open", message.on_open, ON_OPEN, None)
    request_id = decoder.request_id(message.request_id)
    wait_for = decoder.wait_for(message.wait_for, WaitFor.STORED)
    decoder.finish()
    return ReopenSession(scope, on_open, _optional_flush(message), request_id, wait_for)


def _optional_flush(
    message: session_pb.CreateSessionRequest | session_pb.CloseSessionRequest | session_pb.ReopenSessionRequest,
) -> bool | None:
    return message.flush if message.HasField("flush") else None


def _session_scope(decoder: RequestDecoder, message: types_pb.Scope) -> Scope:
    scope = decoder.scope(message)
    if not message.session_id:
        decoder.add("scope.session_id", "must be set: it names the session")
    return scope


def _row_before(
    decoder: RequestDecoder, message: session_pb.ListSessionsRequest | session_pb.ListMessagesRequest
) -> int | None:
    cursor = decoder.list_cursor(message)
    return None if cursor is None else cursor.row


def _optional_bound(
    decoder: RequestDecoder, field: str, message: session_pb.TrimSessionRequest, *, most: int
) -> int | None:
    if not message.HasField(field):  # type: ignore[arg-type] # the name of an optional number
        return None
    value: int = getattr(message, field)
    if not 0 <= value <= most:
        decoder.add(field, f"must be 0 to {most}, or unset for the default")
    return value


def _new_message(decoder: RequestDecoder, field: str, message: types_pb.ChatMessage) -> NewMessage:
    if not message.role:
        decoder.add(f"{field}.role", "must be SYSTEM, USER, ASSISTANT or TOOL")
    if message.tool_calls and message.role != types_pb.MESSAGE_ROLE_ASSISTANT:
        decoder.add(f"{field}.tool_calls", "must be given with the role ASSISTANT only")
    if message.tool_call_id and message.role != types_pb.MESSAGE_ROLE_TOOL:
        decoder.add(f"{field}.tool_call_id", "must be given with the role TOOL only")
    said = decode_chat_message(decoder, field, message, least=0 if message.tool_calls else 1)
    most = limits.MESSAGE_TOKENS
    tokens = decoder.integer(f"{field}.token_count", message.token_count, least=1, most=most, zero="to have it counted")
    return NewMessage(
        role=said.role,
        content=said.content,
        speaker=said.speaker,
        tool_calls=said.tool_calls,
        tool_call_id=decoder.name(f"{field}.tool_call_id", message.tool_call_id, most=limits.SCOPE_ID),
        token_count=tokens or None,
        event_time=said.event_time,
        metadata=decoder.metadata(f"{field}.metadata", message.metadata) or None,
        is_pinned=message.pinned,
    )


# Chat messages: of sessions, and of what FlushMessages and CaptureMemory read.


def decode_chat_message(
    decoder: RequestDecoder, field: str, message: types_pb.ChatMessage, *, least: int = 0
) -> ChatMessage:
    """Return a message whose content has at least *least* characters; without a role it is the user's."""
    decoder.count(f"{field}.tool_calls", message.tool_calls, most=limits.TOOL_CALLS)
    return ChatMessage(
        role=decoder.enum(f"{field}.role", message.role, ROLE, Role.USER),
        content=decoder.text(f"{field}.content", message.content, least=least, most=limits.SPOKEN),
        speaker=decoder.name(f"{field}.speaker", message.speaker, most=limits.SPEAKER),
        event_time=decoder.optional_time(f"{field}.event_time", message, "event_time"),
        tool_calls=tuple(
            _tool_call(decoder, f"{field}.tool_calls[{index}]", call)
            for index, call in enumerate(message.tool_calls[: limits.TOOL_CALLS])
        ),
    )


def _tool_call(decoder: RequestDecoder, field: str, call: types_pb.ToolCall) -> ToolCall:
    decoder.count(f"{field}.file_refs", call.file_refs, most=limits.FILE_REFS)
    return ToolCall(
        id=decoder.name(f"{field}.id", call.id, most=limits.SCOPE_ID),
        name=decoder.name(f"{field}.name", call.name, most=limits.TOOL_NAME, least=1),
        arguments=decoder.metadata(f"{field}.arguments", call.arguments),
        file_refs=decode_file_refs(decoder, f"{field}.file_refs", call.file_refs[: limits.FILE_REFS]),
    )
