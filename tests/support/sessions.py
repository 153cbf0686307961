"""The calls about sessions that several tests make, in short."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memsvc.v1 import session_service_pb2 as pb
from memsvc.v1 import types_pb2 as types
from tests.support.rpc import TIMEOUT
from tests.support.server_process import Stubs

SYSTEM, USER, ASSISTANT, TOOL = 1, 2, 3, 4
ACTIVE, CLOSED, ARCHIVED = 1, 2, 3


def place(user: str, session: str = "s", project: str = "") -> types.Scope:
    """Return the scope of a session."""
    return types.Scope(user_id=user, project_id=project, session_id=session)


def say(content: str, role: int = USER, **fields: Any) -> pb.NewMessage:
    """Return a message."""
    return pb.NewMessage(role=role, content=content, **fields)


def open_session(stubs: Stubs, scope: types.Scope, **fields: Any) -> pb.Session:
    """Open a session."""
    return stubs.session.CreateSession(pb.CreateSessionRequest(scope=scope, **fields), timeout=TIMEOUT).session


def append(
    stubs: Stubs, scope: types.Scope, messages: Sequence[pb.NewMessage | str], **fields: Any
) -> pb.AppendMessagesResponse:
    """Append messages; plain texts are the user's."""
    given = [say(one) if isinstance(one, str) else one for one in messages]
    request = pb.AppendMessagesRequest(scope=scope, messages=given, **fields)
    return stubs.session.AppendMessages(request, timeout=TIMEOUT)


def show(stubs: Stubs, scope: types.Scope) -> pb.Session:
    """Return a session."""
    return stubs.session.GetSession(pb.GetSessionRequest(scope=scope), timeout=TIMEOUT).session


def listed(stubs: Stubs, scope: types.Scope, **fields: Any) -> list[pb.Session]:
    """Return all sessions of a list, page by page."""
    found: list[pb.Session] = []
    token = ""
    while True:
        request = pb.ListSessionsRequest(scope=scope, page_token=token, **fields)
        page = stubs.session.ListSessions(request, timeout=TIMEOUT)
        found.extend(page.sessions)
        token = page.next_page_token
        if not token:
            return found


def said(stubs: Stubs, scope: types.Scope, **fields: Any) -> list[pb.Message]:
    """Return all messages of a session, page by page."""
    found: list[pb.Message] = []
    token = ""
    while True:
        request = pb.ListMessagesRequest(scope=scope, page_token=token, **fields)
        page = stubs.session.ListMessages(request, timeout=TIMEOUT)
        found.extend(page.messages)
        token = page.next_page_token
        if not token:
            return found


def trim(stubs: Stubs, scope: types.Scope, **fields: Any) -> pb.TrimSessionResponse:
    """Trim a session."""
    return stubs.session.TrimSession(pb.TrimSessionRequest(scope=scope, **fields), timeout=TIMEOUT)
