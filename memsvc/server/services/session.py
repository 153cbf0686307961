"""Servicer of SessionService."""

# ruff: noqa: N802, ARG002 - names and arguments are gRPC's
from __future__ import annotations

from typing import Any, TypeAlias

import grpc

from memsvc.domain.search import PageCursor
from memsvc.domain.write_requests import WaitFor
from memsvc.server import tokens
from memsvc.server.requests import session as requests
from memsvc.server.responses import session as responses
from memsvc.server.server_context import ServerContext
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import session_service_pb2_grpc as pb_grpc

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class SessionServicer(pb_grpc.SessionServiceServicer):
    """Stores conversations."""

    def __init__(self, server: ServerContext) -> None:
        self._sessions = server.application.sessions
        self._waits = server.waits
        self._write = server.executors.write
        self._meta = server.executors.meta
        self._language = server.executors.language

    async def CreateSession(
        self, request: session_pb.CreateSessionRequest, context: Context
    ) -> session_pb.CreateSessionResponse:
        """Open a session."""
        new = requests.create_session_request(request)
        opened = await self._write.run(self._sessions.lifecycle.create, new.scope, new.session, new.request_id)
        return session_pb.CreateSessionResponse(session=responses.session_to_proto(opened.value))

    async def AppendMessages(
        self, request: session_pb.AppendMessagesRequest, context: Context
    ) -> session_pb.AppendMessagesResponse:
        """Append messages. A hundred long ones are decoded in the thread, too."""

        def append() -> tuple[session_pb.AppendMessagesResponse, int, WaitFor]:
            new = requests.append_messages_request(request)
            answer = self._sessions.appender.append(new.scope, new.messages, new.request_id)
            return responses.append_messages_response(answer), answer.position, new.wait_for

        response, position, wait_for = await self._write.run(append)
        await self._indexed(position, wait_for)
        return response

    async def GetSession(
        self, request: session_pb.GetSessionRequest, context: Context
    ) -> session_pb.GetSessionResponse:
        """Return one session."""
        counted = await self._meta.run(self._sessions.reader.get, requests.get_session_request(request))
        return session_pb.GetSessionResponse(session=responses.session_to_proto(counted))

    async def ListSessions(
        self, request: session_pb.ListSessionsRequest, context: Context
    ) -> session_pb.ListSessionsResponse:
        """Return a page of the project's sessions."""
        page = requests.list_sessions_request(request)

        def read() -> session_pb.ListSessionsResponse:
            found, following = self._sessions.reader.page(
                page.scope, states=page.states, before=page.before, limit=page.limit
            )
            return session_pb.ListSessionsResponse(
                sessions=[responses.session_to_proto(counted) for counted in found],
                next_page_token=_next_page_token(following, request),
            )

        return await self._meta.run(read)

    async def ListMessages(
        self, request: session_pb.ListMessagesRequest, context: Context
    ) -> session_pb.ListMessagesResponse:
        """Return a page of a session's messages."""
        scope, page = requests.list_messages_request(request)

        def read() -> session_pb.ListMessagesResponse:
            found, following = self._sessions.reader.messages(scope, page)
            return session_pb.ListMessagesResponse(
                messages=[responses.message_to_proto(message) for message in found],
                next_page_token=_next_page_token(following, request),
            )

        return await self._meta.run(read)

    async def TrimSession(
        self, request: session_pb.TrimSessionRequest, context: Context
    ) -> session_pb.TrimSessionResponse:
        """Archive the oldest messages and store their summary."""
        session = requests.trim_session_request(request)
        trimming = self._sessions.trimmer
        executor = self._language if trimming.asks_a_model else self._write
        trimmed = await executor.run(trimming.trim, session.scope, session.trim, session.request_id)
        await self._indexed(trimmed.position, session.wait_for)
        return responses.trim_session_response(trimmed)

    async def CloseSession(
        self, request: session_pb.CloseSessionRequest, context: Context
    ) -> session_pb.CloseSessionResponse:
        """End a session."""
        scope, request_id = requests.close_session_request(request)
        closed = await self._write.run(self._sessions.lifecycle.close, scope, request_id)
        return session_pb.CloseSessionResponse(session=responses.session_to_proto(closed.value))

    async def ReopenSession(
        self, request: session_pb.ReopenSessionRequest, context: Context
    ) -> session_pb.ReopenSessionResponse:
        """Reopen a session that was closed."""
        session = requests.reopen_session_request(request)
        reopened = await self._write.run(
            self._sessions.lifecycle.reopen, session.scope, session.on_open, session.request_id
        )
        return session_pb.ReopenSessionResponse(session=responses.session_to_proto(reopened.value))

    async def _indexed(self, position: int, wait_for: WaitFor) -> None:
        if wait_for is WaitFor.INDEXED:
            await self._waits.stored(position)


def _next_page_token(
    following: int | None, request: session_pb.ListSessionsRequest | session_pb.ListMessagesRequest
) -> str:
    return "" if following is None else tokens.list_token(PageCursor(None, following), tokens.digest(request))
