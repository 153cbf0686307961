"""Calls of SessionService."""
# ruff: noqa: ASYNC109 - the timeouts go to the service, too

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import Any, Literal
from uuid import uuid4

from memsvc.client import to_proto
from memsvc.client.channel import ScopedMethods
from memsvc.client.request_types import Message, WaitFor
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb

SessionState = Literal["ACTIVE", "CLOSED", "ARCHIVED"]
AutoTrim = Literal["AT_LIMIT", "NEVER"]
OnOpen = Literal["ARCHIVE_OTHERS", "KEEP_OTHERS"]


class SessionMethods(ScopedMethods):
    """The calls about sessions. *session_id* names the session; without it, the client's own is meant."""

    async def create_session(  # noqa: PLR0913 - a field each
        self,
        session_id: str = "",
        *,
        title: str = "",
        token_limit: int = 0,
        auto_trim: AutoTrim | None = None,
        on_open: OnOpen | None = None,
        flush: bool | None = None,
        metadata: Mapping[str, Any] | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> session_pb.Session:
        """Open a session; without any id the service makes one.

        With *on_open* ARCHIVE_OTHERS, or if the settings say so, the other active sessions of the same user and
        project are archived, and memories are extracted from them as *flush* says: see `close_session`.
        """
        request = session_pb.CreateSessionRequest(
            scope=self._session(session_id),
            title=title,
            token_limit=token_limit,
            auto_trim=_value("auto_trim", auto_trim),
            on_open=_value("on_open", on_open),
            flush=flush,
            metadata=to_proto.struct_to_proto(metadata or {}),
            request_id=request_id or str(uuid4()),
        )
        return (await self._remote.unary(self._remote.sessions.CreateSession, request, timeout)).session

    async def append_messages(
        self,
        messages: Iterable[Message | types_pb.ChatMessage],
        *,
        session_id: str = "",
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> session_pb.AppendMessagesResponse:
        """Append 1 to 100 messages, all or none, in order; they are durable when this returns."""
        request = session_pb.AppendMessagesRequest(
            scope=self._session(session_id),
            messages=[to_proto.message_to_proto(message) for message in messages],
            wait_for=to_proto.named("wait_for", wait_for),
            request_id=request_id or str(uuid4()),
        )
        return await self._remote.unary(self._remote.sessions.AppendMessages, request, timeout)

    async def pop_messages(
        self,
        count: int = 1,
        *,
        session_id: str = "",
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> session_pb.PopMessagesResponse:
        """Remove the last 1 to 100 live messages, and return them, oldest first; each can be restored."""
        request = session_pb.PopMessagesRequest(
            scope=self._session(session_id),
            count=count,
            wait_for=to_proto.named("wait_for", wait_for),
            request_id=request_id or str(uuid4()),
        )
        return await self._remote.unary(self._remote.sessions.PopMessages, request, timeout)

    async def clear_messages(
        self, session_id: str = "", *, wait_for: WaitFor | None = None, timeout: float | None = None
    ) -> session_pb.ClearMessagesResponse:
        """Remove all messages of a session, the archived ones too; the session stays."""
        request = session_pb.ClearMessagesRequest(
            scope=self._session(session_id), wait_for=to_proto.named("wait_for", wait_for)
        )
        return await self._remote.unary(self._remote.sessions.ClearMessages, request, timeout)

    async def get_session(self, session_id: str = "", *, timeout: float | None = None) -> session_pb.Session:
        """Return one session, whatever its state."""
        request = session_pb.GetSessionRequest(scope=self._session(session_id))
        return (await self._remote.unary(self._remote.sessions.GetSession, request, timeout)).session

    async def list_sessions(
        self, states: Sequence[SessionState] = (), *, page_size: int = 0, timeout: float | None = None
    ) -> AsyncGenerator[session_pb.Session, None]:
        """Yield the sessions of the client's project, the newest first, fetching page by page."""
        request = session_pb.ListSessionsRequest(
            scope=self.scope,
            states=[_value("state", state) for state in states],
            page_size=page_size,
        )
        async for page in self._remote.pages(self._remote.sessions.ListSessions, request, timeout):
            for session in page.sessions:
                yield session

    async def list_messages(
        self,
        session_id: str = "",
        *,
        include_archived: bool = False,
        newest_first: bool = False,
        page_size: int = 0,
        timeout: float | None = None,
    ) -> AsyncGenerator[types_pb.ChatMessage, None]:
        """Yield the messages of a session in their order, or the other way round, fetching page by page."""
        request = session_pb.ListMessagesRequest(
            scope=self._session(session_id),
            include_archived=include_archived,
            newest_first=newest_first,
            page_size=page_size,
        )
        async for page in self._remote.pages(self._remote.sessions.ListMessages, request, timeout):
            for message in page.messages:
                yield message

    async def trim_session(
        self,
        session_id: str = "",
        *,
        target_tokens: int | None = None,
        keep_rounds: int | None = None,
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> session_pb.TrimSessionResponse:
        """Archive the oldest messages and store a summary of them; without numbers, as the service's settings say."""
        request = session_pb.TrimSessionRequest(
            scope=self._session(session_id),
            target_tokens=target_tokens,
            keep_rounds=keep_rounds,
            wait_for=to_proto.named("wait_for", wait_for),
            request_id=request_id or str(uuid4()),
        )
        return await self._remote.unary(self._remote.sessions.TrimSession, request, timeout)

    async def close_session(
        self,
        session_id: str = "",
        *,
        flush: bool | None = None,
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> session_pb.CloseSessionResponse:
        """End a session; it stays readable.

        Memories are extracted from its messages, each once, as *flush* or else the settings say; `flush.results` of
        the response lists them.
        """
        request = session_pb.CloseSessionRequest(
            scope=self._session(session_id),
            flush=flush,
            wait_for=to_proto.named("wait_for", wait_for),
            request_id=request_id or str(uuid4()),
        )
        return await self._remote.unary(self._remote.sessions.CloseSession, request, timeout)

    async def reopen_session(
        self,
        session_id: str = "",
        *,
        on_open: OnOpen | None = None,
        flush: bool | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> session_pb.Session:
        """Go on with a session that was closed or archived; *on_open* and *flush* as in `create_session`."""
        request = session_pb.ReopenSessionRequest(
            scope=self._session(session_id),
            on_open=_value("on_open", on_open),
            flush=flush,
            request_id=request_id or str(uuid4()),
        )
        return (await self._remote.unary(self._remote.sessions.ReopenSession, request, timeout)).session

    def _session(self, session_id: str) -> types_pb.Scope:
        if not session_id:
            return self.scope
        scope = types_pb.Scope()
        scope.CopyFrom(self.scope)
        scope.session_id = session_id
        return scope


_ENUMS = {
    "role": (types_pb.MessageRole, "MESSAGE_ROLE_"),
    "state": (session_pb.SessionState, "SESSION_STATE_"),
    "auto_trim": (session_pb.SessionAutoTrim, "SESSION_AUTO_TRIM_"),
    "on_open": (session_pb.SessionOnOpen, "SESSION_ON_OPEN_"),
}


def _value(field: str, name: str | None) -> Any:
    kind, prefix = _ENUMS[field]
    return 0 if name is None else to_proto.enum_to_proto(field, kind, prefix, name)
