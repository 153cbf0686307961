"""Rules for the requests about sessions."""

from __future__ import annotations

from google.protobuf.message import Message

from memsvc.domain import limits
from memsvc.server.convert.enums import AUTO_TRIM, ON_OPEN, ROLE, SESSION_STATE, WAIT_FOR
from memsvc.server.validate.metadata import check_metadata
from memsvc.server.validate.scopes import check_request_id, check_scope
from memsvc.server.validate.values import (
    check_count,
    check_enum,
    check_enums,
    check_integer,
    check_name,
    check_text,
    check_time,
)
from memsvc.server.validate.violations import Violations
from memsvc.v1 import session_service_pb2 as pb
from memsvc.v1 import types_pb2 as types


def check_create(request: pb.CreateSessionRequest) -> None:
    """Check a request to open a session."""
    found = Violations()
    check_scope(found, request.scope)
    check_text(found, "title", request.title, most=limits.TITLE)
    check_integer(found, "token_limit", request.token_limit, least=limits.TOKEN_LIMIT_MIN, most=limits.TOKEN_LIMIT_MAX)
    check_enum(found, "auto_trim", request.auto_trim, AUTO_TRIM.from_proto)
    check_enum(found, "on_open", request.on_open, ON_OPEN.from_proto)
    if request.HasField("metadata"):
        check_metadata(found, "metadata", request.metadata)
    check_request_id(found, request.request_id)
    found.finish()


def check_append(request: pb.AppendMessagesRequest) -> None:
    """Check a request to append messages."""
    found = Violations()
    _check_named(found, request.scope)
    check_count(found, "messages", request.messages, least=1, most=limits.MESSAGES)
    for index, message in enumerate(request.messages[: limits.MESSAGES]):
        _check_message(found, f"messages[{index}]", message)
    check_request_id(found, request.request_id)
    check_enum(found, "wait_for", request.wait_for, WAIT_FOR.from_proto)
    found.finish()


def check_get(request: pb.GetSessionRequest) -> None:
    """Check a request for one session."""
    found = Violations()
    _check_named(found, request.scope)
    found.finish()


def check_list(request: pb.ListSessionsRequest) -> None:
    """Check a request for a page of sessions, but for its token."""
    found = Violations()
    check_scope(found, request.scope)
    check_enums(found, "states", request.states, SESSION_STATE.from_proto, count=len(SESSION_STATE.from_proto))
    check_integer(found, "page_size", request.page_size, least=1, most=limits.PAGE_SIZE)
    found.finish()


def check_list_messages(request: pb.ListMessagesRequest) -> None:
    """Check a request for a page of messages, but for its token."""
    found = Violations()
    _check_named(found, request.scope)
    check_integer(found, "page_size", request.page_size, least=1, most=limits.PAGE_SIZE)
    found.finish()


def check_trim(request: pb.TrimSessionRequest) -> None:
    """Check a request to trim a session."""
    found = Violations()
    _check_named(found, request.scope)
    _check_bound(found, "target_tokens", request, most=limits.TOKEN_LIMIT_MAX)
    _check_bound(found, "keep_rounds", request, most=limits.KEEP_ROUNDS_MAX)
    check_request_id(found, request.request_id)
    check_enum(found, "wait_for", request.wait_for, WAIT_FOR.from_proto)
    found.finish()


def check_close(request: pb.CloseSessionRequest) -> None:
    """Check a request to end a session."""
    found = Violations()
    _check_named(found, request.scope)
    check_request_id(found, request.request_id)
    found.finish()


def check_reopen(request: pb.ReopenSessionRequest) -> None:
    """Check a request to go on with a session."""
    found = Violations()
    _check_named(found, request.scope)
    check_enum(found, "on_open", request.on_open, ON_OPEN.from_proto)
    check_request_id(found, request.request_id)
    found.finish()


def _check_named(found: Violations, scope: types.Scope) -> None:
    check_scope(found, scope)
    if not scope.session_id:
        found.add("scope.session_id", "must be set: it names the session")


def _check_bound(found: Violations, field: str, request: Message, *, most: int) -> None:
    if request.HasField(field) and not 0 <= getattr(request, field) <= most:
        found.add(field, f"must be 0 to {most}, or be left out for the default")


def _check_message(found: Violations, field: str, message: pb.NewMessage) -> None:
    if message.role not in ROLE.from_proto:
        found.add(f"{field}.role", "must be SYSTEM, USER, ASSISTANT or TOOL")
    least = 0 if message.tool_calls else 1
    check_text(found, f"{field}.content", message.content, least=least, most=limits.MESSAGE)
    check_name(found, f"{field}.name", message.name, most=limits.SPEAKER)
    _check_tools(found, field, message)
    check_integer(found, f"{field}.token_count", message.token_count, least=1, most=limits.MESSAGE_TOKENS)
    if message.HasField("time"):
        check_time(found, f"{field}.time", message.time)
    if message.HasField("metadata"):
        check_metadata(found, f"{field}.metadata", message.metadata)


def _check_tools(found: Violations, field: str, message: pb.NewMessage) -> None:
    check_count(found, f"{field}.tool_calls", message.tool_calls, most=limits.TOOL_CALLS)
    if message.tool_calls and message.role != types.MESSAGE_ROLE_ASSISTANT:
        found.add(f"{field}.tool_calls", "must be given with the role ASSISTANT only")
    for index, call in enumerate(message.tool_calls[: limits.TOOL_CALLS]):
        path = f"{field}.tool_calls[{index}]"
        check_name(found, f"{path}.id", call.id, most=limits.SCOPE_ID)
        check_name(found, f"{path}.name", call.name, most=limits.TOOL_NAME, least=1)
        if call.HasField("arguments"):
            check_metadata(found, f"{path}.arguments", call.arguments)
    check_name(found, f"{field}.tool_call_id", message.tool_call_id, most=limits.SCOPE_ID)
    if message.tool_call_id and message.role != types.MESSAGE_ROLE_TOOL:
        found.add(f"{field}.tool_call_id", "must be given with the role TOOL only")
