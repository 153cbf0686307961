"""The calls about sessions that several tests make, in short."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import TIMEOUT
from tests.support.server_process import Stubs

SYSTEM, USER, ASSISTANT, TOOL = 1, 2, 3, 4
ACTIVE, CLOSED, ARCHIVED = 1, 2, 3


def place(user: str, session: str = "s", project: str = "") -> types_pb.Scope:
    """Return the scope of a session."""
    return types_pb.Scope(user_id=user, project_id=project, session_id=session)


def say(content: str, role: int = USER, **fields: Any) -> types_pb.ChatMessage:
    """Return a message."""
    return types_pb.ChatMessage(role=role, content=content, **fields)


def open_session(stubs: Stubs, scope: types_pb.Scope, **fields: Any) -> session_pb.Session:
    """Open a session."""
    return stubs.session.CreateSession(session_pb.CreateSessionRequest(scope=scope, **fields), timeout=TIMEOUT).session


def append(
    stubs: Stubs, scope: types_pb.Scope, messages: Sequence[types_pb.ChatMessage | str], **fields: Any
) -> session_pb.AppendMessagesResponse:
    """Append messages; plain texts are the user's."""
    given = [say(one) if isinstance(one, str) else one for one in messages]
    request = session_pb.AppendMessagesRequest(scope=scope, messages=given, **fields)
    return stubs.session.AppendMessages(request, timeout=TIMEOUT)


def show(stubs: Stubs, scope: types_pb.Scope) -> session_pb.Session:
    """Return a session."""
    return stubs.session.GetSession(session_pb.GetSessionRequest(scope=scope), timeout=TIMEOUT).session


def listed(stubs: Stubs, scope: types_pb.Scope, **fields: Any) -> list[session_pb.Session]:
    """Return all sessions of a list, page by page."""
    found: list[session_pb.Session] = []
    token = ""
    while True:
        request = session_pb.ListSessionsRequest(scope=scope, page_token=token, **fields)
        page = stubs.session.ListSessions(request, timeout=TIMEOUT)
        found.extend(page.sessions)
        token = page.next_page_token
        if not token:
            return found


def said(stubs: Stubs, scope: types_pb.Scope, **fields: Any) -> list[types_pb.ChatMessage]:
    """Return all messages of a session, page by page."""
    found: list[types_pb.ChatMessage] = []
    token = ""
    while True:
        request = session_pb.ListMessagesRequest(scope=scope, page_token=token, **fields)
        page = stubs.session.ListMessages(request, timeout=TIMEOUT)
        found.extend(page.messages)
        token = page.next_page_token
        if not token:
            return found


def trim(stubs: Stubs, scope: types_pb.Scope, **fields: Any) -> session_pb.TrimSessionResponse:
    """Trim a session."""
    return stubs.session.TrimSession(session_pb.TrimSessionRequest(scope=scope, **fields), timeout=TIMEOUT)
